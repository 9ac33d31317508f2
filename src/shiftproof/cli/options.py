"""Options that mean the same on every verb, and how results are shown."""

from __future__ import annotations

import json
import shlex
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shiftproof.report import AccuracyTable
    from shiftproof.report.requirements import Outcome
    from shiftproof.report.sections.measures import SideBySide
    from shiftproof.runs import Run
    from shiftproof.runs.estimate import StudyCost
    from shiftproof.types import Finding

__all__ = [
    "EXIT_FAILED",
    "Architecture",
    "AsJson",
    "Data",
    "Device",
    "Estimate",
    "Limit",
    "NoiseSeed",
    "Out",
    "Require",
    "SampleSeed",
    "Seed",
    "Set",
    "Split",
    "TrainedModel",
    "Workers",
    "absolute",
    "accuracy_json",
    "arguments",
    "duration",
    "measures_json",
    "names_of",
    "numbers_of",
    "options_of_set",
    "outcomes_now",
    "repeat_command",
    "say",
    "show_accuracy",
    "show_costs",
    "show_findings",
    "show_json",
    "show_measures",
    "show_outcomes",
    "show_table",
    "with_architecture",
]

Data = Annotated[str, typer.Option("--data", help="A data set's name, folder:PATH or hf:NAME. See: shiftproof data ls")]
Architecture = Annotated[
    str | None,
    typer.Option(
        "--architecture",
        help="What the weights of file:PATH are for, if no JSON beside them says so: cnn, or python:PKG.MOD:CLASS.",
    ),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of all randomness.")]
NoiseSeed = Annotated[
    int | None,
    typer.Option("--seed", min=0, help="Seed of the noise that certifies and votes.", show_default="drawn, and kept"),
]
SampleSeed = Annotated[
    int, typer.Option("--sample-seed", min=0, help="Seed by which --limit chooses samples, at random.")
]
Split = Annotated[
    str | None,
    typer.Option(
        "--split",
        help="Which part of each domain: all, train, validation, test, held-out.",
        show_default="all; held-out of domains that the model's record says it was trained on",
    ),
]
Out = Annotated[Path | None, typer.Option("--out", help="Folder to write to.", show_default="runs/<name>-<hash>")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="Change an option, for every model or for one: training.steps=200, models.NAME.model.width=64."
    ),
]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, help="Worker processes for long probes.", show_default="one per core")
]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda ...")]
TrainedModel = Annotated[
    str, typer.Option("--model", help="file:PATH of a trained model, or python:PKG.MOD:FN.", show_default=False)
]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Samples of a domain, at most, at random.")]
Estimate = Annotated[bool, typer.Option("--estimate", help="Say what it would cost, and stop.")]
Require = Annotated[
    list[str] | None,
    typer.Option(
        "--require",
        help="Exit 2 unless it holds on the target, or on the worst domain: clean>=0.8 (the model itself), "
        "clean-vote>=0.8 (the smoothed one), attacked@l2:0.5>=0.4, certified@0.5:photo>=0.6; 'clean>=0.8 with 95%' "
        "asks it of the lower limit.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout instead of tables.")]

EXIT_FAILED = 2
arguments: ContextVar[list[str]] = ContextVar("arguments")
"""What was typed after the program's name."""
STYLES = {"pass": "green", "warn": "yellow", "fail": "bold red"}


def absolute(spec: str) -> str:
    """file:PATH, folder:PATH and hf:PATH as they are found from anywhere."""
    kind, colon, path = spec.partition(":")
    local = kind in ("file", "folder") or (kind == "hf" and Path(path).is_dir())
    return f"{kind}:{Path(path).resolve()}" if colon and path and local else spec


def repeat_command(seed: int) -> str:
    """What to type to get the same random draws again."""
    return shlex.join(["shiftproof", *arguments.get([]), "--seed", str(seed)])


def duration(seconds: float) -> str:
    """A time as people say it."""
    from shiftproof.execution.progress import duration as text

    return text(seconds)


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
    _console().print(table)


def show_measures(table: SideBySide) -> None:
    """Everything that was measured, one row each, on every domain; what is guaranteed says so."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table as RichTable

    from shiftproof.report.tables import points

    shown = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    shown.add_column("right, of all samples", overflow="fold")
    for domain in table.domains:
        unseen = domain == table.target
        role, style = ("unseen", "bold") if unseen else ("source", "")
        shown.add_column(f"{escape(domain)}\n{role}", justify="right", style=style)
    if table.target is not None:
        shown.add_column("gap\npoints lost", justify="right")
    several = len({row.model for row in table.rows}) > 1
    for row in table.rows:
        one = row.measure
        name = f"{one.model}: {one.title}" if several else one.title
        kind = "guaranteed" if one.kind == "certified" else "measured"
        cells = [
            f"{e.value:.1%}\n[dim]{100 * e.low:.1f} to {100 * e.high:.1f}{_below(row.note(domain))}[/]"
            for domain, e in row.accuracy.items()
        ]
        if row.gap is not None:
            interval = f"{points(row.gap.low)} to {points(row.gap.high)}{_below(row.note())}"
            cells.append(f"{points(row.gap.value)}\n[dim]{interval}[/]")
        shown.add_row(f"{escape(name)}\n[dim]{kind}, {one.classifier} classifier[/]", *cells)
    _console().print(shown)
    if table.note:
        typer.echo(f"{table.note}.\n")


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
    rows.append(["total", "", f"{cost.forward_passes:,}", duration(cost.seconds), duration(cost.most_seconds)])
    show_table(["model", "stage", "forward passes", "time", "at most"], rows)
    say(f"memory about {cost.memory_mb:,.0f} MB. Time was measured on this machine just now, on a few steps.")


def outcomes_now(run: Run, require: Sequence[str] | None) -> list[Outcome]:
    """Of what this call requires; the report keeps what earlier calls required as well."""
    return [one for one in run.outcomes if one.text in set(require or ())]


def show_outcomes(outcomes: Iterable[Outcome]) -> None:
    """One line a requirement: whether it is met, and by which figure."""
    for one in outcomes:
        say(f"{'met   ' if one.met else 'failed'}  {one}", "green" if one.met else "red")


def names_of(text: str | None) -> list[str] | None:
    """Names with commas between them."""
    return None if text is None else [name.strip() for name in text.split(",")]


def numbers_of(text: str) -> tuple[float, ...]:
    """Numbers with commas between them, each once."""
    from shiftproof.errors import UsageError

    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise UsageError(f"{text!r} should be a number, or several with commas, such as 0.25,0.5") from error
    if len(set(numbers)) != len(numbers):
        raise UsageError(f"{text!r} names the same number twice")
    return numbers


def options_of_set(changes: Iterable[str], kinds: Sequence[str]) -> dict[str, dict[str, Any]]:
    """--set data.size=64, --set model.architecture=cnn: options by kind, for the kinds that a verb has."""
    from shiftproof.errors import UnknownName, UsageError
    from shiftproof.runs.study_files import apply_override

    document: dict[str, Any] = {kind: {} for kind in kinds}
    for change in changes:
        apply_override(document, change)
    for key, value in document.items():
        if key not in kinds:
            raise UnknownName("key of --set", key, kinds)
        if not isinstance(value, dict):
            raise UsageError(f"--set {key}={value} should name an option of it, such as --set {key}.NAME={value}")
    return document


def with_architecture(changes: Sequence[str] | None, architecture: str | None) -> list[str]:
    """The changes of --set, with what --architecture says as one more."""
    return [*(changes or []), *([] if architecture is None else [f"model.architecture={json.dumps(architecture)}"])]


def show_accuracy(table: AccuracyTable) -> None:
    """Accuracy per model and domain, each with its interval below it."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table as RichTable

    from shiftproof.report.tables import points

    shown = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    shown.add_column("model", overflow="fold")
    for domain in table.domains:
        unseen = domain == table.target
        shown.add_column(
            f"{escape(domain)}\n{'unseen' if unseen else 'source'}", justify="right", style="bold" if unseen else ""
        )
    if table.target is not None:
        shown.add_column("gap\npoints lost", justify="right")
    for row in table.rows:
        cells = [
            f"{e.value:.1%}\n[dim]{100 * e.low:.1f} to {100 * e.high:.1f}{_below(row.note(domain))}[/]"
            for domain, e in ((domain, row.accuracy[domain]) for domain in table.domains)
        ]
        if row.gap is not None:
            interval = f"{points(row.gap.low)} to {points(row.gap.high)}{_below(row.note())}"
            cells.append(f"{points(row.gap.value)}\n[dim]{interval}[/]")
        shown.add_row(escape(row.model), *cells)
    _console().print(shown)


def _below(note: str) -> str:
    return f"\n{note}" if note else ""


def accuracy_json(table: AccuracyTable) -> dict[str, dict[str, Any]]:
    """Accuracy, intervals and gaps by model, for --json."""
    return table.figures()


def measures_json(table: SideBySide) -> list[dict[str, Any]]:
    """All that was measured, one object a row, for --json."""
    return table.figures()


def show_findings(findings: Iterable[Finding]) -> None:
    """One line a finding."""
    from rich.text import Text

    console = _console()
    for finding in findings:
        line = Text.assemble((f"{finding.level:5}", STYLES[finding.level]), finding.message)
        # on a terminal lines break between words; in a log a finding is one line
        console.print(line, soft_wrap=not console.is_terminal)


def say(text: str, style: str = "") -> None:
    """A sentence on stdout; on a terminal its lines break between words, in a log it is one line."""
    from rich.text import Text

    console = _console()
    console.print(Text(text, style), soft_wrap=not console.is_terminal)


def _console() -> Any:
    import shutil

    from rich.console import Console

    console = Console()
    # in a log there is no terminal to fit; a table that is cut to 80 columns is no use there
    return console if console.is_terminal else Console(width=max(120, shutil.get_terminal_size().columns))
