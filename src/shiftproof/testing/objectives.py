"""Whether an objective keeps its promises."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Mapping
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor, nn

from shiftproof.catalogue import checked_options
from shiftproof.models import SplitModel
from shiftproof.models.networks import TextCNN
from shiftproof.objectives import Objective, Recipe
from shiftproof.objectives.erm import ERM
from shiftproof.objectives.objective import Selection
from shiftproof.perturbations.text import encode
from shiftproof.rng import seeded_globals, torch_generator
from shiftproof.testing.require import require
from shiftproof.training.optimisers import check_recipe
from shiftproof.training.selection import check_rule
from shiftproof.types import Batch, Loss

__all__ = ["check_objective"]

_DESCENT_STEPS = 60
_WIDTH = 48
"""Bytes of a text."""
_DRAWS = 32
_MORE = 0.2


def check_objective(objective: Objective) -> None:
    """Whether an objective keeps its promises.

    Loss and gradient are finite and repeatable, model and batch are left as they were, the order of domains does not
    matter, a sample goes forward as often as `passes` says, the loss is ERM's where `neutral` says so, and a toy is
    learnt.
    """
    name = type(objective).__name__
    require(isinstance(objective, Objective), f"{name} should derive from shiftproof.objectives.Objective")
    require(dataclasses.is_dataclass(objective) and _frozen(objective), f"{name} should be a frozen dataclass")
    for needed in ("recipe", "selection"):
        require(needed in dir(objective), f"{name} has no {needed}")
    require(isinstance(objective.recipe, Recipe), f"{name}.recipe should be a Recipe")
    check_recipe(objective.recipe)
    rule = objective.selection
    require(rule in get_args(Selection), f"{name}.selection is {rule!r}; it should be one of {get_args(Selection)}")
    check_rule(objective.selection, objective)
    model = _toy_model(objective)
    batch = _toy_batch(objective, 0)
    first = objective.loss(_toy_model(objective), batch, torch_generator(0, "testing", "objective", 0))
    _check_values(name, first)
    _check_leftovers(name, objective)
    require(
        _loss(objective, model, batch) == float(first.total.detach()),
        f"{name}: the same generator gives another loss; all randomness must come from it",
    )
    state = torch.get_rng_state()
    _loss(objective, model, batch)
    require(torch.equal(state, torch.get_rng_state()), f"{name}.loss draws from the global random state")
    _check_gradient(name, objective, model, batch)
    _check_passes(name, objective, model, batch)
    for options in objective.neutral:
        _check_neutral(name, objective, options, model, batch)
    require(_same_mean(objective, model, batch, _reversed(batch)), f"{name}: the loss depends on the order of domains")
    require(_learns(objective), f"{name} learns nothing of a toy problem in {_DESCENT_STEPS} steps")


def _check_gradient(name: str, objective: Objective, model: nn.Module, batch: Batch) -> None:
    gradients = _gradients(objective, model, batch)
    require(all(bool(gradient.isfinite().all()) for gradient in gradients), f"{name}: a gradient is not finite")
    require(any(bool(gradient.any()) for gradient in gradients), f"{name}: the gradient is 0")


def _check_values(name: str, loss: Loss) -> None:
    for what, value in {"loss": loss.total, **loss.parts, **loss.memory}.items():
        require(bool(value.isfinite().all()), f"{name}: {what} is {value.tolist()}")


def _check_leftovers(name: str, objective: Objective) -> None:
    """An attack inside the loss freezes the model; after it the model, but for statistics, and the batch are as before.

    One layer is in eval mode and one parameter frozen beforehand, as in a model of which only a part is trained.
    """
    model, batch, untouched = _toy_model(objective), _toy_batch(objective, 0), _toy_batch(objective, 0)
    layer = next(module for module in model.modules() if isinstance(module, nn.ReLU)).eval()
    kept = next(model.parameters()).requires_grad_(False)
    weights, hooks = [one.detach().clone() for one in model.parameters()], _hooks(model)
    objective.loss(model, batch, torch_generator(0, "testing", "objective", 0))
    pairs = zip(weights, model.parameters(), strict=True)
    require(all(torch.equal(before, after) for before, after in pairs), f"{name}.loss changes the model's weights")
    modes = [module.training for module in model.modules() if module is not layer]
    require(all(modes) and not layer.training, f"{name}.loss leaves layers in another mode")
    flags = [one.requires_grad for one in model.parameters() if one is not kept]
    require(all(flags) and not kept.requires_grad, f"{name}.loss changes which parameters are trained")
    require(all(one.grad is None for one in model.parameters()), f"{name}.loss leaves gradients behind")
    require(_hooks(model) == hooks, f"{name}.loss leaves hooks behind")
    same = torch.equal(batch.inputs, untouched.inputs) and torch.equal(batch.labels, untouched.labels)
    require(same, f"{name}.loss changes the batch")


def _hooks(model: nn.Module) -> int:
    return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())


def _check_passes(name: str, objective: Objective, model: nn.Module, batch: Batch) -> None:
    seen, expected = 0, objective.passes

    def count(_module: nn.Module, _inputs: Any, output: Tensor) -> None:
        nonlocal seen
        seen += len(output)

    hook = next(module for module in model.modules() if isinstance(module, nn.ReLU)).register_forward_hook(count)
    _loss(objective, model, batch)
    hook.remove()
    made = seen / len(batch.inputs)
    # a look at a few samples is no pass
    require(
        math.floor(made) == expected,
        f"{name}: a sample goes forward {made:g} times in a step, not {expected} times",
    )


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
    model = copy.deepcopy(model)
    total = objective.loss(model, batch, torch_generator(0, "testing", "objective", 0)).total
    return list(torch.autograd.grad(total, list(model.parameters())))


def _toy_model(objective: Objective) -> nn.Module:
    with seeded_globals(0, "testing"):
        if objective.kind == "text":
            encoder, width = TextCNN(width=8, filters=4, vocabulary=64, length=16).encoder((_WIDTH,))
            return SplitModel(nn.Sequential(encoder, nn.ReLU()), nn.Linear(width, 2))
        convolution = [nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()]
        return SplitModel(nn.Sequential(*convolution, nn.Flatten(), nn.Linear(64, 16), nn.ReLU()), nn.Linear(16, 2))


def _toy_batch(objective: Objective, step: int, memory: Mapping[str, Tensor] | None = None) -> Batch:
    """Two domains of different difficulty and size; the class is which half of the image is brighter, or what most of
    the words of a text are.
    """
    generator = torch_generator(0, "testing", step)
    inputs, labels, sizes = [], [], (32, 12)
    for contrast, size in zip((0.6, 0.3), sizes, strict=True):
        label = torch.randint(0, 2, (size,), generator=generator)
        labels.append(label)
        if objective.kind == "text":
            own = torch.rand(size, 6, generator=generator) < 0.5 + contrast
            words = torch.where(own, label[:, None], 1 - label[:, None]).tolist()
            inputs.append(encode([" ".join(("no", "yes")[word] for word in row) for row in words], _WIDTH))
            continue
        image = 0.2 * torch.rand(size, 2, 4, 4, generator=generator)
        image[:, :, :, :2] += contrast * label.view(-1, 1, 1, 1)
        inputs.append(image + 0.1)
    return Batch(torch.cat(inputs), torch.cat(labels), ("easy", "hard"), sizes, step, memory or {})


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
    # of a copy: a pass in train mode moves the statistics that an attack meets
    loss = objective.loss(copy.deepcopy(model), batch, torch_generator(0, "testing", "objective", draw))
    return float(loss.total.detach())


def _same_mean(objective: Objective, model: nn.Module, one: Batch, other: Batch) -> bool:
    """Whether two batches have the same expected loss: another order meets other draws, so that only means compare."""
    losses = np.array([[_loss(objective, model, batch, draw) for draw in range(_DRAWS)] for batch in (one, other)])
    means, variances = losses.mean(1), losses.var(1)
    rounding = 1e-5 * (1 + abs(means[0]))
    return bool(abs(means[0] - means[1]) <= rounding + 5 * math.sqrt(variances.sum() / _DRAWS))


def _learns(objective: Objective) -> bool:
    model = _toy_model(objective)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    start = _loss(objective, model, _toy_batch(objective, 0))
    memory: Mapping[str, Tensor] = {}
    for step in range(_DESCENT_STEPS):
        generator = torch_generator(0, "testing", "descent", step)
        loss = objective.loss(model, _toy_batch(objective, step, memory=memory), generator)
        memory = loss.memory
        optimiser.zero_grad()
        loss.total.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    # a loss with a part that counts only where the answer is right may rise while the model learns
    return (
        _loss(objective, model, _toy_batch(objective, 0)) < start
        or _right(objective, model) > _right(objective, _toy_model(objective)) + _MORE
    )


def _right(objective: Objective, model: nn.Module) -> float:
    batch = _toy_batch(objective, 0)
    with torch.no_grad():
        return float((copy.deepcopy(model).eval()(batch.inputs).argmax(1) == batch.labels).float().mean())


def _frozen(objective: Any) -> bool:
    return bool(objective.__dataclass_params__.frozen)
