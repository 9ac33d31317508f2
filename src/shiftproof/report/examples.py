"""A few texts of a domain, and what an attack made of some: the gallery of a report on texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from shiftproof.domains import Domain
from shiftproof.domains.texts import texts_of
from shiftproof.errors import DataError
from shiftproof.execution import read_json, write_json

__all__ = ["EditedText", "Examples", "SampleText", "first_texts", "read_examples", "write_examples"]

CLASSES, EACH = 4, 2
"""Classes of which texts are shown, and how many of each."""


@dataclass(frozen=True)
class SampleText:
    """A text as it is, and its class."""

    label: str
    text: str


@dataclass(frozen=True)
class EditedText:
    """A text that an attack has overturned: which model, by how many edits, from which class to which."""

    model: str
    edits: str
    label: str
    answer: str
    before: str
    after: str


@dataclass(frozen=True)
class Examples:
    """What the report shows of a domain of texts."""

    samples: Sequence[SampleText]
    edited: Sequence[EditedText]


def first_texts(domain: Domain) -> list[SampleText]:
    """The first texts of each of the first classes; where labels are numbers, texts from the least to the largest."""
    if domain.is_regression:
        order = np.argsort(domain.labels, kind="stable")
        chosen = order[np.unique(np.linspace(0, len(order) - 1, CLASSES * EACH, dtype=np.int64))].tolist()
        texts = texts_of(domain, chosen)
        return [SampleText(f"{domain.labels[i]:g}", text) for i, text in zip(chosen, texts, strict=True)]
    indices = [
        int(index)
        for label in range(min(CLASSES, len(domain.classes)))
        for index in np.flatnonzero(domain.labels == label)[:EACH]
    ]
    texts = texts_of(domain, indices)
    return [SampleText(domain.classes[domain.labels[i]], text) for i, text in zip(indices, texts, strict=True)]


def write_examples(path: Path, examples: Examples) -> None:
    """Write them to a JSON file."""
    write_json(path, asdict(examples))


def read_examples(path: Path) -> Examples:
    """Read what `write_examples` wrote."""
    found = read_json(path, DataError)
    try:
        return Examples([SampleText(**one) for one in found["samples"]], [EditedText(**one) for one in found["edited"]])
    except (KeyError, TypeError) as error:
        raise DataError(
            f"{path} does not hold the texts of a report; remove it, and run the same study again"
        ) from error
