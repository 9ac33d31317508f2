"""Text, and models of text, that make no sense: one sentence on stderr, exit 1, nothing left on disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import shiftproof as sp
from shiftproof.errors import UsageError
from shiftproof.objectives import OBJECTIVES
from shiftproof.objectives.inner import InnerAttack

Call = Callable[..., tuple[int, str, str]]
REVIEWS = ["train", "--data", "signed-reviews", "--target", "e=0.9", "--model", "text-cnn", "--out", "made"]
DIGITS = ["train", "--data", "colored-digits", "--target", "e=0.9", "--model", "mlp", "--out", "made"]
MOVING = sorted(entry.name for entry in OBJECTIVES if issubclass(entry.cls, InnerAttack))


@pytest.mark.parametrize("objective", MOVING)
@pytest.mark.parametrize(
    ("verb", "more", "sentence"),
    [
        (REVIEWS, [], "is a change of pixels, but 'signed-reviews' holds text"),
        (
            DIGITS,
            ["--set", "objective.threat=embedding-l2:1.0"],
            "is a change of text, but 'colored-digits' holds images",
        ),
    ],
)
def test_a_threat_of_another_kind_of_data_is_refused_before_anything_is_written(
    run: Call, objective: str, verb: list[str], more: list[str], sentence: str
) -> None:
    code, _, err = run(*verb, "--objective", objective, *more)
    assert code == 1
    assert sentence in err
    right = "embedding-l2:1.0" if verb is REVIEWS else "linf:8/255"
    assert f"give the objective {objective} a threat such as {right} (--set objective.threat={right})" in err
    assert not Path("made").exists()


def test_a_first_phase_is_refused_as_early(run: Call) -> None:
    study = Path("study.yaml")
    study.write_text(
        "data: signed-reviews\ntarget: e=0.9\nmodels:\n"
        "  m: {model: text-cnn, objective: erm, pretrain: {data: signed-reviews, objective: adversarial-training}}\n"
    )
    code, _, err = run("run", study, "--out", "made")
    assert code == 1
    assert "is a change of pixels" in err
    assert not Path("made").exists()


def test_in_python_it_is_the_same_sentence() -> None:
    reviews = sp.load_domains("signed-reviews")
    model = sp.build_model("text-cnn", reviews, width=8, filters=8, vocabulary=256)
    with pytest.raises(UsageError, match="linf 8/255 is a change of pixels, but 'signed-reviews' holds text"):
        sp.train(model, reviews, sp.objectives.TRADES(), progress="off")
