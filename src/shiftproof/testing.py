"""Conformance checks that anybody can run on their own data and methods.

>>> from shiftproof import load_domains, objectives
>>> check_domains(load_domains("digits"))
>>> check_objective(objectives.ERM())
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from shiftproof.domains import Domains, held_out, train_part, validation_part
from shiftproof.errors import ConformanceError
from shiftproof.objectives import Objective, Recipe
from shiftproof.rng import seeded_globals, torch_generator
from shiftproof.training.optimisers import check_recipe
from shiftproof.types import Batch

__all__ = ["check_domains", "check_objective"]

_PROBED = 64
_DESCENT_STEPS = 60
_DRAWS = 32


def check_domains(domains: Domains) -> None:
    """Whether domains keep their promises: range, shape, labels, ids, repeatable reads, parts that do not overlap."""
    for domain in domains:
        where = f"domain {domain.name!r}"
        _require(len(domain) > 0, f"{where} has no samples")
        _require(domain.classes == domains.classes, f"{where} has other classes than the rest")
        _require(len(set(domain.ids.tolist())) == len(domain), f"{where} has two samples with the same id")
        indices = np.unique(np.linspace(0, len(domain) - 1, _PROBED).astype(np.int64))
        inputs, labels = domain.take(indices)
        _require(
            inputs.dtype == torch.float32 and tuple(inputs.shape[1:]) == domains.shape,
            f"{where}: inputs are {inputs.dtype} of shape {tuple(inputs.shape[1:])}",
        )
        _require(
            bool(torch.isfinite(inputs).all()) and float(inputs.min()) >= 0 and float(inputs.max()) <= 1,
            f"{where}: inputs leave [0, 1]",
        )
        _require(
            labels.dtype == torch.int64 and bool((labels >= 0).all()) and int(labels.max()) < len(domain.classes),
            f"{where}: labels leave 0 to {len(domain.classes) - 1}",
        )
        _require(torch.equal(domain.take(indices)[0], inputs), f"{where} gives other inputs when read again")
        first, label = domain[int(indices[-1])]
        _require(
            torch.equal(first, inputs[-1]) and label == int(labels[-1]), f"{where}: domain[i] and take([i]) differ"
        )
        reversed_inputs = domain.take(indices[::-1].copy())[0]
        _require(torch.equal(reversed_inputs.flip(0), inputs), f"{where}: what is read depends on the order of reading")
        train, validation = train_part(domain), validation_part(domain)
        _require(
            not set(train.units.tolist()) & set(validation.units.tolist()), f"{where}: train and validation share units"
        )
        _require(
            not set(train.ids.tolist()) & set(held_out(domain).ids.tolist()),
            f"{where}: train and held-out share samples",
        )
    if len(domains) > 1:
        sources, target = domains.leave_out(domains.names[-1])
        _require(target.name not in sources.names, "leave_out keeps the target among the sources")


def check_objective(objective: Objective) -> None:
    """Whether an objective keeps its promises: finite, repeatable, blind to the order of domains, learns a toy."""
    name = type(objective).__name__
    _require(dataclasses.is_dataclass(objective) and _frozen(objective), f"{name} should be a frozen dataclass")
    _require(isinstance(objective.recipe, Recipe), f"{name}.recipe should be a Recipe")
    check_recipe(objective.recipe)
    model = _toy_model()
    batch = _toy_batch(0)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    first = _loss(objective, model, batch)
    _require(math.isfinite(first), f"{name}: the loss is {first}")
    _require(
        all(torch.equal(before[key], value) for key, value in model.state_dict().items()),
        f"{name}.loss changes the model's state",
    )
    _require(
        _loss(objective, model, batch) == first,
        f"{name}: the same generator gives another loss; all randomness must come from it",
    )
    state = torch.get_rng_state()
    _loss(objective, model, batch)
    _require(torch.equal(state, torch.get_rng_state()), f"{name}.loss draws from the global random state")
    _require(_same_mean(objective, model, batch, _reversed(batch)), f"{name}: the loss depends on the order of domains")
    _require(_learns(objective), f"{name} does not lower its loss on a toy problem in {_DESCENT_STEPS} steps")


def _toy_model() -> nn.Module:
    with seeded_globals(0, "testing"):
        return nn.Sequential(nn.Flatten(), nn.Linear(2 * 4 * 4, 16), nn.ReLU(), nn.Linear(16, 2))


def _toy_batch(step: int, size: int = 32) -> Batch:
    """Two domains of different difficulty; the class is which half of the image is brighter."""
    generator = torch_generator(0, "testing", step)
    inputs, labels = [], []
    for contrast in (0.6, 0.3):
        label = torch.randint(0, 2, (size,), generator=generator)
        image = 0.2 * torch.rand(size, 2, 4, 4, generator=generator)
        image[:, :, :, :2] += contrast * label.view(-1, 1, 1, 1)
        inputs.append(image + 0.1)
        labels.append(label)
    return Batch(torch.cat(inputs), torch.cat(labels), ("easy", "hard"), (size, size), step)


def _reversed(batch: Batch) -> Batch:
    parts = batch.per_domain()[::-1]
    return Batch(
        torch.cat([part.inputs for part in parts]),
        torch.cat([part.labels for part in parts]),
        batch.names[::-1],
        batch.sizes[::-1],
        batch.step,
    )


def _loss(objective: Objective, model: nn.Module, batch: Batch, draw: int = 0) -> float:
    return float(objective.loss(model, batch, torch_generator(0, "testing", "objective", draw)).total.detach())


def _same_mean(objective: Objective, model: nn.Module, one: Batch, other: Batch) -> bool:
    """Whether two batches have the same expected loss: another order meets other draws, so that only means compare."""
    losses = np.array([[_loss(objective, model, batch, draw) for draw in range(_DRAWS)] for batch in (one, other)])
    means, variances = losses.mean(1), losses.var(1)
    rounding = 1e-5 * (1 + abs(means[0]))
    return bool(abs(means[0] - means[1]) <= rounding + 5 * math.sqrt(variances.sum() / _DRAWS))


def _learns(objective: Objective) -> bool:
    model = _toy_model()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    start = _loss(objective, model, _toy_batch(0))
    for step in range(_DESCENT_STEPS):
        loss: Tensor = objective.loss(model, _toy_batch(step), torch_generator(0, "testing", "descent", step)).total
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return _loss(objective, model, _toy_batch(0)) < start


def _frozen(objective: Any) -> bool:
    return bool(objective.__dataclass_params__.frozen)


def _require(condition: bool, sentence: str) -> None:
    if not condition:
        raise ConformanceError(sentence)
