"""`shiftproof run STUDY`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftproof.cli import options as o
from shiftproof.cli.completion import complete_study
from shiftproof.cli.leave_one_out import estimate_each, run_each
from shiftproof.cli.measure import compute_of, finish, measure
from shiftproof.cli.show import outcomes_now, say, show_json
from shiftproof.cli.summary import show_summary

if TYPE_CHECKING:
    from shiftproof.runs import Run

__all__ = ["command"]


def command(
    study: Annotated[
        str,
        typer.Argument(help="A study's name (shiftproof ls studies) or a YAML file.", autocompletion=complete_study),
    ],
    out: o.Out = None,
    set_: o.SetOfStudy = None,
    seed: o.StudySeed = None,
    seeds: o.Seeds = None,
    scale: o.Scale = None,
    limit: o.Limit = None,
    require: o.Require = None,
    junit: o.Junit = None,
    budget: o.Budget = None,
    estimate: o.Estimate = False,
    workers: o.Workers = None,
    device: o.Device = "auto",
    cluster: o.Cluster = None,
    verbose: o.Verbose = False,
    no_images: o.NoImages = False,
    json: o.AsJson = False,
) -> None:
    """Train, measure and report as a study says; the same command continues a run that was stopped.

    A study with leave_out is run once for each domain that it names, below one folder with a page about all runs.
    """
    from shiftproof.errors import UsageError
    from shiftproof.runs import find_study

    compute = compute_of(workers, device, cluster)
    given = {"seed": seed, "seeds": None if seeds is None else f"[{seeds}]", "limit": limit, "budget": budget}
    overrides = [*(set_ or []), *(f"{key}={value}" for key, value in given.items() if value is not None)]
    loaded = find_study(study, overrides, scale)
    if not json and not estimate and loaded.title:
        say(f"\n{loaded.title}", "bold")
        say(loaded.about)
    if loaded.leave_out is not None:
        if estimate:
            estimate_each(loaded, compute, json)
            return
        if junit is not None:
            raise UsageError("--junit is of one run, and the study leaves out one domain after another: see 'report'")
        run_each(loaded, out, require=require, compute=compute, json=json, images=not no_images)
        return
    asked_of_run: dict[str, Any] = {
        "require": require,
        "estimate": estimate,
        "compute": compute,
    }
    run = measure(loaded, out, **asked_of_run, json=json, junit=junit, images=not no_images)
    if run is None:
        return
    if json:
        _show_json(run, require)
    else:
        show_summary(run, require, verbose)
    finish(run, require, junit=junit, images=not no_images)


def _show_json(run: Run, require: list[str] | None) -> None:
    from dataclasses import asdict

    from shiftproof.report.certified import by_setting, figures

    content = run.content()
    show_json(
        {
            "run": str(run.folder),
            "report": str(run.folder / "report.html"),
            **(content.scores.figures() or content.accuracy.figures()),
            "measures": content.measures.figures(),
            "stressed": {one.title: one.table.figures() for one in content.probe_tables},
            "certified": [
                figures(one, content.radii_of(series)) for series in by_setting(content.series) for one in series
            ],
            "selected": run.record["selected"],
            "findings": [asdict(one) for one in content.findings],
            "claims": content.sections["claims"].to_json() if content.claims else [],
            "requirements": [asdict(one) for one in outcomes_now(run, require)],
        }
    )
