"""Differences over several runs that leave out one domain each: what they share is drawn once."""

from collections import Counter

import numpy as np
import pytest
from simulated import clean

from shiftproof.evidence import Evidence
from shiftproof.report.claims import Claim, RunEvidence, judge_over_targets
from shiftproof.report.differences import OneRun, mean_difference
from shiftproof.report.estimates import repeats_in
from shiftproof.statistics import mean_of_independent

DOMAINS = ("p", "q", "r", "s")
SEEDS, SAMPLES = 3, 100
ABOUT_SOURCES = Claim.model_validate(
    {"id": "K", "says": "s", "metric": "accuracy", "model": "a", "domain": "sources", "above": 0.5, "effect": 0.0}
)


def runs(generator: np.random.Generator, share: float = 0.5) -> list[RunEvidence]:
    """Four runs, each of which measures the same samples of its sources; hard ones are hard in every run."""
    hardness = {name: generator.random(SAMPLES) for name in DOMAINS}
    ids = {name: np.array([f"{name}-{number}" for number in range(SAMPLES)]) for name in DOMAINS}
    made = []
    for target in DOMAINS:
        rows = []
        for name in DOMAINS:
            for seed in range(SEEDS):
                other = generator.random(SAMPLES) < 0.1
                right = np.where(other, generator.random(SAMPLES) < share, hardness[name] < share)
                rows.append(clean("a", seed, right, name, id=ids[name]))
        made.append(RunEvidence(Evidence(rows), target, 0, tuple(name for name in DOMAINS if name != target)))
    return made


def test_claims_about_sources_are_false_as_rarely_as_they_say() -> None:
    generator, verdicts, differences, widths = np.random.default_rng(0), Counter[str](), [], []
    for _ in range(60):
        (outcome,) = judge_over_targets([ABOUT_SOURCES], runs(generator))
        found = outcome.parts[0].difference
        assert found is not None
        verdicts[outcome.verdict] += 1
        differences.append(found.value)
        widths.append((found.high - found.low) / 2)
    # 5 % of 60 are 3; more than 8 have a probability below 0.004. With samples drawn in each run apart there were 10
    assert verdicts["supported"] + verdicts["contradicted"] <= 8
    assert np.mean(widths) > 1.7 * np.std(differences)


def test_the_value_is_the_mean_over_runs_and_domains() -> None:
    measured = runs(np.random.default_rng(1), 0.7)
    (outcome,) = judge_over_targets([ABOUT_SOURCES], measured)
    each = [
        np.mean([(part["prediction"] == part["label"]).mean() for part in run.evidence.where(domain=name)])
        for run in measured
        for name in run.sources
    ]
    this = outcome.parts[0].this
    assert this is not None
    assert this.value == pytest.approx(np.mean(each))


def test_runs_that_share_nothing_are_as_wide_as_independent_ones() -> None:
    generator = np.random.default_rng(2)
    rows = []
    for number in range(3):
        ids = np.array([f"{number}-{one}" for one in range(300)])
        rows += [clean(f"m{number}", seed, generator.random(300) < 0.6, "p", id=ids) for seed in range(SEEDS)]
    values = [one.values() for one in repeats_in(Evidence(rows))]
    joint = mean_difference([OneRun(one, 0.5) for one in values], (0.0, 1.0), shares=True)(0.95)
    alone = [mean_difference([OneRun(one, 0.5)], (0.0, 1.0), shares=True)(0.95) for one in values]
    apart = mean_of_independent(alone)
    assert joint.value == pytest.approx(apart.value)
    assert joint.high - joint.low == pytest.approx(apart.high - apart.low, rel=0.1)
