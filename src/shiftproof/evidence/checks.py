"""What evidence shows by itself: one answer for all samples, rules that prove nothing, guarantees carried to pairs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from shiftproof.evidence.evidence import Evidence
from shiftproof.evidence.measurement import Measurement
from shiftproof.evidence.titles import certificate_titles
from shiftproof.types import Finding

__all__ = ["constant_findings", "counterfactual_findings", "refuted_findings", "unsound_findings"]

NEARLY_ALL, EXCESS, FEW = 0.9, 0.3, 20
"""One answer to such a part of samples, that much more often than it is the label, says little; of so many samples."""
MOST = 0.9
"""A model of which fewer samples keep their class elsewhere has learned what differs there."""


def constant_findings(evidence: Evidence) -> Iterator[Finding]:
    """One warning a model, setting and domain with one answer to all samples: what holds of it there says nothing."""
    names = certificate_titles(evidence)
    for probe, title in (("clean", "the model"), ("certify", "the certified classifier")):
        for part in evidence.where(probe=probe).by("model", "train_seed", "setting"):
            which = f" ({names[part[0].setting]})" if probe == "certify" else ""
            constant = [one.domain for one in part if _is_constant(one)]
            if constant:
                message = (
                    f"{part[0].model_title}: {title}{which} gives one answer to every sample of {', '.join(constant)}"
                )
                yield Finding("warn", "constant-answer", f"{message}, so that its robustness there means nothing")
            for one in part if probe == "clean" else ():
                count = 0 if one.domain in constant else _same_answers(one)
                if count:
                    message = f"{part[0].model_title}: {title} gives one and the same answer to {count} of {len(one)}"
                    message = f"{message} samples of {one.domain}, far more than have that label"
                    yield Finding("warn", "constant-answer", f"{message}: its robustness there says little")


def _same_answers(one: Measurement) -> int:
    """How many samples get the commonest answer, if nearly all do and labels do not explain it; or 0."""
    if "prediction" not in one or "label" not in one or len(one) < FEW:
        return 0
    answers, counts = np.unique(one["prediction"], return_counts=True)
    most = int(counts.max())
    labelled = int((one["label"] == answers[counts.argmax()]).sum())
    return most if most >= NEARLY_ALL * len(one) and labelled <= most - EXCESS * len(one) else 0


def _is_constant(one: Measurement) -> bool:
    if "prediction" not in one:
        return False
    answers = np.unique(one["prediction"])
    return int((answers != -1).sum()) == 1 and len(np.unique(one["label"])) > 1


def unsound_findings(evidence: Evidence) -> Iterator[Finding]:
    """One failure a model and rule that proves nothing: what it claims, what of it an attack has refuted, and that it
    is not certified.
    """
    attacked = list(evidence.where(probe="refute").by("model", "setting"))
    certified = list(evidence.where(probe="certify").by("model", "setting"))
    told = [(part[0].model, part[0].fact("certifier")) for part in certified]
    alone = [part for part in attacked if (part[0].model, part[0].fact("certifier")) not in told]
    for part in (*certified, *alone):
        first = part[0]
        rule, scale = first.fact("unsound"), float(first.fact("scale"))
        if rule:
            held = np.concatenate([one["correct"] & (one["radius"] >= scale) for one in part])
            tried = [
                one
                for other in attacked
                for one in other
                if (one.model, one.fact("certifier")) == (first.model, first.fact("certifier"))
            ]
            broken, claims = (sum(int(one[name].sum()) for one in tried) for name in ("refuted", "claimed"))
            found = f", of all its {claims} claims an attack refutes {broken}" if tried else ""
            message = (
                f"{first.model}, {first.fact('rule') or first.title}: the published rule claims {held.mean():.0%} at "
                f"radius {scale:g}{found}, and proves nothing; no claim of that rule counts as certified"
            )
            yield Finding("fail", "unsound-rule", message, {"rule": str(rule)})


def refuted_findings(evidence: Evidence) -> Iterator[Finding]:
    """Sound certificates that the probe `refute` has refuted: more than alpha of them is a failure, fewer a warning.

    Of a rule that proves nothing it is what was expected.
    """
    for one in evidence.where(probe="refute"):
        broken, held = int(one["refuted"].sum()), int(one["claimed"].sum())
        if broken and not one.fact("unsound"):
            alpha = float(one.fact("alpha") or 0.0)
            message = (
                f"{one.model_title} on {one.domain}, {one.fact('rule')}: an attack refutes {broken} of {held} "
                f"certificates, each of which is wrong with a probability of at most {alpha:g}"
            )
            level: Literal["warn", "fail"] = "fail" if broken > alpha * held else "warn"
            yield Finding(level, "certificates-refuted", message, {"refuted": broken, "claimed": held})


def counterfactual_findings(evidence: Evidence) -> Iterator[Finding]:
    """Whether the guarantee that is carried across holds on the other side, and how much of it there is."""
    for pairs in evidence.where(probe="counterfactual"):
        radius, lead, constant = pairs["radius"], pairs["margin"], float(pairs.fact("constant"))
        # what is there, in units of the input, must be no less than what was promised
        actual = lead / constant if constant > 0 else np.where(lead > 0, np.inf, lead)
        broken = (radius > 0) & (radius > actual * (1 + 1e-6) + 1e-6)
        what = (
            f"{pairs.model_title}: samples of {pairs.domain} as they would look elsewhere are "
            f"{pairs['distance'].mean():.3g} away in the representation; {(radius > 0).mean():.0%} are guaranteed to "
            "keep their class"
        )
        if broken.any():
            yield Finding("fail", "transfer-broken", f"{what}, but {int(broken.sum())} have less than promised")
        else:
            kept = float((actual > 0).mean())
            yield Finding("pass" if kept > MOST else "warn", "transfer-holds", f"{what}, {kept:.0%} do")
