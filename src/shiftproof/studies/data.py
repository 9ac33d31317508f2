"""The data of a study: what it trains on, what it leaves out, what is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from shiftproof.domains import Domain, Domains, held_out, load_domains
from shiftproof.domains.splits import stratified, train_part
from shiftproof.errors import UsageError
from shiftproof.studies.schema import GIVEN, Study
from shiftproof.types import Finding

__all__ = ["StudyData", "chosen", "data_findings", "load_study_data"]


@dataclass(frozen=True, eq=False)
class StudyData:
    """The domains that a study trains on, and the one that it leaves out, if any.

    Of every domain at most `limit` samples are measured, less those of `left_out` (ids by domain), which can't be read.
    """

    sources: Domains
    target: Domain | None
    limit: int | None = None
    left_out: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def domains(self) -> list[Domain]:
        """Sources, then the target."""
        return [*self.sources, *([] if self.target is None else [self.target])]

    @property
    def training(self) -> Domains:
        """What models are trained on, and may be shaped by: no sample of it is measured."""
        return Domains("training", [train_part(domain) for domain in self.sources])

    @property
    def measured(self) -> list[Domain]:
        """What probes look at: the held-out part of every source, then the whole target."""
        whole = [*map(held_out, self.sources), *([] if self.target is None else [self.target])]
        return [self._readable(stratified(domain, self.limit)) for domain in whole]

    def _readable(self, domain: Domain) -> Domain:
        bad = set(self.left_out.get(domain.name, ()))
        return domain.subset(np.flatnonzero([str(one) not in bad for one in domain.ids])) if bad else domain


def load_study_data(study: Study, left_out: Mapping[str, Sequence[str]] | None = None) -> StudyData:
    """Without `source`, all domains but the target are sources; without `target`, none is left out.

    All samples are read now, if they fit into memory, unless some are `left_out` because they can't be.
    """
    if study.data.name == GIVEN:
        raise UsageError("the data of this run was handed over in Python, so that it can't be loaded again by name")
    domains = load_domains(study.data.name, **study.data.options)
    data = StudyData(*chosen(domains, study.source, study.target), study.limit, left_out or {})
    for domain in data.domains if not left_out else []:
        domain.inputs.prepare()
    return data


def chosen(domains: Domains, source: Sequence[str] | None, target: str | None) -> tuple[Domains, Domain | None]:
    """The sources and the target that are named; without `source`, all domains but the target."""
    left_out = None if target is None else domains[target]
    if source is None:
        return (domains if target is None else domains.leave_out(target)[0]), left_out
    if target in source:
        raise UsageError(f"{target!r} is both source and target; a target is what training leaves out")
    return domains.select(source), left_out


def data_findings(data: StudyData) -> list[Finding]:
    """What is odd about the target before anything is measured: classes and groups."""
    if data.target is None:
        return []
    name, findings = data.target.name, []
    for label, count in data.target.class_counts.items():
        if count and not any(source.class_counts[label] for source in data.sources):
            message = f"class {label!r} of {name} is in no source: no model can learn it"
            findings.append(Finding("warn", "unseen-class", message))
    groups = [] if data.target.groups is None else data.target.groups.tolist()
    shared = {g for source in data.sources if source.groups is not None for g in source.groups} & set(groups)
    if shared:
        message = f"{len(shared)} groups of {name} are in a source too, such as {min(shared)}: {name} is not all unseen"
        findings.append(Finding("warn", "shared-groups", message))
    return findings
