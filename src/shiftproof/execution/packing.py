"""A task as it is sent over a network: large tensors are stored once, whatever tasks they are part of."""

from __future__ import annotations

import hashlib
import io
import pickle
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Packer", "unpack"]

LARGE = 1 << 18
"""Bytes from which a tensor is stored on its own: weights of models, and samples of data sets."""


class Packer:
    """Turns tasks into bytes and references to tensors; `store` keeps an array and returns a reference to it.

    A tensor that was stored is not stored again as long as it lives and holds the same numbers.
    """

    def __init__(self, pickler: type[pickle.Pickler], store: Callable[[Any], Any]) -> None:
        self._store = store
        self._known: dict[int, tuple[weakref.ref[Tensor], bytes, Any]] = {}
        packer = self

        class Pickler(pickler):  # type: ignore[misc,valid-type]
            def __init__(self, buffer: io.BytesIO) -> None:
                super().__init__(buffer)
                self.references: list[Any] = []
                self.places: dict[int, int] = {}
                self.held: list[Any] = []

            def persistent_id(self, value: Any) -> Any:
                if not _is_large(value):
                    return None
                # a tensor that is met twice is one tensor there, too
                if id(value) not in self.places:
                    self.places[id(value)] = len(self.references)
                    self.held.append(value)
                    self.references.append(packer._reference(value))
                return self.places[id(value)], _is_parameter(value), value.requires_grad

        self._pickler = Pickler

    def pack(self, task: object) -> tuple[bytes, list[Any]]:
        """The task without its large tensors, and the references to these in their order."""
        buffer = io.BytesIO()
        pickler = self._pickler(buffer)
        pickler.dump(task)
        return buffer.getvalue(), pickler.references

    def _reference(self, tensor: Tensor) -> Any:
        array = tensor.detach().numpy()
        # by content: torch does not count all ways of writing into a tensor
        digest = hashlib.blake2b(array.data, digest_size=16).digest()
        known = self._known.get(id(tensor))
        if known is not None and known[0]() is tensor and known[1] == digest:
            return known[2]
        reference = self._store(array)
        # another tensor may get the number of one that is gone
        number = id(tensor)
        weakref.finalize(tensor, self._known.pop, number, None)
        self._known[number] = weakref.ref(tensor), digest, reference
        return reference


def unpack(package: bytes, arrays: Sequence[Any]) -> Any:
    """The task, with tensors made of the arrays that their references stand for."""
    import torch

    made: dict[int, Any] = {}

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, place: tuple[int, bool, bool]) -> Any:
            number, is_parameter, needs_gradient = place
            if number not in made:
                # stored arrays can't be written to
                tensor = torch.from_numpy(arrays[number].copy())
                made[number] = (
                    torch.nn.Parameter(tensor, needs_gradient)
                    if is_parameter
                    else tensor.requires_grad_(needs_gradient)
                )
            return made[number]

    return Unpickler(io.BytesIO(package)).load()


def _is_parameter(value: Tensor) -> bool:
    import torch

    return type(value) is torch.nn.Parameter


def _is_large(value: object) -> bool:
    """Whether it is a tensor that an array holds as it is: on the CPU, in one piece, all of its memory its own."""
    import torch

    return (
        type(value) in (torch.Tensor, torch.nn.Parameter)
        and isinstance(value, torch.Tensor)
        and value.device.type == "cpu"
        and value.layout == torch.strided
        and value.nbytes >= LARGE
        and value.is_contiguous()
        and value.untyped_storage().nbytes() == value.nbytes
        and value.dtype in (torch.float32, torch.float64, torch.uint8, torch.int64)
        and (value.is_leaf or not value.requires_grad)
    )
