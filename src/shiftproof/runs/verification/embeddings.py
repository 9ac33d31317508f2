"""Certified texts whose embeddings are moved: no farther than their certificates allow."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from shiftproof.attacks.embedding_pgd import EmbeddingPGD
from shiftproof.attacks.smoothed_texts import SmoothedTexts
from shiftproof.attacks.victim import frozen
from shiftproof.certification import Certificates
from shiftproof.certification.certified_classifier import CertifiedVote, Judgement
from shiftproof.perturbations.embedding import EmbeddingThreat
from shiftproof.rng import torch_generator
from shiftproof.runs.verification.case import Case
from shiftproof.runs.verification.shifts import judge_shifts
from shiftproof.types import FloatArray

__all__ = ["move_embeddings"]


def move_embeddings(
    case: Case, classifier: CertifiedVote, rows: Certificates, inputs: Tensor, radii: FloatArray
) -> Judgement:
    """The smallest lead of certified classes over moved embeddings within the radii, and where another class wins.

    One change a text follows the gradient of the vote's scores; twice `case.directions` are random ones at the edge.
    """
    shifts = list(_shifts(case, classifier, rows, inputs, torch.from_numpy(radii).to(inputs)))
    return judge_shifts(classifier, rows, inputs, [one.double().cpu().numpy() for one in shifts])


def _shifts(
    case: Case, classifier: CertifiedVote, rows: Certificates, inputs: Tensor, radii: Tensor
) -> Iterator[Tensor]:
    threat, labels = EmbeddingThreat("l2", 1.0), torch.from_numpy(rows.prediction)
    attack = EmbeddingPGD(threat, steps=case.steps, loss="margin", early_exit=False)
    with frozen(classifier.model):
        # one at a time: texts are of different lengths, and scores take many copies of each
        worst = []
        for row in range(len(rows)):
            text = SmoothedTexts.seen_by(classifier, inputs[row : row + 1])
            points = attack.worst(text, labels[row : row + 1], radii[row : row + 1], [])
            worst.append(text.shifts(points).detach())
        yield torch.cat(worst)
        texts = SmoothedTexts.seen_by(classifier, inputs)
        start = texts.embed().detach()
        for number in range(2 * case.directions):
            own = [torch_generator(case.seed, "verify", "embeddings", number, str(one)) for one in rows.ids]
            inside = threat.random_start(texts.movable, start.shape[-1], radii, own).to(start)
            # to the edge, where there is a token to move
            norms = threat.size(inside).clamp(min=torch.finfo(start.dtype).tiny)
            yield texts.shifts(start + inside * (radii / norms)[:, None, None]).detach()
