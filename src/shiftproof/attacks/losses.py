"""What an attack climbs: one number a sample, of its scores and its label; larger is closer to a mistake."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from shiftproof.attacks.ascent import Rule, input_gradient
from shiftproof.attacks.victim import Scored
from shiftproof.errors import ModelError, UsageError

__all__ = ["LOSSES", "TARGETED", "Evaluation", "LossName", "Losses", "evaluate", "margin", "towards"]

LossName = Literal["ce", "margin", "dlr"]
Losses = Callable[[Tensor, Tensor], Tensor]
"""Of scores (N x classes) and labels (N), N numbers."""

_SMALLEST = 1e-12
"""Below a ratio of differences of logits, which are all equal where a model says nothing."""


def cross_entropy(scores: Tensor, labels: Tensor) -> Tensor:
    """Minus the log of the probability of the label."""
    return F.cross_entropy(scores, labels, reduction="none")


def margin(scores: Tensor, labels: Tensor) -> Tensor:
    """By how much the best other class is ahead; above 0 where the answer is wrong."""
    own = F.one_hot(labels, scores.shape[1]).bool()
    return scores.masked_fill(own, -math.inf).amax(1) - _of(scores, labels)


def logits_ratio(scores: Tensor, labels: Tensor) -> Tensor:
    """The margin over the distance from the first to the third logit; with two classes, the margin.

    No scale of the logits changes it, so that it has slopes where the cross-entropy of a sure model has none (Croce &
    Hein, "Reliable evaluation of adversarial robustness with an ensemble of diverse parameter-free attacks", 2020,
    arXiv:2003.01690).

    >>> logits_ratio(torch.tensor([[3.0, 1.0, -1.0], [30.0, 10.0, -10.0]]), torch.tensor([0, 0]))
    tensor([-0.5000, -0.5000])
    """
    if scores.shape[1] < 3:
        return margin(scores, labels)
    first = scores.topk(3, 1).values
    return margin(scores, labels) / (first[:, 0] - first[:, 2] + _SMALLEST)


def _entropy_towards(scores: Tensor, labels: Tensor, targets: Tensor) -> Tensor:
    return -F.cross_entropy(scores, targets, reduction="none")


def _difference(scores: Tensor, labels: Tensor, targets: Tensor) -> Tensor:
    """By how much the target is ahead of the label."""
    return _of(scores, targets) - _of(scores, labels)


def _ratio_towards(scores: Tensor, labels: Tensor, targets: Tensor) -> Tensor:
    """The difference over that of the first logit and the mean of the third and fourth; the difference below four."""
    if scores.shape[1] < 4:
        return _difference(scores, labels, targets)
    first = scores.topk(4, 1).values
    return _difference(scores, labels, targets) / (first[:, 0] - (first[:, 2] + first[:, 3]) / 2 + _SMALLEST)


def _of(scores: Tensor, classes: Tensor) -> Tensor:
    return scores.gather(1, classes[:, None])[:, 0]


LOSSES: dict[LossName, Losses] = {"ce": cross_entropy, "margin": margin, "dlr": logits_ratio}
TARGETED: dict[LossName, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "ce": _entropy_towards,
    "margin": _difference,
    "dlr": _ratio_towards,
}
"""Of scores (N x classes), labels (N) and the classes to go to (N)."""


def towards(name: LossName, targets: Tensor) -> Losses:
    """The loss that is highest where the answer is the sample's own of the `targets` (N)."""
    return lambda scores, labels: TARGETED[name](scores, labels, targets)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Of N points: scores (N x classes), losses (N), which are misclassified (N), the losses' gradient (N x ...).

    The gradient is what a step by the rule needs: but for raw steps, it is right up to a factor.
    """

    scores: Tensor
    losses: Tensor
    wrong: Tensor
    gradient: Tensor


def evaluate(victim: Scored, points: Tensor, labels: Tensor, losses: Losses, rule: Rule | None) -> Evaluation:
    """Scores, losses, mistakes and the gradient at points (N x ...); without a rule, there is no gradient."""
    points = points.detach().requires_grad_(rule is not None)
    with torch.set_grad_enabled(rule is not None):
        scores = victim.scores(points).double()
        values = losses(scores, labels)
    if values.shape != labels.shape:
        raise UsageError(f"the loss gives numbers of shape {tuple(values.shape)} for {len(labels)} samples")
    if bool(values.isnan().any()):
        raise ModelError("the model returns values that are not numbers (NaN), or the loss makes such of them")
    gradient = points.new_empty(0) if rule is None else _gradient(points, scores, values, rule)
    return Evaluation(scores.detach(), values.detach(), scores.detach().argmax(1) != labels, gradient)


def _gradient(points: Tensor, scores: Tensor, values: Tensor, rule: Rule) -> Tensor:
    missing = "the model's output has no gradient with respect to its input, which this attack needs"
    if not (scores.requires_grad and values.requires_grad):
        raise ModelError(missing)
    try:
        gradient = input_gradient(points, scores, values, rule)
    except RuntimeError as error:
        # weights that the model does not know as its own have gradients while it is frozen
        if "not have been used in the graph" not in str(error):
            raise
        raise ModelError(missing) from error
    if not bool(gradient.isfinite().all()):
        raise ModelError("the gradient of the loss with respect to the input is not finite")
    return gradient
