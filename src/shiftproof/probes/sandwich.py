"""certified <= attacked <= clean, sample by sample, where all three speak of the same classifier."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from shiftproof.evidence import Evidence
from shiftproof.types import Finding

__all__ = ["sandwich_findings", "sandwich_summary"]

_SLACK = 1e-6
"""An attack of float32 may end this much outside its ball, relative to it."""
_EDGE = 6.5
"""Over the root of the votes, in scales of the noise: this far inside a radius, a majority is five deviations ahead."""


def sandwich_findings(evidence: Evidence) -> Iterator[Finding]:
    """Failures where the same classifier is certified and yet wrong; where classifiers differ, both numbers."""
    for model in evidence.distinct("model"):
        for domain in evidence.where(model=model).distinct("domain"):
            yield from _findings(evidence.where(model=model, domain=domain), f"{model} on {domain}")


def sandwich_summary(evidence: Evidence) -> list[Finding]:
    """The same for a report: what is broken, one by one, or that nothing is, in a line."""
    every = list(sandwich_findings(evidence))
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
    message = (
        f"certified <= attacked <= clean: {measured:,} certified classes were measured again as they are, and "
        f"{attacked:,} well within their radius under attack, and all were kept"
    )
    return [Finding("pass", "sandwich-holds", message)]


def _findings(rows: Evidence, name: str) -> Iterator[Finding]:
    yield from _attacked_and_clean(rows, name)
    certified = rows.where(probe="certify")
    for setting in certified.distinct("setting"):
        held = certified.where(setting=setting)
        if held["unsound"][0]:
            continue
        for probe in ("clean", "attack"):
            others = rows.where(probe=probe)
            for other in others.distinct("setting"):
                yield from _compared(held, others.where(setting=other), name, probe)


def _attacked_and_clean(rows: Evidence, name: str) -> Iterator[Finding]:
    """No sample that is wrong as it is can be right after an attack: an attack leaves those alone."""
    clean, attacked = rows.where(probe="clean"), rows.where(probe="attack", classifier="base")
    for setting in attacked.distinct("setting") if len(clean) else []:
        other = attacked.where(setting=setting)
        right = dict(zip(clean["sample"].tolist(), clean["correct"].tolist(), strict=True))
        after = zip(other["sample"].tolist(), other["correct"].tolist(), strict=True)
        risen = [sample for sample, correct in after if correct and not right.get(sample, True)]
        if risen:
            message = f"{name}: {len(risen)} samples are wrong as they are and right under {other['title'][0]}, such as"
            yield Finding("fail", "sandwich-broken", f"{message} {risen[0]}", {"samples": len(risen)})
        else:
            # an attack leaves alone what is wrong: that this holds is no news, that it does not would be
            message = f"{name}: no sample is wrong as it is and right under {other['title'][0]}"
            yield Finding("pass", "attacked-below-clean", message)


def _compared(held: Evidence, other: Evidence, name: str, probe: str) -> Iterator[Finding]:
    title = str(held["title"][0] or held["noise"][0])
    eps = float(other["eps"][0]) if probe == "attack" else 0.0
    # in which norm nothing is added to an input does not matter
    if eps > 0 and any(other[fact][0] != held[fact][0] for fact in ("norm", "units")):
        return
    known = dict(zip(other["sample"].tolist(), range(len(other)), strict=True))
    pairs = np.array([(i, known[one]) for i, one in enumerate(held["sample"].tolist()) if one in known], np.int64)
    if not len(pairs):
        return
    mine, theirs = pairs[:, 0], pairs[:, 1]
    radius = np.where(held["skipped"].astype(bool), 0.0, held["radius"].astype(np.float64))[mine]
    # finitely many votes can miss a majority that is thin: at the very edge of a radius they prove nothing
    votes = float(other["n"][0] or 1.0) if probe == "attack" else 1.0
    edge = _EDGE / votes**0.5 * float(held["scale"][0]) if held["classifier"][0] == "smoothed" else 0.0
    beyond: NDArray[np.bool_] = radius > eps * (1 + _SLACK)
    safe: NDArray[np.bool_] = radius > eps * (1 + _SLACK) + edge
    right_there, right = held["correct"].astype(bool)[mine], other["correct"].astype(bool)[theirs]
    # the class counts, not whether it is right: a vote that is wrong and certified is as wrong when it is measured
    same = held["prediction"][mine] == other["prediction"][theirs]
    same &= right_there == right
    what = "as they are" if probe == "clean" else f"under an attack of {other['norm'][0]} {eps:g}"
    if _same_classifier(held, other):
        broken = safe & ~same
        expected = float(held["alpha"][0]) * int((radius > 0).sum())
        if broken.any():
            sample = held["sample"][mine[int(np.argmax(broken))]]
            message = (
                f"{name}, {title}: {int(broken.sum())} samples are certified beyond {eps:g} and get another class "
                f"{what}, such as {sample}"
            )
            level: Literal["warn", "fail"] = "fail" if broken.sum() > expected else "warn"
            yield Finding(level, "sandwich-broken", message, {"samples": int(broken.sum())})
        else:
            near = int(beyond.sum() - safe.sum())
            edge_text = f" ({near} more are too near the edge for so few votes)" if near else ""
            message = (
                f"{name}, {title}: all {int(safe.sum())} samples certified beyond {eps:g} keep their class "
                f"{what}{edge_text}"
            )
            yield Finding("pass", "sandwich-holds", message, {"samples": int(safe.sum()), "eps": eps})
    elif probe == "attack":
        message = (
            f"{name}, {title}: {(beyond & right_there).mean():.1%} certified right beyond {eps:g} "
            f"({held['classifier'][0]} classifier), "
            f"{right.mean():.1%} right {what} ({other['classifier'][0]} classifier): no order is claimed"
        )
        yield Finding("pass", "sandwich-other-classifier", message)


def _same_classifier(held: Evidence, other: Evidence) -> bool:
    """The same kind, and for smoothed ones the same noise."""
    if held["classifier"][0] != other["classifier"][0]:
        return False
    if held["classifier"][0] == "base":
        return True
    return bool(held["classifier"][0] == "smoothed" and held["noise"][0] and held["noise"][0] == other["noise"][0])
