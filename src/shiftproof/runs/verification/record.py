"""Radii derived again from their record; no classifier is asked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from textwrap import shorten
from typing import Any

import numpy as np

from shiftproof.certification.certified_classifier import Mask
from shiftproof.certification.plain_votes import EMBEDDING_STEPS, PIXEL_STEPS, TokenPlaces, token_places
from shiftproof.errors import ShiftproofError
from shiftproof.runs.verification.case import SAME, Case, finding
from shiftproof.types import Finding, FloatArray

__all__ = ["check_record"]

# a number that stands alone: digits inside a hash are none
_NUMBER = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?![\w.]*\w)")


def check_record(case: Case) -> Iterator[Finding]:
    """What follows from the columns, the certifier and the samples; no classifier is asked."""
    rows, certifier = case.certificates, case.certifier
    rule = rows.unsound or certifier.unsound
    if rule:
        claimed = int((rows.radius > 0).sum())
        message = f"{claimed} radii are claimed by the rule {rule!r}, which proves nothing"
        yield finding("fail", "unsound-rule", case, message)
        return
    faults = [(code, mask, what) for code, mask, what in _impossible(case) if mask.any()]
    for code, mask, what in faults:
        message = f"{int(mask.sum())} rows {what}, such as that of {rows.ids[int(np.argmax(mask))]}"
        yield finding("fail", code, case, message)
    yield from _facts(case)
    if faults:
        return
    try:
        derived = certifier.rederive(rows)
    except ShiftproofError as error:
        yield finding("fail", "impossible-record", case, f"no radius follows from what is recorded: {error}")
        return
    stored = np.where(rows.skipped, 0.0, rows.radius)
    inflated = stored > derived * (1 + SAME) + SAME
    if inflated.any():
        worst = int(np.argmax(stored - derived))
        message = (
            f"{int(inflated.sum())} radii are larger than their record gives, such as that of "
            f"{rows.ids[worst]}: {stored[worst]:.4g} instead of {derived[worst]:.4g}"
        )
        yield finding("fail", "radius-inflated", case, message, worst=float((stored - derived).max()))
    else:
        yield finding("pass", "record", case, f"all {len(rows):,} radii follow from what is recorded")


def _impossible(case: Case) -> Iterator[tuple[str, Mask, str]]:
    """What no certifier can have written: code, rows, and what is wrong with them."""
    rows = case.certificates
    n, count, rival = rows.n, rows.count, rows.runner_up_count
    most = max(1, len(rows.ballots)) * case.certifier.votes
    yield "impossible-radius", ~np.isfinite(rows.radius) | (rows.radius < 0), "have a radius that is no distance"
    yield (
        "impossible-counts",
        (count < 0) | (rival < 0) | (count + rival > n) | (n < 0) | (n > most),
        "have impossible votes",
    )
    if rows.classifier in ("smoothed", "latent") and not case.certificates.parts[0]:
        yield "impossible-counts", _other_label_votes(case), "have votes for the label that their counts can't leave it"
    held = (rows.radius > 0) & ~rows.skipped
    yield "no-class", held & (rows.prediction < 0), "have a radius but no class"
    yield "other-class", held & (rows.prediction != rows.chosen), "certify another class than was voted on"
    ballots = rows.ballots
    if ballots.size and rows.parts[0]:
        yield "other-class", held & (ballots[0, :, 0] != rows.prediction), "certify another class than was voted on"
        drawn, given = ballots[..., 3], ballots[..., 1] + ballots[..., 2]
        odd = ((given > drawn) | (drawn > case.certifier.votes) | (ballots[..., 1:] < 0).any(2)).any(0)
        yield "impossible-counts", np.asarray(odd), "have impossible votes"
    if rows.classifier in ("smoothed", "adapted", "median"):
        # what is off the grid is paid with the radius, and follows from the samples
        due = _off_grid(case)
        yield "off-grid-differs", rows.off_grid < due - SAME, "are farther off the grid than they pay for"
    else:
        yield "off-grid-differs", rows.off_grid < 0, "are a negative distance off the grid"


def _other_label_votes(case: Case) -> Mask:
    """Where votes for the label are neither those of the chosen class nor at most those of its runner-up."""
    rows, labels = case.certificates, case.job.domain.labels
    same = rows.chosen == labels
    counted = (rows.label_count >= 0) & (rows.n > 0)
    odd = np.where(same, rows.label_count != rows.count, rows.label_count > rows.runner_up_count)
    return np.asarray(counted & odd)


def _facts(case: Case) -> Iterator[Finding]:
    """Whether what holds for all rows is what the certifier would say."""
    rows, certifier = case.certificates, case.certifier
    exact = bool((rows.bound == "exact").all())
    due: dict[str, Any] = {"title": certifier.title, "classifier": certifier.classifier, "scale": certifier.scale}
    due["alpha"] = 0.0 if exact else certifier.alpha
    due["norm"], due["units"] = certifier.norm, certifier.units
    if certifier.noise is not None and rows.noise is not None:
        due["noise"] = certifier.noise
    if rows.seed is not None and not exact:
        due["seed"] = case.job.seed
    for name, value in due.items():
        # from before there were titles, rows have none
        if getattr(rows, name) not in (value, ""):
            message = f"rows say {name} {getattr(rows, name)!r}, the certifier {value!r}"
            yield finding("fail", f"{name}-differs", case, message)
    yield from _sentence(case)
    expected, recorded = certifier.levels(rows.classes), rows.levels
    if expected is not None and recorded is not None:
        pairs = [(getattr(recorded, name), getattr(expected, name)) for name in vars(expected)]
        # rows of one kind only know the levels of their own bound
        if any(seen > 0 and abs(seen - share) > SAME * share for seen, share in pairs):
            yield finding("fail", "levels-differ", case, f"rows have {recorded}, the budget gives {expected}")


def _sentence(case: Case) -> Iterator[Finding]:
    """Whether the guarantee that people read is the one that the certifier gives for this model."""
    due, recorded = case.certifier.guarantee_of(case.job, case.certificates), case.certificates.guarantee
    if due is not None and not _same_words(recorded, due):
        message = f"the recorded guarantee reads {shorten(recorded, 200)!r}, but the certifier's {shorten(due, 200)!r}"
        yield finding("fail", "guarantee-differs", case, message)


def _same_words(one: str, other: str) -> bool:
    """Whether two sentences are equal but for the last digits of measured constants."""
    pairs = [re.split(_NUMBER, text) for text in (one, other)]
    if pairs[0][::2] != pairs[1][::2]:
        return False
    return all(
        np.isclose(float(a), float(b), rtol=1e-5, atol=0) for a, b in zip(pairs[0][1::2], pairs[1][1::2], strict=True)
    )


def _off_grid(case: Case) -> FloatArray:
    noise = case.certifier.noise
    domain = case.job.domain
    if noise is not None and noise.embedded:
        texts = (text for block in domain.blocks for text in domain.take(block)[0])
        return np.array([_tokens_off_grid(token_places(case.job.model, text)) for text in texts])
    if noise is not None and not noise.additive:
        return np.zeros(len(domain))
    return np.concatenate([_distance_to_grid(domain.take(block)[0].numpy(), case) for block in domain.blocks])


def _distance_to_grid(inputs: Any, case: Case) -> FloatArray:
    """How far inputs are from multiples of 1/65280, but for how float32 writes them down, in the norm of the radius."""
    apart = np.abs(inputs.astype(np.float64) - np.rint(inputs.astype(np.float64) * PIXEL_STEPS) / PIXEL_STEPS)
    apart[apart <= 2.0**-24] = 0.0
    order = 1 if case.certificates.norm == "l1" else 2
    return np.asarray(np.linalg.norm(apart.reshape(len(apart), -1), order, axis=1))


def _tokens_off_grid(text: TokenPlaces) -> float:
    """How far a text's own tokens are from multiples of 1/262144, all together."""
    at = text.at[text.own]
    return float(np.sqrt(((at - np.rint(at * EMBEDDING_STEPS) / EMBEDDING_STEPS) ** 2).sum()))
