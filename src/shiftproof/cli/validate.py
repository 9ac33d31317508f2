"""`shiftproof validate DATA`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftproof.cli.completion import complete
from shiftproof.cli.options import EXIT_FAILED, AsJson, SetOfData
from shiftproof.cli.show import show_findings, show_json, show_table

if TYPE_CHECKING:
    from shiftproof.domains.validate_text import WordCounts

__all__ = ["command"]


def command(
    data: Annotated[
        str, typer.Argument(help="A data set's name, folder:PATH or table:PATH.", autocompletion=complete("domains"))
    ],
    set_: SetOfData = None,
    json: AsJson = False,
) -> None:
    """Read every sample once: unreadable files, classes that do not match, samples in two parts. Exit 2 if one fails.

    Of texts, near duplicates are found as well.
    """
    from shiftproof.domains import validate
    from shiftproof.runs.study_files import apply_override

    document: dict[str, Any] = {}
    for change in set_ or []:
        apply_override(document, change.removeprefix("data."))
    result = validate(data, progress="lines", **document)
    if json:
        show_json(asdict(result) | {"failed": result.failed})
    else:
        rows = [
            [
                domain.name,
                f"{domain.samples:,}",
                "x".join(map(str, domain.shape)) if (words := domain.words) is None else _words(words),
                "-" if domain.groups is None else f"{domain.groups:,}",
                f"{domain.train:,} / {domain.validation:,} / {domain.test:,}",
                f"{domain.unreadable if words is None else words.empty:,}",
                ", ".join(f"{name} {count:,}" for name, count in domain.per_class.items()),
            ]
            for domain in result.domains
        ]
        text = any(domain.words is not None for domain in result.domains)
        what, bad = ("words: median, longest", "empty") if text else ("shape", "unreadable")
        show_table(["domain", "samples", what, "groups", "train / validation / test", bad, "classes"], rows)
        show_findings(result.findings)
    if result.failed:
        raise typer.Exit(EXIT_FAILED)


def _words(words: WordCounts) -> str:
    return f"{words.median:,.0f}, {words.longest:,}"
