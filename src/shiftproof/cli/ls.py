"""`shiftproof ls [KIND]`."""

from __future__ import annotations

from typing import Annotated, Any, get_args

import typer

from shiftproof.cli.completion import known_names
from shiftproof.cli.options import AsJson
from shiftproof.cli.show import say, show_json, show_table

__all__ = ["command"]

KINDS = (
    "domains",
    "models",
    "objectives",
    "training",
    "noise",
    "corruptions",
    "attacks",
    "certifiers",
    "probes",
    "sections",
    "studies",
)


def _complete_kind(incomplete: str) -> list[str]:
    return [kind for kind in KINDS if kind.startswith(incomplete)]


def _complete_name(context: typer.Context, incomplete: str) -> list[str]:
    kind = str(context.params.get("kind"))
    names = known_names(kind) if kind in KINDS and kind != "training" else []
    return [name for name in names if name.startswith(incomplete)]


def command(
    kind: Annotated[
        str | None,
        typer.Argument(help=f"{', '.join(KINDS)}; the names of all if not given.", autocompletion=_complete_kind),
    ] = None,
    name: Annotated[
        str | None,
        typer.Argument(help="Only this one, such as: ls objectives trades", autocompletion=_complete_name),
    ] = None,
    yaml: Annotated[
        bool, typer.Option("--yaml", help="Print the file of a study, to copy and change: ls studies quickstart --yaml")
    ] = False,
    json: AsJson = False,
) -> None:
    """List what there is, from data sets to studies; of one kind with options."""
    from shiftproof.errors import UnknownName

    if yaml:
        _print_study(kind, name)
        return

    if kind is not None and kind not in KINDS:
        raise UnknownName("kind", kind, KINDS)
    listing = {one: _entries(one) for one in KINDS if kind in (None, one)}
    if kind is not None and name is not None:
        known = [entry["name"] for entry in listing[kind]]
        if name not in known:
            raise UnknownName(kind.removesuffix("s"), name, known)
        listing = {kind: [entry for entry in listing[kind] if entry["name"] == name]}
    if json:
        show_json(listing)
        return
    if kind is None:
        names = [[title, ", ".join(entry["name"] for entry in entries)] for title, entries in listing.items()]
        show_table(["kind", "names"], names)
        say("shiftproof ls KIND says what each is and which options it takes; shiftproof ls KIND NAME says it of one.")
        return
    for title, entries in listing.items():
        rows = [
            [
                entry["name"],
                entry["summary"],
                ", ".join(f"{key}={value}" for key, value in entry.get("options", {}).items()),
                "\n".join(_notes(entry)),
            ]
            for entry in entries
        ]
        show_table([title, "what it is", "options", "notes"], rows)


def _print_study(kind: str | None, name: str | None) -> None:
    """The text of a study's file."""
    from shiftproof.errors import UnknownName, UsageError
    from shiftproof.runs import list_studies

    if kind != "studies" or name is None:
        raise UsageError("--yaml prints the file of one study: shiftproof ls studies NAME --yaml")
    known = list_studies()
    if name not in known:
        raise UnknownName("study", name, known)
    typer.echo(known[name].read_text("utf-8"), nl=False)


def _notes(entry: dict[str, Any]) -> list[str]:
    """Metadata, and for an objective how it is trained and where its options are searched."""
    notes = [f"{key}: {value}" for key, value in entry.get("metadata", {}).items()]
    if "recipe" in entry:
        recipe = entry["recipe"]
        notes.append(
            f"training: {recipe['optimiser']} {recipe['lr']:g} {recipe['schedule']}, {recipe['steps']:,} steps of "
            f"{recipe['batch']:,}, kept by {entry['selection']}"
        )
    if entry.get("choices"):
        notes.append("choices: " + "; ".join(f"{key} {', '.join(some)}" for key, some in entry["choices"].items()))
    if entry.get("ranges"):
        notes.append("search: " + ", ".join(f"{key} {value}" for key, value in entry["ranges"].items()))
    return notes


def _entries(kind: str) -> list[dict[str, Any]]:
    if kind == "studies":
        from shiftproof.runs import find_study, list_studies

        return [{"name": name, "summary": find_study(name).title} for name in list_studies()]
    if kind == "sections":
        from shiftproof.report import SECTIONS

        return [{"name": entry.name, "summary": entry.summary} for entry in SECTIONS]
    if kind == "training":
        return _settings()
    from shiftproof.attacks import ATTACKS
    from shiftproof.catalogue import choices_of, options_of
    from shiftproof.certification import CERTIFIERS
    from shiftproof.domains import DOMAINS
    from shiftproof.models import MODELS
    from shiftproof.models.heads import Head
    from shiftproof.models.networks.architecture import Front
    from shiftproof.objectives import OBJECTIVES
    from shiftproof.perturbations.corruptions import CORRUPTIONS
    from shiftproof.perturbations.noise import NOISES
    from shiftproof.probes import PROBES

    catalogues: dict[str, Any] = {
        "domains": DOMAINS,
        "models": MODELS,
        "objectives": OBJECTIVES,
        "noise": NOISES,
        "corruptions": CORRUPTIONS,
        "attacks": ATTACKS,
        "certifiers": CERTIFIERS,
        "probes": PROBES,
    }
    shared = {**options_of(Front), **options_of(Head)} if kind == "models" else {}
    return [
        {
            "name": entry.name,
            "summary": entry.summary,
            "options": {
                key: "required" if value is ... else value if isinstance(value, str | int | float) else str(value)
                for key, value in {**entry.options, **shared}.items()
            },
            "metadata": dict(entry.metadata),
            "choices": {**choices_of(entry.cls), **(choices_of(Head) if kind == "models" else {})},
            **(_training(entry.cls) if kind == "objectives" else {}),
        }
        for entry in catalogues[kind]
    ]


def _training(objective: Any) -> dict[str, Any]:
    """How an objective is trained unless told, and where its options are searched."""
    from dataclasses import asdict

    from shiftproof.catalogue import ranges_of

    ranges = {name: str(one) for name, one in ranges_of(objective).items()}
    return {"recipe": asdict(objective.recipe), "selection": objective.selection, "ranges": ranges}


def _settings() -> list[dict[str, Any]]:
    """What --set NAME=VALUE can change of training."""
    from shiftproof.catalogue import options_of
    from shiftproof.objectives import Recipe
    from shiftproof.objectives.objective import Selection
    from shiftproof.training.optimisers import OPTIMISERS, SCHEDULES

    meaning = {
        "optimiser": f"one of {', '.join(OPTIMISERS)}",
        "lr": "learning rate",
        "batch": "samples of every source domain in a step",
        "steps": "how many steps, unless until is plateau or patience",
        "schedule": f"of the learning rate: one of {', '.join(SCHEDULES)}",
        "weight_decay": "pull of the weights towards 0",
        "momentum": "of sgd",
        "evaluate_every": "steps between two looks at the validation parts",
        "part": "what is trained: all, or the head alone",
        "samples": "of every source domain that are trained on, at most; all unless told",
        "until": "steps; plateau or patience: until source validation no longer gains, or its loss no longer falls",
        "augment": "none, or domainbed: training images are cut, mirrored and recoloured at random",
        "epochs": "passes through the data, at most, where training stops by itself",
    }
    defaults = dict.fromkeys(("optimiser", "lr", "batch", "steps", "schedule", "evaluate_every"), "the objective's")
    beside = {
        "selection": f"whose weights are kept: {', '.join(get_args(Selection))}",
        "model.head": "with --model file:DIR, a new head on its encoder: free, row-l1, row-l2, spectral; also "
        "model.head_layers",
        "pretrain.data": "a data set to train on first; also pretrain.source, .objective, .training.NAME, .selection",
    }
    return [
        *(
            {"name": f"training.{name}", "summary": meaning[name], "options": {"default": defaults.get(name, value)}}
            for name, value in options_of(Recipe).items()
        ),
        *({"name": name, "summary": summary} for name, summary in beside.items()),
    ]
