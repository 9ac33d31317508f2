"""Activations that move no two points apart, in any norm."""

from __future__ import annotations

from typing import Annotated, Any

import torch
import torch.nn.functional as F
from annotated_types import Ge, MultipleOf
from torch import Tensor, nn

from shiftproof.errors import ModelError
from shiftproof.perturbations.threat import Norm

__all__ = ["Even", "GroupSort", "MaxMin", "ScaledAvgPool2d"]

Even = Annotated[int, Ge(2), MultipleOf(2)]
"""A width that splits into pairs, for options of networks."""


class GroupSort(nn.Module):
    """Sort groups of `size` neighbouring features or channels, largest first; 1-Lipschitz in l1, l2 and linf.

    >>> GroupSort(3)(torch.tensor([[1.0, 3.0, 2.0, 6.0, 5.0, 4.0]]))
    tensor([[3., 2., 1., 6., 5., 4.]])
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, inputs: Tensor) -> Tensor:
        """N x D x ... in, the same shape out."""
        return self._groups(inputs).sort(2, descending=True).values.flatten(1, 2)

    def lipschitz(self, norm: Norm, shape: tuple[int, ...]) -> float:
        """1: sorting is non-expansive."""
        return 1.0

    def extra_repr(self) -> str:
        """What `repr` shows."""
        return f"size={self.size}"

    def _groups(self, inputs: Tensor) -> Tensor:
        # asking first, by an if on the shape, would keep fx from tracing the model
        try:
            return torch.unflatten(inputs, 1, (-1, self.size))
        except RuntimeError as error:
            raise ModelError(
                f"{inputs.shape[1]} features do not split into groups of {self.size}: choose another width"
            ) from error


class MaxMin(GroupSort):
    """GroupSort with groups of two: (a, b) to (max, min).

    >>> MaxMin()(torch.tensor([[1.0, 2.0, 4.0, 3.0]]))
    tensor([[2., 1., 4., 3.]])
    """

    def __init__(self) -> None:
        super().__init__(2)

    def forward(self, inputs: Tensor) -> Tensor:
        """N x D x ... in, the same shape out."""
        groups = self._groups(inputs)
        # in training alone: fx, which traces models that are evaluated, can't look into a function of its own
        if self.training:
            return _SortPairs.apply(inputs)  # type: ignore[no-any-return, no-untyped-call]
        first, second = groups.unbind(2)
        return torch.stack((torch.maximum(first, second), torch.minimum(first, second)), 2).flatten(1, 2)

    def lipschitz(self, norm: Norm, shape: tuple[int, ...]) -> float:
        """1, as of any sorting."""
        return 1.0


class _SortPairs(torch.autograd.Function):
    """Neighbours in dimension 1, larger first, with a gradient that is the same exchange: a third of the time of
    autograd's own, because no step reads or writes every other number.

    Of equal values the first keeps its gradient, where autograd would give each the mean of both.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(inputs: Tensor) -> Tensor:
        # the smaller of two is minus the larger of their negatives
        signs = torch.ones(inputs.shape[1], dtype=inputs.dtype, device=inputs.device)
        signs[1::2] = -1.0
        signs = signs.view(-1, *(1 for _ in inputs.shape[2:]))
        return signs * torch.maximum(signs * inputs, signs * _neighbours(inputs))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        exchanged = (output != inputs[0]).to(output.dtype)
        ctx.save_for_backward(exchanged)
        ctx.save_for_forward(exchanged)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return _exchange(ctx.saved_tensors[0], gradients[0])

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> Tensor:
        return _exchange(ctx.saved_tensors[0], tangents[0])


def _neighbours(values: Tensor) -> Tensor:
    """What stands beside each: of (a, b, c, d) in dimension 1, (b, a, d, c)."""
    places = torch.arange(values.shape[1], device=values.device).view(-1, 2).flip(1).flatten()
    return values.index_select(1, places)


def _exchange(exchanged: Tensor, values: Tensor) -> Tensor:
    # sums of a number and 0, or of 0 and a number, are exact, and faster than a choice between them
    return exchanged * _neighbours(values) + (1 - exchanged) * values


class ScaledAvgPool2d(nn.Module):
    """`size` times the mean over squares of size x size that do not overlap: 1-Lipschitz in l2."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, inputs: Tensor) -> Tensor:
        """N x C x H x W to N x C x H/size x W/size; rows and columns that are left over are dropped."""
        return self.size * F.avg_pool2d(inputs, self.size)

    def lipschitz(self, norm: Norm, shape: tuple[int, ...]) -> float:
        """Of a mean of size^2 pixels, times `size`."""
        return {"l2": 1.0, "linf": float(self.size), "l1": 1 / self.size}[norm]

    def extra_repr(self) -> str:
        """What `repr` shows."""
        return f"size={self.size}"
