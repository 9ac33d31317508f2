"""Work on many files in threads: reading, hashing and decoding leave the interpreter lock."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

__all__ = ["in_threads", "read_ahead"]

T = TypeVar("T")
R = TypeVar("R")

FEWEST, SLICE = 8, 16
"""Fewer items are not worth threads; of more, a thread is given so many at a time."""
MOST_THREADS = 16
"""Beyond this many, threads wait for the interpreter lock."""


def in_threads(function: Callable[[T], R], items: Sequence[T], threads: int | None = None) -> Iterator[R]:
    """`function` of every item, in order; of a million items, a few slices are under way at any time.

    `threads` are as many as there are cores unless told, and none for a few items.
    """
    if len(items) < (FEWEST if threads is None else 2):
        yield from map(function, items)
        return
    # reading waits, even where there is one core
    count = threads or min(MOST_THREADS, max(2, os.cpu_count() or 1))
    size = min(SLICE, -(-len(items) // count))

    def work(start: int) -> list[R]:
        return [function(item) for item in items[start : start + size]]

    with ThreadPoolExecutor(count) as pool:
        for part in _ahead(pool, work, range(0, len(items), size), 4 * count):
            yield from part


def read_ahead(read: Callable[[T], R], items: Sequence[T], depth: int = 2) -> Iterator[R]:
    """`read` of every item, in order, by one other thread; the next `depth` while the caller works on the present one.

    One thread, so that `read` need not be made for several; it may use threads itself.
    """
    with ThreadPoolExecutor(1) as pool:
        yield from _ahead(pool, read, items, depth)


def _ahead(pool: ThreadPoolExecutor, work: Callable[[T], R], items: Sequence[T], depth: int) -> Iterator[R]:
    upcoming: deque[Future[R]] = deque()
    try:
        for item in items:
            upcoming.append(pool.submit(work, item))
            if len(upcoming) > depth:
                yield upcoming.popleft().result()
        while upcoming:
            yield upcoming.popleft().result()
    finally:
        # a caller that has enough, or an error, leaves nothing behind that would be waited for
        for one in upcoming:
            one.cancel()
