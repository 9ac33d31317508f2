"""The rate of adversarial training: formulas by hand, and a problem on which it can be measured."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from shiftproof.errors import UsageError
from shiftproof.rng import numpy_generator
from shiftproof.theory.ood.rate import MinimaxConstants, training_rate
from shiftproof.theory.ood.toy import ToyMinimax

CONSTANTS = MinimaxConstants(gradient=3.0, l11=1.0, l12=2.0, l21=2.0, l22=10.0, mu_w=0.5, mu_x=0.5)


def test_formulas() -> None:
    rate = training_rate(CONSTANTS, steps=1000, dimensions=4, r=0.1, theta=0.01)
    smooth, log = 1 + 4 / 0.5, math.log(math.log(1000) / 0.01)
    assert CONSTANTS.smoothness == smooth
    assert rate.expected == pytest.approx(9 * smooth / (1000 * 0.25))
    assert rate.high_probability == pytest.approx(9 * (log * (64 * smooth + 8) + smooth) / 250)
    assert rate.inner_steps == math.ceil(20 * math.log(4 * 1000 * 0.5 * 2 * 2 * 0.1 / (3 * smooth)))
    assert rate.document_inner_steps == math.ceil(20 * math.log(8 * 1000 * 0.5 * 4 * 0.01 / (3 * smooth)))
    assert training_rate(CONSTANTS, 1000, 4, 0.1, "l2").inner_steps < rate.inner_steps


def test_published_confidence_hardly_grows() -> None:
    """ln ln(T / theta) would sell a chance of error of 1e-9 for little more than one of 0.1."""
    likely, unlikely = (training_rate(CONSTANTS, 1000, 4, 0.1, theta=theta) for theta in (0.1, 1e-9))
    assert unlikely.document_high_probability < 1.6 * likely.document_high_probability
    assert unlikely.high_probability > 5 * likely.high_probability


@pytest.mark.parametrize("r", [0.001, 0.01, 0.1])
def test_inner_steps_reach_the_accuracy_of_the_proof(r: float) -> None:
    """l12 times the distance left after K contractions is at most G L / (2 mu_w T); the published K is too small."""
    steps, d = 10_000, 4
    rate = training_rate(CONSTANTS, steps, d, r)
    allowed = CONSTANTS.gradient * CONSTANTS.smoothness / (2 * CONSTANTS.mu_w * steps)

    def left(inner: int) -> float:
        return CONSTANTS.l12 * 2 * math.sqrt(d) * r * (1 - CONSTANTS.mu_x / CONSTANTS.l22) ** inner

    assert left(rate.inner_steps) <= allowed
    assert rate.document_inner_steps < rate.inner_steps
    assert left(rate.document_inner_steps) > allowed


def test_toy_has_the_constants_that_it_states() -> None:
    problem = ToyMinimax()
    c, generator = problem.constants, numpy_generator(0, "toy test")
    w, u = generator.normal(size=(2, 500, problem.dimensions)) * 3
    # the adversarial risk is mu_w-strongly convex and L-smooth along every segment, so it satisfies the PL inequality
    middle = (problem.adversarial_risk(w) + problem.adversarial_risk(u)) / 2 - problem.adversarial_risk((w + u) / 2)
    square = ((w - u) ** 2).sum(1) / 8
    assert (middle >= c.mu_w * square - 1e-9).all()
    assert (middle <= c.smoothness * square + 1e-9).all()
    assert (problem.curvatures.min(), problem.curvatures.max()) == (c.mu_x, c.l22)


def test_toy_optimum_and_risk_by_other_means() -> None:
    problem = ToyMinimax(dimensions=2, samples=5)
    found = minimize(lambda w: float(problem.adversarial_risk(w)), np.zeros(2), method="Nelder-Mead", tol=1e-10)
    assert problem.optimum == pytest.approx(found.x, abs=1e-4)
    w, moves = np.array([0.4, -0.7]), np.linspace(-problem.r, problem.r, 401)
    z = problem.inputs[:, None, :] + moves[None, :, None]
    inner = (problem.coupling * w * z - problem.curvatures * z**2 / 2).max(1).sum(1).mean()
    assert float(problem.adversarial_risk(w)) == pytest.approx(problem.mu_w * (w @ w) / 2 + inner, abs=1e-4)


def test_measured_gap_stays_below_the_rate() -> None:
    problem, gaps = ToyMinimax(), {}
    for steps in (50, 200, 800):
        rate = training_rate(problem.constants, steps, problem.dimensions, problem.r)
        gaps[steps] = problem.train(steps, rate.inner_steps, repetitions=100)
        error = gaps[steps].std() / 10
        assert gaps[steps].mean() + 3 * error <= rate.expected
        assert (gaps[steps] <= rate.high_probability).mean() >= 1 - rate.theta
    # it falls like 1 / T, which is the order of the bound
    slope = math.log(gaps[800].mean() / gaps[50].mean()) / math.log(800 / 50)
    assert slope == pytest.approx(-1, abs=0.2)


def test_too_few_inner_steps_break_the_rate() -> None:
    problem, steps = ToyMinimax(), 3200
    rate = training_rate(problem.constants, steps, problem.dimensions, problem.r)
    assert rate.inner_steps > 100
    assert problem.train(steps, inner_steps=1, repetitions=20).mean() > 2 * rate.expected


def test_same_seed_same_gaps() -> None:
    problem = ToyMinimax()
    assert (problem.train(20, 5, 10, seed=1) == problem.train(20, 5, 10, seed=1)).all()
    assert (problem.train(20, 5, 10, seed=1) != problem.train(20, 5, 10, seed=2)).any()


def test_refused_arguments() -> None:
    with pytest.raises(UsageError, match="steps is 3; it should be a whole number of at least 4"):
        training_rate(CONSTANTS, 3, 2, 0.1)
    with pytest.raises(UsageError, match="theta is 0.5; .* below 1/e"):
        training_rate(CONSTANTS, 100, 2, 0.1, theta=0.5)
    with pytest.raises(UsageError, match="mu_w is 0.0; it should be a finite number above 0"):
        MinimaxConstants(1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 1.0)
    with pytest.raises(UsageError, match="mu_x is 2.0, more than l22 = 1.0"):
        MinimaxConstants(1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0)
    with pytest.raises(UsageError, match="mu_x is 20, more than l22"):
        ToyMinimax(mu_x=20)
    with pytest.raises(UsageError, match="inner_steps is 0"):
        ToyMinimax().train(10, 0)
