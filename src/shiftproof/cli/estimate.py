"""`shiftproof estimate STUDY`."""

from __future__ import annotations

from typing import Annotated

import typer

from shiftproof.cli.options import AsJson, Set, Workers, show_costs

__all__ = ["command"]


def command(
    study: Annotated[str, typer.Argument(help="A study's name or a YAML file.")],
    set_: Set = None,
    workers: Workers = None,
    json: AsJson = False,
) -> None:
    """Forward passes, time and memory of a study, from a probe of a few seconds; nothing is written."""
    import os

    from shiftproof.runs import find_study
    from shiftproof.runs.estimate import estimate_study

    show_costs(estimate_study(find_study(study, set_ or []), workers or os.cpu_count() or 1), json)
