"""A drawing of a comparison: how a critic's values on a target differ from those on a domain of the run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from shiftproof.evidence import slug
from shiftproof.execution import write_atomically
from shiftproof.report.chart import Chart, by_colour, layer, make_chart, numbers_axis
from shiftproof.runs.shift import Comparison, Shift

__all__ = ["shift_chart", "write_pictures"]

_BINS = 40


def shift_chart(comparison: Comparison) -> Chart:
    """Shares of samples by the critic's value, of both domains; lines at their means, and where the guarantee ends.

    W1 is at least the distance between the two means: a target whose mean is beyond the dashed line by more than
    chance lies outside.
    """
    one = comparison.distance
    sides = {comparison.domain: one.reference_values, comparison.target: one.target_values}
    x, colour = numbers_axis("value", f"value of the {one.critic} ({one.norm})"), by_colour("domain", list(sides))
    heights = {
        "field": "share",
        "type": "quantitative",
        "title": "share of samples",
        "axis": {"format": "%"},
        "stack": None,
    }
    values = list(_bars(comparison))
    ends = {"x2": {"field": "until"}, "y2": {"datum": 0}}
    bars = layer(values, {"type": "rect", "opacity": 0.55}, x=x, y=heights, color=colour, **ends)
    means = [{"domain": name, "value": float(some.mean())} for name, some in sides.items()]
    layers = [bars, layer(means, {"type": "rule", "strokeWidth": 2}, x=x, color=colour)]
    words = f"{comparison.sentence}. Lines: means"
    if comparison.ends is not None and math.isfinite(comparison.ends):
        edge = [{"value": float(one.reference_values.mean()) + comparison.ends}]
        layers.append(layer(edge, {"type": "rule", "strokeDash": [4, 4], "color": "#1c1917"}, x=x))
        words += f"; dashed: as far from that of {comparison.domain} as the guarantee reaches"
    return make_chart(f"shift-{slug(comparison.domain)}-{slug(one.norm)}", layers, words=f"{words}.")


def write_pictures(found: Shift, folder: Path) -> list[Path]:
    """One SVG file a comparison, below `folder`; returns their paths."""
    paths = []
    for comparison in found.comparisons:
        chart = shift_chart(comparison)
        paths.append(folder / f"{chart.name}.svg")
        write_atomically(paths[-1], chart.svg().encode())
    return paths


def _bars(comparison: Comparison) -> Iterator[dict[str, Any]]:
    one = comparison.distance
    both = np.concatenate([one.reference_values, one.target_values])
    edges = np.linspace(float(both.min()), float(both.max()) + 1e-9, _BINS + 1)
    for name, values in ((comparison.domain, one.reference_values), (comparison.target, one.target_values)):
        shares = np.histogram(values, edges)[0] / len(values)
        for start, end, share in zip(edges[:-1], edges[1:], shares, strict=True):
            if share > 0:
                yield {"domain": name, "value": float(start), "until": float(end), "share": float(share)}
