"""A low-dimensional case in which the bound is not vacuous, repeated on many samples and compared with the truth."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from shiftproof.errors import UsageError
from shiftproof.rng import checked_seed, numpy_generator
from shiftproof.theory.ood.bounds import OODBound, ood_bound
from shiftproof.theory.ood.checks import fraction, positive, whole
from shiftproof.types import FloatArray

__all__ = ["BandProblem", "Demonstration", "demonstrate_bound"]

_MOST_DIMENSIONS = 4
_OFFSET = 0.1
_QUADRATURE_POINTS = 160_000


@dataclass(frozen=True)
class BandProblem:
    """Two classes on [0, 1]^d, uniform on both sides of a band of width 4 r, and a loss with a known slope.

    The label is the side of x_1 = 1/2 and does not change within 2 r of any sample. The loss with label y = -1 or 1 is
    M clip(0.1 - s t, 0, 1) with t = c_1 y (x_1 - 1/2) + sum of c_k (x_k - 1/2). The c_k add up to 1, so that M s is
    its Lipschitz constant in the linf norm.
    """

    dimensions: int
    r: float
    slope: float
    loss_bound: float

    def draw(self, n: int, generator: np.random.Generator) -> FloatArray:
        """Samples (n x d)."""
        return self._place(generator.random((n, self.dimensions)))

    def loss(self, x: FloatArray, labels: FloatArray, change: float = 0.0) -> FloatArray:
        """Of inputs (N x d) with labels -1 or 1 (N); `change` is added before the loss is clipped."""
        weights = self._weights
        score = labels * (x[:, 0] - 0.5) * weights[0] + (x[:, 1:] - 0.5) @ weights[1:]
        return np.asarray(self.loss_bound * np.clip(_OFFSET - self.slope * score + change, 0.0, 1.0))

    def robustness(self, x: FloatArray, radius: float) -> FloatArray:
        """The largest change of each sample's loss within `radius` in the linf norm (N), in closed form."""
        labels, move = self.labels(x), self.slope * radius
        here, up, down = (self.loss(x, labels, change) for change in (0.0, move, -move))
        return np.maximum(up - here, here - down)

    def labels(self, x: FloatArray) -> FloatArray:
        """The side of the band: -1 or 1 (N)."""
        return np.where(x[:, 0] > 0.5, 1.0, -1.0)

    def worst_risk(self) -> float:
        """The largest mean loss over the W_infinity ball of radius r, by quadrature and a search over perturbations.

        The mean over a grid of midpoints of the largest loss over a grid of perturbations, corners included: it shares
        nothing with `robustness` but the loss. A midpoint rule is wrong by the order of the square of its spacing.
        """
        per_axis = max(2, int(_QUADRATURE_POINTS ** (1 / self.dimensions)) // 2 * 2)
        axis = (np.arange(per_axis) + 0.5) / per_axis
        grid = np.stack(np.meshgrid(*[axis] * self.dimensions, indexing="ij"), -1).reshape(-1, self.dimensions)
        x = self._place(grid)
        labels, worst = self.labels(x), np.zeros(len(x))
        for move in itertools.product((-self.r, 0.0, self.r), repeat=self.dimensions):
            worst = np.maximum(worst, self.loss(x + np.array(move), labels))
        return float(worst.mean())

    @property
    def _weights(self) -> FloatArray:
        rest = np.full(self.dimensions - 1, 0.5 / max(1, self.dimensions - 1))
        return np.concatenate([[1.0 if self.dimensions == 1 else 0.5], rest])

    def _place(self, unit: FloatArray) -> FloatArray:
        """Uniform numbers of [0, 1]^d with the first coordinate squeezed out of the band."""
        x, side = unit.copy(), unit[:, 0] >= 0.5
        x[:, 0] = unit[:, 0] * (1 - 4 * self.r) + np.where(side, 4 * self.r, 0.0)
        return x


@dataclass(frozen=True, eq=False)
class Demonstration:
    """How often a bound held over many samples, and how far it was from the truth.

    `errors` and `bounds` (draws) are, for each sample, the true |sup_Q E_Q f - mean f| and its bound; `held` is the
    share of draws in which the bound was at least the error, which should be `1 - theta` or more.
    """

    held: float
    theta: float
    worst_risk: float
    mean_eps: float
    mean_bound: float
    mean_error: float
    document_value: float
    example: OODBound
    bounds: FloatArray
    errors: FloatArray


def demonstrate_bound(
    dimensions: int = 2,
    r: float = 0.1,
    n: int = 10_000,
    draws: int = 200,
    theta: float = 0.05,
    seed: int = 0,
    *,
    slope: float = 0.25,
    loss_bound: float = 1.0,
) -> Demonstration:
    """Compares `ood_bound` with the truth on `draws` samples of `n` points of a problem where both are known.

    Every draw measures the input-robustness eps of its own sample within 2 r and the mean loss. The true worst mean
    loss over the W_infinity ball is that of the distribution itself, found by quadrature. `document_value` is the mean
    of the published formula at the same number of cells.

    The bound is that of theorem 1 of "Improved OOD Generalization via Adversarial Training and Pre-training" (2021,
    arXiv:2105.11144), corrected.

    Args:
        slope: Lipschitz constant of the loss in the linf norm, as a share of `loss_bound`.

    >>> result = demonstrate_bound(draws=20)
    >>> result.held, bool(result.mean_error < result.mean_bound < 0.2)
    (1.0, True)
    """
    d, half = whole(dimensions, "dimensions"), positive(r, "r")
    if d > _MOST_DIMENSIONS:
        raise UsageError(f"dimensions is {dimensions!r}; give at most {_MOST_DIMENSIONS}: the truth is found on a grid")
    if half >= 0.25:
        raise UsageError(f"r is {r!r}; it should be below 0.25, so that a band of width 4 r fits between the classes")
    count, repeats, level = whole(n, "n"), whole(draws, "draws"), fraction(theta, "theta")
    problem = BandProblem(d, half, positive(slope, "slope"), positive(loss_bound, "loss_bound"))
    generator = numpy_generator(checked_seed(seed), "ood demonstration", d, count)
    truth, results, risks, changes = problem.worst_risk(), [], np.empty(repeats), np.empty(repeats)
    for number in range(repeats):
        x = problem.draw(count, generator)
        risks[number] = problem.loss(x, problem.labels(x)).mean()
        changes[number] = problem.robustness(x, 2 * half).mean()
        results.append(ood_bound(changes[number], half, count, d, loss_bound=problem.loss_bound, theta=level))
    bounds, errors = np.array([result.value for result in results]), np.abs(truth - risks)
    return Demonstration(
        held=float((errors <= bounds).mean()),
        theta=level,
        worst_risk=truth,
        mean_eps=float(changes.mean()),
        mean_bound=float(bounds.mean()),
        mean_error=float(errors.mean()),
        document_value=float(np.mean([result.document_value for result in results])),
        example=results[0],
        bounds=bounds,
        errors=errors,
    )
