"""A head over representations: what it answers, and whether an answer holds in a whole box of them."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from shiftproof.certification.bounds.boxes import box_margin, check_head, propagate, split_last
from shiftproof.certification.bounds.interval import bias_of
from shiftproof.models.lipschitz import frozen
from shiftproof.models.lipschitz.constants import lipschitz_bound

__all__ = ["Head"]

_SLACK = 1e-9
"""Of a margin, relative to the logits: float64 rounds far less."""


@dataclass(frozen=True, eq=False)
class Head:
    """The layers behind a representation of `shape`, in float64."""

    module: nn.Module
    shape: tuple[int, ...]

    @cached_property
    def frozen(self) -> nn.Module:
        """A plain copy."""
        return copy.deepcopy(frozen(self.module, self.shape)).double().eval().requires_grad_(False)

    def logits(self, values: Tensor) -> Tensor:
        """Of representations (N x D)."""
        with torch.no_grad():
            logits: Tensor = self.frozen(values.double())
        return logits

    def answers(self, values: Tensor) -> Tensor:
        """The class with the largest logit."""
        return self.logits(values).argmax(1)

    def check(self, bound: str) -> None:
        """Refuse a head that the bound can't be computed for."""
        if bound == "box":
            check_head(self.frozen)
        else:
            _ = self._body_constant

    def holds(self, low: Tensor, high: Tensor, classes: Tensor, bound: str) -> Any:
        """Whether the given classes win everywhere in boxes (N x D), as far as the bound can tell."""
        if bound == "box":
            with torch.no_grad():
                margin = box_margin(self.frozen, low, high, classes)
            scale = self.logits((low.double() + high.double()) / 2).abs().amax(1)
        else:
            middle, half = (low.double() + high.double()) / 2, (high.double() - low.double()) / 2
            logits = self.logits(middle)
            scale = logits.abs().amax(1)
            margin = self._lead(logits, classes, half.amax(1))
        return (margin > _SLACK * scale).numpy()

    def loses(self, low: Tensor, high: Tensor, classes: Tensor) -> Any:
        """Whether some other class is ahead of the given ones everywhere in boxes (N x D), as far as boxes can tell."""
        body, last = split_last(self.frozen)
        with torch.no_grad():
            low, high = propagate(body, low.double(), high.double())
            if last is None:
                ahead = low - high.gather(1, classes[:, None])
            else:
                differences = last.weight[None] - last.weight[classes][:, None]  # N x K x D
                middle, half = (low + high) / 2, (high - low) / 2
                ahead = (differences @ middle[:, :, None] - differences.abs() @ half[:, :, None])[:, :, 0]
                offset = bias_of(last)
                ahead = ahead + offset[None] - offset[classes][:, None]
            ahead[torch.arange(len(classes)), classes] = -torch.inf
        return (ahead.amax(1) > 0).numpy()

    def holds_as_published(self, median: Tensor, low: Tensor, high: Tensor, classes: Tensor) -> Any:
        """The published rule: margin above twice delta times the product of L2 norms of rows. Not sound."""
        middle = median.double()
        delta = torch.maximum(high.double() - middle, middle - low.double()).amax(1)
        logits = self.logits(middle)
        rows = torch.arange(len(classes))
        others = logits.clone()
        others[rows, classes] = -torch.inf
        margin = logits[rows, classes] - others.amax(1)
        return (margin > 2 * delta * self._published_constant).numpy()

    def _lead(self, logits: Tensor, classes: Tensor, reach: Tensor) -> Tensor:
        """How far the classes are ahead, less what the L-infinity constant allows a move of `reach` to change."""
        last = split_last(self.frozen)[1]
        gaps = logits.gather(1, classes[:, None]) - logits
        if last is None:
            slopes = torch.full_like(gaps, 2.0)
        else:
            slopes = (last.weight[classes][:, None] - last.weight[None]).abs().sum(2)
        leads = gaps - slopes * self._body_constant * reach[:, None]
        leads[torch.arange(len(classes)), classes] = torch.inf
        return leads.amin(1)

    @cached_property
    def _body_constant(self) -> float:
        """The true L-infinity constant of all layers but a last linear one."""
        return lipschitz_bound(split_last(self.frozen)[0], self.shape, "linf")

    @cached_property
    def _published_constant(self) -> float:
        norms = [
            float(layer.weight.detach().norm(dim=1).max())
            for layer in self.frozen.modules()
            if isinstance(layer, nn.Linear)
        ]
        return float(np.prod(norms)) if norms else 1.0
