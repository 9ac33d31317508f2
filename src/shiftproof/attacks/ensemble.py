"""Several attacks one after the other, each on what the others left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from shiftproof.attacks.apgd import APGD
from shiftproof.attacks.ascent import fast_copy
from shiftproof.attacks.contract import ATTACKS, Attack
from shiftproof.attacks.inner_logits import inner_logits
from shiftproof.attacks.losses import evaluate, margin
from shiftproof.attacks.pgd import Best
from shiftproof.attacks.square import Square
from shiftproof.attacks.victim import Victim
from shiftproof.perturbations.threat import ThreatOption
from shiftproof.types import Finding, Positive

__all__ = ["Ensemble", "Traced"]

Version = Literal["standard", "white-box"]
_USUAL = {"steps": 50, "queries": 500}
"""With less than this, it is a glance rather than an attack."""


@dataclass(frozen=True, eq=False)
class Traced:
    """Attacked inputs (N x ...), and for each of N samples the member that overturned it; "" if none did."""

    inputs: Tensor
    members: tuple[str, ...]


@ATTACKS.register(
    "ensemble",
    paper="Croce & Hein 2020, without its minimal-norm attack",
    cost="(steps + 1) x (1 + targets) + queries forward, steps x (1 + targets) backward a sample that withstands",
)
@dataclass(frozen=True)
class Ensemble(Attack):
    """APGD on the cross-entropy, APGD towards other classes, then Square: only what withstands one meets the next.

    `targets` other classes are tried, or all if there are fewer; with two classes APGD on the margin takes that turn.
    `version` "white-box" leaves out Square, which is there for models whose gradients mislead. A vote is judged by
    noise that no attack has seen, so that there all members attack all samples. Where outputs are made of other
    logits inside the model (clipped, rounded, squashed), those are attacked as well before Square has its turn.

    After Croce & Hein, "Reliable evaluation of adversarial robustness with an ensemble of diverse parameter-free
    attacks" (2020, arXiv:2003.01690), without their minimal-norm attack.
    """

    threat: ThreatOption
    version: Version = "standard"
    steps: Positive = 100
    targets: Positive = 9
    queries: Positive = 5_000
    clip: bool = True

    early_exit: ClassVar[bool] = True

    @property
    def passes(self) -> int:
        """Scores for one sample, at most; with fewer classes than `targets` it is less."""
        return sum(member.passes for member in self.members(self.targets + 1).values())

    def findings(self) -> Iterator[Finding]:
        """What weakens it."""
        short = [f"{getattr(self, name):,} {name}" for name, usual in _USUAL.items() if getattr(self, name) < usual]
        if short:
            yield Finding("warn", "short-attack", f"a short attack ({', '.join(short)}): a longer one may leave less")

    def members(self, classes: int) -> dict[str, Attack]:
        """The attacks on a model of so many classes, by name, in their order.

        >>> list(Ensemble("linf:0.1").members(10)), list(Ensemble("linf:0.1").members(2))
        (['apgd-ce', 'apgd-t', 'square'], ['apgd-ce', 'apgd-margin', 'square'])
        """
        chosen: dict[str, Attack] = {"apgd-ce": APGD(self.threat, self.steps, "ce", clip=self.clip)}
        if classes > 2:
            targets = min(self.targets, classes - 1)
            # of three logits there is no fourth, by which the ratio would be scaled
            loss: Literal["dlr", "margin"] = "dlr" if classes > 3 else "margin"
            chosen["apgd-t"] = APGD(self.threat, self.steps, loss, targets=targets, clip=self.clip)
        else:
            chosen["apgd-margin"] = APGD(self.threat, self.steps, "margin", clip=self.clip)
        if self.version == "standard":
            chosen["square"] = Square(self.threat, self.queries, clip=self.clip)
        return chosen

    def _order(self, quick: Victim, hidden: Victim | None, classes: int) -> dict[str, tuple[Victim, Attack]]:
        """Members with what they attack: those that take gradients also the logits that a model hides."""
        members = self.members(classes)
        order = {name: (quick, member) for name, member in members.items()}
        if hidden is None:
            return order
        inner = {f"{name}-inner": (hidden, member) for name, member in members.items() if name != "square"}
        return {name: pair for name, pair in order.items() if name != "square"} | inner | order

    def run(
        self, victim: Victim, inputs: Tensor, labels: Tensor, eps: Tensor, generators: Sequence[torch.Generator]
    ) -> Tensor:
        """What the first member found that overturned a sample; where none did, the point of the largest margin."""
        return self.trace(victim, inputs, labels, eps, generators).inputs

    def trace(
        self, victim: Victim, inputs: Tensor, labels: Tensor, eps: Tensor, generators: Sequence[torch.Generator]
    ) -> Traced:
        """The same as `run`, and who overturned which sample."""
        quick, best, by = fast_copy(victim, inputs), Best(inputs), [""] * len(inputs)
        with torch.no_grad():
            classes = quick.scores(inputs[:1]).shape[1]
            hidden = inner_logits(quick, inputs)
        for name, (target, member) in self._order(quick, hidden, classes).items():
            rows = best.rows[~best.wrong] if victim.exact else best.rows
            if not len(rows):
                break
            mine = [generators[row] for row in rows.tolist()]
            points = member.run(target, inputs[rows], labels[rows], eps[rows], mine)
            seen = evaluate(quick, points, labels[rows], margin, None)
            # the copy that was attacked may round otherwise than the victim, whose answer counts
            wrong = victim.answers(points) != labels[rows] if victim.exact else seen.wrong
            for row in rows[wrong & ~best.wrong[rows]].tolist():
                by[row] = name
            best.update(rows, points, seen.losses, wrong)
        return Traced(best.points, tuple(by))
