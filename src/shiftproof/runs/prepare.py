"""A study before anything is trained or measured: loaded, checked, and with its identity; nothing is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import nn

from shiftproof.certification.checks import checked_once
from shiftproof.domains import Domains, train_part
from shiftproof.errors import ShiftproofError, StudyError, UsageError
from shiftproof.evidence import slug
from shiftproof.execution import Mode, showing_progress
from shiftproof.models.files import fingerprint
from shiftproof.probes import Probe
from shiftproof.probes.probe import check_labels
from shiftproof.runs.data import StudyData, calibration_domains, data_findings, load_study_data
from shiftproof.runs.identity import digest, study_identity
from shiftproof.runs.inspect import model_findings, read_data
from shiftproof.runs.pretraining import untrained
from shiftproof.runs.seen import seen_targets
from shiftproof.runs.sources import as_recorded
from shiftproof.runs.spec import Study
from shiftproof.training.checks import check_kind
from shiftproof.types import Finding

__all__ = ["Prepared", "prepare_study"]


@dataclass(frozen=True, eq=False)
class Prepared:
    """A study before anything is trained or measured: its data, the models that it takes as they are, its identity.

    Args:
        models: Models that are taken as they are, by name.
        cards: What is known of each of them: the record beside its file.
        findings: What was noticed about data and models.
        efforts: Probes that a budget may choose instead of the study's, from the greatest effort to the least.
    """

    study: Study
    data: StudyData
    models: Mapping[str, nn.Module]
    cards: Mapping[str, Mapping[str, Any]]
    findings: tuple[Finding, ...] = ()
    efforts: tuple[tuple[Probe, ...], ...] = ()

    @cached_property
    def identity(self) -> dict[str, Any]:
        """All that was asked and that can change a number.

        What a name means may change: a model counts by its weights, data by its content.
        """
        config = study_identity(self.study)
        for name, model in self.models.items():
            config["models"][name]["weights"] = fingerprint(model)
        config["fingerprints"] = {domain.name: domain.fingerprint for domain in self.data.domains}
        # whoever names all sources asks the same as who names none
        usual = self.study.source if self.data.trained_on and self.study.source else self.data.sources.names
        config["source"] = sorted(usual)
        if not self.study.trains:
            # the seed keys noise alone, and is compared with the one that the run has stored
            config.pop("seed", None)
        return config

    @property
    def seed(self) -> int | None:
        """The seed that the study names, which keys the noise too; without one it is drawn, so that no model can have
        been made for it.
        """
        study = self.study
        return study.seeds[0] if study.seeds else study.seed if "seed" in study.model_fields_set else None

    @property
    def default_folder(self) -> Path:
        """Where the run goes unless told; a seed that was asked for is a part of its name, one that is drawn is not."""
        named = self.identity if self.seed is None else {**self.identity, "noise_seed": self.seed}
        return Path("runs") / f"{slug(self.study.name)}-{digest(named)}"

    def data_for(self, probes: Sequence[Probe]) -> StudyData:
        """The samples that other probes would measure: what adapts a model is not among them."""
        if not any(probe.calibrates for probe in probes):
            return self.data
        cards = list(self.cards.values())
        return load_study_data(self._study_of(probes), self.data.left_out, cards=cards)

    def with_probes(self, probes: Sequence[Probe], efforts: Sequence[Sequence[Probe]] = ()) -> Prepared:
        """The same models and data, measured by other probes."""
        study, data = self._study_of(probes), self.data_for(probes)
        _check_probes(study, data, self.models)
        harder = tuple(tuple(probe.on(data.sources) for probe in some) for some in efforts)
        return replace(self, study=study, data=data, efforts=harder)

    def _study_of(self, probes: Sequence[Probe]) -> Study:
        known = tuple(probe.on(self.data.sources) for probe in probes)
        return _with_calibration(self.study.changed(probes=known), list(self.cards.values()))


def prepare_study(study: Study, progress: Mode = "off") -> Prepared:
    """Load data and the models that are not trained, and refuse what can't be measured; nothing is written."""
    if study.leave_out is not None:
        raise UsageError(
            f"the study {study.name!r} leaves out one domain after another (leave_out), each in a run of its own: "
            "'shiftproof run' and shiftproof.runs.run_leave_one_out do that; elsewhere name one domain as target"
        )
    as_they_are = {name: spec.model for name, spec in study.models.items() if not spec.train}
    cards = {name: source.card for name, source in as_they_are.items()}
    study = _with_calibration(study, list(cards.values()))
    with showing_progress(progress):
        data = load_study_data(study, cards=list(cards.values()))
        for domain in data.domains:
            # what is asked for in any case is read here, where it is shown
            _ = domain.fingerprint
    study = _for_data(study, data.sources)
    found: list[Finding] = []
    if study.trains:
        for domain in data.domains:
            domain.inputs.prepare()
    else:
        data, found = read_data(data, progress)
    for spec in study.models.values():
        for trained in (spec, spec.pretrain) if spec.train else ():
            if trained is not None:
                check_kind(trained.objective, trained.recipe, data.sources)
    models = {name: source.load(data.sources).eval() for name, source in as_they_are.items()}
    _check_probes(study, data, models)
    found += data_findings(data)
    for name, card in cards.items():
        found += seen_targets(name, card, as_recorded(study.data), data.targets)
    found += model_findings(models, data)
    return Prepared(study, data, models, cards, tuple(found))


def _for_data(study: Study, data: Domains) -> Study:
    """The study with probes written out that measure something else of such data."""
    return study.with_probes(lambda probe: probe.on(data))


def _with_calibration(study: Study, cards: Sequence[Mapping[str, Any]]) -> Study:
    """The study with the domains written out whose training samples adapt a model."""
    names = calibration_domains(study, cards)
    return study if not names or study.calibration is not None else study.changed(calibration=tuple(names))


def _check_probes(study: Study, data: StudyData, models: Mapping[str, nn.Module]) -> None:
    """Refuse what no training would make measurable, and data without training rows, before there is any training."""
    for domain in data.sources if study.trains else ():
        train_part(domain)
    # before training, networks of one architecture differ in nothing that a probe could refuse
    built: dict[str, nn.Module] = {}
    asked: set[tuple[str, str]] = set()
    with checked_once():
        for name, spec in study.models.items():
            alike = name if name in models else repr((spec.model.to_config(), spec.pretrain))
            if alike not in built:
                built[alike] = models[name] if name in models else untrained(spec, data.sources).eval()
            for probe in study.probes_of(name):
                if (alike, repr(probe)) not in asked:
                    asked.add((alike, repr(probe)))
                    _check_probe(study, data, name, built[alike], probe)


def _check_probe(study: Study, data: StudyData, name: str, model: nn.Module, probe: Probe) -> None:
    # what holds for one domain holds for all, but for samples that adapt the model
    places = data.measured if probe.calibrates else data.measured[-1:]
    try:
        for domain in places:
            check_labels(probe, domain)
            probe.check(model, domain, data.training)
    except ShiftproofError as error:
        if not study.trains and len(study.models) == 1:
            raise
        raise StudyError(f"model {name!r} can't be measured by {probe.title!r}: {error}") from error
