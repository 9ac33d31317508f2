"""Certificates around a domain: their properties, how often they are wrong, and mistakes that tests would notice."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, norm
from shift_truths import linear_truth

from shiftproof import Certificates, metrics, noise
from shiftproof.certification.certificates import certified_rows
from shiftproof.certification.sampling.budget import budget
from shiftproof.errors import UsageError
from shiftproof.theory import ShiftCertificate, draw_certificate, shift_certificate
from shiftproof.theory.confidence import Terms, sampling_term, split_terms
from shiftproof.theory.draw_certificate import label_probability

A, S = 0.8, 0.9
EPS = np.linspace(0, 1.2, 40)
TRUTH = np.array([linear_truth(A, S, one) for one in EPS])


def certificates_of(radii: np.ndarray, alpha: float = 0.0, **others: object) -> Certificates:
    """Certificates of class 0 with these radii; those of 0 abstain."""
    ids = np.array([str(i) for i in range(len(radii))], object)
    facts = {"norm": "l2", "units": "pixel values in [0, 1]", "alpha": alpha, "guarantee": "", "title": "toy"}
    return Certificates.blank(ids, np.zeros(len(radii), np.int64), radii, **(facts | others))


def zeros(radii: np.ndarray) -> np.ndarray:
    return np.zeros(len(radii), np.int64)


def around(radii: np.ndarray, p: float = 1.0, alpha: float = 0.0, **options: object) -> ShiftCertificate:
    return shift_certificate(certificates_of(radii, alpha), zeros(radii), p, **options)  # type: ignore[arg-type]


def voted(counts: np.ndarray, votes: int, label_counts: np.ndarray | None = None, sigma: float = 0.5) -> Certificates:
    """Certificates of class 0 from so many votes of `votes`, under Gaussian noise."""
    ids = np.array([str(i) for i in range(len(counts))], object)
    gaussian, levels = noise.Gaussian(sigma), budget(0.001, 3, runner_up=True, stops_early=False)
    blank = certificates_of(np.ones(len(counts)))
    start = replace(
        blank,
        ids=ids,
        chosen=zeros(counts),
        count=counts,
        label_count=counts if label_counts is None else label_counts,
        runner_up_count=votes - counts,
        n=np.full(len(counts), votes),
        noise=gaussian,
        levels=levels,
        alpha=0.001,
        samples=votes,
        classes=3,
    )
    return replace(start, **certified_rows(gaussian, start.votes, votes, levels))


@settings(deadline=None, max_examples=80)
@given(st.lists(st.floats(0, 2), min_size=3, max_size=40))
def test_the_estimate_begins_at_certified_accuracy_and_the_curve_is_below_it(values: list[float]) -> None:
    radii = np.array(values)
    held = certificates_of(radii)
    certified = metrics.certified_accuracy(held, zeros(radii), [0.0])[0]
    for p in (1.0, 2.0, math.inf):
        one = around(radii, p)
        assert one.estimate(0.0) == pytest.approx(certified)
        assert (np.diff(one.at(EPS)) <= 1e-12).all()
        assert (one.at(EPS) <= np.maximum(one.estimate(EPS) - one.term, 0) + 1e-12).all()
    for low, high in ((1.0, 2.0), (2.0, math.inf)):
        assert (around(radii, low).at(EPS) <= around(radii, high).at(EPS) + 1e-9).all()


def test_without_terms_the_curve_ends_at_the_average_certified_radius() -> None:
    radii = np.maximum(np.random.default_rng(0).normal(0.5, 0.6, 2_000), 0)
    one = around(radii)
    assert one.mean_reach == pytest.approx(metrics.average_certified_radius(certificates_of(radii), zeros(radii)))
    assert one.estimate(one.mean_reach * (1 + 1e-9)) < 1e-9 < one.estimate(0.99 * one.mean_reach)
    assert one.at(one.ends * 0.999) > 0
    assert one.at(one.ends * 1.001 + 1e-9) == 0
    assert 0 < one.ends < one.mean_reach


def test_nothing_right_and_too_few_samples_guarantee_nothing() -> None:
    assert around(np.zeros(50)).ends == 0
    assert around(np.ones(1)).ends == 0


def test_other_class_shares_are_another_statement() -> None:
    """Class 0 is always right, class 1 always wrong: shares 90/10 give .8 within .1, and no shares at all give 0."""
    labels = np.r_[np.zeros(9_000, np.int64), np.ones(1_000, np.int64)]
    held = certificates_of(np.ones(10_000))
    same = shift_certificate(held, labels)
    assert same.at(0.1) == pytest.approx(0.8 - sampling_term(10_000, 0.05))
    assert "with the class shares of" in same.guarantee
    anything = shift_certificate(held, labels, shares="any")
    assert anything.at(0.0) == 0
    right = shift_certificate(held, np.zeros(10_000, np.int64), shares="any")
    assert right.at(0.1) == pytest.approx(0.9 - sampling_term(10_000, 0.05))
    assert "the same class" in anything.guarantee


def test_classes_share_the_chance_of_error() -> None:
    labels = np.arange(600) % 3
    held = replace(certificates_of(np.ones(600)), prediction=labels, chosen=labels)
    found = shift_certificate(held, labels, shares="any")
    assert found.at(0.0) == pytest.approx(1 - sampling_term(200, 0.05 / 3))


def test_votes_are_read_again_at_an_alpha_fixed_in_advance() -> None:
    counts = np.full(400, 990)
    held = voted(counts, 1_000)
    again = held.at_alpha(1e-5)
    found = shift_certificate(held, zeros(counts))
    assert found.alpha == 1e-5
    assert found.mean_reach == pytest.approx(again.radius.mean())
    kept = shift_certificate(held, zeros(counts), alpha=None)
    assert kept.alpha == 0.001
    assert kept.term > found.term


def test_shared_noise_pays_for_certificates_that_are_wrong_together() -> None:
    shared, own = split_terms(1_000, 0.001, 0.05), split_terms(1_000, 0.001, 0.05, shared=False)
    assert own.wrong == 0.001
    assert shared.wrong == pytest.approx(0.001 / shared.noise_level)
    assert shared.sampling == pytest.approx(sampling_term(1_000, 0.05 - shared.noise_level))
    # no other split of the chance of error is better
    for part in np.linspace(0.01, 0.99, 99):
        other = 0.001 / (0.05 * part) + sampling_term(1_000, 0.05 * (1 - part))
        assert shared.total <= other * 1.01


def test_edits_are_whole_numbers() -> None:
    held = certificates_of(np.array([0.0001, 2.0001, 0.0]), norm="edits", units="words")
    found = shift_certificate(held, zeros(held.radius))
    assert found.populations[0].reach.tolist() == [1, 3, 0]
    assert "k + 1" in found.guarantee


def test_deformations_say_in_which_parameters() -> None:
    held = certificates_of(np.ones(20), noise=noise.Translation(0.2), units="half image sizes")
    assert "inside one interpolation" in shift_certificate(held, zeros(held.radius)).guarantee


def test_groups_of_one_sample_are_samples() -> None:
    radii = np.ones(40)
    assert around(radii, groups=[f"g{i}" for i in range(40)]).at(0.1) == around(radii).at(0.1)


@pytest.mark.parametrize("p", [1.0, 2.0, math.inf])
def test_groups_count_as_what_was_drawn(p: float) -> None:
    radii, groups = np.full(200, 0.5), np.repeat(np.arange(20), 10)
    found, counted = around(radii, p, groups=groups), around(radii, p)
    assert found.n == 20
    assert found.term > counted.term
    assert (found.at(EPS) <= counted.at(EPS)).all()
    assert (found.at(EPS) <= np.maximum(found.estimate(EPS) - found.term, 0) + 1e-12).all()


# -- how often the curve is above the truth ------------------------------------------------------------------------


def repeated(draw: Callable[[np.random.Generator], ShiftCertificate], times: int = 2_000, seed: int = 0) -> int:
    """How often the lower curve exceeds the truth anywhere."""
    rng = np.random.default_rng(seed)
    return sum(bool((draw(rng).at(EPS) > TRUTH + 1e-12).any()) for _ in range(times))


def too_often(count: int, level: float, times: int = 2_000) -> bool:
    """A one-sided binomial test at 1 %."""
    return bool(binom.sf(count - 1, times, level) < 0.01)


def radii_of(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.maximum(rng.normal(A, S, n), 0)


def wrong(radii: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Certificates that claim far more than is true."""
    return np.where(mask, 10.0, radii)


@pytest.mark.parametrize("confidence", [0.95, 0.5])
def test_coverage_of_samples(confidence: float) -> None:
    count = repeated(lambda rng: around(radii_of(rng, 100), confidence=confidence))
    assert not too_often(count, 1 - confidence)


def test_control_without_the_sampling_term() -> None:
    def draw(rng: np.random.Generator) -> ShiftCertificate:
        found = around(radii_of(rng, 100))
        return replace(found, populations=[replace(found.populations[0], terms=Terms(0.0, 0.0, 0.05))])

    assert too_often(repeated(draw), 0.05)


def test_coverage_with_noise_of_its_own() -> None:
    """Each certificate is wrong with probability .2, which is what is taken off."""

    def draw(rng: np.random.Generator, alpha: float = 0.2) -> ShiftCertificate:
        radii = wrong(radii_of(rng, 400), rng.random(400) < 0.2)
        return around(radii, alpha=alpha, shared_noise=False)

    assert not too_often(repeated(draw), 0.05)
    # control: certificates that are taken to be never wrong
    assert too_often(repeated(lambda rng: draw(rng, alpha=0.0)), 0.05)


def test_coverage_with_shared_noise() -> None:
    """Certificates are wrong together, as unluckily as a mean of .2 allows."""
    n, level = 400, 0.5
    terms = split_terms(n, 0.2, level)

    def draw(rng: np.random.Generator, shared: bool = True) -> ShiftCertificate:
        # just above what is taken off, as often as the mean allows
        part = min(1.0, terms.wrong * 1.02)
        bad = rng.random() < 0.2 / part
        radii = wrong(radii_of(rng, n), (np.arange(n) < part * n) & bad)
        return around(radii, alpha=0.2, confidence=1 - level, shared_noise=shared)

    assert not too_often(repeated(draw), level)


def test_control_shared_noise_that_is_taken_for_own() -> None:
    """All wrong at once in a fifth of all draws: taking off a fifth of the share is not enough at 95 %."""

    def draw(rng: np.random.Generator) -> ShiftCertificate:
        radii = wrong(radii_of(rng, 400), np.full(400, rng.random() < 0.2))
        return around(radii, alpha=0.2, shared_noise=False)

    assert too_often(repeated(draw, 500), 0.05, 500)


def grouped(rng: np.random.Generator, count: bool) -> ShiftCertificate:
    """20 patients with 10 samples each that are almost alike; the law of all samples is that of the others."""
    margins = rng.normal(A, S * 0.999, (20, 1)) + rng.normal(0, S * math.sqrt(1 - 0.999**2), (20, 10))
    radii = np.maximum(margins, 0).ravel()
    return around(radii, groups=np.repeat(np.arange(20), 10) if count else None)


def test_coverage_of_groups() -> None:
    assert not too_often(repeated(lambda rng: grouped(rng, True)), 0.05)


def test_control_groups_counted_as_samples() -> None:
    assert too_often(repeated(lambda rng: grouped(rng, False), 500), 0.05, 500)


# -- one draw ------------------------------------------------------------------------------------------------------


def test_coverage_of_one_draw() -> None:
    """Votes of a linear classifier under shared noise: the truth at eps 0 is known, and that of moving all samples."""
    sigma, votes, eps = 0.5, 200, np.array([0.0, 0.1, 0.3])
    # margins are N(A, S^2), and under noise N(A, S^2 + sigma^2); moving all samples by eps is one law within it
    truth = norm.cdf((A - eps) / math.hypot(S, sigma))
    rng, above = np.random.default_rng(5), 0
    for _ in range(2_000):
        margins, draws = rng.normal(A, S, 60), rng.normal(0, sigma, votes)
        counts = (margins[:, None] + draws > 0).sum(1)
        found = draw_certificate(voted(counts, votes, counts, sigma), zeros(counts), confidence=0.8, alpha=None)
        above += bool((found.at(eps) > truth).any())
    assert not too_often(above, 0.2)


def test_probabilities_of_the_label() -> None:
    held = voted(np.array([900, 500, 1_000, 700]), 1_000, np.array([900, 120, 1_000, 0]))
    labels = np.array([0, 1, 0, 2])
    bounds = label_probability(held, labels, 0.001)
    assert bounds[0] == pytest.approx(0.867, abs=2e-3)
    assert 0.08 < bounds[1] < 0.12
    assert bounds[2] == pytest.approx(0.001 ** (1 / 1_000))
    assert bounds[3] == 0
    assert label_probability(replace(held, skipped=np.ones(4, bool)), labels, 0.001).tolist() == [0, 0, 0, 0]
    moved = label_probability(replace(held, off_grid=np.full(4, 0.1)), labels, 0.001)
    assert (moved[:3] < bounds[:3]).all()


def test_the_larger_of_both_bounds_is_reported() -> None:
    held = voted(np.full(300, 900), 1_000)
    found = draw_certificate(held, zeros(held.radius))
    eps = np.array([0.0, 0.05, 0.2, 0.6])
    assert (found.at(eps) == np.maximum(found.own(eps), found.kumar(eps))).all()
    assert "not the vote" in found.guarantee


# -- bad input -----------------------------------------------------------------------------------------------------


def test_bad_input() -> None:
    held = certificates_of(np.ones(4))
    labels = zeros(held.radius)
    for call, words in [
        (lambda: shift_certificate(replace(held, unsound="as-published"), labels), "published rule"),
        (lambda: shift_certificate(held, labels[:2]), "labels of shape"),
        (lambda: shift_certificate(held, labels, groups=["a"]), "groups of shape"),
        (lambda: shift_certificate(held, labels, shares="all"), "shares"),  # type: ignore[arg-type]
        (lambda: shift_certificate(held, labels, confidence=95), "confidence"),
        (lambda: shift_certificate(held, labels, 0), "order"),
        (lambda: shift_certificate(held.subset([]), labels[:0]), "at least one sample"),
        (lambda: shift_certificate(replace(held, radius=np.full(4, np.nan)), labels), "radius"),
        (lambda: draw_certificate(held, labels), "Gaussian"),
    ]:
        with pytest.raises(UsageError, match=words):
            call()


def test_guarantees_are_never_rounded_up() -> None:
    one = around(np.ones(400), confidence=0.975)
    assert one.at(0.0) == pytest.approx(1 - sampling_term(400, 0.025))
    assert one.sentence(0.0).startswith("93% guaranteed (97%)")
    assert "97.5%" in one.guarantee


def test_any_shares_speak_of_measured_classes_alone() -> None:
    found = shift_certificate(certificates_of(np.ones(50)), np.zeros(50, np.int64), shares="any")
    assert "over the classes that were measured" in found.guarantee


def test_full_votes_of_a_rule_that_may_stop_early_pay_for_it() -> None:
    held = voted(np.array([900]), 1_000)
    early = replace(held, levels=budget(0.001, 3, runner_up=True, stops_early=True))
    assert label_probability(early, [0], 0.001) < label_probability(held, [0], 0.001)
