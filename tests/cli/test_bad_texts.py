"""Text, and models of text, that make no sense: one sentence on stderr, exit 1, nothing left on disk."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tiny_transformers import tiny_folder

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


TEXTS = ["the food was good", "a bad staff", "very " * 40 + "good", "not good and awful", "we was great", "so very bad"]
ROWS = [(f"{text} {domain}", ["neg", "pos"][i % 2], domain) for domain in "ab" for i, text in enumerate(TEXTS)]
HEAD = ("text", "label", "domain")
LABELS = {"id2label": {0: "neg", 1: "pos"}, "label2id": {"neg": 0, "pos": 1}}
LITTLE = ["--n", 100, "--corruptions", "none", "--threat", "edits:1", "--workers", 1, "--target", "b", "--out", "made"]


def table(rows: list[tuple[str, ...]], head: tuple[str, ...] = HEAD) -> bytes:
    with Path("written.csv").open("w", newline="") as file:
        csv.writer(file).writerows([head, *rows])
    content = Path("written.csv").read_bytes()
    Path("written.csv").unlink()
    return content


def audit(run: Call, content: bytes, *more: object, vocabulary: int = 96) -> tuple[int, str, str]:
    """Of a tiny classifier of transformers that reads 24 tokens, on a table."""
    Path("data.csv").write_bytes(content)
    tiny_folder(Path("tiny"), vocab_size=vocabulary, **LABELS)
    return run("audit", "--model", "hf:tiny", "--data", "table:data.csv", *LITTLE, *more)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (lambda: table([("", "neg", "a"), *ROWS]), "line 2: the text is empty; fill it in, remove the row, or keep"),
        (lambda: table([*ROWS, ("so so", "neutral", "a")]), "tells apart 2 classes (neg, pos); the data has 3"),
        (
            lambda: table([row[::2] for row in ROWS], ("text", "domain")),
            "lacks the column 'label'; it has text, domain",
        ),
        (lambda: table(ROWS).decode().encode("utf-16"), "line 1: this is UTF-16; save the file as UTF-8"),
        (
            lambda: table(ROWS) + "caf\u00e9,neg,a\n".encode("latin-1"),
            "line 14: the byte 0xe9 is not UTF-8; save the file",
        ),
    ],
    ids=["empty", "label", "column", "utf-16", "mixed"],
)
def test_a_table_that_makes_no_sense_is_a_sentence(run: Call, content: Callable[[], bytes], sentence: str) -> None:
    code, out, err = audit(run, content())
    assert (code, out) == (1, "")
    last = err.strip().splitlines()[-1]
    assert last.startswith("error: ")
    assert sentence in last
    assert not Path("made").exists()


def test_a_tokeniser_of_another_model_is_a_sentence(run: Call) -> None:
    code, out, err = audit(run, table(ROWS), vocabulary=40)
    assert (code, out) == (1, "")
    assert "numbers tokens up to 70, but the model's embedding has 40 rows: they do not belong together" in err
    assert not Path("made").exists()


def test_without_the_extra_text_there_is_a_sentence(run: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_folder(Path("tiny"), **LABELS)
    Path("data.csv").write_bytes(table(ROWS))
    monkeypatch.setitem(sys.modules, "transformers", None)
    code, _, err = run("audit", "--model", "hf:tiny", "--data", "table:data.csv", *LITTLE)
    assert code == 1
    assert "needs the package transformers, which is not installed here: pip install 'shiftproof[text]'" in err


@pytest.mark.usefixtures("least_effort", "no_trials", "brief_examination")
def test_texts_that_are_cut_and_empty_ones_are_findings(run: Call) -> None:
    code, out, err = audit(run, table([("", "neg", "a"), *ROWS]), "--set", "data.empty=keep", "--json")
    assert code in (0, 2), err
    found = {one["code"]: one for one in json.loads(out)["findings"]}
    # of every domain one text has 40 words and more
    assert found["texts-cut"]["level"] == "warn"
    assert "does not read to the end of 1 of 7 texts of a, 1 of 6 texts of b" in found["texts-cut"]["message"]
    assert found["empty-texts"]["message"].startswith("1 text has no word: a: ")


def test_what_training_does_not_read_is_a_finding_and_short_texts_are_none(run: Call) -> None:
    network = ["--set", "model.width=8", "--set", "model.filters=8", "--set", "training.steps=2", "--json"]
    for length, cut in ((5, True), (256, False)):
        made = ["--out", f"made-{length}", "--set", f"model.length={length}"]
        code, out, err = run(*REVIEWS[:-2], *made, *network)
        assert code == 0, err
        assert ("texts-cut" in {one["code"] for one in json.loads(out)["findings"]}) is cut
