"""Names and options of a study, checked against the catalogues before anything is loaded or trained."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from shiftproof.domains.registry import data_set
from shiftproof.errors import ShiftproofError, UnknownName, UsageError
from shiftproof.evidence import slug
from shiftproof.models import MODELS
from shiftproof.models.load import check_options, check_trained
from shiftproof.objectives import OBJECTIVES, Objective
from shiftproof.probes import PROBES
from shiftproof.runs.spec import GIVEN, ModelSpec, Pretrain, Study
from shiftproof.training.optimisers import check_recipe
from shiftproof.training.selection import check_rule

__all__ = ["check_names"]

Location = tuple[str | int, ...]
Problem = tuple[Location, ShiftproofError]


def check_names(study: Study) -> Iterator[Problem]:
    """Where the study names something that does not exist, or gives it a value that it can't take."""
    if study.data.name != GIVEN:
        yield from _try(("data",), lambda: data_set(study.data.name, study.data.options))
    for name, spec in study.models.items():
        yield from _check_model(("models", name), spec)
        if spec.pretrain is not None:
            yield from _try(("models", name, "pretrain"), lambda name=name: _check_apart(study, name))  # type: ignore[misc]
    for index, probe in enumerate(study.probes):
        yield from _try(("probes", index), lambda probe=probe: PROBES.create(probe.name, probe.options))  # type: ignore[misc]


def _check_model(location: Location, spec: ModelSpec) -> Iterator[Problem]:
    if not spec.train:
        yield from _try((*location, "model"), lambda: _check_as_it_is(spec))
        return
    yield from _try((*location, "model"), lambda: check_options(spec.model.name, spec.model.options))
    yield from _check_phase(location, spec)
    if spec.pretrain is not None:
        inner, phase = (*location, "pretrain"), spec.pretrain
        yield from _try(inner, lambda: _check_network(spec.model.name))
        yield from _try((*inner, "data"), lambda: data_set(phase.data.name, phase.data.options))
        yield from _check_phase(inner, phase)


def _check_phase(location: Location, phase: ModelSpec | Pretrain) -> Iterator[Problem]:
    def objective() -> Objective:
        return OBJECTIVES.create(phase.objective.name, phase.objective.options)

    yield from _try((*location, "objective"), objective)
    if (rule := phase.selection) is not None:
        yield from _try((*location, "selection"), lambda: check_rule(rule, objective()))
    if phase.objective.name in OBJECTIVES:
        recipe = OBJECTIVES[phase.objective.name].cls.recipe
        yield from _try((*location, "training"), lambda: check_recipe(recipe.override(phase.training)))


def _check_as_it_is(spec: ModelSpec) -> None:
    """Whether there is something to measure without training."""
    name = spec.model.name
    if name == GIVEN:
        return
    if name in MODELS:
        raise UsageError(f"{name!r} is a network without training; 'train: false' needs a trained one: file:PATH")
    check_options(name, spec.model.options)
    check_trained(name, spec.model.options)
    unused = [key for key in ("objective", "training", "selection", "pretrain") if key in spec.model_fields_set]
    if unused:
        raise UsageError(f"{unused[0]} means nothing to a model that is not trained: leave it or 'train: false' out")


def _check_network(name: str) -> None:
    if name not in MODELS:
        why = "a model of a file is trained already" if name.startswith("file:") else "it is built by other code"
        raise UsageError(
            f"pretrain is for networks by name (shiftproof ls models), but the model is {name!r}: {why}; leave it out"
        )


def _check_apart(study: Study, name: str) -> None:
    """Whether no other model's file is where a pre-trained network goes."""
    for other in study.models:
        if slug(other) == f"{slug(name)}-pretrained":
            raise UsageError(
                f"what {name!r} is pre-trained to would be kept where the model {other!r} goes; rename that"
            )


def _try(location: Location, attempt: Callable[[], object]) -> Iterator[Problem]:
    try:
        attempt()
    except UnknownName as error:
        yield (*location, error.name), error
    except ShiftproofError as error:
        yield location, error
