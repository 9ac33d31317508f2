"""What can go wrong, as a tree. Every message says what was seen and what to type next.

::

    ShiftproofError
    ├── UsageError          a call or command line that makes no sense as written
    │   └── UnknownName     no such objective, model, data set, key ...; says what is nearest
    ├── DataError           data that is there but can't be used
    │   └── DataNotFound    data that is not there; says what was looked for, where, and which layout is expected
    ├── ModelError          a model file or module that can't be used
    │   ├── UnknownConstant a layer whose Lipschitz constant is not known; says which
    │   └── NotAFunction    a model that gave the same inputs other outputs while it was being certified
    ├── StudyError          a study file that does not validate; says file and line
    ├── TrainingError       training that can't go on
    ├── StorageError        a file that can't be written: unwritable, disk full
    ├── CheckFailed         what was asked to hold does not; the command line exits with 2
    └── ConformanceError    a method that breaks its contract (raised by shiftproof.testing)

The command line prints the message of any of these on one line of stderr and exits with 1, unless said otherwise.
"""

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = [
    "CheckFailed",
    "ConformanceError",
    "DataError",
    "DataNotFound",
    "ModelError",
    "NotAFunction",
    "ShiftproofError",
    "StorageError",
    "StudyError",
    "TrainingError",
    "UnknownConstant",
    "UnknownName",
    "UsageError",
]


class ShiftproofError(Exception):
    """Base of all errors that shiftproof raises on purpose."""


class UsageError(ShiftproofError):
    """A call or a command line that makes no sense as written."""


class UnknownName(UsageError):  # noqa: N818 - reads better than UnknownNameError in a traceback
    """A name that is not in a catalogue, a domain list or a set of keys.

    >>> raise UnknownName("objective", "gausian", ["erm", "gaussian"])
    Traceback (most recent call last):
    shiftproof.errors.UnknownName: unknown objective 'gausian'. Did you mean 'gaussian'?
    """

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind, self.name, self.known = kind, name, sorted(known)
        super().__init__(f"unknown {kind} {name!r}. {suggestion(name, self.known)}")

    def __reduce__(self) -> tuple[type["UnknownName"], tuple[str, str, list[str]]]:
        return UnknownName, (self.kind, self.name, self.known)


class DataError(ShiftproofError):
    """Data that is there but can't be used: unreadable, out of range, mislabelled, empty."""


class DataNotFound(DataError):  # noqa: N818
    """Data that is not there."""


class ModelError(ShiftproofError):
    """A model file or module that can't be used."""


class UnknownConstant(ModelError):  # noqa: N818
    """A layer whose Lipschitz constant is not known."""


class NotAFunction(ModelError):  # noqa: N818
    """A model that gave the same inputs other outputs while it was being certified."""


class StudyError(ShiftproofError):
    """A study file that does not validate."""


class TrainingError(ShiftproofError):
    """Training that can't go on, such as a loss that is not a number."""


class StorageError(ShiftproofError):
    """A file or folder that can't be written."""


class CheckFailed(ShiftproofError):  # noqa: N818 - it is no mistake of anybody's
    """What was asked to hold does not."""


class ConformanceError(ShiftproofError, AssertionError):
    """A method that breaks the contract that `shiftproof.testing` checks."""


def suggestion(name: str, known: Iterable[str]) -> str:
    """A sentence with the nearest of the known names, or all of them when none is near."""
    known = sorted(known)
    by_lower = {candidate.lower(): candidate for candidate in known}
    near = [candidate for candidate in by_lower if len(name) > 2 and candidate.startswith(name.lower())]
    near = near or get_close_matches(name.lower(), list(by_lower), n=1, cutoff=0.6)
    if near:
        return f"Did you mean {by_lower[near[0]]!r}?"
    return f"Known: {', '.join(known)}." if known else "There is none."
