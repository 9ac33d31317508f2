"""Names and options of a study, checked against the catalogues before anything is loaded or trained."""

from __future__ import annotations

from collections.abc import Iterator

from shiftproof.domains import DOMAINS
from shiftproof.errors import ShiftproofError, UnknownName
from shiftproof.models import MODELS
from shiftproof.objectives import OBJECTIVES
from shiftproof.probes import PROBES
from shiftproof.studies.schema import Choice, ModelSpec, Study
from shiftproof.training.optimisers import check_recipe

__all__ = ["check_names"]

Problem = tuple[tuple[str | int, ...], ShiftproofError]
FRONT = ("gray", "mean", "std")
"""Options that every model has: layers in front of the network."""


def check_names(study: Study) -> Iterator[Problem]:
    """Where the study names something that does not exist, and what is wrong there."""
    yield from _check(("data",), lambda: _check_data(study.data), study.data)
    for name, spec in study.models.items():
        yield from _check(("models", name, "model"), lambda spec=spec: _check_model(spec.model), spec.model)
        yield from _check(
            ("models", name, "objective"),
            lambda spec=spec: OBJECTIVES.create(spec.objective.name, spec.objective.options),
            spec.objective,
        )
        yield from _check(("models", name, "training"), lambda spec=spec: _check_recipe(spec), None)
    for index, probe in enumerate(study.probes):
        yield from _check(("probes", index), lambda probe=probe: PROBES.create(probe.name, probe.options), probe)


def _check(location: tuple[str | int, ...], attempt: object, choice: Choice | None) -> Iterator[Problem]:
    try:
        attempt()  # type: ignore[operator]
    except UnknownName as error:
        at_option = choice is None or error.name in choice.options
        yield (*location, error.name if at_option else "name"), error
    except ShiftproofError as error:
        yield location, error


def _check_data(choice: Choice) -> None:
    name, path = (
        ("folder", choice.name.removeprefix("folder:")) if choice.name.startswith("folder:") else (choice.name, None)
    )
    if path is None and (name == "folder" or name not in DOMAINS):
        raise UnknownName("data set", name, [*(e.name for e in DOMAINS if e.name != "folder"), "folder:PATH"])
    DOMAINS.create(name, choice.options if path is None else {"path": path, **choice.options})


def _check_model(choice: Choice) -> None:
    if choice.name.startswith(("file:", "python:")):
        return
    if choice.name not in MODELS:
        raise UnknownName("model", choice.name, [*(e.name for e in MODELS), "file:PATH", "python:PKG.MOD:FN"])
    known = [*MODELS[choice.name].options, *FRONT]
    for option in choice.options:
        if option not in known:
            raise UnknownName(f"option of model {choice.name!r}:", option, known)
    MODELS.create(choice.name, {key: value for key, value in choice.options.items() if key not in FRONT})


def _check_recipe(spec: ModelSpec) -> None:
    objective = OBJECTIVES.create(spec.objective.name, spec.objective.options)
    check_recipe(objective.recipe.override(spec.training))
