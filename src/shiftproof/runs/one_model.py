"""A study of one model as it is, from what a verb was told: `certify` and `attack` are such studies with one probe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shiftproof.catalogue import options_of
from shiftproof.certification import CERTIFIERS, Certifier
from shiftproof.domains.splits import check_part
from shiftproof.errors import UsageError
from shiftproof.models import MODELS
from shiftproof.models.load import check_trained
from shiftproof.perturbations.noise import Noise
from shiftproof.runs.spec import Study
from shiftproof.runs.study_files import validated

__all__ = ["OneModel", "certifier_config", "model_title"]


@dataclass(frozen=True)
class OneModel:
    """Which model, on which samples, with which seed: what all verbs that measure a trained model are told alike."""

    data: str
    model: str
    options: Mapping[str, Mapping[str, Any]]
    domain: Sequence[str] | None = None
    limit: int | None = None
    sample_seed: int = 0
    split: str | None = None
    seed: int | None = None

    def study(
        self, verb: str, title: str, probes: Sequence[Mapping[str, Any]], calibration: Sequence[str] | None = None
    ) -> Study:
        """The study that measures it; refuses a network without training."""
        if self.model in MODELS:
            raise UsageError(f"{self.model!r} is a network without training; {verb} a trained one: --model file:PATH")
        check_trained(self.model, dict(self.options["model"]))
        name = model_title(self.model)
        document: dict[str, Any] = {
            "name": verb,
            "title": f"{title} {name}",
            "data": {"name": self.data, **self.options["data"]},
            "source": None if self.domain is None else list(self.domain),
            "models": {name: {"model": {"name": self.model, **self.options["model"]}, "train": False}},
            "probes": [dict(probe) for probe in probes],
            "limit": self.limit,
            "sample_seed": self.sample_seed,
            "split": check_part(self.split),
            "calibration": None if calibration is None else list(calibration),
        }
        return validated(document | ({} if self.seed is None else {"seed": self.seed}), "command line")


def model_title(model: str) -> str:
    """What tables call a model: the function, the file, or the folder of a file that is called model."""
    if not model.startswith("file:"):
        return model.rsplit(":", 1)[-1] or "model"
    path = Path(model.removeprefix("file:")).resolve()
    path = path / "model.safetensors" if path.is_dir() else path
    return (path.parent.name if path.stem == "model" else path.stem) or "model"


def certifier_config(certifier: Certifier) -> dict[str, Any]:
    """A certifier in a form from which `as_certifier` makes it again; it fits into JSON."""
    config: dict[str, Any] = {"name": CERTIFIERS.name_of(certifier)}
    for name in options_of(type(certifier)):
        value = getattr(certifier, name)
        if isinstance(value, Noise):
            value = value.to_config()
        plain = value is None or isinstance(value, bool | int | float | list | tuple | dict)
        config[name] = value if plain else str(value)
    return config
