"""A study: what is trained, what is measured, and on which samples. It holds objects that are built and checked once,
whether they come from YAML, from the options of a verb or from Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_serializer,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticCustomError

from shiftproof.catalogue import Method
from shiftproof.domains import DataSet
from shiftproof.errors import ShiftproofError, UnknownName, UsageError
from shiftproof.evidence import slug
from shiftproof.execution.progress import parse_duration
from shiftproof.models import MODELS
from shiftproof.objectives import OBJECTIVES, Objective, Recipe
from shiftproof.objectives.erm import ERM
from shiftproof.objectives.objective import Selection
from shiftproof.probes import Probe
from shiftproof.probes.clean import Clean
from shiftproof.runs.absent import Absent, AbsentData, AbsentObjective, AbsentProbe, Recorded, is_absent
from shiftproof.runs.imported import as_probe
from shiftproof.runs.names import Names, TargetNames
from shiftproof.runs.sources import HandedOver, ModelSource, as_data
from shiftproof.training.optimisers import check_recipe
from shiftproof.training.selection import check_rule

__all__ = ["Member", "ModelSpec", "Pretrain", "Study"]


def _refuse(error: ShiftproofError, *path: str | int) -> PydanticCustomError:
    """An error of ours for pydantic, which knows where in the study it happened; `path` leads further in."""
    further = (*path, error.name) if isinstance(error, UnknownName) else path
    return PydanticCustomError("shiftproof", "{sentence}", {"sentence": str(error), "path": further})


def _made(make: Callable[[Any], Any], absent: type[Absent] | None = None) -> PlainValidator:
    """Makes a method of what names it; one of a record that is not installed is kept as a method of class `absent`."""

    def checked(value: Any, info: ValidationInfo) -> Any:
        try:
            return make(value)
        except ShiftproofError as error:
            if isinstance(info.context, Recorded) and absent is not None and is_absent(error):
                stand_in = info.context.stand_in(absent, value, error)
                if stand_in is not None:
                    return stand_in
            raise _refuse(error) from error

    return PlainValidator(checked)


def _to_config(method: Method | ModelSource) -> dict[str, Any]:
    return method.to_config()


_Written = PlainSerializer(_to_config)
DataOption = Annotated[DataSet, _made(as_data, AbsentData), _Written]
ModelOption = Annotated[ModelSource, _made(ModelSource.make), _Written]
ObjectiveOption = Annotated[Objective, _made(OBJECTIVES.make, AbsentObjective), _Written]
ProbeOption = Annotated[Probe, _made(as_probe, AbsentProbe), _Written]
Seed = Annotated[int, Field(strict=True, ge=0)]
Count = Annotated[int, Field(strict=True, ge=1)]


class _Training(BaseModel):
    """An objective, and changes to its recipe: what a model and its first phase have in common."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    objective: ObjectiveOption = Field(default_factory=ERM)
    training: dict[str, Any] = Field(default_factory=dict)
    selection: Selection | None = None
    seed: Seed | None = None

    @property
    def recipe(self) -> Recipe:
        """The objective's recipe with the changes."""
        return self.objective.recipe.override(self.training)

    @property
    def rule(self) -> Selection:
        """Which step's weights are kept."""
        return self.selection or self.objective.selection

    @field_serializer("training")
    def _whole_recipe(self, _: dict[str, Any]) -> dict[str, Any]:
        return asdict(self.recipe)

    @model_serializer(mode="wrap")
    def _without_gaps(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in write(self).items() if value is not None}

    @model_validator(mode="after")
    def _check_training(self) -> Self:
        try:
            check_recipe(self.recipe)
        except ShiftproofError as error:
            raise _refuse(error, "training") from error
        try:
            if not isinstance(self.objective, AbsentObjective):
                check_rule(self.rule, self.objective)
        except ShiftproofError as error:
            raise _refuse(error, "selection") from error
        return self


class Pretrain(_Training):
    """A first phase on other data; the model's head is put on fresh after it, for the classes of the study."""

    data: DataOption
    source: Names | None = None


class ModelSpec(_Training):
    """One model of a study: a network, an objective, and changes to the objective's recipe.

    With `train: false` it is measured as it is.
    """

    model: ModelOption
    pretrain: Pretrain | None = None
    train: bool = True
    about: str = ""

    @model_serializer(mode="wrap")
    def _of_training(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written = {key: value for key, value in write(self).items() if value is not None}
        return written if self.train else {key: written[key] for key in ("model", "train", "about")}

    @model_validator(mode="after")
    def _check_model(self, info: ValidationInfo) -> Self:
        try:
            if self.train:
                self.model.check()
            else:
                self._check_as_is()
        except ShiftproofError as error:
            if isinstance(info.context, Recorded) and is_absent(error):
                return self
            raise _refuse(error, "model") from error
        name = self.model.name
        if self.pretrain is not None and name not in MODELS:
            why = "a model of a file is trained already" if name.startswith("file:") else "it is built by other code"
            message = f"pretrain is for networks by name (shiftproof ls models), but the model is {name!r}: {why}"
            raise _refuse(UsageError(f"{message}; leave it out"), "pretrain")
        return self

    def _check_as_is(self) -> None:
        """Refuse what nobody has trained, and options of a training that there is not."""
        self.model.check_trained("'train: false' needs a trained one: file:PATH")
        unused = [
            key for key in ("objective", "training", "selection", "seed", "pretrain") if key in self.model_fields_set
        ]
        if unused:
            raise UsageError(
                f"{unused[0]} has no effect on a model that is not trained; leave it or 'train: false' out"
            )


@dataclass(frozen=True)
class Member:
    """A model of a study as it is measured: its name, and the seed that trained it where the study has several."""

    name: str
    seed: int | None = None

    @property
    def key(self) -> str:
        """What its file and its evidence are called."""
        return self.name if self.seed is None else f"{self.name}-{self.seed}"

    @property
    def title(self) -> str:
        """What messages call it."""
        return self.name if self.seed is None else f"{self.name}, seed {self.seed}"


class Study(BaseModel):
    """Train every model on the sources, run every probe on sources and targets, write one report.

    Args:
        target: The domain that training leaves out, or several: a name, names with commas, or a list.
        seed: Trains, and keys the draws of probes; the noise of certificates of a model that is not trained here has a
            seed of its own unless this one is given.
        seeds: Several seeds in place of one: every model is trained and measured with each.
        sample_seed: Chooses the samples that a limit takes.
        split: Which part of each domain is measured.
        limit: Samples of a domain that are measured, at most, at random.
        budget: How much time there is ("20m"); decides how many samples all but the cheap probes measure.
        cap: How long all of it should take at most ("60m"), as `estimate` says beside what it expects; changes nothing.
        prefix: What the budget was resolved to: samples of a domain for all but the cheap probes.
        calibration: Domains whose training samples may shape a classifier; without it, those of all sources may.
        at_top: Whether the one model lies at the top of the run's folder, as model.safetensors and model.json.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    name: str
    title: str = ""
    about: str = ""
    data: DataOption
    source: Names | None = None
    target: TargetNames = None
    seed: Seed = 0
    seeds: tuple[Seed, ...] | None = None
    sample_seed: Seed = 0
    split: Literal["all", "train", "validation", "test", "held-out"] | None = None
    limit: Count | None = None
    budget: str | None = None
    cap: str | None = None
    prefix: Count | None = None
    calibration: Names | None = None
    at_top: bool = False
    models: dict[str, ModelSpec] = Field(min_length=1)
    probes: tuple[ProbeOption, ...] = Field(default_factory=lambda: (Clean(),), min_length=1)

    @field_validator("probes")
    @classmethod
    def _each_once(cls, value: tuple[Probe, ...]) -> tuple[Probe, ...]:
        if len(set(map(repr, value))) != len(value):
            raise ValueError("the same probe is listed twice")
        return value

    @field_validator("budget", "cap")
    @classmethod
    def _a_time(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None:
            try:
                parse_duration(value, str(info.field_name))
            except ShiftproofError as error:
                raise _refuse(error) from error
        return value

    @model_validator(mode="after")
    def _check_seeds(self) -> Self:
        if self.seeds is None:
            return self
        own = next((name for name, spec in self.models.items() if spec.seed is not None), None)
        problem = ""
        if len(set(self.seeds)) != len(self.seeds) or not self.seeds:
            problem = "should name at least one seed, each once"
        elif "seed" in self.model_fields_set:
            problem = "stand in place of seed; leave one of them out"
        elif own is not None:
            problem = f"train every model with each seed, but {own!r} has a seed of its own; leave one of them out"
        elif not self.trains:
            problem = "are for models that are trained, and this study trains none"
        elif self.at_top and len(self.seeds) > 1:
            problem = "make several models, and only one can lie at the top of a folder"
        if problem:
            raise _refuse(UsageError(f"seeds {problem}"), "seeds")
        return self

    @model_validator(mode="after")
    def _check_files(self) -> Self:
        """Refuse names under which two models, or a model and a network before its second phase, would share a file."""
        if self.at_top and len(self.models) > 1:
            raise _refuse(UsageError("only one model can lie at the top of a folder; this study has several"), "at_top")
        files: dict[str, str] = {}
        for member in self.members:
            if (other := files.setdefault(slug(member.key), member.title)) != member.title:
                message = f"{member.title!r} would be kept where the model {other!r} goes; rename one of them"
                raise _refuse(UsageError(message), "models", member.name)
        for member in self.members:
            other = files.get(slug(f"{member.key}-pretrained"), "")
            if self.models[member.name].pretrain is not None and other:
                message = f"what {member.title!r} is pre-trained to would be kept where the model {other!r} goes"
                raise _refuse(UsageError(f"{message}; rename that"), "models", member.name, "pretrain")
        return self

    @property
    def targets(self) -> tuple[str, ...]:
        """The domains that training leaves out, in the order in which they were named."""
        return self.target or ()

    @property
    def trains(self) -> bool:
        """Whether any model is trained."""
        return any(spec.train for spec in self.models.values())

    @property
    def members(self) -> list[Member]:
        """Every model with every seed that trains it, in order."""
        return [
            Member(name, seed)
            for name, spec in self.models.items()
            for seed in (self.seeds if spec.train and self.seeds is not None else (None,))
        ]

    def seed_of(self, member: Member) -> int:
        """The seed that trains a model."""
        own = self.models[member.name].seed
        return member.seed if member.seed is not None else self.seed if own is None else own

    @property
    def handed_over(self) -> bool:
        """Whether data or a model was handed over in Python, so that no name finds it again."""
        return isinstance(self.data, HandedOver) or any(one.model.module is not None for one in self.models.values())

    def changed(self, **changes: Any) -> Study:
        """The same study with some fields changed; a field that was not given stays so."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return Study.model_validate({**given, **changes})

    def to_config(self) -> dict[str, Any]:
        """All of it with every default written out, in a form that fits into JSON and that makes it again.

        What stands in place of something else is written only where it was given.
        """
        config: Mapping[str, Any] = self.model_dump(mode="json")
        optional = {"seed", "seeds", "split", "limit", "budget", "cap", "prefix", "calibration", "source", "target"}
        return {key: value for key, value in config.items() if key not in optional or key in self.model_fields_set}
