"""A drawing of a comparison: how a critic's values on a target differ from those on a domain of the run."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np

from shiftproof.display.axes import numbers_axis
from shiftproof.display.chart import Chart, Key, Panel, style_of
from shiftproof.display.marks import Boxes, Mark, Rule, Style
from shiftproof.evidence import slug
from shiftproof.execution import write_atomically
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
    styles, marks, most = style_of(sides), list[Mark](), 0.0
    both = np.concatenate([one.reference_values, one.target_values])
    edges = np.linspace(float(both.min()), float(both.max()) + 1e-9, _BINS + 1)
    for name, values in sides.items():
        shares = np.histogram(values, edges)[0] / len(values)
        full = [(float(a), float(b), float(s)) for a, b, s in zip(edges[:-1], edges[1:], shares, strict=True) if s > 0]
        hints = [f"{name}, {start:.3g} to {end:.3g}: {share:.1%} of samples" for start, end, share in full]
        boxes = [(start, end, 0.0, share) for start, end, share in full]
        marks.append(Boxes(boxes, replace(styles[name], opacity=0.55), (name,), hints))
        most = max(most, float(shares.max()))
    marks += [Rule(float(values.mean()), styles[name], (name,), upright=True) for name, values in sides.items()]
    words, ends = f"{comparison.sentence}. Lines: means", edges.tolist()
    if comparison.ends is not None and math.isfinite(comparison.ends):
        edge = float(one.reference_values.mean()) + comparison.ends
        marks.append(Rule(edge, Style(None, (4, 4)), upright=True))
        ends.append(edge)
        words += f"; dashed: as far from that of {comparison.domain} as the guarantee reaches"
    x = numbers_axis(f"value of the {one.critic} ({one.norm})", ends)
    panel = Panel(marks, x, numbers_axis("share of samples", [0, most], percent=True, grid=True))
    keys = [Key(name, style, "dot") for name, style in styles.items()]
    return Chart(f"shift-{slug(comparison.domain)}-{slug(one.norm)}", [panel], keys, words=f"{words}.")


def write_pictures(found: Shift, folder: Path) -> list[Path]:
    """One SVG file a comparison, below `folder`; returns their paths."""
    paths = []
    for comparison in found.comparisons:
        chart = shift_chart(comparison)
        paths.append(folder / f"{chart.name}.svg")
        write_atomically(paths[-1], chart.svg().encode())
    return paths
