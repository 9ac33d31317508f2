"""Values with a row a sample: some of the rows, or rows of one where a mask says so and else of another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

__all__ = ["join_columns", "take_rows", "where_rows"]

State = TypeVar("State", bound=Any)


def join_columns(parts: Sequence[Any], names: Sequence[str]) -> dict[str, Any]:
    """Those attributes of several blocks of samples, as arrays, one block after the other."""
    return {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}


def take_rows(state: State, chosen: Tensor) -> State:
    """A dataclass of tensors (or None) whose first dimension is N, with the rows where `chosen` (N) is true."""
    values = {field.name: getattr(state, field.name) for field in fields(state)}
    kept: State = replace(state, **{name: None if value is None else value[chosen] for name, value in values.items()})
    return kept


def where_rows(chosen: Tensor, one: Tensor, other: Tensor) -> Tensor:
    """Rows (N x ...) of one tensor where `chosen` (N) is true, else of the other."""
    return torch.where(chosen.reshape(-1, *[1] * (one.ndim - 1)), one, other)
