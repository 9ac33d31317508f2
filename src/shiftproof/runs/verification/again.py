"""Certificates asked again: with fresh votes, with their own noise, or by the same computation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.stats import hypergeom

from shiftproof.certification.certified_classifier import CertifiedClassifier
from shiftproof.certification.certifier import Memory
from shiftproof.certification.certifiers.median_classifier import CertifiedMedian
from shiftproof.rng import numpy_generator
from shiftproof.runs.verification.case import SAME, WRONGLY_BROKEN, Case, finding
from shiftproof.runs.verification.replay import replayed_medians, replayed_votes
from shiftproof.types import Finding, FloatArray, IntArray

__all__ = ["ask_again", "choose"]

GLANCES, GLANCE_VOTES = 512, 32
RECOMPUTED = 1e-4
"""How much a recomputed radius may differ: another machine rounds otherwise."""
RECOMPUTED_ROWS, REPLAYED_VOTES = 20_000, 50_000


def choose(case: Case, classifier: CertifiedClassifier, held: IntArray) -> IntArray:
    """Rows that are asked again and attacked: half of them those that look worst at a glance, half at random."""
    if len(held) <= case.part:
        return held
    generator = numpy_generator(case.seed, "verify", "part", case.name)
    order = generator.permutation(held)
    glanced = np.sort(order[:GLANCES])
    worst = glanced[np.argsort(-_doubt(case, classifier, glanced), kind="stable")[: case.part // 2]]
    others = order[~np.isin(order, worst)][: case.part - len(worst)]
    return np.sort(np.concatenate([worst, others]))


def _doubt(case: Case, classifier: CertifiedClassifier, rows: IntArray) -> FloatArray:
    """How much better the record of each row is than a few fresh votes; without votes, its radius."""
    votes = case.certificates.ballots[:, rows]
    if not votes.size or not classifier.counts_votes:
        return case.certificates.radius[rows]
    quick: Any = classifier
    fresh = replace(quick, votes=GLANCE_VOTES).ballots(case.job.domain.take(rows)[0])
    chosen, count, _, n = (votes[..., k] for k in range(4))
    share = np.take_along_axis(fresh, chosen[..., None], 2)[..., 0] / GLANCE_VOTES
    return np.asarray((count / np.maximum(n, 1) - share).max(0))


def ask_again(case: Case, classifier: CertifiedClassifier, chosen: IntArray, held: IntArray) -> Iterator[Finding]:
    """Fresh votes on the chosen rows, and a replay of a few; without votes, the same computation once more."""
    votes = case.certificates.ballots[:, chosen]
    if not votes.size or not classifier.counts_votes:
        # without votes to draw, all rows are soon computed again; medians take longer
        if isinstance(classifier, CertifiedMedian):
            yield _medians_again(case, classifier, chosen)
        else:
            yield from _classes_again(case, classifier, held[:RECOMPUTED_ROWS])
            yield _recomputed(case, held[:RECOMPUTED_ROWS])
        return
    fresh = classifier.ballots(case.job.domain.take(chosen)[0])
    chance = _chance(votes, fresh, case.slack)
    # an image that stopped early stopped at a good moment: its votes are allowed more luck
    luck = np.where(case.certificates.bound[chosen] == "sequence", 1e-3, 1.0)
    odd = chance < WRONGLY_BROKEN / chance.size * luck[:, None]
    if odd.any():
        _, row, _ = np.unravel_index(int(np.argmin(chance)), chance.shape)
        message = (
            f"votes of {int(odd.any(axis=(0, 2)).sum())} of {len(chosen)} samples can't have come from this classifier"
            f": fresh votes on {case.certificates.ids[chosen[row]]} differ with a probability of {chance.min():.1e}"
        )
        yield finding("fail", "votes-differ", case, message, probability=float(chance.min()))
    else:
        drawn = int(fresh.sum(2).max())
        message = f"{len(chosen)} samples asked again with {drawn:,} fresh votes each agree with what is recorded"
        yield finding("pass", "asked-again", case, message, probability=float(chance.min()))
    yield from _replayed(case, classifier, chosen)


def _replayed(case: Case, classifier: CertifiedClassifier, chosen: IntArray) -> Iterator[Finding]:
    """A few rows with the very noise that certified them: small changes of many votes show here."""
    most = max(1, int(case.certificates.n.max()))
    few = chosen[: max(1, REPLAYED_VOTES // most)]
    stored = case.certificates.subset(few)
    before, voters = stored.ballots, classifier.voters
    if not voters:
        # noise on a representation: there the certifier itself is asked, which evaluates the model as it is
        domain = case.job.domain.subset(few)
        again = case.certifier.certify(
            replace(case.job, domain=domain, record=Memory(), compute=case.job.compute.alone(), progress="off")
        )
        if not _same_constant(stored.constant, again.constant):
            message = f"rows have the constant {stored.constant}, the encoder {again.constant}"
            yield finding("fail", "constant-differs", case, message)
        now = again.ballots[..., 1:3]
    else:
        votes = replayed_votes(voters, case.job.domain.take(few)[0], case.job.seed, before[..., 3])
        now = np.stack(_of_class(votes, before[..., 0]), 2)
    apart = np.abs(before[..., 1:3] - now).max((0, 2))
    # another processor may round a vote of those that are near a boundary to the other side, either one
    allowed = 2 + (0.02 + case.slack) * (before[..., 3] - before[..., 1]).max(0) + case.slack * before[..., 3].max(0)
    flattering = np.asarray((before[..., 1] > now[..., 0]).any(0))
    one_way = not case.slack and flattering[apart > 0].all() and 0.5 ** int(flattering.sum()) < WRONGLY_BROKEN
    if (apart > allowed).any() or one_way:
        worst = int(np.argmax(apart))
        message = (
            f"the noise that certified {stored.ids[worst]} gives {int(apart[worst])} other votes than are recorded"
        )
        yield finding("fail", "replay-differs", case, message)
    elif apart.any():
        message = (
            f"{int((apart > 0).sum())} of {len(few)} replayed samples differ by up to {int(apart.max())} votes, "
            "as they may where another computation rounds"
        )
        yield finding("warn", "replay-rounds", case, message)
    else:
        yield finding("pass", "replayed", case, f"{len(few)} samples replayed with their own noise give the same votes")


def _same_constant(stored: float | None, now: float | None) -> bool:
    return (stored is None) == (now is None) and abs((stored or 0.0) - (now or 0.0)) <= 1e-6 * (now or 1.0)


def _of_class(votes: IntArray, classes: IntArray) -> tuple[IntArray, IntArray]:
    """Of votes (sigmas x images x K): those for the given classes, and for the best others (sigmas x images)."""
    own = np.take_along_axis(votes, classes[..., None], 2)[..., 0]
    others = votes.copy()
    np.put_along_axis(others, classes[..., None], -1, 2)
    return own, others.max(2)


def _chance(votes: IntArray, fresh: IntArray, slack: float) -> FloatArray:
    """How probable votes (sigmas x images x 4) at least this good are, given fresh ones (sigmas x images x classes).

    For the class too many, for the runner-up too few: sigmas x images x 2. Given how many of all votes there were for a
    class, each vote is as likely to be an old one as any other.
    """
    chosen, count, rival, n = (votes[..., k] for k in range(4))
    (own, largest), m = _of_class(fresh, chosen), fresh.sum(2)
    # what was computed in fewer bits may differ by a little from what the model says
    count = np.maximum(count - np.ceil(slack * n), 0).astype(np.int64)
    rival = np.minimum(rival + np.ceil(slack * n), n).astype(np.int64)
    many = hypergeom.sf(count - 1, n + m, count + own, n)
    few = hypergeom.cdf(rival, n + m, rival + largest, n)
    return np.stack([many, few], 2)


def _medians_again(case: Case, classifier: CertifiedMedian, chosen: IntArray) -> Finding:
    """Medians of the samples that certified, by the model itself: does the class win between their ranks?"""
    rows = case.certificates.subset(chosen)
    samples = case.certifier.votes
    # what is rounded otherwise may fall on the next rank
    ranks = np.minimum(rows.count + max(1, round(case.slack * samples)), samples // 2)
    inputs = case.job.domain.take(chosen)[0]
    held = replayed_medians(classifier, case.certifier, inputs, case.job.seed, ranks, rows.prediction)
    if not held.all():
        worst = int(np.argmin(held))
        message = (
            f"{int((~held).sum())} of {len(chosen)} certificates come out otherwise when they are computed again, "
            f"such as that of {rows.ids[worst]}: between its ranks another class than {rows.prediction[worst]} may win"
        )
        return finding("fail", "recomputed-otherwise", case, message)
    return finding("pass", "asked-again", case, f"{len(chosen)} certificates were computed again and came out alike")


def _classes_again(case: Case, classifier: CertifiedClassifier, held: IntArray) -> Iterator[Finding]:
    """Whether the classifier of which the certificates speak gives the certified classes at the samples themselves."""
    rows, domain = case.certificates.subset(held), case.job.domain
    pieces = np.array_split(held, max(1, len(held) // 256))
    answers = np.concatenate([classifier.answers(domain.take(piece)[0]).cpu().numpy() for piece in pieces])
    other = answers != rows.prediction
    if other.any():
        worst = int(np.argmax(other))
        message = (
            f"{int(other.sum())} of {len(held)} samples get another class from the model itself than is certified, "
            f"such as {rows.ids[worst]}: {answers[worst]} instead of {rows.prediction[worst]}"
        )
        yield finding("fail", "class-differs", case, message)


def _recomputed(case: Case, chosen: IntArray) -> Finding:
    """For certificates that count no votes: the same computation once more."""
    domain = case.job.domain.subset(chosen)
    again = case.certifier.certify(
        replace(case.job, domain=domain, record=Memory(), compute=case.job.compute.alone(), progress="off")
    )
    stored = case.certificates.subset(chosen)
    # the allowance for rounding is measured on some samples, and on a part of them comes out a little otherwise
    rounding = 4 * float(again.details.get("rounding", 0.0)) / max(again.constant or 1.0, 1e-12)
    larger = stored.radius > again.radius * (1 + RECOMPUTED) + rounding + SAME
    other = (stored.prediction != again.prediction) & ~larger & (again.prediction >= 0) & (stored.radius > rounding)
    if larger.any() or other.any():
        worst = int(np.argmax(np.where(larger | other, stored.radius - again.radius + other, -np.inf)))
        message = (
            f"{int((larger | other).sum())} of {len(chosen)} certificates come out otherwise when they are computed "
            f"again, such as that of {stored.ids[worst]}: class {again.prediction[worst]} within "
            f"{again.radius[worst]:.4g} instead of class {stored.prediction[worst]} within {stored.radius[worst]:.4g}"
        )
        return finding("fail", "recomputed-otherwise", case, message)
    return finding("pass", "asked-again", case, f"{len(chosen)} certificates were computed again and came out alike")
