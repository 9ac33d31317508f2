"""Certified balls, attacked from inside."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from shiftproof.attacks import craft
from shiftproof.attacks.attack import overturn
from shiftproof.attacks.pgd import PGD
from shiftproof.attacks.spatial import Spatial
from shiftproof.certification import Certificates
from shiftproof.certification.certified_classifier import CertifiedClassifier, CertifiedVote, Judgement
from shiftproof.certification.refute import INSIDE
from shiftproof.perturbations.deformation import Deformation
from shiftproof.perturbations.noise import NOISES
from shiftproof.perturbations.threat import Threat
from shiftproof.rng import numpy_generator
from shiftproof.runs.verification.case import WRONGLY_BROKEN, Case, finding
from shiftproof.runs.verification.edits import edit_texts
from shiftproof.runs.verification.embeddings import move_embeddings
from shiftproof.runs.verification.shifts import judge_shifts
from shiftproof.types import Finding, FloatArray, IntArray

__all__ = ["attack_balls"]


def attack_balls(case: Case, classifier: CertifiedClassifier, chosen: IntArray, held: int) -> Iterator[Finding]:
    """The strongest attempt to change a chosen row's class inside its radius; `held` certificates there are in all."""
    rows = case.certificates.subset(chosen)
    inputs = case.job.domain.take(chosen)[0]
    if rows.norm == "edits":
        lead, broken = edit_texts(case, classifier, rows, inputs)
        where = "by no more edits than they allow, by a greedy search and at random"
    elif isinstance(classifier, CertifiedVote) and classifier.noise.embedded:
        lead, broken = move_embeddings(case, classifier, rows, inputs, rows.radius * INSIDE)
        where = "inside their balls of embeddings, by gradient and at random"
    elif isinstance(classifier, CertifiedVote) and not classifier.noise.additive:
        lead, broken = _shifted(case, classifier, rows, inputs)
        where = "inside their radii, by a search over parameters and at random ones"
    elif rows.norm in ("l2", "linf", "l1"):
        attack = PGD(Threat(rows.norm, 1.0), steps=case.steps, directions=case.directions, loss="margin")  # type: ignore[arg-type]
        radii = torch.from_numpy(np.minimum(rows.radius * INSIDE, np.sqrt(inputs[0].numel())))
        attacked = craft(
            classifier, inputs, torch.from_numpy(rows.prediction), attack, radii=radii, ids=rows.ids, seed=case.seed
        )
        lead, broken = classifier.judge(attacked, rows.prediction, WRONGLY_BROKEN / len(rows))
        where = f"inside their {rows.norm} balls, by gradient and at random"
    else:
        yield finding("warn", "not-attacked", case, f"there is no attack in {rows.norm}")
        return
    worst = int(np.argmin(lead))
    strongest = (
        f"the strongest attempt leaves {rows.ids[worst]} (radius {rows.radius[worst]:.4g}) a lead of {lead[worst]:.3g}"
    )
    evidence = {"lead": float(lead[worst]), "sample": str(rows.ids[worst]), "broken": int(broken.sum())}
    if broken.sum() > rows.alpha * held:
        message = f"{int(broken.sum())} of {len(rows)} certificates are broken {where}; {strongest}"
        yield finding("fail", "broken", case, message, **evidence)
    elif broken.any():
        message = (
            f"{int(broken.sum())} of {len(rows)} certificates are broken {where}, no more than alpha {rows.alpha:g} "
            f"lets expect of {held}; {strongest}"
        )
        yield finding("warn", "broken-as-expected", case, message, **evidence)
    else:
        message = f"{len(rows)} certificates attacked {where}: none is broken; {strongest}"
        yield finding("pass", "attacked", case, message, **evidence)


def _shifted(case: Case, classifier: CertifiedVote, rows: Certificates, inputs: torch.Tensor) -> Judgement:
    """Deformations inside the one interpolation: the worst that a search finds, and random ones at the edge."""
    radii = rows.radius * INSIDE
    # a noise from outside the catalogue has no name by which to search
    known = NOISES.name_of(classifier.noise) in NOISES
    tried = [_worst_shifts(case, classifier, rows, inputs, radii)] if known else []
    generator = numpy_generator(case.seed, "verify", "shifts", case.name)
    size = classifier.noise.size(tuple(inputs.shape[1:]))
    for _ in range(2 * case.directions):
        direction = generator.standard_normal((len(rows), size))
        norms = np.abs(direction).sum(1) if rows.norm == "l1" else np.linalg.norm(direction, axis=1)
        tried.append(direction / norms[:, None] * radii[:, None])
    return judge_shifts(classifier, rows, inputs, tried)


def _worst_shifts(
    case: Case, classifier: CertifiedVote, rows: Certificates, inputs: torch.Tensor, radii: FloatArray
) -> FloatArray:
    attack = Spatial(Deformation.of(classifier.noise, 0.0))
    labels, within = torch.from_numpy(rows.prediction), torch.from_numpy(radii).to(inputs)
    found = overturn(classifier, inputs, labels, attack, radii=within, ids=rows.ids, seed=case.seed)
    return found.parameters.double().cpu().numpy()
