"""Claims and published figures about one corruption, a group or a severity, and the best value under each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from simulated import IDS, clean

from shiftproof.errors import UnknownName, UsageError
from shiftproof.evidence import Evidence, Measurement
from shiftproof.perturbations.corruptions import STANDARD, TEXT
from shiftproof.probes import PROBES
from shiftproof.report.claims import Claim, Published, beside_published, judge_claims
from shiftproof.report.claims.corrupted import check_corrupted
from shiftproof.report.claims.documents import read_document
from shiftproof.report.claims.figures import Figures
from shiftproof.report.claims.sides import Side, parse_metric, parse_metrics
from shiftproof.report.sections.best_values import best_values
from shiftproof.report.sections.published import published_tables
from shiftproof.report.sections.sweeps import Sweep

N = 100


def corrupted(model: str, name: str, severity: int, right: int, seed: int | None = 0, **more: Any) -> Measurement:
    """What the probe `corrupt` would have measured: the first `right` of a hundred samples are right."""
    flags = np.arange(N) < right
    setting = f"{name} {severity}, cifar constants"
    facts = {"model": model, "domain": "target", "probe": "corrupt", "setting": setting, "classifier": "base"}
    facts |= {"corruption": name, "severity": severity, "constants": "cifar", "title": f"{name} {severity}", **more}
    values = {"id": IDS[:N], "label": np.zeros(N, int), "prediction": 1 - flags, "correct": flags}
    return Measurement.of(facts | ({} if seed is None else {"train_seed": seed}), values)


RIGHT = {("fog", 1): 90, ("fog", 5): 50, ("snow", 1): 80, ("snow", 5): 20, ("jpeg-compression", 1): 70}
RIGHT |= {("jpeg-compression", 5): 40}
EVIDENCE = Evidence(
    [
        *(clean(model, seed, np.ones(N)) for model in "ab" for seed in range(3)),
        *(
            corrupted(model, *setting, right + (10 if model == "a" and setting[0] != "fog" else 0), seed)
            for model in "ab"
            for seed in range(3)
            for setting, right in RIGHT.items()
        ),
    ]
)


class TestMetric:
    @pytest.mark.parametrize(
        ("text", "each"),
        [
            ("corrupted", ["corrupted"]),
            ("corrupted@fog", ["corrupted@fog"]),
            ("corrupted@fog:5", ["corrupted@fog:5"]),
            ("corrupted@3", ["corrupted@3"]),
            ("corrupted@[fog:5, blur+snow, 1]", ["corrupted@fog:5", "corrupted@blur+snow", "corrupted@1"]),
        ],
    )
    def test_is_read_and_written(self, text: str, each: list[str]) -> None:
        metrics = parse_metrics(text)
        assert [str(one) for one in metrics] == each
        written = Claim.model_validate(
            {"id": "C", "says": "s", "metric": text, "model": "a", "above": "b", "effect": 0}
        ).model_dump(mode="json")["metric"]
        assert parse_metrics(written) == metrics

    @pytest.mark.parametrize("text", ["corrupted@", "corrupted@fog:6", "corrupted@fog:0.5", "corrupted@[]"])
    def test_what_is_no_corruption_is_refused(self, text: str) -> None:
        with pytest.raises(UsageError, match="can't read the metric .*corrupted@blur:5"):
            parse_metrics(text)

    def test_a_misspelt_corruption_and_one_named_twice(self) -> None:
        with pytest.raises(UnknownName, match="Did you mean 'fog'"):
            parse_metrics("corrupted@fogg")
        with pytest.raises(UsageError, match="names something twice"):
            parse_metrics("corrupted@[fog, fog]")
        with pytest.raises(ValidationError, match="unknown corruption"):
            Claim.model_validate({"id": "C", "says": "s", "metric": "corrupted@fogg", "model": "a", "above": 0.5})


class TestFigures:
    @pytest.mark.parametrize(
        ("metric", "share"),
        [
            ("corrupted", (90 + 50 + 80 + 20 + 70 + 40) / 600),
            ("corrupted@fog", 0.7),
            ("corrupted@fog:5", 0.5),
            ("corrupted@5", (50 + 20 + 40) / 300),
            ("corrupted@fog+jpeg-compression:1", 0.8),
        ],
    )
    def test_means_are_of_what_is_named(self, metric: str, share: float) -> None:
        figure = Figures(EVIDENCE).find(parse_metric(metric), Side("b", "target"))
        assert figure.values.mean == pytest.approx(share)
        assert len(figure.seeds) == 3

    @pytest.mark.parametrize(
        ("metric", "why"),
        [
            # of the group blur nothing was measured, of weather two of four
            ("corrupted@blur", "what lacks is defocus-blur, glass-blur, motion-blur, zoom-blur"),
            ("corrupted@weather", "what lacks is brightness, frost"),
            ("corrupted@fog:3", "what lacks is fog"),
        ],
    )
    def test_what_is_missing_is_named(self, metric: str, why: str) -> None:
        with pytest.raises(UsageError, match=why):
            Figures(EVIDENCE).find(parse_metric(metric), Side("b", "target"))

    def test_severities_and_constants_are_not_mixed(self) -> None:
        more = Evidence([*EVIDENCE, *(corrupted("b", "snow", 3, 10, seed) for seed in range(3))])
        with pytest.raises(UsageError, match="different severities"):
            Figures(more).find(parse_metric("corrupted@fog+snow"), Side("b", "target"))
        other = [
            corrupted("b", "snow", 5, 10, seed, constants="imagenet", setting="snow 5, imagenet constants")
            for seed in range(3)
        ]
        with pytest.raises(UsageError, match="different constants"):
            Figures(Evidence([*EVIDENCE, *other])).find(parse_metric("corrupted@snow:5"), Side("b", "target"))

    def test_a_claim_about_some_corruptions_is_judged(self) -> None:
        form = {"id": "C", "says": "s", "model": "a", "above": "b", "domain": "target"}
        claims = [
            Claim.model_validate(form | {"id": name, "metric": name, "effect": effect})
            for name, effect in (("corrupted@[snow:5, jpeg-compression:5]", 0.02), ("corrupted@fog:5", 0.15))
        ]
        outcomes = judge_claims(claims, EVIDENCE)
        assert [one.verdict for one in outcomes] == ["supported", "contradicted"]
        assert [len(one.parts) for one in outcomes] == [2, 1]


@pytest.mark.parametrize(
    ("metric", "why"),
    [
        ("corrupted@snow", "no probe of a asks for snow"),
        ("corrupted@fog:3", "a is corrupted at the severities 1, 5"),
        ("corrupted@fog:5", ""),
        ("corrupted", ""),
    ],
)
def test_what_no_probe_asks_for_is_refused_before_a_study_runs(metric: str, why: str) -> None:
    probes = [PROBES.make({"name": "corrupt", "corruptions": ["fog", "blur"], "severities": [1, 5]})]
    if not why:
        check_corrupted(parse_metric(metric), Side("a", "target"), probes)
        return
    with pytest.raises(UsageError, match=why):
        check_corrupted(parse_metric(metric), Side("a", "target"), probes)


def test_what_is_asked_for_only_at_other_severities_is_refused() -> None:
    probes = [
        PROBES.make({"name": "corrupt", "corruptions": [name], "severities": [level]})
        for name, level in (("fog", 5), ("snow", 3))
    ]
    with pytest.raises(UsageError, match="snow is not asked for at severity 5"):
        check_corrupted(parse_metric("corrupted@snow:5"), Side("a", "target"), probes)
    with pytest.raises(UsageError, match="asked for at different severities"):
        check_corrupted(parse_metric("corrupted@fog+snow"), Side("a", "target"), probes)
    check_corrupted(parse_metric("corrupted@snow"), Side("a", "target"), probes)


def test_corruptions_of_text_are_refused_once_it_is_known_that_there_is_none() -> None:
    probes = [PROBES.make({"name": "corrupt", "severities": [3]})]
    metric = parse_metric(f"corrupted@{TEXT[0]}:3")
    check_corrupted(metric, Side("a", "target"), probes)
    with pytest.raises(UsageError, match=f"no probe of a asks for {TEXT[0]}"):
        check_corrupted(metric, Side("a", "target"), probes, known=True)


@pytest.mark.parametrize("text", ["attacked@linf:8/255", "certified@0.0313725490196", "reached@linf:1/3"])
def test_a_size_is_stored_to_its_last_digit(text: str) -> None:
    form = {"id": "C", "says": "s", "metric": text, "model": "a", "above": "b", "effect": 0}
    written = Claim.model_validate(form).model_dump(mode="json")
    assert parse_metrics(written["metric"]) == parse_metrics(text)


class TestDocument002:
    def test_every_corruption_has_our_name(self) -> None:
        table = [one for one in read_document("002") if (one.table, one.dataset) == ("Table 1", "CIFAR10-C")]
        kinds = {one.kind for one in table if one.method == "ResNet34, Std"}
        assert kinds == {"accuracy", "corrupted@5", *(f"corrupted@{name}:5" for name in STANDARD)}
        assert len(table) == 3 * 17

    def test_k2_1_averages(self) -> None:
        told = {
            (one.dataset, one.method.split(", ")[1]): one.value
            for one in read_document("002")
            if one.table == "Table 1" and one.kind in ("corrupted", "corrupted@5")
        }
        assert told["CIFAR10-C", "Std"] == 0.5775
        assert told["CIFAR10-C", "Adv-linf"] == 0.7378
        assert told["ImageNet-C", "Adv-l2"] == 0.3626

    def test_k2_6_averages_of_the_grid(self) -> None:
        told = {
            one.method: one.value for one in read_document("002") if one.table == "Table 3" and one.kind == "corrupted"
        }
        assert len(told) == 12
        assert told["pre-training: Adv-l2, fine-tuning: Adv-linf"] == 0.7506

    def test_our_figures_stand_beside_them(self) -> None:
        form = {"document": "002", "table": "Table 1", "dataset": "CIFAR10-C", "domain": "target"}
        table = Published.model_validate(form | {"methods": {"ResNet34, Std": {"model": "b"}}})
        table.check()
        rows = beside_published(EVIDENCE, [table])
        ours = {one.metric: one.ours.value for one in rows if one.ours is not None}
        # the mean at severity 5 is of three corruptions here, and of fifteen there
        assert ours == {
            "accuracy": 1.0,
            "corrupted@fog:5": pytest.approx(0.5),
            "corrupted@snow:5": pytest.approx(0.2),
            "corrupted@jpeg-compression:5": pytest.approx(0.4),
            "corrupted@5": pytest.approx(11 / 30),
        }
        heads = [head.text for head in published_tables(rows)[0].headings]
        assert heads[:2] + heads[-1:] == ["method", "accuracy", "corrupted, severity 5"]
        assert "fog, severity 5" in heads


class TestBestValues:
    SWEEP = Sweep("objective.threat.eps", ((0.1, "weak"), (0.2, "middle"), (0.4, "strong")))

    def evidence(self, **right: tuple[int, int, int]) -> Evidence:
        models = ("weak", "middle", "strong")
        return Evidence(
            [
                corrupted(model, name.replace("_", "-"), 5, count, seed)
                for model, index in zip(models, range(3), strict=True)
                for seed in range(3)
                for name, counts in right.items()
                for count in (counts[index],)
            ]
        )

    def test_each_corruption_has_a_best_value_of_its_own(self) -> None:
        found = best_values(self.SWEEP, self.evidence(snow=(20, 40, 80), fog=(90, 60, 20), frost=(30, 60, 30)))
        assert [(one.corruption, one.best, one.low, one.high) for one in found] == [
            ("fog", 0.1, 0.1, 0.1),
            ("frost", 0.2, 0.2, 0.2),
            ("snow", 0.4, 0.4, 0.4),
            ("mean of all", 0.2, 0.2, 0.2),
        ]
        assert found[0].accuracy == pytest.approx((0.9, 0.6, 0.2))
        assert found[0].group == "weather"

    def test_what_is_close_has_a_wide_interval(self) -> None:
        (one,) = best_values(self.SWEEP, self.evidence(fog=(50, 51, 20)))
        assert (one.best, one.low, one.high) == (0.2, 0.1, 0.2)
        assert sum(one.wins) == pytest.approx(1)
        assert best_values(self.SWEEP, self.evidence(fog=(50, 51, 20)))[0].wins == one.wins

    def test_a_tie_is_told_as_one(self) -> None:
        (one,) = best_values(self.SWEEP, self.evidence(fog=(50, 50, 20)))
        assert (one.best, one.tied) == (0.1, (0.1, 0.2))
        assert best_values(self.SWEEP, self.evidence(fog=(30, 30, 30)))[0].tied == (0.1, 0.2, 0.4)

    def test_two_models_or_other_samples_are_no_sweep(self) -> None:
        whole = self.evidence(fog=(50, 51, 20))
        assert best_values(self.SWEEP, Evidence([one for one in whole if one.model != "weak"])) == []
        fewer = [one.take(np.arange(50)) if one.model == "weak" else one for one in whole]
        assert best_values(self.SWEEP, Evidence(fewer)) == []
