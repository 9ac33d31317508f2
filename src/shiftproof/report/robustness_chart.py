"""Certified and attacked accuracy by radius in one chart: what `run.plot()` shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from shiftproof.display.axes import numbers_axis, share_axis
from shiftproof.display.chart import SOURCE_DASH, Chart, Key, Panel, style_of
from shiftproof.display.marks import Dots, Line, Mark, Style, Whiskers
from shiftproof.errors import UnknownName, UsageError
from shiftproof.evidence import Evidence
from shiftproof.perturbations.threat import size_text
from shiftproof.report.certified import Series, series_of_evidence
from shiftproof.report.estimates import estimate, repeats_in

__all__ = ["robustness_chart"]

_POINTS = 120
_DASHES: tuple[tuple[float, ...], ...] = ((), SOURCE_DASH, (1, 3), (8, 3, 2, 3), (2, 2), (10, 4))
Row = dict[str, Any]
"""A point of a curve: radius and share, with its limits where it was measured."""


def robustness_chart(
    evidence: Evidence,
    sources: Sequence[str],
    targets: Sequence[str],
    *,
    model: str | None = None,
    domain: str | None = None,
    norm: str | None = None,
) -> Chart:
    """Lines for certified accuracy, dots for accuracy under attacks, by radius in one norm.

    Of one model all domains are shown, of several the targets, unless a `domain` is named. The norm is that of the
    first certificate, or without any of the first attack.
    """
    for name, value in (("model", model), ("domain", domain)):
        if value is not None and value not in evidence.distinct(name):
            raise UnknownName(f"{name} of the run:", value, map(str, evidence.distinct(name)))
    chosen = evidence if model is None else evidence.where(model=model)
    everywhere = len(chosen.distinct("model")) == 1 or not targets
    places = [domain] if domain is not None else [*targets, *(sources if everywhere else ())]
    chosen = Evidence([one for one in chosen if one.domain in places])
    certified, attacked = series_of_evidence(chosen), chosen.where(probe="attack")
    norms = list(dict.fromkeys([*((one.norm, one.units) for one in certified), *map(_ball, attacked)]))
    if not norms:
        raise UsageError("there is nothing to plot by radius: the run has neither certificates nor attacks")
    if norm is not None and norm not in [name for name, _ in norms]:
        raise UnknownName("norm of the run:", norm, dict.fromkeys(name for name, _ in norms))
    ball = next(pair for pair in norms if norm in (None, pair[0]))
    held = [one for one in certified if (one.norm, one.units) == ball]
    tried = Evidence([one for one in attacked if _ball(one) == ball])
    differs = [fact for fact in ("model", "domain") if len(chosen.distinct(fact)) > 1]
    values = [*_certified(held), *_attacked(chosen, tried)]
    # in the order in which domains are named
    values = sorted(values, key=lambda row: places.index(row["domain"]))
    shown = [row | {"curve": _curve(row, differs or ("model",), targets)} for row in values]
    return _draw(shown, ball, places)


def _ball(one: Any) -> tuple[str, str]:
    return str(one.fact("norm")), str(one.fact("units"))


def _certified(series: Sequence[Series]) -> Iterator[Row]:
    farthest = max((float(one.earned.max(initial=0.0)) for one in series), default=0.0)
    for one in series:
        kind = f"certified: {one.classifier} classifier, {one.name}"
        radii = (
            np.arange(farthest // 1 + 2) if one.counts_edits else np.linspace(0, max(farthest, 1e-3) * 1.02, _POINTS)
        )
        for radius, share in zip(radii, one.curve(radii), strict=True):
            yield {**_whose(one), "kind": kind, "radius": float(radius), "share": float(share)}


def _attacked(evidence: Evidence, attacked: Evidence) -> Iterator[Row]:
    """Accuracy by size; at 0 that of samples as they are, where the classifier itself was measured on them."""
    for part in attacked.by("model", "domain", "attack", "classifier"):
        first = part[0]
        sizes = {float(one.fact("eps")): one for one in repeats_in(part)}
        if 0.0 not in sizes and first.classifier == "base":
            clean = repeats_in(evidence.where(probe="clean", model=first.model, domain=first.domain))
            if clean:
                sizes[0.0] = clean[0]
        noise = f", {first.fact('noise')}" if first.fact("noise") else ""
        for eps, one in sorted(sizes.items()):
            e = estimate(one.values(), exact=not one.grouped)
            yield {
                **_whose(first),
                "kind": f"attacked: {first.classifier} classifier{noise}",
                "radius": eps,
                "share": e.value,
                "low": e.low,
                "high": e.high,
            }


def _curve(row: Row, differs: Sequence[str], targets: Sequence[str]) -> str:
    """What tells a curve from the others: the model, the domain and whether it is unseen, or both."""
    names = {"model": row["model"], "domain": f"{row['domain']}{', unseen' if row['domain'] in targets else ''}"}
    return ", ".join(names[fact] for fact in differs)


def _whose(one: Any) -> Row:
    return {"model": one.model, "domain": one.domain}


def _draw(values: Sequence[Row], ball: tuple[str, str], places: Sequence[str]) -> Chart:
    curves, kinds = (list(dict.fromkeys(row[name] for row in values)) for name in ("curve", "kind"))
    colours = style_of(curves)
    dashes = {kind: _DASHES[place % len(_DASHES)] for place, kind in enumerate(kinds)}
    marks: list[Mark] = []
    for curve, kind in dict.fromkeys((row["curve"], row["kind"]) for row in values):
        own = [row for row in values if (row["curve"], row["kind"]) == (curve, kind)]
        style, of = replace(colours[curve], dash=dashes[kind]), (curve, kind)
        points = [(row["radius"], row["share"]) for row in own]
        hints = [f"{curve}, {kind}, {size_text(float(f'{x:.4g}'), ball[0])}: {y:.1%}" for x, y in points]
        if "low" in own[0]:
            ranges = [(row["radius"], row["low"], row["high"]) for row in own]
            marks += [Line(points, replace(style, width=1.5), of)]
            marks += [Whiskers(ranges, replace(colours[curve], opacity=0.6, width=1.5), of)]
            marks += [Dots(points, style, of, hints, size=5)]
        else:
            marks += [Line(points, style, of, "before"), Dots(points[::3], style, of, hints[::3], hidden=True)]
    keys = [Key(curve, colours[curve]) for curve in curves]
    keys += [Key(kind, Style(None, dashes[kind])) for kind in kinds]
    words = [f"On {', '.join(places)}."]
    if any("low" not in row for row in values):
        words.append("Certified accuracy is guaranteed within the radius.")
    if any("low" in row for row in values):
        words.append("Dots are accuracies under attacks of that size, bars 95 % intervals; lines only join them.")
        words.append("A better attack may leave less.")
    words += ["Between different classifiers no order is claimed."] if len(kinds) > 1 else []
    radii = [row["radius"] for row in values]
    ticks = sorted({float(int(one)) for one in radii}) if ball[0] == "edits" else ()
    x = numbers_axis(f"radius ({ball[0]}, {ball[1]})", radii, ticks=ticks, zero=True)
    return Chart("robustness", [Panel(marks, x, share_axis("right, of all samples"))], keys, words=" ".join(words))
