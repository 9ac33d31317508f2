"""Blocks of a domain, read ahead of whoever measures them."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise

from torch import Tensor

from shiftproof.domains.domain import Domain
from shiftproof.types import IntArray

__all__ = ["BlockReader"]


class BlockReader:
    """Blocks of a domain in the order in which they are measured: where files are decoded, the next is read ahead."""

    def __init__(self, domain: Domain, blocks: list[IntArray], order: Sequence[int]) -> None:
        self._domain, self._blocks = domain, blocks
        self._after = dict(pairwise(order))
        self._next: tuple[int, Future[tuple[Tensor, Tensor]]] | None = None
        self._thread: ThreadPoolExecutor | None = None

    def __enter__(self) -> BlockReader:
        # for data in memory a second thread costs more than it saves
        self._thread = None if self._domain.inputs.in_memory else ThreadPoolExecutor(1)
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)

    def take(self, shard: int) -> tuple[Tensor, Tensor]:
        """Inputs and labels of a block."""
        if self._next is not None and self._next[0] == shard:
            taken = self._next[1].result()
        else:
            taken = self._domain.take(self._blocks[shard])
        following = self._after.get(shard)
        if self._thread is not None and following is not None:
            self._next = following, self._thread.submit(self._domain.take, self._blocks[following])
        return taken
