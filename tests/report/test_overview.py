"""Every model in one line: which measures stand in it, and that its numbers are those of the evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from measured import N, attacked, certified, rows, smoothed_attack

from shiftproof.evidence import Column, Evidence, Measurement
from shiftproof.report import Report
from shiftproof.report.overview import OverviewFigure, overview_of
from shiftproof.report.tables import csv_file, markdown_file

RIGHT = {
    # domain: clean, attacked 0.5, vote, certified within 0.5
    "photo": (93, 71, 92, 58),
    "cartoon": (85, 61, 84, 40),
    "sketch": (71, 38, 70, 12),
}


def report_of(evidence: Evidence, sources: tuple[str, ...], targets: tuple[str, ...], **changes: Any) -> Report:
    names = [str(name) for name in evidence.distinct("model")]
    labels = {domain: {"a": N // 2, "b": N // 2} for domain in (*sources, *targets)}
    known: dict[str, Any] = {"models": dict.fromkeys(names, ""), "sources": sources, "targets": targets}
    known |= {"title": "t", "about": "", "classes": ("a", "b"), "evidence": evidence, "sheets": {}, "facts": {}}
    return Report(**{**known, "labels": labels, "notes": (), "seed": 0, **changes})


def of_model(model: str, less: int = 0, sizes: tuple[float, ...] = (0.5,)) -> list[Evidence]:
    """Clean, attacked (the model and the vote), corrupted twice and certified, on all domains."""
    parts = []
    for domain, (clean, survive, vote, held) in RIGHT.items():
        parts += [rows(domain, "clean", clean - less, model=model)]
        for eps in sizes:
            title = f"attack, l2 {eps:g}"
            parts.append(attacked(domain, survive - less, eps, model=model, title=title, setting=title))
        for name, right in (("fog", clean - 10), ("snow", clean - 20)):
            facts = {"corruption": name, "severity": 3, "constants": "cifar", "title": name}
            parts.append(rows(domain, "corrupt", right - less, model=model, **facts))
        radius = [0.6] * (held - less) + [0.2] * (vote - held) + [0.0] * (N - vote + less)
        parts.append(certified(domain, vote - less, radius, model=model))
    return parts


def named(evidence: list[Evidence], model: str) -> list[Evidence]:
    return [Evidence([Measurement({**one.facts, "model": model}, one.table) for one in part]) for part in evidence]


def figures(report: Report, model: str = "m") -> dict[str, OverviewFigure]:
    (row,) = [row for row in overview_of(report).rows if row.model == model]
    return dict(row.figures)


def test_figures_are_those_that_are_counted_by_hand() -> None:
    evidence = Evidence.concat(of_model("m"))
    found = figures(report_of(evidence, ("photo", "cartoon"), ("sketch",)))
    assert list(found) == ["clean", "attacked", "corrupted", "certified"]
    for kind, right in (("clean", 0), ("attacked", 1), ("certified", 3)):
        there, here = RIGHT["sketch"][right] / N, (RIGHT["photo"][right] + RIGHT["cartoon"][right]) / 2 / N
        one = found[kind]
        assert (one.domain, one.there.n) == ("sketch", N)
        assert one.there.value == pytest.approx(there)
        assert one.sources == pytest.approx(here)
        assert one.lost is not None
        assert one.lost.value == pytest.approx(here - there)
        assert one.there.low < there < one.there.high
        assert one.lost.low < here - there < one.lost.high
    # the mean of fog and snow, sample by sample
    table = evidence.where(probe="corrupt", domain="sketch")
    assert found["corrupted"].there.value == pytest.approx(np.mean([one["correct"].mean() for one in table]))
    assert found["corrupted"].sources == pytest.approx((93 + 85 - 30) / 2 / N)


def test_the_table_says_where_what_and_how_much_is_lost() -> None:
    table = overview_of(report_of(Evidence.concat(of_model("m")), ("photo", "cartoon"), ("sketch",))).to_table()
    assert [str(heading) for heading in table.headings] == [
        "on sketch unseen n = 100",
        *("clean", "lost, clean", "attacked l2 0.5", "lost, attacked"),
        *("corrupted 2 kinds severity 3", "lost, corrupted", "certified l2 0.5 gaussian 0.25", "lost, certified"),
    ]
    (row,) = table.rows
    texts = [cell.text for cell in row.cells]
    assert texts == ["m", "71.0%", "+18.0", "38.0%", "+28.0", "56.0%", "+18.0", "12.0%", "+37.0"]
    assert csv_file([table]).count("\n") == 1 + 4
    assert "| m | 71.0% (61.1% to 79.6%) | +18.0 (" in markdown_file([table])


class TestTheThreat:
    def test_the_smallest_in_the_norm_of_a_certificate_and_the_certificate_at_its_size(self) -> None:
        evidence = [*of_model("m", sizes=(0.25, 0.5))]
        evidence += [
            attacked(domain, 20, 0.01, norm="linf", title="attack, linf 0.01", setting="linf") for domain in RIGHT
        ]
        found = figures(report_of(Evidence.concat(evidence), ("photo", "cartoon"), ("sketch",)))
        assert [(one.measure.norm, one.measure.size) for one in found.values() if one.measure and one.measure.size] == [
            ("l2", 0.25),
            ("l2", 0.25),
        ]
        # 12 are certified within 0.6, and within 0.25 no others
        assert found["certified"].there.value == pytest.approx(0.12)

    def test_the_smallest_where_no_norm_is_certified(self) -> None:
        parts = [
            attacked(domain, right, eps, title=f"attack, l2 {eps:g}", setting=f"{eps:g}")
            for domain, (right, *_) in RIGHT.items()
            for eps in (0.5, 0.25)
        ]
        found = figures(report_of(Evidence.concat(parts), ("photo", "cartoon"), ("sketch",)))
        assert list(found) == ["attacked"]
        assert found["attacked"].words == ("l2 0.25",)

    def test_the_one_that_most_models_were_attacked_by(self) -> None:
        small = [attacked(domain, 90, 0.1, setting="small") for domain in RIGHT]
        parts = [*of_model("m"), *small, *named(of_model("m", 3), "other")]
        report = report_of(Evidence.concat(parts), ("photo", "cartoon"), ("sketch",))
        found = [row.figures["attacked"].words for row in overview_of(report).rows]
        assert found == [("l2 0.5",), ("l2 0.5",)]

    def test_the_strongest_attack_on_the_sources_whatever_the_target_says(self) -> None:
        parts = of_model("m")
        # weaker on the sources than the attack that is there (71, 61), far stronger on the target (38)
        weak = {"photo": 80, "cartoon": 80, "sketch": 1}
        parts += [attacked(domain, right, setting="weak") for domain, right in weak.items()]
        found = figures(report_of(Evidence.concat(parts), ("photo", "cartoon"), ("sketch",)))
        assert found["attacked"].there.value == pytest.approx(0.38)

    def test_of_the_vote_where_the_model_itself_was_not_attacked(self) -> None:
        parts = [smoothed_attack(domain, survive) for domain, (_, survive, *_) in RIGHT.items()]
        found = figures(report_of(Evidence.concat(parts), ("photo", "cartoon"), ("sketch",)))
        assert found["attacked"].words == ("l2 0.5", "vote under gaussian 0.25")


class TestTheCertificate:
    def test_the_best_on_the_sources_whatever_the_target_says(self) -> None:
        parts = of_model("m")
        # certifies all of the target, and fewer of the sources than the other does (58, 40)
        for domain, held in (("photo", 30), ("cartoon", 30), ("sketch", 99)):
            radius = [0.6] * held + [0.0] * (N - held)
            parts.append(certified(domain, held, radius, noise="gaussian 0.5", title="gaussian 0.5", scale=0.5))
        found = figures(report_of(Evidence.concat(parts), ("photo", "cartoon"), ("sketch",)))
        assert found["certified"].there.value == pytest.approx(0.12)
        assert found["certified"].words == ("l2 0.5", "gaussian 0.25")

    def test_the_surest_of_those_that_differ_in_alpha(self) -> None:
        parts = [*of_model("m"), *(certified(domain, 99, 0.6, alpha=0.05, setting="loose") for domain in RIGHT)]
        found = figures(report_of(Evidence.concat(parts), ("photo", "cartoon"), ("sketch",)))
        assert found["certified"].measure is not None
        assert found["certified"].measure.alpha == 0.001
        assert found["certified"].there.value == pytest.approx(0.12)

    def test_one_radius_for_models_with_different_noise(self) -> None:
        """Without an attack: the least of the radii of interest, at which all are asked."""
        parts = []
        for model, sigma in (("m", 0.25), ("n", 0.5)):
            name = f"gaussian {sigma:g}"
            for domain in ("photo", "sketch"):
                radius = [0.4] * 60 + [0.3] * 20 + [0.1] * 20
                parts.append(certified(domain, N, radius, model=model, noise=name, title=name, scale=sigma))
        overview = overview_of(report_of(Evidence.concat(parts), ("photo",), ("sketch",)))
        assert [row.figures["certified"].there.value for row in overview.rows] == [0.8, 0.8]
        heading, *cells = overview.to_table().headings[1], *(row.cells[1] for row in overview.to_table().rows)
        assert heading.below == ("l2 0.25",)
        assert [cell.below[-1] for cell in cells] == ["gaussian 0.25", "gaussian 0.5"]

    def test_rules_that_prove_nothing_are_not_shown(self) -> None:
        parts = [certified(domain, N, 0.6, unsound="as-published", setting="bad") for domain in RIGHT]
        parts += [rows(domain, "clean", 80) for domain in RIGHT]
        assert list(figures(report_of(Evidence.concat(parts), ("photo",), ("sketch",)))) == ["clean"]


class TestSeveralTargets:
    def test_every_figure_is_the_worst_and_says_where(self) -> None:
        evidence = Evidence.concat(of_model("m"))
        by_hand = {
            kind: min(("cartoon", "sketch"), key=lambda name, place=place: RIGHT[name][place])
            for kind, place in (("clean", 0), ("attacked", 1), ("certified", 3))
        }
        table = overview_of(report_of(evidence, ("photo",), ("cartoon", "sketch"))).to_table()
        assert set(by_hand.values()) == {"sketch"}
        assert str(table.headings[0]) == "on sketch worst of 2 targets n = 100"

    def test_different_ones_are_named_beside_each_figure(self) -> None:
        parts = [rows(domain, "clean", right) for domain, right in (("photo", 90), ("sketch", 70), ("cartoon", 60))]
        parts += [attacked(domain, right) for domain, right in (("photo", 80), ("sketch", 30), ("cartoon", 50))]
        overview = overview_of(report_of(Evidence.concat(parts), ("photo",), ("sketch", "cartoon")))
        (row,), table = overview.rows, overview.to_table()
        assert str(table.headings[0]) == "worst of 2 targets n = 100"
        texts = [cell.text for cell in table.rows[0].cells]
        assert texts == ["m", "60.0% on cartoon", "+30.0", "30.0% on sketch", "+50.0"]
        assert {name: e.value for name, e in row.figures["clean"].estimates.items()} == {"sketch": 0.7, "cartoon": 0.6}


def test_without_a_target_the_worst_source_and_no_gap() -> None:
    parts = [rows(domain, "clean", right) for domain, right in (("photo", 90), ("sketch", 70))]
    table = overview_of(report_of(Evidence.concat(parts), ("photo", "sketch"), ())).to_table()
    assert [str(heading) for heading in table.headings] == ["on sketch worst of 2 domains n = 100", "clean"]
    assert [cell.text for cell in table.rows[0].cells] == ["m", "70.0%"]


def test_samples_that_may_have_been_trained_on_are_marked() -> None:
    evidence = Evidence(
        [
            Measurement({**one.facts, "seen_in_training": "unknown" if one.domain == "photo" else "no"}, one.table)
            for one in Evidence.concat(of_model("m"))
        ]
    )
    (row,) = overview_of(report_of(evidence, ("photo",), ("sketch",))).to_table().rows
    noted = ["seen in training: unknown" in str(cell) for cell in row.cells]
    # what is lost rests on the photos
    assert noted == [False, *[False, True] * 4]


def test_a_model_that_was_not_measured_by_all_has_a_dash() -> None:
    parts = [*of_model("m"), *(rows(domain, "clean", 50, model="n") for domain in RIGHT)]
    table = overview_of(report_of(Evidence.concat(parts), ("photo", "cartoon"), ("sketch",))).to_table()
    assert [cell.text for cell in table.rows[1].cells] == ["n", "50.0%", "+0.0", *["-"] * 6]


def test_several_seeds_are_averaged() -> None:
    parts = []
    for seed, less in ((0, 0), (1, 10), (2, 20)):
        parts += [rows(domain, "clean", right[0] - less, train_seed=seed) for domain, right in RIGHT.items()]
    found = figures(report_of(Evidence.concat(parts), ("photo", "cartoon"), ("sketch",)))
    assert found["clean"].there.value == pytest.approx(0.61)
    assert found["clean"].sources == pytest.approx((0.83 + 0.75) / 2)


def test_numbers_have_a_correlation_and_an_error() -> None:
    columns = tuple(Column(name, "float", "") for name in ("truth", "predicted"))
    truth, parts = np.arange(N) / 10, []
    for domain, noise in (("photo", 0.5), ("sketch", 3.0)):
        predicted = truth + noise * np.resize([1.0, -1.0, 0.5, 0.2], N)
        facts = {"model": "m", "domain": domain, "probe": "score", "setting": "score", "classifier": "base"}
        table = {"id": [f"{domain}/{i}" for i in range(N)], "truth": truth, "predicted": predicted}
        parts.append((predicted, Measurement.of({**facts, "title": "score"}, table, columns)))
    overview = overview_of(report_of(Evidence([one for _, one in parts]), ("photo",), ("sketch",)))
    (row,) = overview.rows
    there, here = (np.corrcoef(truth, predicted)[0, 1] for predicted, _ in reversed(parts))
    assert row.figures["pearson"].there.value == pytest.approx(there)
    assert row.figures["pearson"].sources == pytest.approx(here)
    assert row.figures["mean_absolute_error"].there.value == pytest.approx(np.abs(parts[1][0] - truth).mean())
    headings = [str(heading) for heading in overview.to_table().headings]
    assert headings == [
        "on sketch unseen n = 100",
        "correlation Pearson",
        "lost, correlation",
        "mean error",
        "lost, mean error",
    ]
    assert overview.to_table().rows[0].cells[1].text == f"{there:.3f}"


def test_probes_with_a_table_of_their_own_have_no_line() -> None:
    evidence = Evidence.concat([rows(domain, "confidence", 50) for domain in RIGHT])
    assert overview_of(report_of(evidence, ("photo", "cartoon"), ("sketch",))).rows == ()


def test_imported_figures_say_so_and_need_not_be_of_all_domains() -> None:
    parts = [certified(domain, 60, 0.6, imported="log.tsv", bound="imported") for domain in ("photo", "sketch")]
    parts += [certified("photo", 60, 0.6, model="n", imported="log.tsv", bound="imported")]
    overview = overview_of(report_of(Evidence.concat(parts), ("photo",), ("sketch",)))
    assert [row.cells[1].text for row in overview.to_table().rows] == ["60.0%", "-"]
    assert overview.rows[0].figures["certified"].words == ("l2 0.25", "gaussian 0.25, imported")


def test_the_report_has_it_once() -> None:
    report = report_of(Evidence.concat(of_model("m")), ("photo", "cartoon"), ("sketch",))
    assert report.overview is report.overview
    assert replace(report, targets=(), sources=("photo", "cartoon", "sketch")).overview.domains == ("sketch",)
