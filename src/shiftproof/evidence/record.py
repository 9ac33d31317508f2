"""Evidence: one row for each (model, domain, probe, setting, sample).

Every number in every table, curve and claim is a pure function of these rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shiftproof.statistics import Sample

__all__ = ["SCHEMA", "Evidence", "seen_note", "worst_seen"]

SCHEMA = pa.schema(
    [
        ("model", pa.string()),
        ("domain", pa.string()),
        ("probe", pa.string()),
        ("setting", pa.string()),
        # base | smoothed | adapted | latent | median: a statement about one is not a statement about another
        ("classifier", pa.string()),
        ("sample", pa.string()),
        ("group", pa.string()),
        # all | simple | balanced: how the samples of the domain were chosen
        ("sampled", pa.string()),
        # no | unknown | yes: whether the model was trained on them
        ("seen_in_training", pa.string()),
        ("label", pa.int64()),
        ("prediction", pa.int64()),
        ("correct", pa.bool_()),
        ("radius", pa.float64()),
        # how far an attack may go, and how far it went, in `norm`
        ("eps", pa.float64()),
        ("distance", pa.float64()),
        # how far the representation moved, over the length of the one before
        ("latent_distance", pa.float64()),
        # by how much the loss changes around the sample: as found, and at most
        ("loss_change", pa.float64()),
        ("loss_bound", pa.float64()),
        # what nature did to the input, and how much of it
        ("corruption", pa.string()),
        ("severity", pa.int64()),
        ("count", pa.int64()),
        ("runner_up", pa.int64()),
        ("runner_up_count", pa.int64()),
        ("n", pa.int64()),
        ("skipped", pa.bool_()),
        ("p_lower", pa.float64()),
        ("p_upper", pa.float64()),
        # which bound gave p_lower and p_upper, and at which error each of them
        ("bound", pa.string()),
        ("level", pa.float64()),
        ("rival_level", pa.float64()),
        ("off_grid", pa.float64()),
        # of certificates that count no votes: the margin, over the constant
        ("margin", pa.float64()),
        ("constant", pa.float64()),
        # of those that rest on several smoothed classifiers: the votes of each, as JSON
        ("parts", pa.string()),
        # the name of a published rule that proves nothing; such rows are never certified
        ("unsound", pa.string()),
        ("alpha", pa.float64()),
        ("title", pa.string()),
        # a radius of interest, fixed before anything was measured
        ("scale", pa.float64()),
        ("noise", pa.string()),
        ("norm", pa.string()),
        ("units", pa.string()),
        ("guarantee", pa.string()),
        ("seed", pa.int64()),
        ("precision", pa.string()),
        ("seconds", pa.float64()),
    ]
)


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


class Evidence:
    """Rows of evidence: `evidence.where(model="erm", domain="e=0.9")`, `evidence["correct"]`."""

    def __init__(self, table: Any) -> None:
        self.table = table

    @classmethod
    def of(cls, parts: Sequence[Evidence]) -> Evidence:
        """All rows of several."""
        return cls(pa.concat_tables([part.table for part in parts]) if parts else SCHEMA.empty_table())

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __getitem__(self, column: str) -> NDArray[Any]:
        """A column as a numpy array."""
        values: NDArray[Any] = self.table.column(column).to_numpy()
        return values

    def __repr__(self) -> str:
        return f"Evidence({len(self)} rows: models {self.distinct('model')}, domains {self.distinct('domain')})"

    @property
    def grouped(self) -> bool:
        """Whether every row belongs to a group."""
        return len(self) > 0 and self.table.column("group").null_count == 0

    @property
    def seen_in_training(self) -> str:
        """no | unknown | yes: the worst that is known of any row's sample."""
        return worst_seen(self.distinct("seen_in_training"))

    def where(self, **values: str) -> Evidence:
        """The rows in which every named column has the given value."""
        if not values:
            return self
        conditions = [pc.equal(self.table.column(name), value) for name, value in values.items()]
        return Evidence(self.table.filter(reduce(pc.and_, conditions)))

    def distinct(self, column: str) -> list[Any]:
        """The values of a column, in order of appearance."""
        return list(self.table.column(column).unique().to_pylist())

    def sample(self, column: str = "correct") -> Sample:
        """A column's values with what a bootstrap may not tear apart: groups where there are any, else samples."""
        units = self["group" if self.grouped else "sample"].astype(object)
        return Sample(self[column].astype(np.float64), units)
