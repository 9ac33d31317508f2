"""Whether an objective keeps its promises."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from shiftproof.objectives import Objective, Recipe
from shiftproof.rng import seeded_globals, torch_generator
from shiftproof.testing.require import require
from shiftproof.training.optimisers import check_recipe
from shiftproof.types import Batch

__all__ = ["check_objective"]

_DESCENT_STEPS = 60
_DRAWS = 32


def check_objective(objective: Objective) -> None:
    """Whether an objective keeps its promises: finite, repeatable, blind to the order of domains, learns a toy."""
    name = type(objective).__name__
    require(dataclasses.is_dataclass(objective) and _frozen(objective), f"{name} should be a frozen dataclass")
    require(isinstance(objective.recipe, Recipe), f"{name}.recipe should be a Recipe")
    check_recipe(objective.recipe)
    model = _toy_model()
    batch = _toy_batch(0)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    first = _loss(objective, model, batch)
    require(math.isfinite(first), f"{name}: the loss is {first}")
    require(
        all(torch.equal(before[key], value) for key, value in model.state_dict().items()),
        f"{name}.loss changes the model's state",
    )
    require(
        _loss(objective, model, batch) == first,
        f"{name}: the same generator gives another loss; all randomness must come from it",
    )
    state = torch.get_rng_state()
    _loss(objective, model, batch)
    require(torch.equal(state, torch.get_rng_state()), f"{name}.loss draws from the global random state")
    require(_same_mean(objective, model, batch, _reversed(batch)), f"{name}: the loss depends on the order of domains")
    require(_learns(objective), f"{name} does not lower its loss on a toy problem in {_DESCENT_STEPS} steps")


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
