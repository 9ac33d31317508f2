"""`shiftproof run STUDY`."""

from __future__ import annotations

from typing import Annotated

import typer

from shiftproof.cli.options import (
    AsJson,
    Device,
    Out,
    Set,
    Workers,
    accuracy_json,
    measures_json,
    repeat_command,
    say,
    show_accuracy,
    show_findings,
    show_json,
    show_measures,
)

__all__ = ["command"]


def command(
    study: Annotated[str, typer.Argument(help="A study's name (shiftproof ls studies) or a YAML file.")],
    out: Out = None,
    set_: Set = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Replace the study's seed.")] = None,
    workers: Workers = None,
    device: Device = "auto",
    json: AsJson = False,
) -> None:
    """Train, measure and report as a study says; the same command continues a run that was stopped."""
    import os

    from shiftproof.report.certified import by_setting, figures, nice_radii
    from shiftproof.runs import find_study, run_study

    overrides = [*(set_ or []), *([f"seed={seed}"] if seed is not None else [])]
    loaded = find_study(study, overrides)
    if not json and loaded.title:
        say(f"\n{loaded.title}", "bold")
        say(loaded.about)
    run = run_study(loaded, out, workers=workers or os.cpu_count() or 1, device=device, progress="lines")
    written = run.export()
    content = run.content()
    table = content.table()
    findings = content.findings(table)
    if json:
        show_json(
            {
                "run": str(run.folder),
                "report": str(written[0]),
                **accuracy_json(table),
                "measures": measures_json(content.measures),
                "stressed": {one.title: accuracy_json(one.table) for one in content.stressed()},
                "certified": [
                    figures(one, nice_radii(series)) for series in by_setting(content.series) for one in series
                ],
                "selected": run.record["selected"],
                "findings": [{"level": f.level, "code": f.code, "message": f.message} for f in findings],
            }
        )
        return
    measures = content.measures
    if len({row.measure.kind for row in measures.rows}) > 1:
        show_measures(measures)
    else:
        show_accuracy(table)
    for one in content.stressed():
        say(f"{one.title} ({one.classifier} classifier):")
        show_accuracy(one.table)
    show_findings(findings)
    say(f"\nreport  {written[0]}\nrun     {run.folder}")
    if any(not spec.train for spec in loaded.models.values()) and "seed" not in loaded.model_fields_set:
        # a command is copied as it is: nothing breaks its line
        typer.echo(f"repeat  {repeat_command(run.record['noise_seed'])}")
