"""What values belong to, as whole numbers: samples or groups of them, whose names are kept once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

__all__ = ["Units", "join_units"]


@dataclass(frozen=True, eq=False)
class Units:
    """The unit of each of N values: `names[codes[i]]`.

    `names` is an Arrow array of texts in which every name stands once, in ascending order; `codes` (N) are places in
    it. A text of thirty letters takes eighty bytes as a Python object, and its code four.

    >>> units = Units.of(["b", "a", "b"])
    >>> units.codes.tolist(), units.names.to_pylist()
    ([1, 0, 1], ['a', 'b'])
    """

    codes: NDArray[np.int32]
    names: Any

    @classmethod
    def of(cls, values: Units | ArrayLike) -> Units:
        """From names, or from whatever has a text: numbers, objects."""
        if isinstance(values, Units):
            return values
        return cls.of_texts(pa.array(np.asarray(values).astype(str).astype(object), pa.string()))

    @classmethod
    def of_texts(cls, texts: Any) -> Units:
        """From Arrow texts; what is missing is called None."""
        whole = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
        coded = pc.fill_null(whole.cast(pa.string()), "None").dictionary_encode()
        order = pc.sort_indices(coded.dictionary)
        rank = np.empty(len(order), np.int32)
        rank[order.to_numpy()] = np.arange(len(order), dtype=np.int32)
        return cls(rank[coded.indices.to_numpy()], coded.dictionary.take(order))

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names.take(pa.array(self.codes)).to_pylist())

    @property
    def separate(self) -> bool:
        """Whether no two values belong to one unit."""
        return len(self.names) == len(self.codes)

    @property
    def nbytes(self) -> int:
        """Bytes that it takes."""
        return int(self.codes.nbytes + self.names.nbytes)

    def name(self, code: int) -> str:
        """The name of one unit."""
        return str(self.names[int(code)].as_py())

    def places_in(self, other: Units) -> NDArray[np.int64]:
        """For each value, where the unit is in `other` (the last such place); -1 where it is not."""
        names, (mine, theirs) = join_units([self, other])
        place = np.full(len(names), -1)
        place[theirs] = np.arange(len(theirs))
        return place[mine]


def join_units(several: Sequence[Units]) -> tuple[Any, list[NDArray[np.int32]]]:
    """The names of several together, ascending, and the codes of each in those."""
    different = list({id(one): one for one in several}.values())
    if len(different) == 1:
        return several[0].names, [one.codes for one in several]
    different.sort(key=lambda one: one.name(0) if len(one.names) else "")
    together = pa.concat_arrays([one.names for one in different])
    if _ascend(different):
        joined = Units(np.arange(len(together), dtype=np.int32), together)
    else:
        joined = Units.of_texts(together)
    ends = np.cumsum([len(one.names) for one in different])[:-1]
    places = dict(zip(map(id, different), np.split(joined.codes, ends), strict=True))
    return joined.names, [places[id(one)][one.codes] for one in several]


def _ascend(several: Sequence[Units]) -> bool:
    """Whether the names of each come before those of the next, as where ids begin with their domain."""
    some = [one for one in several if len(one.names)]
    return all(one.name(-1) < other.name(0) for one, other in pairwise(some))
