"""What must be true before training starts, and what makes two runs the same run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from shiftproof.domains import Domain, Domains, as_domains
from shiftproof.errors import DataError, ModelError
from shiftproof.models.files import fingerprint
from shiftproof.objectives import OBJECTIVES, Objective, Recipe

__all__ = ["checked_sources", "identity_of"]


def checked_sources(model: nn.Module, sources: Any) -> Domains:
    """Sources as domains that the model can be trained on: readable, of a shape and with labels that it takes."""
    if isinstance(sources, Domains | Domain):
        domains, outputs = as_domains(sources), None
    else:
        pairs = sources.values() if isinstance(sources, Mapping) else [sources]
        example = next(
            (torch.as_tensor(pair[0]) for pair in pairs if isinstance(pair, tuple | list) and len(pair) == 2), None
        )
        outputs = None if example is None or not len(example) else _outputs(model, example[:1].float())
        domains = as_domains(sources, outputs)
    for domain in domains:
        if not len(domain):
            raise DataError(f"domain {domain.name!r} has no samples to train on")
        domain.inputs.prepare()
    outputs = outputs or _outputs(model, next(iter(domains)).take(np.array([0]))[0])
    if outputs < len(domains.classes):
        raise ModelError(f"the model has {outputs} outputs, but the data has {len(domains.classes)} classes")
    return domains


def _outputs(model: nn.Module, example: Tensor) -> int:
    training = model.training
    parameter = next(model.parameters(), None)
    try:
        with torch.no_grad():
            logits = model.eval()(example if parameter is None else example.to(parameter.device))
    except RuntimeError as error:
        raise ModelError(f"the model does not take inputs of shape {tuple(example.shape[1:])}: {error}") from error
    finally:
        model.train(training)
    if not isinstance(logits, Tensor) or logits.ndim != 2:
        raise ModelError("the model should return logits, one row of numbers a sample")
    return logits.shape[1]


def identity_of(
    model: nn.Module, domains: Domains, objective: Objective, recipe: Recipe, rule: str, seed: int
) -> dict[str, Any]:
    """What makes two training runs the same run."""
    return {
        "objective": f"{OBJECTIVES.name_of(objective)}: {objective!r}",
        "recipe": repr(recipe),
        "selection": rule,
        "seed": seed,
        "data": {domain.name: domain.fingerprint for domain in sorted(domains, key=lambda domain: domain.name)},
        "initial weights": fingerprint(model),
    }
