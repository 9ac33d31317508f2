"""Texts as sets of short word sequences (shingles), by which near duplicates are found without comparing all pairs."""

from __future__ import annotations

import math
import string
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from shiftproof.perturbations.text import BETWEEN
from shiftproof.types import FloatArray, IntArray

__all__ = ["RULE", "NearDuplicates", "near_duplicates", "word_table"]

WORDS, THRESHOLD = 3, 0.7
"""Words of a shingle, and the share of all shingles of two texts that near duplicates have in common."""
RULE = (
    f"near duplicates share at least {THRESHOLD:.0%} of all their sequences of {WORDS} words, "
    "whatever the case and punctuation"
)
CROWDED = 500
"""A shingle that is among the rarest of more texts than this does not make them candidates."""
_STEP = 1 << 22
"""Products of a block of candidates, and shingles of a block that is compared: what is in memory at once."""
_NO_WORDS = str.maketrans(dict.fromkeys(string.punctuation + chr(BETWEEN) + "‘’“”–—…", " "))


@dataclass(frozen=True)
class NearDuplicates:
    """Pairs of texts by number (N x 2, the first below the second), and whether all candidates were compared."""

    pairs: IntArray
    complete: bool


def near_duplicates(texts: Sequence[str], places: IntArray) -> NearDuplicates:
    """Pairs of texts in different `places` that share most of their shingles (Jaccard similarity, `THRESHOLD`).

    Two sets that similar share one of their rarest members, so that only texts with a rare shingle in common are
    compared (prefix filtering: Bayardo, Ma & Srikant, *Scaling Up All Pairs Similarity Search*, WWW 2007); this misses
    no pair, unless a shingle is `CROWDED`. Time grows with the words of all texts, not with the pairs.

    >>> near_duplicates(["So good a film, really.", "so good a film really!", "other"], np.array([0, 1, 1])).pairs
    array([[0, 1]])
    """
    table = _shingle_table(texts)
    sizes = np.diff(table.indptr).astype(np.int64)
    prefixes, complete = _rarest(table, sizes)
    found = [np.empty((0, 2), np.int64)]
    for first, second in _candidates(prefixes):
        apart = (first < second) & (places[first] != places[second])
        alike = np.minimum(sizes[first], sizes[second]) >= THRESHOLD * np.maximum(sizes[first], sizes[second])
        first, second = first[apart & alike], second[apart & alike]
        near = _similarity(table, sizes, first, second) >= THRESHOLD
        found.append(np.stack([first[near], second[near]], 1))
    return NearDuplicates(np.concatenate(found), complete)


def word_table(texts: Sequence[str]) -> csr_array:
    """How often each word is in each text, texts x words; case and punctuation do not count."""
    words, lengths = _word_numbers(texts)
    owners = np.repeat(np.arange(len(texts)), lengths)
    return csr_array((np.ones(len(words)), (owners, words)), shape=(len(texts), int(words.max(initial=0)) + 1))


def _word_numbers(texts: Sequence[str]) -> tuple[IntArray, IntArray]:
    """The words of all texts in order, as numbers, and how many each text has."""
    numbering: defaultdict[str, int] = defaultdict(count().__next__)
    numbers: list[int] = []
    lengths = []
    for text in texts:
        words = text.lower().translate(_NO_WORDS).split()
        numbers.extend(map(numbering.__getitem__, words))
        lengths.append(len(words))
    return np.array(numbers, np.int64), np.array(lengths, np.int64)


def _shingle_table(texts: Sequence[str]) -> csr_array:
    """Which shingles each text has, texts x shingles, rare ones first; a text of fewer words is one shingle."""
    words, lengths = _word_numbers(texts)
    starts = np.cumsum(lengths) - lengths
    counts = np.where(lengths > 0, np.maximum(lengths - WORDS + 1, 1), 0)
    owners = np.repeat(np.arange(len(texts)), counts)
    first = np.repeat(starts, counts) + np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    ends = (starts + lengths)[owners]
    hashes = np.zeros(len(first), np.uint64)
    for step in range(WORDS):
        place = np.minimum(first + step, len(words) - 1)
        hashes = hashes * _MIX + np.where(first + step < ends, words[place] + 1, 0).astype(np.uint64)
        hashes ^= hashes >> np.uint64(29)
    _, numbers, times = np.unique(hashes, return_inverse=True, return_counts=True)
    rank = np.empty(len(times), np.int64)
    rank[np.argsort(times, kind="stable")] = np.arange(len(times))
    # a shingle that a text has twice counts once
    cells = np.sort(owners * max(1, len(times)) + rank[numbers])
    distinct = cells[np.diff(cells, prepend=-1) > 0]
    owners, columns = np.divmod(distinct, max(1, len(times)))
    ends = np.searchsorted(owners, np.arange(len(texts) + 1))
    return csr_array((np.ones(len(columns), np.int32), columns, ends), shape=(len(texts), max(1, len(times))))


_MIX = np.uint64(0x9E3779B97F4A7C15)


def _rarest(table: csr_array, sizes: IntArray) -> tuple[csr_array, bool]:
    """The rarest shingles of each text, of which two near duplicates share one; those of one text alone left out."""
    owners = np.repeat(np.arange(len(sizes)), sizes)
    position = np.arange(table.nnz) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    needed = np.array([size - math.ceil(THRESHOLD * size - 1e-9) + 1 for size in sizes.tolist()], np.int64)
    kept = position < needed[owners]
    owners, columns = owners[kept], table.indices[kept]
    times = np.bincount(columns, minlength=1)[columns]
    useful = (times > 1) & (times <= CROWDED)
    ones = np.ones(int(useful.sum()), np.int32)
    prefixes = csr_array((ones, (owners[useful], columns[useful])), shape=table.shape)
    return prefixes, not bool((times > CROWDED).any())


def _candidates(prefixes: csr_array) -> Iterator[tuple[IntArray, IntArray]]:
    """Pairs of rows that share a column, block by block."""
    turned = csr_array(prefixes.T)
    work = prefixes @ np.diff(turned.indptr).astype(np.int64)
    blocks = (np.cumsum(work) // _STEP).astype(np.int64)
    busy = np.flatnonzero(work)
    for rows in np.split(busy, np.flatnonzero(np.diff(blocks[busy])) + 1):
        if len(rows):
            shared = (prefixes[rows] @ turned).tocoo()
            yield rows[shared.row], shared.col.astype(np.int64)


def _similarity(table: csr_array, sizes: IntArray, first: IntArray, second: IntArray) -> FloatArray:
    """Jaccard similarity of the sets in these rows."""
    parts = [np.empty(0)]
    blocks: NDArray[np.int64] = (np.cumsum(sizes[first]) // _STEP).astype(np.int64)
    for chosen in np.split(np.arange(len(first)), np.flatnonzero(np.diff(blocks)) + 1):
        if len(chosen):
            both = np.asarray((table[first[chosen]] * table[second[chosen]]).sum(1), np.float64)
            parts.append(both / (sizes[first[chosen]] + sizes[second[chosen]] - both))
    return np.concatenate(parts)
