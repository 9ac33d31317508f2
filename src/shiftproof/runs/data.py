"""The data of a study: what it trains on, what it leaves out, what is measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from shiftproof.domains import Domain, Domains
from shiftproof.domains.splits import (
    Balanced,
    first_samples,
    has_training_rows,
    held_out,
    most_samples,
    part_of,
    train_part,
)
from shiftproof.domains.validate import Contents
from shiftproof.errors import DataError, UnknownName
from shiftproof.probes import Probe
from shiftproof.runs.names import check_targets
from shiftproof.runs.seen import seen_domains, was_trained_on
from shiftproof.runs.sources import as_recorded
from shiftproof.runs.spec import Study
from shiftproof.types import Finding

__all__ = [
    "StudyData",
    "calibration_pool",
    "check_classes",
    "data_findings",
    "load_study_data",
    "measured_part",
    "parts_of_study",
    "select_domains",
]


def measured_part(
    cards: Iterable[Mapping[str, Any]], data: str | Mapping[str, Any], domain: Domain, split: str | None = None
) -> str:
    """Which part of a domain is measured, for every verb: as told, else all of it unless a record says that a model
    was trained on it; then what training left out.
    """
    if split is not None:
        return split
    return "held-out" if any(was_trained_on(card, data, domain) for card in cards) else "all"


@dataclass(frozen=True, eq=False)
class StudyData:
    """The domains that a study trains on, and those that it leaves out, if any.

    Of every domain a part is measured, by name: what `parts` says, else what training leaves out of sources and all
    of targets. Of that at most `limit` samples, by `sample_seed`, less those of `left_out` (ids by domain), which
    can't be read; probes that take more than a forward pass a sample measure the first `prefix` of those, or so many
    of each domain. `pool` are domains whose training samples may shape a classifier, if not all sources are. `contents`
    are what all samples hold, if they were read. `trained_on` are, by name, models that are trained on some sources
    only: they are measured on these and on the targets.
    """

    sources: Domains
    targets: tuple[Domain, ...] = ()
    limit: int | Balanced | None = None
    left_out: Mapping[str, Sequence[str]] = field(default_factory=dict)
    sample_seed: int = 0
    parts: Mapping[str, str] = field(default_factory=dict)
    prefix: int | Balanced | Mapping[str, int | Balanced] | None = None
    pool: Domains | None = None
    contents: Contents = field(default_factory=dict, repr=False)
    trained_on: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def measured_by(self, probe: Probe, model: str | None = None) -> list[Domain]:
        """What a probe looks at: everything that is measured (of a model), or the first samples of it in the order of
        a limit.
        """
        places = [domain for domain in self.measured if model is None or self.is_measured(model, domain.name)]
        if probe.cheap or self.prefix is None:
            return places
        few = [first_samples(domain, self.first(domain.name), self.sample_seed) for domain in places]
        return [domain for domain in few if len(domain)]

    def first(self, domain: str) -> int | Balanced | None:
        """How many samples of a domain all but the cheap probes measure; None for all of them."""
        few = self.prefix.get(domain) if isinstance(self.prefix, Mapping) else self.prefix
        # a few of those that are balanced are balanced, too
        return Balanced(few) if isinstance(self.limit, Balanced) and isinstance(few, int) and few else few

    def is_measured(self, model: str, domain: str) -> bool:
        """Whether a model is measured on a domain: on its own sources and on targets."""
        return domain in self.trained_on.get(model, (domain,)) or domain not in self.sources.names

    def sources_of(self, model: str) -> Domains:
        """What a model is trained on."""
        return self.sources.select(self.trained_on[model]) if model in self.trained_on else self.sources

    def is_prefix(self, domain: Domain) -> bool:
        """Whether a probe was given fewer samples of a domain than others are."""
        return any(one.name == domain.name and len(domain) < len(one) for one in self.measured)

    def __getstate__(self) -> dict[str, Any]:
        # parts are found again in another process, and not sent beside what they are parts of
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @property
    def domains(self) -> list[Domain]:
        """Sources, then targets."""
        return [*self.sources, *self.targets]

    @cached_property
    def training(self) -> Domains | None:
        """What models are trained on, and may be shaped by: no sample of it is measured. None where there is none."""
        able = [domain for domain in self.pool or self.sources if has_training_rows(domain)]
        return Domains("training", [self._readable(train_part(domain)) for domain in able]) if able else None

    @cached_property
    def measured(self) -> list[Domain]:
        """What probes look at, of every source, then of every target."""
        return [
            self._readable(first_samples(part_of(domain, self.part(domain.name)), self.limit, self.sample_seed))
            for domain in self.domains
        ]

    def part(self, domain: str) -> str:
        """Which part of a domain is measured, by its name."""
        return self.parts.get(domain, "held-out" if domain in self.sources.names else "all")

    def sampled(self, domain: str) -> str:
        """all, or if a limit took some at random: simple, or balanced if it took as many of every class."""
        whole, most = next(one for one in self.domains if one.name == domain), most_samples(self.limit)
        if most is None or most >= len(part_of(whole, self.part(domain))):
            return "all"
        return _kind(self.limit)

    def sampled_of(self, domain: Domain) -> dict[str, str]:
        """How the samples that a probe was given are `sampled`, where they are fewer than others are given."""
        return {"sampled": _kind(self.first(domain.name))} if self.is_prefix(domain) else {}

    def _readable(self, domain: Domain) -> Domain:
        bad = set(self.left_out.get(domain.name, ()))
        return domain.subset(np.flatnonzero([str(one) not in bad for one in domain.ids])) if bad else domain


def _kind(limit: int | Balanced | None) -> str:
    return "balanced" if isinstance(limit, Balanced) else "simple"


def load_study_data(
    study: Study,
    left_out: Mapping[str, Sequence[str]] | None = None,
    parts: Mapping[str, str] | None = None,
    cards: Sequence[Mapping[str, Any]] = (),
) -> StudyData:
    """Without `source`, all domains but the targets are sources; without `target`, none is left out.

    `left_out` are samples that can't be read. `parts` are those that a run recorded; without them, they follow from the
    study and the records (`cards`) of models that it takes as they are.
    """
    domains = study.data.load()
    check_classes(domains)
    pool = calibration_domains(study, cards)
    trained_on = _trained_on(study, domains)
    union = [name for name in domains.names if any(name in names for names in trained_on.values())]
    data = StudyData(
        *select_domains(domains, union or study.source, study.targets),
        study.limit,
        left_out or {},
        sample_seed=study.sample_seed,
        prefix=study.prefix,
        pool=domains.select(pool) if pool else None,
        trained_on=trained_on,
    )
    _check_prefix(data)
    return replace(data, parts=parts_of_study(study, data, cards) if parts is None else parts)


def _trained_on(study: Study, domains: Domains) -> dict[str, tuple[str, ...]]:
    """By name, what each model is trained on, where some have sources of their own; else nothing."""
    if all(spec.source is None for spec in study.models.values()):
        return {}
    usual = study.source or domains.without(study.targets).names
    chosen = {name: usual if spec.source is None else spec.source for name, spec in study.models.items()}
    return {name: domains.select(names).names for name, names in chosen.items()}


def _check_prefix(data: StudyData) -> None:
    """Refuse a prefix for a domain that there is not."""
    names = [domain.name for domain in data.domains]
    for name in data.prefix if isinstance(data.prefix, Mapping) else ():
        if name not in names:
            raise UnknownName("domain", name, names)


def calibration_domains(study: Study, cards: Sequence[Mapping[str, Any]] = ()) -> list[str]:
    """Domains whose training samples may adapt a model: as told, or those that the records of models that are taken as
    they are say they were trained on; none means all sources.
    """
    if study.calibration is not None or study.trains or not any(probe.calibrates for probe in study.all_probes):
        return list(study.calibration or ())
    return sorted({name for card in cards for name in seen_domains(card, as_recorded(study.data))})


def calibration_pool(domains: Domains, card: Mapping[str, Any]) -> Domains | None:
    """Training samples of the domains that a model's record says it was trained on; None if it says nothing."""
    known = sorted(seen_domains(card, domains.name))
    return Domains("calibration", [train_part(domains[name]) for name in known]) if known else None


def parts_of_study(study: Study, data: StudyData, cards: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Which part of each domain is measured, by the study and the records of models that it takes as they are."""
    # what trains a model, or adapts it, is not measured
    calibrates = any(probe.calibrates for probe in study.all_probes)
    adapting = (data.pool or data.sources).names if calibrates or data.pool else ()
    shaping = {*(data.sources.names if study.trains else ()), *adapting}
    return {
        domain.name: "held-out"
        if study.split is None and domain.name in shaping
        else measured_part(cards, as_recorded(study.data), domain, study.split)
        for domain in data.domains
    }


def check_classes(domains: Domains) -> None:
    """Refuse data of a single class: whoever always answers with it is right."""
    if len(domains.classes) < 2 and not domains.is_regression:
        one = ", ".join(map(repr, domains.classes)) or "none"
        raise DataError(
            f"{domains.name} has a single class ({one}), so that there is nothing to tell apart; expected are two "
            "folders of images or more in every domain: root/domain/class/image.png"
        )


def select_domains(
    domains: Domains, source: Sequence[str] | None, targets: Sequence[str]
) -> tuple[Domains, tuple[Domain, ...]]:
    """The sources and the targets that are named; without `source`, all domains but the targets."""
    left_out = tuple(domains[target] for target in targets)
    check_targets(targets, source or ())
    return (domains.without(targets) if source is None else domains.select(source)), left_out


def data_findings(data: StudyData) -> list[Finding]:
    """What is odd about domains before anything is measured: classes and groups."""
    torn = [finding for source in data.sources for finding in _torn_findings(source)]
    return torn + [finding for target in data.targets for finding in _target_findings(target, data.sources)]


def _torn_findings(source: Domain) -> Iterator[Finding]:
    """Groups of a source that its own splits put on both sides of training, as some published splits do."""
    if source.groups is None or source.splits is None or not has_training_rows(source):
        return
    trained = {str(group) for group in train_part(source).units}
    shared = sorted(trained & {str(group) for group in held_out(source).units})
    if shared:
        message = (
            f"{len(shared)} groups of {source.name} are trained on and measured, such as {shared[0]}: its splits tear "
            f"them apart, and figures of {source.name} are too good"
        )
        yield Finding("warn", "torn-groups", message, {"names": [shared[0]]})


def _target_findings(target: Domain, sources: Domains) -> Iterator[Finding]:
    name = target.name
    for label, count in target.class_counts.items():
        if count and not any(source.class_counts[label] for source in sources):
            message = f"class {label!r} of {name} is in no source: no model can learn it"
            yield Finding("warn", "unseen-class", message)
    groups = [] if target.groups is None else target.groups.tolist()
    shared = {g for source in sources if source.groups is not None for g in source.groups} & set(groups)
    if shared:
        message = f"{len(shared)} groups of {name} are in a source too, such as {min(shared)}: {name} is not all unseen"
        yield Finding("warn", "shared-groups", message, {"names": [min(shared)]})
