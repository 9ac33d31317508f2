"""The nearest representation that a one-layer head takes for another class, in closed form (document 004)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist, pdist
from torch import nn

from shiftproof.attacks.rows import join_columns
from shiftproof.errors import ModelError, UsageError
from shiftproof.models.altered import altered
from shiftproof.models.lipschitz import RowL1Linear, RowL2Linear, SpectralLinear
from shiftproof.models.lipschitz.dense import ComputedLinear
from shiftproof.models.split import SplitModel
from shiftproof.statistics import Sample, bootstrap_mean, interval
from shiftproof.types import Estimate, FloatArray, IntArray

__all__ = ["Representations", "adversarial_representation", "class_distance", "linear_head", "mean_of", "share_of"]

_COMPUTED = (RowL1Linear, RowL2Linear, SpectralLinear)


@dataclass(frozen=True, eq=False)
class Representations:
    """For each representation z (N x D), the nearest one that another class wins.

    `distance` (N) is in l2, and infinite where no class can win, because all rows of the head are equal; `target` (N)
    is then -1 and `change` (N x D) 0. `units` (N) are what a bootstrap draws: groups, or the samples themselves.
    """

    z: FloatArray
    prediction: IntArray
    target: IntArray
    distance: FloatArray
    change: FloatArray
    between_classes: float
    units: NDArray[np.object_]

    remark: ClassVar[str] = (
        "every linear head with two different rows has a boundary, so that the part of samples with an adversarial "
        "representation is 100 % whatever the model: it measures nothing"
    )

    @property
    def found(self) -> NDArray[np.bool_]:
        """Where there is one."""
        mask: NDArray[np.bool_] = np.isfinite(self.distance)
        return mask

    @cached_property
    def reachable(self) -> Estimate:
        """p_z, the part of samples that have one; see `remark`."""
        return share_of(self.found, self.units)

    @cached_property
    def metrics(self) -> dict[str, Estimate]:
        """Mean distances over samples that have one: in l2, in linf, over the length of z, over that between classes.

        The first two grow with the scale of the representation and compare no two encoders; the others do.
        """
        values = {
            "l2": self.distance,
            "linf": np.abs(self.change).max(1),
            "l2 over length": _ratio(self.distance, np.linalg.norm(self.z, axis=1)),
            "l2 over class distance": _ratio(self.distance, np.array(self.between_classes)),
        }
        return {
            name: mean_of(column[self.found], self.units[self.found])
            for name, column in values.items()
            if self.found.any() and np.isfinite(column[self.found]).all()
        }

    @classmethod
    def joined(cls, parts: Sequence[Representations], labels: ArrayLike | None = None) -> Representations:
        """Of several blocks of samples; the distance between classes is that of all of them."""
        names = ("z", "prediction", "target", "distance", "change", "units")
        columns = join_columns(parts, names)
        classes = columns["prediction"] if labels is None else np.asarray(labels)
        return replace(parts[0], between_classes=class_distance(columns["z"], classes), **columns)


def adversarial_representation(
    weight: ArrayLike,
    bias: ArrayLike | None,
    z: ArrayLike,
    margin: float = 0.0,
    *,
    labels: ArrayLike | None = None,
    units: NDArray[np.object_] | None = None,
) -> Representations:
    """The smallest changes, in l2, of representations z (N x D) after which another class of W z + b is ahead.

    By `margin` at least; at 0 the two are level. `weight` is K x D. The distance between class means, by which others
    are measured, is that of the `labels`, or of the predictions.

    >>> found = adversarial_representation([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]], None, [[2.0, 1.0]])
    >>> float(found.distance[0].round(6)), int(found.target[0]), found.change[0].tolist()
    (0.707107, 1, [-0.5, 0.5])
    """
    rows, points = np.asarray(weight, np.float64), np.asarray(z, np.float64)
    if rows.ndim != 2 or points.ndim != 2 or rows.shape[1] != points.shape[1]:
        raise UsageError(f"a head of shape {rows.shape} does not take representations of shape {points.shape}")
    if not 0 <= margin < np.inf:
        raise UsageError(f"margin is {margin!r}; it should be a finite number of at least 0")
    logits = points @ rows.T + (0.0 if bias is None else np.asarray(bias, np.float64))
    if not np.isfinite(logits).all():
        raise ModelError("representations or weights of the head are not numbers (NaN or infinite)")
    samples = np.arange(len(points))
    prediction = logits.argmax(1)
    # by differences, and not from a product of the rows, which would lose the digits of rows that are nearly equal
    apart = cdist(rows, rows, "sqeuclidean")[prediction]
    gaps = logits[samples, prediction][:, None] - logits + margin
    with np.errstate(divide="ignore", invalid="ignore"):
        # the class itself and those with an equal row have no boundary with it
        distances = np.where(apart > 0, gaps / np.sqrt(apart), np.inf)
    distances[samples, prediction] = np.inf
    target = distances.argmin(1)
    distance = distances[samples, target]
    found = np.isfinite(distance)
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.where(found, gaps[samples, target] / apart[samples, target], 0.0)
    change = -steps[:, None] * (rows[prediction] - rows[target])
    own = np.array([f"{i}" for i in samples], object) if units is None else units
    between = class_distance(points, prediction if labels is None else np.asarray(labels))
    return Representations(points, prediction, np.where(found, target, -1), distance, change, between, own)


def class_distance(z: FloatArray, classes: IntArray) -> float:
    """The mean l2 distance between the means of two classes of representations; nan with one class."""
    means = [z[classes == one].mean(0) for one in np.unique(classes)]
    return float(pdist(np.stack(means)).mean()) if len(means) > 1 else float("nan")


def linear_head(model: nn.Module) -> tuple[nn.Module, FloatArray, FloatArray]:
    """The encoder, and the weight (K x D) and bias (K) of its one-layer head, in float64; refuses any other model."""
    if not isinstance(model, SplitModel) or altered(model):
        raise ModelError(
            f"searching representations needs a SplitModel(encoder, head) with a head of one linear layer, not "
            f"{type(model).__name__}"
        )
    head = model.head
    if type(head) is nn.Sequential and len(head) == 1:
        head = head[0]
    if isinstance(head, ComputedLinear) and type(head) in _COMPUTED and not altered(head):
        head = head.frozen(())
    if type(head) is not nn.Linear or altered(head):
        raise ModelError(
            f"searching representations needs a head of one linear layer, not {type(head).__name__}; "
            "build the model with head_layers=1"
        )
    with torch.no_grad():
        weight = head.weight.double().cpu().numpy()
        bias = np.zeros(len(weight)) if head.bias is None else head.bias.double().cpu().numpy()
    return model.encoder, weight, bias


def share_of(mask: NDArray[np.bool_], units: NDArray[np.object_]) -> Estimate:
    """The part that is true: Clopper-Pearson, or a bootstrap over units that hold several samples."""
    if len(set(units.tolist())) == len(units):
        return interval(int(mask.sum()), mask.size)
    return bootstrap_mean(Sample(mask.astype(np.float64), units), limits=(0, 1))


def mean_of(values: FloatArray, units: NDArray[np.object_]) -> Estimate:
    """A mean with a bootstrap interval over units."""
    return bootstrap_mean(Sample(values, units))


def _ratio(values: FloatArray, over: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(values / over)
