"""Certified accuracy by radius as a chart: models by colour, sources dashed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from shiftproof.display.axes import Axis, numbers_axis, share_axis
from shiftproof.display.chart import SOURCE_DASH, Chart, Key, Panel, style_of, styles_by_role
from shiftproof.display.draw import PALETTE
from shiftproof.display.marks import Band, Dots, Line, Mark, Style
from shiftproof.evidence.certified import curve_band, envelope
from shiftproof.report.certified import Series
from shiftproof.types import FloatArray

__all__ = ["certified_chart", "radius_axis", "radius_grid"]

_POINTS = 120
_APART = 12
_DASHES: tuple[tuple[float, ...], ...] = ((), SOURCE_DASH, (1, 3), (8, 3, 2, 3), (2, 2), (10, 4))


def radius_grid(series: Sequence[Series], points: int = _POINTS) -> FloatArray:
    """Radii at which curves are drawn: up to where the last one ends; of edits all whole numbers."""
    farthest = max(float(one.earned.max()) for one in series)
    if series[0].counts_edits:
        return np.arange(max(farthest, 0) // 1 + 2)
    return np.linspace(0, max(farthest, 1e-3) * 1.02, points)


def radius_axis(first: Series, radii: FloatArray) -> Axis:
    """The axis of radii, in their norm and units; of edits there is a tick at every whole number, and at no half."""
    title = f"radius ({first.norm}, {first.units})"
    return numbers_axis(title, radii.tolist(), ticks=radii.tolist() if first.counts_edits else ())


def certified_chart(name: str, series: Sequence[Series], targets: Sequence[str] = ()) -> Chart:
    """Certified accuracy by radius, one colour a model, dashed on sources.

    Of several targets each has its own dash and dots, and its own colour where there is one model. Without a target
    there are no sources to tell from it: dashes then tell noises apart. Where all series are of one domain under
    several noises, their envelope is drawn behind them.
    """
    radii = radius_grid(series)
    x, y = radius_axis(series[0], radii), share_axis("certified accuracy")
    names, styles, keys = _styles(series, targets)
    # colours alone do not tell so many apart
    many = len({model for model, _ in names}) > len(PALETTE)
    order = list(dict.fromkeys(names))
    several = len({one.domain for one in series} & set(targets)) > 1
    roles = list(dict.fromkeys(role for _, role in names))
    marks = list[Mark]()
    for one, (model, role) in zip(series, names, strict=True):
        style, points = styles[model, role], list(zip(radii.tolist(), one.curve(radii).tolist(), strict=True))
        hints = [f"{model}, {one.domain}, {one.radius_words(x)}: {y:.1%} certified" for x, y in points]
        marks += [Line(points, style, (model, role), "before")]
        if one.counts_edits:
            # of edits there are whole numbers only, and dots say which
            marks.append(Dots(points, style, (model, role), hints, size=3))
            continue
        marks.append(Dots(points[::3], style, (model, role), hints[::3], hidden=True))
        if several or many:
            # dots of different lines stand apart where the lines lie on each other
            begin = (_APART // 3) * roles.index(role) % _APART if several else order.index((model, role)) % _APART
            marks.append(Dots(points[begin::_APART], style, (model, role), size=4))
    words = f"Certified accuracy by radius{': solid on the unseen domain, dashed on sources' if targets else ''}."
    if several:
        words = (
            "Certified accuracy by radius: sources are dashed, and each unseen domain has a line and dots of its own."
        )
    title = ""
    if _one_domain_many_noises(series, targets):
        best = envelope([one.curve(radii) for one in series])
        shade = [(float(r), 0.0, float(c)) for r, c in zip(radii, best, strict=True)]
        marks.insert(0, Band(shade, Style(None), step="before"))
        title = "gray: the best noise at each radius, which is no classifier's curve"
    return Chart(name, [Panel(marks, x, y)], keys, title, " ".join([words, *_band(series)]))


def _styles(
    series: Sequence[Series], targets: Sequence[str]
) -> tuple[list[tuple[str, str]], dict[tuple[str, str], Style], list[Key]]:
    """The model and role of each line, how each pair looks, and the legend."""
    models = dict.fromkeys(one.label or one.model for one in series)
    told = len(models) == len(series)
    several = len({one.domain for one in series} & set(targets)) > 1
    names = []
    for one in series:
        # where colours tell noises apart already, dashes need not
        other = "measured" if told else one.title
        unseen = f"{one.domain}, unseen" if several else "unseen"
        names.append((one.label or one.model, other if not targets else unseen if one.domain in targets else "source"))
    roles = sorted(dict.fromkeys(role for _, role in names), key=lambda role: role == "source")
    colours = style_of(models)
    if several:
        looks = styles_by_role(
            [role for role in roles if role != "source"], [role for role in roles if role == "source"]
        )
    else:
        looks = {role: Style(None, _DASHES[place % len(_DASHES)]) for place, role in enumerate(roles)}
    alone = several and len(models) == 1
    styles = {
        (model, role): looks[role]
        if alone
        else replace(
            looks[role], colour=colours[model].colour, shape=looks[role].shape if several else colours[model].shape
        )
        for model, role in names
    }
    many: Literal["both", "line"] = "both" if len(models) > len(PALETTE) else "line"
    keys = [] if alone else [Key(model, colours[model], many) for model in models]
    if len(roles) > 1:
        shown: Literal["both", "line"] = "both" if several else "line"
        keys += [Key(role, looks[role] if alone else replace(looks[role], colour=None), shown) for role in roles]
    return names, styles, keys


def _one_domain_many_noises(series: Sequence[Series], targets: Sequence[str]) -> bool:
    noises = len({one.domain for one in series}) == 1 and len({one.title for one in series}) == len(series) > 1
    return not targets and noises and len({one.alpha for one in series}) == 1


def _band(series: Sequence[Series]) -> Iterator[str]:
    """How far a whole curve may be off; nothing for groups or several training seeds, for which it does not hold."""
    if not any(one.grouped or len(one.repeats.measurements) > 1 for one in series):
        widest = max(curve_band(one.images) for one in series)
        if widest >= 1:
            # a band from 0 to 100 % says nothing
            return
        given = " (for this noise)" if series[0].alpha else ""
        yield f"Each curve as a whole is within {100 * widest:.1f} points of its domain's, at 95 %{given}."
