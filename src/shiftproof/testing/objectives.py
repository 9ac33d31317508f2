"""Whether an objective keeps its promises."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from shiftproof.catalogue import checked_options
from shiftproof.models import SplitModel
from shiftproof.objectives import Objective, Recipe
from shiftproof.objectives.erm import ERM
from shiftproof.rng import seeded_globals, torch_generator
from shiftproof.testing.require import require
from shiftproof.training.optimisers import check_recipe
from shiftproof.types import Batch

__all__ = ["check_objective"]

_DESCENT_STEPS = 60
_DRAWS = 32


def check_objective(objective: Objective) -> None:
    """Whether an objective keeps its promises.

    Loss and gradient are finite and repeatable, the model is left as it was, the order of domains does not matter, a
    sample goes forward as often as `passes` says, the loss is ERM's where `neutral` says so, and a toy is learnt.
    """
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
    _check_gradient(name, objective, model, batch)
    _check_modes(name, objective, model, batch)
    _check_passes(name, objective, model, batch)
    for options in getattr(objective, "neutral", ()):
        _check_neutral(name, objective, options, model, batch)
    require(_same_mean(objective, model, batch, _reversed(batch)), f"{name}: the loss depends on the order of domains")
    require(_learns(objective), f"{name} does not lower its loss on a toy problem in {_DESCENT_STEPS} steps")


def _check_gradient(name: str, objective: Objective, model: nn.Module, batch: Batch) -> None:
    gradients = _gradients(objective, model, batch)
    require(all(bool(gradient.isfinite().all()) for gradient in gradients), f"{name}: a gradient is not finite")
    require(any(bool(gradient.any()) for gradient in gradients), f"{name}: the gradient is 0")


def _check_modes(name: str, objective: Objective, model: nn.Module, batch: Batch) -> None:
    """An attack inside the loss freezes the model; after it the model is as it was."""
    layer = next(module for module in model.modules() if isinstance(module, nn.ReLU))
    model.train()
    layer.eval()
    _loss(objective, model, batch)
    modes = [module.training for module in model.modules() if module is not layer]
    require(all(modes) and not layer.training, f"{name}.loss leaves layers in another mode")
    require(all(one.requires_grad for one in model.parameters()), f"{name}.loss leaves parameters without gradient")
    layer.train()


def _check_passes(name: str, objective: Objective, model: nn.Module, batch: Batch) -> None:
    seen, said = 0, getattr(objective, "passes", 1)

    def count(_module: nn.Module, _inputs: Any, output: Tensor) -> None:
        nonlocal seen
        seen += len(output)

    hook = next(module for module in model.modules() if isinstance(module, nn.ReLU)).register_forward_hook(count)
    _loss(objective, model, batch)
    hook.remove()
    made = seen / len(batch.inputs)
    require(made == said, f"{name}: a sample goes forward {made:g} times in a step, not {said} times")


def _check_neutral(name: str, objective: Any, options: dict[str, Any], model: nn.Module, batch: Batch) -> None:
    changed = dataclasses.replace(
        objective, **checked_options(type(objective), {**_options(objective), **options}, name)
    )
    shown = ", ".join(f"{key} {value}" for key, value in options.items())
    expected, found = _loss(ERM(), model, batch), _loss(changed, model, batch)
    require(abs(expected - found) <= 1e-5, f"{name} with {shown}: the loss is {found:.6f}, that of ERM {expected:.6f}")
    pairs = zip(_gradients(ERM(), model, batch), _gradients(changed, model, batch), strict=True)
    require(
        all(torch.allclose(one, other, rtol=1e-3, atol=1e-6) for one, other in pairs),
        f"{name} with {shown}: the gradient is not that of ERM",
    )


def _options(objective: Any) -> dict[str, Any]:
    return {field.name: getattr(objective, field.name) for field in dataclasses.fields(objective)}


def _gradients(objective: Objective, model: nn.Module, batch: Batch) -> list[Tensor]:
    total = objective.loss(model, batch, torch_generator(0, "testing", "objective", 0)).total
    return list(torch.autograd.grad(total, list(model.parameters())))


def _toy_model() -> nn.Module:
    with seeded_globals(0, "testing"):
        return SplitModel(nn.Sequential(nn.Flatten(), nn.Linear(2 * 4 * 4, 16), nn.ReLU()), nn.Linear(16, 2))


def _toy_batch(step: int, size: int = 32, memory: Mapping[str, Tensor] | None = None) -> Batch:
    """Two domains of different difficulty; the class is which half of the image is brighter."""
    generator = torch_generator(0, "testing", step)
    inputs, labels = [], []
    for contrast in (0.6, 0.3):
        label = torch.randint(0, 2, (size,), generator=generator)
        image = 0.2 * torch.rand(size, 2, 4, 4, generator=generator)
        image[:, :, :, :2] += contrast * label.view(-1, 1, 1, 1)
        inputs.append(image + 0.1)
        labels.append(label)
    return Batch(torch.cat(inputs), torch.cat(labels), ("easy", "hard"), (size, size), step, memory or {})


def _reversed(batch: Batch) -> Batch:
    parts = batch.per_domain()[::-1]
    return Batch(
        torch.cat([part.inputs for part in parts]),
        torch.cat([part.labels for part in parts]),
        batch.names[::-1],
        batch.sizes[::-1],
        batch.step,
        batch.memory,
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
    memory: Mapping[str, Tensor] = {}
    for step in range(_DESCENT_STEPS):
        generator = torch_generator(0, "testing", "descent", step)
        loss = objective.loss(model, _toy_batch(step, memory=memory), generator)
        memory = loss.memory
        optimiser.zero_grad()
        loss.total.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return _loss(objective, model, _toy_batch(0)) < start


def _frozen(objective: Any) -> bool:
    return bool(objective.__dataclass_params__.frozen)
