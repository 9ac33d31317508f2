"""Certificates of a run as logs that other tools read, logs/*.tsv."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator

import numpy as np

from shiftproof.certification.imported import NOT_STATED
from shiftproof.certification.logs import Log, write
from shiftproof.evidence import Evidence, Measurement, slug
from shiftproof.perturbations.edits import readable_radii

__all__ = ["certificate_logs"]


def certificate_logs(evidence: Evidence, *, named: bool = True) -> Iterator[tuple[str, bytes]]:
    """The logs of all certificates, one after the other, each with its path inside a run's folder; unless `named`,
    samples are counted from 0.

    What an unsound rule claims is left out: it would be taken for certified there.
    """
    certified = [one for one in evidence.where(probe="certify") if not one.fact("unsound")]
    shared = Counter(map(_name, certified))
    for one in certified:
        # certificates of one title may differ in options that it does not tell, such as when votes stop
        own = f" {hashlib.sha256(one.setting.encode()).hexdigest()[:8]}" if shared[_name(one)] > 1 else ""
        radii = readable_radii(one["radius"], str(one.fact("norm")))
        ids = one["id"] if named else np.arange(len(one)).astype(str).astype(object)
        log = Log(ids, one["label"], one["prediction"], radii)
        yield f"logs/{slug(_name(one) + own)}.tsv", write(log).encode()


def _name(one: Measurement) -> str:
    seed = one.fact("train_seed")
    model = one.model if seed is None else f"{one.model} seed {seed}"
    alpha = one.fact("alpha")
    return " ".join([model, one.domain, one.title, "alpha not stated" if alpha == NOT_STATED else f"alpha {alpha!r}"])
