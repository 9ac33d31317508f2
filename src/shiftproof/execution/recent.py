"""What was used last, as far as it fits."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

__all__ = ["Recent"]

V = TypeVar("V")


class Recent(Generic[V]):
    """Values by key, of at most so many bytes together: what was not asked for the longest is forgotten first.

    One that is larger than that is made anew every time.

    >>> recent = Recent[str](10, size=len)
    >>> [recent.get(name, lambda: name * 4) for name in ("a", "bb")], recent.bytes
    (['aaaa', 'bbbbbbbb'], 8)
    """

    def __init__(self, most: int, size: Callable[[V], int]) -> None:
        self.most, self.size = most, size
        self.bytes = 0
        self._known: OrderedDict[Hashable, V] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        """The value of `key`, made now if it is not known (any more)."""
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        value = make()
        self.put(key, value)
        return value

    def put(self, key: Hashable, value: V) -> None:
        """Keep a value, unless it is too large by itself."""
        size = self.size(value)
        if size > self.most:
            return
        with self._lock:
            if key in self._known:
                self.bytes -= self.size(self._known.pop(key))
            self._known[key] = value
            self.bytes += size
            while self.bytes > self.most:
                self.bytes -= self.size(self._known.popitem(last=False)[1])

    def __len__(self) -> int:
        return len(self._known)
