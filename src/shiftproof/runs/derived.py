"""Findings that follow from a study, its data and its models: noted when a run is filled, derived again by verify."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import nn

from shiftproof.runs.copies import Copies
from shiftproof.runs.data import StudyData
from shiftproof.runs.inspect import cut_findings, probe_findings
from shiftproof.runs.model_spec import Member
from shiftproof.runs.models import training_findings
from shiftproof.runs.samples import copied_findings
from shiftproof.runs.seen import seen_targets
from shiftproof.runs.sources import as_recorded
from shiftproof.runs.spec import Study
from shiftproof.types import Finding

__all__ = ["Models", "derived_findings"]

Models = Mapping[Member, tuple[nn.Module, dict[str, Any]]]
"""Models, each with its record."""


def derived_findings(study: Study, data: StudyData, models: Models, copies: Copies) -> Iterator[Finding]:
    """What weakens probes and training, which targets were seen, which texts are cut."""
    yield from probe_findings(study.all_probes, len(data.sources.classes))
    for member, (model, card) in models.items():
        if study.models[member.name].train:
            spec, sources = study.models[member.name], data.sources_of(member.name)
            yield from training_findings(member.title, spec, model, sources, card)
            yield from seen_targets(member.title, card, as_recorded(study.data), data.targets)
        yield from copied_findings(member.title, data, study, card, copies)
    # a model has one way of reading, whatever seed has trained it
    yield from cut_findings({member.name: model for member, (model, _) in models.items()}, data.measured)
