"""What can be attacked: a classifier as it is, or what becomes of it under noise."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Protocol

import torch
from torch import Tensor, nn

from shiftproof.errors import ModelError, UsageError
from shiftproof.models.text import EmbeddedTexts, noise_shape
from shiftproof.perturbations.noise import Noise, draw
from shiftproof.rng import numpy_generator
from shiftproof.types import FloatArray, IntArray

__all__ = ["Base", "Scored", "Smoothed", "Victim", "frozen", "max_batch_size"]

SCORES, VOTES = "attack scores", "attack votes"
"""What noise is for: an example is judged by other noise than that on which it was made."""

_SAMPLES, _BYTES = 256, 1 << 24
_FEWEST, _MOST, _CACHED = 32, 1_024, 1 << 17
"""Votes in a batch: as many noisy copies as stay in the caches."""


class Scored(Protocol):
    """What an attack can follow."""

    def scores(self, inputs: Tensor) -> Tensor:
        """N x classes, differentiable: larger is more in favour of a class."""


class Victim(Scored, Protocol):
    """A classifier with scores that an attack can follow, and answers by which it is judged."""

    @property
    def classifier(self) -> str:
        """base | smoothed | ...: of which classifier a result speaks."""

    @property
    def model(self) -> nn.Module:
        """The network inside, which is kept as it is while it is attacked."""

    @property
    def exact(self) -> bool:
        """Whether the largest score is always the answer; else an attack does not stop at the first that misleads."""

    @property
    def passes(self) -> int:
        """Forward passes of the network for the scores of one input."""

    def answers(self, inputs: Tensor) -> Tensor:
        """N predictions, without gradients."""


@dataclass(frozen=True, eq=False)
class Base:
    """A network as it is: its logits."""

    model: nn.Module

    classifier: ClassVar[str] = "base"
    exact: ClassVar[bool] = True
    passes: ClassVar[int] = 1

    def scores(self, inputs: Tensor) -> Tensor:
        """The logits."""
        return _logits(self.model, inputs)

    def logits(self, inputs: Tensor) -> Tensor:
        """The logits without gradients, as many inputs at a time as fit into memory."""
        with torch.no_grad(), frozen(self.model):
            parts = [
                _checked(_logits(self.model, part)) for part in torch.split(inputs, max_batch_size(inputs.shape[1:]))
            ]
        return torch.cat(parts)

    def answers(self, inputs: Tensor) -> Tensor:
        """The class with the largest logit."""
        return self.logits(inputs).argmax(1)


@dataclass(frozen=True, eq=False)
class Smoothed:
    """The majority vote of a network under noise.

    Scores are logs of the softmax averaged over `samples` noisy copies; answers are the majority of `votes` others.
    All inputs share the noise, so that nothing depends on which of them come together. Salman et al., "Provably robust
    deep learning via adversarially trained smoothed classifiers" (2019, arXiv:1906.04584).
    """

    model: nn.Module
    noise: Noise
    samples: int = 16
    votes: int = 1_000
    seed: int = 0

    classifier: ClassVar[str] = "smoothed"
    exact: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name in ("samples", "votes"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is {getattr(self, name)!r}; it should be at least 1")

    @property
    def passes(self) -> int:
        """One for each noisy copy."""
        return self.samples

    def scores(self, inputs: Tensor, shifts: Tensor | None = None) -> Tensor:
        """The logs of the mean probabilities; the gradient goes through all copies.

        `shifts` (N x size) are added to the noise, which for one that deforms is inside its interpolation, and for one
        on embeddings a change of these.
        """
        count = self.samples
        parameters = _parameters(self.noise, self._shape(inputs), count, self.seed).to(inputs.device)
        parameters = parameters.repeat(len(inputs), 1)
        if shifts is not None:
            parameters = parameters + shifts.to(parameters).repeat_interleave(count, 0)
        if self.noise.embedded:
            logits = EmbeddedTexts.of(self.model, inputs).moved(parameters)
        else:
            logits = _logits(self.model, self.noise.apply(inputs.repeat_interleave(count, 0), parameters))
        return logits.log_softmax(-1).reshape(len(inputs), count, -1).logsumexp(1) - math.log(count)

    def answers(self, inputs: Tensor) -> Tensor:
        """The class with most votes; of equal ones the first."""
        return torch.from_numpy(self.counts(inputs).argmax(1)).to(inputs.device)

    def counts(self, inputs: Tensor, shifts: FloatArray | None = None) -> IntArray:
        """Votes for every class (N x classes); `shifts` (N x size) are added to the noise."""
        shape = self._shape(inputs)
        moves = None if shifts is None else torch.from_numpy(shifts).float().to(inputs.device)
        generator = numpy_generator(self.seed, VOTES, self.noise.law, self.noise.size(shape))
        # without gradients there is room for more
        most = 4 * max_batch_size(shape)
        counts: list[Tensor] = []
        with torch.no_grad(), frozen(self.model):
            for start in range(0, self.votes, most):
                piece = draw(self.noise, shape, min(most, self.votes - start), generator)
                parameters = torch.from_numpy(piece * self.noise.scale).float().to(inputs.device)
                votes = [
                    self._votes(one, parameters if moves is None else parameters + moves[row])
                    for row, one in enumerate(inputs)
                ]
                counts = [sum_ + new for sum_, new in zip(counts, votes, strict=True)] if start else votes
        return torch.stack(counts).cpu().numpy()

    def _votes(self, one: Tensor, parameters: Tensor) -> Tensor:
        # no more at a time than stay in the caches: what is larger is slower
        size = parameters.shape[1] if self.noise.embedded else one.numel()
        parts = torch.split(parameters, max(_FEWEST, min(_MOST, _CACHED // max(1, size))))
        if self.noise.embedded:
            text = EmbeddedTexts.of(self.model, one[None])
            logits = torch.cat([text.moved(part) for part in parts])
        else:
            logits = torch.cat([_logits(self.model, self.noise.apply(one[None], part)) for part in parts])
        return torch.bincount(_checked(logits).argmax(1), minlength=logits.shape[1])

    def _shape(self, inputs: Tensor) -> tuple[int, ...]:
        """Of what the noise is drawn for."""
        return noise_shape(self.noise, self.model, tuple(inputs.shape[1:]))


def max_batch_size(shape: tuple[int, ...], passes: int = 1) -> int:
    """How many inputs of a shape are attacked together, so that what is kept for gradients fits into memory."""
    numbers = max(1, math.prod(shape))
    return max(1, min(_SAMPLES, _BYTES // (4 * numbers)) // passes)


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """Keep a network in eval mode and its parameters without gradients inside the block, and as it was after it."""
    modes = [(module, module.training) for module in model.modules()]
    flags = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    training = model.training
    try:
        if any(mode for _, mode in modes):
            model.eval()
        for parameter, _ in flags:
            parameter.requires_grad_(False)
        yield
    finally:
        if training:
            # a network may have work of its own to do here; what it makes of its layers is then set right
            model.train()
        for module, mode in modes:
            module.training = mode
        for parameter, flag in flags:
            parameter.requires_grad_(flag)


def _logits(model: nn.Module, inputs: Tensor) -> Tensor:
    """Logits with gradients, of a copy: a network may overwrite what it is given."""
    parameter = next(model.parameters(), inputs)
    logits: Tensor = model(inputs.to(parameter.device, parameter.dtype, copy=True))
    return logits


def _checked(logits: Tensor) -> Tensor:
    if bool(logits.isnan().any()):
        raise ModelError("the model returns values that are not numbers (NaN)")
    return logits


@lru_cache(maxsize=2)
def _parameters(noise: Noise, shape: tuple[int, ...], count: int, seed: int) -> Tensor:
    """The noise of scores (count x size), which every step of an attack meets again."""
    generator = numpy_generator(seed, SCORES, noise.law, noise.size(shape))
    return torch.from_numpy(draw(noise, shape, count, generator) * noise.scale).float()
