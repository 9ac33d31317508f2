"""Data sets of text: what is kept of their files, and what is left out."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from conftest import needs_data

from shiftproof.certification.plain_votes import standard_noise
from shiftproof.domains import DOMAINS, Domain, Domains, held_out, load_domains
from shiftproof.domains.splits import parts
from shiftproof.domains.texts import TextInputs, text_domain, texts_of
from shiftproof.errors import ConformanceError, DataError, DataNotFound, UsageError
from shiftproof.perturbations.noise import WordDeletion
from shiftproof.perturbations.text import decode
from shiftproof.rng import numpy_generator
from shiftproof.testing import check_domains


def sizes(domain: Domain) -> list[int]:
    return np.bincount(parts(domain), minlength=3).tolist()


def write(folder: Path, file: str, names: tuple[str, ...], rows: list[tuple[object, ...]]) -> None:
    table = pa.table({name: [row[place] for row in rows] for place, name in enumerate(names)})
    pq.write_table(table, folder / file)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHIFTPROOF_DATA", str(tmp_path))
    return tmp_path


def test_every_data_set_of_text_says_so() -> None:
    named = {entry.name for entry in DOMAINS if entry.metadata.get("kind") == "text"}
    assert {"sst2", "imdb", "sentiment", "cad-imdb", "amazon-reviews", "mnli-genres", "mrpc", "cola"} <= named
    assert {"table", "rotten-tomatoes", "signed-reviews"} <= named


def test_sst2_trains_on_whole_sentences_with_their_punctuation(folder: Path) -> None:
    rows = [
        ("glue_phrases", "train", "a cutting-room caf\u00e9 film", 1),
        ("glue_phrases", "train", "a cutting-room caf\u00e9 film .", 1),
        ("glue_phrases", "train", "film", 1),
        ("glue_phrases", "train", "( so ) bad .", 0),
        ("sentences", "train", "a cutting room caf film", 1),
        ("sentences", "train", "lrb so rrb bad", 0),
        ("sentences", "dev", "good .", 1),
        ("sentences", "test", "bad .", 0),
    ]
    write(folder, "sst2.parquet", ("kind", "split", "text", "label"), rows)
    domain = load_domains("sst2")["sst2"]
    assert texts_of(domain) == ["a cutting-room café film .", "( so ) bad .", "good .", "bad ."]
    assert domain.ids.tolist() == ["sst2/2", "sst2/4", "sst2/7", "sst2/8"]
    assert domain.splits is not None
    assert domain.splits.tolist() == ["train", "train", "validation", "test"]
    assert len(load_domains("sst2", train="phrases")["sst2"]) == 6


def test_amazon_reviews_leave_out_the_split_that_repeats_the_others(folder: Path) -> None:
    names = ("books", "dvd", "electronics", "kitchen", "airline")
    rows = [(name, split, f"{name} {split}", i) for name in names for i, split in enumerate(("train", "dev"))]
    rows += [(name, "test-labeled", text, label) for name, _, text, label in rows]
    write(folder, "blitzer_sentiment.parquet", ("domain", "split", "text", "label"), rows)
    domains = load_domains("amazon-reviews")
    assert domains.names == names
    assert texts_of(domains["dvd"]) == ["dvd train", "dvd dev"]
    assert texts_of(held_out(domains["dvd"])) == ["dvd dev"]


def test_a_premise_that_is_measured_is_not_trained_on(folder: Path) -> None:
    genres = ("fiction", "government", "slate", "telephone", "travel")
    rows = [(g, s, p, f"{g} {s}", 0) for g in genres for s, p in (("train", "a"), ("train", "b"), ("dev", "b"))]
    write(folder, "mnli_genres.parquet", ("genre", "split", "premise", "hypothesis", "label"), rows)
    domain = load_domains("mnli-genres")["slate"]
    assert texts_of(domain) == ["a\x1eslate train", "b\x1eslate dev"]
    assert domain.groups is not None
    assert domain.groups.tolist() == ["a", "b"]


def test_fetched_reviews_are_loaded_by_name(folder: Path) -> None:
    for name, file in (("imdb", "imdb.parquet"), ("rotten-tomatoes", "rotten_tomatoes.parquet")):
        write(folder, file, ("split", "text", "label"), [("train", f"review {i}", i % 2) for i in range(40)])
        domains = load_domains(name)
        assert domains[name].class_counts == {"negative": 20, "positive": 20}
        check_domains(domains)


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (("train", "x"), "lacks the column 'label'; it has split, text"),
        (("train", None, 1), "row 1: text is None, not str"),
        (("train", "x", 0.5), "row 1: label is 0.5, not int"),
        (("train", "x", 2), "2 classes allow 0 to 1"),
        (("extra", "x", 0), "imdb.parquet has no rows in train, dev, val, test"),
    ],
)
def test_a_file_that_holds_something_else_is_refused(row: tuple[object, ...], sentence: str, folder: Path) -> None:
    write(folder, "imdb.parquet", ("split", "text", "label")[: len(row)], [row])
    with pytest.raises(DataError, match=sentence):
        load_domains("imdb")


def test_missing_text_says_how_to_fetch_it(folder: Path) -> None:
    with pytest.raises(DataNotFound, match="Expected: a Parquet file .*'shiftproof data get imdb' fetches it"):
        load_domains("imdb")


@needs_data
def test_sizes_of_the_data_sets() -> None:
    reviews = load_domains("sentiment")
    assert sizes(reviews["sst2"]) == [6875, 872, 1821]
    assert reviews.names == ("sst2", "imdb", "books", "dvd", "electronics", "kitchen", "airline")
    products = load_domains("amazon-reviews")
    assert [reviews[one.name].ids.tolist() == one.ids.tolist() for one in products] == [True] * 5
    assert reviews["imdb"].ids[0] == "imdb/1"
    assert [len(domain) for domain in load_domains("amazon-reviews")] == [2000] * 5
    mnli = load_domains("mnli-genres")
    assert mnli.classes == ("neutral", "contradiction", "entailment")
    assert [sizes(domain)[2] for domain in mnli] == [1973, 1945, 1955, 1966, 1976]
    assert sizes(load_domains("mrpc")["mrpc"]) == [3576, 500, 1725]
    assert sizes(load_domains("cola")["cola"])[2] == 516


@needs_data
def test_a_review_and_its_revision_are_a_group() -> None:
    original, revised = load_domains("cad-imdb")
    assert original.groups is not None
    assert revised.groups is not None
    place = {group: i for i, group in enumerate(original.groups.tolist())}
    assert sorted(place) == sorted(revised.groups.tolist())
    mate = np.array([place[group] for group in revised.groups.tolist()])
    assert (original.labels[mate] != revised.labels).all()
    assert original.splits is not None
    assert (original.splits[mate] == revised.splits).all()
    chosen = np.arange(0, len(revised), 40)
    for old, new in zip(texts_of(original, mate[chosen]), texts_of(revised, chosen), strict=True):
        shared = set(old.split()) & set(new.split())
        assert len(shared) > 0.4 * min(len(set(old.split())), len(set(new.split())))


def test_texts_of_a_subset_are_those_of_its_rows() -> None:
    domain = load_domains("signed-reviews")["e=0.1"]
    some = domain.subset([5, 3, 9]).subset([2, 0])
    assert texts_of(some) == texts_of(domain, [9, 5])
    assert texts_of(some, [1]) == texts_of(domain, [5])


def test_conformance_finds_texts_that_are_not_kept_as_text() -> None:
    class Loud(TextInputs):
        """Gives half bytes."""

        def take(self, indices: np.ndarray) -> torch.Tensor:
            return super().take(indices) + 0.5

    texts = [f"text {i}" for i in range(20)]
    for inputs, sentence in (
        (Loud(texts), "not texts as rows"),
        (TextInputs([f" {text}" for text in texts]), "more than words and spaces"),
    ):
        domain = Domain.from_inputs("d", inputs, [0, 1] * 10, ["a", "b"])
        with pytest.raises(ConformanceError, match=sentence):
            check_domains(Domains("d", [domain]))


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        (["fine", None], r"texts\[1\] of 'd' is None, which is NoneType, not text; each should be a text"),
        ([0.5, "fine"], r"texts\[0\] of 'd' is 0.5, which is float, not text"),
        (["fine", b"bytes"], r"texts\[1\] of 'd' is b'bytes', which is bytes, not text"),
        ([["nested"], "fine"], r"texts\[0\] of 'd' is \['nested'\], which is list, not text"),
        (["fine", ("a", "b", "c")], r"texts\[1\] of 'd' is \('a', 'b', 'c'\), which is tuple, not text"),
        ([("a", "b"), ("a", None)], r"texts\[1\] of 'd' is None, which is NoneType, not text"),
        (["fine", "half \ud83d"], r"texts\[1\] of 'd' holds half a character \(\\ud83d\)"),
        ([("a", "\udc00"), "b"], r"texts\[0\] of 'd' holds half a character"),
        ("one text", "texts of 'd' are 'one text'; they should be a list of texts"),
        (None, "texts of 'd' are None; they should be a list"),
        (7, "texts of 'd' are 7; they should be a list"),
    ],
)
def test_what_is_no_text_is_a_sentence_that_names_the_row(texts: object, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        text_domain("d", texts, [0, 1], ["no", "yes"])  # type: ignore[arg-type]


def test_rows_that_are_too_narrow_for_a_text_are_refused() -> None:
    with pytest.raises(DataError, match=r"texts\[1\] of 'd' has 8 bytes, but width is 7; leave width out"):
        text_domain("d", ["so bad", "so  good!"], [0, 1], ["no", "yes"], width=7)
    with pytest.raises(UsageError, match="the width is 0; it should be a whole number of at least 1"):
        text_domain("d", ["", ""], [0, 1], ["no", "yes"], width=0)
    assert text_domain("d", ["so bad", "so  good!"], [0, 1], ["no", "yes"], width=8).shape == (8,)


def test_pairs_may_be_lists_and_texts_of_numpy_are_texts() -> None:
    domain = text_domain("d", [["a", " b "], ("c", "d")], [0, 1], ["no", "yes"])
    assert texts_of(domain) == ["a\x1eb", "c\x1ed"]
    assert texts_of(text_domain("d", np.array(["a", "b"]), [0, 1], ["no", "yes"])) == ["a", "b"]  # type: ignore[arg-type]


def test_the_width_of_rows_is_a_part_of_the_fingerprint() -> None:
    """Coins of words are drawn by the row, so that votes differ with its width: what was measured is not the same."""

    def domain(width: int) -> Domain:
        return text_domain("d", ["so bad", "so good"], [0, 1], ["no", "yes"], width=width)

    narrow, wide = domain(80), domain(120)
    assert narrow.fingerprint == domain(80).fingerprint
    assert narrow.fingerprint != wide.fingerprint
    assert narrow.subset([0]).fingerprint != wide.subset([0]).fingerprint
    noise = WordDeletion(0.5)
    sizes = [noise.size(one.shape) for one in (narrow, wide)]
    drawn = [standard_noise(noise.law, size, 64, numpy_generator(0, "test")) for size in sizes]
    kept = [
        decode(noise.apply(one.take([1])[0].expand(64, -1), torch.from_numpy(coins)))
        for one, coins in zip((narrow, wide), drawn, strict=True)
    ]
    assert kept[0] != kept[1]
