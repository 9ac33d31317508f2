"""A model with one answer to nearly all samples of a domain is named, unless that is what labels are like."""

import numpy as np
import pytest

from shiftproof.evidence import Evidence, Measurement
from shiftproof.evidence.checks import constant_findings


def answered(guitars: int, labelled: int, count: int = 30) -> Evidence:
    """So many answers 1 among `count`, of which so many samples have that label."""
    label = np.where(np.arange(count) < labelled, 1, np.arange(count) % 2 * 2)
    prediction = np.where(np.arange(count) < guitars, 1, 0)
    facts = {"model": "m", "domain": "sketch", "probe": "clean", "setting": "clean", "classifier": "base"}
    columns = {"id": [str(i) for i in range(count)], "label": label, "prediction": prediction}
    return Evidence([Measurement.of(facts, {**columns, "correct": label == prediction})])


@pytest.mark.parametrize(
    ("guitars", "labelled", "count", "found"),
    [
        (28, 12, 30, True),
        (26, 12, 30, False),
        # nearly all samples are guitars
        (28, 26, 30, False),
        # of a handful nothing is said
        (9, 3, 10, False),
    ],
)
def test_one_answer_to_nearly_all(guitars: int, labelled: int, count: int, found: bool) -> None:
    findings = list(constant_findings(answered(guitars, labelled, count)))
    assert [one.code for one in findings] == ["constant-answer"] * found
    if found:
        assert "one and the same answer to 28 of 30 samples of sketch" in findings[0].message
