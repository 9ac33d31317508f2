"""Models on disk: weights as safetensors, everything else as JSON beside them; nothing that can run code."""

from __future__ import annotations

import hashlib
import io
import pickle
import warnings
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from shiftproof.errors import ModelError
from shiftproof.execution import check_writable, write_atomically, write_json
from shiftproof.execution.archives import DAMAGED_ZIP, read_member, unpacked_size
from shiftproof.models.hashes import file_hash, fingerprint, weight_bytes
from shiftproof.models.records import record_of
from shiftproof.models.split import origin_of

__all__ = ["file_hash", "fingerprint", "load_weights", "read_weights", "save_model", "weight_bytes"]

_PICKLE_STARTS = (b"PK", b"\x80")
MOST_UNPACKED = 20
"""How many times its size a torch file may unpack to; torch writes them without compression."""


def save_model(model: nn.Module, path: Path | str, card: dict[str, Any] | None = None) -> None:
    """Write `path` (.safetensors) and the JSON beside it, which holds `card`, the architecture and the weights' hash.

    Without a `card` it is the record that the model carries, of its training by `sp.train` or of the file that it was
    read from. The JSON is written last: a model is there when its JSON is.
    """
    path = Path(path)
    if path.suffix == ".json":
        raise ModelError(
            f"{path} is where the record goes; name the weights, such as {path.with_suffix('.safetensors')}"
        )
    content = weight_bytes(model)
    origin = origin_of(model)
    record = {
        **(record_of(model) if card is None else {}),
        "format": "shiftproof-model/1",
        "architecture": None if origin is None else origin.as_dict(),
        **(card or {}),
        "weights": {"file": path.name, "sha256": hashlib.sha256(content).hexdigest()},
    }
    check_writable(path.parent)
    path.with_suffix(".json").unlink(missing_ok=True)
    write_atomically(path, content)
    write_json(path.with_suffix(".json"), record)


def read_weights(path: Path, sha256: str | None = None, key: str | None = None) -> dict[str, Tensor]:
    """Tensors by name from a safetensors file, or a torch file that holds tensors and nothing else.

    Of a checkpoint with several parts, `key` says which is the state dict: "model", or "ema.model" of one inside
    another.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelError(f"can't read the model file {path}: {error.strerror or error}") from error
    # a safetensors file is the length of a JSON header, 8 bytes, and the header; its first byte may be that of a pickle
    if content.startswith(_PICKLE_STARTS) and content[8:9] != b"{":
        return _read_torch_file(path, content, key)
    if key is not None:
        raise ModelError(f"{path} is a safetensors file, which holds its tensors by name and no key {key!r}")
    try:
        tensors: dict[str, Tensor] = safetensors.torch.load(content)
    except (safetensors.SafetensorError, ValueError, KeyError) as error:
        raise ModelError(f"{path} is not a whole safetensors file ({error}): truncated, or something else") from error
    if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
        raise ModelError(
            f"{path} is not the file that {path.with_suffix('.json').name} was written for: its hash differs"
        )
    return tensors


def load_weights(model: nn.Module, tensors: dict[str, Tensor], path: Path) -> None:
    """Put tensors into a model; every name and shape must agree."""
    wanted = model.state_dict()
    tensors = _without_wrapper(tensors, wanted)
    for name, tensor in wanted.items():
        if name not in tensors:
            raise ModelError(f"{path} is for another architecture: it has no tensor {name!r}")
        # what a layer keeps besides its weights, such as a tokeniser, has any length
        if tensors[name].shape != tensor.shape and not name.endswith("_extra_state"):
            raise ModelError(
                f"{path} is for other shapes: {name!r} is {_shape(tensors[name])} in the file "
                f"and {_shape(tensor)} in the model"
            )
    extra = sorted(set(tensors) - set(wanted))
    if extra:
        raise ModelError(f"{path} is for another architecture: the model has no tensor {extra[0]!r}")
    model.load_state_dict(tensors)


def _without_wrapper(tensors: dict[str, Tensor], wanted: Iterable[str]) -> dict[str, Tensor]:
    """Weights that were saved from inside torch's DataParallel or torch.compile, under the names of the model."""
    for prefix in ("module.", "_orig_mod."):
        wrapped = bool(tensors) and all(name.startswith(prefix) for name in tensors)
        if wrapped and not any(name.startswith(prefix) for name in wanted):
            return {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
    return tensors


def _read_torch_file(path: Path, content: bytes, key: str | None) -> dict[str, Tensor]:
    file = _plain_archive(path, content) if content.startswith(b"PK") else io.BytesIO(content)
    try:
        with warnings.catch_warnings():
            # torch warns about pickles that it did not write; what it can't read is refused below
            warnings.simplefilter("ignore")
            loaded = torch.load(file, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, AttributeError, OSError) as error:
        raise ModelError(
            f"{path} is a pickle that holds more than tensors, or is damaged; it was not executed. "
            "Save the state dict with safetensors.torch.save_file."
        ) from error
    parts = _state_dicts(loaded)
    if key is None and set(parts) in ({""}, {"state_dict"}):
        return next(iter(parts.values()))
    if key is not None and key in parts:
        return parts[key]
    if set(parts) <= {""}:
        wrong = "" if key is None else f" under {key!r}"
        raise ModelError(f"{path} does not hold a state dict (tensors by name){wrong}")
    known = ", ".join(repr(one) for one in parts)
    seen = f"holds state dicts under {known}" if key is None else f"holds none under {key!r}, but under {known}"
    raise ModelError(
        f"{path} {seen}; say which is the model's: --set model.key={next(iter(parts))} (in Python key=...)"
    )


def _state_dicts(loaded: object, deepest: int = 3) -> dict[str, dict[str, Tensor]]:
    """Every mapping of names to tensors inside a checkpoint, by the keys that lead to it, joined with dots."""
    if not isinstance(loaded, dict) or not loaded or not all(isinstance(name, str) for name in loaded):
        return {}
    if all(isinstance(value, Tensor) for value in loaded.values()):
        return {"": loaded}
    found = {}
    for name, value in loaded.items() if deepest else ():
        for inner, tensors in _state_dicts(value, deepest - 1).items():
            found[f"{name}.{inner}".removesuffix(".")] = tensors
    return found


def _plain_archive(path: Path, content: bytes) -> io.BytesIO:
    """The zip archive of a torch file, written again without compression.

    Sizes are compared before anything is unpacked, and torch, which reads zip archives by code of its own, is given
    only what was counted here.
    """
    plain = io.BytesIO()
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive, zipfile.ZipFile(plain, "w") as copy:
            size = unpacked_size(archive)
            if size > MOST_UNPACKED * len(content):
                raise ModelError(
                    f"{path} has {len(content):,} bytes and would unpack to {size:,}: weights do not shrink so far. "
                    "It was not unpacked. Save the state dict with safetensors.torch.save_file."
                )
            for info in archive.infolist():
                if info.filename in copy.NameToInfo:
                    raise zipfile.BadZipFile(f"{info.filename} is there twice")
                copy.writestr(zipfile.ZipInfo(info.filename), read_member(archive, info))
    except DAMAGED_ZIP as error:
        raise ModelError(f"{path} is a damaged zip archive ({error}); it was not executed") from error
    plain.seek(0)
    return plain


def _shape(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "a number"
