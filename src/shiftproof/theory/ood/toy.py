"""A minimax problem with known constants, on which the rate of adversarial training can be measured."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shiftproof.errors import UsageError
from shiftproof.rng import checked_seed, numpy_generator
from shiftproof.theory.ood.checks import at_least_zero, positive, whole
from shiftproof.theory.ood.rate import MinimaxConstants
from shiftproof.types import FloatArray

__all__ = ["ToyMinimax"]

_HALVINGS = 100


@dataclass(frozen=True)
class ToyMinimax:
    """Adversarial training of f(w, z) = mu_w |w|^2 / 2 + b w . z - sum of v_k z_k^2 / 2 on samples z in [0, 1]^d.

    Perturbations lie in the linf ball of radius `r`. The curvatures v_k run from `mu_x` to `l22`, so that f is strongly
    concave in z, and the adversarial risk is a mean of maxima of strongly convex functions of w, so that it satisfies
    the PL inequality. With step sizes 1 / (mu_w t) every iterate is -b / mu_w times a mean of perturbed samples, which
    bounds the gradient along the way by 2 b (1 + r) sqrt(d).

    >>> problem = ToyMinimax(dimensions=2, r=0.2)
    >>> gaps = problem.train(steps=50, inner_steps=20, repetitions=4)
    >>> gaps.shape, bool((gaps >= 0).all())
    ((4,), True)
    """

    dimensions: int = 3
    r: float = 0.5
    samples: int = 20
    coupling: float = 1.0
    mu_w: float = 1.0
    mu_x: float = 0.5
    l22: float = 10.0
    seed: int = 0

    def __post_init__(self) -> None:
        whole(self.dimensions, "dimensions")
        whole(self.samples, "samples")
        for name in ("coupling", "mu_w", "mu_x", "l22"):
            positive(getattr(self, name), name)
        at_least_zero(self.r, "r")
        checked_seed(self.seed)
        if self.mu_x > self.l22:
            raise UsageError(f"mu_x is {self.mu_x!r}, more than l22 = {self.l22!r}; give the smaller curvature as mu_x")

    @cached_property
    def inputs(self) -> FloatArray:
        """The samples (samples x dimensions)."""
        generator = numpy_generator(self.seed, "toy minimax samples")
        return generator.uniform(0.0, 1.0, (self.samples, self.dimensions))

    @cached_property
    def curvatures(self) -> FloatArray:
        """Those of f in each coordinate of the input (dimensions)."""
        return np.linspace(self.mu_x, self.l22, self.dimensions) if self.dimensions > 1 else np.full(1, self.l22)

    @property
    def constants(self) -> MinimaxConstants:
        """The constants of the assumptions, of which none is estimated."""
        b = self.coupling
        gradient = 2 * b * (1 + self.r) * math.sqrt(self.dimensions)
        least = float(self.curvatures.min())
        return MinimaxConstants(gradient, self.mu_w, b, b, self.l22, self.mu_w, least)

    def adversarial_risk(self, w: FloatArray) -> FloatArray:
        """Mean over the samples of the largest f within the ball, in closed form, for weights (... x dimensions)."""
        z = self._worst(w[..., None, :])
        inner = self.coupling * w[..., None, :] * z - self.curvatures * z**2 / 2
        return np.asarray(self.mu_w * (w**2).sum(-1) / 2 + inner.sum(-1).mean(-1))

    @cached_property
    def optimum(self) -> FloatArray:
        """The weights with the least adversarial risk, by bisection of its gradient in each coordinate."""
        reach = self.coupling / self.mu_w * (1 + self.r)
        low, high = np.full(self.dimensions, -reach), np.full(self.dimensions, reach)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            slope = self.mu_w * middle + self.coupling * self._worst(middle[None]).mean(0)
            low, high = np.where(slope < 0, middle, low), np.where(slope < 0, high, middle)
        return np.asarray((low + high) / 2)

    def train(self, steps: int, inner_steps: int, repetitions: int = 100, seed: int = 0) -> FloatArray:
        """Adversarial risk above its minimum after training from zero (repetitions): multi-step SGD, as in the theorem.

        Every step draws one sample, attacks it by projected gradient ascent with step size 1 / l22 from the sample
        itself, and moves the weights with step size 1 / (mu_w t).
        """
        total, ascent, runs = (
            whole(steps, "steps"),
            whole(inner_steps, "inner_steps"),
            whole(repetitions, "repetitions"),
        )
        chosen = numpy_generator(checked_seed(seed), "toy minimax training").integers(self.samples, size=(total, runs))
        w = np.zeros((runs, self.dimensions))
        for t in range(total):
            x = self.inputs[chosen[t]]
            low, high, z, push = x - self.r, x + self.r, x, self.coupling * w
            for _ in range(ascent):
                z = np.clip(z + (push - self.curvatures * z) / self.l22, low, high)
            w = w - (self.mu_w * w + self.coupling * z) / (self.mu_w * (t + 1))
        return np.maximum(self.adversarial_risk(w) - self.adversarial_risk(self.optimum), 0.0)

    def _worst(self, w: FloatArray) -> FloatArray:
        """Every sample where f is largest within its ball: a parabola's top, or the nearest point to it."""
        return np.clip(self.coupling * w / self.curvatures, self.inputs - self.r, self.inputs + self.r)
