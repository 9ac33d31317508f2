"""Certificates, doubted: derived again from their record, asked again with fresh noise, and attacked.

Every check gives findings. A check that has nothing to say against a certificate has not proven it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.stats import hypergeom

from shiftproof.attacks import craft
from shiftproof.attacks.pgd import PGD
from shiftproof.certification import Certificates, Certifier, Job
from shiftproof.certification.certifier import Memory
from shiftproof.certification.promise import Promise, SmoothedPromise, behind, lead_of
from shiftproof.certification.sampling.budget import STOPPED
from shiftproof.perturbations.threat import Threat
from shiftproof.rng import derive, numpy_generator
from shiftproof.types import Finding, FloatArray, IntArray

__all__ = ["Case", "verify"]

WRONGLY_BROKEN = 1e-6
"""The probability that sound certificates of a case are called broken by chance, for each of the random checks."""

INSIDE = 1 - 1e-3
"""Attacks stay this much inside the ball: float32 rounds distances."""

GLANCES, GLANCE_VOTES = 512, 32
SAME = 1e-9
RECOMPUTED = 0.02
"""How much a recomputed radius may differ: another machine rounds otherwise."""


@dataclass(frozen=True, eq=False)
class Case:
    """The certificates of one model on one domain by one certifier, with what made them.

    `job` holds the seed that certified; `seed` is fresh. `part` is how many certificates are asked again and attacked.
    """

    name: str
    certificates: Certificates
    certifier: Certifier
    job: Job
    seed: int
    part: int = 24

    steps: ClassVar[int] = 10
    directions: ClassVar[int] = 4


def verify(case: Case) -> list[Finding]:
    """All checks; what the record itself gives away is not asked again."""
    found = list(_record(case))
    if any(one.code == "unsound-rule" for one in found):
        return found
    rows = case.certificates
    held = np.flatnonzero((rows.radius > 0) & (rows.prediction >= 0) & ~rows.skipped)
    if not len(held):
        return [*found, _finding("warn", "nothing-certified", case, "no certificate to ask again or attack")]
    promise = case.certifier.promise(replace(case.job, seed=derive(case.seed, "verify", case.name)))
    chosen = _part(case, promise, held)
    return [*found, *_asked_again(case, promise, chosen), *_attacked(case, promise, chosen)]


def _record(case: Case) -> Iterator[Finding]:
    """What follows from the columns alone."""
    certificates, certifier = case.certificates, case.certifier
    if certificates.unsound or getattr(certifier, "unsound", ""):
        rule = certificates.unsound or getattr(certifier, "unsound", "")
        claimed = int((certificates.radius > 0).sum())
        message = f"{claimed} radii are claimed by the rule {rule!r}, which proves nothing"
        yield _finding("fail", "unsound-rule", case, message)
        return
    settings_alpha = getattr(certifier, "alpha", 0.0)
    if certificates.alpha > 0 and certificates.alpha != settings_alpha:
        message = f"rows say alpha {certificates.alpha:g}, the certifier {settings_alpha:g}"
        yield _finding("fail", "alpha-differs", case, message)
    levels = getattr(certifier, "levels", None)
    if levels is not None and certificates.levels is not None:
        expected, recorded = levels(certificates.classes), certificates.levels
        pairs = [(getattr(recorded, name), getattr(expected, name)) for name in vars(expected)]
        # rows of one kind only know the levels of their own bound
        if any(seen > 0 and abs(seen - due) > SAME * due for seen, due in pairs):
            yield _finding("fail", "levels-differ", case, f"rows have {recorded}, the budget gives {expected}")
    n, count, rival = certificates.n, certificates.count, certificates.runner_up_count
    odd = (count < 0) | (rival < 0) | (count + rival > n) | (n < 0)
    if odd.any():
        yield _finding("fail", "impossible-counts", case, f"{_first(case, odd)} has votes that can't be")
    nobody = (certificates.radius > 0) & (certificates.prediction < 0)
    if nobody.any():
        yield _finding("fail", "no-class", case, f"{_first(case, nobody)} has a radius but no class")
    derived = case.certifier.rederive(certificates)
    stored = np.where(certificates.prediction >= 0, certificates.radius, 0.0)
    stored = np.where(certificates.skipped, 0.0, stored)
    inflated = stored > derived * (1 + SAME) + SAME
    if inflated.any():
        worst = int(np.argmax(stored - derived))
        message = (
            f"{int(inflated.sum())} radii are larger than their record gives, such as that of "
            f"{certificates.ids[worst]}: {stored[worst]:.4g} instead of {derived[worst]:.4g}"
        )
        yield _finding("fail", "radius-inflated", case, message, worst=float((stored - derived).max()))
    elif not odd.any():
        yield _finding("pass", "record", case, f"all {len(certificates):,} radii follow from what is recorded")


def _part(case: Case, promise: Promise, held: IntArray) -> IntArray:
    """Rows that are asked again and attacked: half of them those that look worst at a glance, half at random."""
    if len(held) <= case.part:
        return held
    generator = numpy_generator(case.seed, "verify", "part", case.name)
    order = generator.permutation(held)
    glanced = np.sort(order[:GLANCES])
    worst = glanced[np.argsort(-_doubt(case, promise, glanced), kind="stable")[: case.part // 2]]
    others = order[~np.isin(order, worst)][: case.part - len(worst)]
    return np.sort(np.concatenate([worst, others]))


def _doubt(case: Case, promise: Any, rows: IntArray) -> FloatArray:
    """How much better the record of each row is than a few fresh votes; without votes, its radius."""
    votes = case.certificates.ballots[:, rows]
    if not votes.size or not hasattr(promise, "ballots"):
        return case.certificates.radius[rows]
    fresh = replace(promise, votes=GLANCE_VOTES).ballots(case.job.domain.take(rows)[0])
    chosen, count, _, n = (votes[..., k] for k in range(4))
    share = np.take_along_axis(fresh, chosen[..., None], 2)[..., 0] / GLANCE_VOTES
    return np.asarray((count / np.maximum(n, 1) - share).max(0))


def _asked_again(case: Case, promise: Promise, chosen: IntArray) -> Iterator[Finding]:
    votes = case.certificates.ballots[:, chosen]
    recount = getattr(promise, "ballots", None)
    if not votes.size or recount is None:
        yield _recomputed(case, chosen)
        return
    fresh = recount(case.job.domain.take(chosen)[0])
    chance = _chance(votes, fresh)
    # an image that stopped early stopped at a good moment: its votes are allowed more luck
    luck = np.where(case.certificates.bound[chosen] == STOPPED, 1e-3, 1.0)
    level = WRONGLY_BROKEN / chance.size
    odd = chance < level * luck[:, None]
    if odd.any():
        _, row, _ = np.unravel_index(int(np.argmin(chance)), chance.shape)
        message = (
            f"votes of {int(odd.any(axis=(0, 2)).sum())} of {len(chosen)} images can't have come from this classifier: "
            f"fresh votes on {case.certificates.ids[chosen[row]]} differ with a probability of {chance.min():.1e}"
        )
        yield _finding("fail", "votes-differ", case, message, probability=float(chance.min()))
    else:
        drawn = int(fresh.sum(2).max())
        message = f"{len(chosen)} images asked again with {drawn:,} fresh votes each agree with what is recorded"
        yield _finding("pass", "asked-again", case, message, probability=float(chance.min()))


def _chance(votes: IntArray, fresh: IntArray) -> FloatArray:
    """How probable votes (sigmas x images x 4) at least this good are, given fresh ones (sigmas x images x classes).

    For the class too many, for the runner-up too few: sigmas x images x 2. Given how many of all votes there were for a
    class, each vote is as likely to be an old one as any other.
    """
    chosen, count, rival, n = (votes[..., k] for k in range(4))
    own = np.take_along_axis(fresh, chosen[..., None], 2)[..., 0]
    others = fresh.copy()
    np.put_along_axis(others, chosen[..., None], -1, 2)
    largest, m = others.max(2), fresh.sum(2)
    many = hypergeom.sf(count - 1, n + m, count + own, n)
    few = hypergeom.cdf(rival, n + m, rival + largest, n)
    return np.stack([many, few], 2)


def _recomputed(case: Case, chosen: IntArray) -> Finding:
    """For certificates that count no votes: the same computation once more."""
    domain = case.job.domain.subset(chosen)
    again = case.certifier.certify(replace(case.job, domain=domain, record=Memory(), workers=1, progress="off"))
    stored = case.certificates.subset(chosen)
    larger = stored.radius > again.radius * (1 + RECOMPUTED) + SAME
    if larger.any() or (stored.prediction != again.prediction)[again.prediction >= 0].any():
        worst = int(np.argmax(stored.radius - again.radius))
        message = (
            f"{int(larger.sum())} of {len(chosen)} certificates come out smaller when they are computed again, such as "
            f"that of {stored.ids[worst]}: {again.radius[worst]:.4g} instead of {stored.radius[worst]:.4g}"
        )
        return _finding("fail", "recomputed-smaller", case, message)
    return _finding("pass", "asked-again", case, f"{len(chosen)} certificates were computed again and came out alike")


def _attacked(case: Case, promise: Promise, chosen: IntArray) -> Iterator[Finding]:
    rows = case.certificates.subset(chosen)
    inputs = case.job.domain.take(chosen)[0]
    noise = getattr(promise, "noise", None)
    if isinstance(promise, SmoothedPromise) and noise is not None and not noise.additive:
        lead, broken = _shifted(case, promise, rows, inputs)
        where = "inside their radii, at random parameters"
    elif rows.norm in ("l2", "linf", "l1"):
        attack = PGD(Threat(rows.norm, 1.0), steps=case.steps, directions=case.directions, loss="margin")  # type: ignore[arg-type]
        radii = torch.from_numpy(np.minimum(rows.radius * INSIDE, np.sqrt(inputs[0].numel())))
        attacked = craft(
            promise, inputs, torch.from_numpy(rows.prediction), attack, radii=radii, ids=rows.ids, seed=case.seed
        )
        lead = promise.lead(attacked, rows.prediction)
        broken = promise.refuted(attacked, rows.prediction, WRONGLY_BROKEN / len(rows))
        where = f"inside their {rows.norm} balls, by gradient and at random"
    else:
        yield _finding("warn", "not-attacked", case, f"there is no attack in {rows.norm}")
        return
    worst = int(np.argmin(lead))
    strongest = (
        f"the strongest attempt leaves {rows.ids[worst]} (radius {rows.radius[worst]:.4g}) a lead of {lead[worst]:.3g}"
    )
    evidence = {"lead": float(lead[worst]), "sample": str(rows.ids[worst]), "broken": int(broken.sum())}
    if broken.any():
        message = f"{int(broken.sum())} of {len(rows)} certificates are broken {where}; {strongest}"
        yield _finding("fail", "broken", case, message, **evidence)
    else:
        message = f"{len(rows)} certificates attacked {where}: none is broken; {strongest}"
        yield _finding("pass", "attacked", case, message, **evidence)


def _shifted(case: Case, promise: SmoothedPromise, rows: Certificates, inputs: torch.Tensor) -> Any:
    """Deformations: random parameters at the edge of what is certified, inside the one interpolation."""
    generator = numpy_generator(case.seed, "verify", "shifts", case.name)
    size = promise.noise.size(tuple(inputs.shape[1:]))
    leads, broken = [], []
    for _ in range(2 * case.directions):
        direction = generator.standard_normal((len(rows), size))
        norms = np.abs(direction).sum(1) if rows.norm == "l1" else np.linalg.norm(direction, axis=1)
        shifts = direction / norms[:, None] * rows.radius[:, None] * INSIDE
        counts = promise.counts(inputs, shifts)
        leads.append(lead_of(counts / promise.votes, rows.prediction))
        broken.append(behind(counts, rows.prediction, WRONGLY_BROKEN / len(rows) / (2 * case.directions)))
    return np.min(leads, axis=0), np.any(broken, axis=0)


def _first(case: Case, mask: Any) -> str:
    return str(case.certificates.ids[int(np.argmax(mask))])


def _finding(level: Any, code: str, case: Case, message: str, **evidence: Any) -> Finding:
    return Finding(level, code, f"{case.name}: {message}", evidence)
