"""`shiftproof run STUDY`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from shiftproof.cli.options import (
    EXIT_FAILED,
    AsJson,
    Device,
    Estimate,
    Limit,
    Out,
    Require,
    Set,
    Workers,
    accuracy_json,
    measures_json,
    outcomes_now,
    repeat_command,
    say,
    show_accuracy,
    show_costs,
    show_findings,
    show_json,
    show_measures,
    show_outcomes,
)

if TYPE_CHECKING:
    from shiftproof.report.requirements import Outcome

__all__ = ["command"]


def command(
    study: Annotated[str, typer.Argument(help="A study's name (shiftproof ls studies) or a YAML file.")],
    out: Out = None,
    set_: Set = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Replace the study's seed.")] = None,
    limit: Limit = None,
    require: Require = None,
    estimate: Estimate = False,
    workers: Workers = None,
    device: Device = "auto",
    json: AsJson = False,
) -> None:
    """Train, measure and report as a study says; the same command continues a run that was stopped."""
    import os
    from dataclasses import asdict

    from shiftproof.report.certified import by_setting, figures
    from shiftproof.report.requirements import Requirement
    from shiftproof.runs import find_study, run_study
    from shiftproof.runs.estimate import estimate_study

    given = {"seed": seed, "limit": limit}
    overrides = [*(set_ or []), *(f"{key}={value}" for key, value in given.items() if value is not None)]
    loaded, count = find_study(study, overrides), workers or os.cpu_count() or 1
    if estimate:
        show_costs(estimate_study(loaded, count), json)
        return
    requirements = [Requirement.parse(text) for text in require or []]
    if not json and loaded.title:
        say(f"\n{loaded.title}", "bold")
        say(loaded.about)
    run = run_study(loaded, out, workers=count, device=device, progress="lines", require=requirements)
    written = run.export()
    content = run.content()
    table = content.accuracy
    findings, outcomes = content.findings, outcomes_now(run, require)
    if json:
        show_json(
            {
                "run": str(run.folder),
                "report": str(written[0]),
                **accuracy_json(table),
                "measures": measures_json(content.measures),
                "stressed": {one.title: accuracy_json(one.table) for one in content.probe_tables},
                "certified": [
                    figures(one, content.radii_of(series)) for series in by_setting(content.series) for one in series
                ],
                "selected": run.record["selected"],
                "findings": [{"level": f.level, "code": f.code, "message": f.message} for f in findings],
                "requirements": [asdict(one) for one in outcomes],
            }
        )
        _fail_unless_met(outcomes)
        return
    measures = content.measures
    if measures.several:
        show_measures(measures)
    else:
        show_accuracy(table)
    for one in content.probe_tables:
        say(f"{one.title} ({one.classifier} classifier):")
        show_accuracy(one.table)
    show_findings(findings)
    say(f"\nreport  {written[0]}\nrun     {run.folder}")
    if any(not spec.train for spec in loaded.models.values()) and "seed" not in loaded.model_fields_set:
        # a command is copied as it is: nothing breaks its line
        typer.echo(f"repeat  {repeat_command(run.record['noise_seed'])}")
    show_outcomes(outcomes)
    _fail_unless_met(outcomes)


def _fail_unless_met(outcomes: list[Outcome]) -> None:
    if any(not one.met for one in outcomes):
        raise typer.Exit(EXIT_FAILED)
