"""The result of an attack in a notebook: figures, and a few samples before and after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from shiftproof.display import amplify, figure, lines, panel, small, strip, table
from shiftproof.errors import ShiftproofError
from shiftproof.perturbations.text import decode
from shiftproof.types import FloatArray, IntArray

if TYPE_CHECKING:
    from shiftproof.attacks.result import AttackResult

__all__ = ["attack_html"]

SHOWN, TEXTS = 8, 2
"""Overturned images and texts that are shown, at most."""


def attack_html(result: AttackResult) -> str:
    """Threat, accuracy before and after, how far overturned samples were moved, and a few of them."""
    lost = result.overturned
    median = f"{np.median(result.distance[lost]):.3g}" if lost.any() else "-"
    figures = [
        ["right before", f"{result.clean_accuracy:.1%}"],
        ["right after", f"{result.robust_accuracy:.1%}"],
        ["overturned", f"{int(lost.sum()):,} of {int((result.clean == result.labels).sum()):,} that were right"],
        [f"median distance of these ({result.threat.norm})", median],
    ]
    about = small("An upper bound: a stronger attack may leave less.")
    title = f"Attack within {result.threat} on the {result.classifier} classifier: {len(result):,} samples"
    return str(panel(title, table(["", ""], figures), about, _examples(result, np.flatnonzero(lost))))


def _examples(result: AttackResult, lost: IntArray) -> str:
    """The first samples that were overturned, where the attacked inputs and the domain are there."""
    if result.domain is None or len(result.inputs) != len(result) or not len(lost):
        return ""
    images = result.domain.kind == "image"
    rows = lost[: SHOWN if images else TEXTS]
    try:
        before = result.domain.inputs.take(rows)
    except ShiftproofError as error:
        return small(str(error))
    after = result.inputs[torch.from_numpy(rows)]
    if before.shape != after.shape or bool((before == after).all()):
        # what changes embeddings leaves the text as it is
        return small("The inputs themselves are not changed by this attack.")
    answers = [f"{_name(result, result.labels[i])} -> {_name(result, result.predictions[i])}" for i in rows.tolist()]
    if not images:
        pairs = zip(answers, decode(before), decode(after), strict=True)
        return lines(line for answer, old, new in pairs for line in (f"{answer}: {old}", small(f"after: {new}")))
    originals, attacked = list(before.numpy()), list(after.numpy())
    changes = [amplify(other.astype(np.float64) - one) for one, other in zip(originals, attacked, strict=True)]
    factors = sorted({f"{factor:g}" for _, factor in changes}, key=float)
    words = (
        f"The first {len(rows)} of {len(lost):,} overturned samples: as they are, attacked, and the difference, "
        f"enlarged {' or '.join(factors)} times around gray. {'; '.join(answers)}."
    )
    return figure(strip(originals, attacked, [_gray_third(picture) for picture, _ in changes]), words)


def _gray_third(change: FloatArray) -> FloatArray:
    """Two channels with a third that does not change, so that no change is gray."""
    return np.concatenate([change, np.full_like(change[:1], 0.5)]) if len(change) == 2 else change


def _name(result: AttackResult, label: int) -> str:
    classes = result.domain.classes if result.domain is not None else ()
    return classes[label] if 0 <= label < len(classes) else f"class {label}"
