"""What a model remembers from one call to the next."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["first_change", "snapshot"]

_DEEPEST, _MOST = 4, 200
_TORCH_OWN = frozenset(vars(nn.Module()))


def snapshot(model: nn.Module) -> dict[str, object]:
    """Everything that a call of the model could change: numbers, texts, containers and tensors, by name."""
    found: dict[str, object] = {}
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            if name not in _TORCH_OWN:
                found.update(_values(".".join(filter(None, (path, name))), value, _DEEPEST))
        for name, tensor in [*module._parameters.items(), *module._buffers.items()]:
            found.update(_values(".".join(filter(None, (path, name))), tensor, _DEEPEST))
    return found


def first_change(before: dict[str, object], after: dict[str, object]) -> str | None:
    """What differs between two snapshots, in words; None if nothing does."""
    for name in sorted({*before, *after}):
        if name not in before or name not in after:
            return f"{name!r} is {'new' if name in after else 'gone'}"
        if before[name] != after[name]:
            return f"{name!r} was {before[name]} and is {after[name]}"
    return None


def _values(name: str, value: Any, depth: int) -> Iterator[tuple[str, object]]:
    if value is None or isinstance(value, bool | int | float | str | bytes):
        # nan is what it was, though it is not equal to it
        yield name, repr(value)
    elif isinstance(value, Tensor):
        yield name, _checksum(value)
    elif depth and isinstance(value, Mapping):
        yield f"{name}, its length,", len(value)
        for key, item in islice(value.items(), _MOST):
            yield from _values(f"{name}[{key!r}]", item, depth - 1)
    elif depth and isinstance(value, list | tuple | deque | set | frozenset):
        yield f"{name}, its length,", len(value)
        for key, item in enumerate(islice(value, _MOST)):
            yield from _values(f"{name}[{key}]", item, depth - 1)
    elif depth and hasattr(value, "__dict__") and not isinstance(value, nn.Module | type) and not callable(value):
        for key, item in islice(vars(value).items(), _MOST):
            yield from _values(f"{name}.{key}", item, depth - 1)


def _checksum(tensor: Tensor) -> str:
    """Shape and sum: an activation that is kept for later is the same after the same inputs, a counter is not."""
    if tensor.is_sparse or tensor.is_quantized or tensor.is_meta:
        return str(tuple(tensor.shape))
    with torch.no_grad():
        values = tensor.detach()
        total = values.to(torch.complex128 if values.is_complex() else torch.float64).sum()
    return f"{tuple(tensor.shape)} with the sum {total.item()!r}"
