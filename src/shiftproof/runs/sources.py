"""Where the data and the models of a study come from: by name, or handed over in Python."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from shiftproof.catalogue import to_plain
from shiftproof.domains import DataSet, Domain, Domains
from shiftproof.domains.registry import DOMAINS, PREFIXED, data_set
from shiftproof.errors import UsageError
from shiftproof.models import MODELS, load_model
from shiftproof.models.files import file_hash
from shiftproof.models.load import card_of, check_options, check_trained, model_path
from shiftproof.models.networks.architecture import split_options
from shiftproof.models.outputs import check_copyable
from shiftproof.models.records import record_of
from shiftproof.models.timm import build_timm, fetches, weights_of
from shiftproof.runs.imported import IMPORTED, ImportedData

__all__ = ["GIVEN", "HandedOver", "ModelSource", "as_data", "as_recorded"]

GIVEN = "given"
"""The name of data, or of a model, that was handed over in Python and that no name would find again."""
_NOT_FOUND = (GIVEN, IMPORTED)


@dataclass(frozen=True, eq=False)
class HandedOver(DataSet):
    """Data that was handed over in Python; what a folder says of it can't be loaded again."""

    domains: Any = None

    @property
    def source(self) -> str:
        """What a record calls it."""
        return GIVEN

    def to_config(self) -> dict[str, Any]:
        """Its name alone."""
        return {"name": GIVEN}

    def load(self) -> Domains:
        """The data itself."""
        if self.domains is None:
            raise UsageError("the data of this run was handed over in Python, so that it can't be loaded again by name")
        return self.domains  # type: ignore[no-any-return]


def as_data(value: Any) -> DataSet:
    """The data that is meant by a name, a mapping with a name and options, a data set, or domains."""
    if isinstance(value, DataSet):
        return value
    if isinstance(value, Domain | Domains):
        return HandedOver(value if isinstance(value, Domains) else Domains(value.name, [value]))
    options = {"name": value} if isinstance(value, str) else dict(value) if isinstance(value, Mapping) else {}
    name = options.pop("name", None)
    if not isinstance(name, str):
        raise UsageError(f"the data is {value!r}; it should be a name, or a mapping with its name and options")
    if name == IMPORTED:
        return ImportedData()
    return HandedOver() if name == GIVEN else data_set(name, options)


def as_recorded(data: DataSet) -> dict[str, Any]:
    """What the records of models say of this data: its name and options; of what was handed over, the name under which
    it was loaded, if any.

    Data of somebody's own has a name that others may have, too: there only the content tells.
    """
    if not isinstance(data, HandedOver) or data.domains is None:
        return {**data.to_config(), "name": data.source}
    name: str = data.domains.name
    kind, colon, _ = name.partition(":")
    return {"name": name if (name in DOMAINS and not colon) or (colon and kind in PREFIXED) else GIVEN}


@dataclass(frozen=True)
class ModelSource:
    """A model by name (mlp, file:PATH, hf:PATH, timm:NAME, ...) with its options, or one that was handed over.

    `known` is what is known of a model that was handed over, if it is not what the model itself carries. Without
    `fetch` random weights stand in for those that timm would fetch from the hub.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    module: nn.Module | None = field(default=None, repr=False)
    known: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    fetch: bool = field(default=True, repr=False, compare=False)

    @classmethod
    def make(cls, value: Any) -> ModelSource:
        """From a name, a mapping with a name and options, a module, or a source."""
        if isinstance(value, ModelSource):
            return value
        if isinstance(value, nn.Module):
            check_copyable(value)
            return cls(GIVEN, module=value)
        options = {"name": value} if isinstance(value, str) else dict(value) if isinstance(value, Mapping) else {}
        name = options.pop("name", None)
        if not isinstance(name, str):
            raise UsageError(f"the model is {value!r}; it should be a name, or a mapping with its name and options")
        return cls(name, options)

    def check(self) -> None:
        """Refuse a name that is none, and options that it does not take; no file is looked at."""
        if self.name not in _NOT_FOUND:
            check_options(self.name, self.options)

    def check_trained(self, hint: str) -> None:
        """Refuse a network that nobody has trained; `hint` says what is needed."""
        if self.name in MODELS:
            raise UsageError(f"{self.name!r} is a network without training; {hint}")
        self.check()
        if self.name not in _NOT_FOUND:
            check_trained(self.name, self.options)

    @property
    def title(self) -> str:
        """What tables call it: the function, the file, or the folder of a file that is called model."""
        if self.name.startswith("hf:"):
            return Path(self.name.removeprefix("hf:")).name or "model"
        if not self.name.startswith("file:"):
            return self.name.rsplit(":", 1)[-1] or "model"
        path = Path(self.name.removeprefix("file:")).resolve()
        path = path / "model.safetensors" if path.is_dir() else path
        return (path.parent.name if path.stem == "model" else path.stem) or "model"

    @property
    def card(self) -> dict[str, Any]:
        """The record beside a model's file, or of one that was handed over; nothing if it is of other weights."""
        if self.name.startswith("file:"):
            return card_of(model_path(self.name))
        return dict(self.known) or ({} if self.module is None else record_of(self.module))

    def load(self, domains: Domains, seed: int = 0) -> nn.Module:
        """The model, for the shape and classes of the data."""
        if self.name == IMPORTED:
            raise UsageError("the model of this run is not here: its results were imported")
        if not self.fetch and fetches(self.name, self.options):
            return build_timm(self.name, domains, seed=seed, fetch=False, **self.options)
        if self.name != GIVEN:
            return load_model(self.name, domains, seed=seed, **self.options)
        if self.module is None:
            raise UsageError("the model of this run was handed over in Python, so that no name finds it again")
        return self.module

    def load_to_train(self, domains: Domains, seed: int = 0) -> nn.Module:
        """The same, to be trained: of a model that was handed over a copy, so that every seed starts from its weights
        and it stays as it is.
        """
        loaded = self.load(domains, seed)
        return loaded if self.module is None else copy.deepcopy(loaded)

    def to_config(self) -> dict[str, Any]:
        """Name and options, of a network of the catalogue with every default written out."""
        if self.name not in MODELS:
            return {"name": self.name, **{key: to_plain(value) for key, value in self.options.items()}}
        front, head, own = split_options(self.name, self.options)
        options = {**MODELS[self.name].options, **own, **asdict(front), **asdict(head)}
        return {"name": self.name, **{key: to_plain(value) for key, value in options.items()}}

    def identity(self) -> dict[str, Any]:
        """The same with the content of a file: other weights under its name are another model."""
        path = self._file()
        return self.to_config() | ({} if path is None else {"sha256": file_hash(path)})

    def _file(self) -> Path | None:
        """The file of weights that it is loaded from, if it is one of this machine."""
        if self.name.startswith("file:"):
            return model_path(self.name)
        if self.name.startswith("hf:"):
            path = Path(self.name.removeprefix("hf:")) / "model.safetensors"
            return path if path.is_file() else None
        return weights_of(self.name, self.options)
