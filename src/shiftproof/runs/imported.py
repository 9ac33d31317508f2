"""What stands in a run for what was measured elsewhere: data and models are not here, and nothing measures again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from shiftproof.certification.imported import alpha_text
from shiftproof.domains import DataSet
from shiftproof.errors import UsageError
from shiftproof.probes import PROBES, Probe

__all__ = ["IMPORTED", "ImportedData", "ImportedProbe", "as_probe", "describe_imported"]

IMPORTED = "imported"
"""The name of data, models and probes of a run that was made of others' results."""


def _refuse(*_: object, **__: object) -> NoReturn:
    raise UsageError(
        "this run was imported: data and models are not here, so that nothing can be measured again; a model of your "
        "own is measured by: shiftproof audit"
    )


@dataclass(frozen=True)
class ImportedData(DataSet):
    """Data that others measured on; only ids and labels of samples are known."""

    load = _refuse

    @property
    def source(self) -> str:
        """What a record calls it."""
        return IMPORTED


@dataclass(frozen=True)
class ImportedProbe(Probe):
    """A measurement that others made, and what is known of how.

    Args:
        evidence: The probe whose evidence it stands for: certify, attack, clean or trials.
        norm: Of radii.
        alpha: The chance that a certificate is wrong, at most; None if nobody stated it.
        sigma: Scale of the Gaussian noise; None if not stated.
        n: Votes behind every certificate; None if not stated.
        threat: Of an attack, as text.
        rule: By which one of several trained models was selected.
    """

    evidence: str
    norm: str = ""
    alpha: float | None = None
    sigma: float | None = None
    n: int | None = None
    threat: str = ""
    rule: str = ""

    collect = cost = _refuse

    @property
    def name(self) -> str:
        """The name of the probe whose evidence it stands for."""
        return self.evidence

    @property
    def classifier(self) -> str:
        """Of which classifier the rows speak: logs of certificates are of votes under noise."""
        return "smoothed" if self.evidence == "certify" else "base"

    def to_config(self) -> dict[str, Any]:
        """Name and options, from which `as_probe` makes it again."""
        return {**super().to_config(), "name": IMPORTED}


def as_probe(value: Any) -> Probe:
    """The probe that is meant by a name or a mapping; of a run that was imported, what stands for it."""
    if isinstance(value, Mapping) and value.get("name") == IMPORTED:
        options = {key: option for key, option in value.items() if key != "name"}
        try:
            return ImportedProbe(**options)
        except TypeError as error:
            raise UsageError(f"the imported probe is {dict(value)!r}, which is not what an import writes") from error
    return PROBES.make(value)


def describe_imported(probe: ImportedProbe) -> str:
    """What is known of how others measured.

    >>> describe_imported(ImportedProbe("certify", "l2", 0.001, sigma=0.5))
    'certify, imported (l2, alpha 0.001, sigma 0.5, votes not stated)'
    """
    if probe.evidence == "certify":
        known = [
            probe.norm,
            alpha_text(1.0 if probe.alpha is None else probe.alpha),
            "sigma not stated" if probe.sigma is None else f"sigma {probe.sigma:g}",
            "votes not stated" if probe.n is None else f"{probe.n:,} votes",
        ]
    else:
        known = [part for part in (probe.threat, probe.rule) if part]
    options = f" ({', '.join(known)})" if known else ""
    return f"{probe.name}, imported{options}"
