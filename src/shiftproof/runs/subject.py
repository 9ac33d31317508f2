"""Who is audited, and what is looked at before anything is measured: data, sizes, certificates, the model itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import nn

from shiftproof.certification import CERTIFIERS
from shiftproof.certification.bounds.representations import linear_parts
from shiftproof.domains import Domain, Domains, validate
from shiftproof.domains.validate import class_findings
from shiftproof.errors import DataError, ModelError, ShiftproofError, UsageError
from shiftproof.execution import Mode
from shiftproof.models.outputs import check_copyable
from shiftproof.perturbations.deformation import Ball
from shiftproof.probes import PROBES
from shiftproof.probes.certify import as_certifier
from shiftproof.runs.data import StudyData, measured_part
from shiftproof.runs.plan import DEFAULT, Wanted
from shiftproof.runs.spec import GIVEN, Study
from shiftproof.types import Finding

__all__ = [
    "SIGMA",
    "THREATS",
    "Subject",
    "applicable",
    "measured_data",
    "measured_parts",
    "oddities",
    "unreachable",
    "usual_certifiers",
]

SIGMA = 0.25
"""Of the noise that smooths, for a model whose record names none."""
THREATS = ("l2:0.5",)
READ_AT_MOST = 30_000
"""Up to so many images are all read before the audit, beyond that those that are measured."""
_TIGHT = 1.01
"""A constant up to which margins in a representation say something."""


@dataclass(frozen=True, eq=False)
class Subject:
    """What is audited: a model, what is known of it, and the domains that it was trained on and is shipped to.

    `data` and `spec` are how data and model are named, so that `verify` finds them again.
    """

    model: nn.Module
    sources: Domains
    target: Domain | None
    name: str = "model"
    card: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=lambda: {"name": GIVEN})
    spec: Mapping[str, Any] = field(default_factory=lambda: {"name": GIVEN})

    def __post_init__(self) -> None:
        if not isinstance(self.model, nn.Module):
            raise UsageError(f"the model is {type(self.model).__name__}; it should be a torch.nn.Module")
        check_copyable(self.model)


def usual_certifiers(subject: Subject) -> list[dict[str, Any]]:
    """The vote under the Gaussian noise that the model knows, and margins where the encoder has a small constant."""
    sigma = (subject.card.get("objective") or {}).get("sigma") or SIGMA
    found: list[dict[str, Any]] = [{"name": "randomized-smoothing", "noise": {"name": "gaussian", "sigma": sigma}}]
    try:
        parts = linear_parts(subject.model, subject.sources.shape, "l2", needs_split=True)
    except ShiftproofError:
        return found
    return [*found, {"name": "latent-margin"}] if parts.constant <= _TIGHT else found


def measured_data(
    subject: Subject, limit: int | None, progress: Mode, sample_seed: int = 0, parts: Mapping[str, str] | None = None
) -> tuple[StudyData, list[Finding]]:
    """The samples that are measured, without those that can't be read, and what is odd about them."""
    whole = StudyData(subject.sources, subject.target, limit, sample_seed=sample_seed, parts=parts or {})
    every = sum(map(len, whole.domains))
    # all of it, so that an image of the target that was trained on is found; unless that is too much to read
    some = Domains("measured", whole.measured) if every > READ_AT_MOST else Domains("all", whole.domains)
    looked = validate(some, progress)
    data = replace(whole, left_out=looked.unreadable)
    for domain in data.measured:
        if not len(domain):
            raise DataError(f"none of the samples of {domain.name!r} that were looked at can be read")
    # classes are a matter of all labels, not of the samples that a limit has chosen
    odd = [one for one in looked.findings if one.code not in ("empty-part", "classes", "class-mismatch")]
    odd += class_findings(Domains("all", data.domains))
    found = [replace(one, level="warn") for one in odd if one.level != "pass"]
    if every > READ_AT_MOST:
        message = f"{sum(map(len, some)):,} of {every:,} images were looked at; 'shiftproof validate' reads them all"
        found.append(Finding("pass", "not-all-read", message))
    return data, found


def measured_parts(subject: Subject, split: str | None, wanted: Wanted) -> dict[str, str]:
    """Which part of every domain is measured, by name: as of every verb.

    Where certificates are of a model that source images adapt, those images are not measured.
    """
    adapting = any("calibration" in CERTIFIERS[one["name"]].options for one in wanted.certifiers) and split is None
    sources = {domain.name: "held-out" if adapting else "" for domain in subject.sources}
    data, domains = str(subject.data["name"]), [*subject.sources, *([] if subject.target is None else [subject.target])]
    return {
        domain.name: sources.get(domain.name) or measured_part([subject.card], data, domain, split)
        for domain in domains
    }


def oddities(data: StudyData) -> Iterator[Finding]:
    """Domains with samples of one class only."""
    for domain in data.measured:
        present = [name for name, count in domain.class_counts.items() if count]
        if len(present) == 1:
            message = f"all measured samples of {domain.name} are {present[0]!r}: nothing there tells classes apart"
            yield Finding("warn", "one-class", message)


def applicable(subject: Subject, wanted: Wanted, data: StudyData) -> tuple[Wanted, list[Finding]]:
    """Without certificates and corruptions that do not apply, and why they do not; other probes must apply."""
    able: list[dict[str, Any]] = []
    found: list[Finding] = []
    if wanted.corruptions:
        try:
            PROBES.create("corrupt", {}).check(subject.model, data.measured[-1], data.training)
        except UsageError as error:
            found.append(Finding("warn", "not-corrupted", str(error)))
            wanted = replace(wanted, corruptions=())
    for probe in replace(wanted, certifiers=()).probes(DEFAULT):
        options = {key: value for key, value in probe.items() if key != "name"}
        PROBES.create(probe["name"], options).check(subject.model, data.measured[-1], data.training)
    for one in wanted.certifiers:
        try:
            PROBES.create("certify", {"certifier": one}).check(subject.model, data.measured[-1], data.training)
            able.append(one)
        except ModelError as error:
            found.append(Finding("warn", "not-certified", f"{one['name']}: nothing is certified: {error}"))
    return replace(wanted, certifiers=tuple(able)), found


def unreachable(study: Study, threats: Sequence[Ball], classes: int) -> Iterator[Finding]:
    """Certificates whose votes could not reach the size of an attack, however sure the model is."""
    certifiers = [as_certifier(choice.options["certifier"]) for choice in study.probes if choice.name == "certify"]
    for certifier in certifiers:
        cap, noise = certifier.largest_radius(classes), certifier.noise
        if noise is None:
            continue
        for threat in threats:
            if (threat.norm, threat.units) == (noise.norm, noise.units) and threat.eps > cap:
                message = f"{certifier.title} with {certifier.votes:,} votes certifies no radius above {cap:.3g}"
                hint = (
                    f"so that nothing can be guaranteed within {threat.norm} {threat.eps:g}: more votes, or more noise"
                )
                yield Finding("warn", "out-of-reach", f"{message}, {hint}")
