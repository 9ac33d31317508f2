"""How results are shown on the command line: tables, findings, costs, and the one JSON object of --json."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shiftproof.report import AccuracyTable
    from shiftproof.report.claims import ClaimOutcome, RequiredClaims
    from shiftproof.report.gallery.edited import EditedText
    from shiftproof.report.requirements import ComparedOutcome, Outcome
    from shiftproof.report.scores import ScoreTable
    from shiftproof.report.sections.measures import SideBySide
    from shiftproof.report.tables import Table
    from shiftproof.runs import Run
    from shiftproof.runs.estimate import StudyCost
    from shiftproof.runs.prepare import Prepared
    from shiftproof.types import Finding

__all__ = [
    "console",
    "duration",
    "no_target",
    "outcomes_now",
    "say",
    "show_accuracy",
    "show_claims",
    "show_costs",
    "show_edits",
    "show_findings",
    "show_json",
    "show_measures",
    "show_outcomes",
    "show_page_table",
    "show_scores",
    "show_table",
]

_COLUMN = 16
"""Characters of a column of a table, at least, where there is room: those of an interval."""
DAY = 24 * 3600
"""Seconds from which what a study takes is told in hours of a GPU as well."""
STYLES = {"pass": "green", "warn": "yellow", "fail": "bold red"}


def no_target(prepared: Prepared) -> str:
    """What a command without --target says before it starts: that nothing is unseen, and how to change that."""
    study, names = prepared.study, prepared.data.sources.names
    if study.trains:
        what, how = "no domain is left out of training", "to leave one out"
    else:
        what, how = "all domains count as those that the model was trained on", "to say where it is shipped to"
    if study.source is not None:
        # of sources that were named none can be the target
        hint = f"{how}: --target and the name of another domain"
    else:
        hint = f"{how}: --target {names[-1]}" if len(names) > 1 else f"{names[0]} is the only domain of this data"
    return (
        f"target   none: without --target {what}, so that nothing is unseen and points lost can't be measured; {hint}"
    )


def show_json(value: dict[str, Any]) -> None:
    """One JSON object on one line."""
    typer.echo(json.dumps(value, ensure_ascii=False))


def show_table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    """A table on stdout; columns wrap rather than cut."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    cells = [list(row) for row in rows]
    for index, name in enumerate(header):
        words = [word for cell in [name, *(row[index] for row in cells)] for word in cell.split()]
        # a word of ordinary length is not broken
        table.add_column(Text(name), overflow="fold", min_width=max((len(w) for w in words if len(w) <= 16), default=1))
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))
    console().print(table)


def show_measures(table: SideBySide) -> None:
    """Everything that was measured, one row each, on every domain; what is guaranteed says so."""
    show_page_table(table.to_table({}))
    if table.note:
        typer.echo(f"{table.note}.\n")


def show_accuracy(table: AccuracyTable) -> None:
    """Accuracy per model and domain, each with its interval below it."""
    show_page_table(table.to_table("accuracy", {}))


def show_scores(table: ScoreTable) -> None:
    """Correlations and errors per model and domain, each with its interval below it."""
    show_page_table(table.to_table("scores", {}))


def show_page_table(table: Table) -> None:
    """A table of the report on stdout: the same rows, columns and words as on the page."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    depth = max(len(heading.below) for heading in table.headings)
    for place, heading in enumerate(table.headings):
        # names stand in one line, with what is below them
        head = "\n".join([heading.text, *heading.below, *[""] * (depth - len(heading.below))])
        justify: Literal["right", "left"] = "right" if place else "left"
        shown.add_column(Text(head), overflow="fold", justify=justify, style="bold" if heading.tint else "")
    several = len({row.group for row in table.rows}) > 1
    for row in table.rows:
        group = f"{row.group}: " if several else ""
        cells = [
            Text.assemble("" if place else group, cell.text, *(("\n" + line, "dim") for line in cell.below if line))
            for place, cell in enumerate(row.cells)
        ]
        shown.add_row(*cells)
    console(_COLUMN * len(table.headings)).print(shown)


def show_costs(cost: StudyCost, as_json: bool) -> None:
    """What a study takes: forward passes and time of every stage, and memory."""
    from dataclasses import asdict

    if as_json:
        show_json(asdict(cost))
        return
    rows = [
        [one.model, one.stage, f"{one.forward_passes:,}", duration(one.seconds), duration(one.most_seconds)]
        for one in cost.costs
    ]
    if cost.besides_seconds:
        besides = duration(cost.besides_seconds)
        rows.append(["all", "starting, and the report", "", besides, besides])
    rows.append(["total", "", f"{cost.forward_passes:,}", duration(cost.seconds), duration(cost.most_seconds)])
    show_table(["model", "stage", "forward passes", "time", "at most"], rows)
    if cost.cap_seconds is not None:
        within = "within" if cost.seconds <= cost.cap_seconds else "beyond"
        say(f"The study has a cap of {duration(cost.cap_seconds)}: what is expected is {within} it.")
    if cost.precisions:
        say(cost.precisions)
    if cost.seconds > DAY and cost.gpu_hours is not None:
        say(f"{_on_a_gpu(cost)}.")
    if cost.unfetched:
        names = ", ".join(cost.unfetched)
        say(f"Nothing was fetched: tried with random weights in place of published ones: {names}.")
    if cost.missing:
        say(f"Tried on blank images of the data's shape, because the data is not here: {cost.missing}")
    say(f"memory about {cost.memory_mb:,.0f} MB. Time was measured on this machine just now, on a few steps.")


def _on_a_gpu(cost: StudyCost) -> str:
    """Counted operations as hours, rounded to what such a count can tell."""
    from shiftproof.runs.estimate import GPU_OPERATIONS

    expected, most = (f"{float(f'{hours:.2g}'):,g}" for hours in cost.gpu_hours or ())
    more = "" if most == expected else f" ({most} at most)"
    return (
        f"About {expected} hours{more} on a GPU that gets {GPU_OPERATIONS / 1e12:g} TFLOP/s done: an estimate from "
        "counted operations, not measured"
    )


def show_edits(edited: Sequence[EditedText], most: int = 3) -> None:
    """A few texts that an attack has overturned, with the words that it deleted and inserted; marks without colours."""
    from rich.text import Text

    from shiftproof.report.word_diff import marked

    out, styles = console(), {"deleted": "red strike", "inserted": "green underline"}
    for one in edited[-most:]:
        say(f"\n{one.domain}, {one.edits}: {one.label} is taken for {one.answer}")
        if out.is_terminal and not out.no_color:
            out.print(Text(" ").join(Text(piece.text, styles.get(piece.kind, "")) for piece in one.pieces))
        else:
            typer.echo(marked(list(one.pieces)))


def outcomes_now(run: Run, require: Sequence[str] | None) -> list[Outcome | RequiredClaims]:
    """Of what this call requires; the report keeps what earlier calls required as well."""
    return [one for one in run.outcomes if one.text in set(require or ())]


def show_outcomes(outcomes: Iterable[Outcome | ComparedOutcome | RequiredClaims]) -> None:
    """One line a requirement: whether it is met, and by which figure."""
    for one in outcomes:
        say(f"{'met' if one.met else 'failed':11}{one}", "green" if one.met else "red")


def show_claims(claims: Sequence[ClaimOutcome]) -> None:
    """The verdict on every claim, with the difference of the part that is farthest from being supported."""
    from shiftproof.report.sections.claims import short_table

    show_page_table(short_table(claims))
    for one in claims:
        say(f"{one.id}  {one.says}: {one.verdict}")


def show_findings(findings: Iterable[Finding]) -> None:
    """One line a finding."""
    from rich.text import Text

    out = console()
    for finding in findings:
        line = Text.assemble((f"{finding.level:5}", STYLES[finding.level]), finding.message)
        # on a terminal lines break between words; in a log a finding is one line
        out.print(line, soft_wrap=not out.is_terminal)


def say(text: str, style: str = "") -> None:
    """A sentence on stdout; on a terminal its lines break between words, in a log it is one line."""
    from rich.text import Text

    out = console()
    out.print(Text(text, style), soft_wrap=not out.is_terminal)


def console(width: int = 120) -> Any:
    """The terminal, or in a log one of at least this width."""
    import shutil

    from rich.console import Console

    terminal = Console()
    # in a log there is no terminal to fit; a table that is cut to 80 columns is no use there
    return terminal if terminal.is_terminal else Console(width=max(120, width, shutil.get_terminal_size().columns))


def duration(seconds: float) -> str:
    """A time as people say it."""
    from shiftproof.execution.progress import duration as text

    return text(seconds)
