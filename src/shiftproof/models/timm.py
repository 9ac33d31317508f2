"""Networks of the timm library: timm:resnet18 and a thousand others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from torch import nn

from shiftproof.catalogue import checked_options, options_of
from shiftproof.domains import Domain, Domains
from shiftproof.errors import ModelError, UnknownName, UsageError
from shiftproof.models.files import load_weights, read_weights
from shiftproof.models.heads import Head
from shiftproof.models.networks.architecture import Front, NetworkBlueprint
from shiftproof.models.outputs import logits_of
from shiftproof.models.split import SplitModel
from shiftproof.models.timm_import import first_line, import_timm
from shiftproof.rng import seeded_globals
from shiftproof.types import Positive

__all__ = [
    "Timm",
    "TimmBlueprint",
    "build_timm",
    "fetches",
    "has_new_head",
    "name_in_timm",
    "timm_options",
    "weights_of",
]

PREFIX = "timm:"


@dataclass(frozen=True)
class Timm:
    """Options of a network of timm: published weights, and the side to which images are enlarged first.

    Most of its networks are made for 224 x 224; some take no other size.

    Args:
        pretrained: Start from the published weights of the hub.
        weights: A file that holds the network's weights (safetensors, or a state dict that torch saved), which is read
            in place of those of the hub; nothing is fetched then.
        size: The side to which images are enlarged.
    """

    pretrained: bool = False
    size: Positive | None = None
    weights: str | None = None

    @property
    def trained(self) -> bool:
        """Whether it starts from weights that somebody has trained."""
        return self.pretrained or self.weights is not None

    def as_options(self) -> dict[str, Any]:
        """For a blueprint; the file only where there is one."""
        return {name: value for name, value in asdict(self).items() if name != "weights" or value is not None}


@dataclass(frozen=True)
class TimmBlueprint(NetworkBlueprint):
    """All that is needed to build a network of timm again, but for its weights; `name` is 'timm:NAME'."""

    def build(self, seed: int = 0, *, published: bool = True) -> SplitModel:
        """A model with a fresh head; the same weights for the same seed.

        Without `published` no published weights are read, for a model that gets other ones.
        """
        return self._assemble(seed, published, fresh_head=True)

    def build_published(self) -> SplitModel:
        """The published network with its own last layer."""
        return self._assemble(0, True, fresh_head=False)

    @property
    def _own(self) -> Timm:
        return Timm(**checked_options(Timm, self.options, f"model {self.name!r}"))

    def _assemble(self, seed: int, published: bool, *, fresh_head: bool) -> SplitModel:
        if len(self.shape) != 3:
            raise ModelError(f"{self.name} takes images, not inputs of shape {self.shape}")
        channels = 1 if self.front.gray else self.shape[0]
        with seeded_globals(seed, "initialisation", self.name):
            network = _create_network(self.name, channels, self._own if published else Timm())
            last = network.get_classifier()
            network.reset_classifier(0)
            blueprint = replace(self, front=_with_normalisation(self.front, network.default_cfg, channels))
            encoder = TimmEncoder(*blueprint.front.layers(self.shape[0]), *self._enlarging_layers(), network)
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


class TimmEncoder(nn.Sequential):
    """Normalisation and a network of timm. A process to which it is sent imports timm first, with or without
    torchvision.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        # the layers are in the state, which is read after the call
        return _empty_encoder, (), self.__dict__


def _empty_encoder() -> TimmEncoder:
    import_timm()
    return TimmEncoder()


def build_timm(
    spec: str, domains: Domains | Domain, *, seed: int = 0, fetch: bool = True, **options: Any
) -> SplitModel:
    """The network `timm:NAME` for the inputs and classes of `domains`, with its normalisation as a layer in front.

    Published weights, of the hub or of a file, keep their last layer too, unless an option of `Head` asks for a new
    one. Without `fetch` random weights stand in for those of the hub.
    """
    front, head, own = timm_options(spec, options)
    published = own.trained and not has_new_head(options)
    own = own if fetch else replace(own, pretrained=False)
    blueprint = TimmBlueprint(spec, domains.shape, domains.outputs, own.as_options(), front, head)
    if published:
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


def fetches(spec: str, options: Mapping[str, Any]) -> bool:
    """Whether `spec` is a network of timm that starts from weights of the hub."""
    own = timm_options(spec, options)[2] if spec.startswith(PREFIX) else Timm()
    return own.pretrained and own.weights is None


def weights_of(spec: str, options: Mapping[str, Any]) -> Path | None:
    """The file of weights that `timm:NAME` with these options starts from, if any."""
    weights = timm_options(spec, options)[2].weights if spec.startswith(PREFIX) else None
    return None if weights is None else Path(weights)


def name_in_timm(name: str) -> str | None:
    """What somebody means who asks for a network by the name that papers give it: 'timm:resnet50' for resnet50.

    >>> name_in_timm("vit-base")
    'timm:vit_base_patch16_224'
    """
    if re.fullmatch(r"resnet(18|34|50|101|152)", name):
        return PREFIX + name
    size = re.fullmatch(r"vit[-_](tiny|small|base|large)", name)
    return None if size is None else f"{PREFIX}vit_{size[1]}_patch16_224"


def _create_network(spec: str, channels: int, own: Timm) -> Any:
    timm, name = import_timm(), spec.removeprefix(PREFIX)
    # other texts, such as those that name a place on the hub, would let a file that is loaded choose what is fetched
    if not timm.is_model(name):
        near = get_close_matches(name, timm.list_models(), n=1)
        raise UsageError(
            f"timm has no model {name!r}. " + (f"Did you mean 'timm:{near[0]}'?" if near else "See timm.list_models().")
        )
    fetched = own.pretrained and own.weights is None
    try:
        network = timm.create_model(name, pretrained=fetched, in_chans=channels)
    except Exception as error:
        hint = (
            " Published weights come from the hub, which must be within reach; weights of a file: "
            "--set model.weights=FILE.safetensors"
        )
        raise ModelError(f"timm can't build {spec}: {first_line(error)}.{hint if fetched else ''}") from error
    if own.weights is not None:
        _read_published(network, Path(own.weights), channels, timm)
    return network


def _read_published(network: Any, path: Path, channels: int, timm: Any) -> None:
    """Put weights of a file into a network. Like those of the hub they may be for another number of channels; their
    last layer may be for any number of classes, or missing, and the network then has one of that size, or none.
    """
    tensors = read_weights(path)
    last = network.get_classifier()
    place = next((f"{name}.weight" for name, module in network.named_modules() if module is last), None)
    if isinstance(last, nn.Linear) and place is not None:
        rows = len(tensors[place]) if place in tensors and tensors[place].ndim else 0
        if rows != last.out_features:
            network.reset_classifier(rows)
    first = f"{network.default_cfg.get('first_conv')}.weight"
    if first in tensors and tensors[first].ndim == 4 and tensors[first].shape[1] == 3 != channels:
        tensors[first] = timm.models.adapt_input_conv(channels, tensors[first])
    # how many batches BatchNorm has seen is in no old file
    counts = {name: one for name, one in network.state_dict().items() if name.endswith("num_batches_tracked")}
    load_weights(network, {**counts, **tensors}, path)


def _with_normalisation(front: Front, config: Mapping[str, Any], channels: int) -> Front:
    """What the network expects, unless the user has said otherwise; images of other than 3 channels get the mean."""
    if front.mean is not None or front.std is not None:
        return front
    mean, std = tuple(config["mean"]), tuple(config["std"])
    if len(mean) != channels:
        mean, std = (sum(mean) / len(mean),) * channels, (sum(std) / len(std),) * channels
    return replace(front, mean=mean, std=std)
