"""A tab-separated log of certificates as evidence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from shiftproof.certification import Certificates
from shiftproof.certification.imported import (
    IMPORTED,
    NOT_STATED,
    alpha_text,
    largest_radius,
    least_alpha,
    least_votes,
)
from shiftproof.certification.logs import Log, parse
from shiftproof.evidence import Column
from shiftproof.evidence.certificates import CERTIFICATE, certificate_columns, certificate_facts
from shiftproof.evidence.certified import mean_credit
from shiftproof.perturbations.noise import as_noise, label
from shiftproof.perturbations.noise.word_deletion import BEYOND
from shiftproof.runs.imported import ImportedProbe
from shiftproof.runs.imports.parts import ImportedFile, Part, make_part, sampled_as
from shiftproof.types import Finding, FloatArray

__all__ = ["read_certificate_log"]

LOGGED = Column("logged", "float", "The radius as the log has it; `radius` is less by what rounding may have added.")


def read_certificate_log(file: ImportedFile) -> Part:
    """The certificates of a log, at their word but for rounding: what may have been rounded up is taken off."""
    log, told = parse(file.content, file.name), file.told
    probe = ImportedProbe("certify", told.norm, told.alpha, told.sigma, told.n)
    certificates = _certificates(file, log)
    values = certificate_columns(certificates) | {
        "id": log.ids,
        "label": log.labels,
        "correct": log.prediction == log.labels,
        "logged": log.radius,
    }
    sampled, _ = sampled_as(log.ids)
    facts = certificate_facts(certificates) | {"sampled": sampled}
    findings = tuple(_findings(file, log, certificates))
    return make_part(file, probe, values, (*CERTIFICATE, LOGGED), findings=findings, **facts)


def _certificates(file: ImportedFile, log: Log) -> Certificates:
    told = file.told
    alpha = NOT_STATED if told.alpha is None else told.alpha
    # only Gaussian noise has its scale named sigma and certifies l2
    noise = as_noise({"name": "gaussian", "sigma": told.sigma}) if told.sigma and told.norm == "l2" else None
    blank = Certificates.blank(
        log.ids,
        log.prediction,
        _certified_radii(log, told.norm),
        bound=np.full(len(log.ids), IMPORTED),
        norm=told.norm,
        units="words inserted, deleted or replaced" if told.norm == "edits" else "as logged",
        alpha=alpha,
        title="imported log" if noise is None else f"{label(noise)}, imported log",
        guarantee=_guarantee(told.norm, alpha),
        noise=noise,
        scale=0.25 if noise is None else float(noise.scale),
        samples=told.n or 0,
    )
    # a certified radius may read 0, where it was rounded
    return replace(blank, prediction=log.prediction)


def _certified_radii(log: Log, norm: str) -> FloatArray:
    if norm == "edits":
        # a guarantee holds below its radius
        return np.where(log.prediction >= 0, np.floor(log.radius) + BEYOND, 0.0)
    assert log.rounding is not None
    return np.maximum(log.radius - log.rounding, 0.0)


def _guarantee(norm: str, alpha: float) -> str:
    chance = (
        "with what probability that is wrong was not stated"
        if alpha >= NOT_STATED
        else f"that is wrong with probability at most {alpha:g} a sample, as was told on import"
    )
    return (
        "An imported log says of a smoothed classifier that it gives the logged class under every change smaller than "
        f"the radius ({norm}); {chance}. The model, its noise and its votes are not here: none of this can be checked, "
        "and whoever wrote the log answers for it."
    )


def _findings(file: ImportedFile, log: Log, certificates: Certificates) -> Iterator[Finding]:
    yield Finding(
        "warn",
        "cant-be-checked",
        f"imported from {file.name}; the certificates can't be checked, because the model and its votes are not here",
    )
    told = file.told
    unknown = [
        word for word, value in (("alpha", told.alpha), ("sigma", told.sigma), ("votes", told.n)) if value is None
    ]
    if told.alpha is None:
        message = "with what probability a certificate is wrong is neither in the log nor told (--alpha)"
        yield Finding("warn", "alpha-not-stated", message)
    _, sentence = sampled_as(log.ids)
    if sentence:
        yield Finding("warn", "which-samples", sentence)
    if not told.held_out:
        message = "whether the samples served training or selection is not known (--held-out says that they did not)"
        yield Finding("warn", "seen-unknown", message)
    yield from _rounded(log, certificates)
    if told.sigma and told.n and told.norm == "l2":
        yield from _plausible(file, log, certificates)
    elif unknown != ["alpha"]:
        lacks = " and ".join(word for word in unknown if word != "alpha")
        message = f"whether so many votes can give such radii can't be checked without {lacks}"
        yield Finding("warn", "radii-unchecked", message)


def _rounded(log: Log, certificates: Certificates) -> Iterator[Finding]:
    right = log.prediction == log.labels
    logged, held = (mean_credit(np.where(right, radii, -1.0)) for radii in (log.radius, certificates.radius))
    most = float((log.radius - certificates.radius).max())
    if most > 1e-9:
        message = (
            f"radii were rounded, so that each may be too large by half a unit of its last digit, which is taken off "
            f"({most:.2g} at most): the average certified radius is {held:.4f}, and {logged:.4f} as logged"
        )
        yield Finding("pass", "radii-rounded", message, {"logged": logged, "certified": held})


def _plausible(file: ImportedFile, log: Log, certificates: Certificates) -> Iterator[Finding]:
    """Whether the largest radius is one that so many votes can certify."""
    told, largest = file.told, float(certificates.radius.max())
    assert told.sigma is not None
    assert told.n is not None
    shown, votes = f"the largest radius, {log.radius.max():g}", f"{told.n:,} votes at sigma {told.sigma:g}"
    needed = least_alpha(largest, told.sigma, told.n)
    if told.alpha is None:
        message = f"{shown}, takes an alpha of at least {needed:.2g} with {votes}"
        yield Finding("warn", "radii-need-alpha", message, {"least_alpha": needed})
        return
    cap = largest_radius(told.sigma, told.n, told.alpha)
    what = f"{votes} and {alpha_text(told.alpha)}"
    if largest > cap * (1 + 1e-9):
        more = least_votes(largest, told.sigma, told.alpha)
        message = (
            f"{shown}, is more than {what} can certify, which is {cap:.4g}, even if it was rounded up; it fits "
            f"alpha {_round_up(needed):g}, or {more:,} votes"
        )
        yield Finding("fail", "radii-too-large", message, {"cap": cap, "least_alpha": needed, "least_votes": more})
    else:
        message = f"{shown}, is possible: {what} certify {cap:.4g} at most, which a log may round up"
        yield Finding("pass", "radii-possible", message, {"cap": cap})


def _round_up(alpha: float) -> float:
    """The next alpha of two digits."""
    digit = 10.0 ** (np.floor(np.log10(alpha)) - 1)
    return float(np.ceil(alpha / digit - 1e-9) * digit)
