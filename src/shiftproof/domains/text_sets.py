"""Data sets of text on disk: one Parquet file each, whose facts are a few lines here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from shiftproof.domains.domain import Domains
from shiftproof.domains.parquet import read_columns
from shiftproof.domains.registry import DOMAINS, DataSet, find_file
from shiftproof.domains.text_rows import TextRows, text_domains
from shiftproof.errors import DataError

__all__ = ["SENTIMENT", "TextSet", "read_file", "rows_of_file"]

SENTIMENT = ("negative", "positive")
SPLITS = {"train": "train", "dev": "validation", "val": "validation", "test": "test"}
WITHOUT_TEST = {"train": "train", "dev": "test"}
"""Of a file without test rows: dev is what is measured, and what selects the weights is taken from train."""

PRODUCTS = {name: name for name in ("books", "dvd", "electronics", "kitchen", "airline")}
SIMILARITY = {"images": "images", "MSRvid": "MSRvid", "headlines": "headlines", "MSRpar": "MSRpar"}
GENRES = {name: name for name in ("fiction", "government", "slate", "telephone", "travel")}
COLA = {"CoLA": "cola"}


class TextSet(DataSet):
    """A data set of text in one Parquet file with the columns split, label and text; subclasses say what differs."""

    layout = "a Parquet file with the columns text, label and split, or those that its description names"

    classes: ClassVar[tuple[str, ...]] = SENTIMENT
    """What the labels 0, 1, ... mean; none where labels are numbers to be predicted."""
    label: ClassVar[str] = "label"
    """The column of the labels."""
    texts: ClassVar[tuple[str, ...]] = ("text",)
    """The column of the text, or the two of a pair."""
    where: ClassVar[str | None] = None
    """The column that says which domain a row belongs to; without one there is one domain."""
    domains: ClassVar[Mapping[str, str]] = {}
    """Values of that column, and what the domains are called here; other rows are left out."""
    splits: ClassVar[Mapping[str, str]] = SPLITS
    """The file's names of splits; rows of other splits are left out."""
    group: ClassVar[str | None] = None
    """The column whose equal values belong together."""

    def load(self) -> Domains:
        """Read the file from the data folder."""
        names = dict.fromkeys((*self.texts, *filter(None, [self.where, self.group])))
        columns = read_file(self.name, self.files[0], tuple(names), self.label, float if not self.classes else int)
        wanted = self.domains or {"": self.name}
        return text_domains(
            self.name,
            self.classes,
            {
                domain: rows_of_file(columns, self.files[0], self.texts, self.splits, (self.where, value), self.group)
                for value, domain in wanted.items()
            },
        )


def read_file(
    data_set: str, file: str, columns: tuple[str, ...] = ("text",), label: str = "label", number: type = int
) -> dict[str, list[Any]]:
    """The columns, with label and split, of a file of the data folder; every value must be there.

    The column `label`, of which each value is a `number`, is called label in what is returned.
    """
    wanted = (*columns, label, "split")
    path = find_file(data_set, file, f"a Parquet file with the columns {', '.join(wanted)}")
    found = read_columns(path, wanted)
    for name, values in found.items():
        kind = number if name == label else str
        bad = next((row for row, value in enumerate(values) if not isinstance(value, kind)), None)
        if bad is not None:
            raise DataError(f"{path}, row {bad + 1}: {name} is {values[bad]!r}, not {kind.__name__}")
    found["label"] = found.pop(label)
    return found


def rows_of_file(
    columns: Mapping[str, list[Any]],
    file: str,
    texts: tuple[str, ...] = ("text",),
    splits: Mapping[str, str] = SPLITS,
    where: tuple[str | None, str] = (None, ""),
    group: str | None = None,
) -> TextRows:
    """The rows of a file with the value `where`, in splits that are known; an id is the file's name and the row.

    Rows of train whose group is also in another split are left out: its samples there would not be unseen.
    """
    column, value = where
    marks = [splits.get(split) for split in columns["split"]]
    chosen = [row for row, mark in enumerate(marks) if mark and (column is None or columns[column][row] == value)]
    if group is not None:
        measured = {columns[group][row] for row in chosen if marks[row] != "train"}
        chosen = [row for row in chosen if marks[row] != "train" or columns[group][row] not in measured]
    if not chosen:
        raise DataError(
            f"{file} has no rows {'' if column is None else f'of {column} {value!r} '}in {', '.join(splits)}"
        )
    stem = file.removesuffix(".parquet")
    return TextRows(
        [tuple(columns[name][row] for name in texts) for row in chosen],
        [columns["label"][row] for row in chosen],
        [f"{stem}/{row + 1}" for row in chosen],
        None if group is None else [columns[group][row] for row in chosen],
        [str(marks[row]) for row in chosen],
    )


@DOMAINS.register("imdb", content="IMDb film reviews, good and bad", kind="text")
@dataclass(frozen=True)
class IMDb(TextSet):
    """Long film reviews, negative or positive."""

    files = ("imdb.parquet",)


@DOMAINS.register("rotten-tomatoes", content="8,530 sentences of film reviews, good and bad", kind="text")
@dataclass(frozen=True)
class RottenTomatoes(TextSet):
    """Sentences of film reviews, negative or positive."""

    files = ("rotten_tomatoes.parquet",)


@DOMAINS.register("amazon-reviews", content="10,000 reviews of four kinds of products, and of airlines", kind="text")
@dataclass(frozen=True)
class AmazonReviews(TextSet):
    """Reviews of books, dvds, electronics and kitchenware, and of airlines; negative or positive.

    The file's split `test-labeled` repeats train and dev, and is left out.
    """

    files = ("blitzer_sentiment.parquet",)
    where = "domain"
    domains = PRODUCTS
    splits = WITHOUT_TEST


@DOMAINS.register("mnli-genres", content="22,803 pairs of sentences in five genres", kind="text")
@dataclass(frozen=True)
class MNLIGenres(TextSet):
    """Pairs of premise and hypothesis: neutral, contradiction or entailment; premises are groups."""

    files = ("mnli_genres.parquet",)
    classes = ("neutral", "contradiction", "entailment")
    texts = ("premise", "hypothesis")
    where = "genre"
    domains = GENRES
    splits = WITHOUT_TEST
    group = "premise"


@DOMAINS.register("mrpc", content="5,801 pairs of sentences of the news", kind="text")
@dataclass(frozen=True)
class MRPC(TextSet):
    """Pairs of sentences that say the same thing, or not."""

    files = ("mrpc.parquet",)
    classes = ("different", "paraphrase")
    texts = ("sentence1", "sentence2")


@DOMAINS.register("cola", content="9,067 sentences that linguists judged", kind="text")
@dataclass(frozen=True)
class CoLA(TextSet):
    """English sentences, acceptable or not."""

    files = ("cola_mr_cr_subj_mpqa.parquet",)
    classes = ("unacceptable", "acceptable")
    where = "task"
    domains = COLA
    splits = WITHOUT_TEST


@DOMAINS.register("stsb", content="7,000 pairs of sentences of four sources, and how alike they are", kind="text")
@dataclass(frozen=True)
class STSB(TextSet):
    """Pairs of sentences with a number from 0 (unrelated) to 5 (the same meaning), as people judged them (Cer et al.,
    SemEval 2017).

    Domains are the sources that have rows of all three splits: captions of images and of videos (MSRvid), headlines,
    and paraphrases from the news (MSRpar).
    """

    files = ("stsb.parquet",)
    classes = ()
    label = "score"
    texts = ("sentence1", "sentence2")
    where = "source"
    domains = SIMILARITY
