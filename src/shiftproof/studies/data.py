"""The data of a study: what it trains on, what it leaves out, what is measured."""

from __future__ import annotations

from dataclasses import dataclass

from shiftproof.domains import Domain, Domains, held_out, load_domains
from shiftproof.domains.splits import train_part
from shiftproof.errors import UsageError
from shiftproof.studies.schema import Study
from shiftproof.types import Finding

__all__ = ["StudyData", "data_findings", "load_study_data"]


@dataclass(frozen=True, eq=False)
class StudyData:
    """The domains that a study trains on, and the one that it leaves out, if any."""

    sources: Domains
    target: Domain | None

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
        return [*map(held_out, self.sources), *([] if self.target is None else [self.target])]


def load_study_data(study: Study) -> StudyData:
    """Without `source`, all domains but the target are sources; without `target`, none is left out."""
    domains = load_domains(study.data.name, **study.data.options)
    target = None if study.target is None else domains[study.target]
    if study.source is not None:
        if study.target in study.source:
            raise UsageError(f"{study.target!r} is both source and target; a target is what training leaves out")
        sources = domains.select(study.source)
    else:
        sources = domains if study.target is None else domains.leave_out(study.target)[0]
    data = StudyData(sources, target)
    for domain in data.domains:
        domain.inputs.prepare()
    return data


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
