"""What a run names and this machine does not have: a plug-in that is not installed.

Numbers of a report are functions of evidence, so that a run can be opened and shown without what measured it. In place
of a method that is not there stands one that keeps what was recorded of it and can do nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeGuard

from shiftproof.attacks import ATTACKS
from shiftproof.certification import CERTIFIERS
from shiftproof.domains import DOMAINS, DataSet
from shiftproof.errors import UnknownName, UsageError
from shiftproof.models import MODELS
from shiftproof.objectives import OBJECTIVES, Objective, Recipe
from shiftproof.objectives.objective import Selection
from shiftproof.perturbations.corruptions import CORRUPTIONS
from shiftproof.perturbations.noise import NOISES
from shiftproof.probes import PROBES, Probe
from shiftproof.runs.environment import package_version
from shiftproof.runs.imported import ImportedData

if TYPE_CHECKING:
    from shiftproof.runs.model_spec import ModelSpec
    from shiftproof.runs.spec import Study

__all__ = [
    "Absent",
    "AbsentData",
    "AbsentObjective",
    "AbsentProbe",
    "Recorded",
    "absent_in",
    "can_measure",
    "is_absent",
    "sentence_of",
]

_CATALOGUES = (ATTACKS, CERTIFIERS, CORRUPTIONS, DOMAINS, MODELS, NOISES, OBJECTIVES, PROBES)


@dataclass(frozen=True, eq=False, repr=False)
class Absent:
    """What was recorded of a method, and what of it is not installed, such as "attack 'fgsm'"."""

    config: Any
    missing: Any
    setting: Any = ""

    @property
    def name(self) -> str:
        """Its name in the record."""
        return str(self.config["name"])

    def to_config(self) -> dict[str, Any]:
        """As it was recorded."""
        return dict(self.config)

    def __repr__(self) -> str:
        return str(self.setting or self.config)

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise UsageError(f"the {self.missing} is not installed")


@dataclass(frozen=True, eq=False, repr=False)
class AbsentProbe(Absent, Probe):
    """A probe that can't measure again; `setting` is what its evidence is filed under."""

    collect = cost = Absent._refuse


@dataclass(frozen=True, eq=False, repr=False)
class AbsentObjective(Absent, Objective):
    """An objective that can't train again."""

    recipe: ClassVar[Recipe] = Recipe()
    selection: ClassVar[Selection] = "last"
    loss = Absent._refuse


@dataclass(frozen=True, eq=False, repr=False)
class AbsentData(Absent, DataSet):
    """Data that can't be loaded again."""

    load = Absent._refuse

    @property
    def source(self) -> str:
        """How it was named."""
        return self.name


@dataclass(frozen=True)
class Recorded:
    """Says of a study that it is read from a run: what is not installed is kept as it was recorded.

    `settings` are what the evidence of each probe is filed under, by the probe's configuration.
    """

    settings: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Recorded:
        """From what run.json says."""
        probes, settings = _probes_of(record["study"]), record.get("settings")
        if not isinstance(settings, list) or len(probes) != len(settings):
            return cls()
        return cls({key: str(setting) for key, setting in zip(probes, settings, strict=True)})

    def stand_in(self, kind: type[Absent], value: Any, error: UnknownName) -> Absent | None:
        """What stands in place of a method whose name is unknown; None where nothing is known of its evidence."""
        config, setting = {"name": value} if isinstance(value, str) else value, self.settings.get(_key(value), "")
        if not isinstance(config, Mapping) or "name" not in config or (kind is AbsentProbe and not setting):
            return None
        return kind(dict(config), _words(error), setting)


def is_absent(error: Exception) -> TypeGuard[UnknownName]:
    """Whether an error says that a method is not there, rather than that an option of it is not."""
    return isinstance(error, UnknownName) and error.kind in {catalogue.kind for catalogue in _CATALOGUES}


def absent_in(study: Study) -> list[str]:
    """What a study names and this machine does not have, such as "attack 'fgsm'", each once."""
    methods: list[object] = [study.data, *study.all_probes]
    absent = []
    for spec in study.models.values():
        methods += [spec.objective, *([] if spec.pretrain is None else [spec.pretrain.data, spec.pretrain.objective])]
        absent += _absent_model(spec)
    return list(dict.fromkeys([*absent, *(str(one.missing) for one in methods if isinstance(one, Absent))]))


def can_measure(study: Study) -> bool:
    """Whether the data and the models of a study can be loaded here."""
    return not isinstance(study.data, AbsentData | ImportedData) and not any(map(_absent_model, study.models.values()))


def sentence_of(study: Study, record: Mapping[str, Any]) -> str:
    """What is not installed, by which packages the run had it, and what that means; nothing where all is there."""
    absent = absent_in(study)
    if not absent:
        return ""
    packages = record["environment"].get("packages", {})
    gone = [f"{name} {version}" for name, version in packages.items() if version and package_version(name) is None]
    names = f"the {' and the '.join(absent)} {'is' if len(absent) == 1 else 'are'} not installed"
    made = f" (the run was made with {', '.join(gone)})" if gone else ""
    return f"{names}{made}: what depends on that is shown as it was recorded, and can't be checked again"


def _absent_model(spec: ModelSpec) -> list[str]:
    try:
        spec.model.check()
    except UnknownName as error:
        return [_words(error)] if is_absent(error) else []
    return []


def _words(error: UnknownName) -> str:
    return f"{error.kind} {error.name!r}"


def _probes_of(study: Mapping[str, Any]) -> list[str]:
    """The configurations of all probes of a recorded study, and of its models, each once."""
    models = study.get("models")
    specs = list(models.values()) if isinstance(models, Mapping) else []
    lists = [study.get("probes"), *(spec.get("probes") for spec in specs if isinstance(spec, Mapping))]
    every = [probe for some in lists if isinstance(some, list) for probe in some]
    return list(dict.fromkeys(map(_key, every)))


def _key(config: Any) -> str:
    return json.dumps(config, sort_keys=True, default=repr)
