"""`shiftproof report RUN`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shiftproof.cli.options import AsJson, NoImages
from shiftproof.cli.show import show_json

if TYPE_CHECKING:
    from shiftproof.runs.leave_one_out import LeaveOneOut

__all__ = ["command"]


def command(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    formats: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="html, csv, markdown, latex, svg, png, json, junit (requirements and findings as tests of CI), card "
            "(a robustness card for each model, a README for a model hub), reproduction (our figures beside published "
            "ones, for the documents of a project); several with commas.",
        ),
    ] = None,
    model: Annotated[str | None, typer.Option("--model", help="Model of the card.", show_default="every one")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder to write to.", show_default="the run's")] = None,
    no_images: NoImages = False,
    json: AsJson = False,
) -> None:
    """Write a run's report, tables and figures again from its evidence; no model is loaded.

    Of the folder of a leave-one-out, the page about all of its runs.
    """
    from shiftproof.errors import UsageError
    from shiftproof.execution import check_writable
    from shiftproof.report.page import FORMATS
    from shiftproof.runs import open_run
    from shiftproof.runs.leave_one_out import is_leave_one_out, open_leave_one_out

    if is_leave_one_out(run):
        _report_all(open_leave_one_out(run), formats, out, not no_images, json)
        return
    opened = open_run(run)
    if out is not None:
        check_writable(out)
    chosen = FORMATS if formats is None else [part.strip() for part in formats.split(",") if part.strip()]
    if not chosen:
        raise UsageError(f"--format names no format; known are {', '.join(FORMATS)}")
    if model is not None and "card" not in chosen:
        raise UsageError("--model says whose card is written; add --format card")
    if opened.absent:
        typer.echo(f"note: {opened.absent}", err=True)
    written = opened.export(chosen, out, images=not no_images, model=model)
    if json:
        show_json({"written": [str(path) for path in written]})
    else:
        typer.echo(_told(written))


def _report_all(found: LeaveOneOut, formats: str | None, out: Path | None, images: bool, json: bool) -> None:
    """The page about all runs of a leave-one-out; each run has one of its own."""
    from shiftproof.execution import check_writable
    from shiftproof.report.page import FORMATS

    if out is not None:
        check_writable(out)
    chosen = FORMATS if formats is None else [part.strip() for part in formats.split(",") if part.strip()]
    written = found.export(chosen, out, images=images)
    if json:
        show_json({"written": [str(path) for path in written]})
    else:
        typer.echo(_told(written))


def _told(written: list[Path]) -> str:
    """What was written: tables and figures counted, everything else by name, the page last."""
    folders = {"tables": 0, "figures": 0}
    others = []
    for path in written:
        if path.parent.name in folders:
            folders[path.parent.name] += 1
        else:
            others.append(path)
    inside = {path.parent for path in written if path.parent.name in folders}
    lines = [f"{folders[folder.name]} files in {folder}" for folder in sorted(inside)]
    return "\n".join([*lines, *map(str, sorted(others, key=lambda path: path.suffix == ".html"))])
