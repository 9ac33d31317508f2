"""Domains in a notebook: samples by class, and a few of the samples themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from shiftproof.display import figure, lines, panel, small, strip, table
from shiftproof.errors import ShiftproofError
from shiftproof.perturbations.text import decode
from shiftproof.types import IntArray

if TYPE_CHECKING:
    from shiftproof.domains.domain import Domain, Domains

__all__ = ["domain_html", "domains_html"]

SHOWN, TEXTS, LONGEST = 10, 2, 160
"""Images and texts of a domain, and letters of a text, at most."""
COLUMNS = 10
"""Above so many classes, their counts are told as a range."""


def domain_html(domain: Domain) -> str:
    """One domain: its name, what its inputs and labels are, counts, and a few samples."""
    return str(panel(f"Domain {domain.name}", _about([domain]), _counts([domain]), _samples(domain)))


def domains_html(domains: Domains) -> str:
    """All domains: a row each with counts by class, and a few samples of each."""
    every = list(domains)
    shown = [part for one in every for part in (small(one.name), _samples(one))]
    title = f"{domains.name}: {len(every)} domain{'s' if len(every) > 1 else ''}"
    return str(panel(title, _about(every), _counts(every), *shown))


def _about(domains: Sequence[Domain]) -> str:
    first = domains[0]
    shape = " x ".join(map(str, first.shape))
    inputs = f"Images of {shape} (channels, height, width), values in [0, 1]" if first.kind == "image" else "Texts"
    labels = "labels are numbers to predict" if first.is_regression else f"{len(first.classes)} classes"
    return small(f"{inputs}; {labels}.")


def _counts(domains: Sequence[Domain]) -> str:
    classes = domains[0].classes
    many = len(classes) > COLUMNS
    of_labels = ["labels"] if not classes else ["samples of a class"] if many else list(classes)
    grouped = any(one.groups is not None for one in domains)
    head = ["domain", "samples", *(["groups"] if grouped else []), *of_labels]
    rows = []
    for one in domains:
        groups = ["-" if one.groups is None else f"{len(set(one.groups.tolist())):,}"] if grouped else []
        rows.append([one.name, f"{len(one):,}", *groups, *_label_cells(one, many)])
    return table(head, rows)


def _label_cells(domain: Domain, many: bool) -> list[str]:
    counts = list(domain.class_counts.values())
    if counts and not many:
        return [f"{count:,}" for count in counts]
    values = counts or domain.labels.tolist()
    return [f"{min(values):,g} to {max(values):,g}" if values else "-"]


def _samples(domain: Domain) -> str:
    """A few samples, of every class in turn; a sentence where they can't be read."""
    try:
        chosen = _in_turn(domain)
        inputs = domain.inputs.take(chosen)
    except ShiftproofError as error:
        return small(str(error))
    if not len(chosen):
        return small("No samples.")
    if domain.kind == "image":
        return figure(strip(list(inputs.numpy())))
    texts = [text if len(text) <= LONGEST else f"{text[:LONGEST]}..." for text in decode(inputs[:TEXTS])]
    told = [_label(domain, index) for index in chosen[:TEXTS].tolist()]
    return lines(f"{label}: {text}" for label, text in zip(told, texts, strict=True))


def _in_turn(domain: Domain) -> IntArray:
    """The first sample of each class, then the second of each, up to so many as are shown."""
    if domain.is_regression:
        return np.arange(min(SHOWN, len(domain)))
    places = np.zeros(len(domain), np.int64)
    for label in range(len(domain.classes)):
        own = np.flatnonzero(domain.labels == label)
        places[own] = np.arange(len(own))
    return np.sort(np.lexsort((domain.labels, places))[:SHOWN])


def _label(domain: Domain, index: int) -> str:
    label = domain.labels[index].item()
    return f"{label:g}" if domain.is_regression else domain.classes[label]
