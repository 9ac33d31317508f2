"""The contract of an attack: what it may say of itself, and the one method that it has to have."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from shiftproof.attacks.result import CHANGED, Found
from shiftproof.attacks.victim import Victim, max_batch_size
from shiftproof.catalogue import Catalogue, Method
from shiftproof.domains import Domain
from shiftproof.errors import ConformanceError, UsageError
from shiftproof.perturbations.deformation import Deformation
from shiftproof.perturbations.edits import Edits
from shiftproof.perturbations.embedding import EmbeddingThreat
from shiftproof.perturbations.threat import Ball, Threat, inside, size
from shiftproof.types import Finding

__all__ = ["ATTACKS", "Attack", "as_attack", "batches"]


class Attack(Method, ABC):
    """Base of all attacks: a frozen dataclass that looks for the worst input within a ball around each sample.

    An attack on pixels has a `run`, and nothing else is needed. One that changes something else than pixels (its threat
    is a `Deformation`) has its own `overturn` too.
    """

    seeks_worst: ClassVar[bool] = True
    """Whether it tries to find the worst; one that does not is a yardstick, and what it leaves right says nothing."""

    # options of some and constants of others; a property that exists at run time would become the option's default
    if TYPE_CHECKING:

        @property
        def threat(self) -> Ball:
            """The ball, unless the caller asks for other radii."""

        @property
        def clip(self) -> bool:
            """Whether attacked inputs stay in [0, 1]."""

        @property
        def early_exit(self) -> bool:
            """Whether a sample is left alone as soon as it is misclassified."""

    @property
    @abstractmethod
    def passes(self) -> int:
        """Scores that are computed for one sample, at most."""

    @abstractmethod
    def run(
        self, victim: Victim, inputs: Tensor, labels: Tensor, eps: Tensor, generators: Sequence[torch.Generator]
    ) -> Tensor:
        """Attacked inputs (N x ...) within the radii `eps` (N) in the threat's norm.

        Randomness of a sample comes from its own generator, so that no sample depends on the others.
        """

    def findings(self) -> Iterator[Finding]:
        """What weakens the attack, by its options alone."""
        return iter(())

    def check(self, victim: Victim, domain: Domain) -> None:
        """Refuse, before anything is computed, a classifier or data that it can't attack."""
        if domain.kind == "text" and isinstance(self.threat, Threat | Deformation):
            raise UsageError(
                f"{self.threat} is a change of images, but {domain.name!r} holds text: write --threat edits:3 or "
                "embedding-l2:1.0"
            )
        if domain.kind == "image" and isinstance(self.threat, Edits | EmbeddingThreat):
            raise UsageError(
                f"{self.threat} is a change of text, but {domain.name!r} holds images: write --threat linf:8/255"
            )

    def how(self, victim: Victim) -> str:
        """What the victim is given, as a part of a sentence."""
        return CHANGED

    def reference(self, victim: Victim, domain: Domain) -> tuple[str, float] | None:
        """What a reader may compare a size of the threat with on this domain, in words and in the threat's norm.

        None where units say enough, as those of pixels and words do.
        """
        return None

    def overturn(
        self, victim: Victim, inputs: Tensor, labels: Tensor, eps: Tensor, generators: Sequence[torch.Generator]
    ) -> Found:
        """What `run` finds for all samples, what the victim answers to it, and how far it is."""
        if not isinstance(self.threat, Threat):
            raise ConformanceError(
                f"{self.name} is no attack on pixels ({self.threat}); it needs an `overturn` of its own"
            )
        attacked = self.run_in_batches(victim, inputs, labels, eps, generators)
        distance = size(attacked - inputs, self.threat.norm)
        return Found(attacked, victim.answers(attacked), distance, inputs.new_zeros(len(inputs), 0))

    def run_in_batches(
        self, victim: Victim, inputs: Tensor, labels: Tensor, eps: Tensor, generators: Sequence[torch.Generator]
    ) -> Tensor:
        """`run` on as many samples at a time as fit into memory; refuses what leaves its ball or the range."""
        parts = []
        for rows in batches(inputs, victim):
            here, radii = inputs[rows].detach().clone(), eps[rows]
            attacked = self.run(victim, here, labels[rows], radii, [generators[row] for row in rows.tolist()]).detach()
            if isinstance(self.threat, Threat):
                _check_outcome(self, self.threat, here, attacked, radii)
            parts.append(attacked)
        return torch.cat(parts) if parts else inputs.clone()


ATTACKS: Catalogue[Attack] = Catalogue(
    "attack",
    "shiftproof.attacks",
    base=Attack,
    default="pgd",
    example="{name: pgd, threat: linf:8/255}",
)


def as_attack(value: Any) -> Attack:
    """The attack that is meant by an attack, or by its name and options as in a study file."""
    return ATTACKS.make(value)


def batches(inputs: Tensor, victim: Victim) -> Sequence[Tensor]:
    """Numbers of samples (N x ...) that are attacked together, in their order."""
    every = torch.arange(len(inputs))  # on the CPU: places
    return torch.split(every, max_batch_size(tuple(inputs.shape[1:]), victim.passes))


def _check_outcome(attack: Attack, threat: Threat, inputs: Tensor, attacked: Tensor, eps: Tensor) -> None:
    name, norm = attack.name, threat.norm
    if attacked.shape != inputs.shape:
        raise ConformanceError(f"{name} made {tuple(attacked.shape)} out of inputs of shape {tuple(inputs.shape)}")
    outside = ~inside(attacked - inputs, norm, eps)
    if bool(outside.any()):
        worst = float(size(attacked - inputs, norm)[outside][0])
        raise ConformanceError(f"{name} went {worst:g} from a sample, in {norm}; {float(eps[outside][0]):g} is allowed")
    if attack.clip and not bool(((attacked >= 0) & (attacked <= 1)).all()):
        raise ConformanceError(f"{name} left [0, 1], although it clips")
