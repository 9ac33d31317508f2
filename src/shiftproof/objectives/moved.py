"""What an attack inside a training step moves: the pixels of images, or the embeddings of texts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from shiftproof.attacks.ascent import Rule, ascend, attackable
from shiftproof.attacks.embedded_steps import ascend_embedded, attackable_texts
from shiftproof.errors import UsageError
from shiftproof.execution.compute import TrainingPrecision
from shiftproof.models.text import EmbeddedTexts, text_encoder_of
from shiftproof.perturbations.embedding import EmbeddingThreat
from shiftproof.perturbations.threat import Threat
from shiftproof.types import Batch

__all__ = ["Climb", "Movable", "movable_batch"]


@dataclass(frozen=True)
class Climb:
    """How an attack inside a training step goes."""

    steps: int
    step: float | None
    rule: Rule
    random_start: bool


@dataclass(frozen=True, eq=False)
class Movable(ABC):
    """A batch whose samples an attack moves, and a model's `scores` (float64) as a function of where they are."""

    start: Tensor
    """Where they are before it (N x ...)."""
    scores: Callable[[Tensor], Tensor]
    batch: Batch

    @abstractmethod
    def ascend(self, losses: Callable[[Tensor], Tensor], climb: Climb, generator: torch.Generator) -> Tensor:
        """Where they are moved up the losses of their scores, inside the threat (N x ...)."""

    @abstractmethod
    def read(self, points: Tensor, part: nn.Module) -> Tensor:
        """What a model, or its encoder, says at such points, with gradients for its weights."""


@dataclass(frozen=True, eq=False)
class _Pixels(Movable):
    threat: Threat

    def ascend(self, losses: Callable[[Tensor], Tensor], climb: Climb, generator: torch.Generator) -> Tensor:
        start, steps = self.start, climb.steps
        return ascend(
            self.scores, losses, start, self.threat, steps, generator,
            step=climb.step, rule=climb.rule, random_start=climb.random_start, draw=self.batch.draw,
        )  # fmt: skip

    def read(self, points: Tensor, part: nn.Module) -> Tensor:
        answer: Tensor = part(points)
        return answer


@dataclass(frozen=True, eq=False)
class _Embeddings(Movable):
    threat: EmbeddingThreat
    texts: EmbeddedTexts

    def ascend(self, losses: Callable[[Tensor], Tensor], climb: Climb, generator: torch.Generator) -> Tensor:
        return ascend_embedded(
            self.texts, self.scores, losses, self.threat, climb.steps, generator,
            step=climb.step, rule=climb.rule, random_start=climb.random_start,
        )  # fmt: skip

    def read(self, points: Tensor, part: nn.Module) -> Tensor:
        # the change is a constant, and the embedding that it is added to is trained
        return self.texts.read(part, self.texts.embed() + (points - self.start))


@contextmanager
def movable_batch(
    model: nn.Module, batch: Batch, threat: Threat | EmbeddingThreat, precision: TrainingPrecision
) -> Iterator[Movable]:
    """A batch as a threat moves it; inside the block the model is in eval mode and frozen, after it as it was."""
    if isinstance(threat, EmbeddingThreat):
        with attackable_texts(model, batch.inputs, precision) as (texts, scores):
            yield _Embeddings(texts.embed().detach(), scores, batch, threat, texts)
        return
    if text_encoder_of(model) is not None:
        raise UsageError(
            f"{threat} is a change of pixels, but the model reads text: give the objective the threat embedding-l2:1.0"
        )
    with attackable(model, batch.inputs, precision) as scores:
        yield _Pixels(batch.inputs, scores, batch, threat)
