"""The Stanford Sentiment Treebank with two classes, alone and beside reviews of other kinds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from shiftproof.domains.domain import Domains
from shiftproof.domains.registry import DOMAINS, DataSet
from shiftproof.domains.text_rows import TextRows, text_domains
from shiftproof.domains.text_sets import SENTIMENT, AmazonReviews, IMDb, TextSet, read_file, rows_of_file

__all__ = ["SST2", "Sentiment"]

FILE = "sst2.parquet"
Train = Literal["sentences", "phrases"]


@DOMAINS.register("sst2", content="sentences of film reviews, good and bad", kind="text")
@dataclass(frozen=True)
class SST2(DataSet):
    """Sentences of film reviews, negative or positive (Socher et al., EMNLP 2013).

    `train` says which rows are trained on: `sentences` (whole ones, as validation and test are), or the 67,349
    `phrases` of GLUE, parts of those sentences with a median of 7 words. The file also has the training sentences with
    full stops, dashes and accents removed, which validation and test have; of the phrases, those that are whole
    sentences are taken in their place. Validation and test are the same either way.
    """

    train: Train = "sentences"
    files = (FILE,)
    layout = TextSet.layout

    def load(self) -> Domains:
        """Read the file from the data folder."""
        return text_domains(self.name, SENTIMENT, {"sst2": _rows(self.name, self.train)})


@DOMAINS.register("sentiment", content="SST-2, IMDb, four kinds of products and airlines as domains", kind="text")
@dataclass(frozen=True)
class Sentiment(DataSet):
    """Negative and positive reviews of seven domains: sentences of film reviews (sst2) and whole ones (imdb), books,
    dvds, electronics, kitchenware, and airlines; `train` is that of sst2.
    """

    train: Train = "sentences"
    files = (FILE, *IMDb.files, *AmazonReviews.files)
    layout = TextSet.layout

    def load(self) -> Domains:
        """Read the three files from the data folder."""
        imdb, reviews = IMDb.files[0], AmazonReviews.files[0]
        films = {"sst2": _rows(self.name, self.train), "imdb": rows_of_file(read_file(self.name, imdb), imdb)}
        columns = read_file(self.name, reviews, ("text", "domain"))
        products = {
            domain: rows_of_file(columns, reviews, splits=AmazonReviews.splits, where=("domain", domain))
            for domain in AmazonReviews.domains
        }
        return text_domains(self.name, SENTIMENT, films | products)


def _rows(data_set: str, train: Train) -> TextRows:
    columns = read_file(data_set, FILE, ("text", "kind"))
    whole = set(_whole_sentences(columns)) if train == "sentences" else None
    marks = [
        split if _is_wanted(kind, split, whole, row) else "left out"
        for row, (kind, split) in enumerate(zip(columns["kind"], columns["split"], strict=True))
    ]
    return rows_of_file({**columns, "split": marks}, FILE)


def _is_wanted(kind: str, split: str, whole: set[int] | None, row: int) -> bool:
    """Validation and test are sentences; of train, phrases are, all of them or those that are `whole`."""
    if split != "train":
        return kind == "sentences"
    return kind == "glue_phrases" and (whole is None or row in whole)


def _whole_sentences(columns: Mapping[str, list[Any]]) -> list[int]:
    """For each training sentence the longest phrase of the same letters and label, if there is one."""
    phrases: dict[tuple[str, int], int] = {}
    sentences = []
    for row, (kind, split, text, label) in enumerate(
        zip(columns["kind"], columns["split"], columns["text"], columns["label"], strict=True)
    ):
        key = _letters(text), label
        if kind == "glue_phrases" and split == "train":
            known = phrases.setdefault(key, row)
            if len(text) > len(columns["text"][known]):
                phrases[key] = row
        elif kind == "sentences" and split == "train":
            sentences.append(key)
    return [phrases[key] for key in sentences if key in phrases]


def _letters(text: str) -> str:
    """ASCII letters and digits alone, without the words that stand for brackets."""
    plain = re.sub(r"\b[lr]rb\b", "", text.lower()).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]", "", plain)
