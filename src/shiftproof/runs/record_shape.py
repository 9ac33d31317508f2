"""What run.json holds, entry by entry: a file that was damaged is refused when it is read, not where it is shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

__all__ = ["damaged_entries"]


class _Entry(BaseModel):
    """Other keys may stand there, too: a later version may have written them."""

    model_config = ConfigDict(strict=True, extra="ignore")


class _Environment(_Entry):
    python: str
    packages: dict[str, str | None]
    system: str
    cores: int | None
    threads: int
    accelerator: str


class _Finding(_Entry):
    model_config = ConfigDict(strict=True, extra="forbid")

    level: Literal["pass", "warn", "fail"]
    code: str
    message: str
    evidence: dict[str, Any] = {}


class _Hashes(_Entry):
    data: dict[str, str]
    weights: dict[str, str]
    cards: dict[str, str] = {}


class _Protocol(_Entry):
    split: str


class _Selection(_Entry):
    step: int
    rule: str


class _Samples(_Entry):
    sampled: str
    seen_in_training: Literal["no", "unknown", "yes"]


class _Named(_Entry):
    name: str


class _Recipe(_Entry):
    optimiser: str
    lr: float
    steps: int
    batch: int


class _Training(_Entry):
    objective: _Named
    recipe: _Recipe


class _FirstPhase(_Training):
    data: _Named


class _TrainedModel(_Training):
    model: _Named
    pretrain: _FirstPhase | None = None


class _ModelAsItIs(_Entry):
    model: _Named
    train: Literal[False]


class _ImportedFile(_Entry):
    name: str
    copy_: str = Field(alias="copy")
    sha256: str
    told: dict[str, Any]


class _Imported(_Entry):
    files: list[_ImportedFile]
    measurements: list[list[str]]


class _Config(_Entry):
    models: dict[str, _ModelAsItIs | _TrainedModel]


class _Record(_Entry):
    """What has a default is there once models are, once all is measured, or if it was asked for."""

    hash: str
    study: dict[str, Any]
    config: _Config
    sources: list[str]
    classes: list[str]
    labels: dict[str, dict[str, int]]
    selected: dict[str, _Selection | None]
    findings: list[_Finding]
    protocol: _Protocol
    parts: dict[str, str]
    noise_seed: int
    fingerprints: _Hashes
    environment: _Environment
    later_environments: list[_Environment]
    command: str = ""
    settings: list[str] = []
    left_out: dict[str, list[str]] = {}
    measured: dict[str, dict[str, _Samples]] = {}
    behaviour: dict[str, dict[str, list[Any]]] = {}
    examined: list[_Finding] = []
    require: list[str] = []
    radii: list[float] = []
    images: bool = True
    id_key: str = ""
    imported: _Imported | None = None
    started: str = ""
    finished: str = ""


def damaged_entries(record: Mapping[str, Any]) -> list[str]:
    """Names of entries that are missing, or are not what a run has there."""
    try:
        _Record.model_validate(record)
    except ValidationError as error:
        return list(dict.fromkeys(str(one["loc"][0]) for one in error.errors()))
    return []
