"""A network's Lipschitz constant from below, to see whether what is claimed can be true."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from shiftproof.errors import ModelError
from shiftproof.models.lipschitz.constants import lipschitz_bound
from shiftproof.models.lipschitz.freeze import frozen
from shiftproof.models.lipschitz.norms import Shape
from shiftproof.perturbations.threat import Norm, size, steepest
from shiftproof.rng import torch_generator

__all__ = ["Measured", "measure_lipschitz"]

_STARTS, _ITERATIONS, _STEPS = 4, 60, 60
_DUAL: dict[Norm, Norm] = {"l2": "l2", "linf": "l1", "l1": "linf"}
_SLACK = 1e-4


@dataclass(frozen=True)
class Measured:
    """The largest ratio ||f(x) - f(x')|| / ||x - x'|| that was found, and what was claimed; the truth is between."""

    lower: float
    claimed: float


@torch.enable_grad()
def measure_lipschitz(
    module: nn.Module,
    shape: Shape,
    norm: Norm = "l2",
    *,
    points: int = 8,
    seed: int = 0,
    claimed: float | None = None,
) -> Measured:
    """Look for inputs of `shape` that `module` moves apart by more than `claimed`, by default its `lipschitz_bound`.

    Two ways: the norm of the Jacobian at random points, and pairs of points that climb the ratio. ModelError if either
    finds more than was claimed. Everything is evaluated in float64 on a frozen copy in eval mode.
    """
    claimed = lipschitz_bound(module, shape, norm) if claimed is None else claimed
    network = frozen(module, shape).double()
    for parameter in network.parameters():
        parameter.requires_grad = False
    generator = torch_generator(seed, "lipschitz", norm)
    inputs = torch.rand(points, *shape, generator=generator, dtype=torch.float64)
    slope, direction = _steepest_slope(network, inputs, norm, generator)
    lower = max(slope, _climb(network, inputs, direction, norm))
    if not lower <= claimed * (1 + _SLACK):
        raise ModelError(
            f"the model has an {norm} Lipschitz constant of at least {lower:.6g}, but {claimed:.6g} is claimed"
        )
    return Measured(lower, claimed)


def _steepest_slope(
    network: Callable[[Tensor], Tensor], inputs: Tensor, norm: Norm, generator: torch.Generator
) -> tuple[float, Tensor]:
    """The largest norm of a Jacobian at `inputs` that power iteration finds (Boyd, 1974), and a direction for each.

    In l2 it is the usual one; in linf a step goes from the largest row sum seen to the signs of that row, in l1 from
    column to column.
    """
    there = inputs.repeat_interleave(_STARTS, 0).requires_grad_()
    outputs = network(there)
    # J^T u is linear in u, so that its gradient along v is J v: no forward mode, and one pass for all iterations
    weights = torch.zeros_like(outputs, requires_grad=True)
    pulled = torch.autograd.grad(outputs, there, weights, create_graph=True)[0]
    direction = steepest(torch.randn(there.shape, generator=generator, dtype=there.dtype), norm)
    slopes = torch.zeros(len(there), dtype=there.dtype)
    best = direction.clone()
    for _ in range(_ITERATIONS):
        moved = torch.autograd.grad(pulled, weights, direction, retain_graph=True)[0]
        slope = size(moved, norm)
        best[slope > slopes] = direction[slope > slopes]
        slopes = torch.maximum(slopes, slope)
        back = torch.autograd.grad(outputs, there, steepest(moved, _DUAL[norm]), retain_graph=True)[0]
        direction = steepest(back, norm)
    of_each = slopes.view(-1, _STARTS).argmax(1) + _STARTS * torch.arange(len(inputs))
    return float(slopes.max()), best[of_each]


def _climb(network: Callable[[Tensor], Tensor], inputs: Tensor, direction: Tensor, norm: Norm) -> float:
    """The largest ratio of a pair of points that moves uphill, from one at a distance of 0.1 in a steep direction."""
    pair = torch.stack([inputs, inputs + 0.1 * direction]).requires_grad_()
    optimiser = torch.optim.Adam([pair], lr=0.02)
    best = 0.0
    for _ in range(_STEPS):
        apart = size(pair[0] - pair[1], norm)
        ratio = size(network(pair[0]) - network(pair[1]), norm) / apart
        # nearer than that, it would be rounding that is measured
        best = max([best, *ratio.detach()[apart > 1e-6].tolist()])
        optimiser.zero_grad()
        (-ratio.clamp(min=1e-12).log().sum()).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return best
