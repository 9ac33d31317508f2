"""Certified texts, edited: no more words than their certificates allow."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from shiftproof.attacks import craft
from shiftproof.attacks.word_edits import COMMON, WordEdits
from shiftproof.certification import Certificates
from shiftproof.certification.certified_classifier import CertifiedClassifier, Judgement
from shiftproof.perturbations.text import BETWEEN, decode, encode, joined, words_of
from shiftproof.rng import numpy_generator
from shiftproof.runs.verification.case import WRONGLY_BROKEN, Case
from shiftproof.types import FloatArray

__all__ = ["edit_texts"]


def edit_texts(case: Case, classifier: CertifiedClassifier, rows: Certificates, inputs: Tensor) -> Judgement:
    """The smallest lead of a certified class over texts within its number of edits, and where another class wins.

    One text a row is found by a greedy search, `case.directions` have random words deleted, replaced and put in.
    """
    # a radius is the number of edits and a little more
    edits = np.floor(rows.radius)
    labels = torch.from_numpy(rows.prediction)
    attack = WordEdits("edits:1", positions=32, tried=3, early_exit=False)  # type: ignore[arg-type]
    greedy = craft(classifier, inputs, labels, attack, radii=torch.from_numpy(edits), ids=rows.ids, seed=case.seed)
    tried = [greedy, *(_edited_at_random(case, inputs, edits, number) for number in range(case.directions))]
    level = WRONGLY_BROKEN / len(rows) / len(tried)
    judged = [classifier.judge(texts, rows.prediction, level) for texts in tried]
    return Judgement(np.min([one.lead for one in judged], axis=0), np.any([one.disproved for one in judged], axis=0))


def _edited_at_random(case: Case, inputs: Tensor, edits: FloatArray, number: int) -> Tensor:
    generator = numpy_generator(case.seed, "verify", "edits", case.name, number)
    width = inputs.shape[1]
    edited = [_edit(text, int(most), width, generator) for text, most in zip(decode(inputs), edits, strict=True)]
    return encode(edited, width)


def _edit(text: str, most: int, width: int, generator: np.random.Generator) -> str:
    """A text after at most so many random edits; those that would make it too long are left out."""
    for _ in range(most):
        words = words_of(text)
        place = int(generator.integers(0, len(words) + 1))
        new, kind = [str(generator.choice(COMMON))], int(generator.integers(0, 3))
        stays = kind == 2 or words[place : place + 1] == [chr(BETWEEN)]
        edited = joined([*words[:place], *(new if kind else []), *words[place + (not stays) :]])
        text = edited if len(edited.encode()) <= width else text
    return text
