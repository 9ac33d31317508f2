"""A head over a frozen encoder is trained on the encoder's features, which are computed once and kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from shiftproof.domains import Domain
from shiftproof.domains.inputs import ArrayInputs
from shiftproof.execution import Compute, Mode
from shiftproof.models import SplitModel
from shiftproof.models.features import Extractor, extract_features
from shiftproof.objectives import Objective, Recipe
from shiftproof.objectives.objective import Selection
from shiftproof.training.job import Job
from shiftproof.training.machine import input_type, math_threads

__all__ = ["trained_on_features", "uses_features"]

_AS_THEY_ARE: tuple[Selection, ...] = ("source-validation", "loss-source-validation", "last")
"""Ways to select weights that look at inputs as they are."""


def uses_features(
    model: nn.Module, objective: Objective, plan: Recipe, rule: Selection, trained_on: Sequence[Domain]
) -> bool:
    """Whether training sees features in place of inputs; by what is asked for alone, so that a resumed run agrees.

    The encoder has to stay as it is, and loss and selection have to look at inputs through the model and unchanged, so
    that nothing is augmented. It pays if training asks for more samples than there are.
    """
    return (
        plan.part == "head"
        and plan.augment == "none"
        and isinstance(model, SplitModel)
        and objective.takes_features
        and rule in _AS_THEY_ARE
        and all(domain.kind == "image" for domain in trained_on)
        and input_type(model) is None
        and plan.steps * plan.batch * len(trained_on) > sum(map(len, trained_on))
    )


@contextmanager
def trained_on_features(job: Job, progress: Mode = "off") -> Iterator[Job]:
    """The job with features in place of inputs; inside the block the model is its head alone."""
    model = job.model
    assert isinstance(model, SplitModel)
    encoder = model.encoder
    extractor = Extractor("the encoder", encoder.eval())
    with math_threads(job.state.threads), Compute(str(job.device)).exact_products():
        sources = [_with_features(one, extractor, progress) for one in job.sources]
        measured = [_with_features(one, extractor, progress) for one in job.validation.domains]
    try:
        model.encoder = nn.Identity()
        yield replace(job, sources=sources, validation=replace(job.validation, domains=measured))
    finally:
        model.encoder = encoder


class FeatureInputs(ArrayInputs):
    """Features in memory, which may be any numbers."""

    def __init__(self, features: NDArray[np.float32]) -> None:
        self._values = torch.from_numpy(features)


def _with_features(domain: Domain, extractor: Extractor, progress: Mode) -> Domain:
    features = extract_features(extractor, domain.inputs, domain.name, progress=progress)
    return replace(domain, inputs=FeatureInputs(features), counterfactual=None)
