"""What a failed check raises."""

from shiftproof.errors import ConformanceError

__all__ = ["require"]


def require(condition: bool, sentence: str) -> None:
    """Raise `sentence` unless the condition holds."""
    if not condition:
        raise ConformanceError(sentence)
