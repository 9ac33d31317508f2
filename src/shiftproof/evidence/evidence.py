"""Evidence: the measurements of a run. Every number in every table, curve and claim is a pure function of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shiftproof.errors import UsageError
from shiftproof.evidence.measurement import COMMON, Measurement, worst_seen
from shiftproof.perturbations.edits import Edits, readable_radii
from shiftproof.statistics.units import join_units

__all__ = ["Evidence"]

_FIRST = ("model", "domain", "probe", "setting", "title", "classifier")


class Evidence:
    """Measurements, in the order in which they were made.

    >>> for measurement in run.evidence.where(probe="clean", domain="e=0.9"):  # doctest: +SKIP
    ...     print(measurement.model, measurement["correct"].mean())
    """

    def __init__(self, measurements: Sequence[Measurement] = ()) -> None:
        self.measurements = tuple(measurements)

    @classmethod
    def concat(cls, parts: Iterable[Evidence]) -> Evidence:
        """The measurements of several, one after the other."""
        return cls([measurement for part in parts for measurement in part])

    def __len__(self) -> int:
        return len(self.measurements)

    def __iter__(self) -> Iterator[Measurement]:
        return iter(self.measurements)

    def __getitem__(self, index: int) -> Measurement:
        return self.measurements[index]

    def __repr__(self) -> str:
        what = f"models {self.distinct('model')}, domains {self.distinct('domain')}, probes {self.distinct('probe')}"
        return f"Evidence({len(self)} measurements: {what})"

    @property
    def rows(self) -> int:
        """How many rows all measurements have together."""
        return sum(map(len, self.measurements))

    @property
    def samples(self) -> int:
        """How many different samples the measurements are of, by their ids."""
        return len(join_units([one.ids for one in self])[0]) if len(self) else 0

    @property
    def grouped(self) -> bool:
        """Whether the samples of every measurement belong to groups."""
        return len(self) > 0 and all(measurement.grouped for measurement in self)

    @property
    def seen_in_training(self) -> str:
        """no | unknown | yes: the worst that is known of any measurement's samples."""
        return worst_seen(measurement.seen_in_training for measurement in self)

    def where(self, **facts: Any) -> Evidence:
        """The measurements of which all these facts are true."""
        return Evidence([one for one in self if all(one.fact(name) == value for name, value in facts.items())])

    def distinct(self, fact: str) -> list[Any]:
        """The values of a fact, in order of appearance."""
        return list(dict.fromkeys(measurement.fact(fact) for measurement in self))

    def column(self, name: str) -> NDArray[Any]:
        """A column of all measurements, one after the other; each must have it."""
        parts = [one[name] for one in self]
        return np.concatenate(parts) if parts else np.zeros(0)

    def by(self, *facts: str) -> Iterator[Evidence]:
        """The measurements that agree in some facts, together, in order of appearance."""
        found: dict[tuple[Any, ...], list[Measurement]] = {}
        for measurement in self:
            found.setdefault(tuple(measurement.fact(fact) for fact in facts), []).append(measurement)
        yield from map(Evidence, found.values())

    def get(self, **facts: Any) -> Measurement:
        """The one measurement of which these facts are true."""
        found = self.where(**facts)
        if len(found) != 1:
            wanted = ", ".join(f"{name} {value!r}" for name, value in facts.items())
            raise UsageError(f"there are {len(found)} measurements of {wanted}, and one was asked for")
        return found[0]

    def in_memory(self) -> Evidence:
        """The same with all rows in memory, whatever becomes of files that they are read from."""
        return Evidence([Measurement(one.facts, one.table) for one in self])

    def check_readable(self) -> None:
        """Read everything once and keep nothing, so that a damaged file is refused now and not where it is shown."""
        for one in self:
            for column in one.rows.column_names:
                one.rows.column(column)

    def to_arrow(self) -> Any:
        """One flat Arrow table, a row a sample and measurement: facts as columns, then what was measured.

        Radii of word edits are whole numbers here: how many are certified.
        """
        tables = []
        facts = list(dict.fromkeys((*_FIRST, *(name for one in self for name in one.facts))))
        for one in self:
            table = _readable(one)
            for place, name in enumerate(facts):
                table = table.add_column(place, name, _repeated(one.fact(name), len(one)))
            tables.append(table)
        if not tables:
            return pa.schema([(column.name, column.type) for column in COMMON]).empty_table()
        return pa.concat_tables(tables, promote_options="permissive")

    def to_pandas(self) -> Any:
        """The same as a pandas DataFrame; pandas must be installed."""
        if find_spec("pandas") is None:
            raise UsageError("to_pandas needs pandas: pip install pandas; to_arrow does without it")
        return self.to_arrow().to_pandas()


def _readable(one: Measurement) -> Any:
    """The columns of a measurement as people read them."""
    table = one.table
    if one.fact("norm") != Edits.norm or "radius" not in one:
        return table
    radii = readable_radii(one["radius"], Edits.norm)
    return table.set_column(table.column_names.index("radius"), "radius", pa.array(radii))


def _repeated(value: Any, times: int) -> Any:
    plain = value if value is None or isinstance(value, str | bool | int | float) else repr(value)
    return pa.nulls(times) if plain is None else pa.repeat(pa.scalar(plain), times)
