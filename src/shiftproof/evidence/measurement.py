"""A measurement: what a probe found of a model on a domain. Facts are stored once, columns have a value a sample."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shiftproof.errors import ConformanceError
from shiftproof.evidence.stored import StoredRows
from shiftproof.execution.recent import Recent
from shiftproof.execution.tables import hash_table
from shiftproof.statistics import Sample
from shiftproof.statistics.units import Units

__all__ = ["COMMON", "Column", "Measurement", "seen_note", "worst_seen"]

Kind = Literal["text", "int", "float", "bool"]
_RECENT: Recent[Units] = Recent(256 << 20, size=lambda units: units.nbytes)
"""Ids and groups of the domains that were asked for last."""
_TYPES: dict[str, Any] = {"text": pa.string(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}


@dataclass(frozen=True)
class Column:
    """A column of a measurement: its name, the kind of its values, and what they say."""

    name: str
    kind: Kind
    about: str

    @property
    def type(self) -> Any:
        """The Arrow type."""
        return _TYPES[self.kind]


COMMON = (
    Column("id", "text", "The sample's id."),
    Column("group", "text", "The group that it belongs to (patient, author), where there are groups."),
    Column("label", "int", "Its class; not there where labels are numbers, or were not told."),
    Column(
        "prediction",
        "int",
        "The classifier's answer; -1 where it abstains; not there where labels are numbers, or it was not told.",
    ),
    Column("correct", "bool", "Whether the answer is the label; not there where labels are numbers."),
    Column("seconds", "float", "Time that the sample took."),
)
"""Columns of every measurement; a probe declares the others."""


@dataclass(frozen=True, eq=False, repr=False)
class Measurement:
    """What one probe, under one setting, found of one model on one domain.

    `facts` hold for all samples: model, domain, probe, setting, title, classifier (base | smoothed | adapted | latent |
    median: a statement about one is not a statement about another), seed, train_seed (where a model was trained with
    several), precision, sampled (all | simple | balanced; of what others measured also systematic | unknown),
    seen_in_training and chose_weights (no | unknown | yes), imported (the file, of what others measured), and what the
    probe adds (norm, units, eps, alpha, guarantee ...). `rows` has a row a sample: an Arrow table, or rows of a file
    that are read when a column is asked for, so that a run may have more of them than fit into memory.
    """

    facts: Mapping[str, Any]
    rows: Any

    @classmethod
    def of(cls, facts: Mapping[str, Any], values: Mapping[str, Any], declared: Sequence[Column] = ()) -> Measurement:
        """From arrays; a column that neither every measurement has nor `declared` names is refused."""
        known = {column.name: column for column in (*COMMON, *declared)}
        undeclared = sorted(set(values) - set(known))
        if undeclared:
            raise ConformanceError(
                f"the probe {facts.get('probe')!r} measured {', '.join(map(repr, undeclared))} without declaring it; "
                f"add Column({undeclared[0]!r}, ...) to its columns"
            )
        missing = sorted({column.name for column in declared} - set(values))
        if missing:
            raise ConformanceError(f"the probe {facts.get('probe')!r} declares {missing[0]!r}, but did not measure it")
        present = [column for column in known.values() if column.name in values]
        arrays = [pa.array(values[column.name], column.type) for column in present]
        return cls(dict(facts), pa.table(arrays, names=[column.name for column in present]))

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def __getitem__(self, column: str) -> NDArray[Any]:
        """A column as a numpy array."""
        values: NDArray[Any] = self.rows.column(column).to_numpy()
        return values

    def __contains__(self, column: str) -> bool:
        return column in self.rows.column_names

    @property
    def table(self) -> Any:
        """All columns as an Arrow table, in memory."""
        return self.rows.read() if isinstance(self.rows, StoredRows) else self.rows

    def __repr__(self) -> str:
        return f"Measurement({self.title!r} of {self.model!r} on {self.domain!r}: {len(self)} samples)"

    def fact(self, name: str, default: Any = None) -> Any:
        """A fact, or `default` where the probe states none."""
        return self.facts.get(name, default)

    @property
    def model(self) -> str:
        """The model's name."""
        return str(self.facts["model"])

    @property
    def model_title(self) -> str:
        """The model's name, and the seed that trained it where it was trained with several."""
        seed = self.facts.get("train_seed")
        return self.model if seed is None else f"{self.model}, seed {seed}"

    @property
    def domain(self) -> str:
        """The domain's name."""
        return str(self.facts["domain"])

    @property
    def probe(self) -> str:
        """The probe's name."""
        return str(self.facts["probe"])

    @property
    def setting(self) -> str:
        """The probe with its options, as it would be written in Python."""
        return str(self.facts["setting"])

    @property
    def title(self) -> str:
        """What tells it from other measurements in a table."""
        return str(self.facts.get("title") or self.probe)

    @property
    def classifier(self) -> str:
        """base | smoothed | adapted | latent | median: of which classifier it speaks."""
        return str(self.facts["classifier"])

    @property
    def seen_in_training(self) -> str:
        """no | unknown | yes: whether the model was trained on the samples."""
        return str(self.facts.get("seen_in_training") or "no")

    @property
    def chose_weights(self) -> str:
        """no | unknown | yes: whether the samples decided which weights of the model were kept."""
        return str(self.facts.get("chose_weights") or "unknown")

    @property
    def grouped(self) -> bool:
        """Whether samples belong to groups."""
        return "group" in self

    @property
    def ids(self) -> Units:
        """Which sample each row is of."""
        return self._units("id")

    @property
    def units_of(self) -> Units:
        """What a bootstrap may not tear apart: groups where there are any, else samples."""
        return self._units("group") if self.grouped else self.ids

    def _units(self, column: str) -> Units:
        found = self._known.get(column)
        if found is None:
            found = self._known[column] = _units_of(self.rows.column(column))
        return found

    @cached_property
    def _known(self) -> WeakValueDictionary[str, Units]:
        # who forgets what was not asked for the longest is not kept from it
        return WeakValueDictionary()

    def __getstate__(self) -> dict[str, Any]:
        return {"facts": self.facts, "rows": self.rows}

    def places_of(self, ids: Sequence[str]) -> dict[str, int]:
        """The rows of some samples, by id; nothing of a sample that is not there."""
        known = self.rows.column("id").cast(pa.string()).combine_chunks()
        found = pc.index_in(pa.array(ids, pa.string()), value_set=known).to_pylist()
        return {sample: place for sample, place in zip(ids, found, strict=True) if place is not None}

    def sample(self, column: str = "correct") -> Sample:
        """A column's values with their units, for intervals."""
        return Sample(self[column].astype(np.float64), self.units_of)

    def take(self, rows: NDArray[Any]) -> Measurement:
        """The rows at some positions, or where a mask is true."""
        rows = np.asarray(rows)
        taken = self.rows.filter(pa.array(rows)) if rows.dtype == bool else self.rows.take(pa.array(rows))
        return Measurement(self.facts, taken)

    def with_facts(self, **facts: Any) -> Measurement:
        """The same rows with other facts."""
        return Measurement({**self.facts, **facts}, self.rows)


def _units_of(column: Any) -> Units:
    """The units of a column; columns of one content, as those of all probes on a domain, share them."""
    return _RECENT.get(hash_table(pa.table([column], ["units"])), lambda: Units.of_texts(column))


def worst_seen(values: Iterable[str | None]) -> str:
    """yes if any of them says so, unknown if any does, else no: what rests on several is no better than the worst."""
    found = set(values)
    return next((one for one in ("yes", "unknown") if one in found), "no")


def seen_note(seen: str, before: str = "") -> str:
    """What stands beside a figure whose samples the model may have been trained on; nothing if it was not.

    >>> seen_note("unknown", "; ")
    '; seen in training: unknown'
    """
    return "" if seen == "no" else f"{before}seen in training: {seen}"
