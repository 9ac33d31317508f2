"""A study before anything is trained or measured: loaded, checked, and with its identity; nothing is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from shiftproof.errors import ShiftproofError, StudyError
from shiftproof.evidence import slug
from shiftproof.models import load_model
from shiftproof.models.files import fingerprint
from shiftproof.probes import PROBES
from shiftproof.runs.data import StudyData, load_study_data
from shiftproof.runs.identity import digest, resolved
from shiftproof.runs.models import card_of
from shiftproof.runs.pretraining import untrained
from shiftproof.runs.spec import Study
from shiftproof.runs.study_files import find_study

__all__ = ["Prepared", "prepare_study"]


@dataclass(frozen=True, eq=False)
class Prepared:
    """A study before anything is trained or measured: its data, the models that it takes as they are, its identity."""

    study: Study
    data: StudyData
    taken: Mapping[str, nn.Module]
    config: dict[str, Any]

    @property
    def seed(self) -> int | None:
        """The seed that the study names, which keys the noise too; without one it is drawn, so that no model can have
        been made for it.
        """
        return self.study.seed if "seed" in self.study.model_fields_set else None

    @property
    def default_folder(self) -> Path:
        """Where the run goes unless told; a seed that was asked for is a part of its name, one that is drawn is not."""
        named = self.config if self.seed is None else {**self.config, "noise_seed": self.seed}
        return Path("runs") / f"{slug(self.study.name)}-{digest(named)}"


def prepare_study(study: Study | str) -> Prepared:
    """Load data and the models that are not trained, and refuse what can't be measured; nothing is written."""
    study = find_study(study) if isinstance(study, str) else study
    config = resolved(study)
    as_they_are = {name: spec.model for name, spec in study.models.items() if not spec.train}
    data = load_study_data(study, cards=[card_of(choice.name) for choice in as_they_are.values()])
    taken = {
        name: load_model(choice.name, data.sources, **choice.options).eval() for name, choice in as_they_are.items()
    }
    _check_probes(study, data, taken)
    # what a name means may change: a model counts by its weights, data by its content
    for name, model in taken.items():
        config["models"][name]["weights"] = fingerprint(model)
    config["fingerprints"] = {domain.name: domain.fingerprint for domain in data.domains}
    if len(taken) == len(study.models):
        # nothing is trained: the seed keys noise alone, and is compared with the one that the run has stored
        config.pop("seed")
    return Prepared(study, data, taken, config)


def _check_probes(study: Study, data: StudyData, taken: Mapping[str, nn.Module]) -> None:
    """Refuse what no training would make measurable, before there is any."""
    probes = [PROBES.create(choice.name, choice.options) for choice in study.probes]
    for name, spec in study.models.items():
        model = taken[name] if name in taken else untrained(spec, data.sources).eval()
        for probe in probes:
            try:
                probe.check(model, data.measured[-1], data.training)
            except ShiftproofError as error:
                raise StudyError(f"model {name!r} can't be measured by {probe.title!r}: {error}") from error
