"""Accuracy by class, confusion and calibration, again by hand from the columns."""

import csv
import io

import numpy as np
import pytest

from shiftproof.evidence import Column, Evidence, Measurement
from shiftproof.report.calibration import calibration_error, calibrations_of
from shiftproof.report.confusion import answers_by_class
from shiftproof.report.sections.calibration import CalibrationTable
from shiftproof.report.sections.classes import Classes
from shiftproof.report.tables import csv_file
from tests.report.test_sections import report_of

N = 300
CLASSES = ("cat", "dog", "owl")
FACTS = {"probe": "clean", "setting": "clean", "title": "clean", "classifier": "base", "seed": 0, "precision": "f32"}


def clean(domain: str, seed: int, model: str = "m", sure: float = 0.9) -> Measurement:
    """Three classes, answers that are right four times in five, one that is no class at all."""
    generator = np.random.default_rng(seed)
    label = generator.integers(0, 3, N)
    answer = np.where(generator.random(N) < 0.8, label, generator.integers(0, 4, N))
    values = {
        "id": [f"{domain}/{i}" for i in range(N)],
        "label": label,
        "prediction": answer,
        "correct": answer == label,
        "confidence": np.clip(generator.normal(sure, 0.1, N), 0, 1),
    }
    facts = {**FACTS, "model": model, "domain": domain, "sampled": "all", "seen_in_training": "no"}
    return Measurement.of(facts, values, [Column("confidence", "float", "")])


EVIDENCE = Evidence([clean("a", 0), clean("b", 1), clean("c", 2)])


def report():  # type: ignore[no-untyped-def]
    labels = {name: dict.fromkeys(CLASSES, N // 3) for name in "abc"}
    return report_of(EVIDENCE, sources=("a", "b"), targets=("c",), classes=CLASSES, labels=labels)


def test_counts_are_those_of_the_columns() -> None:
    sources, target = answers_by_class(EVIDENCE, CLASSES, ["a", "b"], ["c"])
    rows = EVIDENCE.where(domain="c")[0]
    for label in range(3):
        for answer in range(4):
            counted = sum((rows["label"] == label) & (rows["prediction"] == answer))
            assert target.counts[label, answer] == counted
    assert target.counts[:, 3].sum() > 0
    assert sources.counts.sum() == 2 * N
    both = Evidence([EVIDENCE[0], EVIDENCE[1]])
    cats = both.column("label") == 0
    assert sources.accuracy[0] == pytest.approx(both.column("correct")[cats].mean())


def test_tables_say_the_same() -> None:
    section = Classes(report())
    assert section.applies()
    table, mistakes = section.tables()
    rows = list(csv.DictReader(io.StringIO(csv_file([table]))))
    one = next(row for row in rows if (row["domain"], row["class"], row["answer"]) == ("c", "dog", "owl"))
    measured = EVIDENCE.where(domain="c")[0]
    dogs = measured["label"] == 1
    assert int(one["count"]) == sum(dogs & (measured["prediction"] == 2))
    assert float(one["share"]) == pytest.approx((measured["prediction"][dogs] == 2).mean())
    assert [cell.text for cell in table.rows[1].cells][:1] == ["dog"]
    lost = table.rows[1].cells[-1].text
    here = Evidence([EVIDENCE[0], EVIDENCE[1]])
    expected = here.column("correct")[here.column("label") == 1].mean() - measured["correct"][dogs].mean()
    assert lost == f"{100 * expected:+.1f}"
    shares = [float(row.cells[3].text.rstrip("%")) for row in mistakes.rows]
    assert shares
    assert max(shares) < 50
    (chart,) = section.charts()
    assert [panel.title for panel in chart.panels] == ["sources", "c, unseen"]


def test_one_class_or_unknown_labels_have_no_such_section() -> None:
    assert not Classes(report_of(EVIDENCE, sources=("a", "b"), targets=("c",), classes=("cat",))).applies()


def test_the_error_is_that_of_its_definition() -> None:
    generator = np.random.default_rng(0)
    sure = generator.random(1000)
    right = (generator.random(1000) < sure**2).astype(float)
    expected = 0.0
    for k in range(15):
        low, high = k / 15, (k + 1) / 15
        inside = (sure >= low) & ((sure < high) | (k == 14))
        if inside.any():
            expected += inside.mean() * abs(sure[inside].mean() - right[inside].mean())
    assert calibration_error(sure, right) == pytest.approx(expected)


def test_too_sure_has_an_interval_that_covers() -> None:
    (found,) = calibrations_of(Evidence([clean("a", 0, sure=0.95)]))
    measured = found.rows.first
    assert found.too_sure.value == pytest.approx((measured["confidence"] - measured["correct"]).mean())
    assert found.too_sure.low < found.too_sure.value < found.too_sure.high
    bins = found.bins()
    assert sum(count for _, _, count in bins) == N
    assert sum(right * count for _, right, count in bins) == pytest.approx(measured["correct"].sum())


def test_the_page_has_a_row_and_a_line_for_each_model_and_domain() -> None:
    section = CalibrationTable(report())
    (table,) = section.tables()
    assert len(table.rows) == 3
    (chart,) = section.charts()
    assert [panel.title for panel in chart.panels] == ["c, unseen", "a, source", "b, source"]


def test_evidence_of_before_has_no_confidence() -> None:
    old = Evidence([Measurement(one.facts, one.table.drop_columns(["confidence"])) for one in EVIDENCE])
    assert not calibrations_of(old)
