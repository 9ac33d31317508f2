"""How deep documents nest, found without recursion: thousands of brackets in a small file end most readers."""

from __future__ import annotations

from typing import Any

__all__ = ["DEEPEST", "is_too_deep"]

DEEPEST = 64
"""Levels of lists and mappings in a file that we read; ours have fewer than ten."""


def is_too_deep(value: Any, most: int = DEEPEST) -> bool:
    """Whether lists and mappings lie in each other more than `most` levels deep.

    >>> is_too_deep([[1], {"a": 0}], most=2), is_too_deep([[[]]], most=2)
    (False, True)
    """
    level = [value]
    for _ in range(most):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not any(isinstance(one, dict | list) for one in level):
            return False
    return True
