"""Certificates as rows of evidence, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftproof.certification import Certificates
from shiftproof.certification.certificates import COLUMNS
from shiftproof.certification.sampling.budget import STOPPED, Levels
from shiftproof.evidence.record import Evidence
from shiftproof.perturbations.noise import label

__all__ = ["certificate_columns", "certificates_in"]

_SAME = tuple(name for name in COLUMNS if name not in ("ids", "chosen"))
"""Columns that certificates and evidence have alike."""


def certificate_columns(certificates: Certificates) -> dict[str, NDArray[Any]]:
    """What evidence keeps of certificates: enough to derive every radius again."""
    n, levels = len(certificates), certificates.levels
    columns: dict[str, NDArray[Any]] = {name: getattr(certificates, name) for name in _SAME}
    if levels is not None:
        stopped = certificates.bound == STOPPED
        columns["level"] = np.where(stopped, levels.early, levels.final)
        columns["rival_level"] = np.where(stopped, levels.early_rival, levels.final_rival)
    facts = {
        "classifier": certificates.classifier,
        "alpha": certificates.alpha,
        "title": certificates.title,
        "scale": certificates.scale,
        "constant": np.nan if certificates.constant is None else certificates.constant,
        "unsound": certificates.unsound,
        "noise": "" if certificates.noise is None else label(certificates.noise),
        "norm": certificates.norm,
        "units": certificates.units,
        "guarantee": certificates.guarantee,
        "precision": certificates.precision,
        "seconds": float(certificates.details.get("seconds", 0.0)) / n,
    }
    return columns | {name: np.full(n, value) for name, value in facts.items()}


def certificates_in(rows: Evidence, classes: int) -> Certificates:
    """The certificates that rows of one model, domain and setting record, for a classifier of so many classes."""

    def first(column: str, nothing: Any) -> Any:
        value = rows[column][0]
        return nothing if value is None or value != value else value

    columns: dict[str, Any] = {name: rows[name] for name in _SAME}
    stopped = columns["bound"] == STOPPED
    level, rival = (np.nan_to_num(np.asarray(rows[name], np.float64)) for name in ("level", "rival_level"))
    at = {
        name: float(values[mask].max(initial=0.0))
        for name, values, mask in (
            ("final", level, ~stopped),
            ("final_rival", rival, ~stopped),
            ("early", level, stopped),
            ("early_rival", rival, stopped),
        )
    }
    constant = first("constant", None)
    columns["parts"] = np.array([text or "" for text in columns["parts"]], object)
    return Certificates(
        ids=rows["sample"],
        chosen=columns["prediction"],
        **columns,
        norm=str(first("norm", "")),
        units=str(first("units", "")),
        alpha=float(first("alpha", 0.0)),
        guarantee=str(first("guarantee", "")),
        title=str(first("title", "") or first("noise", "")),
        classifier=str(first("classifier", "smoothed")),
        scale=float(first("scale", 0.25)),
        constant=None if constant is None else float(constant),
        unsound=str(first("unsound", "")),
        levels=Levels(**at) if at["final"] or at["early"] else None,
        samples=int(columns["n"].max(initial=0)),
        classes=classes,
        precision=str(first("precision", "")),
        seed=int(first("seed", 0)),
    )
