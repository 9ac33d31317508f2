"""Two models on the same samples, as pure functions of evidence; every number again by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import t
from simulated import certified, clean

from shiftproof.errors import UsageError
from shiftproof.evidence import Evidence, Measurement
from shiftproof.report.comparison import Line, judge_relative, lines_of, pair_evidence
from shiftproof.report.comparison.pairing import OtherSamples
from shiftproof.report.comparison.settings import differing_keys, nearest, options_in, tell_apart
from shiftproof.report.requirements import Measurable, Requirement
from shiftproof.types import Estimate

N = 200


def shuffled(one: Measurement, seed: int = 3) -> Measurement:
    return one.take(np.random.default_rng(seed).permutation(len(one)))


def rights(share: float, seed: int, n: int = N) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).random(n) < share


def one_line(before: list[Measurement], after: list[Measurement], **options: Any) -> Line:
    (line,) = lines_of(pair_evidence(Evidence(before), Evidence(after)), **options)
    return line


class TestSettings:
    def test_options_are_read_at_any_depth(self) -> None:
        found = options_in("Certify(certifiers=(RandomizedSmoothing(noise=Gaussian(sigma=0.25), n=100),), alphas=())")
        assert found["certifiers.noise.sigma"] == "0.25"
        assert found["certifiers"] == "RandomizedSmoothing"
        assert options_in("fog 3, cifar constants") == {"": "fog 3, cifar constants"}

    def test_the_nearest_differs_in_the_fewest_options(self) -> None:
        others = ["PGD(steps=40, restarts=5)", "PGD(steps=40, restarts=1)", "Ensemble(steps=20, restarts=1)"]
        assert nearest("PGD(steps=20, restarts=1)", others) == (others[1], {"steps": ("20", "40")})
        assert nearest("Spatial(steps=20)", others) is None

    def test_a_key_that_is_missing_says_so(self) -> None:
        assert differing_keys({"limit": 5, "data": {"a": 1}}, {"data": {"a": 2}}) == {
            "limit": ("5", "none"),
            "data.a": ("1", "2"),
        }


class TestPairs:
    def test_rows_pair_by_id_whatever_their_order(self) -> None:
        a, b = rights(0.7, 0), rights(0.8, 1)
        line = one_line([clean("a", None, a)], [shuffled(clean("b", None, b))])
        ids = np.array([f"sample-{i}" for i in range(N)])
        assert set(line.gained) == set(ids[b & ~a])
        assert set(line.lost) == set(ids[a & ~b])
        assert line.difference.value == pytest.approx(b.mean() - a.mean())
        assert (line.baseline.value, line.other.value) == (a.mean(), b.mean())
        assert line.difference.n == N
        assert "paired bootstrap" in line.difference.method

    def test_the_interval_is_that_of_paired_differences(self) -> None:
        n = 2_000
        a = rights(0.7, 0, n)
        b = a ^ rights(0.1, 1, n)
        found = one_line([clean("a", None, a)], [clean("b", None, b)]).difference
        apart = b.astype(float) - a
        half = 1.96 * apart.std() / np.sqrt(n)
        assert found.low == pytest.approx(apart.mean() - half, abs=0.1 * half)
        assert found.high == pytest.approx(apart.mean() + half, abs=0.1 * half)
        # without pairing it would be more than twice as wide
        assert found.high - found.low < 0.5 * 2 * 1.96 * np.sqrt(a.var() / n + b.var() / n)

    def test_intervals_hold_as_often_as_they_say(self) -> None:
        generator, held, tries = np.random.default_rng(0), 0, 150
        for _ in range(tries):
            base = generator.random(80) < 0.75
            other = np.where(generator.random(80) < 0.2, generator.random(80) < 0.95, base)
            found = one_line([clean("a", None, base)], [clean("b", None, other)]).difference
            held += found.low <= 0.2 * 0.2 <= found.high
        assert held / tries >= 0.91

    def test_groups_are_drawn_whole(self) -> None:
        groups = [f"patient-{i // 20}" for i in range(N)]
        worse = np.repeat(rights(0.5, 4, N // 20), 20)
        a, b = np.ones(N, bool), ~worse
        alone = one_line([clean("a", None, a)], [clean("b", None, b)])
        grouped = one_line([clean("a", None, a, group=groups)], [clean("b", None, b, group=groups)])
        assert grouped.difference.value == alone.difference.value
        width = grouped.difference.high - grouped.difference.low
        means = np.array([part.mean() for part in np.split(b.astype(float) - a, N // 20)])
        by_hand = 2 * t.ppf(0.975, len(means) - 1) * means.std(ddof=1) / np.sqrt(len(means))
        assert width == pytest.approx(by_hand, rel=0.35)
        assert width > 2 * (alone.difference.high - alone.difference.low)

    def test_one_group_decides_nothing(self) -> None:
        groups = ["only"] * N
        a, b = np.zeros(N, bool), np.ones(N, bool)
        line = one_line([clean("a", None, a, group=groups)], [clean("b", None, b, group=groups)])
        assert line.verdict == "undecided"
        assert "one group" in line.note

    def test_seeds_of_both_sides_count(self) -> None:
        a = [rights(share, i) for i, share in enumerate((0.6, 0.7, 0.8))]
        b = [rights(share, 9 + i) for i, share in enumerate((0.75, 0.8, 0.9))]
        before = [clean("a", i, right) for i, right in enumerate(a)]
        after = [clean("b", i, right) for i, right in enumerate(b)]
        line = one_line(before, after)
        means = [np.array([right.mean() for right in side]) for side in (a, b)]
        assert line.difference.value == pytest.approx(means[1].mean() - means[0].mean())
        reach = np.hypot(*(t.ppf(0.975, 2) * one.std(ddof=1) / np.sqrt(3) for one in means))
        assert line.difference.high - line.difference.value > reach
        assert line.difference.method.endswith("3 and 3 seeds")
        # a sample gains if the part of seeds that are right on it rises
        rises = np.mean(b, axis=0) > np.mean(a, axis=0)
        assert set(line.gained) == {f"sample-{i}" for i in np.flatnonzero(rises)}
        # the same models twice share their seeds: their skill is no difference
        same = one_line(before, [replace(one, facts={**one.facts, "model": "b"}) for one in before], apart=False)
        assert (same.difference.value, same.gained, same.lost) == (0, [], [])
        assert same.difference.high < 0.05 < reach

    def test_radii_and_guarantees(self) -> None:
        generator = np.random.default_rng(5)
        a, b = generator.uniform(-0.5, 1, N), generator.uniform(-0.4, 1.2, N)
        paired = pair_evidence(Evidence([certified("a", 0, a)]), Evidence([shuffled(certified("b", 0, b))]))
        lines = lines_of(paired, radii=[0.0, 0.5], also=[("l2", 0.75), ("linf", 0.1)])
        assert [(one.metric, one.size) for one in lines] == [
            ("certified", 0.0),
            ("certified", 0.5),
            ("certified", 0.75),
            ("radius", 0.0),
        ]
        for one in lines[:3]:
            assert one.difference.value == pytest.approx((b >= one.size).mean() - (a >= one.size).mean())
            assert len(one.lost) == int(((a >= one.size) & (b < one.size)).sum())
        assert lines[3].difference.value == pytest.approx(np.maximum(b, 0).mean() - np.maximum(a, 0).mean())
        assert lines[3].difference.low < lines[3].difference.value < lines[3].difference.high


class TestProtocols:
    def test_other_samples_are_refused_unless_shared_ones_are_asked_for(self) -> None:
        a, b = rights(0.7, 0), rights(0.8, 1, 150)
        before, after = Evidence([clean("a", None, a)]), Evidence([clean("b", None, b)])
        with pytest.raises(OtherSamples, match="the samples of target differ: both measured 150 of up to 200"):
            pair_evidence(before, after)
        paired = pair_evidence(before, after, shared=True)
        assert paired.fewer == {"target": 150}
        (line,) = lines_of(paired)
        assert line.baseline.value == a[:150].mean()
        assert line.difference.value == pytest.approx(b.mean() - a[:150].mean())

    @pytest.mark.parametrize(
        ("columns", "said"),
        [({"label": np.ones(N, int)}, "has the label 0 and 1"), ({"group": ["g"] * N}, "groups in one run alone")],
    )
    def test_samples_of_one_name_that_are_others(self, columns: dict[str, Any], said: str) -> None:
        before, after = clean("a", None, rights(0.7, 0)), clean("b", None, rights(0.8, 1), **columns)
        with pytest.raises(OtherSamples, match=said):
            pair_evidence(Evidence([before]), Evidence([after]), shared=True)

    def test_what_is_alike_is_compared_and_the_rest_is_named(self) -> None:
        def attacked(model: str, steps: int) -> Measurement:
            facts = {"probe": "attack", "setting": f"Attack(attack=PGD(steps={steps})) at 0.5", "eps": 0.5}
            one = clean(model, None, rights(0.4, steps))
            return replace(
                one, facts={**one.facts, **facts, "norm": "l2", "units": "pixels", "title": "attack, l2 0.5"}
            )

        before = Evidence([clean("a", None, rights(0.7, 0)), attacked("a", 5)])
        after = Evidence([clean("b", None, rights(0.7, 1)), attacked("b", 50), certified("b", 0, rights(0.5, 2))])
        paired = pair_evidence(before, Evidence([one for one in after if one.probe != "certify"]))
        assert [line.metric for line in lines_of(paired)] == ["clean"]
        assert paired.left_out == ("attack differs in attack.steps 5 and 50 (attack, l2 0.5)",)
        assert "only the other run has (certify latent-margin)" in pair_evidence(before, after).left_out
        with pytest.raises(UsageError, match="nothing was measured alike: attack differs in attack.steps 5 and 50"):
            pair_evidence(Evidence([before[1]]), Evidence([after[1]]))

    def test_attacks_of_one_size_are_told_apart(self) -> None:
        def attacked(model: str, attack: str, share: float) -> Measurement:
            one = clean(model, None, rights(share, len(attack)))
            facts = {"probe": "attack", "setting": f"Attack(attack={attack}) at 0.5", "eps": 0.5, "norm": "l2"}
            return replace(one, facts={**one.facts, **facts, "units": "pixels", "title": "attack, l2 0.5"})

        attacks = {"PGD(steps=5)": 0.6, "Ensemble(steps=20)": 0.4}
        before = Evidence([attacked("a", attack, share) for attack, share in attacks.items()])
        # in another order
        after = Evidence([attacked("b", attack, 0.5) for attack in reversed(attacks)])
        lines = lines_of(pair_evidence(before, after))
        assert [line.title for line in lines] == ["attack, l2 0.5 (PGD)", "attack, l2 0.5 (Ensemble)"]
        assert [line.baseline.value for line in lines] == [one["correct"].mean() for one in before]
        assert [line.other.value for line in lines] == [one["correct"].mean() for one in reversed(list(after))]
        steps = tell_apart(["x", "x"], ["Attack(attack=PGD(steps=5))", "Attack(attack=PGD(steps=9))"])
        assert steps == ["x (attack.steps 5)", "x (attack.steps 9)"]

    def test_certificates_of_other_noise_pair_when_asked(self) -> None:
        a, b = np.linspace(-0.5, 1, N), np.linspace(-0.2, 1, N)
        before = certified("a", 0, a, certifier={"name": "latent-margin"}, alpha=0.001)
        after = certified("b", 0, b, certifier={"name": "other"}, alpha=0.01)
        with pytest.raises(UsageError, match="nothing was measured alike"):
            pair_evidence(Evidence([before]), Evidence([after]))
        paired = pair_evidence(Evidence([before]), Evidence([after]), any_certificate=True)
        line = lines_of(paired, radii=[0.5])[0]
        assert line.difference.value == pytest.approx((b >= 0.5).mean() - (a >= 0.5).mean())
        assert "latent-margin and other" in line.title
        pixels = replace(after, facts={**after.facts, "norm": "linf"})
        with pytest.raises(UsageError, match="nothing was measured alike"):
            pair_evidence(Evidence([before]), Evidence([pixels]), any_certificate=True)


class TestGate:
    def line(self, value: float, low: float, high: float, domain: str = "d", **facts: Any) -> Line:
        sides = [Estimate(one, 0, 1, 100) for one in (0.72, 0.72 + value)]
        rest = {"metric": "clean", "title": "as they are", "classifier": "base", **facts}
        arrays = {"ids": np.array(["x"], object), "values": lambda: (np.ones(1), np.ones(1))}
        found = Estimate(value, low, high, 100)
        return Line(domain=domain, baseline=sides[0], other=sides[1], difference=found, **arrays, **rest)

    @pytest.mark.parametrize(
        ("text", "met"),
        [
            ("clean>=baseline-0.02", True),
            ("clean >= baseline - 2%", True),
            ("clean>=baseline-0.01", False),
            ("clean>=baseline", False),
            ("clean>=baseline-0.05 with 95%", True),
            ("clean>=baseline-0.02 with 95%", False),
            ("clean<=baseline", True),
            ("clean<=baseline+0.01 with 95%", True),
            ("clean<=baseline with 95%", False),
        ],
    )
    def test_by_the_value_or_the_limit(self, text: str, met: bool) -> None:
        # 0.70 - 0.72 is less than -0.02 by a rounding error, which fails nobody
        outcome = judge_relative(Requirement.parse(text), [self.line(0.70 - 0.72, -0.05, 0.01)], ["d"])
        assert outcome.met is met
        assert "70.0% against 72.0%, -2.0 (-5.0 to +1.0) points, on d (n = 100)" in str(outcome)

    def test_the_worst_domain_decides_and_size_and_norm_count(self) -> None:
        lines = [
            self.line(0.1, 0.0, 0.2, "good", metric="certified", norm="l2", size=0.5),
            self.line(-0.1, -0.2, 0.0, "bad", metric="certified", norm="l2", size=0.5),
            self.line(-0.9, -0.9, -0.9, "bad", metric="certified", norm="linf", size=0.5),
            self.line(-0.8, -0.8, -0.8, "bad", metric="certified", norm="l2", size=0.25),
        ]
        outcome = judge_relative(Requirement.parse("certified@l2:0.5>=baseline"), lines, ["good", "bad"])
        assert (outcome.met, outcome.domain, outcome.difference.value) == (False, "bad", -0.1)
        assert judge_relative(Requirement.parse("certified@l2:0.5:good>=baseline"), lines, ["bad"]).met
        with pytest.raises(UsageError, match="nothing of the kind was compared on bad; compared are certified@l2:0.5"):
            judge_relative(Requirement.parse("clean>=baseline"), lines, ["bad"])

    def test_without_a_baseline_it_is_a_sentence(self) -> None:
        asked = Requirement.parse("clean>=baseline-0.02")
        for refuse in (lambda: asked.check(Measurable(("d",))), lambda: asked.judge(Evidence(), ["d"])):
            with pytest.raises(UsageError, match="there is none here: shiftproof compare BASELINE RUN --require"):
                refuse()

    @pytest.mark.parametrize("text", ["clean>=baseline*2", "clean>=baseline-", "clean>=-0.1", "clean>=baseline-2"])
    def test_what_can_not_be_read(self, text: str) -> None:
        with pytest.raises(UsageError, match="the requirement"):
            Requirement.parse(text)

    def test_a_guarantee_around_a_domain_has_no_difference(self) -> None:
        with pytest.raises(UsageError, match="two of these have no difference"):
            Requirement.parse("shift@w1=0.1>=baseline")
