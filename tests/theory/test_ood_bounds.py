"""Bounds from input-robustness: known numbers, counter-examples to the published forms, refused arguments."""

import math

import numpy as np
import pytest

from shiftproof.errors import UsageError
from shiftproof.rng import numpy_generator
from shiftproof.theory.ood.bounds import adversarial_risk_bound, ood_bound
from shiftproof.theory.ood.cells import log10_cells
from shiftproof.theory.ood.transfer import transfer_bound
from shiftproof.theory.ood.worst import worst_mean, worst_mean_linear


@pytest.mark.parametrize(
    ("dimensions", "r", "cover", "expected"),
    [
        (2, 0.1, "grid", 2.0),
        (1, 0.3, "grid", math.log10(4)),
        (3072, 2 / 255, "grid", 6473.349),  # CIFAR-10: 128 pieces an axis
        (3072, 8 / 255, "grid", 4623.821),
        (784, 0.3, "grid", 472.015),  # MNIST
        (3072, 2 / 255, "document", 3.78384e8),
        (3072, 2 / 255, "maurey", 2.32479e12),
    ],
)
def test_known_numbers_of_cells(dimensions: int, r: float, cover: str, expected: float) -> None:
    assert log10_cells(dimensions, r, cover) == pytest.approx(expected, rel=1e-5)


def test_rounding_does_not_add_a_cell() -> None:
    assert log10_cells(1, 0.3, side=0.9) == pytest.approx(math.log10(3))
    assert log10_cells(1, 0.3, side=0.9 + 1e-6) == pytest.approx(math.log10(4))


def test_published_number_of_cells_does_not_cover() -> None:
    """[0, 1000] and r = 100: points 200 apart are needed to come within 100 of everything, so at least 5 of them."""
    published = 10 ** log10_cells(1, 100, "document", side=1000)
    assert published == pytest.approx(2**1.2)
    assert published < 5
    assert 10 ** log10_cells(1, 100, side=1000) == pytest.approx(10)
    assert 10 ** log10_cells(1, 100, "maurey", side=1000) >= 10


def test_published_number_of_cells_depends_on_the_unit() -> None:
    units = [log10_cells(3072, 2 / 255 * k, "document", side=k) for k in (1.0, 255.0)]
    assert units[0] == pytest.approx(255 * units[1], rel=1e-4)
    assert log10_cells(3072, 2 / 255) == log10_cells(3072, 2, side=255)


@pytest.mark.parametrize("dimensions", [1, 2, 3, 5])
def test_l2_cells_have_the_diameter(dimensions: int) -> None:
    """Cut the cube into the number of pieces that is claimed: their diagonal is at most r / eps, but not with fewer."""
    r, eps = 0.05, 0.1
    pieces = round(10 ** (log10_cells(dimensions, r, norm="l2", eps=eps) / dimensions))
    assert math.sqrt(dimensions) / pieces <= r / eps + 1e-12
    assert math.sqrt(dimensions) / (pieces - 1) > r / eps


def test_maurey_averages_reach_every_point() -> None:
    """Averages of k vertices come within h / 2 of random points of an l1 ball, with k from the exponent."""
    radius, size, d = 1.0, 0.8, 6
    k = round(log10_cells(d, size, "maurey", l1_diameter=radius) / math.log10(2 * d))
    assert k == math.ceil(4 / size**2)
    generator = numpy_generator(0, "maurey")
    for _ in range(20):
        weights = generator.dirichlet(np.ones(2 * d))
        vertices = np.concatenate([np.eye(d), -np.eye(d)]) * radius
        averages = vertices[generator.choice(2 * d, (4000, k), p=weights)].mean(1)
        assert np.linalg.norm(averages - weights @ vertices, axis=1).min() <= size / 2


def test_classes_multiply_the_cells() -> None:
    assert log10_cells(2, 0.1, classes=10) == pytest.approx(3.0)
    assert ood_bound(0.05, 0.1, 10_000, 2, classes=10).log10_cells == pytest.approx(3.0)
    assert ood_bound(0.05, 0.1, 10_000, 2, classes=10).value > ood_bound(0.05, 0.1, 10_000, 2).value


def test_known_values() -> None:
    linf = ood_bound(eps=0.05, r=0.1, n=10_000, dimensions=2)
    assert (linf.value, linf.document_value) == pytest.approx((0.170258, 0.136779), abs=1e-6)
    # 100 cells in l2 as well: side r / (eps sqrt 2) = 0.1
    l2 = ood_bound(eps=0.05, r=0.005 * math.sqrt(2), n=10_000, dimensions=2, norm="l2")
    assert l2.log10_cells == pytest.approx(2.0)
    assert l2.value == pytest.approx(0.170258 + 0.0025, abs=1e-6)
    assert l2.document_value == pytest.approx(0.136779 + 0.05, abs=1e-6)


def test_loss_bound_is_a_unit() -> None:
    one = ood_bound(0.05, 0.1, 10_000, 2)
    ten = ood_bound(0.5, 0.1, 10_000, 2, loss_bound=10.0)
    assert ten.value == pytest.approx(10 * one.value)


@pytest.mark.parametrize(("dimensions", "n"), [(1, 20), (2, 145), (3, 1393), (4, 13_869)])
def test_fewest_samples_that_say_something(dimensions: int, n: int) -> None:
    assert not ood_bound(0.0, 0.1, n, dimensions).vacuous
    short = ood_bound(0.0, 0.1, n - 1, dimensions)
    assert short.vacuous
    assert 0 < short.orders_short < math.log10(n / (n - 1)) + 1e-12


@pytest.mark.parametrize("eps", [0.0, 0.3, 0.9])
def test_orders_short_is_where_the_bound_begins(eps: float) -> None:
    needed = 100 * 10 ** ood_bound(eps, 0.1, 100, 2).orders_short
    assert not ood_bound(eps, 0.1, math.ceil(needed * 1.001), 2).vacuous
    assert ood_bound(eps, 0.1, math.floor(needed * 0.999), 2).vacuous


def test_real_images_are_vacuous() -> None:
    bound = ood_bound(0.0, 2 / 255, 50_000, 3072)
    assert bound.vacuous
    assert bound.orders_short == pytest.approx(6473.349 + math.log10(2 * math.log(2)) - math.log10(50_000), abs=1e-3)
    assert "6,469 orders of magnitude" in bound.sentence
    assert ood_bound(0.0, 2 / 255, 50_000, 3072, cover="maurey").orders_short > 2e12


def test_no_sample_helps_a_model_that_is_not_robust() -> None:
    bound = ood_bound(1.2, 0.1, 10**9, 2)
    assert bound.vacuous
    assert math.isinf(bound.orders_short)
    assert "more robust model" in bound.sentence


def test_sentence_states_what_holds() -> None:
    sentence = ood_bound(0.05, 0.1, 10_000, 2).sentence
    for part in ("95 %", "W_infinity distance 0.1", "10,000 samples", "0.1703"):
        assert part in sentence
    assert "W_2" in ood_bound(0.05, 0.1, 10_000, 2, "l2").sentence


def test_deviation_of_frequencies_covers() -> None:
    """Sums of |frequency - probability| over 100 cells stay below the term that the bound adds to eps."""
    term = ood_bound(0.0, 0.1, 10_000, 2).value
    counts = numpy_generator(0, "multinomial").multinomial(10_000, np.full(100, 0.01), 4000)
    sums = np.abs(counts / 10_000 - 0.01).sum(1)
    assert (sums > term).mean() <= 0.05
    assert (sums > 0.6 * term).mean() > 0.5


def test_adversarial_risk_counts_once() -> None:
    bound = adversarial_risk_bound(0.05, 0.1, 10_000, 2)
    robust = ood_bound(2 * 0.05, 0.1, 10_000, 2)
    # proposition 1, then theorem 1: clean risk at most a and robustness 2 a, together 3 a
    corollary = 0.05 + robust.value
    assert bound.value == pytest.approx(corollary - 2 * 0.05)
    assert bound.document_value == pytest.approx(0.05 + robust.document_value)
    l2 = adversarial_risk_bound(0.05, 0.01, 10_000, 2, "l2", loss_bound=2.0, eps0=0.1)
    deviation = 2.0 * ood_bound(0.1, 0.01, 10_000, 2, "l2").value - 2.0 * (0.1 + 0.01)
    assert l2.value == pytest.approx(0.05 + 2 * 0.01 + deviation)
    assert "W_2 distance 0.01 " in l2.sentence


@pytest.mark.parametrize("seed", range(5))
def test_adversarial_risk_bound_without_sampling_error(seed: int) -> None:
    """Robustness is at most the adversarial risk, not twice it, for losses of at least 0 on any finite sample."""
    generator = numpy_generator(seed, "robustness")
    # samples x perturbations, the first of which is none
    loss = generator.random((50, 30)) ** 3
    assert np.abs(loss - loss[:, :1]).max(1).mean() <= loss.max(1).mean()


def test_transfer_needs_one_total_variation() -> None:
    """A loss of M where P has more mass than Q differs in mean by exactly M TV."""
    p, q, loss = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5]), np.array([2.0, 0.0, 0.0])
    tv = float(np.abs(p - q).sum() / 2)
    bound = transfer_bound(float(q @ loss), tv, r=0.0, loss_bound=2.0)
    assert float(p @ loss) == pytest.approx(bound.value)
    assert bound.document_value == pytest.approx(bound.value + 2.0 * tv)


def test_transfer_radius() -> None:
    bound = transfer_bound(0.1, 0.2, r=0.3, norm="l2", diameter=2.0)
    assert (bound.radius, bound.document_radius) == pytest.approx((math.sqrt(0.89), math.sqrt(1.69)))
    # Q moved like P: mass 1 - TV that both have moves by r, and the rest by at most the diameter
    far = transfer_bound(0.1, 0.2, r=2.0, norm="l2", diameter=2.0)
    assert far.vacuous
    assert "every distribution" in far.sentence


def test_transfer_of_disjoint_data_sets_is_vacuous() -> None:
    bound = transfer_bound(0.0, 1.0, r=0.1)
    assert bound.vacuous
    assert bound.sentence.startswith("Vacuous: at total variation 1")
    assert not transfer_bound(0.0, 0.5, r=0.1).vacuous


def test_transfer_to_samples() -> None:
    bound = transfer_bound(0.1, 0.2, r=0.1, n=1000, theta=0.05)
    assert bound.empirical_value == pytest.approx(0.3 + math.sqrt(math.log(20) / 2000))
    assert transfer_bound(0.1, 0.2, r=0.1).empirical_value is None


def test_worst_mean_of_linear_functions() -> None:
    w, x = np.array([1.0, -2.0, 0.5]), numpy_generator(0, "inputs").random((7, 3))
    mean = float((x @ w).mean())
    assert worst_mean_linear(w, x, 0.1) - mean == pytest.approx(0.35)
    assert worst_mean_linear(w, x, 0.1, "l2") - mean == pytest.approx(0.1 * math.sqrt(5.25))
    # lemma 1: the mean of the suprema over each box, by its corners
    corners = np.stack(np.meshgrid(*[[-0.1, 0.1]] * 3), -1).reshape(-1, 3)
    suprema = ((x[:, None] + corners) @ w).max(1)
    assert worst_mean(suprema) == pytest.approx(worst_mean_linear(w, x, 0.1))
    # W_2: 10^4 random ways to move the samples by 0.1 in the root mean square, none of them worse
    moves = numpy_generator(1, "moves").normal(size=(10_000, 7, 3))
    moves *= 0.1 / np.sqrt((moves**2).sum(2).mean(1))[:, None, None]
    reached = ((x + moves) @ w).mean(1).max()
    assert mean + 0.1 < reached <= worst_mean_linear(w, x, 0.1, "l2")


def test_weights_of_samples() -> None:
    assert worst_mean([0.0, 1.0], weights=[0.25, 0.75]) == 0.75
    assert worst_mean_linear([1.0], [[0.0], [1.0]], 0.5, weights=[0.25, 0.75]) == 1.25


def test_mean_movement_is_not_w_infinity() -> None:
    """From one atom at 0, half the mass moved by 1 moves by 0.5 in the mean, and beats the supremum within 0.5."""

    def loss(x: np.ndarray) -> np.ndarray:
        return np.clip(2 * np.abs(x) - 1, 0, 1)

    law, mass = np.array([0.0, 1.0]), np.array([0.5, 0.5])
    assert float(mass @ np.abs(law)) == 0.5
    assert worst_mean([loss(np.linspace(-0.5, 0.5, 101)).max()]) < float(mass @ loss(law))
    assert worst_mean([loss(np.linspace(-1, 1, 101)).max()]) >= float(mass @ loss(law))


def test_first_inequality_of_28_is_false() -> None:
    """P0 an atom at 0, f = |x|, r = 0.1, eps = 0.5: the ball of radius r / eps has more than W_2 within r allows."""
    around = worst_mean([0.1 / 0.5])
    moved, mass = np.meshgrid(np.linspace(0.01, 2, 400), np.linspace(0, 1, 401))
    within = mass * moved**2 <= 0.1**2
    best = (mass * moved)[within].max()
    assert best <= worst_mean_linear([1.0], [[0.0]], 0.1, "l2") + 1e-12
    assert around == pytest.approx(0.2)
    assert around > 1.9 * best


def test_worst_law_of_w2_need_not_be_a_map() -> None:
    """From an atom at 0, every map within r = 0.5 has loss 0; a quarter of the mass moved by 1 has 0.25."""
    loss = np.clip(10 * (np.abs(np.linspace(-0.5, 0.5, 101)) - 0.9), 0, 1)
    assert loss.max() == 0
    mass, moved = 0.25, 1.0
    assert mass * moved**2 <= 0.5**2
    mixture = mass * min(1.0, 10 * (moved - 0.9))
    assert mixture == pytest.approx(0.25)
    # theorem 2 covers the mixture: at eps = 0.5 the ball has radius 1 and the tail pays eps^2
    assert mixture <= adversarial_risk_bound(1.0, 0.5, 10**6, 1, "l2", eps0=0.5).value


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"eps": -0.1}, r"eps is -0.1; .* at least 0"),
        ({"eps": math.nan}, r"eps is nan"),
        ({"eps": 0.0, "norm": "l2"}, r"eps, which sets the size of the l2 cells, is 0.0"),
        ({"r": 0.0}, r"r is 0.0; .* above 0"),
        ({"n": 0}, r"n is 0; .* whole number of at least 1"),
        ({"n": 10.5}, r"n is 10.5; .* whole number"),
        ({"n": True}, r"n is True"),
        ({"dimensions": 0}, r"dimensions is 0"),
        ({"norm": "l1"}, r"norm is 'l1'; give 'linf' .* or 'l2'"),
        ({"loss_bound": 0}, r"loss_bound is 0"),
        ({"theta": 1.0}, r"theta is 1.0; .* between 0 and 1"),
        ({"classes": 0}, r"classes is 0"),
        ({"side": -1.0}, r"side is -1.0"),
        ({"cover": "gird"}, r"unknown cover 'gird'. Did you mean 'grid'\?"),
        ({"cover": "document"}, r"published count, which does not cover; give 'grid' or 'maurey'"),
    ],
)
def test_refused_arguments(change: dict[str, object], message: str) -> None:
    arguments = {"eps": 0.05, "r": 0.1, "n": 1000, "dimensions": 2} | change
    with pytest.raises(UsageError, match=message):
        ood_bound(**arguments)


def test_refused_combinations() -> None:
    with pytest.raises(UsageError, match="'l2' needs eps"):
        log10_cells(2, 0.1, norm="l2")
    with pytest.raises(UsageError, match="do not depend on it; leave it out"):
        log10_cells(2, 0.1, eps=0.1)
    with pytest.raises(UsageError, match="'l2' needs eps0"):
        adversarial_risk_bound(0.05, 0.1, 1000, 2, "l2")
    with pytest.raises(UsageError, match="'linf' does not take it"):
        adversarial_risk_bound(0.05, 0.1, 1000, 2, eps0=0.1)
    with pytest.raises(UsageError, match=r"total_variation is 1.5; it lies in \[0, 1\]"):
        transfer_bound(0.1, 1.5, 0.1)
    with pytest.raises(UsageError, match="needs the l2-diameter"):
        transfer_bound(0.1, 0.5, 0.1, "l2")
    with pytest.raises(UsageError, match="'linf' does not take it"):
        transfer_bound(0.1, 0.5, 0.1, diameter=1.0)
    with pytest.raises(UsageError, match="for norm 'linf' alone"):
        transfer_bound(0.1, 0.5, 0.1, "l2", diameter=1.0, n=10)
    with pytest.raises(UsageError, match=r"suprema have shape \(0,\)"):
        worst_mean([])
    with pytest.raises(UsageError, match="2 numbers of at least 0 that add up to 1"):
        worst_mean([0.1, 0.2], weights=[1.0, 1.0])
    with pytest.raises(UsageError, match=r"inputs have shape \(1, 2\).*samples x 3"):
        worst_mean_linear([1.0, 2.0, 3.0], [[0.0, 0.0]], 0.1)


def test_extreme_radii_do_not_overflow() -> None:
    for cover in ("grid", "maurey"):
        bound = ood_bound(0.05, 1e-300, 1000, 3072, cover=cover)
        assert bound.vacuous
        assert bound.sentence.startswith("Vacuous")
    assert ood_bound(0.05, 50.0, 1000, 3072).log10_cells == 0
