"""Certificates, doubted: derived again from their record, asked again with fresh noise, and attacked.

Every check gives findings. A check that has nothing to say against a certificate has not proven it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from shiftproof.rng import derive
from shiftproof.runs.verification.again import ask_again, choose
from shiftproof.runs.verification.balls import attack_balls
from shiftproof.runs.verification.case import Case, finding
from shiftproof.runs.verification.record import check_record
from shiftproof.types import Finding

__all__ = ["Case", "verify"]


def verify(case: Case) -> list[Finding]:
    """All checks; what the record itself gives away is not asked again."""
    case = replace(case, certificates=replace(case.certificates, classes=case.job.classes))
    rows, found = case.certificates, list(check_record(case))
    if any(one.level == "fail" for one in found):
        return found
    held = np.flatnonzero((rows.radius > 0) & (rows.prediction >= 0) & ~rows.skipped)
    if not len(held):
        return [*found, finding("warn", "nothing-certified", case, "no certificate to ask again or attack")]
    certifier = case.certifier.as_recorded(rows)
    classifier = certifier.certified_classifier(replace(case.job, seed=derive(case.seed, "verify", case.name)))
    chosen = choose(case, classifier, held)
    return [*found, *ask_again(case, classifier, chosen, held), *attack_balls(case, classifier, chosen, len(held))]
