"""`shiftproof estimate STUDY`."""

from __future__ import annotations

from typing import Annotated

import typer

from shiftproof.cli.measure import measure, worker_count
from shiftproof.cli.options import AsJson, Scale, SetOfStudy, Workers
from shiftproof.cli.show import show_costs

__all__ = ["command"]


def command(
    study: Annotated[str, typer.Argument(help="A study's name or a YAML file.")],
    set_: SetOfStudy = None,
    scale: Scale = None,
    workers: Workers = None,
    json: AsJson = False,
) -> None:
    """Forward passes, time and memory of a study, from a probe of a few seconds; nothing is written.

    Where its data is not here, every model is built and every probe tried on blank images of its shape.
    """
    from shiftproof.errors import DataNotFound
    from shiftproof.runs import find_study
    from shiftproof.runs.dry_run import prepare_blank
    from shiftproof.runs.estimate import estimate_study

    found = find_study(study, set_ or [], scale)
    try:
        measure(found, require=None, estimate=True, workers=workers, json=json)
    except DataNotFound as error:
        dry = prepare_blank(found, error)
        show_costs(estimate_study(dry, worker_count(workers), "lines"), json)
