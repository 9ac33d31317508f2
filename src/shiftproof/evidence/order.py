"""certified <= attacked <= clean, sample by sample, where all three speak of the same classifier."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from shiftproof.evidence import Evidence, Measurement
from shiftproof.evidence.titles import certificate_titles
from shiftproof.types import Finding, FloatArray

__all__ = ["order_findings", "order_summary"]

_SLACK = 1e-6
"""An attack of float32 may end this much outside its ball, relative to it."""
_EDGE = 6.5
"""Over the root of the votes, in scales of the noise: this far inside a radius, a majority is five deviations ahead."""
_LEAD = 5.0
"""The same for words that are deleted, where the lead of a majority is known: over the root of the votes."""


def order_findings(evidence: Evidence) -> Iterator[Finding]:
    """Failures where the same classifier is certified and yet wrong; where classifiers differ, both numbers."""
    for part in evidence.by("model", "train_seed", "domain"):
        yield from _findings(part, f"{part[0].model_title} on {part[0].domain}")


def order_summary(evidence: Evidence) -> list[Finding]:
    """The same for a report: what is broken, one by one, or that nothing is, in a line."""
    every = list(order_findings(evidence))
    broken = [one for one in every if one.level != "pass"]
    held = [one for one in every if one.code == "sandwich-holds"]
    if broken or not held:
        return broken
    attacked = sum(one.evidence["samples"] for one in held if one.evidence["eps"] > 0)
    measured = sum(one.evidence["samples"] for one in held if one.evidence["eps"] == 0)
    if not attacked and not measured:
        message = (
            "no certificate is sure enough for the votes that measured its classifier, so that none was put to the test"
        )
        return [Finding("warn", "sandwich-untested", message)]
    # what was not put to the test is not said to hold
    tested = {"certified": True, "attacked": bool(attacked), "clean": bool(measured)}
    order = " <= ".join(name for name, told in tested.items() if told)
    message = (
        f"{order}: no certificate is contradicted; {_count(measured)} were checked on clean samples, "
        f"{_count(attacked)} under an attack well within their radius"
    )
    return [Finding("pass", "sandwich-holds", message)]


def _count(samples: int) -> str:
    return f"{samples:,}" if samples else "none"


def _findings(part: Evidence, name: str) -> Iterator[Finding]:
    yield from _attacked_and_clean(part, name)
    titles = certificate_titles(part)
    for held in part.where(probe="certify"):
        if not held.fact("unsound"):
            for other in [*part.where(probe="clean"), *part.where(probe="attack")]:
                yield from _compared(held, other, name, titles[held.setting])


def _attacked_and_clean(part: Evidence, name: str) -> Iterator[Finding]:
    """No sample that is wrong as it is can be right after an attack: an attack leaves those alone."""
    for clean in part.where(probe="clean"):
        right = clean["correct"]
        for other in part.where(probe="attack", classifier="base"):
            ids = other.ids
            places = ids.places_in(clean.ids)
            risen = np.flatnonzero(other["correct"] & (places >= 0) & ~right[places])
            if len(risen):
                sample = ids.name(ids.codes[risen[0]])
                message = f"{name}: {len(risen)} samples are wrong as they are and right under {other.title}, such as"
                told = {"samples": len(risen), "names": [sample]}
                yield Finding("fail", "sandwich-broken", f"{message} {sample}", told)
            else:
                # an attack leaves alone what is wrong: that this holds is no news, that it does not would be
                message = f"{name}: no sample is wrong as it is and right under {other.title}"
                yield Finding("pass", "attacked-below-clean", message)


def _compared(held: Measurement, other: Measurement, name: str, title: str) -> Iterator[Finding]:
    attacked = other.probe == "attack"
    if "prediction" not in other:
        return
    eps = float(other.fact("eps")) if attacked else 0.0
    # in which norm nothing is added to an input does not matter
    if eps > 0 and any(other.fact(name) != held.fact(name) for name in ("norm", "units")):
        return
    ids = held.ids
    places = ids.places_in(other.ids)
    mine = np.flatnonzero(places >= 0)
    if not len(mine):
        return
    theirs = places[mine]
    radius = np.where(held["skipped"], 0.0, held["radius"])[mine]
    beyond: NDArray[np.bool_] = radius > eps * (1 + _SLACK)
    safe = beyond & _far_inside(held, radius, eps, float(other.fact("votes") or 1.0))
    right_there, right = held["correct"][mine], other["correct"][theirs]
    # the class counts, not whether it is right: a vote that is wrong and certified is as wrong when it is measured
    same = held["prediction"][mine] == other["prediction"][theirs]
    same &= right_there == right
    what = f"under an attack of {other.fact('norm')} {eps:g}" if attacked else "as they are"
    if _same_classifier(held, other):
        broken = safe & ~same
        expected = float(held.fact("alpha")) * int((radius > 0).sum())
        if broken.any():
            sample = ids.name(ids.codes[mine[int(np.argmax(broken))]])
            message = (
                f"{name}, {title}: {int(broken.sum())} samples are certified beyond {eps:g} and get another class "
                f"{what}, such as {sample}"
            )
            level: Literal["warn", "fail"] = "fail" if broken.sum() > expected else "warn"
            yield Finding(level, "sandwich-broken", message, {"samples": int(broken.sum()), "names": [sample]})
        else:
            near = int(beyond.sum() - safe.sum())
            edge_text = f" ({near} more are too near the edge for so few votes)" if near else ""
            message = (
                f"{name}, {title}: all {int(safe.sum())} samples certified beyond {eps:g} keep their class "
                f"{what}{edge_text}"
            )
            yield Finding("pass", "sandwich-holds", message, {"samples": int(safe.sum()), "eps": eps})
    elif attacked:
        message = (
            f"{name}, {title}: {(beyond & right_there).mean():.1%} certified right beyond {eps:g} "
            f"({held.classifier} classifier), "
            f"{right.mean():.1%} right {what} ({other.classifier} classifier): no order is claimed"
        )
        yield Finding("pass", "sandwich-other-classifier", message)


def _far_inside(held: Measurement, radius: FloatArray, eps: float, votes: float) -> NDArray[np.bool_]:
    """Where so many votes show the certified class: they can miss a majority that is thin, as at the edge of a radius.

    With words deleted with probability q, k certified edits leave a lead of more than 2 (q^eps - q^k) after eps edits.
    """
    if held.classifier != "smoothed":
        return np.ones(len(radius), bool)
    if held.fact("norm") == "edits":
        q = float((held.fact("noise_options") or {}).get("q", 1.0))
        return np.asarray(2 * (q**eps - q ** np.floor(radius)) > _LEAD / votes**0.5)
    return np.asarray(radius > eps * (1 + _SLACK) + _EDGE / votes**0.5 * float(held.fact("scale")))


def _same_classifier(held: Measurement, other: Measurement) -> bool:
    """The same kind in the same precision, and for smoothed ones the same noise."""
    if held.classifier != other.classifier or _precision(held) != _precision(other):
        return False
    noise = held.fact("noise")
    return held.classifier == "base" or (held.classifier == "smoothed" and bool(noise) and noise == other.fact("noise"))


def _precision(one: Measurement) -> str:
    return str(one.fact("precision") or "f32")
