"""What a study file may say."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from shiftproof.objectives.objective import Selection

__all__ = ["GIVEN", "Choice", "ModelSpec", "Pretrain", "Study"]

GIVEN = "given"
"""The name of data, or of a model, that was handed over in Python and that no name would find again."""


def _from_commas(value: Any) -> Any:
    return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value


Seed = Annotated[int, Field(strict=True, ge=0)]
Names = Annotated[tuple[str, ...], BeforeValidator(_from_commas)]


class Choice(BaseModel):
    """Something of a catalogue with its options: `mlp`, or `{name: mlp, width: 64}`."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @property
    def options(self) -> dict[str, Any]:
        """All but the name."""
        return dict(self.model_extra or {})


class Pretrain(BaseModel):
    """A first phase on other data; the model's head is put on fresh after it, for the classes of the study."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    data: Choice
    source: Names | None = None
    objective: Choice = Choice(name="erm")
    training: dict[str, Any] = Field(default_factory=dict)
    selection: Selection | None = None
    seed: Seed | None = None


class ModelSpec(BaseModel):
    """One model of a study: a network, an objective, and changes to the objective's recipe.

    With `train: false` it is measured as it is.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: Choice
    objective: Choice = Choice(name="erm")
    training: dict[str, Any] = Field(default_factory=dict)
    selection: Selection | None = None
    seed: Seed | None = None
    pretrain: Pretrain | None = None
    train: bool = True
    about: str = ""


class Study(BaseModel):
    """Train every model on the sources, run every probe on sources and target, write one report.

    `limit` takes so many samples of a domain, at random by `sample_seed`; `split` says of which part of each domain.
    `calibration` names domains whose training samples may shape a classifier; without it, those of all sources may.
    With `at_top` its one model lies at the top of the run's folder, as model.safetensors and model.json.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    title: str = ""
    about: str = ""
    data: Choice
    source: Names | None = None
    target: str | None = None
    seed: Seed = 0
    sample_seed: Seed = 0
    split: Literal["all", "train", "validation", "test", "held-out"] | None = None
    limit: Annotated[int, Field(strict=True, ge=1)] | None = None
    prefix: Annotated[int, Field(strict=True, ge=1)] | None = None
    calibration: Names | None = None
    at_top: bool = False
    models: dict[str, ModelSpec] = Field(min_length=1)
    probes: tuple[Choice, ...] = Field(default=(Choice(name="clean"),), min_length=1)

    @field_validator("probes")
    @classmethod
    def _each_once(cls, value: tuple[Choice, ...]) -> tuple[Choice, ...]:
        if len({repr(probe) for probe in value}) != len(value):
            raise ValueError("the same probe is listed twice")
        return value

    @field_validator("target", mode="before")
    @classmethod
    def _from_number(cls, value: Any) -> Any:
        return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
