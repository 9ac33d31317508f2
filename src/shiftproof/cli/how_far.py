"""`shiftproof shift --distances`: how far apart domains are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from shiftproof.cli.show import say, show_json, show_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shiftproof.runs.how_far import Distances

__all__ = ["shares_of", "show_distances"]


def show_distances(
    data: Any,
    runs: Sequence[Path],
    options: dict[str, Any],
    *,
    trust: bool,
    out: Path | None,
    in_report: bool,
    json: bool,
) -> None:
    """Measure, and show or write what was found; with `in_report` every run keeps it, and so does a leave-one-out."""
    from shiftproof.errors import UsageError
    from shiftproof.runs import open_run
    from shiftproof.runs.distances import keep_pairs
    from shiftproof.runs.how_far import measure_distances
    from shiftproof.runs.leave_one_out import folders_of, is_leave_one_out, open_leave_one_out
    from shiftproof.runs.trust import Trust

    if in_report and not runs:
        raise UsageError("--in-report writes the report of a run: give --run")
    several = [path for path in runs if is_leave_one_out(path)]
    each = [run for path in runs for run in (folders_of(path) if path in several else [path])]
    found = measure_distances(data, each, trust=Trust((), trust), progress="lines", **options)
    written = [] if out is None else [_write(found, out)]
    for path in {path.resolve(): path for path in several}.values() if in_report else ():
        keep_pairs(path, found.pairs, found.gaps)
        written.append(open_leave_one_out(path).export()[0])
    for run in {path.resolve(): path for path in each}.values() if in_report and not several else ():
        opened = open_run(run)
        others = [gap for gap in found.gaps if gap.run != opened.folder.name]
        keep_pairs(opened.folder, found.pairs, others)
        written.append(open_run(run).export()[0])
    if json:
        show_json(found.to_dict() | ({"written": [str(path) for path in written]} if written else {}))
        return
    _show(found)
    for path in written:
        typer.echo(f"written {path}")


def shares_of(text: str) -> tuple[float, ...]:
    """Weights of a mixture: numbers with commas, equal ones too."""
    from shiftproof.errors import UsageError

    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise UsageError(f"--weights is {text!r}; it should be a number for each source, such as 2,1,1") from error


def _show(found: Distances) -> None:
    from shiftproof.report.how_far import value_words
    from shiftproof.theory.distances.measures import MEASURES

    measures = [name for name in MEASURES if any(one.measure == name for one in found.pairs)]
    rows: dict[tuple[str, str, str], dict[str, str]] = {}
    sizes: dict[tuple[str, str, str], str] = {}
    for one in found.pairs:
        key = (one.kind, one.reference, one.target)
        rows.setdefault(key, {})[one.measure] = value_words(one)
        # a bound counts those that its classifier was not fitted to
        if one.level is None or key not in sizes:
            sizes[key] = f"{one.n[0]:,} | {one.n[1]:,}"
    say(f"How far apart, by features of {found.features} (± standard error; >= is proven with 99 %, - proves nothing):")
    estimates = [
        name for name in measures if any(one.measure == name and one.standard_error is not None for one in found.pairs)
    ]
    # all in one table would be too wide for a terminal
    for some in (estimates, [name for name in measures if name not in estimates]):
        if some:
            cells = [[_name(key), sizes[key], *(row.get(name, "") for name in some)] for key, row in rows.items()]
            show_table(["domains", "n", *(MEASURES[name].title for name in some)], cells)
    for kind, sources, target in rows:
        if kind == "mixture" and _many(sources):
            say(f"{_short(sources)} | {target}: {sources}")
    if {"frechet", "wasserstein"} & set(measures):
        say("Frechet and W1 of few samples are too large: compare rows of equal n alone, and none with two halves.")
    if {"tv-bound", "w1-bound"} & set(measures):
        say("What is proven grows with n, too: a bound that is smaller is no sign that domains are nearer.")
    for reason in (found.skipped or {}).values():
        say(f"note: {reason}.")
    if found.gaps:
        _show_gaps(found)
    if found.related:
        _show_related(found)
    elif found.gaps:
        say("Whether distance goes with the gap takes two targets or more: give --run for each run of a leave-one-out.")


def _show_gaps(found: Distances) -> None:
    """What models lose, and the distance beside it."""
    from shiftproof.report.how_far import CLEAN, by_ends, mixture_name, value_words
    from shiftproof.theory.distances.measures import MEASURES

    known = by_ends(found.pairs)
    measured = [name for name in MEASURES if any(one.measure == name for one in found.pairs)]
    shown = [name for name in ("kernel", "frechet", "tv-bound") if name in measured] or measured[:2]
    cells = []
    for gap in found.gaps:
        scale, unit = (100, " points") if gap.figure == CLEAN else (1, "")
        digits = ".1f" if gap.figure == CLEAN else ".3f"
        words = f"{scale * gap.value:+{digits}}{unit}"
        if gap.low is not None and gap.high is not None:
            words += f" ({scale * gap.low:+{digits}} to {scale * gap.high:+{digits}})"
        pairs = [known.get((name, found.features, mixture_name(gap.sources), gap.target)) for name in shown]
        distances = ["" if pair is None else value_words(pair) for pair in pairs]
        cells.append([gap.model, _short(mixture_name(gap.sources)), gap.target, gap.figure, words, *distances])
    say("What models lose from their sources to a target, and how far that is:")
    show_table(["model", "sources", "target", "lost in", "lost", *(MEASURES[name].title for name in shown)], cells)


def _show_related(found: Distances) -> None:
    from shiftproof.theory.distances.measures import MEASURES

    rows = [
        [
            one.model,
            MEASURES[one.measure].title,
            one.figure,
            *(f"{kind.value:+.2f} (p = {kind.p_value:.2g})" for kind in (one.spearman, one.kendall)),
            str(len(one.targets)),
        ]
        for one in found.related
    ]
    say("Does distance go with the gap? Rank correlations over targets, with exact p-values:")
    show_table(["model", "distance", "gap in", "Spearman", "Kendall", "targets"], rows)
    few = [one.spearman for one in found.related if one.spearman.undecidable]
    if few:
        most = max(few, key=lambda one: one.n)
        say(f"Undecidable with {most.n} targets: no order of so few has a p-value below {most.smallest_p:.2g}.")


def _name(key: tuple[str, str, str]) -> str:
    kind, reference, target = key
    return f"{reference}: two halves" if kind == "halves" else f"{_short(reference)} | {target}"


def _many(sources: str) -> bool:
    return sources.count(" + ") > 1


def _short(sources: str) -> str:
    """Many sources as their number."""
    return f"{sources.count(' + ') + 1} sources" if _many(sources) else sources


def _write(found: Distances, folder: Path) -> Path:
    from shiftproof.execution import write_atomically
    from shiftproof.report.cells import csv_text

    columns = ["measure", "features", "kind", "reference", "target", "value", "standard_error", "low", "high", "level"]
    rows = [
        [getattr(one, name) for name in columns] + [*one.n, " ".join(f"{share:g}" for share in one.weights)]
        for one in found.pairs
    ]
    path = folder / "distances.csv"
    write_atomically(path, csv_text([[*columns, "n_reference", "n_target", "weights"], *rows]).encode())
    return path
