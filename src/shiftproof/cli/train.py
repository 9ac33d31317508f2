"""`shiftproof train`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from shiftproof.cli.options import (
    Architecture,
    AsJson,
    Data,
    Device,
    Seed,
    Set,
    Workers,
    accuracy_json,
    say,
    show_accuracy,
    show_findings,
    show_json,
    with_architecture,
)

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
    workers: Workers = None,
    device: Device = "auto",
    json: AsJson = False,
) -> None:
    """Train a model on the source domains and measure it on all; writes model.safetensors and model.json.

    --set changes options of data, model, objective and training: --set data.size=28 --set objective.sigma=0.5 --set
    training.steps=200. --set selection=last says which weights are kept. On a trained model, --model file:DIR --set
    model.head=free --set training.part=head trains a new head; --set pretrain.data=NAME --set pretrain.objective=NAME
    trains the network on other data first. See: shiftproof ls training
    """
    import os
    from dataclasses import asdict

    from shiftproof.evidence import Evidence, EvidenceStore
    from shiftproof.execution import check_writable
    from shiftproof.probes import run_probe
    from shiftproof.probes.clean import Clean
    from shiftproof.report import accuracy_table, shift_findings
    from shiftproof.runs.data import data_findings, load_study_data
    from shiftproof.runs.identity import digest, resolved
    from shiftproof.runs.models import train_to_file, training_findings
    from shiftproof.runs.seen import seen_target

    study = _study(data, source, target, model, objective, seed, with_architecture(set_, architecture))
    config = resolved(study)
    folder = out or Path("runs") / f"train-{digest(config)}"
    check_writable(folder)
    loaded = load_study_data(study)
    beside, before = str(folder.resolve()), (folder / "model.json").is_file()
    trained, card = train_to_file(
        study.models["model"],
        loaded,
        folder / "model.safetensors",
        Path(f"{beside}.ckpt"),
        seed=seed,
        data=config["data"],
        extractor=(Path(f"{beside}.pretrained", "model.safetensors"), Path(f"{beside}.pretrained.ckpt")),
        device=device,
        progress="lines",
    )
    count = workers or os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as scratch:
        store = EvidenceStore(Path(scratch))
        rows = [
            run_probe(Clean(), trained, place, store, model_name=model, seed=seed, workers=count)
            for place in loaded.measured
        ]
    table = accuracy_table(Evidence.concat(rows), loaded.sources.names, target, seed)
    kept = card["selection"]
    counts = {domain.name: domain.class_counts for domain in loaded.domains}
    findings = [*shift_findings(table, counts), *data_findings(loaded)]
    findings += training_findings(model, study.models["model"], trained, loaded.sources)
    findings += seen_target(model, card, data, loaded.target)
    if json:
        result = {"model": str(folder / "model.safetensors"), "selected": kept, "seconds": card["seconds"]}
        result |= {key: value[model] for key, value in accuracy_json(table).items()}
        show_json(result | {"findings": [asdict(finding) for finding in findings]})
        return
    show_accuracy(table)
    show_findings(findings)
    say(f"\nkept    step {kept['step']} of {card['recipe']['steps']} ({_why(kept)})")
    say(f"model   {folder / 'model.safetensors'}{' (was there already)' if before else ''}")
    if study.models["model"].pretrain is not None:
        say(f"before  {Path(f'{folder}.pretrained', 'model.safetensors')}")


def _why(kept: dict[str, Any]) -> str:
    """The accuracies of the kept step, and the rule that chose it."""
    accuracy = f"{kept['validation_accuracy']:.1%} on source validation"
    for kind, shown in {"noisy": "under noise", "robust": "under attack"}.items():
        if kept[f"{kind}_accuracy"] is not None:
            accuracy += f", {kept[f'{kind}_accuracy']:.1%} {shown}"
    return f"{accuracy}; by {kept['rule']}"


def _study(
    data: str, source: str | None, target: str | None, model: str, objective: str, seed: int, changes: list[str]
) -> Any:
    """The command line as a study of one model, so that both are checked by the same rules."""
    from shiftproof.errors import UsageError
    from shiftproof.runs.study_files import apply_override, validated

    one: dict[str, Any] = {"model": {"name": model}, "objective": {"name": objective}, "training": {}}
    document: dict[str, Any] = {
        "name": "train",
        "data": {"name": data},
        "seed": seed,
        "target": target,
        "source": source,
    }
    for change in changes:
        if (whole := change.partition("=")[0].strip()) in ("model", "objective"):
            raise UsageError(f"--set {change} would replace the whole {whole}: name it with --{whole}")
        apply_override(document if change.startswith("data.") else one, change)
    return validated({**document, "models": {"model": one}}, "command line")
