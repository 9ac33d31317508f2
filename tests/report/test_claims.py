"""Claims judged by evidence: verdicts of simulated studies whose truth is known, and what a verdict rests on."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from simulated import certified, clean, simulate

from shiftproof.evidence import Evidence, Measurement
from shiftproof.report.claims import Claim, ClaimOutcome, Published, judge_claims, require_claims

STUDIES = 300
"""Simulated studies of a case."""


def claim(name: str = "K1", **fields: Any) -> Claim:
    usual = {"id": name, "says": "a is better than b", "metric": "accuracy", "model": "a", "domain": "target"}
    direction = {} if {"below", "near"} & set(fields) else {"above": "b"}
    return Claim.model_validate({**usual, **direction, "effect": 0.05, **fields})


def verdicts(
    difference: float, claims: int = 1, *, seeds: int, spread: float, effect: float = 0.05, **how: Any
) -> Counter[str]:
    """How many of the simulated studies have each verdict, on any claim; all their models differ as much."""
    generator, found = np.random.default_rng(0), Counter[str]()
    said = [
        claim(f"K{i}", model=f"a{i}", effect=effect, **({direction: f"b{i}"}))
        for i in range(claims)
        for direction in [how.get("direction", "above")]
    ]
    shares = {f"{side}{i}": 0.5 + sign * difference / 2 for i in range(claims) for side, sign in (("a", 1), ("b", -1))}
    for _ in range(how.get("studies", STUDIES)):
        evidence = simulate(generator, shares, seeds, spread, how.get("samples", 120))
        found.update({one.verdict for one in judge_claims(said, evidence)})
    return found


def at_most(count: int, share: float, studies: int = STUDIES) -> bool:
    """Whether a count of studies agrees with a share of at most this, up to three standard errors."""
    return count / studies <= share + 3 * np.sqrt(share * (1 - share) / studies)


class TestSimulatedStudies:
    """A false verdict is as rare as the confidence says; a planted effect is found."""

    @pytest.mark.parametrize(("seeds", "spread"), [(3, 0.06), pytest.param(3, 0.0, marks=pytest.mark.slow)])
    def test_an_effect_no_larger_than_what_matters_is_seldom_supported(self, seeds: int, spread: float) -> None:
        found = verdicts(0.05, seeds=seeds, spread=spread, effect=0.05)
        assert at_most(found["supported"], 0.05)
        # the boundary is no contradiction either
        assert at_most(found["contradicted"], 0.05)

    def test_a_planted_effect_is_supported(self) -> None:
        assert verdicts(0.4, seeds=3, spread=0.02)["supported"] / STUDIES >= 0.95

    @pytest.mark.slow
    @pytest.mark.parametrize(("difference", "effect"), [(0.0, 0.0), (0.0, 0.05), (0.05, 0.05)])
    @pytest.mark.parametrize("seeds", [3, 5])
    @pytest.mark.parametrize("spread", [0.0, 0.01, 0.06])
    def test_absence_is_seldom_supported(self, difference: float, effect: float, seeds: int, spread: float) -> None:
        found = verdicts(difference, seeds=seeds, spread=spread, effect=effect)
        assert at_most(found["supported"], 0.05)

    @pytest.mark.slow
    @pytest.mark.parametrize(("seeds", "spread"), [(3, 0.06), (5, 0.06), (5, 0.0)])
    def test_of_a_family_of_five_claims_seldom_any_is_wrong(self, seeds: int, spread: float) -> None:
        found = verdicts(0.05, 5, seeds=seeds, spread=spread, effect=0.05)
        assert at_most(found["supported"], 0.05)
        assert at_most(found["contradicted"], 0.05)

    @pytest.mark.slow
    @pytest.mark.parametrize(("seeds", "spread", "difference"), [(3, 0.02, 0.35), (5, 0.02, 0.3), (5, 0.04, 0.3)])
    def test_planted_effects(self, seeds: int, spread: float, difference: float) -> None:
        assert verdicts(difference, seeds=seeds, spread=spread)["supported"] / STUDIES >= 0.95

    @pytest.mark.slow
    def test_what_is_near_and_what_is_not(self) -> None:
        how: dict[str, Any] = {"direction": "near", "seeds": 5, "spread": 0.01, "samples": 1000, "effect": 0.1}
        assert verdicts(0.0, **how)["supported"] / STUDIES >= 0.95
        edge = verdicts(0.1, **how)
        assert at_most(edge["supported"], 0.05)
        assert at_most(edge["contradicted"], 0.05)
        assert verdicts(0.3, **how)["contradicted"] / STUDIES >= 0.95

    @pytest.mark.slow
    @pytest.mark.parametrize(("seeds", "spread"), [(3, 0.3), (5, 0.0)])
    def test_mean_radii_with_long_tails(self, seeds: int, spread: float) -> None:
        """Most samples have no radius, a few a large one; the models are alike, so that no difference is there."""
        generator, found = np.random.default_rng(0), Counter[str]()
        for _ in range(STUDIES):
            made = []
            for model in "ab":
                for seed, scale in enumerate(np.exp(spread * generator.standard_normal(seeds))):
                    radii = np.where(generator.random(200) < 0.4, generator.exponential(scale, 200), -1.0)
                    made.append(certified(model, seed, radii))
            (one,) = judge_claims([claim(metric="acr", effect=0.0)], Evidence(made))
            found[one.verdict] += 1
        assert at_most(found["supported"], 0.05)


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    """Four trainings of two models that differ by .4 in accuracy, and were certified."""
    generator = np.random.default_rng(1)
    made = [clean(m, s, generator.random(400) < share) for m, share in (("a", 0.8), ("b", 0.4)) for s in range(4)]
    made += [clean("a", s, generator.random(300) < 0.9, "source") for s in range(4)]
    made += [
        certified(m, s, np.where(generator.random(400) < share, generator.uniform(0, 1, 400), -1))
        for m, share in (("a", 0.8), ("b", 0.4))
        for s in range(4)
    ]
    return Evidence(made)


def judge(evidence: Evidence, *fields: dict[str, Any]) -> list[ClaimOutcome]:
    return judge_claims([claim(f"K{i}", **one) for i, one in enumerate(fields)], evidence)


def stopped_early(one: Measurement, where: Any) -> Measurement:
    """The same measurement, of votes that stopped early."""
    bounds = np.where(where, "sequence", "clopper-pearson").tolist()
    return Measurement(one.facts, one.table.set_column(one.table.column_names.index("bound"), "bound", [bounds]))


class TestVerdicts:
    def test_each_direction(self, evidence: Evidence) -> None:
        said = (
            {},
            {"effect": 0.6},
            {"below": "b"},
            {"near": {"model": "b"}},
            {"near": "b", "effect": 0.7},
            {"model": "b", "below": {"model": "a"}},
            {"above": {"domain": "source"}, "effect": 0.0},
        )
        assert [one.verdict for one in judge(evidence, *said)] == [
            *("supported", "contradicted", "contradicted", "contradicted", "supported", "supported", "contradicted"),
        ]
        reverse, small = judge(evidence, {"below": "b"}, {"effect": 0.6})
        assert "the reverse is true" in reverse.why
        assert "less than the 60 points that matter" in small.why

    def test_votes_that_stopped_early_support_nothing_that_all_of_them_could_undo(self) -> None:
        """One network, certified by all votes and by votes that stop on a grid: nothing differs but the rule."""
        generator = np.random.default_rng(2)
        stops = {"name": "randomized-smoothing", "noise": "gaussian:0.25", "n": 100_000, "stop": "radii:0,0.5"}
        made = []
        for seed in range(3):
            radii = np.where(generator.random(400) < 0.7, generator.uniform(0, 0.9, 400), -1.0)
            # what is known when a vote stops: the last radius of the grid that holds
            stopped = np.where(radii < 0, -1.0, np.where(radii >= 0.5, 0.5, 0.0))
            early = stopped_early(certified("a", seed, stopped, certifier=stops, alpha=0.001), radii >= 0)
            made += [early, certified("a", seed, radii, certifier={**stops, "stop": "full"}, alpha=0.001)]
        by_all, by_few = ({"name": "randomized-smoothing", "stop": rule} for rule in ("full", "radii:0,0.5"))
        said = {"metric": "acr", "model": "a", "effect": 0.01}
        above, below, near, far = judge(
            Evidence(made),
            {**said, "by": by_all, "above": {"by": by_few}},
            {**said, "by": by_few, "below": {"by": by_all}},
            {**said, "by": by_all, "near": {"by": by_few}},
            {**said, "by": by_all, "above": {"by": by_few}, "effect": 0.6},
        )
        assert [one.verdict for one in (above, below, near)] == ["undecided"] * 3
        assert far.verdict == "contradicted"
        (part,) = above.parts
        assert part.difference is not None
        # plain figures differ by .15: beyond the effect, and within what the grid leaves open
        assert part.difference.value > 0.1
        assert part.difference.low < 0
        assert "stopped early" in above.why

    def test_shares_differ_by_no_more_than_all(self) -> None:
        """Trainings that differ much, and models that differ by all: limits stay within 100 points."""
        made = [
            clean(m, s, np.arange(100) < share)
            for m, shares in (("a", (100, 100, 70)), ("b", (0, 0, 30)))
            for s, share in enumerate(shares)
        ]
        one, other = judge(Evidence(made), {}, {"above": 0.05})
        for outcome, most in ((one, 1.0), (other, 0.95)):
            (part,) = outcome.parts
            assert part.difference is not None
            assert part.difference.high == pytest.approx(most)
            assert part.difference.low < part.difference.value < part.difference.high

    def test_numbers_and_figures(self, evidence: Evidence) -> None:
        one, other = judge(evidence, {"above": 0.7, "effect": 0.0}, {"above": 0.9})
        assert (one.verdict, other.verdict) == ("supported", "contradicted")
        (part,) = one.parts
        assert part.difference is not None
        assert part.this is not None
        assert part.that is not None
        assert part.that.value == part.that.low == part.that.high == 0.7
        assert part.difference.value == pytest.approx(part.this.value - 0.7)
        assert part.difference.method == "one-sample bootstrap; 4 seeds"

    def test_trainings_of_two_models_are_independent_and_those_of_one_are_shared(self, evidence: Evidence) -> None:
        apart, same = judge(evidence, {}, {"below": {"domain": "source"}, "effect": 0.0})
        assert apart.parts[0].difference is not None
        assert same.parts[0].difference is not None
        assert apart.parts[0].difference.method == "paired bootstrap; 4 and 4 seeds"
        assert same.parts[0].difference.method.endswith("bootstrap; 4 seeds")

    def test_the_interval_decides_where_nothing_is_to_be_corrected(self, evidence: Evidence) -> None:
        (wide,) = judge(evidence, {})
        difference = wide.parts[0].difference
        assert difference is not None
        for shift, verdict in ((-0.002, "supported"), (0.002, "undecided")):
            (one,) = judge(evidence, {"effect": difference.low + shift})
            assert one.verdict == one.parts[0].verdict == verdict

    def test_all_parts_must_hold_and_any_contradicts(self, evidence: Evidence) -> None:
        radii = "certified@[0, 0.25, 0.5]"
        parts = [{"metric": radii, "above": "b"}, {"metric": "acr", "below": "b"}]
        all_of_them, one_is_not = judge(evidence, {"metric": radii}, {"above": None, "metric": None, "parts": parts})
        assert (all_of_them.verdict, len(all_of_them.parts)) == ("supported", 3)
        assert all_of_them.why.startswith("3 of 3 parts hold")
        assert (one_is_not.verdict, len(one_is_not.parts)) == ("contradicted", 4)
        assert "acr of a on target is below that of b" in one_is_not.why
        # intersection-union: no correction for parts that must all hold; Bonferroni for any that may contradict
        alone = judge(evidence, {"metric": radii})[0]
        assert alone.p == max(part.p for part in alone.parts)
        assert one_is_not.p_against is not None
        assert one_is_not.p_against == pytest.approx(2 * 4 * min(part.p_against for part in one_is_not.parts))

    def test_more_claims_make_every_one_harder(self, evidence: Evidence) -> None:
        (wide,) = judge(evidence, {})
        difference = wide.parts[0].difference
        assert difference is not None
        effect = difference.low - 0.002
        assert judge(evidence, {"effect": effect})[0].verdict == "supported"
        several = judge(evidence, {"effect": effect}, {"effect": 0.3999}, {"above": 0.7999})
        assert several[0].verdict == "undecided"
        assert "Holm's correction (3 claims)" in several[0].why

    @pytest.mark.parametrize("seeds", [1, 2])
    def test_few_seeds_decide_nothing(self, evidence: Evidence, seeds: int) -> None:
        few = Evidence([one for one in evidence if one.model == "a" or one.fact("train_seed") < seeds])
        (one,) = judge_claims([claim()], few)
        assert (one.verdict, one.p) == ("undecided", 1.0)
        assert f"b was trained with {seeds} seed" in one.why
        assert one.parts[0].difference is not None

    def test_one_group_decides_nothing(self) -> None:
        right = {"a": np.ones(40), "b": np.zeros(40)}
        made = [clean(m, s, right[m], group=["only"] * 40) for m in "ab" for s in range(3)]
        (one,) = judge_claims([claim()], Evidence(made))
        assert (one.verdict, "one group" in one.why) == ("undecided", True)

    def test_what_was_not_measured_is_said(self, evidence: Evidence) -> None:
        outcomes = judge(
            evidence,
            {"model": "c"},
            {"domain": "moon"},
            {"metric": "corrupted"},
            {"metric": "acr", "by": "randomized-smoothing"},
            {"metric": "attacked@linf:8/255"},
        )
        assert [one.verdict for one in outcomes] == ["not measured"] * 5
        assert outcomes[0].why == "c was not measured on target"
        assert (
            outcomes[3].why == "there is no certificate of a on target by randomized-smoothing; there is latent-margin"
        )
        assert [one.p for one in outcomes] == [1.0] * 5

    def test_certificates_that_can_not_be_told_apart(self, evidence: Evidence) -> None:
        noisy = [
            certified("a", s, np.ones(400), certifier={"name": "latent-smoothing", "sigma": sigma})
            for s in range(3)
            for sigma in (0.12, 0.25)
        ]
        both = Evidence([*evidence, *noisy])
        unclear, meant = judge(
            both,
            {"metric": "acr", "by": "latent-smoothing", "above": 0.1},
            {"metric": "acr", "by": {"name": "latent-smoothing", "sigma": 0.25}, "above": 0.1},
        )
        assert "2 certificates" in unclear.why
        assert meant.verdict == "supported"

    def test_radii_of_different_norms_are_not_compared(self, evidence: Evidence) -> None:
        other = [certified("c", s, np.ones(400), norm="linf") for s in range(3)]
        (one,) = judge(Evidence([*evidence, *other]), {"metric": "acr", "above": "c"})
        assert (one.verdict, "those of c on target in linf" in one.why) == ("not measured", True)

    def test_votes_that_stopped_by_an_unknown_rule_decide_nothing(self, evidence: Evidence) -> None:
        made = [stopped_early(certified("c", s, np.ones(400)), np.ones(400, bool)) for s in range(3)]
        (one,) = judge(Evidence([*evidence, *made]), {"metric": "acr", "model": "c", "above": "a"})
        assert one.verdict == "not measured"
        assert "votes for c on target stopped early, and the run does not say by which rule" in one.why

    def test_what_can_not_be_tested_here(self, evidence: Evidence) -> None:
        needs = [
            {"id": "K8", "says": "faces", "needs": "data: CelebA", "for": "Table 2"},
            {"id": "K9", "says": "more", "needs": "paper scale"},
        ]
        outcomes = judge_claims([claim(), *map(Claim.model_validate, needs)], evidence)
        assert [one.verdict for one in outcomes] == ["supported", "needs data: CelebA", "needs paper scale"]
        assert outcomes[1].why == "needed for Table 2"
        # they are no part of the family
        assert outcomes[0].p == judge(evidence, {})[0].p

    def test_no_claims_are_no_outcomes(self, evidence: Evidence) -> None:
        assert judge_claims([], evidence) == []


def test_published_figures_stand_beside_ours(evidence: Evidence) -> None:
    methods = {"GLEAN": {"model": "a", "by": "latent-margin"}, "Gaussian": {"model": "b", "by": "latent-margin"}}
    table = Published.model_validate(
        {"document": "001", "table": "Table 2", "dataset": "CMNIST", "domain": "target", "methods": methods}
    )
    said = claim(metric="certified@[0, 0.25, 0.33]", by="latent-margin"), claim("K2", metric="acr")
    outcomes = judge_claims(said, evidence, [table])
    published = [(part.published_this, part.published_that) for one in outcomes for part in one.parts]
    assert published == [(0.643, 0.181), (0.532, 0.086), (None, None), (0.2466, 0.0458)]
    assert outcomes[1].parts[0].published_difference == pytest.approx(0.2008)
    # of another domain nothing was published
    assert judge_claims([claim(metric="accuracy")], evidence, [table])[0].parts[0].published_this is None


def test_the_requirement_is_met_by_what_can_be_judged() -> None:
    supported, undecided = (
        ClaimOutcome(name, "", verdict) for name, verdict in (("A", "supported"), ("B", "undecided"))
    )
    needs = ClaimOutcome("C", "", "needs data: CelebA")
    met = require_claims("claims", [supported, needs])
    assert met.met
    assert str(met) == "claims is met: supported: A; needs data: CelebA: C"
    for verdict in ("undecided", "contradicted", "not measured"):
        assert not require_claims("claims", [supported, ClaimOutcome("B", "", verdict), needs]).met
    assert str(require_claims("claims", [undecided])) == "claims is not met: undecided: B"


def test_few_samples_with_rare_radii_are_not_taken_for_none() -> None:
    # the mean radius is 0.1: one sample in twenty has a radius of 2, and of 30 samples none has, in one study of five
    generator, wrong, studies = np.random.default_rng(0), 0, 200
    said = [claim("near", metric="acr", model="rare", near=0.0, effect=0.05)]
    said += [claim("above", metric="acr", model="rare", above=0.0, effect=0.09)]
    for _ in range(studies):
        radii = np.where(generator.random(30) < 0.05, 2.0, -1.0)
        outcomes = judge_claims(said, Evidence([certified("rare", seed, radii) for seed in range(3)]), domain="target")
        wrong += outcomes[0].verdict == "supported" or outcomes[1].verdict == "contradicted"
    assert at_most(wrong, 0.05, studies)
