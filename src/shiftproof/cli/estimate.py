"""`shiftproof estimate STUDY`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shiftproof.cli.completion import complete_study
from shiftproof.cli.leave_one_out import estimate_each
from shiftproof.cli.measure import compute_of
from shiftproof.cli.options import AsJson, Cluster, Device, Scale, SetOfStudy, Workers
from shiftproof.cli.show import duration, say, show_costs, show_json, show_table

if TYPE_CHECKING:
    from shiftproof.execution import Compute

__all__ = ["command"]


def command(
    study: Annotated[
        str, typer.Argument(help="A study's name, a YAML file, or the folder of a run.", autocompletion=complete_study)
    ],
    set_: SetOfStudy = None,
    scale: Scale = None,
    workers: Workers = None,
    device: Device = "auto",
    cluster: Cluster = None,
    json: AsJson = False,
) -> None:
    """Forward passes, time and memory of a study, from a few steps of every model and a moment of every probe.

    Where its data is not here, every model is built and every probe tried on blank images of its shape. Nothing is
    written. Of a run: what methods of its published tables would take that it does not have, which is kept in the run
    for its report.
    """
    from shiftproof.runs import find_study
    from shiftproof.runs.estimate_not_run import estimate_or_try_blank

    compute = compute_of(workers, device, cluster)
    if (Path(study) / "run.json").is_file():
        _missing_methods(Path(study), compute, json, bool(set_ or scale))
        return
    loaded = find_study(study, set_ or [], scale)
    if loaded.leave_out is not None:
        estimate_each(loaded, compute, json)
        return
    show_costs(estimate_or_try_blank(loaded, compute, "lines"), json)


def _missing_methods(folder: Path, compute: Compute, json: bool, changed: bool) -> None:
    """What the methods of published tables would take that a run does not have."""
    from dataclasses import asdict

    from shiftproof.errors import UsageError
    from shiftproof.runs import open_run
    from shiftproof.runs.estimate_not_run import estimate_not_run, missing_methods

    if changed:
        raise UsageError(f"{folder} is a run, which is as it is; leave --set and --scale out")
    run = open_run(folder, unfinished=True)
    found = estimate_not_run(run, compute, "lines")
    known = {(one.table_key, one.method) for one in found}
    unknown = [
        f"{key[1]}, {key[2]}: {method}"
        for key, methods in missing_methods(run).items()
        for method in methods
        if (key, method) not in known
    ]
    if json:
        show_json({"not_run": [asdict(one) for one in found], "in_no_study": unknown})
        return
    if found:
        rows = [
            [f"{one.table}, {one.dataset}", one.method, one.study, duration(one.seconds), duration(one.most_seconds)]
            for one in found
        ]
        show_table(["published table", "not run", "study", "time", "at most"], rows)
    if unknown:
        say(f"Not run, and in no study that the run names: {'; '.join(unknown)}.")
    elif not found:
        say("Nothing is missing of the published tables that the run's study names.")
