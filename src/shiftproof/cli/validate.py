"""`shiftproof validate DATA`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from shiftproof.cli.options import EXIT_FAILED, AsJson, SetOfData
from shiftproof.cli.show import show_findings, show_json, show_table

__all__ = ["command"]


def command(
    data: Annotated[str, typer.Argument(help="A data set's name, or folder:PATH.")],
    set_: SetOfData = None,
    json: AsJson = False,
) -> None:
    """Read every sample once: unreadable files, classes that do not match, images in two parts. Exit 2 if one fails."""
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
                "x".join(map(str, domain.shape)),
                "-" if domain.groups is None else f"{domain.groups:,}",
                f"{domain.train:,} / {domain.validation:,} / {domain.test:,}",
                f"{domain.unreadable:,}",
                ", ".join(f"{name} {count:,}" for name, count in domain.per_class.items()),
            ]
            for domain in result.domains
        ]
        header = ["domain", "samples", "shape", "groups", "train / validation / test", "unreadable", "classes"]
        show_table(header, rows)
        show_findings(result.findings)
    if result.failed:
        raise typer.Exit(EXIT_FAILED)
