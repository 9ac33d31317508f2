"""A classifier as an encoder and a head."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import Any, Self

import torch
from torch import Tensor, nn

from shiftproof.catalogue import checked_options
from shiftproof.domains import Domain, Domains
from shiftproof.errors import ModelError, UsageError
from shiftproof.models.heads import Head
from shiftproof.models.outputs import logits_of
from shiftproof.rng import seeded_globals

__all__ = ["Blueprint", "Origin", "SplitModel", "blueprint_of", "origin_of", "set_origin"]


class Origin(ABC):
    """How a model was made, as the JSON beside its weights says."""

    name: str

    @abstractmethod
    def as_dict(self) -> dict[str, Any]:
        """For the JSON beside the weights."""


class Blueprint(Origin, ABC):
    """How to build a model again, without its weights, for inputs of `shape` and so many classes."""

    shape: tuple[int, ...]
    classes: int

    @property
    def kind(self) -> str:
        """What it takes: image | text."""
        return "image"

    def fits(self, domains: Domains | Domain) -> bool:
        """Whether it takes the inputs of `domains`: images of its shape, or texts, which have any length."""
        return self.kind == domains.kind and (self.kind == "text" or self.shape == domains.shape)

    @abstractmethod
    def with_shape(self, shape: tuple[int, ...], classes: int, head: Head) -> Self:
        """The same kind of model for other inputs and classes, under another head."""

    @abstractmethod
    def build(self, seed: int = 0, *, published: bool = True) -> SplitModel:
        """A freshly initialised model; without `published` no published weights are read."""


class SplitModel(nn.Module):
    """`head(encoder(x))`: the encoder gives a representation (N x D), the head logits (N x K).

    `with_head` keeps the encoder and exchanges the head, which is how a model is carried to another label space;
    `with_fresh_head` builds that head. `architecture` says how to build the same model again; it is None for one put
    together by hand.
    """

    def __init__(self, encoder: nn.Module, head: nn.Module, architecture: Origin | None = None) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head
        self.architecture = architecture

    def forward(self, inputs: Tensor) -> Tensor:
        """Inputs in [0, 1] to logits."""
        return self.head(self.encoder(inputs))  # type: ignore[no-any-return]

    def with_head(self, head: nn.Module) -> SplitModel:
        """The same encoder (shared, not copied) under another head."""
        return SplitModel(self.encoder, head)

    def with_fresh_head(self, domains: Domains | Domain, *, seed: int = 0, **options: Any) -> SplitModel:
        """The same encoder under a new head for the classes of `domains`; `options` are those of `Head`.

        The encoder is shared, unless inputs have another shape than those that the model was built for: then it is
        built again for theirs, with the same weights.

        >>> from shiftproof.domains import load_domains
        >>> from shiftproof.models import build_model
        >>> model = build_model("mlp", load_domains("digits"), width=64)
        >>> model.with_fresh_head(load_domains("rotated-digits"), head="row-l1", head_bound=2.0).head
        RowL1Linear(64, 10, bias=True)
        """
        if not isinstance(domains, Domain | Domains):
            raise UsageError(f"a head is built for the classes of domains, not for {domains!r}")
        head = Head(**checked_options(Head, options, "a head"))
        shape, classes = domains.shape, domains.outputs
        encoder, architecture = self.encoder, blueprint_of(self)
        if architecture is not None:
            if architecture.kind != domains.kind:
                raise ModelError(f"the encoder takes {architecture.kind} data, but {domains.name!r} is {domains.kind}")
            before, fits = architecture.shape, architecture.fits(domains)
            architecture = architecture.with_shape(shape, classes, head)
            encoder = encoder if fits else _resize_encoder(encoder, before, architecture)
        representation = _representation(encoder, shape)
        with seeded_globals(seed, "initialisation", "head"):
            layers = head.build(representation.shape[1], classes)
        return SplitModel(encoder, layers.to(representation), architecture)


def origin_of(model: nn.Module) -> Origin | None:
    """How a model was made, if it says so: its `architecture`."""
    origin = getattr(model, "architecture", None)
    return origin if isinstance(origin, Origin) else None


def blueprint_of(model: nn.Module) -> Blueprint | None:
    """How to build a model again; None for one that code outside the catalogue made, or that was put together."""
    origin = origin_of(model)
    return origin if isinstance(origin, Blueprint) else None


def set_origin(model: nn.Module, origin: Origin) -> None:
    """Note how a model was made, unless it has an `architecture` already."""
    if getattr(model, "architecture", None) is None:
        model.architecture = origin  # type: ignore[assignment]


def _resize_encoder(encoder: nn.Module, before: tuple[int, ...], architecture: Blueprint) -> nn.Module:
    """An encoder built anew for another shape of inputs, with the weights of the one given."""
    weights, misfit = encoder.state_dict(), f"inputs of shape {before}, and does not fit those of {architecture.shape}"
    try:
        resized = architecture.build(published=False).encoder
    except ModelError as error:
        raise ModelError(f"the encoder is for {misfit}: {error}") from error
    wanted = resized.state_dict()
    for name in sorted({*weights, *wanted}):
        sizes = [tuple(state[name].shape) if name in state else None for state in (weights, wanted)]
        if sizes[0] != sizes[1]:
            raise ModelError(f"the encoder is for {misfit}: {name!r} is {sizes[0]} there and would be {sizes[1]} here")
    resized.to(next(encoder.parameters(), torch.empty(0))).load_state_dict(weights)
    return resized.train(encoder.training)


def _representation(encoder: nn.Module, shape: tuple[int, ...]) -> Tensor:
    """What the encoder makes of a black image; its statistics and modes stay as they are."""
    try:
        return logits_of(copy.deepcopy(encoder).eval(), torch.zeros(1, *shape))
    except ModelError as error:
        raise ModelError(f"the encoder gives no row of numbers for an input of shape {shape}: {error}") from error
