"""Counterfactual IMDb: reviews, and the same reviews revised by people until their sentiment was the opposite."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array, diags_array

from shiftproof.domains.domain import Domains
from shiftproof.domains.registry import DOMAINS, DataSet
from shiftproof.domains.shingles import word_table
from shiftproof.domains.text_rows import TextRows, text_domains
from shiftproof.domains.text_sets import SENTIMENT, SPLITS, TextSet, read_file, rows_of_file
from shiftproof.types import IntArray

__all__ = ["CounterfactualIMDb"]

KINDS = {"original": "original", "counterfactual": "revised"}


@DOMAINS.register("cad-imdb", content="2,440 film reviews and their revisions to the opposite", kind="text")
@dataclass(frozen=True)
class CounterfactualIMDb(DataSet):
    """Film reviews as two domains: as written, and revised to the opposite sentiment with few changes.

    Kaushik, Hovy & Lipton, *Learning the Difference that Makes a Difference with Counterfactually-Augmented Data*, ICLR
    2020. A review and its revision are a group. The file does not say which belong together: two that have the same
    split, opposite labels, and are each the other's nearest by the words they share are taken for a pair.
    """

    files = ("cad_imdb.parquet",)
    layout = TextSet.layout

    def load(self) -> Domains:
        """Read the file from the data folder and find the pairs."""
        columns = read_file(self.name, self.files[0], ("text", "kind"))
        original, revised = (rows_of_file(columns, self.files[0], ("text",), SPLITS, ("kind", kind)) for kind in KINDS)
        names = dict(zip(revised.ids, revised.ids, strict=True))
        for first, second in _pairs(original, revised):
            names[revised.ids[second]] = original.ids[first]
        found = (replace(original, groups=original.ids), replace(revised, groups=[names[id_] for id_ in revised.ids]))
        return text_domains(self.name, SENTIMENT, dict(zip(KINDS.values(), found, strict=True)))


def _pairs(original: TextRows, revised: TextRows) -> list[tuple[int, int]]:
    """Numbers of an original and its revision: nearest to each other in their split, with opposite labels."""
    assert original.splits is not None
    assert revised.splits is not None
    words = _weighted(word_table([text for (text,) in (*original.texts, *revised.texts)]))
    found = []
    for split in set(original.splits):
        first = np.flatnonzero(np.array(original.splits) == split)
        second = np.flatnonzero(np.array(revised.splits) == split)
        if not len(second):
            continue
        shared = (words[first] @ words[second + len(original.texts)].T).toarray()
        nearest: IntArray = shared.argmax(1)
        mutual = shared.argmax(0)[nearest] == np.arange(len(first))
        found += [(int(a), int(b)) for a, b in zip(first[mutual], second[nearest[mutual]], strict=True)]
    return [(a, b) for a, b in found if original.labels[a] != revised.labels[b]]


def _weighted(counts: csr_array) -> csr_array:
    """Rows of length 1, in which a rare word weighs more than a frequent one."""
    texts = np.bincount(counts.indices, minlength=counts.shape[1])
    weighted = counts @ diags_array(np.log(counts.shape[0] / np.maximum(texts, 1)))
    lengths = np.sqrt(np.asarray((weighted * weighted).sum(1)))
    return csr_array(diags_array(1 / np.maximum(lengths, 1e-12)) @ weighted)
