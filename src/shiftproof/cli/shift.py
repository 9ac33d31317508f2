"""`shiftproof shift`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftproof.cli.how_far import shares_of, show_distances
from shiftproof.cli.options import EXIT_FAILED, AsJson, SetOfData, names_of
from shiftproof.cli.show import say, show_json
from shiftproof.cli.show_shift import shift_json, show_shift

if TYPE_CHECKING:
    from shiftproof.runs.shift import Shift
    from shiftproof.runs.watch import Look

__all__ = ["command"]


def command(
    run: Annotated[
        list[Path] | None,
        typer.Option("--run", help="The folder of a finished run; with --distances, several of one data set."),
    ] = None,
    distances: Annotated[
        bool,
        typer.Option("--distances", help="How far apart all domains are, by several distances between features."),
    ] = False,
    data: Annotated[
        str | None,
        typer.Option("--data", help="With --distances, in place of --run: a data set's name, folder:PATH, ..."),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option("--source", help="With --distances: domains that are measured against --target as one: a,b."),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            "--weights", help="With --source: shares of the sources in the mixture: 2,1.", show_default="equal"
        ),
    ] = None,
    features: Annotated[
        str,
        typer.Option(
            "--features",
            help="With --distances: pixels, efficientnet-lite0, minilm (texts) or file:MODEL, whose encoder is taken.",
        ),
    ] = "auto",
    measures: Annotated[
        str | None,
        typer.Option(
            "--measures",
            help="With --distances: some of frechet, frechet-extrapolated, kernel, sliced-wasserstein, wasserstein, "
            "a-distance, tv-bound, w1-bound, same-law.",
            show_default="all",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            help="Where the model is shipped to: folder:PATH with images, labelled or not, or a domain by name.",
        ),
    ] = None,
    domain: Annotated[
        str | None,
        typer.Option(
            "--domain",
            help="Domains to compare with: a,b.",
            show_default="all that are certified; with --distances, all",
        ),
    ] = None,
    space: Annotated[
        str,
        typer.Option(
            "--space",
            help="Where distances are measured: pixels, representation (of the run's model), parameters (that its "
            "noise moves); auto is where the radii are.",
        ),
    ] = "auto",
    critic: Annotated[
        str,
        typer.Option(
            "--critic", help="linear, mlp-cayley, cnn-cayley; of several, with commas, held-out samples choose one."
        ),
    ] = "linear",
    level: Annotated[
        float, typer.Option("--level", help="Probability that all that is said of the target holds together.")
    ] = 0.99,
    limit: Annotated[int, typer.Option("--limit", min=8, help="Samples of either domain, at most, at random.")] = 1_000,
    interval: Annotated[
        str, typer.Option("--interval", help="How means are bounded: betting, or bernstein (wider, in closed form).")
    ] = "betting",
    save_profile: Annotated[
        Path | None,
        typer.Option(
            "--save-profile",
            help="Write what raises the alarm elsewhere, without images; --target is an example (exit 0).",
        ),
    ] = None,
    profile: Annotated[
        Path | None, typer.Option("--profile", help="A file of --save-profile, in place of --run.")
    ] = None,
    watch: Annotated[
        float | None,
        typer.Option(
            "--watch", min=0.01, help="With --profile: look at the folder every so many seconds, until alarm."
        ),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option("--state", help="With --profile: where evidence is kept, to continue later. A file counts once."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, help="Seed of folds and shuffling.", show_default="0; of a stream, drawn"),
    ] = None,
    set_: SetOfData = None,
    trust: Annotated[
        bool,
        typer.Option("--trust", help="Run the code that the run's folder names, and fetch the data that it names."),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Folder for a drawing of the critic's values on target and domains; with --distances, for "
            "distances.csv.",
        ),
    ] = None,
    in_report: Annotated[
        bool, typer.Option("--in-report", help="Keep the distances in the run, and write its report with them.")
    ] = False,
    json: AsJson = False,
) -> None:
    """What a run guarantees near its domains, and whether a target lies provably outside; exit 2 if it does.

    Without a target: up to which distance W1 the run guarantees anything around each of its domains. With one, from its
    inputs alone: a lower bound on its distance from each domain. No labels are needed. That a target lies inside what
    is guaranteed can't be proven, and is never said.

    A profile (--save-profile) holds a critic and bounds, and no image: with --profile it judges what arrives in a
    folder, one look or --watch, with an alarm that is false with probability 1 - level at most, over all looks.

    With --distances: how far apart all domains of a data set or of runs are (Frechet, kernel, Wasserstein, domain
    classifiers, a permutation test), with standard errors, beside what the runs' models lose on the way.
    """
    with_distances: dict[str, Any] = {"--data": data, "--source": source, "--weights": weights, "--measures": measures}
    if distances:
        chosen = {
            "target": target,
            "source": names_of(source),
            "domain": names_of(domain),
            "weights": None if weights is None else shares_of(weights),
            "features": features,
            "measures": names_of(measures),
            "limit": limit,
            "seed": seed or 0,
        }
        usual = {"--space": space == "auto", "--critic": critic == "linear", "--level": level == 0.99}
        _refuse_beside_distances(profile, save_profile, watch, state, usual | {"--interval": interval == "betting"})
        show_distances(
            _with_options(data, set_), run or (), chosen, trust=trust, out=out, in_report=in_report, json=json
        )
        return
    with_distances |= {"--features": None if features == "auto" else features, "--set": set_ or None}
    _check_without_distances(run, with_distances)
    only = None if not run else run[0]
    with_run = {"--save-profile": save_profile, "--domain": domain, "--out": out, "--in-report": in_report or None}
    _check_options(only, profile, target, with_run, {"--watch": watch, "--state": state})
    if only is None:
        assert profile is not None
        _follow(profile, target, watch, state, level, seed, json)
        return
    options = {"space": space, "critics": names_of(critic) or [], "level": level, "limit": limit, "interval": interval}
    found = _compare(only, target, names_of(domain), options | {"seed": seed or 0}, trust, save_profile)
    written = ([] if save_profile is None else [save_profile]) + ([] if out is None else _draw(found, out))
    written += [_keep(only, found)] if in_report else []
    if json:
        show_json(shift_json(found) | ({"written": [str(path) for path in written]} if written else {}))
    else:
        show_shift(found)
        for path in written:
            typer.echo(f"written {path}")
    # the example of a profile is meant to lie outside
    if found.outside and save_profile is None:
        raise typer.Exit(EXIT_FAILED)


def _refuse_beside_distances(
    profile: Path | None, save_profile: Path | None, watch: float | None, state: Path | None, usual: dict[str, bool]
) -> None:
    from shiftproof.errors import UsageError

    alarm = {"--profile": profile, "--save-profile": save_profile, "--watch": watch, "--state": state}
    given = [name for name, value in alarm.items() if value is not None] + [
        name for name, is_so in usual.items() if not is_so
    ]
    if given:
        raise UsageError(
            f"{given[0]} is about guarantees and alarms, and --distances does not take it (its bounds hold with 99 %)"
        )


def _with_options(data: str | None, changes: list[str] | None) -> Any:
    """The data with --set data.size=64."""
    from shiftproof.errors import UsageError
    from shiftproof.runs.study_files import apply_override

    if not changes:
        return data
    if data is None:
        raise UsageError("--set changes options of --data, and there is none")
    document: dict[str, Any] = {"name": data}
    for change in changes:
        apply_override(document, change.removeprefix("data."))
    return document


def _check_without_distances(runs: list[Path] | None, with_distances: dict[str, Any]) -> None:
    from shiftproof.errors import UsageError

    given = next((name for name, value in with_distances.items() if value is not None), None)
    if given is not None:
        raise UsageError(f"{given} goes with --distances: how far apart domains are by several measures")
    if runs is not None and len(runs) > 1:
        raise UsageError(
            f"{len(runs)} runs were given, and one is asked what it guarantees; several go with --distances"
        )


def _check_options(
    run: Path | None, profile: Path | None, target: str | None, with_run: dict[str, Any], with_profile: dict[str, Any]
) -> None:
    """Refuse options that do not go together; those that were not given are None."""
    from shiftproof.errors import UsageError

    if (run is None) == (profile is None):
        raise UsageError("give --run, the folder of a run, or --profile, a file of --save-profile; one of the two")
    for name, value in (with_profile if profile is None else with_run).items():
        if value is not None and profile is None:
            raise UsageError(f"{name} goes with --profile: save one first with --save-profile FILE")
        if value is not None:
            raise UsageError(f"{name} goes with --run, not with --profile")
    if profile is not None or target is not None:
        return
    if with_run["--save-profile"] is not None:
        raise UsageError(
            "--save-profile needs --target: a critic is fitted to see something, and without an example of what may "
            "arrive there is nothing to fit it to. Give data that has drifted, or corrupt some: shiftproof corrupt"
        )
    for name in ("--out", "--in-report"):
        if with_run[name] is not None:
            raise UsageError(f"{name} is about a target: give --target")


def _compare(
    run: Path, target: str | None, domains: list[str] | None, options: dict[str, Any], trust: bool, save: Path | None
) -> Shift:
    from shiftproof.errors import UsageError
    from shiftproof.runs import open_run
    from shiftproof.runs.shift import profile_for, shift
    from shiftproof.runs.trust import Trust
    from shiftproof.theory.profile import write_profile

    opened = open_run(run)
    found = shift(opened, target, domain=domains, trust=Trust((), trust), progress="lines", **options)
    if save is not None:
        if len(found.comparisons) != 1:
            names = ", ".join(f"{one.domain} ({one.distance.norm})" for one in found.comparisons)
            raise UsageError(
                f"a profile is of one domain and one norm, and here are {names}: give --domain, and --space pixels or "
                "parameters if norms differ"
            )
        write_profile(save, profile_for(opened, found.comparisons[0]))
    return found


def _follow(
    path: Path, target: str | None, watch: float | None, state: Path | None, level: float, seed: int | None, json: bool
) -> None:
    from shiftproof.errors import UsageError
    from shiftproof.runs.watch import open_alarm, watch_folder
    from shiftproof.theory.profile import read_profile

    if target is None or not target.startswith("folder:"):
        raise UsageError("--profile judges a folder: give --target folder:PATH")
    alarm = open_alarm(read_profile(path), state, level, seed)
    folder = Path(target.removeprefix("folder:"))
    last = None
    if watch is not None and not alarm.raised:
        typer.echo(f"watching {folder} every {watch:g} s, until alarm or Ctrl-C", err=True)
    for last in watch_folder(alarm, folder, state=state, every=watch or 0.0, looks=1 if watch is None else None):
        _show_look(last, json)
    alarm = alarm if last is None else last.alarm
    if last is not None and watch is None and not last.new and alarm.evidence.count and not json:
        say(f"nothing new in {folder}; {alarm.sentence}.")
    if last is not None and not alarm.evidence.count:
        reason = next(iter(last.skipped.values()), "it holds no image")
        raise UsageError(f"nothing in {folder} can be judged: {reason}")
    if json:
        kept = alarm.evidence
        counts = {"samples": kept.count, "log_evidence": kept.log, "skipped": len(last.skipped) if last else 0}
        show_json({"alarm": alarm.raised, **counts, "level": level, "sentence": alarm.sentence})
    elif last is None:
        say(alarm.sentence)
    if alarm.raised:
        raise typer.Exit(EXIT_FAILED)


def _show_look(look: Look, json: bool) -> None:
    for name, reason in look.skipped.items():
        typer.echo(f"note: {name} was passed over: {reason}", err=True)
    if not json and (look.new or look.alarm.raised):
        say(f"{look.alarm.sentence}.")


def _draw(found: Shift, folder: Path) -> list[Path]:
    from shiftproof.runs.shift_picture import write_pictures

    return write_pictures(found, folder)


def _keep(run: Path, found: Shift) -> Path:
    from shiftproof.runs import open_run
    from shiftproof.runs.distances import keep_distances

    keep_distances(run, [one.known for one in found.comparisons])
    return open_run(run).export()[0]
