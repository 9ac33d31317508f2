"""What every verb that measures does with its study: say what it costs, or run it, write the report and judge it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from shiftproof.cli.junit import check_junit, write_junit
from shiftproof.cli.options import EXIT_FAILED, absolute, names_of, repeat_command, typed_command
from shiftproof.cli.show import outcomes_now, show_costs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from shiftproof.execution import Compute
    from shiftproof.probes import Probe
    from shiftproof.runs import Run, Study
    from shiftproof.runs.plan import Planned
    from shiftproof.runs.prepare import Prepared

__all__ = ["compute_of", "finish", "measure", "show_repeat", "study_of_one_model"]


def measure(
    study: Study | Prepared | Planned,
    out: Path | None = None,
    *,
    require: Sequence[str] | None,
    estimate: bool,
    compute: Compute,
    json: bool,
    processes: int = 1,
    radii: Sequence[float] = (),
    note: str = "",
    junit: Path | None = None,
    images: bool = True,
) -> Run | None:
    """The finished run, with its report written; None if it only had to be estimated.

    `note` is said on stderr before anything is computed; not to who has made a mistake, and gets that sentence alone.
    Without `images`, the report shows no sample.
    """
    from shiftproof.report.requirements import Requirement
    from shiftproof.runs.engine import run_study
    from shiftproof.runs.estimate import estimate_study
    from shiftproof.runs.plan import Planned, plan_run

    check_junit(junit)
    requirements = [Requirement.parse(text) for text in require or []]
    if not isinstance(study, Planned):
        study = plan_run(study, out, compute=compute, progress="lines", require=requirements)
        if study.begun is not None and not estimate:
            typer.echo(f"continue {study.folder}, {study.done} of {study.pieces} measurements are done", err=True)
    if note:
        typer.echo(note, err=True)
    if estimate:
        show_costs(estimate_study(study.prepared, compute, "lines"), json)
        return None
    asked: dict[str, Any] = {"require": requirements, "radii": radii, "images": images, "command": typed_command()}
    asked |= {"workers": compute.workers, "device": compute.device, "cluster": compute.cluster, "processes": processes}
    run = run_study(study, progress="lines", **asked)
    run.export()
    return run


def finish(
    run: Run, require: Sequence[str] | None, failed: bool = False, junit: Path | None = None, images: bool = True
) -> None:
    """Exit 2 if a requirement of this call is not met, or if something else has failed.

    `junit` is a file for CI, which names no sample where there are no `images`.
    """
    outcomes = outcomes_now(run, require)
    if junit is not None:
        write_junit(junit, run.junit(outcomes, images=images))
    if failed or any(not one.met for one in outcomes):
        raise typer.Exit(EXIT_FAILED)


def show_repeat(run: Run) -> None:
    """The command that repeats the run with the same noise, where its seed was drawn."""
    drawn = any(one.classifier != "base" and one.fact("alpha") != 0 for one in run.evidence)
    if run.imported or run.study.trains or "seed" in run.study.model_fields_set or not drawn:
        return
    # a command is copied as it is: nothing breaks its line
    typer.echo(f"{'repeat':11}{repeat_command(run.record['noise_seed'])}")


def compute_of(
    workers: int | None,
    device: str = "auto",
    cluster: str | None = None,
    precision: str = "f32",
    backend: str = "torch",
) -> Compute:
    """What was typed about where to compute, checked: one process per core unless told."""
    import os

    from shiftproof.execution import Compute, ready
    from shiftproof.execution.cluster import describe_cluster

    count = workers or os.cpu_count() or 1
    compute = ready(Compute(device, precision, backend, count, cluster))  # type: ignore[arg-type]
    if compute.cluster is not None:
        typer.echo(f"cluster: {describe_cluster(compute)}", err=True)
    return compute


def study_of_one_model(
    verb: str,
    title: str,
    data: str,
    model: str,
    options: Mapping[str, Mapping[str, Any]],
    probes: Sequence[Probe],
    *,
    domain: str | None = None,
    **fields: Any,
) -> Study:
    """A study of a trained model as it is: what `certify` and `attack` make of their options.

    `fields` are those of the study; None leaves one out.
    """
    from shiftproof.runs.sources import ModelSource
    from shiftproof.runs.study_files import validated

    source = ModelSource(absolute(model), options["model"])
    source.check_trained(f"{verb} a trained one: --model file:PATH")
    document = {
        "name": verb,
        "title": f"{title} {source.title}",
        "data": {"name": absolute(data), **options["data"]},
        "source": names_of(domain),
        "models": {source.title: {"model": source, "train": False}},
        "probes": list(probes),
        **fields,
    }
    return validated({key: value for key, value in document.items() if value is not None}, "command line")
