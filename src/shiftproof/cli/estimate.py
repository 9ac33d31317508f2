"""`shiftproof estimate STUDY`."""

from __future__ import annotations

from typing import Annotated

import typer

from shiftproof.cli.measure import measure
from shiftproof.cli.options import AsJson, SetOfStudy, Workers

__all__ = ["command"]


def command(
    study: Annotated[str, typer.Argument(help="A study's name or a YAML file.")],
    set_: SetOfStudy = None,
    workers: Workers = None,
    json: AsJson = False,
) -> None:
    """Forward passes, time and memory of a study, from a probe of a few seconds; nothing is written."""
    from shiftproof.runs import find_study

    measure(find_study(study, set_ or []), require=None, estimate=True, workers=workers, json=json)
