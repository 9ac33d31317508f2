"""What an attack finds, sample by sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shiftproof.attacks.notebook import attack_html
from shiftproof.attacks.rows import join_columns
from shiftproof.domains import Domain
from shiftproof.perturbations.threat import Ball
from shiftproof.types import FloatArray, IntArray

__all__ = ["CHANGED", "AttackResult", "Found"]

CHANGED = "inputs are handed in changed"
"""How most attacks reach a classifier."""


@dataclass(frozen=True, eq=False)
class Found:
    """Attacked inputs (N x ...), what the victim answers (N) and how far they are (N), in the norm of the attack.

    `parameters` (N x size) are those of a deformation; other attacks have none (N x 0).
    """

    inputs: Tensor
    answers: Tensor
    distance: Tensor
    parameters: Tensor

    @classmethod
    def nothing(cls, inputs: Tensor, answers: Tensor) -> Found:
        """Samples as they are, before an attack."""
        distance = torch.zeros(len(inputs), dtype=torch.float64, device=inputs.device)
        return cls(inputs.clone(), answers.clone(), distance, inputs.new_zeros(len(inputs), 0))

    @classmethod
    def joined(cls, parts: Sequence[Found]) -> Found:
        """Of several batches, one after the other."""
        columns = zip(*((one.inputs, one.answers, one.distance, one.parameters) for one in parts), strict=True)
        return cls(*(torch.cat(column) for column in columns))

    def improved(self, rows: Tensor, other: Found, taken: Tensor) -> Found:
        """With those of the `other` (for samples `rows`) in place that are `taken`."""
        parameters = self.parameters
        if parameters.shape[1:] != other.parameters.shape[1:]:
            parameters = other.parameters.new_zeros(len(self.inputs), *other.parameters.shape[1:])
        columns = [column.clone() for column in (self.inputs, self.answers, self.distance, parameters)]
        better = (other.inputs, other.answers, other.distance, other.parameters)
        for column, values in zip(columns, better, strict=True):
            column[rows[taken]] = values[taken]
        return Found(*columns)


@dataclass(frozen=True, eq=False, repr=False)
class AttackResult:
    """Samples of a domain after an attack, in its order: attacked inputs, and what the classifier says to them.

    A sample that was wrong before stays as it was, at distance 0. `distance` is in the threat's norm. After a spatial
    attack, `parameters` (N x size) are those by which `inputs` were deformed; `how` says what the classifier was given.
    `domain` is what was attacked, in the same order; a result that `sp.attack` returns has it.
    """

    ids: NDArray[np.object_]
    inputs: Tensor
    labels: IntArray
    clean: IntArray
    predictions: IntArray
    distance: FloatArray
    threat: Ball
    classifier: str
    parameters: FloatArray | None = None
    how: str = CHANGED
    domain: Domain | None = None

    @classmethod
    def joined(cls, parts: Sequence[AttackResult]) -> AttackResult:
        """Of several blocks of samples, one after the other."""
        names = ["ids", "labels", "clean", "predictions", "distance"]
        sizes = {part.parameters.shape[1] for part in parts if part.parameters is not None}
        moved = [np.zeros((len(part), *sizes)) if part.parameters is None else part.parameters for part in parts]
        inputs = torch.from_numpy(np.concatenate([part.inputs for part in parts]))
        return replace(
            parts[0], inputs=inputs, parameters=np.concatenate(moved) if sizes else None, **join_columns(parts, names)
        )

    @property
    def success(self) -> NDArray[np.bool_]:
        """Where the prediction is wrong after the attack, whether or not it was before."""
        wrong: NDArray[np.bool_] = self.predictions != self.labels
        return wrong

    @property
    def overturned(self) -> NDArray[np.bool_]:
        """Where the prediction was right before the attack and is wrong after it."""
        lost: NDArray[np.bool_] = self.success & (self.clean == self.labels)
        return lost

    @property
    def clean_accuracy(self) -> float:
        """The part of samples that were right before."""
        return float((self.clean == self.labels).mean())

    @property
    def robust_accuracy(self) -> float:
        """The part of samples that are still right; what a better attack finds can only lower it."""
        return float((self.predictions == self.labels).mean())

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        accuracy = f"{self.clean_accuracy:.1%} right before, {self.robust_accuracy:.1%} after"
        return f"AttackResult({self.threat} on the {self.classifier} classifier: {len(self)} samples, {accuracy})"

    def _repr_html_(self) -> str:
        return attack_html(self)
