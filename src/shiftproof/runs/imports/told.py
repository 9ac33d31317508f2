"""What whoever imports a file says of it, because the file does not."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from shiftproof.errors import UnknownName, UsageError
from shiftproof.perturbations.threat import Threat, as_threat

__all__ = ["NORMS", "Told", "one_for_each"]

NORMS = ("l2", "linf", "l1", "edits")


@dataclass(frozen=True)
class Told:
    """What was said of a file: which model and domain it is of, and how the results were made; None where it was not.

    Args:
        alpha: The chance that a certificate is wrong, at most.
        sigma: Scale of the Gaussian noise.
        n: Votes behind every certificate.
        threat: Of robust flags, as text: linf:8/255.
        held_out: Whether the samples served neither training nor selection.
    """

    model: str | None = None
    domain: str | None = None
    norm: str = "l2"
    alpha: float | None = None
    sigma: float | None = None
    n: int | None = None
    threat: str | None = None
    held_out: bool = False

    def __post_init__(self) -> None:
        if self.norm not in NORMS:
            raise UnknownName("norm", self.norm, NORMS)
        if self.alpha is not None and not 0 < self.alpha < 1:
            raise UsageError(
                f"alpha is {self.alpha}; it is a probability of error strictly between 0 and 1, such as 0.001"
            )
        if self.sigma is not None and not 0 < self.sigma < math.inf:
            raise UsageError(f"sigma is {self.sigma}; it should be a number above 0, such as 0.25")
        if self.n is not None and (isinstance(self.n, bool) or self.n != int(self.n) or self.n < 1):
            raise UsageError(f"n is {self.n}; it should be a number of votes, such as 100000")
        if self.threat is not None:
            as_threat(self.threat)
        for what, name in (("model", self.model), ("domain", self.domain)):
            if name is not None and not name.strip():
                raise UsageError(f"the name of a {what} is empty")

    @property
    def seen(self) -> str:
        """no | unknown: whether the samples served training, or decided which weights were kept."""
        return "no" if self.held_out else "unknown"

    @property
    def ball(self) -> Threat | None:
        """The threat of robust flags."""
        return None if self.threat is None else as_threat(self.threat)

    def to_config(self) -> dict[str, Any]:
        """All of it, in a form that fits into JSON and that makes it again."""
        return asdict(self)

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Told:
        """From what `to_config` wrote."""
        return cls(**config)


def one_for_each(
    name: str, value: Any, files: Sequence[str], convert: Callable[[Any], Any], default: Any = None
) -> list[Any]:
    """One value for each file: the same for all, or as many as there are files, in a list or with commas."""
    if value is None:
        return [default] * len(files)
    parts = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    parts = list(parts) if isinstance(parts, list | tuple) else [parts]
    if len(parts) not in (1, len(files)):
        raise UsageError(
            f"{name} has {len(parts)} values for {len(files)} files; give one for all of them, or one for each, in the "
            "same order"
        )
    try:
        made = [convert(part) for part in parts]
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name} is {value!r}; it should be a number, or one for each file with commas") from error
    return made * len(files) if len(made) == 1 else made
