"""Names and options of a study, checked against the catalogues before anything is loaded or trained."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from shiftproof.domains.registry import data_set
from shiftproof.errors import ShiftproofError, UnknownName
from shiftproof.models.load import check_options
from shiftproof.objectives import OBJECTIVES
from shiftproof.probes import PROBES
from shiftproof.studies.schema import ModelSpec, Study
from shiftproof.training.optimisers import check_recipe

__all__ = ["check_names"]

Location = tuple[str | int, ...]
Problem = tuple[Location, ShiftproofError]


def check_names(study: Study) -> Iterator[Problem]:
    """Where the study names something that does not exist, or gives it a value that it can't take."""
    yield from _try(("data",), lambda: data_set(study.data.name, study.data.options))
    for name, spec in study.models.items():
        yield from _check_model(("models", name), spec)
    for index, probe in enumerate(study.probes):
        yield from _try(("probes", index), lambda probe=probe: PROBES.create(probe.name, probe.options))  # type: ignore[misc]


def _check_model(location: Location, spec: ModelSpec) -> Iterator[Problem]:
    yield from _try((*location, "model"), lambda: check_options(spec.model.name, spec.model.options))
    yield from _try((*location, "objective"), lambda: OBJECTIVES.create(spec.objective.name, spec.objective.options))
    if spec.objective.name in OBJECTIVES:
        recipe = OBJECTIVES[spec.objective.name].cls.recipe
        yield from _try((*location, "training"), lambda: check_recipe(recipe.override(spec.training)))  # type: ignore[attr-defined]


def _try(location: Location, attempt: Callable[[], object]) -> Iterator[Problem]:
    try:
        attempt()
    except UnknownName as error:
        yield (*location, error.name), error
    except ShiftproofError as error:
        yield location, error
