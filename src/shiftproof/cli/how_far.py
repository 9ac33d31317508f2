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
    data: str | None,
    runs: Sequence[Path],
    options: dict[str, Any],
    *,
    trust: bool,
    out: Path | None,
    in_report: bool,
    json: bool,
) -> None:
    """Measure, and show or write what was found; with `in_report` every run keeps it."""
    from shiftproof.errors import UsageError
    from shiftproof.runs import open_run
    from shiftproof.runs.distances import keep_pairs
    from shiftproof.runs.how_far import measure_distances
    from shiftproof.runs.trust import Trust

    if in_report and not runs:
        raise UsageError("--in-report writes the report of a run: give --run")
    found = measure_distances(data, list(runs), trust=Trust((), trust), progress="lines", **options)
    written = [] if out is None else [_write(found, out)]
    for run in runs if in_report else ():
        keep_pairs(run, found.pairs)
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
    for one in found.pairs:
        rows.setdefault((one.kind, one.reference, one.target), {})[one.measure] = value_words(one)
    say(f"How far apart, by features of {found.features} (± standard error; >= is proven with 99 %, - proves nothing):")
    proven = [
        name for name in measures if any(one.measure == name and one.standard_error is None for one in found.pairs)
    ]
    # all in one table would be too wide for a terminal
    for some in ([name for name in measures if name not in proven], proven):
        if some:
            cells = [[_name(key), *(row.get(name, "") for name in some)] for key, row in rows.items()]
            show_table(["domains", *(MEASURES[name].title for name in some)], cells)
    # a bound counts those that its classifier was not fitted to
    sizes = sorted({size for one in found.pairs if one.kind == "pair" and one.level is None for size in one.n})
    if sizes:
        many = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
        say(f"{many} samples (or groups) of each domain. Frechet and W1 of few samples are too large: compare equal n.")
    for reason in (found.skipped or {}).values():
        say(f"note: {reason}.")
    if found.gaps:
        cells = [
            [gap.model, " + ".join(gap.sources), gap.target, gap.figure, f"{gap.value:+.3f}"] for gap in found.gaps
        ]
        say("What models lose from their sources to a target:")
        show_table(["model", "sources", "target", "gap in", "gap"], cells)
    if found.related:
        _show_related(found)
    if found.gaps and not found.related:
        say("Whether distance goes with the gap takes two targets or more: give --run for each run of a leave-one-out.")


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
        say(f"Undecidable with {few[0].n} targets: no order of so few has a p-value below {few[0].smallest_p:.2g}.")


def _name(key: tuple[str, str, str]) -> str:
    kind, reference, target = key
    return f"{reference}: two halves" if kind == "halves" else f"{reference} | {target}"


def _write(found: Distances, folder: Path) -> Path:
    from shiftproof.execution import write_atomically
    from shiftproof.report.cells import csv_text

    columns = ["measure", "features", "kind", "reference", "target", "value", "standard_error", "low", "high", "level"]
    rows = [[getattr(one, name) for name in columns] + list(one.n) for one in found.pairs]
    path = folder / "distances.csv"
    write_atomically(path, csv_text([[*columns, "n_reference", "n_target"], *rows]).encode())
    return path
