"""What is made of files that others wrote: measurements, and findings about them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftproof.evidence import Column, Measurement
from shiftproof.runs.imported import ImportedProbe
from shiftproof.runs.imports.told import Told
from shiftproof.types import Finding

__all__ = ["ImportedFile", "Part", "make_part", "sampled_as"]


@dataclass(frozen=True, eq=False)
class ImportedFile:
    """A file that others wrote: its name, its content, and what was said of it."""

    name: str
    content: bytes = field(repr=False)
    told: Told

    @property
    def sha256(self) -> str:
        """A hash of the content."""
        return hashlib.sha256(self.content).hexdigest()

    @property
    def stem(self) -> str:
        """The name without its ending, which is what a model is called unless told."""
        head, dot, ending = self.name.rpartition(".")
        return head if dot and head and not ending.isdigit() else self.name

    @property
    def model(self) -> str:
        """Model name."""
        return self.told.model or self.stem

    @property
    def domain(self) -> str:
        """Domain name."""
        return self.told.domain or "imported"


@dataclass(frozen=True, eq=False)
class Part:
    """One measurement that was imported, the hashes of the files that gave it, and what was found about it."""

    probe: ImportedProbe
    measurement: Measurement
    sha256: tuple[str, ...]
    findings: Sequence[Finding] = ()

    @property
    def key(self) -> tuple[str, str, str]:
        """Model, domain and setting, which no two measurements of a run share."""
        return self.measurement.model, self.measurement.domain, self.measurement.setting


def make_part(
    file: ImportedFile,
    probe: ImportedProbe,
    values: Mapping[str, Any],
    columns: Sequence[Column],
    *,
    findings: Sequence[Finding] = (),
    model: str = "",
    domain: str = "",
    **facts: Any,
) -> Part:
    """A part with the facts that every measurement has."""
    common = {
        "model": model or file.model,
        "domain": domain or file.domain,
        "probe": probe.name,
        "setting": repr(probe),
        "title": probe.title,
        "classifier": probe.classifier,
        "seed": 0,
        "precision": "",
        "sampled": "all",
        "seen_in_training": file.told.seen,
        "chose_weights": file.told.seen,
        "imported": file.name,
    }
    return Part(probe, Measurement.of({**common, **facts}, values, columns), (file.sha256,), tuple(findings))


def sampled_as(ids: NDArray[np.object_]) -> tuple[str, str]:
    """How the samples of a file were chosen, as far as their numbers tell: a word for the record, and a sentence.

    >>> sampled_as(np.array(["0", "20", "40"], object))[0]
    'systematic'
    """
    try:
        numbers = np.array([int(one) for one in ids])
    except ValueError:
        return "unknown", "samples have names, not numbers, which do not tell how they were chosen"
    steps = np.diff(np.sort(numbers))
    first, last, step = int(numbers.min()), int(numbers.max()), int(steps[0]) if len(steps) else 1
    if len(steps) and (steps != step).any():
        return "unknown", f"rows are {len(ids)} of the samples {first} to {last}, chosen by a rule that is not stated"
    if step > 1:
        return (
            "systematic",
            f"rows are every {step}th sample, {first} to {last}: a systematic sample, as good as a random one only if "
            "the order of the data says nothing about it",
        )
    if first > 0:
        return "unknown", f"rows are the samples {first} to {last}, a block whose choice is not stated"
    return "all", ""
