"""Domains from what a Python caller may have: domains, or pairs of inputs and labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shiftproof.domains.domain import Domain, Domains, class_labels
from shiftproof.errors import DataError, UsageError

__all__ = ["as_domains", "one_domain"]

_ARRAYS = (Tensor, np.ndarray)


def one_domain(data: Any, verb: str) -> Domain:
    """The domain that is meant by a domain, a data set of one, or a pair (inputs, labels); `verb` is for errors."""
    if isinstance(data, Domain):
        return data
    if isinstance(data, Domains) and len(data) > 1:
        raise UsageError(f"{verb} one domain at a time: {', '.join(data.names)}")
    if not isinstance(data, Domains) and isinstance(data, tuple | list) and len(data) == 2 and not _length(data[0]):
        raise UsageError(f"there are no samples to {verb}")
    return next(iter(as_domains(data)))


def _length(values: Any) -> int:
    return len(values) if hasattr(values, "__len__") else 1


def as_domains(
    data: Domains | Domain | tuple[Tensor, Tensor] | Mapping[str, tuple[Tensor, Tensor]], classes: int | None = None
) -> Domains:
    """Domains from what a Python caller may have: domains, a pair (inputs, labels), or a pair for each domain's name.

    Pairs are checked here: inputs in [0, 1], labels from 0 to `classes` - 1 (one more than the largest if not given).
    """
    if isinstance(data, Domains):
        return data
    if isinstance(data, Domain):
        return Domains(data.name, [data])
    pairs: dict[str, Any] = {str(k): v for k, v in data.items()} if isinstance(data, Mapping) else {"data": data}
    if not pairs:
        raise UsageError("there is no domain: pass a pair (inputs, labels), or one for each domain's name")
    for name, pair in pairs.items():
        if not (isinstance(pair, tuple | list) and len(pair) == 2 and all(isinstance(part, _ARRAYS) for part in pair)):
            raise UsageError(f"{name!r} should be a pair of arrays (inputs, labels), not {type(pair).__name__}")
        inputs, labels = (tuple(part.shape) for part in pair)
        if not inputs or inputs[:1] != labels:
            raise DataError(f"{name!r} has inputs of shape {inputs} but labels of shape {labels}")
    if classes is None:
        classes = 1 + max(int(class_labels(labels, name).max(initial=0)) for name, (_, labels) in pairs.items())
    names = [str(i) for i in range(classes)]
    return Domains("pair", [Domain.from_arrays(name, torch.as_tensor(x), y, names) for name, (x, y) in pairs.items()])
