"""`shiftproof compare RUN RUN...`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shiftproof.cli.junit import check_junit, write_junit
from shiftproof.cli.lines import tell
from shiftproof.cli.options import EXIT_FAILED, AsJson, Junit, NoImages, Verbose, names_of, numbers_of
from shiftproof.cli.show import STYLES, say, show_json, show_outcomes, show_page_table

if TYPE_CHECKING:
    from shiftproof.report.comparison import ModelPair
    from shiftproof.runs import Comparison

__all__ = ["command"]

_SHOWN = 4
"""Measures whose changed samples are named on the terminal."""


def command(
    runs: Annotated[list[Path], typer.Argument(help="Folders of finished runs; the first is the baseline.")],
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            help="Which models to compare: A=B (A of the baseline, B of the others), or A if both have it. Of one run: "
            "two of its models.",
            show_default="the only ones, or those of the same name",
        ),
    ] = None,
    domain: Annotated[
        str | None, typer.Option("--domain", help="Domains to compare on: a,b.", show_default="all that both have")
    ] = None,
    radii: Annotated[
        str | None,
        typer.Option("--radii", help="Radii to compare certificates at: 0,0.25,0.5.", show_default="round ones"),
    ] = None,
    shared_samples: Annotated[
        bool,
        typer.Option(
            "--shared-samples", help="Where one run measured more samples, compare those that both did; else refused."
        ),
    ] = False,
    any_certificate: Annotated[
        bool,
        typer.Option(
            "--any-certificate",
            help="Compare certificates in one norm whatever their noise, votes and alpha; else these must agree.",
        ),
    ] = False,
    require: Annotated[
        list[str] | None,
        typer.Option(
            "--require",
            help="Exit 2 unless it holds on every target, or without one on every domain: clean>=baseline-0.02, "
            "'certified@0.5:sketch >= baseline with 95%' (the lower limit of the difference), attacked@l2:0.5>=0.4.",
        ),
    ] = None,
    junit: Junit = None,
    verbose: Verbose = False,
    no_images: NoImages = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for compare.html, compare.json, tables and figures.", show_default="none"),
    ] = None,
    json: AsJson = False,
) -> None:
    """Compare models of several runs on the same samples: what is better, worse or not decided, and which samples
    changed.

    Differences are paired by sample, or by group, with 95 % intervals that count samples and training seeds. Only what
    was measured alike is compared: the same probe and options, on the same samples of the same data. What one run lacks
    is named; samples that differ are refused.

    Several runs are compared with the first, one after the other. No model is loaded.
    """
    from shiftproof.execution import check_writable
    from shiftproof.runs import compare

    check_junit(junit)
    if out is not None:
        check_writable(out)
    found = compare(
        *runs,
        model=model or (),
        domain=names_of(domain) or (),
        radii=() if radii is None else numbers_of(radii),
        require=require or (),
        shared_samples=shared_samples,
        any_certificate=any_certificate,
        images=not no_images,
    )
    written = [] if out is None else found.export(out)
    if json:
        show_json(found.to_json() | ({"written": [str(path) for path in written]} if written else {}))
    else:
        _show(found, written, verbose)
        show_outcomes(found.outcomes)
    write_junit(junit, found.junit())
    if not found.met:
        raise typer.Exit(EXIT_FAILED)


def _show(found: Comparison, written: list[Path], verbose: bool) -> None:
    """For each pair of models what is better, worse and not decided; `verbose` shows every difference and some ids."""
    from shiftproof.report.comparison.report import METHOD, verdict_badges
    from shiftproof.report.comparison.tables import difference_table

    for pair in found.pairs:
        say(f"\n{pair.title}", "bold")
        if verbose:
            show_page_table(difference_table(pair))
            _show_changed(pair)
        for badge in verdict_badges(pair):
            tell(badge.word, badge.text, STYLES[badge.level])
        for text in pair.notes:
            tell("note", text)
        for text in pair.left_out:
            tell("left out", text)
    if verbose:
        say(f"\n{METHOD[0]}\n{METHOD[1]}")
    else:
        say("Every difference with its interval, and samples that changed: --verbose, or --out DIR for a page.")
    if written:
        say(f"\nwritten to {written[0].parent}: {written[0].name}, compare.json, tables/samples.csv, tables/, figures/")


def _show_changed(pair: ModelPair) -> None:
    """A few ids of the samples that lost most: on targets, or without one everywhere."""
    from shiftproof.report.comparison.tables import few

    there = [line for line in pair.lines if line.is_share and line.domain in (pair.targets or pair.domains)]
    changed = sorted((line for line in there if line.lost or line.gained), key=lambda line: -len(line.lost))
    for line in changed[:_SHOWN]:
        parts = [f"{word} {few(ids)}" for word, ids in (("lost", line.lost), ("gained", line.gained)) if ids]
        say(f"{line.domain}, {line.title}: {'; '.join(parts)}")
    if changed:
        say("All ids are in --json, and in tables/changed.csv of --out.\n")
