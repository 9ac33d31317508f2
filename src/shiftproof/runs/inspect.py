"""What is looked at before a model is measured as it is: whether its data can be read, and what is odd about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from shiftproof.domains import Domain, Domains
from shiftproof.domains.texts import texts_of
from shiftproof.domains.validate import class_findings, read_contents, validate_contents
from shiftproof.errors import DataError
from shiftproof.execution import Mode
from shiftproof.models.huggingface import matched_by_order
from shiftproof.models.text.encoder import text_encoder_of
from shiftproof.perturbations.threat import Ball, size_text
from shiftproof.probes import Probe
from shiftproof.probes.attack import Attack
from shiftproof.probes.certify import Certify
from shiftproof.runs.copies import READ_AT_MOST
from shiftproof.runs.data import StudyData
from shiftproof.runs.scale import scale_findings
from shiftproof.types import Finding

__all__ = ["cut_findings", "model_findings", "probe_findings", "read_data"]


def read_data(data: StudyData, progress: Mode = "off") -> tuple[StudyData, list[Finding]]:
    """The data without samples that can't be read, and what is odd about it.

    All of it is read, so that an image of a target that is also in a source is found; unless that is too much.
    """
    every = sum(map(len, data.domains))
    some = Domains("measured", data.measured) if every > READ_AT_MOST else Domains("all", data.domains)
    contents = read_contents(some, progress)
    looked = validate_contents(some, contents)
    data = replace(data, left_out=looked.unreadable, contents={} if every > READ_AT_MOST else contents)
    for domain in data.measured:
        if not len(domain):
            raise DataError(f"none of the samples of {domain.name!r} that were looked at can be read")
    # classes are a matter of all labels, not of the samples that a limit has chosen
    odd = [one for one in looked.findings if one.code not in ("empty-part", "classes", "class-mismatch")]
    odd += class_findings(Domains("all", data.domains))
    found = [replace(one, level="warn") for one in odd if one.level != "pass"]
    if every > READ_AT_MOST:
        message = f"{sum(map(len, some)):,} of {every:,} samples were looked at; 'shiftproof validate' reads them all"
        found.append(Finding("pass", "not-all-read", message))
    return data, [*found, *_one_class(data)]


def _one_class(data: StudyData) -> Iterator[Finding]:
    """Domains with samples of one class only."""
    for domain in data.measured:
        present = [name for name, count in domain.class_counts.items() if count]
        if len(present) == 1:
            message = f"all measured samples of {domain.name} are {present[0]!r}: nothing there tells classes apart"
            yield Finding("warn", "one-class", message)


def model_findings(models: Mapping[str, nn.Module], data: StudyData) -> Iterator[Finding]:
    """Models whose classes are those of the data by their order alone, and models that are right far more often on
    inputs of another scale.
    """
    for name, model in models.items():
        if taken := matched_by_order(model, data.sources.classes):
            message = f"{name} has other names of classes than the data; by their order it was taken {taken}"
            yield Finding("warn", "classes-by-order", f"{message}: if that is wrong, set id2label in its config.json")
        for one in scale_findings(model, data.measured[: len(data.sources)]):
            yield replace(one, message=f"{name}: {one.message}") if len(models) > 1 else one


def cut_findings(models: Mapping[str, nn.Module], domains: Sequence[Domain]) -> Iterator[Finding]:
    """Texts of which models read the beginning only, by domain: what is said of them is said of that."""
    by_places: dict[str, list[str]] = {}
    for name, model in models.items():
        by_places.setdefault(_cut_places(model, domains), []).append(name)
    for places, names in by_places.items():
        if places:
            verb = "does" if len(names) == 1 else "do"
            message = f"{', '.join(names)} {verb} not read to the end of {places}"
            yield Finding("warn", "texts-cut", f"{message}: they have more tokens than fit")


def _cut_places(model: nn.Module, domains: Sequence[Domain]) -> str:
    """How many texts of which domains a model does not read to their end."""
    encoder = text_encoder_of(model)
    if encoder is None:
        return ""
    cut = {
        domain.name: sum(
            int((encoder.tokeniser.tokens(texts_of(domain, block)).cut > 0).sum()) for block in domain.blocks
        )
        for domain in domains
        if domain.kind == "text"
    }
    return ", ".join(f"{cut[one.name]} of {len(one)} texts of {one.name}" for one in domains if cut.get(one.name))


def probe_findings(probes: Sequence[Probe], classes: int) -> Iterator[Finding]:
    """What weakens probes, as far as their options tell; and certificates whose votes could not reach the size of an
    attack, however sure the model is.
    """
    for probe in probes:
        yield from probe.findings()
    threats: list[Ball] = list(dict.fromkeys(one.attack.threat for one in probes if isinstance(one, Attack)))
    certifiers: list[Any] = [one for probe in probes if isinstance(probe, Certify) for one in probe.settings.values()]
    for certifier in certifiers:
        noise, cap = certifier.noise, certifier.largest_radius(classes)
        for threat in threats if noise is not None else ():
            if (threat.norm, threat.units) == (noise.norm, noise.units) and threat.eps > cap:
                how = f"{certifier.votes:,} votes at alpha {certifier.alpha:g}"
                message = f"{certifier.title} with {how} certifies no radius above {cap:.3g}"
                hint = f"so that nothing can be guaranteed within {size_text(threat.eps, threat.norm)}"
                yield Finding("warn", "out-of-reach", f"{message}, {hint}: more votes, or more noise")
