"""What a pre-trained model's worst risk says of another distribution at a known total variation."""

from __future__ import annotations

import math
from dataclasses import dataclass

from shiftproof.errors import UsageError
from shiftproof.theory.ood.checks import Norm, at_least_zero, check_norm, fraction, positive, whole
from shiftproof.theory.ood.sentences import BALLS

__all__ = ["TransferBound", "transfer_bound"]


@dataclass(frozen=True)
class TransferBound:
    """A bound on the worst mean loss near a downstream distribution, and what it asks of pre-training.

    `radius` is that of the ball in which the pre-training risk must hold; `empirical_value` bounds the adversarial risk
    on `n` downstream samples, or is None. Fields that begin with `document` are the published ones. `vacuous` is true
    when the value reaches the largest loss, or when the ball of pre-training holds every distribution on the support.
    """

    value: float
    document_value: float
    empirical_value: float | None
    radius: float
    document_radius: float
    loss_bound: float
    vacuous: bool
    sentence: str


def transfer_bound(
    pretraining_risk: float,
    total_variation: float,
    r: float,
    norm: Norm = "linf",
    loss_bound: float = 1.0,
    *,
    diameter: float | None = None,
    n: int | None = None,
    theta: float = 0.05,
) -> TransferBound:
    """Bound on the worst mean loss around P by that around Q, where P and Q have a known total variation TV.

    If the mean loss is at most e = `pretraining_risk` on all distributions within `radius` of Q, then on all those
    within `r` of P it is at most::

        e + M TV                                     (published: e + 2 M TV)
        e + M TV + M sqrt(ln(1 / theta) / (2 n))     adversarial risk on n samples of P, norm 'linf',
                                                     with probability at least 1 - theta

    where the radius is r for linf (balls of W_infinity) and sqrt(D^2 TV + r^2) for l2 (balls of W_2; published: 2 D^2),
    D the l2-diameter of a support that no shift leaves. Both constants are 1 and not 2, because a function in [0, M]
    can differ in mean by M times the mass that moves, which is TV and not 2 TV. The n samples must not have been used
    in training. Two data sets without a common image have TV 1.

    Corrects theorems 4 and 5 of "Improved OOD Generalization via Adversarial Training and Pre-training" (2021,
    arXiv:2105.11144).

    >>> bound = transfer_bound(0.1, total_variation=0.2, r=0.1)
    >>> round(bound.value, 3), round(bound.document_value, 3), bound.vacuous
    (0.3, 0.5, False)
    >>> transfer_bound(0.1, total_variation=1.0, r=0.1).vacuous
    True
    """
    risk, ball, most = (
        at_least_zero(pretraining_risk, "pretraining_risk"),
        check_norm(norm),
        positive(loss_bound, "loss_bound"),
    )
    tv, shift = at_least_zero(total_variation, "total_variation"), at_least_zero(r, "r")
    if tv > 1 + 1e-9:
        raise UsageError(f"total_variation is {total_variation!r}; it lies in [0, 1]: half the integral of |dP - dQ|")
    tv, reach = min(tv, 1.0), _diameter(diameter, ball)
    level = fraction(theta, "theta")
    if n is not None and ball == "l2":
        raise UsageError(f"n is {n!r}, but the bound on the adversarial risk of n samples is for norm 'linf' alone")
    extra = None if n is None else most * math.sqrt(math.log(1 / level) / (2 * whole(n, "n")))
    value = risk + most * tv
    radius, document_radius = (
        (shift, shift) if reach is None else (math.hypot(reach * math.sqrt(k * tv), shift) for k in (1, 2))
    )
    everything = reach is not None and radius >= reach
    return TransferBound(
        value=value,
        document_value=risk + 2 * most * tv,
        empirical_value=None if extra is None else value + extra,
        radius=radius,
        document_radius=document_radius,
        loss_bound=most,
        vacuous=value >= most or everything,
        sentence=_sentence(value, tv, shift, radius, reach, ball, most),
    )


def _diameter(diameter: float | None, norm: Norm) -> float | None:
    if norm == "linf":
        if diameter is not None:
            raise UsageError(f"diameter is {diameter!r}, but norm 'linf' does not take it; leave it out")
        return None
    if diameter is None:
        raise UsageError("norm 'l2' needs the l2-diameter of the support; give diameter, such as math.sqrt(dimensions)")
    return positive(diameter, "diameter")


def _sentence(value: float, tv: float, r: float, radius: float, reach: float | None, norm: Norm, most: float) -> str:
    where = f"on every distribution within {BALLS[norm]} distance {r:.4g} of the downstream one"
    if value >= most:
        helps = "two distributions that share most of their mass" if value - most * tv < most else "a smaller risk"
        return (
            f"Vacuous: at total variation {tv:.4g} the bound is {value:.4g}, and the loss is at most {most:g} anyway; "
            f"it needs {helps}."
        )
    if reach is not None and radius >= reach:
        return (
            f"Vacuous: the risk of pre-training would have to hold within W_2 distance {radius:.4g}, which is at least "
            f"the diameter {reach:.4g} and so means every distribution; it needs a smaller total variation or radius."
        )
    return (
        f"The mean loss is at most {value:.4g} {where}, if that of pre-training holds within {BALLS[norm]} distance "
        f"{radius:.4g} of its own."
    )
