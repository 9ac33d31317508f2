"""A certified vote asked where parameters of its noise are shifted."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from torch import Tensor

from shiftproof.certification import Certificates
from shiftproof.certification.certified_classifier import CertifiedVote, Judgement, behind, lead_of
from shiftproof.runs.verification.case import WRONGLY_BROKEN
from shiftproof.types import FloatArray

__all__ = ["judge_shifts"]


def judge_shifts(
    classifier: CertifiedVote, rows: Certificates, inputs: Tensor, tried: Iterable[FloatArray]
) -> Judgement:
    """The smallest lead of certified classes over all shifts that were tried (each N x size), and where they lose."""
    every = list(tried)
    counts = [classifier.counts(inputs, shifts) for shifts in every]
    level = WRONGLY_BROKEN / len(rows) / len(every)
    leads = [lead_of(votes / classifier.votes, rows.prediction) for votes in counts]
    broken = [behind(votes, rows.prediction, level) for votes in counts]
    return Judgement(np.min(leads, axis=0), np.any(broken, axis=0))
