"""Hashes of weights, in memory and in files."""

from __future__ import annotations

import hashlib
from pathlib import Path

import safetensors.torch
from torch import nn

from shiftproof.errors import ModelError

__all__ = ["file_hash", "fingerprint", "parameter_hash", "weight_bytes"]


def weight_bytes(model: nn.Module) -> bytes:
    """The model's state as a safetensors file."""
    state = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in model.state_dict().items()}
    return bytes(safetensors.torch.save(state))


def fingerprint(model: nn.Module) -> str:
    """A hash of all weights and buffers."""
    return hashlib.sha256(weight_bytes(model)).hexdigest()


def parameter_hash(model: nn.Module) -> str:
    """A hash of all weights that could be trained, without buffers such as statistics of BatchNorm."""
    parameters = {name: one.detach().cpu().contiguous().clone() for name, one in model.named_parameters()}
    return hashlib.sha256(safetensors.torch.save(parameters)).hexdigest()


def file_hash(path: Path) -> str:
    """The sha256 of a file's content."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise ModelError(f"can't read the model file {path}: {error.strerror or error}") from error
