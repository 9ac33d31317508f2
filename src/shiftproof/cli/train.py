"""`shiftproof train`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shiftproof.cli import options as o
from shiftproof.cli.measure import compute_of, finish, measure
from shiftproof.cli.show import no_target, outcomes_now, show_json
from shiftproof.cli.summary import show_summary

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from shiftproof.runs import Run, Study

__all__ = ["command"]


def command(
    data: o.Data,
    target: o.Target = None,
    source: o.Source = None,
    model: o.NewModel = "cnn",
    architecture: o.Architecture = None,
    objective: o.Objective = "erm",
    seed: o.Seed = 0,
    out: o.Out = None,
    set_: o.SetOfTrain = None,
    limit: o.Limit = None,
    sample_seed: o.SampleSeed = 0,
    require: o.Require = None,
    junit: o.Junit = None,
    budget: o.Budget = None,
    estimate: o.Estimate = False,
    workers: o.Workers = None,
    device: o.Device = "auto",
    cluster: o.Cluster = None,
    processes: o.Processes = 1,
    verbose: o.Verbose = False,
    no_images: o.NoImages = False,
    json: o.AsJson = False,
) -> None:
    """Train a model on the source domains and measure it on all; the same command continues where it was stopped.

    Writes a run with model.safetensors and model.json at its top: --model file:DIR takes it.

    --set changes options of data, model, objective and training: --set data.size=28 --set objective.sigma=0.5 --set
    training.steps=200. --set selection=last says which weights are kept. On a trained model, --model file:DIR --set
    model.head=free --set training.part=head trains a new head; --set pretrain.data=NAME --set pretrain.objective=NAME
    trains the network on other data first. See: shiftproof ls training
    """
    from shiftproof.runs.models import model_file
    from shiftproof.runs.prepare import prepare_study

    compute = compute_of(workers, device, cluster)
    asked = {"source": source, "target": target, "limit": limit, "sample_seed": sample_seed, "budget": budget}
    changes = o.with_architecture(set_, architecture)
    study = _study(o.absolute(data), o.absolute(model), objective, seed, changes, asked)
    prepared = prepare_study(study, "lines")
    folder = out or prepared.default_folder
    path = model_file(folder, study, study.members[0])
    trained_before = path.is_file()
    note = "" if study.targets else no_target(prepared)
    asked_of_run: dict[str, Any] = {
        "require": require,
        "estimate": estimate,
        "compute": compute,
    }
    asked_of_run["processes"] = processes
    run = measure(prepared, folder, **asked_of_run, json=json, note=note, junit=junit, images=not no_images)
    if run is None:
        return
    if json:
        _show_json(run, path, require)
    else:
        show_summary(run, require, verbose, list(_kept(run, path, trained_before)))
    finish(run, require, junit=junit, images=not no_images)


def _kept(run: Run, path: Path, trained_before: bool) -> Iterator[tuple[str, str]]:
    """Which step was kept, why training stopped, and where the model is."""
    from shiftproof.models import read_card

    card, (spec,) = read_card(path), run.study.models.values()
    kept = card["selection"]
    stopped = card.get("stopped") or {"step": card["recipe"]["steps"], "reason": "steps"}
    yield "kept", f"step {kept['step']} of {stopped['step']} ({_why(kept, not card['classes'])})"
    if stopped["reason"] != "steps":
        ended = f"all {card['recipe']['epochs']} epochs are over" if stopped["reason"] == "epochs" else "a plateau"
        yield "stopped", f"after step {stopped['step']}: {ended}"
    yield "model", f"{path}{' (was there already)' if trained_before else ''}"
    if spec.pretrain is not None:
        yield "before", str(path.with_name("model-pretrained.safetensors"))


def _show_json(run: Run, path: Path, require: list[str] | None) -> None:
    from dataclasses import asdict

    from shiftproof.models import read_card

    card, (name,) = read_card(path), run.study.models
    result = {"model": str(path), "run": str(run.folder), "selected": card["selection"], "seconds": card["seconds"]}
    figures = run.content().scores.figures() or run.content().accuracy.figures()
    result |= {key: value[name] for key, value in figures.items()}
    result["findings"] = [asdict(finding) for finding in run.findings]
    show_json(result | {"requirements": [asdict(one) for one in outcomes_now(run, require)]})


def _why(kept: dict[str, Any], regression: bool) -> str:
    """The accuracies of the kept step, or its correlation with true numbers, and the rule that chose it."""
    if regression:
        return f"correlation {kept['validation_accuracy']:.3f} on source validation; by {kept['rule']}"
    accuracy = f"{kept['validation_accuracy']:.1%} on source validation"
    for kind, shown in {"noisy": "under noise", "robust": "under attack"}.items():
        if kept[f"{kind}_accuracy"] is not None:
            accuracy += f", {kept[f'{kind}_accuracy']:.1%} {shown}"
    if kept.get("mean_radius") is not None:
        accuracy += f", mean radius there about {kept['mean_radius']:.3f}, which is no certificate"
    return f"{accuracy}; by {kept['rule']}"


def _study(data: str, model: str, objective: str, seed: int, changes: list[str], asked: dict[str, Any]) -> Study:
    """The command line as a study of one model, so that both are checked by the same rules."""
    from shiftproof.errors import UsageError
    from shiftproof.runs.sources import ModelSource
    from shiftproof.runs.study_files import apply_override, validated

    one: dict[str, Any] = {"model": {"name": model}, "objective": {"name": objective}, "training": {}}
    document: dict[str, Any] = {"name": "train", "data": {"name": data}, "seed": seed, "at_top": True}
    document |= {key: value for key, value in asked.items() if value is not None}
    for change in changes:
        if (whole := change.partition("=")[0].strip()) in ("model", "objective"):
            raise UsageError(f"--set {change} would replace the whole {whole}: name it with --{whole}")
        if whole.split(".")[0] == "probes":
            raise UsageError("--set: unknown key 'probes'. train measures accuracy; certify and attack measure more")
        apply_override(document if change.startswith("data.") else one, change)
    title = ModelSource(model).title
    return validated({**document, "title": f"Training of {title}", "models": {title: one}}, "command line")
