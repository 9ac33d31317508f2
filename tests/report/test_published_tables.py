"""The tables of documents 003 and 004: what is read of them, what stands beside, and how many rows a page shows."""

from __future__ import annotations

import csv
from collections import Counter
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
from pydantic_core import PydanticCustomError
from simulated import certified, clean

from shiftproof.certification.certifiers.median_smoothing import MedianSmoothing
from shiftproof.certification.certifiers.randomized_smoothing import RandomizedSmoothing
from shiftproof.evidence import Evidence
from shiftproof.perturbations.noise import as_noise
from shiftproof.probes import PROBES
from shiftproof.probes.certify import Certify
from shiftproof.report.claims import Claim, Published, PublishedRow, beside_published, check_claims, judge_claims
from shiftproof.report.claims.documents import read_document
from shiftproof.report.sections.published import CLAIMED, published_tables
from shiftproof.report.tables import csv_file, markdown_file

VERIFIED = "representation smoothing (4-layer classifier), adv-s, WN"
SEARCHED = "1-layer classifier, normal, WN, input search"


def figures(document: str, table: str, dataset: str, kind: str, level: float | None = None) -> dict[str, float]:
    return {
        one.method: one.value
        for one in read_document(document)
        if (one.table, one.dataset, one.kind, one.level) == (table, dataset, kind, level)
    }


class TestWhatIsRead:
    @pytest.mark.parametrize(
        ("document", "kinds"),
        [
            ("001", {"certified": 150, "acr": 17, "accuracy": 2}),
            ("003", {"certified": 88 + 154 + 512, "acr": 11 + 14 + 64, "accuracy": 64 + 28 + 32}),
            (
                "004",
                # A_V of 100 rows in Table 3 and of 100 in Table 4; A_M of 60 in each, and A_B of 40
                {"accuracy": 32 + 32 + 80, "certified": 200, "answers": 120, "reached": 32}
                | {"reached-representation": 32},
            ),
        ],
    )
    def test_every_figure_once(self, document: str, kinds: dict[str, int]) -> None:
        numbers = read_document(document)
        assert Counter(one.kind for one in numbers) == kinds
        assert len({(one.table, one.dataset, one.method, one.kind, one.level) for one in numbers}) == len(numbers)
        assert all(0 <= one.value <= 1 for one in numbers if one.kind != "acr")

    def test_names_of_document_001_are_as_printed(self) -> None:
        with (files("shiftproof.report.claims") / "papers" / "001.csv").open() as file:
            rows = list(csv.DictReader(file))
        printed = [(row["dataset"], row["method"]) for row in rows if row["metric"][:14] != "hyperparameter"]
        assert [(one.dataset, one.method) for one in read_document("001")] == printed

    def test_k3_1_adaptation_lifts_networks_under_noise(self) -> None:
        for dataset, known in (
            ("ImageNet", {"Adv_inf[4/255]": (0.4, 44.9), "Adv_2[3]": (0.9, 47.3), "Baseline": (0.3, 7.7)}),
            ("CIFAR-10", {"Adv_inf[8/255]": (16.1, 62.4), "Adv_2[1]": (21.5, 64.9), "Baseline": (10.6, 22.0)}),
        ):
            told = figures("003", "Table 2", dataset, "accuracy")
            for method, (before, after) in known.items():
                assert told[f"{method}, no adaptive BN, sigma 0.5"] == pytest.approx(before / 100)
                assert told[f"{method}, adaptive BN, sigma 0.5"] == pytest.approx(after / 100)

    def test_k3_4_mean_radii(self) -> None:
        told = figures("003", "Table 6", "CIFAR-10", "acr")
        assert told["Adv_2[3.00], BN adaptation at sigma=0.75"] == 0.771
        assert told["Adv_inf[16/255], BN adaptation at sigma=0.50"] == 0.598
        assert told["SmoothAdv[2.0], no BN adaptation"] == 0.732
        assert told["Rand sigma=0.5, BN adaptation at sigma=0.50"] == 0.575
        assert told["Rand sigma=0.5, no BN adaptation"] == 0.488
        large = figures("003", "Table 5", "ImageNet", "acr")
        assert large["Adv_2[3.00], BN adaptation at sigma=0.50"] == 0.711
        assert large["Rand sigma=0.5, no BN adaptation"] == 0.809

    def test_tables_3_and_4_of_document_003_end_where_table_2_is(self) -> None:
        (third, fourth) = (figures("003", name, "CIFAR-10", "accuracy") for name in ("Table 3", "Table 4"))
        assert len(third) == 2 * 7
        assert len(fourth) == 2 * 8
        assert third["Adv_inf, rho 0"] == fourth["Adv_inf, batch size none"] == 0.161
        assert {"Adv_inf, rho 0.3", "Adv_2, rho 1"} < third.keys()

    def test_k4_1_distant_targets_need_several_layers(self) -> None:
        told = figures("004", "Table 1", "FMNIST->KMNIST, target", "accuracy")
        assert told == {
            "1-layer classifier, no constraint": 0.541,
            "4-layer classifier, no constraint": 0.788,
            "1-layer classifier, WN": 0.36,
            "4-layer classifier, WN": 0.772,
        }

    def test_k4_3_and_k4_4_by_what_they_are_about(self) -> None:
        dataset = "SVHN->MNIST, source"
        searched = figures("004", "Table 2", dataset, "reached")
        assert searched["1-layer classifier, normal, no constraint, input search"] == 0.882
        assert searched[SEARCHED] == 0.42
        assert set(figures("004", "Table 2", dataset, "reached-representation").values()) == {1.0}
        at = {level: figures("004", "Table 3", "SVHN->MNIST, target", "certified", level) for level in (0.0, 0.1)}
        assert at[0.1][VERIFIED] == 0.974
        assert at[0.1]["logit smoothing (4-layer classifier), adv-s, WN"] == 0.957
        # label smoothing: not abstaining is the one reading that the mean radii allow
        assert {name.split(" (")[0] for name in at[0.0]} == {"label smoothing"}
        assert at[0.0]["label smoothing (4-layer classifier), adv-s, WN"] == 0.957


def table(methods: dict[str, Any], name: str = "Table 3", document: str = "004", **more: Any) -> Published:
    dataset = "SVHN->MNIST, source" if name == "Table 2" else "SVHN->MNIST, target"
    known = {"document": document, "table": name, "dataset": dataset, "domain": "target", "methods": methods}
    return Published.model_validate(known | more)


SOUND = {"name": "median-smoothing", "unsound": ""}
RULE = {"name": "median-smoothing", "unsound": "as-published"}


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    """A model of which the published rule claims 9 in 10 at radius 0.1, of which 3 in 10 are certified."""
    made = []
    for seed in range(3):
        for config, share in ((SOUND, 0.3), (RULE, 0.9)):
            radii = np.where(np.arange(100) < 100 * share, 0.1, -1.0)
            unsound = str(config["unsound"])
            known = {"classifier": "median", "title": f"median {unsound}", "unsound": unsound}
            made.append(certified("m", seed, radii, certifier=config, **known))
        made.append(clean("m", seed, np.arange(100) < 95))
    return Evidence(made)


def by_metric(rows: list[PublishedRow], method: str = VERIFIED) -> dict[str, PublishedRow]:
    return {row.metric: row for row in rows if row.method == method}


class TestAnUnsoundRule:
    def test_it_stands_beside_the_publication_as_a_claim(self, evidence: Evidence) -> None:
        rows = beside_published(evidence, [table({VERIFIED: {"model": "m", "by": RULE}})])
        claimed = by_metric(rows)["certified"]
        assert claimed.ours is not None
        assert (claimed.ours.value, claimed.published, claimed.claimed) == (0.9, 0.974, True)
        # what its classifier answers was counted
        assert not by_metric(rows)["answers"].claimed
        (shown,) = published_tables(rows)
        assert CLAIMED in str(shown.rows[0].cells[0])
        assert [str(cell) for cell in shown.rows[0].cells].count("90.0 % claimed (97.4 %)") == 1
        kept = [row for row in csv.DictReader(csv_file([shown]).splitlines()) if row["model"]]
        assert {row["metric"]: row["claimed without guarantee"] for row in kept} == {
            "certified": "True",
            "answers": "False",
        }

    def test_the_certificate_stands_there_otherwise(self, evidence: Evidence) -> None:
        for by in (SOUND, None, "median-smoothing"):
            rows = beside_published(evidence, [table({VERIFIED: {"model": "m", "by": by}})])
            sound = by_metric(rows)["certified"]
            assert sound.ours is not None
            assert (sound.ours.value, sound.claimed) == (0.3, False)
        assert CLAIMED not in markdown_file(published_tables(rows))

    def test_no_claim_is_judged_by_it(self, evidence: Evidence) -> None:
        said = {"id": "K", "says": "it holds", "metric": "certified@0.1", "model": "m", "above": 0.5, "effect": 0.0}
        by_rule, by_proof = (Claim.model_validate({**said, "id": str(by), "by": by}) for by in (RULE, SOUND))
        outcomes = judge_claims([by_rule, by_proof], evidence, domain="target")
        assert [one.verdict for one in outcomes] == ["not measured", "contradicted"]

    def test_it_is_taken_for_certified_figures_alone(self) -> None:
        probes = {"m": [Certify(MedianSmoothing(radius=0.1, unsound="as-published")), PROBES.make("clean")]}
        mapped = {"model": "m", "by": RULE}
        check_claims([], [table({VERIFIED: mapped})], probes, "target")
        with pytest.raises(PydanticCustomError, match="no such certificate is planned"):
            check_claims([], [table({VERIFIED: {"model": "m", "by": SOUND}})], probes, "target")


HERE = {
    "m": [
        PROBES.make("clean"),
        PROBES.make({"name": "search", "threat": "linf:0.5"}),
        Certify(RandomizedSmoothing(as_noise("gaussian:0.1"), n=500)),
    ]
}


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("name", "methods", "said"),
        [
            ("Table 2", {SEARCHED: "m"}, "does not say within which size .* such as metric: 'reached@linf:0.5'"),
            ("Table 2", {SEARCHED: {"model": "m", "metric": "reached@linf:0.2"}}, "no such probe is planned"),
            ("Table 3", {VERIFIED: {"model": "m", "metric": "accuracy"}}, "but .* has 2; leave it out"),
            (
                "Table 3",
                {"base (4-layer classifier), adv-s, WN": {"model": "m", "by": {"name": "noisy", "noise": "gaussian"}}},
                "no such probe is planned",
            ),
            ("Table 3", {VERIFIED: {"model": "m", "by": "noisy"}}, "is by a certifier, and noisy is a probe"),
            ("Table 3", {"base": "m"}, "unknown method of Table 3, SVHN->MNIST, target in document 004 'base'"),
        ],
    )
    def test_when_the_study_is_read(self, name: str, methods: dict[str, Any], said: str) -> None:
        with pytest.raises(PydanticCustomError, match=said):
            check_claims([], [table(methods, name)], HERE, "target")

    def test_several_sizes_beside_one_figure(self) -> None:
        with pytest.raises(ValueError, match="has 2 sizes"):
            table({SEARCHED: {"model": "m", "metric": "reached@linf:[0.1, 0.5]"}}, "Table 2")

    def test_a_metric_of_ours_is_taken_and_written_down(self) -> None:
        one = table({SEARCHED: {"model": "m", "metric": "reached@linf:0.5"}}, "Table 2")
        check_claims([], [one], HERE, "target")
        written = one.model_dump(mode="json")
        assert written["methods"] == {SEARCHED: {"model": "m", "metric": "reached@linf:0.5"}}
        assert Published.model_validate(written) == one
        (row,) = [row for row in beside_published(Evidence([clean("m", 0, [True])]), [one]) if row.model]
        assert (row.ours, row.measure, row.published) == (None, "reached@linf:0.5", 0.42)


def test_published_figures_of_one_model_under_noise_and_without_are_not_mixed() -> None:
    noisy = {"name": "noisy", "noise": "gaussian:0.5", "adapted": True}
    methods = {
        "Adv_2[1], adaptive BN, sigma 0.5": {"model": "m", "by": noisy},
        "Adv_2[1], no adaptive BN, sigma 0": {"model": "m"},
    }
    one = table(methods, "Table 2", "003", dataset="CIFAR-10")
    said = {"says": "it holds", "metric": "accuracy", "model": "m", "above": 0.5, "effect": 0.0, "domain": "target"}
    claims = [
        Claim.model_validate({**said, "id": name, **({"by": by} if by else {})})
        for name, by in (("noise", noisy), ("clean", None), ("other", {**noisy, "noise": "gaussian:0.25"}))
    ]
    outcomes = judge_claims(claims, Evidence([clean("m", s, np.ones(9)) for s in range(3)]), [one])
    plain = figures("003", "Table 2", "CIFAR-10", "accuracy")["Adv_2[1], no adaptive BN, sigma 0"]
    assert [one.parts[0].published_this for one in outcomes] == [0.649, plain, None]


class TestLongTables:
    def test_methods_that_the_study_lacks_are_one_line_and_stay_in_the_file(self, evidence: Evidence) -> None:
        rows = beside_published(evidence, [table({VERIFIED: {"model": "m", "by": SOUND}})])
        (shown,) = published_tables(rows)
        assert [str(row.cells[0]) for row in shown.rows] == [
            f"{VERIFIED} (m)",
            "69 more methods of the table were not run",
        ]
        assert [str(head) for head in shown.headings] == ["method", "answers right", "r = 0.1"]
        assert all(len(row.cells) == len(shown.headings) for row in shown.rows)
        assert len(list(csv.DictReader(csv_file([shown]).splitlines()))) == len(rows) == 20 + 50 + 30

    def test_a_dozen_are_shown_and_a_table_of_another_study_says_which(self) -> None:
        def rows(count: int, takes: str = "") -> list[PublishedRow]:
            known = "004", "Table 3", "SVHN->MNIST"
            return [PublishedRow(*known, str(i), "accuracy", None, 0.5, None, "", "", takes) for i in range(count)]

        assert [len(published_tables(rows(count))[0].rows) for count in (12, 13)] == [12, 1]
        (line,) = published_tables(rows(13, "in other"))[0].rows
        assert str(line.cells[0]) == "13 methods of the table were not run (in other)"
