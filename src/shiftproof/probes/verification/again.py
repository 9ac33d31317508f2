"""Certificates asked again: with fresh votes, with their own noise, or by the same computation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.stats import hypergeom

from shiftproof.certification.certifier import Memory
from shiftproof.certification.promise import Promise
from shiftproof.certification.sampling.budget import STOPPED
from shiftproof.probes.verification.case import SAME, WRONGLY_BROKEN, Case, finding
from shiftproof.rng import numpy_generator
from shiftproof.types import Finding, FloatArray, IntArray

__all__ = ["ask_again", "choose"]

GLANCES, GLANCE_VOTES = 512, 32
RECOMPUTED, RANK_STEP = 1e-4, 0.02
"""How much a recomputed radius may differ: another machine rounds otherwise."""
RECOMPUTED_ROWS, REPLAYED_VOTES = 20_000, 50_000


def choose(case: Case, promise: Promise, held: IntArray) -> IntArray:
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


def ask_again(case: Case, promise: Promise, chosen: IntArray, held: IntArray) -> Iterator[Finding]:
    """Fresh votes on the chosen rows, and a replay of a few; without votes, the same computation once more."""
    votes = case.certificates.ballots[:, chosen]
    recount = getattr(promise, "ballots", None)
    if not votes.size or recount is None:
        # without votes to draw, all rows are soon computed again; medians are drawn, and take longer
        yield _recomputed(case, chosen if case.certificates.classifier == "median" else held[:RECOMPUTED_ROWS])
        return
    fresh = recount(case.job.domain.take(chosen)[0])
    chance = _chance(votes, fresh)
    # an image that stopped early stopped at a good moment: its votes are allowed more luck
    luck = np.where(case.certificates.bound[chosen] == STOPPED, 1e-3, 1.0)
    odd = chance < WRONGLY_BROKEN / chance.size * luck[:, None]
    if odd.any():
        _, row, _ = np.unravel_index(int(np.argmin(chance)), chance.shape)
        message = (
            f"votes of {int(odd.any(axis=(0, 2)).sum())} of {len(chosen)} images can't have come from this classifier: "
            f"fresh votes on {case.certificates.ids[chosen[row]]} differ with a probability of {chance.min():.1e}"
        )
        yield finding("fail", "votes-differ", case, message, probability=float(chance.min()))
    else:
        drawn = int(fresh.sum(2).max())
        message = f"{len(chosen)} images asked again with {drawn:,} fresh votes each agree with what is recorded"
        yield finding("pass", "asked-again", case, message, probability=float(chance.min()))
    yield from _replayed(case, chosen)


def _replayed(case: Case, chosen: IntArray) -> Iterator[Finding]:
    """A few rows with the very noise that certified them: small changes of many votes show here."""
    most = max(1, int(case.certificates.n.max()))
    few = chosen[: max(1, REPLAYED_VOTES // most)]
    domain = case.job.domain.subset(few)
    again = case.certifier.certify(replace(case.job, domain=domain, record=Memory(), workers=1, progress="off"))
    stored = case.certificates.subset(few)
    constant = (stored.constant is None) == (again.constant is None)
    if not constant or abs((stored.constant or 0.0) - (again.constant or 0.0)) > 1e-6 * (again.constant or 1.0):
        message = f"rows have the constant {stored.constant}, the encoder {again.constant}"
        yield finding("fail", "constant-differs", case, message)
    before, now = stored.ballots, again.ballots
    apart = np.abs(before[..., 1:] - now[..., 1:]).max((0, 2))
    # another processor may round a vote of those that are near a boundary to the other side, either one
    allowed = 2 + 0.02 * (before[..., 3] - before[..., 1]).max(0)
    flattering = np.asarray((before[..., 1] > now[..., 1]).any(0))
    one_way = flattering[apart > 0].all() and 0.5 ** int(flattering.sum()) < WRONGLY_BROKEN
    if (apart > allowed).any() or one_way:
        worst = int(np.argmax(apart))
        message = (
            f"the noise that certified {stored.ids[worst]} gives {int(apart[worst])} other votes than are recorded"
        )
        yield finding("fail", "replay-differs", case, message)
    elif apart.any():
        message = (
            f"{int((apart > 0).sum())} of {len(few)} replayed images differ by up to {int(apart.max())} votes, "
            "as they may where another processor rounds"
        )
        yield finding("warn", "replay-rounds", case, message)
    else:
        yield finding("pass", "replayed", case, f"{len(few)} images replayed with their own noise give the same votes")


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
    # a median that is rounded otherwise may fall on the next rank
    near = RANK_STEP if stored.classifier == "median" else RECOMPUTED
    # the allowance for rounding is measured on some samples, and on a part of them comes out a little otherwise
    rounding = 4 * float(again.details.get("rounding", 0.0)) / max(again.constant or 1.0, 1e-12)
    larger = stored.radius > again.radius * (1 + near) + rounding + SAME
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
