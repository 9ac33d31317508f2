"""Which samples were measured, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["describe_samples"]


def describe_samples(facts: Mapping[str, Any], model: str) -> str:
    """All samples; 12 of its held-out part, at random; and whether the model was trained on them.

    `facts` are those of a domain in `Run.samples`.

    >>> describe_samples({"n": 12, "split": "all", "sampled": "simple", "seen_in_training": {"m": "unknown"}}, "m")
    '12 samples, at random; seen in training: unknown'
    """
    part, few = facts["split"], facts["sampled"] != "all"
    how = "balanced over classes, at random" if facts["sampled"] == "balanced" else "at random"
    seen = facts["seen_in_training"][model]
    if part == "all":
        which = f"{facts['n']} samples, {how}" if few else "all samples"
    else:
        which = f"{facts['n']} of its {part} part, {how}" if few else f"its {part} part"
    if seen != "no":
        return f"{which}; seen in training: {seen}"
    return f"{which}; {'the model was trained on the others' if part == 'held-out' else 'unseen by the model'}"
