"""How often classifiers of one model agree, counted by hand on ten samples; and which settings are a sweep."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_sections import report_of

from shiftproof.evidence import Column, Evidence, Measurement
from shiftproof.report.agreement import agreements_of
from shiftproof.report.under_noise import Asked, split_sweeps

SKIPPED = (Column("radius", "float", ""), Column("skipped", "bool", ""), Column("bound", "text", ""))
LABELS = [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]
CLEAN = [0, 0, 0, 1, 1, 1, 1, 1, 0, 0]


def rows(probe: str, answers: list[int], samples: list[int] | None = None, **facts: Any) -> Measurement:
    """Answers to some of ten samples; a certificate is skipped where told."""
    samples = list(range(10)) if samples is None else samples
    skipped = facts.pop("skipped", [False] * len(samples))
    labels = [LABELS[one] for one in samples]
    columns: dict[str, Any] = {
        "id": [f"s{one}" for one in samples],
        "label": labels,
        "prediction": answers,
        "correct": [one == label for one, label in zip(answers, labels, strict=True)],
    }
    declared = SKIPPED if probe == "certify" else ()
    if probe == "certify":
        columns |= {"radius": [0.1] * len(samples), "skipped": skipped, "bound": ["clopper-pearson"] * len(samples)}
    known = {"model": "m", "domain": "sketch", "probe": probe, "setting": facts.get("title", probe), "title": probe}
    return Measurement.of({"classifier": "base", **known, **facts}, columns, declared)


def vote(answers: list[int], samples: list[int] | None = None, **facts: Any) -> Measurement:
    known = {
        "classifier": "smoothed",
        "title": "gaussian 0.25",
        "alpha": 0.001,
        "norm": "l2",
        "units": "pixels",
        "scale": 0.25,
    }
    return rows("certify", answers, samples, **{**known, **facts})


def test_agreement_by_hand() -> None:
    # the last seven samples in another order: two abstentions, of the other five 8 and 9 are answered otherwise
    places = [9, 8, 7, 6, 5, 4, 3]
    answers = [1, 1, 1, -1, 1, -1, 1]
    (found,) = agreements_of(Evidence([rows("clean", CLEAN), vote(answers, places)]))
    assert found.title == "smoothed classifier, gaussian 0.25"
    assert [round(7 * share.value) for share in (found.same, found.abstained, found.different)] == [3, 2, 2]
    assert found.same.n == 7
    # of the samples 3 to 9, the model itself is right on 5, 6 and 7, the vote on 5, 7, 8 and 9
    assert (found.own_accuracy.value, found.other_accuracy.value) == pytest.approx((3 / 7, 4 / 7))


def test_a_certificate_that_was_skipped_is_no_answer() -> None:
    skipped = [True, True, True, False, False, False, False, False, False, False]
    (found,) = agreements_of(Evidence([rows("clean", CLEAN), vote([-1] * 3 + [1] * 7, skipped=skipped)]))
    assert (found.same.n, round(7 * found.same.value), found.abstained.value) == (7, 5, 0.0)


def test_only_sound_certificates_of_other_classifiers_each_once() -> None:
    clean, other = rows("clean", CLEAN), vote([0] * 10)
    assert agreements_of(Evidence([clean])) == agreements_of(Evidence([other])) == []
    assert agreements_of(Evidence([clean, vote([0] * 10, classifier="base")])) == []
    assert agreements_of(Evidence([clean, vote([0] * 10, unsound="as-published")])) == []
    certifier = {"name": "randomized-smoothing", "alpha": 0.001}
    twice = [vote([0] * 10, setting="a", certifier=certifier)]
    twice.append(vote([-1] * 10, setting="b", alpha=0.01, certifier={**certifier, "alpha": 0.01}))
    (once,) = agreements_of(Evidence([clean, *twice]))
    assert once.abstained.value == 0.0
    copy = rows("adapted", [1] * 10, classifier="adapted", title="clean, adapted", asked={"probe": {"name": "clean"}})
    fog = rows("adapted", [1] * 10, classifier="adapted", title="fog", asked={"probe": {"name": "corrupt"}})
    titles = [one.title for one in agreements_of(Evidence([clean, copy, fog, other]))]
    assert titles == ["adapted copy, clean, adapted", "smoothed classifier, gaussian 0.25"]


def test_the_page_says_that_one_says_nothing_of_the_other(tmp_path: Path) -> None:
    section = report_of(Evidence([rows("clean", CLEAN), vote([0] * 10)])).sections["agreement"]
    assert any("A guarantee about one says nothing of the other" in text for text in section.words())
    (table,) = section.tables()
    same, abstained, different = (table.rows[0].cells[place].text for place in (1, 2, 3))
    assert (same, abstained, different) == ("50.0%", "0.0%", "50.0%")


def test_what_is_swept_over_leaves_the_main_table() -> None:
    def at(sigma: float, momentum: float | None = None, images: int | None = None) -> Asked:
        return Asked(f"gaussian {sigma:g}", "gaussian", sigma, momentum is not None, momentum, images)

    usual = [at(sigma, 1.0, 512) for sigma in (0.25, 0.5, 0.75)]
    momenta = [at(0.5, momentum, 512) for momentum in (0.9, 0.1)]
    counts = [at(0.5, 1.0, 8)]
    plain = [at(0.5), at(0.25)]
    main, by_momentum, by_images = split_sweeps([*counts, *momenta, *plain, *usual])
    assert main == [plain[1], usual[0], plain[0], usual[1], usual[2]]
    assert by_momentum == [[momenta[1], momenta[0], usual[1]]]
    assert by_images == [[counts[0], usual[1]]]
    # two settings that differ in both are no sweep, and both are shown
    both = [at(0.5, 0.5, 8), usual[1]]
    assert split_sweeps(both) == (both, [], [])


def test_accuracy_over_draws_by_hand() -> None:
    generator = np.random.default_rng(0)
    labels = np.array(LABELS)
    draws = [np.where(generator.random(10) < 0.6, labels, 1 - labels) for _ in range(3)]
    columns: dict[str, Any] = {"id": [f"s{one}" for one in range(10)], "label": labels, "prediction": draws[0]}
    columns |= {"correct": draws[0] == labels, "prediction_2": draws[1], "prediction_3": draws[2]}
    asked = {"name": "noisy", "noise": {"name": "gaussian", "sigma": 0.5}, "adapted": False, "draws": 3}
    facts = {"model": "m", "domain": "sketch", "probe": "noisy", "setting": "noisy", "classifier": "base"}
    further = [Column(f"prediction_{k}", "int", "") for k in (2, 3)]
    measured = Measurement.of({**facts, "title": "n", "noise": "gaussian 0.5", "asked": asked}, columns, further)
    (table,) = report_of(Evidence([measured])).sections["under-noise"].tables()
    (record,) = (dict(zip(table.records.columns, row, strict=True)) for row in table.records.rows)
    right = np.array([one == labels for one in draws])
    assert record["value"] == pytest.approx(right.mean())
    assert record["two_sd"] == pytest.approx(2 * right.mean(1).std(ddof=1))
    assert (record["n"], record["draws"], record["sigma"]) == (10, 3, 0.5)
    assert record["low"] < record["value"] < record["high"]
