"""`shiftproof import FILE...`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shiftproof.cli.options import EXIT_FAILED, AsJson, NoImages, Out, typed_command
from shiftproof.cli.show import say, show_findings, show_json, show_page_table

if TYPE_CHECKING:
    from shiftproof.runs import Run

__all__ = ["command"]

_SHOWN = ("certified", "measures", "trials")
"""Sections of the report whose tables are printed."""


def command(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Logs of certificates (tsv or csv: idx, label, predict, radius, correct, time); robust flags, as a "
            "state of AutoAttack (json) or arrays of numpy (.npy, .npz with robust and clean); or results.jsonl of "
            "DomainBed."
        ),
    ],
    model: Annotated[
        str | None, typer.Option("--model", help="Model name, or one for each file: a,b.", show_default="the file's")
    ] = None,
    domain: Annotated[
        str | None,
        typer.Option("--domain", help="What it was measured on; or one for each file: a,b.", show_default="imported"),
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", help="Which of these domains training left out: a,b.")
    ] = None,
    norm: Annotated[
        str, typer.Option("--norm", help="Norm of the radii: l2, linf, l1, edits; or for each file.")
    ] = "l2",
    alpha: Annotated[
        str | None,
        typer.Option(
            "--alpha",
            help="Probability that a certificate is wrong, at most, as its author states it; or for each file.",
            show_default="not stated",
        ),
    ] = None,
    sigma: Annotated[
        str | None,
        typer.Option("--sigma", help="Scale of the Gaussian noise; or for each file.", show_default="not stated"),
    ] = None,
    n: Annotated[
        str | None,
        typer.Option("--n", help="Votes behind every certificate; or for each file.", show_default="not stated"),
    ] = None,
    threat: Annotated[
        str | None, typer.Option("--threat", help="Of robust flags: linf:8/255, l2:0.5; or for each file.")
    ] = None,
    held_out: Annotated[
        bool, typer.Option("--held-out", help="The samples served neither training nor selection.")
    ] = False,
    out: Out = None,
    no_images: NoImages = False,
    json: AsJson = False,
) -> None:
    """Make a run of results that others have published: report, tables, figures and evidence, without a model.

    Radii are taken at their word, less what rounding may have added. With --alpha, --sigma and --n they are compared
    with what so many votes can certify. Exit 2 if a check fails. Nothing else can be checked, and the report says so.
    """
    from shiftproof.runs import import_results

    run = import_results(
        files,
        model=model,
        domain=domain,
        target=target,
        norm=norm,
        alpha=alpha,
        sigma=sigma,
        n=n,
        threat=threat,
        held_out=held_out,
        out=out,
        command=typed_command(),
    )
    run.export(images=not no_images)
    if json:
        show_json(_figures(run))
    else:
        _show(run)
    if run.broken:
        raise typer.Exit(EXIT_FAILED)


def _figures(run: Run) -> dict[str, object]:
    sections = run.content().to_json()["sections"]
    shown = {name: sections[name] for name in _SHOWN if name in sections}
    findings = [{"level": one.level, "code": one.code, "message": one.message} for one in run.findings]
    return {**shown, "findings": findings, "out": str(run.folder)}


def _show(run: Run) -> None:
    sections = run.content().sections
    for name in _SHOWN:
        for table in sections[name].tables() if name in sections else ():
            say(table.caption or sections[name].title)
            show_page_table(table)
    show_findings(run.findings)
    say(f"\nwritten to {run.folder}: report.html, evidence/, tables/, figures/, logs/")
