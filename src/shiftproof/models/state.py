"""What a model remembers from one call to the next."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

__all__ = ["first_change", "snapshot"]

_DEEPEST, _MOST = 4, 200
_TORCH_OWN = frozenset(vars(nn.Module()))


def snapshot(model: nn.Module) -> dict[str, object]:
    """Everything in sight that a call of the model could change: numbers, texts, containers and arrays, by name.

    Of its layers, of their classes, and of what the code of their `forward` names outside of them.
    """
    found: dict[str, object] = {}
    for path, module in model.named_modules():
        for name, value in _held(module):
            found.update(_values(".".join(filter(None, (path, name))), value, _DEEPEST))
    return found


def _held(module: nn.Module) -> Iterator[tuple[str, Any]]:
    yield from ((name, value) for name, value in vars(module).items() if name not in _TORCH_OWN)
    yield from [*module._parameters.items(), *module._buffers.items()]
    for cls in type(module).__mro__:
        if not cls.__module__.startswith(("torch.", "builtins", "shiftproof.")):
            yield from ((f"{cls.__name__}.{name}", value) for name, value in vars(cls).items() if name[:2] != "__")
            forward = vars(cls).get("forward")
            if isinstance(forward, FunctionType):
                code, outside = forward.__code__, forward.__globals__
                yield from ((name, outside[name]) for name in code.co_names if name in outside)
                cells = zip(code.co_freevars, forward.__closure__ or (), strict=True)
                yield from ((name, cell.cell_contents) for name, cell in cells if name != "__class__")


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
    elif isinstance(value, np.ndarray):
        yield name, f"{value.shape} with the checksum {zlib.crc32(np.ascontiguousarray(value).tobytes())}"
    elif depth and isinstance(value, nn.Module):
        for inner, held in _held(value):
            yield from _values(f"{name}.{inner}", held, depth - 1)
    elif depth and isinstance(value, Mapping):
        yield f"{name}, its length,", len(value)
        for key, item in islice(value.items(), _MOST):
            yield from _values(f"{name}[{key!r}]", item, depth - 1)
    elif depth and isinstance(value, list | tuple | deque | set | frozenset):
        yield f"{name}, its length,", len(value)
        for key, item in enumerate(islice(value, _MOST)):
            yield from _values(f"{name}[{key}]", item, depth - 1)
    elif (
        depth
        and hasattr(value, "__dict__")
        and not isinstance(value, nn.Module | ModuleType | type)
        and not callable(value)
    ):
        for key, item in islice(vars(value).items(), _MOST):
            yield from _values(f"{name}.{key}", item, depth - 1)


def _checksum(tensor: Tensor) -> str:
    """Of all bytes: an activation that is kept for later is the same after the same inputs, a counter is not."""
    if tensor.is_sparse or tensor.is_quantized or tensor.is_meta:
        return str(tuple(tensor.shape))
    values = tensor.detach().cpu().contiguous()
    if values.numel() == 1:
        return repr(values.item())
    return f"{tuple(tensor.shape)} with the checksum {zlib.crc32(values.flatten().view(torch.uint8).numpy().tobytes())}"
