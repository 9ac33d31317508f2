"""Whether an attack keeps its promises, on classifiers whose worst inputs are known."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor, nn

from shiftproof.attacks import Attack, AttackResult, Base, attack, craft
from shiftproof.domains import Domain
from shiftproof.errors import ShiftproofError
from shiftproof.perturbations.edits import Edits
from shiftproof.perturbations.embedding import EmbeddingThreat
from shiftproof.perturbations.l1 import worst_linear_change
from shiftproof.perturbations.norms import DUALS, Norm
from shiftproof.perturbations.threat import Threat, as_threat, inside
from shiftproof.rng import seeded_globals, torch_generator
from shiftproof.testing.require import require, require_frozen
from shiftproof.testing.text_attacks import check_text_attack

__all__ = ["check_attack"]

_SHAPE = (1, 2, 4)
_SIZE, _POINTS = 8, 20
_LARGEST = 0.25
"""Samples are this far from the ends of [0, 1], so that in every norm the worst change is inside the range."""
_MISSED = 0.05
"""Of the worst loss of margin, what an attack with a random start may leave."""


def check_attack(one: Attack) -> None:
    """Whether an attack keeps its promises, in every norm that it takes; one on text is tried on texts.

    Finds the worst input of a linear classifier (if it `seeks_worst`), in linf and l1 also where pixels are at the ends
    of [0, 1]; stays in the ball and in range; the same for any order, any part of the samples, any second time; leaves
    the model and the global random state alone; takes gradients of 0.
    """
    name = type(one).__name__
    require(isinstance(one, Attack), f"{name} should derive from shiftproof.attacks.Attack")
    require_frozen(one)
    if isinstance(one.threat, Edits | EmbeddingThreat):
        check_text_attack(one)
        return
    options: Any = one
    for norm in get_args(Norm):
        threat = Threat(norm, min(one.threat.eps, _LARGEST))
        try:
            within: Attack = dataclasses.replace(options, threat=threat)
        except ShiftproofError:
            require(norm != one.threat.norm, f"{name} does not take its own norm, {norm}")
            continue
        _check_worst(name, within, *_points())
        if one.clip and norm != "l2":
            _check_worst(name, within, *_saturated_points(threat.eps))
        _check_invariance(name, within)
        _check_model_untouched(name, within)
        _check_zero_gradient(name, within)


def _points() -> tuple[Tensor, Tensor]:
    generator = torch_generator(0, "testing", "attack")
    inputs = _LARGEST + (1 - 2 * _LARGEST) * torch.rand(_POINTS, *_SHAPE, generator=generator)
    return inputs, torch.randint(0, 2, (_POINTS,), generator=generator)


def _saturated_points(eps: float) -> tuple[Tensor, Tensor]:
    """Samples of which most numbers are at an end of [0, 1], or nearer to it than a change would go."""
    inputs, labels = _points()
    draws = torch.rand(inputs.shape, generator=torch_generator(0, "testing", "attack", "saturated"))
    end = inputs.round()
    near = end + (0.5 - end).sign() * 0.3 * eps
    return torch.where(draws < 0.4, end, torch.where(draws < 0.8, near, inputs)), labels


def _worst_loss(weights: Tensor, inputs: Tensor, labels: Tensor, norm: Norm, radii: Tensor, clip: bool) -> Tensor:
    """What the worst change takes off the margin of a linear classifier (N); in closed form."""
    against = (1 - 2 * labels)[:, None] * weights
    flat = inputs.flatten(1)
    if not clip or norm == "l2":
        length: Tensor = torch.linalg.vector_norm(weights, DUALS[norm])
        return radii * length
    if norm == "linf":
        change = torch.where(against > 0, torch.minimum(1 - flat, radii[:, None]), -torch.minimum(flat, radii[:, None]))
    else:
        change = worst_linear_change(against, flat, radii)
    return (against * change).sum(1)


def _linear(weights: Tensor, inputs: Tensor) -> nn.Module:
    """Two classes that a plane through the middle of the samples divides."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(_SIZE, 2))
    layer = model[1]
    assert isinstance(layer, nn.Linear)
    with torch.no_grad():
        layer.weight.copy_(torch.stack([-weights, weights]) / 2)
        layer.bias.copy_(torch.tensor([0.5, -0.5]) * (inputs.flatten(1) @ weights).median())
    return model


def _check_worst(name: str, one: Attack, inputs: Tensor, labels: Tensor) -> None:
    weights = torch.randn(_SIZE, generator=torch_generator(0, "testing", "attack", "weights"))
    threat = as_threat(one.threat)
    ids, norm, eps = [str(i) for i in range(_POINTS)], threat.norm, threat.eps
    # half of the samples in half of the ball: a verifier attacks every sample inside its own radius
    radii = torch.tensor([eps, eps / 2]).repeat(_POINTS // 2)
    victim = Base(_linear(weights, inputs))
    attacked = craft(victim, inputs, labels, one, radii=radii, ids=ids)
    require(bool(inside(attacked - inputs, norm, radii).all()), f"{name} leaves the {norm} ball")
    if one.clip:
        require(bool(((attacked >= 0) & (attacked <= 1)).all()), f"{name} leaves [0, 1]")
    lost = ((inputs - attacked).flatten(1) @ weights) * (2 * labels - 1)
    worst = _worst_loss(weights, inputs, labels, norm, radii, one.clip)
    missed_each = (worst - lost) / worst.clamp(min=1e-12)
    if one.early_exit:
        missed_each = missed_each.masked_fill(victim.answers(attacked) != labels, 0)
    missed = float(missed_each.max())
    if not one.seeks_worst:
        return
    require(missed <= _MISSED, f"{name} in {norm} leaves {missed:.0%} of what the worst change of a linear model does")


def _check_invariance(name: str, one: Attack) -> None:
    inputs, labels = _points()
    model = _linear(torch.linspace(-1, 1, _SIZE), inputs)
    domain = Domain.from_arrays("points", inputs, labels.numpy(), ["below", "above"])
    state = torch.get_rng_state()
    whole = attack(model, domain, one)
    require(torch.equal(state, torch.get_rng_state()), f"{name} draws from the global random state")
    require(_same(whole, attack(model, domain, one)), f"{name}: the same seed gives another result")
    for what, chosen in {"order": np.arange(_POINTS)[::-1].copy(), "company": np.array([2, 11, 5])}.items():
        part = attack(model, domain.subset(chosen), one)
        expected = dataclasses.replace(
            whole, inputs=whole.inputs[chosen], predictions=whole.predictions[chosen], distance=whole.distance[chosen]
        )
        require(_same(part, expected), f"{name}: the result depends on the {what} of samples")


def _check_model_untouched(name: str, one: Attack) -> None:
    inputs, labels = _points()
    with seeded_globals(0, "testing"):
        layers = [nn.Conv2d(1, 3, 1), nn.BatchNorm2d(3), nn.ReLU(), nn.Dropout(0.5), nn.Flatten(), nn.Linear(24, 2)]
        model = nn.Sequential(*layers).train()
    layers[1].eval()
    next(layers[0].parameters()).requires_grad_(False)

    def condition() -> tuple[list[bool], list[tuple[bool, bool]]]:
        return [m.training for m in model.modules()], [(p.requires_grad, p.grad is None) for p in model.parameters()]

    before, weights = condition(), {key: value.clone() for key, value in model.state_dict().items()}
    attack(model, (inputs, labels), one)
    same = all(torch.equal(weights[key], value) for key, value in model.state_dict().items())
    require(same, f"{name} changes weights or statistics of the model")
    require(condition() == before, f"{name} changes modes of layers, or gradients of parameters")


def _check_zero_gradient(name: str, one: Attack) -> None:
    inputs, labels = _points()
    result = attack(_linear(torch.zeros(_SIZE), inputs), (inputs, labels), one)
    require(bool(result.inputs.isfinite().all()), f"{name}: a gradient of 0 gives inputs that are not numbers")


def _same(one: AttackResult, other: AttackResult) -> bool:
    # a product of matrices may round otherwise in a batch of another size
    near = torch.allclose(one.inputs, other.inputs, atol=1e-5) and np.allclose(one.distance, other.distance, atol=1e-5)
    return bool(near and np.array_equal(one.predictions, other.predictions))
