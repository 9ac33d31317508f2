"""Networks by name, and the record that builds one again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from torch import nn

from shiftproof.catalogue import Catalogue
from shiftproof.domains import Domain, Domains
from shiftproof.errors import ModelError
from shiftproof.models.layers import Gray, Normalize
from shiftproof.models.split import SplitModel
from shiftproof.rng import seeded_globals

__all__ = ["MODELS", "Architecture", "Network", "build_model"]


class Network(Protocol):
    """A kind of network: a frozen dataclass of options that builds an encoder for a given input shape."""

    def encoder(self, shape: tuple[int, ...]) -> tuple[nn.Module, int]:
        """The encoder, and the length of the representation that it gives."""


MODELS: Catalogue[Network] = Catalogue("model", "shiftproof.models")


@dataclass(frozen=True)
class Architecture:
    """All that is needed to build a model again, but for its weights.

    `gray` puts a layer in front that can't see colour; `mean` and `std` normalise.
    """

    name: str
    shape: tuple[int, ...]
    classes: int
    options: dict[str, Any] = field(default_factory=dict)
    gray: bool = False
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    def build(self, seed: int = 0) -> SplitModel:
        """A freshly initialised model; the same weights for the same seed."""
        shape = (1, *self.shape[1:]) if self.gray else self.shape
        network = MODELS.create(self.name, self.options)
        with seeded_globals(seed, "initialisation", self.name):
            features, width = network.encoder(shape)
            head = nn.Linear(width, self.classes)
        front: list[nn.Module] = [Gray()] if self.gray else []
        if self.mean is not None and self.std is not None:
            if len(self.mean) != shape[0]:
                raise ModelError(f"mean has {len(self.mean)} values for images of {shape[0]} channels")
            front.append(Normalize(self.mean, self.std))
        return SplitModel(nn.Sequential(*front, features) if front else features, head, self)

    def as_dict(self) -> dict[str, Any]:
        """For a JSON file."""
        return asdict(self)

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Architecture:
        """Back from a JSON file."""
        try:
            tuples = {key: tuple(record[key]) for key in ("shape", "mean", "std") if record.get(key) is not None}
            return cls(**{**record, **tuples})
        except (TypeError, KeyError) as error:
            raise ModelError(f"the record of the model's architecture is not complete: {error}") from error


def build_model(
    name: str,
    domains: Domains | Domain,
    *,
    seed: int = 0,
    gray: bool = False,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    **options: Any,
) -> SplitModel:
    """A freshly initialised network of the catalogue, for the inputs and classes of `domains`.

    >>> from shiftproof.domains import load_domains
    >>> model = build_model("mlp", load_domains("digits"), width=64)
    >>> model.head
    Linear(in_features=64, out_features=10, bias=True)
    """
    if (mean is None) != (std is None):
        raise ModelError("mean and std go together")
    means = None if mean is None else tuple(float(value) for value in mean)
    stds = None if std is None else tuple(float(value) for value in std)
    return Architecture(name, domains.shape, len(domains.classes), options, gray, means, stds).build(seed)
