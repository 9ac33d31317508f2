"""A model of a study: a network, an objective, and how it is trained and measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_serializer,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticCustomError

from shiftproof.catalogue import Method
from shiftproof.domains import DataSet
from shiftproof.errors import ShiftproofError, UnknownName, UsageError
from shiftproof.models import MODELS
from shiftproof.objectives import OBJECTIVES, Objective, Recipe
from shiftproof.objectives.erm import ERM
from shiftproof.objectives.objective import Selection
from shiftproof.probes import Probe
from shiftproof.runs.absent import Absent, AbsentData, AbsentObjective, AbsentProbe, Recorded, is_absent
from shiftproof.runs.imported import as_probe
from shiftproof.runs.names import Names
from shiftproof.runs.sources import ModelSource, as_data
from shiftproof.training.optimisers import check_recipe
from shiftproof.training.selection import check_rule, default_rule

__all__ = [
    "DataOption",
    "Member",
    "ModelSpec",
    "Pretrain",
    "ProbeOption",
    "Seed",
    "refuse",
]


def refuse(error: ShiftproofError, *path: str | int) -> PydanticCustomError:
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
            raise refuse(error) from error

    return PlainValidator(checked)


def _to_config(method: Method | ModelSource) -> dict[str, Any]:
    return method.to_config()


_Written = PlainSerializer(_to_config)
DataOption = Annotated[DataSet, _made(as_data, AbsentData), _Written]
ModelOption = Annotated[ModelSource, _made(ModelSource.make), _Written]
ObjectiveOption = Annotated[Objective, _made(OBJECTIVES.make, AbsentObjective), _Written]
ProbeOption = Annotated[Probe, _made(as_probe, AbsentProbe), _Written]
Seed = Annotated[int, Field(strict=True, ge=0)]


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
        return self.selection or default_rule(self.objective, self.recipe)

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
            raise refuse(error, "training") from error
        try:
            if not isinstance(self.objective, AbsentObjective):
                check_rule(self.rule, self.objective)
        except ShiftproofError as error:
            raise refuse(error, "selection") from error
        return self


class Pretrain(_Training):
    """A first phase on other data; the model's head is put on fresh after it, for the classes of the study."""

    data: DataOption
    source: Names | None = None


class ModelSpec(_Training):
    """One model of a study: a network, an objective, and changes to the objective's recipe.

    With `train: false` it is measured as it is.

    Args:
        source: Domains that this model is trained on, in place of the study's; it is measured on these and on targets.
        probes: What is measured of this model besides what the study measures of all.
        varied: What tells it from other models of one sweep: option and value.
    """

    model: ModelOption
    pretrain: Pretrain | None = None
    source: Names | None = None
    probes: tuple[ProbeOption, ...] = ()
    varied: dict[str, Any] = Field(default_factory=dict)
    train: bool = True
    about: str = ""

    @model_serializer(mode="wrap")
    def _of_training(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        own = ("probes", "varied")
        written = {key: value for key, value in write(self).items() if value is not None and (value or key not in own)}
        shown = ("model", "train", "about", *own)
        return written if self.train else {key: value for key, value in written.items() if key in shown}

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
            raise refuse(error, "model") from error
        name = self.model.name
        if self.pretrain is not None and name not in MODELS:
            why = "a model of a file is trained already" if name.startswith("file:") else "it is built by other code"
            message = f"pretrain is for networks by name (shiftproof ls models), but the model is {name!r}: {why}"
            raise refuse(UsageError(f"{message}; leave it out"), "pretrain")
        return self

    def _check_as_is(self) -> None:
        """Refuse what nobody has trained, and options of a training that there is not."""
        self.model.check_trained("'train: false' needs a trained one: file:PATH")
        unused = [
            key
            for key in ("objective", "training", "selection", "seed", "pretrain", "source")
            if key in self.model_fields_set
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
