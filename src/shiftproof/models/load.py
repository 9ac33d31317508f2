"""Models by a name of the catalogue, `file:PATH`, `hf:PATH`, `timm:NAME`, or `python:PACKAGE.MODULE:FUNCTION`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from shiftproof.catalogue import checked_options, options_of
from shiftproof.domains import Domain, Domains
from shiftproof.errors import ModelError, ShiftproofError, UnknownName, UsageError
from shiftproof.execution import read_json
from shiftproof.models.files import file_hash, load_weights, read_weights
from shiftproof.models.heads import Head
from shiftproof.models.huggingface import (
    HuggingFaceBlueprint,
    build_huggingface,
    huggingface_options,
    is_classifier,
)
from shiftproof.models.networks.architecture import MODELS, NetworkBlueprint, build_model, split_options
from shiftproof.models.records import set_record
from shiftproof.models.split import Origin, SplitModel, set_origin
from shiftproof.models.timm import TimmBlueprint, build_timm, has_new_head, name_in_timm, timm_options
from shiftproof.rng import seeded_globals

__all__ = ["card_of", "check_options", "check_trained", "load_model", "model_path", "read_card", "starts_by_chance"]


def load_model(spec: str, domains: Domains | Domain | None = None, *, seed: int = 0, **options: Any) -> nn.Module:
    """A model from `spec`, in eval mode if it comes with weights.

    - ``mlp``: a fresh network of the catalogue, for the shape and classes of `domains`;
    - ``file:model.safetensors``: a saved one, with the JSON beside it; nothing in either is executed. Weights without
      that JSON are loaded into ``architecture="cnn"`` (with its options) or ``architecture="python:..."``; of a
      checkpoint with several parts, ``key="model"`` says which are the weights. Options of `Head`, such as
      ``head="free"``, keep its encoder and put a fresh head on it, for the classes and the image size of `domains`.
      What the JSON says of its training goes with the model, so that `sp.audit` measures what it was not trained on;
    - ``timm:resnet18``: a network of the timm library for `domains`, with its normalisation inside. With
      ``pretrained=True``, or ``weights="FILE.safetensors"``, it has published weights, and its own last layer unless
      options of `Head` ask for a new one;
    - ``hf:bert-folder``: a model of the transformers library for text, from a folder that save_pretrained wrote, or a
      name of the hub. A sequence classifier is taken as it is; an encoder, or one with options of `Head`, gets a new
      head;
    - ``python:package.module:function``: what your function returns when it is called without arguments.
    """
    check_options(spec, options)
    if spec.startswith("file:"):
        return _from_file(model_path(spec), domains, seed, options)
    if spec.startswith("python:"):
        return _from_python(spec, seed)
    if domains is None:
        raise UsageError(
            f"model {spec!r} is built for a data set: give the data (--data), or load a saved one with file:PATH"
        )
    if spec.startswith("timm:"):
        return build_timm(spec, domains, seed=seed, **options)
    if spec.startswith("hf:"):
        return build_huggingface(spec, domains, seed=seed, **options)
    return build_model(spec, domains, seed=seed, **options)


def check_options(spec: str, options: Mapping[str, Any]) -> None:
    """Whether `spec` names a model that takes these options; looks at no file."""
    if spec.startswith("file:"):
        head, others = _without_head(options)
        checked_options(Head, head, f"a new head of {spec}")
        if "key" in others and not isinstance(others.pop("key"), str):
            raise UsageError(f"key of {spec} should be a name inside the file, such as --set model.key=state_dict")
        if "architecture" in others:
            check_options(others.pop("architecture"), others)
        elif others:
            raise UsageError(f"{spec} says how it is built; {', '.join(others)} needs architecture=NAME beside it")
    elif spec.startswith("python:"):
        if options:
            raise UsageError(f"{spec} takes no options, but {', '.join(options)} was given")
    elif spec.startswith("timm:"):
        timm_options(spec, options)
    elif spec.startswith("hf:"):
        huggingface_options(spec, options)
    elif spec not in MODELS and Path(spec).exists():
        raise UsageError(f"{spec!r} is not the name of a model, but there is such a path: did you mean 'file:{spec}'?")
    elif spec not in MODELS and (there := name_in_timm(spec)) is not None:
        raise UsageError(f"unknown model {spec!r}. Did you mean {there!r}? (pip install 'shiftproof[timm]')")
    elif spec not in MODELS:
        prefixed = ["file:PATH", "hf:PATH", "timm:NAME", "python:PKG.MOD:FN"]
        raise UnknownName("model", spec, [*(entry.name for entry in MODELS), *prefixed])
    else:
        split_options(spec, options)


def check_trained(spec: str, options: Mapping[str, Any]) -> None:
    """Refuse to measure a network or a head that nobody has trained."""
    if spec.startswith("timm:") and (has_new_head(options) or not timm_options(spec, options)[2].trained):
        raise UsageError(
            f"{spec} {'gets a new head' if has_new_head(options) else 'starts from random weights'}, which is "
            "untrained: 'shiftproof train' trains it (published weights: --set model.pretrained=true, or "
            "model.weights=FILE)"
        )
    if spec.startswith("hf:") and not is_classifier(spec, options):
        raise UsageError(
            f"{spec} is no trained classifier, or gets a new head or random weights: 'shiftproof train' trains it"
        )
    head, _ = _without_head(options)
    if spec.startswith("file:") and head:
        raise UsageError(
            f"{', '.join(head)} puts a new head on {spec}, which is untrained: 'shiftproof train' trains it"
        )


def starts_by_chance(spec: str, options: Mapping[str, Any]) -> bool:
    """Whether a model's encoder starts from random weights: of a file, a function or published weights it does not."""
    if spec.startswith("timm:"):
        return not timm_options(spec, options)[2].trained
    if spec.startswith("hf:"):
        return huggingface_options(spec, options)[1].weights == "none"
    if spec not in MODELS:
        return False
    return bool({**MODELS[spec].options, **options}.get("weights", "none") == "none")


def model_path(spec: str) -> Path:
    """The weights that `file:PATH` means: the file, or the model.safetensors of a folder that `train` wrote."""
    if spec == "file:":
        raise UsageError("the path behind 'file:' is empty")
    path = Path(spec.removeprefix("file:"))
    if path.is_dir():
        path = path / "model.safetensors"
    if not path.is_file():
        raise ModelError(f"there is no model file {path}")
    return path


class ModelCard(BaseModel):
    """What must be right in the JSON beside a model for it to be loaded; there is more in it."""

    model_config = ConfigDict(extra="allow")

    format: Literal["shiftproof-model/1"]
    architecture: dict[str, Any] | None = None
    classes: list[str] | None = None
    weights: dict[str, str] = {}


def read_card(path: Path) -> dict[str, Any]:
    """The JSON beside a model file: architecture, classes, training domains, left-out target, objective, selection."""
    card = read_json(path.with_suffix(".json"), ModelError)
    try:
        return ModelCard.model_validate(card).model_dump()
    except ValidationError as error:
        where = ".".join(map(str, error.errors(include_url=False)[0]["loc"]))
        raise ModelError(f"{path.with_suffix('.json')} does not describe a shiftproof model: see {where!r}") from error


def card_of(path: Path) -> dict[str, Any]:
    """The record beside a model file; nothing if there is none, or if it was written for other weights or by others."""
    if not path.with_suffix(".json").is_file():
        return {}
    try:
        card = read_card(path)
    except ModelError:
        # whoever names the architecture needs no record; who does not is told what is wrong with it
        return {}
    return card if card["weights"].get("sha256") in (None, file_hash(path)) else {}


def _without_head(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of a head, and all others."""
    head = {option: value for option, value in options.items() if option in options_of(Head)}
    return head, {option: value for option, value in options.items() if option not in head}


def _from_file(path: Path, domains: Domains | Domain | None, seed: int, options: dict[str, Any]) -> nn.Module:
    head, others = _without_head(options)
    name, key = others.pop("architecture", None), others.pop("key", None)
    card = None if name is not None or not path.with_suffix(".json").is_file() else read_card(path)
    # a pickle is refused for what it is, before anybody is asked for the JSON that it can't have
    tensors = read_weights(path, None if card is None else card["weights"].get("sha256"), key)
    if name is not None:
        model = load_model(name, domains, **others)
        tensors = _with_head_of(model, tensors) if head else tensors
    elif card is None:
        raise ModelError(
            f"{path} has no {path.with_suffix('.json').name} beside it; say what it is: architecture=NAME or "
            "python:PKG.MOD:CLASS (--architecture on the command line)"
        )
    else:
        model = _rebuild(path, card, None if head else domains)
    load_weights(model, tensors, path)
    if head:
        return _with_new_head(model, path, domains, seed, head).eval()
    if known := card_of(path):
        set_record(model, known)
    return model.eval()


def _with_head_of(model: nn.Module, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights with those of the model's own head: it makes way for a new one, and need not fit that of the file."""
    own = {name: tensor for name, tensor in model.state_dict().items() if name.startswith("head.")}
    return {name: tensor for name, tensor in tensors.items() if not name.startswith("head.")} | own


def _with_new_head(
    model: nn.Module, path: Path, domains: Domains | Domain | None, seed: int, head: dict[str, Any]
) -> SplitModel:
    if domains is None:
        raise UsageError(f"a new head for file:{path} is built for a data set: give the data (--data)")
    if not isinstance(model, SplitModel):
        raise ModelError(f"a new head goes on a SplitModel(encoder, head), but {path} is a {type(model).__name__}")
    try:
        return model.with_fresh_head(domains, seed=seed, **head)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from error


def _kind_of(record: Mapping[str, Any] | None) -> str | None:
    """What a network of the catalogue takes, by its record; None of others."""
    name = (record or {}).get("name")
    return MODELS[name].cls.kind if isinstance(name, str) and name in MODELS else None


def _predicts(classes: Sequence[str]) -> str:
    return f"tells apart {', '.join(classes)}" if classes else "predicts a number"


def _labels(classes: Sequence[str]) -> str:
    return f"the classes {', '.join(classes)}" if classes else "numbers to predict"


def _rebuild(path: Path, card: dict[str, Any], domains: Domains | Domain | None) -> nn.Module:
    kind = _kind_of(card["architecture"])
    if domains is not None and kind not in (None, domains.kind):
        raise ModelError(
            f"{path} takes {kind} data, and {domains.name!r} holds {domains.kind} data: give it {kind} data"
        )
    if domains is not None and card["classes"] is not None and tuple(card["classes"]) != domains.classes:
        raise ModelError(
            f"{path} {_predicts(card['classes'])}; the data has {_labels(domains.classes)}. "
            "'shiftproof train --set model.head=free' trains a new head on its encoder"
        )
    record = card["architecture"]
    if record is None or str(record.get("name")).startswith("python:"):
        # a file that comes from elsewhere must not choose what code runs
        name = record["name"] if record else "python:PKG.MOD:FN"
        raise ModelError(
            f"{path} was made by code outside the catalogue{f', {name}' if record else ''}, which is not run because a "
            f"file says so; if you trust that code, name it yourself: --set model.architecture={name} "
            f"(architecture={name!r} in Python)"
        )
    kinds: dict[str, type[NetworkBlueprint]] = {"timm": TimmBlueprint, "hf": HuggingFaceBlueprint}
    blueprint = kinds.get(str(record.get("name")).partition(":")[0], NetworkBlueprint).from_dict(record)
    if domains is not None and not blueprint.fits(domains):
        if blueprint.kind != domains.kind:
            raise ModelError(f"{path} takes {blueprint.kind} data, and {domains.name!r} holds {domains.kind} data")
        side = blueprint.shape[-1]
        square = len(blueprint.shape) == 3 and blueprint.shape[0] == domains.shape[0] and blueprint.shape[1] == side
        hint = f"; images are brought to its size with --set data.size={side}" if square else ""
        raise ModelError(f"{path} takes inputs of shape {blueprint.shape}, but the data has {domains.shape}{hint}")
    return blueprint.build(published=False)


def _from_python(spec: str, seed: int) -> nn.Module:
    module_name, _, function = spec.removeprefix("python:").partition(":")
    if not module_name or not function:
        raise UsageError(f"{spec!r} should read python:PACKAGE.MODULE:FUNCTION")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        # as `python -m` does: a console script does not see the current folder
        sys.path.insert(0, str(Path.cwd()))
    try:
        with seeded_globals(seed, "initialisation", spec):
            model = getattr(importlib.import_module(module_name), function)()
    except ShiftproofError:
        raise
    except (Exception, SystemExit) as error:
        raise ModelError(f"{spec} failed: {type(error).__name__}: {error}") from error
    if not isinstance(model, nn.Module):
        raise ModelError(f"{spec} returned {type(model).__name__}, not a torch.nn.Module")
    if any(isinstance(one, UninitializedParameter) for one in model.parameters()):
        raise ModelError(f"{spec} has lazy layers without weights; call the model once in the function, on zeros")
    set_origin(model, _PythonFunction(spec))
    return model


@dataclass(frozen=True)
class _PythonFunction(Origin):
    """A function that makes the model again when it is called."""

    name: str

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name}
