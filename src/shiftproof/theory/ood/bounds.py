"""What input-robustness on a sample says of every distribution near the one that it was drawn from."""

from __future__ import annotations

import math
from dataclasses import dataclass

from shiftproof.errors import UsageError
from shiftproof.theory.ood.cells import Cover, log10_cells
from shiftproof.theory.ood.checks import Norm, at_least_zero, check_norm, fraction, positive, whole
from shiftproof.theory.ood.sentences import describe

__all__ = ["OODBound", "adversarial_risk_bound", "ood_bound"]

_LARGEST = 300.0
"""log10 from where a number of cells is treated as infinite in a value; the orders of magnitude stay exact."""


@dataclass(frozen=True)
class OODBound:
    """A bound on the mean loss of all distributions near the one sampled, and whether it says anything.

    `value` is proven with the corrected constants. `document_value` is the published formula at the same number of
    cells of the inputs, for comparison; it is not proven, and the published number of cells is 10 to the power of
    `document_log10_cells`. A bound is `vacuous` when it reaches the largest loss. `orders_short` is by how many powers
    of ten `n` is too small for the bound to be below the largest loss: 0 if it is not vacuous, infinite if no number of
    samples is enough. `sentence` says the same in words.
    """

    value: float
    document_value: float
    log10_cells: float
    document_log10_cells: float
    n: int
    loss_bound: float
    theta: float
    vacuous: bool
    orders_short: float
    sentence: str


def ood_bound(
    eps: float,
    r: float,
    n: int,
    dimensions: int,
    norm: Norm = "linf",
    loss_bound: float = 1.0,
    theta: float = 0.05,
    classes: int = 1,
    cover: Cover = "grid",
    *,
    side: float = 1.0,
) -> OODBound:
    """Bound on the difference between the worst mean loss near the sampled distribution and that on the sample.

    The loss lies in [0, M] and on average over `n` samples from [0, side]^d changes by at most `eps` when the input
    moves by 2 `r` (linf) or 2 r / eps (l2). Then with probability at least 1 - `theta`, for the sup over all Q within r
    of the distribution sampled, in W_infinity (linf) or in W_2 (l2)::

        |sup_Q E_Q f - mean f|  <=  eps            + M sqrt((2 N ln 2 + 2 ln(1 / theta)) / n)    linf
                                <=  eps + M eps^2  + M sqrt((2 N ln 2 + 2 ln(1 / theta)) / n)    l2

    with N cells of linf-diameter r, or of l2-diameter r / eps. It holds for a model trained on the same samples, since
    only the frequencies of the cells are random. The cells must not depend on the samples: choose `r`, and for l2 also
    `eps`, before looking at them.

    Corrects theorems 1 and 2 of "Improved OOD Generalization via Adversarial Training and Pre-training" (2021,
    arXiv:2105.11144), which print N ln 2, a number of cells that does not cover, and (M + 1) eps.

    Args:
        eps: Mean over the samples of the largest change of the loss; a proven upper value, not one found by attack.
        r: Radius of the ball of distributions, in the units of the inputs.
        n: Number of samples.
        dimensions: Numbers of an input, d.
        loss_bound: The largest loss there can be, M; a loss that has none is clipped there.
        theta: The probability that the bound may fail.
        side: Inputs lie in [0, side]^d.
        classes: 1 if the label is a function of the input that is constant within the ball; otherwise the number of
            labels, and then shifts move inputs and keep labels.
        cover: 'grid', or 'maurey' for supports inside an l1 ball.

    >>> bound = ood_bound(eps=0.05, r=0.1, n=10_000, dimensions=2)
    >>> round(bound.value, 4), round(bound.document_value, 4), bound.vacuous
    (0.1703, 0.1368, False)
    >>> round(ood_bound(eps=0.0, r=2 / 255, n=50_000, dimensions=3072).orders_short)
    6469
    """
    change, ball = at_least_zero(eps, "eps"), check_norm(norm)
    if ball == "l2":
        positive(eps, "eps, which sets the size of the l2 cells,")
    most = positive(loss_bound, "loss_bound")
    flat, published = (change, change) if ball == "linf" else (change + most * change**2, (most + 1) * change)
    tail = None if ball == "linf" else change
    return _bound("error", flat, published, tail, r, n, dimensions, ball, most, theta, classes, cover, side)


def adversarial_risk_bound(
    adversarial_risk: float,
    r: float,
    n: int,
    dimensions: int,
    norm: Norm = "linf",
    loss_bound: float = 1.0,
    theta: float = 0.05,
    classes: int = 1,
    cover: Cover = "grid",
    *,
    eps0: float | None = None,
    side: float = 1.0,
) -> OODBound:
    """Bound on the worst mean loss near the sampled distribution, from the adversarial risk on the sample.

    `adversarial_risk` a is the mean over the samples of the largest loss within 2 `r` (linf) or 2 r / `eps0` (l2). With
    probability at least 1 - `theta`, for the sup over all Q within W_infinity or W_2 distance r::

        sup_Q E_Q f  <=  a              + M sqrt((2 N ln 2 + 2 ln(1 / theta)) / n)    linf
                     <=  a + M eps0^2   + M sqrt((2 N ln 2 + 2 ln(1 / theta)) / n)    l2

    with N cells of linf-diameter r, or of l2-diameter r / eps0. Every point of a cell, moved by r, lies in the ball of
    each sample in that cell, so that a is counted once. Proposition 1 and corollary 1 of "Improved OOD Generalization
    via Adversarial Training and Pre-training" (2021, arXiv:2105.11144) go through input-robustness and arrive at 3 a,
    or (2 M + 3) a for l2, which is `document_value`; for l2 they claim a ball of radius r / eps0, where r is proven.

    To bound a before training ends, take a = eps0 + `training_rate(...).high_probability` at theta / 2, and theta / 2
    here.

    Args:
        eps0: For l2: sets the radius 2 r / eps0 of the adversarial training; chosen before the samples are seen.

    >>> bound = adversarial_risk_bound(0.05, r=0.1, n=10_000, dimensions=2)
    >>> round(bound.value, 4), round(bound.document_value, 4)
    (0.1703, 0.2368)
    """
    risk, ball = at_least_zero(adversarial_risk, "adversarial_risk"), check_norm(norm)
    most = positive(loss_bound, "loss_bound")
    if ball == "linf":
        if eps0 is not None:
            raise UsageError(f"eps0 is {eps0!r}, but norm 'linf' does not take it; leave it out")
        return _bound("risk", risk, 3 * risk, None, r, n, dimensions, ball, most, theta, classes, cover, side)
    if eps0 is None:
        raise UsageError("norm 'l2' needs eps0, with which the adversarial radius is 2 r / eps0; give eps0=0.1 or so")
    scale = positive(eps0, "eps0")
    flat, published = risk + most * scale**2, (2 * most + 3) * risk
    return _bound("risk", flat, published, scale, r, n, dimensions, ball, most, theta, classes, cover, side)


def _bound(
    kind: str,
    flat: float,
    published: float,
    tail: float | None,
    r: float,
    n: int,
    dimensions: int,
    norm: Norm,
    most: float,
    theta: float,
    classes: int,
    cover: Cover,
    side: float,
) -> OODBound:
    """`flat` and `published` are what no number of samples makes smaller, in our form and in the published one."""
    if cover == "document":
        raise UsageError("cover 'document' is the published count, which does not cover; give 'grid' or 'maurey'")
    count, level = whole(n, "n"), fraction(theta, "theta")
    inputs = log10_cells(dimensions, r, cover, norm=norm, eps=tail, side=side)
    cells = inputs + math.log10(whole(classes, "classes"))
    value = flat + most * _deviation(cells, count, level, 2.0)
    short = _orders_short(flat / most, cells, count, level) if value >= most else 0.0
    return OODBound(
        value=value,
        document_value=published + most * _deviation(inputs, count, level, 1.0),
        log10_cells=cells,
        document_log10_cells=log10_cells(dimensions, r, "document", norm=norm, eps=tail, side=side),
        n=count,
        loss_bound=most,
        theta=level,
        vacuous=value >= most,
        orders_short=short,
        sentence=describe(kind, norm, r, value, flat, cells, count, most, level, short),
    )


def _deviation(cells: float, n: int, theta: float, factor: float) -> float:
    """Bretagnolle, Huber and Carol: how far N frequencies lie from their probabilities, in sum (with factor 2)."""
    number = 10.0**cells if cells < _LARGEST else math.inf
    return math.sqrt((factor * number * math.log(2) + 2 * math.log(1 / theta)) / n)


def _orders_short(share: float, cells: float, n: int, theta: float) -> float:
    if share >= 1:
        return math.inf
    needed = cells + math.log10(2 * math.log(2))
    if cells < _LARGEST:
        needed = math.log10(2 * math.log(2) * 10.0**cells + 2 * math.log(1 / theta))
    return max(0.0, needed - 2 * math.log10(1 - share) - math.log10(n))
