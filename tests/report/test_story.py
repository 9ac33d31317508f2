"""What holds, what is guaranteed and what is suspicious, in a few lines."""

from __future__ import annotations

import pytest
from measured import N, attacked, certified, rows
from test_overview import report_of

from shiftproof.evidence import Evidence, Measurement
from shiftproof.report.story import ALIKE, MOST
from shiftproof.types import Finding


def evidence_of(model: str, clean: tuple[int, int], held: tuple[int, int]) -> list[Evidence]:
    """Clean and attacked so many on photo and sketch, certified so many within 0.5."""
    parts = []
    for domain, right, sure in zip(("photo", "sketch"), clean, held, strict=True):
        parts += [rows(domain, "clean", right, model=model), attacked(domain, right, model=model)]
        radius = [0.6] * sure + [0.0] * (N - sure)
        parts.append(certified(domain, sure, radius, model=model))
    return parts


def test_what_holds_names_the_models_and_what_they_keep() -> None:
    parts = [*evidence_of("steady", (90, 95), (50, 60)), *evidence_of("fragile", (90, 35), (50, 2))]
    story = report_of(Evidence.concat(parts), ("photo",), ("sketch",)).story
    assert story.holds == ["steady: no loss is measurable on sketch, clean and attacked"]
    assert [(one.level, one.code) for one in story.suspicious] == [("fail", "collapse"), ("warn", "guarantee-shrinks")]
    assert story.suspicious[0].message.startswith("fragile loses 55.0 points (+")
    assert story.suspicious[0].message.endswith("on sketch and is worse than guessing (50%)")
    # holds, guarantee-holds, and the order of what was measured
    assert story.passed == sum(
        one.level == "pass" for one in report_of(Evidence.concat(parts), ("photo",), ("sketch",)).findings
    )


def test_too_few_samples_to_tell_do_not_hold() -> None:
    story = report_of(Evidence.concat(evidence_of("m", (70, 68), (30, 29))), ("photo",), ("sketch",)).story
    assert story.holds == []
    assert [one.code for one in story.suspicious] == ["undecided", "guarantee-undecided"]
    assert "too few samples to tell what it loses on sketch, 2.0 points (" in story.suspicious[0].message


def test_guarantees_of_one_model_and_of_several() -> None:
    one = evidence_of("m", (90, 90), (50, 40))
    (sentence,) = report_of(Evidence.concat(one), ("photo",), ("sketch",)).story.guaranteed[:1]
    assert sentence == (
        "40.0% (30.3 to 50.3) of sketch are right and guaranteed to stay so within l2 0.5, alpha 0.001 for each"
    )
    both = [*one, *evidence_of("n", (90, 90), (50, 70))]
    (sentence,) = report_of(Evidence.concat(both), ("photo",), ("sketch",)).story.guaranteed[:1]
    assert sentence.startswith("on sketch 40.0% (m) to 70.0% (n) are right and guaranteed to stay so within l2 0.5")


def test_imported_certificates_are_not_called_guaranteed() -> None:
    parts = [
        certified(domain, 50, 0.6, imported="log.tsv", bound="imported", scale=0.5) for domain in ("photo", "sketch")
    ]
    (sentence,) = report_of(Evidence.concat(parts), ("photo",), ("sketch",)).story.guaranteed
    assert "certified by an imported log" in sentence
    assert "guaranteed" not in sentence


def test_samples_that_may_have_been_trained_on_are_marked() -> None:
    seen = [
        Measurement({**one.facts, "seen_in_training": "unknown"}, one.table)
        for part in (*evidence_of("m", (90, 95), (60, 20)),)
        for one in part
    ]
    story = report_of(Evidence(seen), ("photo",), ("sketch",)).story
    for sentence in (*story.holds, story.guaranteed[0], *(one.message for one in story.suspicious[:1])):
        assert "(seen in training: unknown)" in sentence


@pytest.mark.parametrize("count", [ALIKE, ALIKE + 1, 12])
def test_many_findings_of_one_kind_are_one_line(count: int) -> None:
    notes = [Finding("warn", "duplicates", f"pair {number}") for number in range(count)]
    story = report_of(Evidence.concat(evidence_of("m", (90, 95), (50, 60))), ("photo",), ("sketch",), notes=notes).story
    told = [one.message for one in story.suspicious if one.code == "duplicates"]
    assert told == (
        [f"pair {number}" for number in range(count)]
        if count <= ALIKE
        else [f"pair 0; and {count - 1} more findings like this"]
    )


def test_what_is_left_out_is_counted_failures_first() -> None:
    notes = [Finding("warn", f"code-{number}", "a warning") for number in range(MOST)]
    notes.append(Finding("fail", "broken", "a failure"))
    report = report_of(Evidence.concat(evidence_of("m", (90, 95), (50, 60))), ("photo",), ("sketch",), notes=notes)
    assert report.story.suspicious[0].code == "broken"
    assert (len(report.story.suspicious), report.story.untold) == (MOST, 1)
    assert any("can't be trusted" in one for one in report.doubts)
