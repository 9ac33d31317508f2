"""`validate` of texts: near duplicates are all found, and by the stated rule only; lengths, empty texts, labels."""

import json
import time
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from shiftproof.domains import Domains, load_domains, validate
from shiftproof.domains import shingles as module
from shiftproof.domains.shingles import near_duplicates
from shiftproof.domains.text_rows import TextRows, text_domains
from shiftproof.types import Finding


def similarity(first: str, second: str) -> float:
    """The rule, by hand."""

    def shingles(text: str) -> set[tuple[str, ...]]:
        words = text.lower().replace(",", " ").replace(".", " ").split()
        return {tuple(words[i : i + 3]) for i in range(max(len(words) - 2, 1))} if words else set()

    one, other = shingles(first), shingles(second)
    return len(one & other) / len(one | other) if one | other else 0.0


def corpus(seed: int) -> list[str]:
    """Texts of few words, some of which are edits of others."""
    generator = np.random.default_rng(seed)
    vocabulary = np.array([f"w{i}" for i in range(int(generator.integers(3, 40)))])
    texts = [list(generator.choice(vocabulary, int(generator.integers(0, 30)))) for _ in range(40)]
    for words in list(texts):
        edited = [word for word in words if generator.random() < 0.95]
        edited[: int(generator.integers(0, 2))] = ["New,"]
        texts.append(edited)
    return [" ".join(words) for words in texts]


@pytest.mark.parametrize("seed", range(12))
def test_near_duplicates_are_those_of_the_rule(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_STEP", 50)  # many blocks
    texts = corpus(seed)
    places = np.random.default_rng(seed).integers(0, 3, len(texts))
    found = near_duplicates(texts, places)
    expected = {
        (i, j)
        for i, j in combinations(range(len(texts)), 2)
        if places[i] != places[j] and similarity(texts[i], texts[j]) >= module.THRESHOLD - 1e-9
    }
    assert found.complete
    assert expected
    assert {tuple(pair) for pair in found.pairs.tolist()} == expected
    assert len(found.pairs) == len(expected)


def test_texts_without_words_are_no_duplicates() -> None:
    assert len(near_duplicates(["", "...", ""], np.arange(3)).pairs) == 0
    assert len(near_duplicates([], np.empty(0, np.int64)).pairs) == 0


def test_a_crowd_of_copies_takes_no_time_and_is_told() -> None:
    texts = [f"order {i} arrived late and nobody at the shop answered my call" for i in range(4_000)]
    start = time.process_time()
    found = near_duplicates(texts, np.arange(len(texts)) % 2)
    assert time.process_time() - start < 5
    assert not found.complete


def reviews(**changes: str) -> Domains:
    """Two domains of ten texts, of which some are changed: 'a3' is the fourth of a."""

    def rows(name: str) -> TextRows:
        generator = np.random.default_rng(ord(name))
        texts = [" ".join(f"{name}{n}" for n in generator.integers(0, 500, 40)) for _ in range(10)]
        texts = [changes.get(f"{name}{i}", text) for i, text in enumerate(texts)]
        splits = ["train", "train", "train", "validation", "test"] * 2
        return TextRows(
            [(text,) for text in texts], [i % 2 for i in range(10)], [f"{i}" for i in range(10)], None, splits
        )

    return text_domains("reviews", ("bad", "good"), {name: rows(name) for name in "ab"})


LONG = "I read this book twice and would read it again because the people in it are so real that I miss them now"


def finding(domains: Domains, code: str) -> Finding:
    return next(one for one in validate(domains).findings if one.code == code)


def test_leaks_are_told_by_place_with_the_rule() -> None:
    assert {one.level for one in validate(reviews()).findings} == {"pass"}
    found = finding(reviews(a0=LONG, a4=f"{LONG}!"), "near-duplicates")
    assert found.level == "warn"
    assert found.message.startswith("1 near-duplicate texts across train and test in a: 0 ~ 4 (near duplicates share")
    assert "70% of all their sequences of 3 words" in found.message
    across = finding(reviews(a0=LONG, b3=LONG.replace("twice", "once")), "near-duplicates")
    assert "across domains in a and b: 0 ~ 3" in across.message
    # in one part of a domain nothing leaks
    assert finding(reviews(a0=LONG, a1=f"{LONG}!"), "near-duplicates").level == "pass"
    equal = finding(reviews(a0=LONG, b3=LONG), "duplicates")
    assert (equal.level, equal.message) == ("fail", "1 identical texts across domains in a and b: 0 = 3")
    assert finding(reviews(a0=LONG, b3=LONG), "near-duplicates").level == "pass"


def test_a_review_and_its_revision_in_one_group_do_not_leak() -> None:
    rows = [TextRows([(text,), ("other",)], [1, 0], ["x", "y"], ["g", "h"]) for text in (LONG, f"{LONG}!")]
    found = validate(text_domains("pair", ("bad", "good"), {"a": rows[0], "b": rows[1]})).findings
    assert next(one for one in found if one.code == "near-duplicates").level == "pass"
    assert any(one.code == "shared-groups" for one in found)


def test_empty_texts_and_texts_with_two_labels() -> None:
    domains = reviews(a2="", b0=LONG, b5=LONG)
    assert finding(domains, "empty-texts").message == "1 text has no word: a: 2"
    assert "1 texts have more than one label: b: 0 and b: 5" in finding(domains, "two-labels").message
    words = validate(domains).domains[0].words
    assert words is not None
    assert (words.median, words.longest, words.empty) == (40, 40, 1)


def test_a_table_with_bad_rows_is_validated_without_them(
    tmp_path: Path, run: Callable[..., tuple[int, str, str]]
) -> None:
    lines = [f"review {i} is {i}{i} so {i} much fun,{i % 2},{'ab'[i // 10]},{i % 10}" for i in range(20)]
    lines += [",1,a,11", "x,,a,12", "again,1,a,3"]
    (tmp_path / "t.csv").write_text("\n".join(["text,label,domain,id", *lines]))
    code, out, _ = run("validate", f"table:{tmp_path / 't.csv'}")
    assert code == 2
    assert "t.csv, line 22: the text is empty" in out
    assert "line 23: the label is missing" in out
    assert "such as '3' in 'a' (lines 5, 24)" in out
    assert "words: median, longest" in out
    code, out, _ = run("validate", f"table:{tmp_path / 't.csv'}", "--json", "--set", "data.empty=keep")
    result = json.loads(out)
    assert result["domains"][0]["samples"] == 11
    assert result["domains"][0]["words"]["empty"] == 1


def test_embedded_texts_have_no_failure() -> None:
    assert not validate(load_domains("signed-reviews")).failed
