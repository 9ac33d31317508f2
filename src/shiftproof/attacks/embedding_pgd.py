"""Projected gradient ascent in the embeddings of a text's tokens."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

import torch
from annotated_types import Interval
from torch import Tensor

from shiftproof.attacks.ascent import Rule, climb, reach_of, weaknesses
from shiftproof.attacks.contract import ATTACKS, Attack
from shiftproof.attacks.embedded_steps import step_embedded, step_lengths, text_batches
from shiftproof.attacks.losses import LOSSES, LossName, evaluate
from shiftproof.attacks.pgd import Best
from shiftproof.attacks.result import Found
from shiftproof.attacks.smoothed_texts import SmoothedTexts
from shiftproof.attacks.victim import Base, Smoothed, Victim
from shiftproof.domains import Domain
from shiftproof.errors import UsageError
from shiftproof.models.text import EmbeddedTexts
from shiftproof.perturbations.embedding import EmbeddingOption
from shiftproof.perturbations.threat import size
from shiftproof.types import Finding, Natural

__all__ = ["MOVED", "EmbeddingPGD"]

_TOGETHER = 64
MOVED = "embeddings of its own tokens are moved behind the first layer, where no text leads"


@ATTACKS.register(
    "embedding-pgd",
    paper="Zhu et al. 2020; Yi et al., OOD by adversarial training, 2021",
    cost="steps + 2 forward, steps backward a sample",
    needs="text, and a change of embeddings for a threat",
)
@dataclass(frozen=True)
class EmbeddingPGD(Attack):
    """Moves the embeddings of a text's own tokens up a loss, to the worst point on the way: `embedding-l2:1.0`.

    Padding and special tokens stay where they are. A step goes along the gradient over its norm (l2), its signs (linf)
    or its largest number (l1), of the text or of each token as the threat says, and is 2.5 eps / `steps` long (l1:
    7.5) unless `step` says otherwise. `steps` times `step` below eps never gets to the surface (see `reach`): as
    published, three steps of 0.1 within an l2 ball of 1.

    There is no text for embeddings that have moved: `inputs` of a result are those that were given, `predictions` what
    the model says to them with their embeddings moved by `distance`. A vote under noise on embeddings is attacked
    behind them, too; one over texts with words left out has no embedding to move.

    Zhu et al., "FreeLB: enhanced adversarial training for natural language understanding" (2020, arXiv:1909.11764).
    """

    threat: EmbeddingOption
    steps: Natural = 3
    step: Annotated[float, Interval(gt=0, lt=math.inf)] | None = None
    random_start: bool = False
    loss: LossName = "ce"
    early_exit: bool = True

    clip: ClassVar[bool] = False

    @property
    def reach(self) -> float:
        """How far from its start the attack can get: `steps` times `step`, and no farther than eps.

        >>> EmbeddingPGD("embedding-l2:1.0", step=0.125).reach
        0.375
        """
        return reach_of(self.threat, self.steps, self.step)

    def findings(self) -> Iterator[Finding]:
        """What weakens the attack."""
        return weaknesses(self.threat, self.steps, self.step, "steepest")

    @property
    def passes(self) -> int:
        """Scores for one sample, at most."""
        return self.steps + 2

    def how(self, victim: Victim) -> str:
        """What the victim is given."""
        return MOVED

    def reference(self, victim: Victim, domain: Domain) -> tuple[str, float] | None:
        """The median norm of what may move: of a text's own embeddings, or of each of them, as the threat says."""
        norms = []
        for block in domain.in_blocks(_TOGETHER):
            texts = _embedded(victim, domain.take(block)[0])
            with torch.no_grad():
                own = torch.where(texts.movable[..., None], texts.embed(), 0)
            whole = self.threat.per == "text"
            norms.append(size(self.threat.units_of(own), self.threat.order)[... if whole else texts.movable.flatten()])
        median = float(torch.cat(norms).median())
        what = "a text's embeddings" if self.threat.per == "text" else "a token's embedding"
        return (f"the median {self.threat.order} norm of {what}", median) if median > 0 else None

    def check(self, victim: Victim, domain: Domain) -> None:
        """Refuse images, a vote over other texts, and a model without an encoder of text."""
        super().check(victim, domain)
        _embedded(victim, domain.take([0])[0])

    def run(
        self, victim: Victim, inputs: Tensor, labels: Tensor, eps: Tensor, generators: Sequence[torch.Generator]
    ) -> Tensor:
        """There are no such inputs, and so this is an error."""
        raise UsageError("there is no text for embeddings that have moved; sp.attack tells what the model says to them")

    def overturn(
        self, victim: Victim, inputs: Tensor, labels: Tensor, eps: Tensor, generators: Sequence[torch.Generator]
    ) -> Found:
        """The texts as they are, what the victim answers with their embeddings moved, and how far these are."""
        parts = []
        for rows in text_batches(_embedded(victim, inputs), victim.passes):
            own = [generators[row] for row in rows.tolist()]
            texts = _embedded(victim, inputs[rows])
            points = self.worst(texts, labels[rows], eps[rows], own)
            with torch.no_grad():
                answers = texts.answers(points)
                distance = self.threat.size(points - texts.embed())
            parts.append(Found(inputs[rows].clone(), answers, distance, inputs.new_zeros(len(rows), 0)))
        return Found.joined(parts)

    def worst(self, texts: EmbeddedTexts, labels: Tensor, eps: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        """The worst embeddings (N x T x D) on the way, within the radii `eps` (N); the model is frozen."""
        start = texts.embed().detach()
        length, best = step_lengths(self.threat, eps, self.steps, self.step), Best(start)
        points = start
        if self.random_start and self.steps:
            points = start + self.threat.random_start(texts.movable, start.shape[-1], eps, generators)

        def evaluate_at(rows: Tensor, points: Tensor, rule: Rule | None) -> tuple[Tensor, Tensor]:
            seen = evaluate(texts.take(rows), points, labels[rows], LOSSES[self.loss], rule)
            best.update(rows, points, seen.losses, seen.wrong)
            return seen.gradient, seen.wrong

        def move(rows: Tensor, points: Tensor, gradient: Tensor, number: int) -> Tensor:
            movable = texts.movable[rows]
            return step_embedded(points, start[rows], movable, gradient, length[rows], self.threat, eps[rows])

        leaves = self.early_exit and texts.exact
        rows, points = climb(points, self.steps, partial(evaluate_at, rule="steepest"), move, leaves=leaves)
        if len(rows):
            evaluate_at(rows, points, None)
        return best.points


def _embedded(victim: Victim, inputs: Tensor) -> EmbeddedTexts:
    if isinstance(victim, Smoothed) and victim.noise.embedded:
        return SmoothedTexts.seen_by(victim, inputs)
    if not isinstance(victim, Base):
        raise UsageError(
            f"a {victim.classifier} classifier is a vote over texts with words left out, and has no embedding to move: "
            "attack it by edits of words (--threat edits:3)"
        )
    return EmbeddedTexts.of(victim.model, inputs)
