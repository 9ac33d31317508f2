"""Corruptions of text: rates, draws that belong to a sample, texts as they are kept, and known answers."""

import re

import numpy as np
import pytest
import torch

import shiftproof as sp
from shiftproof.domains import Domain
from shiftproof.domains.texts import text_domain, texts_of
from shiftproof.errors import UsageError
from shiftproof.perturbations.corruptions import CORRUPTIONS, STANDARD, TEXT, TextCorruption, corrupt
from shiftproof.perturbations.corruptions.ocr import CONFUSIONS
from shiftproof.perturbations.corruptions.typos import NEIGHBOURS
from shiftproof.perturbations.edits import edit_distance
from shiftproof.perturbations.text import BETWEEN, decode, encode, parts_of, plain

SEVERITIES = range(1, 6)
ODD = [
    "",
    "!?",
    "a",
    "ß",
    "ɐ",
    "ﬃ ŉ ΐ",
    "日本語 のテキスト。",
    "word " * 40,
    plain("premise, here", "its hypothesis."),
    plain("", "second only"),
]


@pytest.fixture(scope="module")
def reviews() -> Domain:
    return sp.load_domains("signed-reviews")["e=0.1"].subset(np.arange(120))


def spoiled(name: str, severity: int, text: str, lots: list[tuple[float, float]]) -> str:
    """What becomes of a text by given numbers; beyond them, nothing happens."""
    method = CORRUPTIONS.create(name, {"severity": severity})
    assert isinstance(method, TextCorruption)
    every = np.full((len(text), 2), 0.999)
    every[: len(lots)] = lots
    return method.spoil(text, every)


@pytest.mark.parametrize("name", TEXT)
def test_results_are_texts_as_they_are_kept(name: str) -> None:
    # no room at all beyond the longest text
    width = max(len(text.strip().encode()) for text in ODD)
    rows = encode([plain(*parts_of(text)) for text in ODD], width)
    for severity in SEVERITIES:
        for before, after in zip(decode(rows), decode(corrupt(rows, name, severity)), strict=True):
            assert after == plain(*parts_of(after))
            assert len(after.encode()) <= width
            assert [bool(part) for part in parts_of(after)] == [bool(part) for part in parts_of(before)]


@pytest.mark.parametrize("name", TEXT)
def test_a_text_depends_on_its_id_only(name: str, reviews: Domain) -> None:
    rows, ids = reviews.tensors()[0][:5], ["a", "b", "c", "d", "e"]
    together = corrupt(rows, name, 3, ids=ids)
    assert torch.equal(corrupt(rows.flip(0), name, 3, ids=ids[::-1]).flip(0), together)
    assert torch.equal(corrupt(rows[3:4], name, 3, ids=["d"]), together[3:4])
    assert not torch.equal(corrupt(rows, name, 3, ids=ids, seed=1), together)
    assert not torch.equal(corrupt(rows, name, 3, ids=ids[::-1]), together)
    # neither the width of rows nor their form matters
    assert corrupt(decode(rows), name, 3, ids=ids) == decode(together)
    assert decode(corrupt(encode(decode(rows), 700), name, 3, ids=ids)) == decode(together)


@pytest.mark.parametrize("name", TEXT)
def test_higher_severities_are_worse(name: str, reviews: Domain) -> None:
    texts = texts_of(reviews)[:6]
    changed = [
        sum(edit_distance(list(a), list(b)) for a, b in zip(texts, corrupt(texts, name, severity), strict=True))
        for severity in (1, 3, 5)
    ]
    assert 0 < changed[0] < changed[1] < changed[2]


@pytest.mark.parametrize("name", TEXT)
def test_rates_are_those_that_are_stated(name: str) -> None:
    entry = CORRUPTIONS[name]
    assert issubclass(entry.cls, TextCorruption)
    stated = [float(one) / 100 for one in re.findall(r"\d+", entry.metadata["severities"])]
    assert list(entry.cls.rates) == pytest.approx(stated)
    for number in entry.metadata["severities"].split(" %")[0].split(", "):
        assert number in (entry.cls.__doc__ or "")
    # the line of `ls corruptions` says how bad the least and the worst are
    least, worst = (f"{100 * rate:g} %" if rate < 1 else "all" for rate in (entry.cls.rates[0], entry.cls.rates[-1]))
    assert re.search(rf"{least}.* at severity 1, {worst} at ", entry.summary)


@pytest.mark.parametrize(("severity", "rate"), [(1, 0.01), (5, 0.12)])
def test_typos_hit_their_share_of_letters(severity: int, rate: float) -> None:
    changed = np.mean([one != "k" for one in corrupt(["k"] * 3_000, "typos", severity)])
    # a quarter would be dropped, which would leave nothing
    assert changed == pytest.approx(0.75 * rate, abs=0.004 + 0.1 * rate)


def test_kinds_of_typos() -> None:
    assert spoiled("typos", 1, "Go on", [(0.001, 0.0)]) == f"{NEIGHBOURS['g'][0].upper()}o on"
    assert spoiled("typos", 1, "Go on", [(0.001, 0.25)]) == "oG on"
    assert spoiled("typos", 1, "Go on", [(0.001, 0.5)]) == "o on"
    assert spoiled("typos", 1, "Go on", [(0.001, 0.75)]) == "GGo on"
    assert spoiled("typos", 1, "a!é", [(0.001, 0.3), (0.001, 0.3), (0.001, 0.1)]) == "aa!éé"
    assert sorted(NEIGHBOURS["s"]) == sorted("awedxz")
    assert all(key in NEIGHBOURS[other] for key, near in NEIGHBOURS.items() for other in near)


def test_cases_of_words() -> None:
    text = "Good day all"
    assert spoiled("case", 1, text, [(0.05, 0.0)]) == "good day all"
    assert spoiled("case", 1, text, [(0.05, 0.34)]) == "GOOD day all"
    mixed = [(0.05, 0.67), (1.0, 0.99), (1.0, 0.1), (1.0, 0.2)]
    assert spoiled("case", 1, text, mixed) == "GoOd day all"
    words = " ".join(corrupt(["word " * 500], "case", 3)).split()
    assert sum(word == "word" for word in words) / 500 == pytest.approx(0.5 + 0.5 / 3 + 0.5 / 3 / 16, abs=0.06)
    assert {word.lower() for word in words} == {"word"}


def test_marks_are_dropped() -> None:
    assert corrupt(["Well, it's «fine» - isn't it?"], "dropped-punctuation", 5) == ["Well its fine isnt it"]
    assert corrupt(["?! ..."], "dropped-punctuation", 5) == ["?! ..."]
    assert corrupt(["1 + 1 = 2 €"], "dropped-punctuation", 5) == ["1 + 1 = 2 €"]


def test_letters_that_look_alike() -> None:
    assert CONFUSIONS["rn"] == ("m",)
    assert CONFUSIONS["l"] == ("1", "I")
    assert spoiled("ocr", 1, "corn", [(0.9, 0.0), (0.9, 0.0), (0.001, 0.0)]) == "com"
    assert spoiled("ocr", 1, "mOl", [(0.001, 0.0), (0.001, 0.0), (0.001, 0.6)]) == "rn0I"
    assert spoiled("ocr", 1, "xk", [(0.001, 0.0), (0.001, 0.0)]) == "xk"


def test_words_are_glued_and_split() -> None:
    assert spoiled("spacing", 1, "on it", [(0.5, 0.5), (0.5, 0.5), (0.001, 0.5)]) == "onit"
    assert spoiled("spacing", 1, "word", [(0.001, 0.0)]) == "w ord"
    assert spoiled("spacing", 1, "word", [(0.001, 0.99)]) == "wor d"
    assert spoiled("spacing", 1, "the", [(0.001, 0.5)]) == "the"
    before = "some words here and there"
    assert all(corrupt([before], "spacing", 5, seed=s)[0].replace(" ", "") == before.replace(" ", "") for s in range(9))


def test_words_are_dropped() -> None:
    text = " ".join(f"w{i}" for i in range(1_000))
    (after,) = corrupt([text], "dropped-words", 4)
    assert len(after.split()) / 1_000 == pytest.approx(0.7, abs=0.05)
    places = [int(word[1:]) for word in after.split()]
    assert places == sorted(places)
    assert all(corrupt(["one"], "dropped-words", 5, seed=s) == ["one"] for s in range(20))


def test_parts_of_a_pair_are_corrupted_apart() -> None:
    for name in TEXT:
        for seed in range(20):
            (after,) = corrupt([plain("a few words, here.", "and some, there!")], name, 5, seed=seed)
            assert after.count(chr(BETWEEN)) == 1
    (after,) = corrupt([plain("well, one.", "?")], "dropped-punctuation", 5)
    assert parts_of(after) == ["well one", "?"]


def test_a_text_that_grows_beyond_its_row_is_cut_at_a_word() -> None:
    rows = encode(["modern mmm words mmm end"], 24)
    grown = [decode(corrupt(rows, "ocr", 5, seed=seed))[0] for seed in range(60)]
    free = [corrupt(["modern mmm words mmm end"], "ocr", 5, seed=seed)[0] for seed in range(60)]
    cut = [(one, whole) for one, whole in zip(grown, free, strict=True) if one != whole]
    assert cut
    assert all(len(whole.encode()) > 24 and whole.startswith(f"{one} ") for one, whole in cut)


def test_samples_of_the_wrong_kind_get_a_sentence() -> None:
    images = torch.zeros(1, 1, 8, 8)
    with pytest.raises(UsageError, match="'typos' corrupts texts, and these samples are images, for which there are: "):
        corrupt(images, "typos", 1)
    with pytest.raises(UsageError, match="'fog' corrupts images, and these samples are texts.*: case, dropped-punct"):
        corrupt(["a text"], "fog", 1)
    with pytest.raises(UsageError, match="one string; give a list"):
        corrupt("a text", "typos", 1)
    for texts, sentence in {
        ("fine", None): r"texts\[1\] is None, which is NoneType, not text; each of them should be a text",
        (b"bytes",): r"texts\[0\] is b'bytes', which is bytes, not text",
        ("fine", 7): r"texts\[1\] is 7, which is int, not text",
        ("half \ud83d",): r"texts\[0\] holds half a character \(\\ud83d\)",
    }.items():
        with pytest.raises(UsageError, match=sentence):
            corrupt(texts, "typos", 1)  # type: ignore[call-overload]
    with pytest.raises(UsageError, match="constants .cifar. are of corruptions of images"):
        corrupt(["a text"], "typos", 1, constants="cifar")
    with pytest.raises(UsageError, match="there are 2 ids for 1 texts; every text has one"):
        corrupt(["a text"], "typos", 1, ids=["a", "b"])
    with pytest.raises(UsageError, match="from 0 to 300; rows of text are floats that hold bytes"):
        corrupt(torch.tensor([[0.0, 300.0]]), "typos", 1)
    assert corrupt([], "typos", 1) == []
    assert not set(TEXT) & set(STANDARD)


def test_a_text_corruption_has_a_severity_and_nothing_else() -> None:
    method = CORRUPTIONS.create("typos", {"severity": "2"})
    assert repr(method) == "Typos(severity=2)"
    assert method.to_config() == {"name": "typos", "severity": 2}
    assert text_domain("d", ["x"], [0], ["a"]).kind == method.kind == "text"
