"""Estimates over samples and training seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shiftproof.errors import UsageError
from shiftproof.evidence import Evidence, Measurement, metrics
from shiftproof.report.accuracy import accuracy_table
from shiftproof.report.estimates import TRAIN_SEED, estimate, gap, one_repeat, repeats_in
from shiftproof.statistics import bootstrap_mean

N = 50


def clean(domain: str, right: int, groups: int = 0, **facts: Any) -> Measurement:
    known = {"model": "m", "domain": domain, "probe": "clean", "setting": "Clean()", "classifier": "base", **facts}
    columns: dict[str, Any] = {
        "id": [f"{domain}/{i}" for i in range(N)],
        "label": [0] * N,
        "prediction": [0] * right + [1] * (N - right),
        "correct": [True] * right + [False] * (N - right),
    }
    if groups:
        columns["group"] = [f"{domain}-{i % groups}" for i in range(N)]
    return Measurement.of(known, columns)


def test_of_one_seed_numbers_are_those_of_the_metrics() -> None:
    (one,) = repeats_in([clean("a", 40)])
    assert estimate(one.values(), exact=True) == metrics.accuracy([True] * 40 + [False] * 10)
    assert estimate(one.values(), exact=False) == bootstrap_mean(one.first.sample(), limits=(0, 1))
    (grouped,) = repeats_in([clean("a", 40, groups=5)])
    expected = metrics.accuracy(grouped.first["correct"], grouped.first["group"])
    assert estimate(grouped.values(), exact=not grouped.grouped) == expected
    (other,) = repeats_in([clean("b", 20)])
    assert gap([one.values()], other.values(), 3) == metrics.gap([one.first.sample()], other.first.sample(), 3)


def test_seeds_are_one_model() -> None:
    evidence = Evidence([clean(domain, right, train_seed=s) for domain in "ab" for s, right in ((0, 40), (1, 30))])
    found = repeats_in(evidence)
    assert [(one.domain, len(one.measurements)) for one in found] == [("a", 2), ("b", 2)]
    values = found[0].values()
    assert values.mean == pytest.approx(0.7)
    shown = estimate(values, exact=True)
    assert (shown.value, shown.n) == (pytest.approx(0.7), N)
    assert shown.low < 0.7 < shown.high
    table = accuracy_table(evidence, ("a",), ("b",))
    assert len(table.rows) == 1
    lost = table.rows[0].gaps["b"]
    assert (lost.value, lost.n) == (pytest.approx(0.0), 2 * N)


def test_pairs_are_of_the_same_seed() -> None:
    before = repeats_in([clean("a", 40, train_seed=s) for s in (0, 1)])[0]
    after = repeats_in([clean("a", 20, train_seed=s, setting="other") for s in (1, 0)])[0]
    assert [(one.fact(TRAIN_SEED), two.fact(TRAIN_SEED)) for one, two in after.pairs(before)] == [(1, 1), (0, 0)]
    assert np.array_equal(after.column("correct"), np.concatenate([one["correct"] for one in after.measurements]))


def test_what_was_measured_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="m was measured twice on a"):
        repeats_in([clean("a", 40), clean("a", 30)])
    with pytest.raises(UsageError, match="there are 0 measurements of domain 'b'"):
        one_repeat(Evidence([clean("a", 40)]), domain="b")
