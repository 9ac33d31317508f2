"""Certificates as a measurement, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftproof.certification import Certificates
from shiftproof.certification.certificates import COLUMNS
from shiftproof.certification.sampling.budget import Levels
from shiftproof.evidence.measurement import Column, Measurement
from shiftproof.perturbations.noise import NOISES, as_noise, label

__all__ = ["CERTIFICATE", "certificate_columns", "certificate_facts", "certificates_in"]

CERTIFICATE = (
    Column("chosen", "int", "The class that the votes were counted for; `prediction` is -1 where it is not certified."),
    Column("radius", "float", "Within which the answer is guaranteed, in `norm` and `units`; 0 where nothing is."),
    Column("skipped", "bool", "Whether it was not certified because the choice of the class was wrong already."),
    Column("count", "int", "Votes for the chosen class."),
    Column("label_count", "int", "Votes for the label; -1 where no votes were counted."),
    Column("runner_up", "int", "The class with most votes but the chosen one."),
    Column("runner_up_count", "int", "Votes for it."),
    Column("n", "int", "Votes in all."),
    Column("p_lower", "float", "Lower bound on the probability of the chosen class."),
    Column("p_upper", "float", "Upper bound on that of the runner-up."),
    Column("bound", "text", "Which bound gave these: clopper-pearson | sequence | exact | none | imported."),
    Column("off_grid", "float", "How far the sample was from the grid of the noise; taken off the radius."),
    Column("margin", "float", "Of certificates that count no votes: the margin, over the constant."),
    Column("parts", "text", "Of certificates that rest on several smoothed classifiers: the votes of each, as JSON."),
)
"""What is stored of a certificate: enough to derive every radius again."""

_FACTS = ("classifier", "title", "scale", "constant", "unsound", "norm", "units", "alpha", "guarantee", "precision")


def certificate_columns(certificates: Certificates) -> dict[str, NDArray[Any]]:
    """A value a sample."""
    seconds = float(certificates.details.get("seconds", 0.0)) / max(1, len(certificates))
    columns = {name: getattr(certificates, name) for name in COLUMNS if name != "ids"}
    return columns | {"seconds": np.full(len(certificates), seconds)}


def certificate_facts(certificates: Certificates) -> dict[str, Any]:
    """What holds for all of them, in a form that fits into JSON."""
    noise, levels = certificates.noise, certificates.levels
    # one from outside the catalogue can't be made again from its name
    known = noise is not None and NOISES.name_of(noise) in NOISES
    return {
        **{name: getattr(certificates, name) for name in _FACTS},
        "votes": certificates.samples,
        "passes": certificates.passes,
        "noise": None if noise is None else label(noise),
        "noise_options": noise.to_config() if noise is not None and known else None,
        "levels": None if levels is None else dict(vars(levels)),
    }


def certificates_in(measurement: Measurement, classes: int) -> Certificates:
    """The certificates that a measurement records, of a classifier of so many classes."""
    facts, noise, levels = measurement.facts, measurement.fact("noise_options"), measurement.fact("levels")
    columns: dict[str, Any] = {name: measurement[name] for name in COLUMNS if name != "ids"}
    return Certificates(
        ids=measurement["id"].astype(object),
        **columns,
        **{name: facts[name] for name in _FACTS},
        levels=None if levels is None else Levels(**levels),
        noise=None if noise is None else as_noise(noise),
        samples=int(facts["votes"]),
        classes=classes,
        seed=int(facts["seed"]),
    )
