"""Models from a text: a name of the catalogue, `file:PATH`, or `python:PACKAGE.MODULE:FUNCTION`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from torch import nn

from shiftproof.domains import Domain, Domains
from shiftproof.errors import ModelError, ShiftproofError, UnknownName, UsageError
from shiftproof.execution import read_json
from shiftproof.models.architecture import MODELS, Architecture, build_model
from shiftproof.models.files import load_weights, read_weights

__all__ = ["load_model", "model_path", "read_card"]


def load_model(spec: str, domains: Domains | Domain | None = None, *, seed: int = 0, **options: Any) -> nn.Module:
    """A model from `spec`, in eval mode if it comes with weights.

    - ``mlp``: a fresh network of the catalogue, for the shape and classes of `domains`;
    - ``file:model.safetensors``: a saved one, with the JSON beside it; never executes a pickle. A file of weights
      alone is loaded into ``architecture="cnn"``;
    - ``python:package.module:function``: what the function returns when it is called without arguments.
    """
    kind, _, rest = spec.partition(":")
    if kind == "file":
        return _from_file(model_path(spec), domains, options)
    if kind == "python":
        if options:
            raise UsageError(f"python:{rest} takes no options, but {', '.join(options)} was given")
        return _from_python(rest)
    if spec not in MODELS:
        raise UnknownName("model", spec, [*(entry.name for entry in MODELS), "file:PATH", "python:PKG.MOD:FN"])
    if domains is None:
        raise UsageError(f"model {spec!r} is built for a data set: pass domains, or load a saved one with file:PATH")
    return build_model(spec, domains, seed=seed, **options)


def model_path(spec: str) -> Path:
    """The weights that `file:PATH` means: the file, or the model.safetensors of a folder that `train` wrote."""
    path = Path(spec.removeprefix("file:"))
    if path.is_dir():
        path = path / "model.safetensors"
    if not path.is_file():
        raise ModelError(f"there is no model file {path}")
    return path


def read_card(path: Path) -> dict[str, Any]:
    """The JSON beside a model file: architecture, classes, training domains, left-out target, objective, selection."""
    card = read_json(path.with_suffix(".json"), ModelError)
    if card.get("format") != "shiftproof-model/1":
        raise ModelError(f"{path.with_suffix('.json')} does not describe a shiftproof model")
    return card


def _from_file(path: Path, domains: Domains | Domain | None, options: dict[str, Any]) -> nn.Module:
    name = options.pop("architecture", None)
    if name is not None:
        if domains is None:
            raise UsageError(f"architecture={name!r} is built for a data set: pass domains too")
        tensors = read_weights(path)
        model: nn.Module = build_model(name, domains, **options)
    elif options:
        raise UsageError(f"{path} knows its own options; {', '.join(options)} would need architecture=NAME too")
    else:
        # a pickle is refused for what it is, before anybody is asked for the JSON that it can't have
        tensors = read_weights(path, _expected_hash(path))
        model = _rebuild(path, read_card(path), domains)
    load_weights(model, tensors, path)
    return model.eval()


def _expected_hash(path: Path) -> str | None:
    if not path.with_suffix(".json").is_file():
        return None
    sha256 = read_card(path).get("weights", {}).get("sha256")
    return str(sha256) if sha256 else None


def _rebuild(path: Path, card: dict[str, Any], domains: Domains | Domain | None) -> nn.Module:
    if domains is not None and card.get("classes") and tuple(card["classes"]) != domains.classes:
        raise ModelError(
            f"{path} tells apart {', '.join(card['classes'])}; the data has the classes {', '.join(domains.classes)}"
        )
    record = card.get("architecture")
    if record is None:
        raise ModelError(
            f"{path} was saved from a model that the catalogue does not know; build the model yourself and load the "
            "tensors with safetensors.torch.load_file"
        )
    if str(record.get("name", "")).startswith("python:"):
        return _from_python(record["name"].removeprefix("python:"))
    architecture = Architecture.from_dict(record)
    if domains is not None and architecture.shape != domains.shape:
        raise ModelError(f"{path} takes inputs of shape {architecture.shape}, but the data has {domains.shape}")
    return architecture.build()


def _from_python(path: str) -> nn.Module:
    module_name, _, function = path.partition(":")
    if not module_name or not function:
        raise UsageError(f"'python:{path}' should read python:PACKAGE.MODULE:FUNCTION")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        # as `python -m` does: a console script does not see the current folder
        sys.path.insert(0, str(Path.cwd()))
    try:
        model = getattr(importlib.import_module(module_name), function)()
    except ShiftproofError:
        raise
    except Exception as error:
        raise ModelError(f"python:{path} failed: {type(error).__name__}: {error}") from error
    if not isinstance(model, nn.Module):
        raise ModelError(f"python:{path} returned {type(model).__name__}, not a torch.nn.Module")
    if getattr(model, "architecture", None) is None:
        model.architecture = _PythonArchitecture(f"python:{path}")  # type: ignore[assignment]
    return model


class _PythonArchitecture:
    """How to get the model again: by calling the same function."""

    def __init__(self, name: str) -> None:
        self.name = name

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name}
