"""The first of two phases: a network is trained on other data before it gets its head for the study's."""

from __future__ import annotations

from typing import Any

from torch import nn

from shiftproof.catalogue import options_of
from shiftproof.domains import Domains
from shiftproof.models import build_model
from shiftproof.models.heads import Head
from shiftproof.runs.data import StudyData
from shiftproof.runs.model_spec import ModelSpec, Pretrain
from shiftproof.runs.sources import ModelSource
from shiftproof.runs.spec import Study

__all__ = ["first_alike", "first_phase", "new_head", "phase_data", "untrained"]


def first_phase(spec: ModelSpec, phase: Pretrain) -> ModelSpec:
    """The first phase as a model of its own: the network with the head that every network has unless told."""
    own = {option: value for option, value in spec.model.options.items() if option not in options_of(Head)}
    return ModelSpec(
        model=ModelSource(spec.model.name, own),
        objective=phase.objective,
        training=phase.training,
        selection=phase.selection,
        seed=spec.seed if phase.seed is None else phase.seed,
    )


def first_alike(study: Study, name: str) -> str:
    """The first model of a study with the same first phase as the one called `name`: it is gone through once."""

    def phase(spec: ModelSpec) -> object:
        return spec.pretrain and (spec.pretrain.data, spec.pretrain.source, first_phase(spec, spec.pretrain))

    return next(other for other, spec in study.models.items() if phase(spec) == phase(study.models[name]))


def new_head(source: ModelSource) -> dict[str, Any]:
    """The options of the head that a pre-trained network gets, the kind among them even if it is not given."""
    given = {option: value for option, value in source.options.items() if option in options_of(Head)}
    return {"head": Head.head, **given}


def phase_data(phase: Pretrain) -> StudyData:
    """What the first phase trains on: all domains of its data unless told, and none is left out."""
    domains = phase.data.load()
    sources = domains if phase.source is None else domains.select(phase.source)
    for domain in sources:
        domain.inputs.prepare()
    return StudyData(sources)


def untrained(spec: ModelSpec, sources: Domains, before: Domains | None = None) -> nn.Module:
    """A model before any training; refuses a network that can't be carried from one data set to the other.

    `before` is what the first phase trains on, if that is at hand.
    """
    if spec.pretrain is None:
        return spec.model.load(sources)
    phase = first_phase(spec, spec.pretrain)
    before = phase_data(spec.pretrain).sources if before is None else before
    network = build_model(phase.model.name, before, **phase.model.options)
    return network.with_fresh_head(sources, **new_head(spec.model))
