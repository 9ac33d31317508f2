"""Models of the transformers library: hf:PATH of a folder that save_pretrained wrote, or hf:NAME of the hub."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from annotated_types import Interval
from torch import nn

from shiftproof.catalogue import checked_options, options_of
from shiftproof.domains import Domain, Domains
from shiftproof.errors import ModelError, UnknownName, UsageError
from shiftproof.execution import machine_memory
from shiftproof.models.heads import Head
from shiftproof.models.labels import match_classes
from shiftproof.models.networks.architecture import NetworkBlueprint
from shiftproof.models.split import SplitModel, blueprint_of
from shiftproof.models.text.fast_tokeniser import FastTokeniser
from shiftproof.models.text.library import (
    build_module,
    folder_of,
    gives_segments,
    load_module,
    plain_config,
    read_config,
    read_tokenizer,
    tokenizer_content,
)
from shiftproof.models.text.reading import Reordered, check_reading, checked_length
from shiftproof.models.text.transformer import Pooling, TransformerEncoder, freeze_layers, length_limit, set_dropout
from shiftproof.rng import seeded_globals
from shiftproof.types import Natural, Positive

__all__ = [
    "HuggingFace",
    "HuggingFaceBlueprint",
    "build_huggingface",
    "huggingface_options",
    "is_classifier",
    "matched_by_order",
]

PREFIX = "hf:"


@dataclass(frozen=True)
class HuggingFace:
    """Options of hf:NAME_OR_PATH.

    Args:
        weights: Those of the folder, or "none" for a random twin of the same shape.
        length: Tokens that are read of a text; by default as many as the model can.
        freeze: How many of the lowest layers keep their weights in training; the embeddings are the first.
        dropout: One probability for all dropout layers; by default that of the folder.
        pooling: What the representation below a new head is: the mean over all tokens, or the first one.
    """

    weights: Literal["pretrained", "none"] = "pretrained"
    length: Positive | None = None
    freeze: Natural = 0
    dropout: Annotated[float, Interval(ge=0, lt=1)] | None = None
    pooling: Pooling = "mean"


@dataclass(frozen=True)
class HuggingFaceBlueprint(NetworkBlueprint):
    """All that is needed to build such a model again, but for its weights, among which its tokeniser is.

    Args:
        config: The configuration of the module; nothing in it can fetch or run anything.
        order: For a classifier that is taken as it is: which of its outputs each class of the data is. None if there
            is a head of our own on an encoder.
        segments: Whether the module is told which part of a pair a token belongs to.
    """

    config: dict[str, Any] = field(default_factory=dict, repr=False)
    order: tuple[Natural, ...] | None = None
    segments: bool = True

    @property
    def kind(self) -> str:
        """What it takes."""
        return "text"

    def build(self, seed: int = 0, *, published: bool = True) -> SplitModel:
        """The model; without `published` from its configuration alone, with a tokeniser that is still to come."""
        own = HuggingFace(**checked_options(HuggingFace, self.options, f"model {self.name!r}"))
        folder = folder_of(self.name) if published else None
        self._check_memory(self.shape)
        with seeded_globals(seed, "initialisation", self.name):
            if folder is not None and own.weights == "pretrained":
                module = load_module(folder, read_config(folder), classifier=self._classifies)
            else:
                module = build_module(self.config, classifier=self._classifies)
            encoder = self._encoder(module, folder, own)
            head = self._head(encoder)
        # without the tokenizer's files nobody could tell the length again
        told = {**asdict(own), "length": encoder.tokeniser.length}
        return SplitModel(encoder, head, replace(self, options=told, segments=encoder.takes_segments))

    def with_shape(self, shape: tuple[int, ...], classes: int, head: Head) -> HuggingFaceBlueprint:
        """The same encoder under another head; a classifier's own layers are no encoder."""
        if self._classifies:
            raise ModelError(f"{self.name} was kept with its own head; a new one goes on the folder it came from")
        return super().with_shape(shape, classes, head)

    @property
    def _classifies(self) -> bool:
        return self.order is not None

    def _encoder(self, module: Any, folder: Path | None, own: HuggingFace) -> TransformerEncoder:
        if not self._classifies and getattr(module, "pooler", None) is not None:
            # it reads the first token for a task of its own
            module.pooler = None
        if own.dropout is not None:
            set_dropout(module, own.dropout)
        freeze_layers(module, own.freeze, self.name)
        tokenizer = None if folder is None else read_tokenizer(folder)
        content = "" if tokenizer is None else tokenizer_content(tokenizer)
        length = checked_length(
            own.length, length_limit(module, getattr(tokenizer, "model_max_length", None)), self.name
        )
        segments = self.segments if tokenizer is None else gives_segments(tokenizer)
        pooling = None if self._classifies else own.pooling
        encoder = TransformerEncoder(module, FastTokeniser(content, length), pooling, segments=segments).train()
        if content:
            check_reading(encoder, self.name)
        return encoder

    def _head(self, encoder: TransformerEncoder) -> nn.Module:
        if self.order is None:
            return self.head.build(encoder.width, self.classes)
        return nn.Identity() if self.order == tuple(range(len(self.order))) else Reordered(self.order)

    def _check_memory(self, shape: tuple[int, ...]) -> None:
        """Refuse weights that are more than the machine's memory; they are counted, not allocated."""
        with torch.random.fork_rng(devices=[]), torch.device("meta"):
            module = build_module(self.config, classifier=self._classifies)
        size, memory = sum(p.numel() * p.element_size() for p in module.parameters()), machine_memory()
        if memory is not None and size > memory:
            raise ModelError(
                f"the weights of {self.name} do not fit into memory ({size / 1e9:,.0f} GB; this machine has "
                f"{memory / 1e9:,.0f} GB)"
            )


def build_huggingface(spec: str, domains: Domains | Domain, *, seed: int = 0, **options: Any) -> SplitModel:
    """The model hf:NAME_OR_PATH for the classes of `domains`.

    A sequence classifier keeps its head, unless an option of `Head` asks for a new one; an encoder gets a new one.
    """
    head, own = huggingface_options(spec, options)
    if domains.kind != "text":
        raise ModelError(f"{spec} reads text, and {domains.name!r} holds {domains.kind} data")
    config = read_config(folder_of(spec))
    kept, order = plain_config(config.to_dict()), None
    if _names_classifier(config) and not _has_new_head(options) and own.weights == "pretrained":
        if "pooling" in options:
            raise UsageError(f"{spec} is a classifier with a head of its own; pooling needs a new one: model.head=free")
        order = _kept_outputs(spec, config, domains)
    blueprint = HuggingFaceBlueprint(
        spec, domains.shape, domains.outputs, asdict(own), head=head, config=kept, order=order
    )
    model = blueprint.build(seed)
    return model if order is None else model.eval()


def _kept_outputs(spec: str, config: Any, domains: Domains | Domain) -> tuple[int, ...]:
    """Which of its outputs is that of each class, in order; of numbers to be predicted, the one that there is."""
    if not domains.is_regression:
        return match_classes(spec, config.id2label, domains.classes)
    if len(config.id2label) != 1:
        raise ModelError(
            f"{spec} has {len(config.id2label)} outputs, and labels of {domains.name!r} are numbers to predict, which "
            "takes one. 'shiftproof train --set model.head=free' trains a new head on it"
        )
    return (0,)


def matched_by_order(model: nn.Module, classes: Sequence[str]) -> str:
    """Which outputs of a classifier were taken for which classes by their order alone; nothing where names tell."""
    built = blueprint_of(model)
    if not isinstance(built, HuggingFaceBlueprint) or built.order is None or len(classes) < 2:
        return ""
    labels = {int(number): str(name) for number, name in (built.config.get("id2label") or {}).items()}
    own = [labels.get(number, str(number)) for number in built.order]
    if [name.strip().casefold() for name in own] == [name.strip().casefold() for name in classes]:
        return ""
    return ", ".join(f"{name} for {label}" for name, label in zip(own, classes, strict=True))


def huggingface_options(spec: str, options: Mapping[str, Any]) -> tuple[Head, HuggingFace]:
    """Options of hf:NAME_OR_PATH, checked, without importing transformers or looking at the folder."""
    if spec == PREFIX:
        raise UsageError("the name behind 'hf:' is empty; type a folder that save_pretrained wrote, or a hub's name")
    known = [*options_of(HuggingFace), *options_of(Head)]
    for option in options:
        if option not in known:
            raise UnknownName(f"option of model {spec!r}:", option, known)

    def checked(part: type) -> dict[str, Any]:
        return checked_options(part, {k: v for k, v in options.items() if k in options_of(part)}, f"model {spec!r}")

    return Head(**checked(Head)), HuggingFace(**checked(HuggingFace))


def is_classifier(spec: str, options: Mapping[str, Any]) -> bool:
    """Whether hf:NAME_OR_PATH with these options is a classifier that somebody has trained."""
    _, own = huggingface_options(spec, options)
    if _has_new_head(options) or own.weights == "none":
        return False
    return _names_classifier(read_config(folder_of(spec)))


def _names_classifier(config: Any) -> bool:
    return any(str(name).endswith("ForSequenceClassification") for name in config.architectures or ())


def _has_new_head(options: Mapping[str, Any]) -> bool:
    return any(option in options_of(Head) for option in options)
