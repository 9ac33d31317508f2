"""Alarms over a stream: how often they are false, how soon they come, and what breaks them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from shiftproof.errors import UsageError
from shiftproof.statistics import betting_upper
from shiftproof.theory.stream import FRACTIONS, Evidence, Limit, log_evidence
from shiftproof.types import FloatArray

LOW, HIGH, EPS, A, D = -4.0, 5.0, 1.0, 0.05, 0.05


def limits(generator: np.random.Generator, streams: int) -> list[Limit]:
    """U + eps of each stream, with U bounded on 500 samples of N(0, 1) of its own."""
    values = np.clip(generator.standard_normal((streams, 500)), LOW, HIGH)
    upper = LOW + (HIGH - LOW) * betting_upper((values - LOW) / (HIGH - LOW), D)
    return [Limit(float(one) + EPS, LOW, HIGH) for one in upper]


def alarms(shift: float, streams: int, steps: int, seed: int) -> FloatArray:
    """For each stream of N(shift, 1) the step of its alarm; infinity without one."""
    generator = np.random.default_rng(seed)
    found = np.full(streams, np.inf)
    for index, limit in enumerate(limits(generator, streams)):
        evidence = log_evidence(generator.standard_normal(steps) + shift, limit)
        above = np.flatnonzero(evidence >= -np.log(A))
        found[index] = above[0] + 1 if len(above) else np.inf
    return found


def test_false_alarms_at_exactly_what_is_certified_stay_within_the_level() -> None:
    assert np.isfinite(alarms(EPS, 150, 10_000, seed=0)).sum() <= binom.ppf(0.99, 150, A + D)


def test_without_a_bound_on_the_mean_of_the_domain_it_is_a_martingale_at_the_limit() -> None:
    """U known exactly: alarms at the limit itself come with probability a at most, and now and then they do."""
    generator = np.random.default_rng(1)
    values = generator.uniform(0, 1, (600, 1_000))
    false = (log_evidence(values, Limit(0.5, 0.0, 1.0)).max(1) >= -np.log(0.1)).sum()
    assert 5 < false <= binom.ppf(0.99, 600, 0.1)


def test_at_twice_what_is_certified_it_alarms_soon() -> None:
    when = alarms(2 * EPS, 200, 5_000, seed=2)
    assert np.isfinite(when).mean() >= 0.95
    assert np.median(when) < 500


def test_a_shift_after_a_long_time_without_one_is_seen_soon() -> None:
    """What was lost while nothing happened must not have to be won back."""
    generator = np.random.default_rng(6)
    for limit in limits(generator, 10):
        values = np.concatenate([generator.standard_normal(50_000), generator.standard_normal(1_000) + 2 * EPS])
        evidence = log_evidence(values, limit)
        assert evidence[:50_000].max() < -np.log(A)
        assert (evidence[50_000:] >= -np.log(A)).argmax() > 0


def test_within_what_is_certified_large_samples_do_not_alarm() -> None:
    """The null is the distance, not equality: half of it never alarms, however long the stream."""
    assert not np.isfinite(alarms(EPS / 2, 40, 10_000, seed=3)).any()


def test_a_sorted_stream_fails_the_same_test_and_shuffling_mends_it() -> None:
    """No shift at all: two classes of the domain, one after the other."""
    generator = np.random.default_rng(4)
    limit = Limit(0.5, 0.0, 1.0)
    sorted_values = np.concatenate(
        [generator.uniform(0.5, 1.0, (300, 500)), generator.uniform(0.0, 0.5, (300, 500))], axis=1
    )
    allowed = binom.ppf(0.99, 300, 0.05)
    assert (log_evidence(sorted_values, limit).max(1) >= -np.log(0.05)).sum() > allowed
    shuffled = generator.permuted(sorted_values, axis=1)
    assert (log_evidence(shuffled, limit).max(1) >= -np.log(0.05)).sum() <= allowed


@settings(max_examples=60, deadline=None)
@given(
    low=st.floats(-10, 0),
    width=st.floats(0.1, 20),
    share=st.floats(0.05, 0.95),
    values=st.lists(st.floats(-100, 100), min_size=1, max_size=30),
)
def test_bets_stay_below_the_bound_so_that_capital_is_never_lost(
    low: float, width: float, share: float, values: list[float]
) -> None:
    limit = Limit(low + share * width, low, low + width)
    stakes = limit.stakes(values)
    assert (stakes >= -1).all()
    # b = fraction / (mean - low), and b < 1 / (M + U + eps) is what the proof needs
    assert max(FRACTIONS) < 1
    assert np.isfinite(log_evidence(values, limit)).all()


def test_a_fair_bet_pays_nothing_on_average() -> None:
    """The mean of E_t over all outcomes of four fair values at the limit is 1 exactly."""
    limit, outcomes = Limit(0.25, 0.0, 1.0), np.indices((4,) * 4).reshape(4, -1).T == 0
    log_e = log_evidence(outcomes * 1.0, limit)[:, -1]
    weights = np.where(outcomes, 0.25, 0.25).prod(1)
    assert (np.exp(log_e) * weights).sum() == pytest.approx(1)


def test_a_stream_in_pieces_is_the_stream() -> None:
    generator, limit = np.random.default_rng(5), Limit(0.4, 0.0, 1.0)
    values = generator.random(200)
    whole = log_evidence(values, limit)
    evidence = Evidence()
    for piece in np.split(values, [3, 4, 150]):
        evidence = evidence.update(piece, limit)
    assert evidence.count == 200
    assert evidence.log == pytest.approx(whole[-1])
    # of batches the ends count: inside one, samples are in an order that they did not arrive in
    assert evidence.peak == pytest.approx(max(*whole[[2, 3, 149, 199]], 0))
    assert Evidence().log == pytest.approx(0)
    assert evidence.update([], limit) == evidence
    assert evidence.alarmed(np.exp(-evidence.peak))
    assert not evidence.alarmed(np.exp(-evidence.peak - 1e-6))
    with pytest.raises(UsageError, match="not a number"):
        evidence.update([np.nan], limit)


def test_an_alarm_that_can_never_come_is_refused() -> None:
    with pytest.raises(UsageError, match="no stream could ever raise"):
        Limit(1.2, 0.0, 1.0)
    with pytest.raises(UsageError, match="not above the lowest"):
        Limit(0.0, 0.0, 1.0)
