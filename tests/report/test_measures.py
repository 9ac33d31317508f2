"""Tables, verdicts and requirements, as pure functions of evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from measured import N, attacked, certified, rows, smoothed_attack

from shiftproof.errors import UsageError
from shiftproof.evidence import Evidence, Measurement
from shiftproof.evidence.checks import constant_findings
from shiftproof.evidence.order import order_findings, order_summary
from shiftproof.evidence.titles import certificate_titles
from shiftproof.perturbations.threat import eps_text
from shiftproof.report.accuracy import accuracy_table
from shiftproof.report.certified import series_of_evidence
from shiftproof.report.measures import measures_of
from shiftproof.report.requirements import Certifiable, Measurable, Requirement
from shiftproof.report.sections.corrupted import corrupted_map, corrupted_of
from shiftproof.report.sections.findings import certificate_findings
from shiftproof.report.sections.matrix import matrices_of
from shiftproof.report.sections.measures import side_by_side
from shiftproof.report.sections.verdict import verdict_of
from shiftproof.report.tables import csv_file


@pytest.fixture
def evidence() -> Evidence:
    """Photos that are easier than sketches, and a guarantee that shrinks more than the accuracy."""
    parts = []
    for domain, clean, survive, vote, guaranteed in (("photo", 93, 71, 93, 58), ("sketch", 71, 38, 71, 12)):
        parts += [rows(domain, "clean", clean), attacked(domain, survive)]
        radius = [0.6] * guaranteed + [0.2] * (vote - guaranteed) + [0.0] * (N - vote)
        parts += [smoothed_attack(domain, vote, 0.0), smoothed_attack(domain, survive), certified(domain, vote, radius)]
    return Evidence.concat(parts)


def test_rows_stand_in_their_order_with_gaps(evidence: Evidence) -> None:
    table = side_by_side(evidence, ["photo"], ["sketch"])
    assert [(row.measure.kind, row.measure.size, row.measure.classifier) for row in table.rows] == [
        ("clean", 0, "base"),
        ("clean", 0, "smoothed"),
        ("attacked", 0.5, "base"),
        ("attacked", 0.5, "smoothed"),
        ("certified", 0, "smoothed"),
        ("certified", 0.5, "smoothed"),
    ]
    last = table.rows[-1]
    assert (last.accuracy["photo"].value, last.accuracy["sketch"].value) == (0.58, 0.12)
    assert last.gaps["sketch"].value == pytest.approx(0.46)
    assert csv_file([table.to_table({})]).count("\n") == 1 + 6 * 3


class TestSeveralAlphas:
    """What differs in alpha alone says so, wherever it is named."""

    @pytest.fixture
    def evidence(self, evidence: Evidence) -> Evidence:
        loose = [
            certified(domain, right, 0.6, alpha=0.05, setting="loose")
            for domain, right in (("photo", 93), ("sketch", 71))
        ]
        return Evidence.concat([evidence, *loose])

    def test_rows(self, evidence: Evidence) -> None:
        table = side_by_side(evidence, ["photo"], ["sketch"])
        titles = [row.measure.title for row in table.rows if row.measure.kind == "certified"]
        assert titles == [
            f"certified {within}, gaussian 0.25, alpha {alpha}"
            for alpha in ("0.001", "0.05")
            for within in ("at all", "within l2 0.5")
        ]
        assert [row["alpha"] for row in table.figures()] == [0, 0, 0, 0, 0.001, 0.001, 0.05, 0.05]
        header, *lines = (line.split(",") for line in csv_file([table.to_table({})]).splitlines())
        assert {line[header.index("alpha") - len(header)] for line in lines} == {"0.0", "0.001", "0.05"}

    def test_findings_and_requirements(self, evidence: Evidence) -> None:
        findings = certificate_findings(series_of_evidence(evidence), ["photo"], ["sketch"])
        assert [one.message.split(":")[0] for one in findings] == [
            f"m, gaussian 0.25, alpha {alpha}" for alpha in ("0.001", "0.05")
        ]
        outcome = Requirement.parse("certified@0.5>=0.1").judge(evidence, ["sketch"])
        assert outcome.classifier == "certified: gaussian 0.25, alpha 0.001, the smoothed classifier"
        held = [one.message for one in order_findings(evidence) if "gaussian 0.25, alpha" in one.message]
        assert any("alpha 0.001" in one for one in held)
        assert any("alpha 0.05" in one for one in held)

    def test_the_verdict_states_the_surest(self, evidence: Evidence) -> None:
        (text,) = verdict_of(evidence, ["photo"], ["sketch"])
        assert "12% are guaranteed within l2 0.5 (alpha 0.001)" in text

    def test_one_alpha_and_exact_ones_need_no_more_words(self, evidence: Evidence) -> None:
        exact = certified("photo", 90, 0.6, alpha=0.0, setting="exact", title="margin")
        both = Evidence.concat([evidence.where(alpha=0.001), exact])
        assert set(certificate_titles(both).values()) == {"gaussian 0.25", "margin"}


def test_verdict_in_plain_words(evidence: Evidence) -> None:
    (text,) = verdict_of(evidence, ["photo"], ["sketch"])
    there = "On 100 samples of sketch the smoothed model is right on 71%, 38% survive an attack of l2 0.5"
    here = "on 100 samples of the training domains it is right on 93%, 71% survive, 58% are guaranteed."
    assert f"{there}, 12% are guaranteed within l2 0.5; {here}" in text
    assert "The guarantee shrinks more than the accuracy." in text


def test_verdict_names_the_sizes_of_several_attacks(evidence: Evidence) -> None:
    turned = [
        attacked(domain, right, 0.2, norm="angle", units="radians", title="attack, rotation 0.2")
        for domain, right in (("photo", 60), ("sketch", 30))
    ]
    (text,) = verdict_of(Evidence.concat([evidence, *turned]), ["photo"], ["sketch"])
    here = "right on 93%, 71% survive l2 0.5, 60% survive a rotation of 0.2 radians (11 degrees)."
    assert here in text


def test_a_size_that_means_little_by_itself_is_put_into_proportion() -> None:
    norm = {"norm": "embedding-l2", "units": "units of the model's own embedding", "title": "attack, embedding-l2 1"}
    clean = [rows(domain, "clean", 80) for domain in ("books", "airline")]
    for sizes, shown in (((20.0, 12.5), "5 to 8 % of"), ((25.0, 25.0), "4 % of"), ((0.5, 0.5), "200 % of"), ((), "")):
        told = [{"reference": "the median norm", "reference_size": size} for size in sizes] or [{}, {}]
        moved = [
            attacked(domain, 40, 1.0, **norm, **facts) for domain, facts in zip(("books", "airline"), told, strict=True)
        ]
        evidence = Evidence.concat([*clean, *moved])
        table = side_by_side(evidence, ["books"], ["airline"])
        relative = f"{shown} the median norm" if shown else ""
        assert [row.measure.relative for row in table.rows] == ["", relative]
        assert table.figures()[1]["relative_size"] == relative
        name = table.to_table({}).rows[1].cells[0]
        assert [line for line in name.below if line][1:] == ([relative] if relative else [])
        (text,) = verdict_of(evidence, ["books"], ["airline"])
        assert f"survive an attack of embedding-l2 1{f' ({relative})' if relative else ''}; on 100" in text


def test_verdict_counts_samples_of_all_sources(evidence: Evidence) -> None:
    more = Evidence.concat([evidence, rows("paint", "clean", 83), attacked("paint", 61)])
    (text,) = verdict_of(more, ["photo", "paint"], ["sketch"])
    assert "; on 200 samples of the training domains it is right on 88%, 66% survive." in text
    (text,) = verdict_of(more, ["photo", "paint"], [])
    assert text.startswith("On 200 samples of photo, paint the model is right on 88%, 66% survive an attack of l2 0.5.")


def test_verdict_does_not_claim_what_samples_do_not_tell() -> None:
    parts = []
    for domain, right in (("photo", 90), ("sketch", 70)):
        radius = [0.6] * (right - 20) + [0.1] * (N - right + 20)
        parts += [rows(domain, "clean", right), certified(domain, right, radius)]
        parts += [smoothed_attack(domain, right - 18)]
    (text,) = verdict_of(Evidence.concat(parts), ["photo"], ["sketch"])
    assert "These samples can't tell whether" in text


class TestSeveralTargets:
    @pytest.fixture
    def evidence(self, evidence: Evidence) -> Evidence:
        """Besides, cartoons: harder than sketches as they are, easier under attack."""
        radius = [0.6] * 5 + [0.2] * 60 + [0.0] * 35
        vote = [smoothed_attack("cartoon", 65, 0.0), smoothed_attack("cartoon", 50), certified("cartoon", 65, radius)]
        return Evidence.concat([evidence, rows("cartoon", "clean", 62), attacked("cartoon", 50), *vote])

    def test_the_verdict_names_the_worst_and_what_is_worse_elsewhere(self, evidence: Evidence) -> None:
        (text,) = verdict_of(evidence, ["photo"], ["sketch", "cartoon"])
        there = "On 100 samples of cartoon, the worst of 2 targets,"
        itself = f"{there} the model is right on 62%, 50% survive an attack of l2 0.5; "
        assert text.startswith(f"{itself}on 100 samples of the training domains it is right on 93%, 71% survive.")
        assert "On sketch 38% survive an attack of l2 0.5, which is the least of all targets." in text
        vote = f"{there} the smoothed model is right on 65%, 50% survive an attack of l2 0.5"
        assert f"{vote}, 5% are guaranteed within l2 0.5" in text
        assert "guaranteed within l2 0.5, which is the least" not in text

    def test_corruptions_of_the_worst_target(self) -> None:
        parts = []
        for domain, clean, fog, snow in (("photo", 95, 90, 80), ("sketch", 80, 40, 30), ("cartoon", 70, 60, 50)):
            parts.append(rows(domain, "clean", clean))
            for name, right in (("fog", fog), ("snow", snow)):
                facts = {"corruption": name, "severity": 1, "constants": "cifar", "title": name}
                parts.append(rows(domain, "corrupt", right, **facts))
        (text,) = verdict_of(Evidence.concat(parts), ["photo"], ["sketch", "cartoon"])
        assert "On 100 samples of cartoon, the worst of 2 targets, the model is right on 70%; " in text
        assert text.endswith(
            "Corrupted, the model is right on 35% of sketch, the worst of 2 targets, least by 'snow' (30%)."
        )

    def test_gaps_and_findings_by_target(self, evidence: Evidence) -> None:
        table = side_by_side(evidence, ["photo"], ["sketch", "cartoon"])
        lost = {target: round(gap.value, 6) for target, gap in table.rows[0].gaps.items()}
        assert lost == {"sketch": 0.22, "cartoon": 0.31}
        assert table.figures()[0]["gap"] == {target: pytest.approx(value) for target, value in lost.items()}
        first, second = certificate_findings(series_of_evidence(evidence), ["photo"], ["sketch", "cartoon"])
        assert "12% of those of sketch" in first.message
        assert "5% of those of cartoon" in second.message

    @pytest.mark.parametrize(
        ("seen", "noted"),
        [
            # sketch, its gap, cartoon, its gap, photo
            ("sketch", [True, True, False, False, False]),
            ("cartoon", [False, False, True, True, False]),
            ("photo", [False, True, False, True, True]),
        ],
    )
    def test_a_note_is_about_the_domains_that_a_figure_rests_on(
        self, evidence: Evidence, seen: str, noted: list[bool]
    ) -> None:
        known = Evidence(
            [
                Measurement({**one.facts, "seen_in_training": "yes" if one.domain == seen else "no"}, one.table)
                for one in evidence
            ]
        )
        table = side_by_side(known, ["photo"], ["sketch", "cartoon"])
        gaps = {target: "yes" if seen in ("photo", target) else "no" for target in ("sketch", "cartoon")}
        assert table.figures()[0]["gap_seen_in_training"] == gaps
        for shown in (table.to_table({}), accuracy_table(known, ["photo"], ["sketch", "cartoon"]).to_table("t", {})):
            _, *cells = shown.rows[0].cells
            assert ["seen in training" in str(cell) for cell in cells] == noted

    def test_nothing_certified_on_sources_and_one_target(self) -> None:
        parts = [
            certified(domain, 50, 0.6 if domain == "cartoon" else 0.1) for domain in ("photo", "sketch", "cartoon")
        ]
        found = certificate_findings(series_of_evidence(Evidence.concat(parts)), ["photo"], ["sketch", "cartoon"])
        none, holds = found
        assert (none.code, holds.code) == ("guarantee-none", "guarantee-holds")
        assert "not one sample of sketch and of the domains it was trained on is right and certified" in none.message

    def test_a_matrix_for_each_target(self) -> None:
        parts = [
            attacked(domain, right, eps) for domain, right in (("a", 80), ("b", 60), ("c", 40)) for eps in (0.1, 0.5)
        ]
        (matrix,) = matrices_of(Evidence.concat(parts), ["a"], ["b", "c"])
        assert {role: values["m", 0.5] for role, values in matrix.values.items()} == {
            "sources": 0.8,
            "unseen: b": 0.6,
            "unseen: c": 0.4,
        }
        assert [matrix.chart("matrix", role).name for role in matrix.values] == [
            "matrix-sources",
            "matrix-unseen-b",
            "matrix-unseen-c",
        ]

    def test_every_target_must_meet_a_requirement(self, evidence: Evidence) -> None:
        for text, met, domain in (("clean>=0.65", False, "cartoon"), ("attacked@0.5>=0.3", True, "sketch")):
            outcome = Requirement.parse(text).judge(evidence, ["sketch", "cartoon"])
            assert (outcome.met, outcome.domain) == (met, domain)


def test_nothing_but_accuracy_has_no_verdict() -> None:
    assert verdict_of(Evidence.concat([rows("photo", "clean", 90)]), ["photo"], []) == []


def test_one_answer_for_all_is_pointed_out() -> None:
    constant = certified("sketch", 50, 0.9, prediction=0, label=[0] * 50 + [1] * 50)
    (finding,) = constant_findings(Evidence.concat([constant, rows("sketch", "clean", 60)]))
    assert (finding.level, finding.code) == ("warn", "constant-answer")
    assert "one answer to every sample" in finding.message


class TestSandwich:
    def test_a_certificate_above_an_attack_is_broken(self) -> None:
        parts = [certified("sketch", 80, 0.9), smoothed_attack("sketch", 60), rows("sketch", "clean", 80)]
        (finding,) = order_summary(Evidence.concat(parts))
        assert (finding.level, finding.code) == ("fail", "sandwich-broken")
        assert "20 samples are certified beyond 0.5 and get another class" in finding.message

    def test_rows_of_other_classifiers_have_no_order(self) -> None:
        parts = [certified("sketch", 80, 0.9), attacked("sketch", 10), rows("sketch", "clean", 80)]
        assert all(finding.level == "pass" for finding in order_findings(Evidence.concat(parts)))

    def test_fewer_bits_are_another_classifier(self) -> None:
        parts = [certified("sketch", 80, 0.9, precision="bf16"), smoothed_attack("sketch", 60)]
        assert "sandwich-broken" not in [finding.code for finding in order_findings(Evidence.concat(parts))]

    def test_other_units_are_another_ball(self) -> None:
        moved = attacked("sketch", 0, units="half image sizes", classifier="smoothed", noise="gaussian 0.25", n=100_000)
        parts = [certified("sketch", 80, 0.9), moved]
        assert "sandwich-broken" not in [finding.code for finding in order_findings(Evidence.concat(parts))]

    def test_right_after_an_attack_and_wrong_before(self) -> None:
        parts = [rows("sketch", "clean", 60), attacked("sketch", 61)]
        (finding,) = order_summary(Evidence.concat(parts))
        assert (finding.level, finding.evidence["samples"]) == ("fail", 1)

    @pytest.mark.parametrize(
        ("q", "radius", "broken"),
        [
            (
                0.8,
                2.0001,
                True,
            ),  # after one edit the lead is above 2 (0.8 - 0.64) = 0.32; of 1,000 votes five deviations are 0.16
            (0.95, 2.0001, False),  # above 2 (0.95 - 0.9025) = 0.095: so few votes may miss it
            (0.95, 3.0001, True),
            (0.8, 1.0001, False),  # the edge: nothing is known of how thin the majority is
        ],
    )
    def test_edits_have_an_edge_of_their_own(self, q: float, radius: float, broken: bool) -> None:
        same = {"norm": "edits", "units": "words", "noise": f"word-deletion {q}"}
        held = certified("sketch", 80, radius, scale=1.0, noise_options={"name": "word-deletion", "q": q}, **same)
        after = attacked("sketch", 60, 1.0, classifier="smoothed", votes=1_000, **same)
        codes = [finding.code for finding in order_findings(Evidence.concat([held, after]))]
        assert ("sandwich-broken" in codes) == broken

    def test_what_holds_is_one_line(self, evidence: Evidence) -> None:
        (finding,) = order_summary(evidence)
        assert (finding.level, finding.code) == ("pass", "sandwich-holds")

    @pytest.mark.parametrize(
        ("eps", "order", "counts"),
        [
            ((0.0, 0.5), "certified <= attacked <= clean: ", "100 were checked on clean samples, 100 under an attack"),
            ((0.0,), "certified <= clean: ", "100 were checked on clean samples, none under an attack"),
            ((0.5,), "certified <= attacked: ", "none were checked on clean samples, 100 under an attack"),
        ],
    )
    def test_only_what_was_tested_is_said_to_hold(self, eps: tuple[float, ...], order: str, counts: str) -> None:
        parts = [certified("sketch", 80, 0.9), *(smoothed_attack("sketch", 80, size) for size in eps)]
        (finding,) = order_summary(Evidence.concat(parts))
        assert finding.message.startswith(order)
        assert counts in finding.message


class TestCorrupted:
    def rows(self, domain: str, **right: int) -> list[Evidence]:
        found = [rows(domain, "clean", 80)]
        for name, count in right.items():
            name = name.replace("_", "-")
            for severity in (1, 5):
                title = f"{name} {severity}"
                facts = {"corruption": name, "severity": severity, "title": title, "constants": "cifar"}
                found.append(rows(domain, "corrupt", count - severity, setting=f"{title}, cifar constants", **facts))
        return found

    def test_means_groups_and_what_is_left(self) -> None:
        parts = Evidence.concat(self.rows("sketch", fog=43, snow=23, gaussian_noise=63))
        (found,) = corrupted_of(parts)
        assert found.clean == 0.8
        assert found.mean == pytest.approx(0.4)
        assert found.relative == pytest.approx(0.5)
        assert found.groups == {"noise": pytest.approx(0.6), "weather": pytest.approx(0.3)}
        assert found.worst == ("snow", pytest.approx(0.2))
        assert found.constants == "cifar"
        (boxes,) = corrupted_map([found], "sketch").panels[0].marks
        assert boxes.shades == pytest.approx([0.4, 0.2, 0.6])

    def test_measure_is_the_mean_by_sample(self) -> None:
        parts = Evidence.concat(self.rows("sketch", fog=43, snow=23))
        measure = next(one for one in measures_of(parts, "m") if one.kind == "corrupted")
        assert measure.at("sketch").value == pytest.approx(0.3)
        assert measure.at("sketch").n == N
        assert set(np.unique(measure.samples["sketch"].averaged.values)) <= {0.0, 0.25, 0.5, 0.75, 1.0}


class TestMatrix:
    def test_models_by_size(self) -> None:
        parts = []
        for domain in ("a", "b", "c"):
            parts += [rows(domain, "clean", 90), attacked(domain, 60, 0.25), attacked(domain, 30, 0.5)]
        (matrix,) = matrices_of(Evidence.concat(parts), ["a", "b"], ["c"])
        assert matrix.sizes == (0.0, 0.25, 0.5)
        assert matrix.values["unseen"]["m", 0.5] == pytest.approx(0.3)
        assert matrix.values["sources"]["m", 0.0] == pytest.approx(0.9)
        assert matrix.chart("matrix", "unseen").panels[0].marks[0].shades == pytest.approx([0.9, 0.6, 0.3])
        assert csv_file(matrix.tables("matrix")).count("\n") == 1 + 2 * 3

    def test_one_size_is_no_matrix(self) -> None:
        assert matrices_of(Evidence.concat([rows("a", "clean", 90), attacked("a", 60)]), ["a"], []) == []

    def test_sizes_as_people_write_them(self) -> None:
        assert [eps_text(size) for size in (0.0, 8 / 255, 1 / 255, 0.5, 1.0)] == ["0", "8/255", "1/255", "0.5", "1"]


class TestRequirement:
    @pytest.mark.parametrize(
        ("text", "met", "value"),
        [
            ("certified@0.5>=0.1", True, 0.12),
            ("certified@0.5 >= 20%", False, 0.12),
            ("certified@0.1>=0.7", True, 0.71),
            ("certified@0.5:photo>=0.5", True, 0.58),
            ("clean>=0.71", True, 0.71),
            ("clean<=0.70", False, 0.71),
            ("clean>=0.71 with 95%", False, 0.71),
            ("clean>=0.6 with 95%", True, 0.71),
            ("clean<=0.75 with 95%", False, 0.71),
            ("attacked@0.5>=0.3", True, 0.38),
            ("attacked@l2:0.5<=0.3", False, 0.38),
        ],
    )
    def test_judged_on_the_target(self, evidence: Evidence, text: str, met: bool, value: float) -> None:
        outcome = Requirement.parse(text).judge(evidence, ["sketch"])
        assert (outcome.met, outcome.measured.value) == (met, pytest.approx(value))

    def test_it_names_the_classifier_and_the_limit_that_it_judges(self, evidence: Evidence) -> None:
        votes = smoothed_attack("sketch", 50, 0.0)
        other = Evidence.concat([evidence.where(probe="clean"), votes])
        itself, vote = (Requirement.parse(text).judge(other, ["sketch"]) for text in ("clean>=0.7", "clean-vote>=0.7"))
        assert (itself.met, itself.classifier, itself.judged) == (True, "the model itself", "value")
        assert (vote.met, vote.classifier) == (False, "the smoothed classifier, gaussian 0.25")
        sure = Requirement.parse("clean>=0.7 with 95%").judge(other, ["sketch"])
        assert (sure.met, sure.judged) == (False, "lower limit")
        seen = replace(sure, seen_in_training="unknown")
        assert str(seen).endswith("the model itself; its lower limit is judged; seen in training: unknown")

    def test_a_figure_is_that_of_the_table(self, evidence: Evidence) -> None:
        rows_of = {
            (row.measure.kind, row.measure.classifier): row
            for row in side_by_side(evidence, ["photo"], ["sketch"]).rows
        }
        for text, key in (("clean>=0", ("clean", "base")), ("certified@0.5>=0", ("certified", "smoothed"))):
            assert Requirement.parse(text).judge(evidence, ["sketch"]).measured == rows_of[key].accuracy["sketch"]

    def test_a_radius_that_no_certificate_decides(self) -> None:
        planned = Measurable(("sketch",), certificates=(Certifiable("l2", "gaussian 0.25", 2.0, (0.0, 0.5)),))
        Requirement.parse("certified@0.5>=0.1").check(planned)
        with pytest.raises(UsageError, match="decided are 0, 0.5"):
            Requirement.parse("certified@0.4>=0.1").check(planned)

    def test_of_several_domains_the_worst_counts(self, evidence: Evidence) -> None:
        outcome = Requirement.parse("clean>=0.8").judge(evidence, ["photo", "sketch"])
        assert (outcome.met, outcome.domain) == (False, "sketch")

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "clean",
            "clean>=",
            "clean=0.5",
            "clean>=1.5",
            "clean@0.5>=0.1",
            "certified>=0.5",
            "rubbish>=0.1",
            "clean>=1.2.3",
            "clean>=2",
            "clean>0.5",
            "clean>=nan",
            "certified@-1>=0.5",
            "certified@1.2.3>=0.5",
            "clean>=0.5 with 90%",
            "clean>=0.5 with",
            "shift>=0.5",
            "claims>=1",
            "clean-votes>=0.5",
            "clean>=150%",
        ],
    )
    def test_what_can_not_be_read(self, text: str) -> None:
        with pytest.raises(UsageError, match="requirement"):
            Requirement.parse(text)

    def test_what_was_not_measured(self, evidence: Evidence) -> None:
        with pytest.raises(UsageError, match="nothing of the kind"):
            Requirement.parse("corrupted>=0.1").judge(evidence, ["sketch"])

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("attacked@0.5>=0.1", "planned: linf:0.1"),
            ("corrupted>=0.1", "none are planned"),
            ("certified@linf:0.1>=0.1", "planned: angle"),
            ("certified@0.1>=0.1", "should name the norm"),
            ("clean:moon>=0.1", "measured are sketch"),
            ("clean-vote>=0.1", "none is planned"),
            ("certified@angle:2>=0.1", "no radius above 1"),
        ],
    )
    def test_what_will_not_be_measured(self, text: str, said: str) -> None:
        with pytest.raises(UsageError) as caught:
            Requirement.parse(text).check(
                Measurable(("sketch",), (("linf", 0.1),), certificates=(Certifiable("angle", "rotation", 1.0),))
            )
        assert said in str(caught.value)


@pytest.mark.parametrize(
    ("facts", "promise"),
    [
        (
            {},
            "A certified sample keeps its class under every change of the input whose l2 norm (pixel values in [0, 1]) "
            "is below the radius. This holds for the smoothed classifier (the vote under gaussian 0.25); for each "
            "sample, a certificate is wrong with probability at most 0.001.",
        ),
        (
            {"norm": "edits", "units": "words", "noise": "word-deletion 0.8"},
            "A text certified for k edits keeps its class whichever k words are inserted, deleted or replaced. This "
            "holds for the smoothed classifier (the vote under word-deletion 0.8); for each sample, a certificate is "
            "wrong with probability at most 0.001.",
        ),
        (
            {"classifier": "base", "alpha": 0.0, "noise": None},
            "A certified sample keeps its class under every change of the input whose l2 norm (pixel values in [0, 1]) "
            "is below the radius. This holds for the model itself; nothing is random.",
        ),
    ],
)
def test_a_guarantee_in_short(facts: dict[str, Any], promise: str) -> None:
    (one,) = series_of_evidence(certified("photo", 80, 0.9, **facts))
    assert one.promise == promise


@pytest.mark.parametrize(
    ("q", "radii"), [(0.8, (0, 1, 2, 3)), (0.9, (0, 1, 2, 4, 6)), (0.95, (0, 1, 2, 4, 8)), (0.5, (0,))]
)
def test_radii_of_edits_are_whole_numbers_up_to_the_cap(q: float, radii: tuple[float, ...]) -> None:
    from shiftproof.report.certified import nice_radii, series_of_evidence

    noise = {"name": "word-deletion", "q": q}
    facts = {"norm": "edits", "units": "words", "scale": 1.0, "noise": f"word-deletion {q}", "noise_options": noise}
    (series,) = series_of_evidence(certified("sketch", 50, [1.0001] * 20 + [0.0001] * (N - 20), **facts))
    assert nice_radii([series]) == radii
    assert series.at(1.0).value == 20 / N
    assert series.mean_radius() == 20 / N
    assert series.mean_radius("correct") == 20 / 50
    assert series.radius_words(1.0) == "1 edit"
    assert f"{series.cap:g} edit" in series.heading
    (pixels,) = series_of_evidence(certified("sketch", 50, 0.6))
    assert "at most" not in pixels.heading
    assert pixels.radius_words(0.25) == "radius 0.25"
