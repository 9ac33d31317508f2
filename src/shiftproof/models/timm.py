"""Networks of the timm library: timm:resnet18 and a thousand others."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from typing import Any

import torch
from torch import nn

from shiftproof.catalogue import checked_options, options_of
from shiftproof.domains import Domain, Domains
from shiftproof.errors import ModelError, UnknownName, UsageError
from shiftproof.models.heads import Head
from shiftproof.models.networks.architecture import Front, NetworkBlueprint
from shiftproof.models.outputs import logits_of
from shiftproof.models.split import SplitModel
from shiftproof.rng import seeded_globals
from shiftproof.types import Positive

__all__ = ["Timm", "TimmBlueprint", "build_timm", "has_new_head", "timm_options"]

PREFIX = "timm:"


@dataclass(frozen=True)
class Timm:
    """Options of a network of timm: published weights, and the side to which images are enlarged first.

    Most of its networks are made for 224 x 224; some take no other size.
    """

    pretrained: bool = False
    size: Positive | None = None


@dataclass(frozen=True)
class TimmBlueprint(NetworkBlueprint):
    """All that is needed to build a network of timm again, but for its weights; `name` is 'timm:NAME'."""

    def build(self, seed: int = 0, *, published: bool = True) -> SplitModel:
        """A model with a fresh head; the same weights for the same seed.

        Without `published` no published weights are read, for a model that gets other ones.
        """
        return self._assemble(seed, self._own.pretrained and published, fresh_head=True)

    def build_published(self) -> SplitModel:
        """The published network with its own last layer."""
        return self._assemble(0, True, fresh_head=False)

    @property
    def _own(self) -> Timm:
        return Timm(**checked_options(Timm, self.options, f"model {self.name!r}"))

    def _assemble(self, seed: int, pretrained: bool, *, fresh_head: bool) -> SplitModel:
        if len(self.shape) != 3:
            raise ModelError(f"{self.name} takes images, not inputs of shape {self.shape}")
        channels = 1 if self.front.gray else self.shape[0]
        with seeded_globals(seed, "initialisation", self.name):
            network = _create_network(self.name, channels, pretrained)
            last = network.get_classifier()
            network.reset_classifier(0)
            blueprint = replace(self, front=_with_normalisation(self.front, network.default_cfg, channels))
            encoder = nn.Sequential(*blueprint.front.layers(self.shape[0]), *self._enlarging_layers(), network)
            width = self._width(encoder, network.default_cfg)
            head = self.head.build(width, self.classes) if fresh_head else self._published_head(last, width)
        return SplitModel(encoder, head, blueprint)

    def _enlarging_layers(self) -> list[nn.Module]:
        size = self._own.size
        if size is None:
            return []
        if size < max(self.shape[1:]):
            raise ModelError(
                f"size {size} would shrink images of {self.shape[1]}x{self.shape[2]}; it is there to enlarge"
            )
        return [nn.Upsample((size, size), mode="bilinear", align_corners=False)]

    def _width(self, encoder: nn.Module, config: Mapping[str, Any]) -> int:
        """The length of the representation, by a look at a black image."""
        try:
            return logits_of(encoder.eval(), torch.zeros(1, *self.shape)).shape[1]
        except ModelError as error:
            made_for = "x".join(map(str, config.get("input_size", ()))) or "another size"
            raise ModelError(
                f"{self.name}: {str(error).rstrip('.')}. It is made for {made_for}; size=N enlarges images"
            ) from error
        finally:
            encoder.train()

    def _published_head(self, last: object, width: int) -> nn.Module:
        hint = "'shiftproof train --set model.head=free' trains a new head on its encoder"
        if not isinstance(last, nn.Linear) or last.in_features != width:
            raise ModelError(f"the last layer of {self.name} is a {type(last).__name__}, which can't be kept. {hint}")
        if last.out_features != self.classes:
            raise ModelError(
                f"{self.name} tells apart {last.out_features} classes; the data has {self.classes}. {hint}"
            )
        return last


def build_timm(spec: str, domains: Domains | Domain, *, seed: int = 0, **options: Any) -> SplitModel:
    """The network `timm:NAME` for the inputs and classes of `domains`, with its normalisation as a layer in front.

    `pretrained=True` keeps the published last layer too, unless an option of `Head` asks for a new one.
    """
    front, head, own = timm_options(spec, options)
    blueprint = TimmBlueprint(spec, domains.shape, domains.outputs, asdict(own), front, head)
    if own.pretrained and not has_new_head(options):
        return blueprint.build_published().eval()
    return blueprint.build(seed)


def timm_options(spec: str, options: Mapping[str, Any]) -> tuple[Front, Head, Timm]:
    """Options of `timm:NAME`, checked, without importing timm."""
    if spec == PREFIX:
        raise UsageError("the name behind 'timm:' is empty; type one such as timm:resnet18")
    known = [*options_of(Timm), *options_of(Front), *options_of(Head)]
    for option in options:
        if option not in known:
            raise UnknownName(f"option of model {spec!r}:", option, known)

    def checked(part: type) -> dict[str, Any]:
        return checked_options(part, {k: v for k, v in options.items() if k in options_of(part)}, f"model {spec!r}")

    return Front(**checked(Front)), Head(**checked(Head)), Timm(**checked(Timm))


def has_new_head(options: Mapping[str, Any]) -> bool:
    """Whether options ask for a head that is not the published one."""
    return any(option in options_of(Head) for option in options)


def _create_network(spec: str, channels: int, pretrained: bool) -> Any:
    timm, name = _library(), spec.removeprefix(PREFIX)
    # other texts, such as those that name a place on the hub, would let a file that is loaded choose what is fetched
    if not timm.is_model(name):
        near = get_close_matches(name, timm.list_models(), n=1)
        raise UsageError(
            f"timm has no model {name!r}. " + (f"Did you mean 'timm:{near[0]}'?" if near else "See timm.list_models().")
        )
    try:
        return timm.create_model(name, pretrained=pretrained, in_chans=channels)
    except Exception as error:
        hint = " Published weights come from the hub, which must be within reach." if pretrained else ""
        raise ModelError(f"timm can't build {spec}: {_first_line(error)}.{hint}") from error


def _with_normalisation(front: Front, config: Mapping[str, Any], channels: int) -> Front:
    """What the network expects, unless the user has said otherwise; images of other than 3 channels get the mean."""
    if front.mean is not None or front.std is not None:
        return front
    mean, std = tuple(config["mean"]), tuple(config["std"])
    if len(mean) != channels:
        mean, std = (sum(mean) / len(mean),) * channels, (sum(std) / len(std),) * channels
    return replace(front, mean=mean, std=std)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


def _library() -> Any:
    try:
        return importlib.import_module("timm")
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "timm":
            raise UsageError("timm is not installed here: pip install 'shiftproof[timm]'") from error
        raise UsageError(
            f"timm can't be imported here: {_first_line(error)}. It needs torchvision in the build for this torch "
            f"({torch.__version__}); networks by name (shiftproof ls models) need neither"
        ) from error
