"""Claims about what a probe measured, what a certified classifier answers, and what a search reaches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from pydantic_core import PydanticCustomError
from simulated import IDS, certified, clean

from shiftproof.certification.certifiers.median_smoothing import MedianSmoothing
from shiftproof.certification.certifiers.randomized_smoothing import RandomizedSmoothing
from shiftproof.errors import UsageError
from shiftproof.evidence import Evidence, Measurement
from shiftproof.evidence.measurement import Column
from shiftproof.perturbations.noise import as_noise
from shiftproof.probes import PROBES, Probe
from shiftproof.probes.certify import Certify
from shiftproof.report.claims import Claim, ClaimOutcome, check_claims, judge_claims
from shiftproof.report.claims.check import check_planned
from shiftproof.report.claims.figures import Figures
from shiftproof.report.claims.sides import By, Metric, Side
from shiftproof.report.requirements import Measurable
from shiftproof.statistics import bootstrap_mean

N, SEEDS = 300, 3
PGD = {"name": "attack", "attack": {"name": "pgd", "threat": "l2:0.25"}}


def claim(name: str = "K1", **fields: Any) -> Claim:
    usual = {"id": name, "says": "a is better than b", "metric": "accuracy", "model": "a", "domain": "target"}
    return Claim.model_validate({**usual, "above": "b", "effect": 0.05, **fields})


def judge(evidence: Evidence, **fields: Any) -> ClaimOutcome:
    (one,) = judge_claims([claim(**fields)], evidence)
    return one


def answered(model: str, seed: int, asked: Mapping[str, Any] | None, answers: np.ndarray, **facts: Any) -> Measurement:
    """What a probe would have measured, with a row of answers for each draw of noise; class 0 is right."""
    name = str(facts.pop("probe", "noisy" if asked is None else asked["name"]))
    more = {f"prediction_{k}": row for k, row in enumerate(answers[1:], 2)}
    known = {
        "model": model,
        "domain": "target",
        "probe": name,
        "setting": f"{asked} {facts}",
        "title": f"{name} {facts or asked}",
        "classifier": "base",
        "train_seed": seed,
        **({} if asked is None else {"asked": PROBES.make(asked).to_config()}),
        **facts,
    }
    n = answers.shape[1]
    columns = {"id": IDS[:n], "label": np.zeros(n, int), "prediction": answers[0], "correct": answers[0] == 0}
    return Measurement.of(known, columns | more, [Column(one, "int", "a draw") for one in more])


def noisy(sigma: float, adapted: bool, draws: int = 1) -> dict[str, Any]:
    return {"name": "noisy", "noise": f"gaussian:{sigma}", "adapted": adapted, "draws": draws}


@pytest.fixture(scope="module")
def drawn() -> dict[tuple[str, bool, int], np.ndarray]:
    """Answers of two models under noise, five draws a sample, by model, adaptation and seed."""
    generator = np.random.default_rng(3)
    shares = {("a", False): 0.3, ("a", True): 0.7, ("b", True): 0.5, ("b", False): 0.2}
    return {
        (model, adapted, seed): (generator.random((5, N)) > share).astype(int)
        for (model, adapted), share in shares.items()
        for seed in range(SEEDS)
    }


@pytest.fixture(scope="module")
def evidence(drawn: dict[tuple[str, bool, int], np.ndarray]) -> Evidence:
    made = [answered(m, s, noisy(0.5, adapted, 5), rows) for (m, adapted, s), rows in drawn.items()]
    made += [answered("a", s, noisy(0.25, True), np.zeros((1, N), int)) for s in range(SEEDS)]
    return Evidence([*made, *(clean(m, s, np.ones(N)) for m in "ab" for s in range(SEEDS))])


ADAPTED = {"name": "noisy", "noise": "gaussian:0.5", "adapted": True}


class TestAccuracyByAProbe:
    def test_it_is_the_mean_over_draws(
        self, evidence: Evidence, drawn: dict[tuple[str, bool, int], np.ndarray]
    ) -> None:
        figure = Figures(evidence).find(Metric("accuracy"), Side("a", "target", By.make(ADAPTED)))
        by_hand = np.array([(drawn["a", True, seed] == 0).mean(0) for seed in range(SEEDS)])
        for seed, one in enumerate(figure.values.by_seed):
            assert np.array_equal(one.values, by_hand[seed])
        assert figure.estimate.value == pytest.approx(by_hand.mean())
        # the interval of several seeds is no narrower than that of samples alone
        alone = bootstrap_mean(figure.values.averaged, limits=(0.0, 1.0))
        assert figure.estimate.low <= alone.low < alone.high <= figure.estimate.high
        first = (drawn["a", True, 0][0] == 0).mean()
        assert figure.values.per_seed[0] != first

    def test_claims_are_judged_by_it(self, evidence: Evidence) -> None:
        better = judge(evidence, by=ADAPTED)
        (part,) = better.parts
        assert (better.verdict, part.difference is not None) == ("supported", True)
        raised = judge(evidence, by=ADAPTED, above={"by": {**ADAPTED, "adapted": False}}, effect=0.3)
        assert raised.verdict == "supported"
        assert judge(evidence, by=ADAPTED, above={"by": {**ADAPTED, "adapted": False}}, effect=0.5).verdict == (
            "contradicted"
        )
        # clean accuracy is another figure, by its probe or without a name; both models are always right there
        assert judge(evidence, effect=0.05).verdict == judge(evidence, by="clean").verdict == "contradicted"

    def test_several_that_match_are_named(self, evidence: Evidence) -> None:
        one = judge(evidence, by={"name": "noisy", "noise": "gaussian:0.5"})
        assert one.verdict == "not measured"
        assert "2 measurements match" in one.why
        assert "'adapted': True" in one.why
        assert "'adapted': False" in one.why
        assert "'by: {name: noisy, ...}'" in one.why
        none = judge(evidence, by={"name": "noisy", "noise": "gaussian:0.75"})
        assert none.why.startswith("there is no measurement of accuracy of a on target by noisy (noise gaussian:0.75)")

    def test_a_probe_that_kept_no_options_is_known_by_its_name(self) -> None:
        made = [answered(m, s, None, np.full((1, N), int(m == "b"))) for m in "ab" for s in range(SEEDS)]
        assert judge(Evidence(made), by="noisy").verdict == "supported"

    def test_columns_of_other_probes_that_are_called_like_draws_are_no_draws(self) -> None:
        right = np.zeros((1, N), int)
        asked = {"name": "adapted", "noise": "gaussian:0.5"}
        made = [answered("a", s, asked, np.concatenate([right, right + 1])) for s in range(SEEDS)]
        figure = Figures(Evidence(made)).find(Metric("accuracy"), Side("a", "target", By.make("adapted")))
        assert figure.estimate.value == 1

    def test_an_adapted_model_is_asked_as_it_is_and_under_attack(self) -> None:
        inner, made = {"name": "adapted", "noise": "gaussian:0.5"}, []
        for seed in range(SEEDS):
            made.append(answered("a", seed, inner, np.zeros((1, N), int)))
            attacked = np.repeat([[0, 1]], N // 2, axis=0).reshape(1, N)
            made.append(answered("a", seed, {**inner, "probe": PGD}, attacked, eps=0.25, norm="l2"))
        figures, side = Figures(Evidence(made)), Side("a", "target", By.make(inner))
        assert figures.find(Metric("accuracy"), side).estimate.value == 1
        assert figures.find(Metric("attacked", 0.25, "l2"), side).estimate.value == 0.5


def test_attacks_of_one_threat_are_told_apart_by_their_probe() -> None:
    made = []
    for seed in range(SEEDS):
        for smoothed, share in ((None, 0.2), ("gaussian:0.5", 0.6)):
            for random_start in (True, False):
                made_so = {**PGD["attack"], "random_start": random_start}  # type: ignore[dict-item]
                asked = {**PGD, "attack": made_so, "smoothed": smoothed}
                answers = (np.arange(N) >= N * (share - 0.1 * random_start)).astype(int)[None]
                kind = "base" if smoothed is None else "smoothed"
                made.append(answered("a", seed, asked, answers, eps=0.25, norm="l2", units="p", classifier=kind))
    figures = Figures(Evidence(made))

    def found(**by: Any) -> float:
        return figures.find(Metric("attacked", 0.25, "l2"), Side("a", "target", By("attack", by))).estimate.value

    def attack(start: bool) -> dict[str, Any]:
        return {"name": "pgd", "random_start": start}

    assert found(smoothed=None, attack=attack(True)) == pytest.approx(0.1)
    assert found(smoothed=None, attack=attack(False)) == pytest.approx(0.2)
    assert found(smoothed="gaussian:0.5", attack=attack(True)) == pytest.approx(0.5)
    with pytest.raises(UsageError, match="2 measurements match"):
        found(smoothed="gaussian:0.5")
    with pytest.raises(UsageError, match=r"2 measurements of attacked@l2:0.25.*'by' should say which probe"):
        figures.find(Metric("attacked", 0.25, "l2"), Side("a", "target"))


class TestAnswers:
    def test_votes_that_abstain_are_wrong_and_medians_keep_their_answer(self) -> None:
        """Of four samples: certified and right, right without a radius, certified and wrong, wrong without one."""
        chosen, radius = np.tile([0, 0, 1, 1], N // 4), np.tile([0.1, 0.0, 0.1, 0.0], N // 4)
        made = []
        for seed in range(SEEDS):
            for model, kind in (("vote", "smoothed"), ("median", "median")):
                prediction = np.where(radius > 0, chosen, -1)
                one = certified(model, seed, np.where(prediction == 0, radius, -1.0), classifier=kind)
                table = one.table
                for name, values in (("chosen", chosen), ("prediction", prediction), ("radius", radius)):
                    table = table.set_column(table.column_names.index(name), name, [values])
                made.append(Measurement(one.facts, table))
        figures = Figures(Evidence(made))
        for model, share in (("vote", 0.25), ("median", 0.5)):
            assert figures.find(Metric("answers"), Side(model, "target")).estimate.value == share
            assert figures.find(Metric("certified", 0.1), Side(model, "target")).estimate.value == 0.25

    def test_answers_are_compared_whatever_the_norm_of_radii(self) -> None:
        made = [certified("a", s, np.ones(N)) for s in range(SEEDS)]
        made += [certified("b", s, np.full(N, -1.0), norm="linf") for s in range(SEEDS)]
        assert judge(Evidence(made), metric="answers").verdict == "supported"
        assert "in linf" in judge(Evidence(made), metric="acr").why


@pytest.fixture(scope="module")
def searched() -> Evidence:
    """A search of two sizes: of four samples one changes within the first, two within the second."""
    made, before = [], np.tile([0, 1, 2, 2], N // 4)
    for seed in range(SEEDS):
        for model, steps in (("a", 10), ("b", 10), ("b", 20)):
            asked = {"name": "search", "threat": "linf:0.1", "eps": [0.05], "steps": steps}
            for eps, moved in ((0.0, []), (0.05, [2]), (0.1, [1, 2]), (None, [0, 1, 2])):
                after = np.where(np.isin(np.arange(N) % 4, moved), 3, before)
                # the head of the last sample has no adversarial representation
                after = np.where((np.arange(N) % 4 == 3) & (eps is None), -1, after)
                facts = {"eps": eps, "norm": "linf", "search": f"search {steps}"}
                made.append(answered(model, seed, asked, after[None], **facts))
    return Evidence(made)


class TestReached:
    def test_shares_of_changed_predictions(self, searched: Evidence) -> None:
        figures, side = Figures(searched), Side("a", "target")
        assert figures.find(Metric("reached", 0.05, "linf"), side).estimate.value == 0.25
        assert figures.find(Metric("reached", 0.1), side).estimate.value == 0.5
        assert figures.find(Metric("reached-representation"), side).estimate.value == 0.75
        for wrong in (Metric("reached", 0.2), Metric("reached", 0.1, "l2"), Metric("reached")):
            with pytest.raises(UsageError, match="no search that measured"):
                figures.find(wrong, side)

    def test_of_several_searches_one_is_named(self, searched: Evidence) -> None:
        fields = {"metric": "reached@linf:0.1", "model": "b", "above": 0.2}
        assert "2 searches match (search 10, search 20)" in judge(searched, **fields).why
        assert judge(searched, by={"name": "search", "steps": 20}, **fields).verdict == "supported"


def probes(*configs: Any) -> dict[str, list[Probe]]:
    voting = Certify(RandomizedSmoothing(as_noise("gaussian:0.5"), n=100))
    rule = Certify(MedianSmoothing(radius=0.1, unsound="as-published"))
    return {"a": [*map(PROBES.make, configs), voting, rule], "b": [PROBES.make("clean")]}


HERE = (
    "clean",
    noisy(0.5, True),
    noisy(0.5, False),
    {"name": "adapted", "noise": "gaussian:0.5"},
    {"name": "adapted", "noise": "gaussian:0.5", "probe": PGD},
    {"name": "attack", "attack": {"name": "pgd", "threat": "l2:0.25"}},
    {"name": "attack", "attack": {"name": "pgd", "threat": "l2:0.25"}, "smoothed": "gaussian:0.5"},
    {"name": "search", "threat": "linf:0.1", "eps": [0.05]},
)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"by": "noisy"}, "2 probes are meant"),
        ({"by": {**ADAPTED, "noise": "gaussian:1"}}, "accuracy of a on target by noisy .*: no such probe is planned"),
        ({"by": {"name": "noisy", "sigm": 1}}, "unknown option of noisy 'sigm'"),
        ({"by": "nosiy"}, "unknown certifier or probe 'nosiy'. Did you mean 'noisy'?"),
        ({"by": "attack"}, "what attack measures is no accuracy; the metric is attacked@"),
        ({"by": "search"}, "the metric is reached@"),
        ({"by": "refute"}, "what refute measures is no accuracy; the metric is answers"),
        ({"by": "clean", "above": {"model": "b", "by": ADAPTED}}, "of b .* no such probe is planned; .* by clean"),
        ({"by": "adapted", "metric": "corrupted"}, "corrupted is not told by the probe adapted"),
        ({"by": "noisy", "metric": "certified@0.1"}, "certified@0.1 is by a certifier, and noisy is a probe"),
        ({"by": "attack", "metric": "attacked@l2:0.25"}, "2 probes are meant"),
        ({"by": "attack", "metric": "attacked@l2:0.5"}, "no such probe is planned"),
        ({"metric": "reached@linf:0.2"}, "no such probe is planned"),
        ({"metric": "reached@l2:0.1"}, "no such probe is planned"),
        ({"metric": "reached"}, "the metric 'reached' needs a size"),
        ({"metric": "reached-representation", "by": "clean"}, "is by a search, not by clean"),
        ({"metric": "answers", "by": {"name": "median-smoothing", "unsound": "as-published"}}, "no such certificate"),
        ({"metric": "certified@0.1", "by": "median-smoothing"}, "no such certificate is planned"),
    ],
)
def test_what_is_not_measured_is_refused_when_the_study_is_read(fields: dict[str, Any], said: str) -> None:
    with pytest.raises((PydanticCustomError, ValueError), match=said):
        check_claims([claim(**{"above": 0.5, **fields})], [], probes(*HERE), "target")


@pytest.mark.parametrize(
    "fields",
    [
        {"by": ADAPTED},
        {"by": {"name": "adapted", "noise": "gaussian:0.5"}},
        {"by": {"name": "adapted", "noise": "gaussian:0.5"}, "metric": "attacked@l2:0.25"},
        {"by": {"name": "attack", "smoothed": "gaussian:0.5"}, "metric": "attacked@l2:0.25"},
        {"by": {"name": "attack", "smoothed": None}, "metric": "attacked@l2:0.25"},
        {"metric": "reached@linf:[0.05, 0.1]"},
        {"metric": "reached-representation"},
        {"metric": "answers"},
        {"metric": "answers", "by": "randomized-smoothing"},
    ],
)
def test_what_is_measured_is_taken_and_written_down(fields: dict[str, Any]) -> None:
    one = claim(**{"above": 0.5, **fields})
    check_claims([one], [], probes(*HERE), "target")
    # a probe or a search that is named needs no clean accuracy beside it
    check_planned([one], [], Measurable(("target",), clean=False), "target")
    assert Claim.model_validate(one.model_dump(mode="json")) == one
