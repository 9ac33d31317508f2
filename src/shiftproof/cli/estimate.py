"""`shiftproof estimate STUDY`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from shiftproof.cli.options import AsJson, Set, Workers, say, show_json, show_table

__all__ = ["command"]


def command(
    study: Annotated[str, typer.Argument(help="A study's name or a YAML file.")],
    set_: Set = None,
    workers: Workers = None,
    json: AsJson = False,
) -> None:
    """Forward passes, time and memory of a study, from a probe of a few seconds; nothing is written."""
    import os

    from shiftproof.studies import find_study
    from shiftproof.studies.estimate import estimate_study

    estimate = estimate_study(find_study(study, set_ or []), workers or os.cpu_count() or 1)
    if json:
        show_json(asdict(estimate))
        return
    rows = [
        [cost.model, cost.stage, f"{cost.forward_passes:,}", f"{cost.seconds:.1f} s", f"{cost.most_seconds:.1f} s"]
        for cost in estimate.costs
    ]
    total = [f"{estimate.forward_passes:,}", f"{estimate.seconds:.1f} s", f"{estimate.most_seconds:.1f} s"]
    rows.append(["total", "", *total])
    show_table(["model", "stage", "forward passes", "time", "at most"], rows)
    say(f"memory about {estimate.memory_mb:,.0f} MB. Time was measured on this machine just now, on a few steps.")
