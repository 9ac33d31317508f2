"""A chart of one figure by domain: dots with intervals, in each domain the models side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shiftproof.display.axes import Axis, names_axis
from shiftproof.display.chart import WIDTH, Chart, Key, Panel, style_of
from shiftproof.display.marks import Dots, Mark, Whiskers
from shiftproof.types import Estimate

__all__ = ["by_domain"]

_SPREAD = 0.6
"""The part of a domain's place that its models take."""


def by_domain(
    name: str,
    headings: Mapping[str, str],
    figures: Mapping[str, Mapping[str, Estimate]],
    y: Axis,
    *,
    words: str,
    behind: Sequence[Mark] = (),
    percent: bool = True,
) -> Chart:
    """Figures by model and domain; `headings` are the domains in order with what stands below them."""
    styles, places = style_of(figures), list(headings)
    marks = list(behind)
    for number, (model, found) in enumerate(figures.items()):
        beside = _SPREAD * ((number + 0.5) / len(figures) - 0.5)
        here = [(places.index(domain) + beside, domain, e) for domain, e in found.items()]
        hints = [f"{model}, {headings[domain]}: {e.format() if percent else e.format(_plain)}" for _, domain, e in here]
        marks += [
            Whiskers([(x, e.low, e.high) for x, _, e in here], styles[model], (model,)),
            Dots([(x, e.value) for x, _, e in here], styles[model], (model,), hints, size=5),
        ]
    keys = [Key(model, style, "dot") for model, style in styles.items()]
    width = max(420, min(WIDTH, 230 * len(places)))
    return Chart(name, [Panel(marks, names_axis(list(headings.values())), y, width=width)], keys, words=words)


def _plain(value: float) -> str:
    return f"{value:.3f}"
