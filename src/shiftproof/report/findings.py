"""What a reader should take away, as findings."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from shiftproof.evidence import Evidence
from shiftproof.evidence.metrics import mean_accuracy
from shiftproof.report.tables import Row, Table, points
from shiftproof.types import Finding

__all__ = ["shift_findings"]

NOTABLE_GAP = 0.02


def shift_findings(table: Table, evidence: Evidence) -> Iterator[Finding]:
    """One finding a model: does its accuracy survive the shift? Without a target there is nothing to say."""
    if table.target is None:
        return
    labels = evidence.where(probe="clean", domain=table.target, model=table.rows[0].model)["label"]
    constant = float(np.bincount(labels).max() / len(labels))
    for row in table.rows:
        yield _finding(row, table, constant)


def _finding(row: Row, table: Table, constant: float) -> Finding:
    assert row.gap is not None
    assert table.target is not None
    there = row.accuracy[table.target]
    here = mean_accuracy([row.accuracy[source] for source in table.sources])
    measured = f"{row.model}: {here:.0%} on the domains it was trained on, {there.value:.0%} on {table.target}"
    change = f"{points(row.gap.value).lstrip('+')} points ({points(row.gap.low)} to {points(row.gap.high)})"
    if there.high < constant:
        return Finding(
            "fail",
            "collapse",
            f"{measured}: it loses {change}, and always answering the commonest class would be right on {constant:.0%}",
        )
    if row.gap.low > NOTABLE_GAP:
        return Finding("warn", "gap", f"{measured}: it loses {change}")
    if row.gap.low > 0:
        return Finding("warn", "gap", f"{measured}: a small but measurable loss of {change}")
    return Finding(
        "pass",
        "holds",
        f"{measured}: no loss is measurable, the gap is {change}",
    )
