"""`shiftproof train`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftproof.cli.options import (
    EXIT_FAILED,
    Architecture,
    AsJson,
    Data,
    Device,
    Estimate,
    Limit,
    Require,
    SampleSeed,
    Seed,
    Set,
    Workers,
    absolute,
    accuracy_json,
    outcomes_now,
    say,
    show_accuracy,
    show_costs,
    show_findings,
    show_json,
    show_outcomes,
    with_architecture,
)

if TYPE_CHECKING:
    from shiftproof.runs import Study

__all__ = ["command"]


def command(
    data: Data,
    target: Annotated[str | None, typer.Option("--target", help="The domain to leave out of training.")] = None,
    source: Annotated[
        str | None, typer.Option("--source", help="Domains to train on: a,b.", show_default="all but the target")
    ] = None,
    model: Annotated[
        str, typer.Option("--model", help="mlp, cnn, ..., file:PATH, timm:NAME or python:PKG.MOD:FN.")
    ] = "cnn",
    architecture: Architecture = None,
    objective: Annotated[str, typer.Option("--objective", help="See: shiftproof ls objectives")] = "erm",
    seed: Seed = 0,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for the model.", show_default="runs/train-<hash>")
    ] = None,
    set_: Set = None,
    limit: Limit = None,
    sample_seed: SampleSeed = 0,
    require: Require = None,
    estimate: Estimate = False,
    workers: Workers = None,
    device: Device = "auto",
    json: AsJson = False,
) -> None:
    """Train a model on the source domains and measure it on all; the same command continues where it was stopped.

    Writes a run with model.safetensors and model.json at its top: --model file:DIR takes it.

    --set changes options of data, model, objective and training: --set data.size=28 --set objective.sigma=0.5 --set
    training.steps=200. --set selection=last says which weights are kept. On a trained model, --model file:DIR --set
    model.head=free --set training.part=head trains a new head; --set pretrain.data=NAME --set pretrain.objective=NAME
    trains the network on other data first. See: shiftproof ls training
    """
    import os
    from dataclasses import asdict

    from shiftproof.models import read_card
    from shiftproof.report.requirements import Requirement
    from shiftproof.runs.engine import run_study
    from shiftproof.runs.estimate import estimate_study
    from shiftproof.runs.models import model_file
    from shiftproof.runs.prepare import prepare_study

    asked = {"source": source, "target": target, "limit": limit, "sample_seed": sample_seed}
    study = _study(absolute(data), absolute(model), objective, seed, with_architecture(set_, architecture), asked)
    (name,), count = study.models, workers or os.cpu_count() or 1
    requirements = [Requirement.parse(text) for text in require or []]
    prepared = prepare_study(study)
    if estimate:
        show_costs(estimate_study(prepared, count), json)
        return
    folder = out or prepared.default_folder
    path = model_file(folder, study, name)
    before = path.is_file()
    run = run_study(prepared, folder, workers=count, device=device, progress="lines", require=requirements)
    run.export()
    content, card, outcomes = run.content(), read_card(path), outcomes_now(run, require)
    kept = card["selection"]
    if json:
        result = {"model": str(path), "run": str(run.folder), "selected": kept, "seconds": card["seconds"]}
        result |= {key: value[name] for key, value in accuracy_json(content.accuracy).items()}
        result["findings"] = [asdict(finding) for finding in run.findings]
        show_json(result | {"requirements": [asdict(one) for one in outcomes]})
    else:
        show_accuracy(content.accuracy)
        show_findings(run.findings)
        say(f"\nkept    step {kept['step']} of {card['recipe']['steps']} ({_why(kept)})")
        say(f"model   {path}{' (was there already)' if before else ''}")
        if study.models[name].pretrain is not None:
            say(f"before  {path.with_name('model-pretrained.safetensors')}")
        say(f"report  {run.folder / 'report.html'}")
        show_outcomes(outcomes)
    if any(not one.met for one in outcomes):
        raise typer.Exit(EXIT_FAILED)


def _why(kept: dict[str, Any]) -> str:
    """The accuracies of the kept step, and the rule that chose it."""
    accuracy = f"{kept['validation_accuracy']:.1%} on source validation"
    for kind, shown in {"noisy": "under noise", "robust": "under attack"}.items():
        if kept[f"{kind}_accuracy"] is not None:
            accuracy += f", {kept[f'{kind}_accuracy']:.1%} {shown}"
    return f"{accuracy}; by {kept['rule']}"


def _study(data: str, model: str, objective: str, seed: int, changes: list[str], asked: dict[str, Any]) -> Study:
    """The command line as a study of one model, so that both are checked by the same rules."""
    from shiftproof.errors import UsageError
    from shiftproof.runs.one_model import model_title
    from shiftproof.runs.study_files import apply_override, validated

    one: dict[str, Any] = {"model": {"name": model}, "objective": {"name": objective}, "training": {}}
    document: dict[str, Any] = {"name": "train", "data": {"name": data}, "seed": seed, "at_top": True, **asked}
    for change in changes:
        if (whole := change.partition("=")[0].strip()) in ("model", "objective"):
            raise UsageError(f"--set {change} would replace the whole {whole}: name it with --{whole}")
        apply_override(document if change.startswith("data.") else one, change)
    title = model_title(model)
    return validated({**document, "title": f"Training of {title}", "models": {title: one}}, "command line")
