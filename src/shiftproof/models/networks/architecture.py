"""Architectures by name, and the blueprint that builds a model again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Self

import torch
from pydantic import FiniteFloat, PositiveFloat, TypeAdapter, ValidationError
from torch import nn

from shiftproof.catalogue import Catalogue, Method, checked_options, options_of
from shiftproof.domains import Domain, Domains
from shiftproof.errors import ModelError, UnknownName
from shiftproof.execution import machine_memory
from shiftproof.models.heads import Head
from shiftproof.models.layers import Gray, Normalize
from shiftproof.models.split import Blueprint, SplitModel
from shiftproof.rng import seeded_globals

__all__ = ["MODELS", "Architecture", "Front", "NetworkBlueprint", "build_model", "split_options"]


class Architecture(Method, ABC):
    """A kind of network: a frozen dataclass of options that builds an encoder for inputs of a shape."""

    kind: ClassVar[str] = "image"
    """What it takes: image | text (rows of bytes of any width; its encoder is a `TextEncoder`)."""

    @abstractmethod
    def encoder(self, shape: tuple[int, ...]) -> tuple[nn.Module, int]:
        """The encoder, and the length of the representation that it gives."""


MODELS: Catalogue[Architecture] = Catalogue(
    "model", "shiftproof.models.networks", group="shiftproof.models", base=Architecture
)


@dataclass(frozen=True)
class Front:
    """What every model can have in front: a layer that can't see colour, and normalisation."""

    gray: bool = False
    mean: tuple[FiniteFloat, ...] | None = None
    std: tuple[PositiveFloat, ...] | None = None

    def layers(self, channels: int) -> list[nn.Module]:
        """The layers, for images of so many channels."""
        layers: list[nn.Module] = [Gray()] if self.gray else []
        if (self.mean is None) != (self.std is None):
            raise ModelError("mean and std go together")
        if self.mean is not None and self.std is not None:
            if not len(self.mean) == len(self.std) == (1 if self.gray else channels):
                raise ModelError(f"mean {self.mean} and std {self.std} need one value for each of {channels} channels")
            layers.append(Normalize(self.mean, self.std))
        return layers


@dataclass(frozen=True)
class NetworkBlueprint(Blueprint):
    """All that is needed to build a model of the catalogue again, but for its weights."""

    name: str
    shape: tuple[int, ...]
    classes: int
    options: dict[str, Any] = field(default_factory=dict)
    front: Front = Front()
    head: Head = field(default_factory=Head)

    def build(self, seed: int = 0, *, published: bool = True) -> SplitModel:
        """A freshly initialised model; the same weights for the same seed.

        Without `published` no published weights are read, for a model that gets other ones.
        """
        shape = (1, *self.shape[1:]) if self.front.gray else self.shape
        if self.kind == "text" and self.front != Front():
            raise ModelError(f"model {self.name!r} reads text: gray, mean and std are for images")
        front = self.front.layers(self.shape[0])
        fresh = {"weights": "none"} if not published and "weights" in MODELS[self.name].options else {}
        network = MODELS.create(self.name, {**self.options, **fresh})
        self._check_memory(shape)
        with seeded_globals(seed, "initialisation", self.name):
            features, width = network.encoder(shape)
            head = self.head.build(width, self.classes)
        return SplitModel(nn.Sequential(*front, features) if front else features, head, self)

    @property
    def kind(self) -> str:
        """What it takes: image | text."""
        return MODELS[self.name].cls.kind if self.name in MODELS else super().kind

    def with_shape(self, shape: tuple[int, ...], classes: int, head: Head) -> Self:
        """The same network for other inputs and classes, under another head."""
        return replace(self, shape=shape, classes=classes, head=head)

    def _check_memory(self, shape: tuple[int, ...]) -> None:
        """Refuse a network whose weights alone are more than the machine's memory; they are counted, not allocated."""
        empty = {"weights": "none"} if "weights" in MODELS[self.name].options else {}
        memory = machine_memory()
        try:
            with torch.random.fork_rng(devices=[]), torch.device("meta"):
                features, width = MODELS.create(self.name, {**self.options, **empty}).encoder(shape)
                parts = (features, self.head.build(width, self.classes))
            size = sum(p.numel() * p.element_size() for part in parts for p in part.parameters())
        except (RuntimeError, OverflowError, MemoryError) as error:
            raise ModelError(_too_large(self, "too many to count")) from error
        if memory is not None and size > memory:
            raise ModelError(_too_large(self, f"{size / 1e9:,.0f} GB; this machine has {memory / 1e9:,.0f} GB"))

    def as_dict(self) -> dict[str, Any]:
        """For a JSON file."""
        return asdict(self)

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Self:
        """Back from a JSON file."""
        try:
            return TypeAdapter(cls).validate_python(record)
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            where = ".".join(map(str, problem["loc"]))
            raise ModelError(f"the model's JSON is damaged at architecture.{where}: {problem['msg']}") from error


def _too_large(blueprint: NetworkBlueprint, seen: str) -> str:
    options = ", ".join(f"{name}={value}" for name, value in blueprint.options.items()) or "its usual options"
    return f"the weights of model {blueprint.name!r} with {options} do not fit into memory ({seen}): make it smaller"


def build_model(
    name: str,
    domains: Domains | Domain,
    *,
    seed: int = 0,
    **options: Any,
) -> SplitModel:
    """A freshly initialised network of the catalogue, for the inputs and classes of `domains`.

    `options` are the network's own, those of `Front` (gray=True, or mean=[...] and std=[...]) and those of `Head`
    (head="row-l1", head_layers=4).

    >>> from shiftproof.domains import load_domains
    >>> model = build_model("mlp", load_domains("digits"), width=64)
    >>> model.head
    Linear(in_features=64, out_features=10, bias=True)
    """
    front, head, own = split_options(name, options)
    if (kind := MODELS[name].cls.kind) != domains.kind:
        fitting = [entry.name for entry in MODELS if entry.cls.kind == domains.kind]
        raise ModelError(
            f"model {name!r} is for {kind} data, and {domains.name!r} holds {domains.kind} data; for that there are "
            f"{', '.join(fitting)}"
        )
    return NetworkBlueprint(name, domains.shape, domains.outputs, own, front, head).build(seed)


def split_options(name: str, options: Mapping[str, Any]) -> tuple[Front, Head, dict[str, Any]]:
    """Options of a model, checked: those of the layers in front, those of the head, and the network's own."""
    cls = MODELS[name].cls
    known = [*options_of(cls), *options_of(Front), *options_of(Head)]
    for option in options:
        if option not in known:
            raise UnknownName(f"option of model {name!r}:", option, known)

    def checked(part: type) -> dict[str, Any]:
        return checked_options(part, {k: v for k, v in options.items() if k in options_of(part)}, f"model {name!r}")

    return Front(**checked(Front)), Head(**checked(Head)), checked(cls)
