"""How fast adversarial training by multi-step SGD converges, if the loss is strongly concave in the perturbation."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from shiftproof.errors import UsageError
from shiftproof.theory.ood.checks import Norm, at_least_zero, check_norm, fraction, positive, whole

__all__ = ["MinimaxConstants", "TrainingRate", "training_rate"]


@dataclass(frozen=True)
class MinimaxConstants:
    """Constants of a loss f(w, x) under which adversarial training provably converges.

    `gradient` bounds the norm of the gradient in w (G). `l11` ... `l22` are Lipschitz constants: of the gradient in w
    as a function of w and of x, and of the gradient in x as a function of w and of x. `mu_w` is that of the PL
    inequality of the adversarial risk, `mu_x` the strong concavity in the perturbation, which no usual classifier has:
    the cross-entropy of a linear one is convex in its input.
    """

    gradient: float
    l11: float
    l12: float
    l21: float
    l22: float
    mu_w: float
    mu_x: float

    def __post_init__(self) -> None:
        for field in fields(self):
            check = at_least_zero if field.name in ("l12", "l21") else positive
            check(getattr(self, field.name), field.name)
        if self.mu_x > self.l22 * (1 + 1e-12):
            raise UsageError(f"mu_x is {self.mu_x!r}, more than l22 = {self.l22!r}; no function curves that way")

    @property
    def smoothness(self) -> float:
        """Lipschitz constant of the gradient of the adversarial risk: l11 + l12 l21 / mu_x."""
        return self.l11 + self.l12 * self.l21 / self.mu_x


@dataclass(frozen=True)
class TrainingRate:
    """Bounds on the adversarial risk above its minimum after some steps, in the mean and with high probability."""

    steps: int
    expected: float
    high_probability: float
    document_high_probability: float
    inner_steps: int
    document_inner_steps: int
    theta: float


def training_rate(
    constants: MinimaxConstants,
    steps: int,
    dimensions: int,
    r: float,
    norm: Norm = "linf",
    theta: float = 0.05,
) -> TrainingRate:
    """Bounds on the adversarial risk above its minimum after T `steps` of SGD with step sizes 1 / (mu_w t).

    Each step attacks one random sample by K steps of projected gradient ascent with step size 1 / l22 inside the ball
    of radius `r`. With L = l11 + l12 l21 / mu_x::

        expected          G^2 L / (T mu_w^2)
        high_probability  (G^2 ln(ln(T) / theta) (64 L + 16 mu_w) + G^2 L) / (T mu_w^2)
        inner_steps       K >= (l22 / mu_x) ln(4 T mu_w l12 sqrt(d) r / (G L)); without sqrt(d) for l2

    Corrects theorem 3 of "Improved OOD Generalization via Adversarial Training and Pre-training" (2021,
    arXiv:2105.11144). It prints ln(8 T mu_w d r^2 / (G L)) for K, from a bound on squared norms that is used for norms,
    and ln(ln(T / theta)), where the lemma that it cites (Rakhlin, Shamir and Sridharan, 2012, arXiv:1109.5647) gives
    ln(ln(T) / theta).

    >>> constants = MinimaxConstants(gradient=2.0, l11=1.0, l12=1.0, l21=1.0, l22=4.0, mu_w=1.0, mu_x=1.0)
    >>> rate = training_rate(constants, steps=1000, dimensions=2, r=0.1)
    >>> rate.expected, rate.inner_steps, rate.document_inner_steps
    (0.008, 20, 15)
    """
    total, level, c = whole(steps, "steps", least=4), fraction(theta, "theta"), constants
    if level >= 1 / math.e:
        raise UsageError(f"theta is {theta!r}; the bound with high probability needs one below 1/e = 0.368")
    d, radius = whole(dimensions, "dimensions"), positive(r, "r")
    width = radius * (math.sqrt(d) if check_norm(norm) == "linf" else 1.0)
    scale = total * c.mu_w / (c.gradient * c.smoothness)
    unit = c.gradient**2 / (total * c.mu_w**2)

    def likely(log: float) -> float:
        return unit * (log * (64 * c.smoothness + 16 * c.mu_w) + c.smoothness)

    return TrainingRate(
        steps=total,
        expected=unit * c.smoothness,
        high_probability=likely(math.log(math.log(total) / level)),
        document_high_probability=likely(math.log(math.log(total / level))),
        inner_steps=_inner_steps(c, 4 * scale * c.l12 * width),
        document_inner_steps=_inner_steps(c, 8 * scale * d * radius**2),
        theta=level,
    )


def _inner_steps(constants: MinimaxConstants, ratio: float) -> int:
    """At least one: an attack takes a step."""
    return max(1, math.ceil(constants.l22 / constants.mu_x * math.log(ratio))) if ratio > 0 else 1
