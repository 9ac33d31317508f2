"""What is guaranteed, domain by domain: curves of certified accuracy, as values, text and a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftproof.evidence import Evidence, Measurement, seen_note
from shiftproof.evidence.certified import NOTHING, curve, curve_band, envelope, mean_credit
from shiftproof.report.cells import csv_text
from shiftproof.report.chart import PALETTE
from shiftproof.statistics import Sample, bootstrap_mean, interval
from shiftproof.types import Estimate, FloatArray

__all__ = [
    "Series",
    "band_text",
    "by_chart",
    "by_setting",
    "certified_chart",
    "certified_csv",
    "figures",
    "nice_radii",
    "series_of_evidence",
]

_STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0)
_COLUMNS = 5
_POINTS = 120
_DASHES = [[1, 0], [5, 4], [1, 3], [8, 3, 2, 3], [2, 2], [10, 4]]


@dataclass(frozen=True, eq=False)
class Series:
    """The certificates of one model on one domain under one setting: what every sample earned, and what that means.

    `scale` is a radius of interest that was fixed before anything was measured.
    """

    model: str
    domain: str
    setting: str
    title: str
    scale: float
    earned: FloatArray
    units_of: NDArray[np.object_]
    grouped: bool
    abstained: float | None
    biased: bool
    norm: str
    units: str
    alpha: float
    guarantee: str
    classifier: str
    seen: str = "no"

    @property
    def note(self) -> str:
        """What is said beside its figures if the model may have been trained on the samples."""
        return seen_note(self.seen)

    @property
    def heading(self) -> str:
        """What was certified, short."""
        return f"{self.title}, radius in {self.norm} ({self.units}), alpha {self.alpha:g}"

    def at(self, radius: float) -> Estimate:
        """Certified accuracy at a radius, with its interval over images."""
        reached = self.earned >= radius
        if self.grouped:
            return bootstrap_mean(Sample(reached.astype(np.float64), self.units_of), limits=(0, 1))
        return interval(int(reached.sum()), len(reached))

    def mean_radius(self, over: str = "all") -> float:
        """The average certified radius, over all samples or over those that are certified and right."""
        return mean_credit(self.earned, over)

    def sample(self, radius: float) -> Sample:
        """Whether each image reaches a radius, with what a bootstrap may not tear apart."""
        return Sample((self.earned >= radius).astype(np.float64), self.units_of)


def series_of_evidence(evidence: Evidence) -> list[Series]:
    """From the measurements of `certify` probes, by model and setting."""
    # rules that prove nothing are never shown as certified
    certified = Evidence([one for one in evidence.where(probe="certify") if not one.fact("unsound")])
    return [_series(one) for part in certified.by("model", "setting") for one in part]


def _series(one: Measurement) -> Series:
    skipped = one["skipped"]
    return Series(
        one.model,
        one.domain,
        one.setting,
        one.title,
        float(one.fact("scale")),
        np.where(one["correct"] & ~skipped, one["radius"], NOTHING),
        one.units_of,
        one.grouped,
        None if skipped.any() else float((one["prediction"] < 0).mean()),
        bool((one["bound"] == "sequence").any()),
        str(one.fact("norm")),
        str(one.fact("units")),
        float(one.fact("alpha")),
        str(one.fact("guarantee")),
        one.classifier,
        one.seen_in_training,
    )


def by_setting(series: Sequence[Series]) -> list[list[Series]]:
    """The series of each setting: radii of different norms do not belong in one table."""
    return [[one for one in series if one.setting == setting] for setting in dict.fromkeys(s.setting for s in series)]


def by_chart(series: Sequence[Series], target: str | None) -> list[list[Series]]:
    """The series that share a picture: those of a setting; of one model without a target, all with the same units.

    Lines of one model are named after what they differ in: the domain, or the certificate.
    """
    if target is not None or len({one.model for one in series}) != 1:
        return by_setting(series)
    several = len({one.domain for one in series}) > 1
    levels = len({one.alpha for one in series}) > 1
    named = [
        replace(
            one,
            model=f"{one.domain if several else one.title}{f', alpha {one.alpha:g}' if levels else ''}",
        )
        for one in series
    ]
    units = dict.fromkeys((one.norm, one.units) for one in named)
    return [[one for one in named if (one.norm, one.units) == pair] for pair in units]


def nice_radii(series: Sequence[Series]) -> tuple[float, ...]:
    """A handful of round radii from 0 to where hardly anything is certified any more."""
    farthest = max((float(np.quantile(one.earned, 0.98)) for one in series), default=0.0)
    step = next((step for step in _STEPS if farthest / step < _COLUMNS), _STEPS[-1])
    radii = {round(step * i, 4) for i in range(max(2, min(_COLUMNS, int(farthest / step) + 1)))}
    # the radius that findings speak of is in the table too
    return tuple(sorted(radii | {one.scale for one in series if 0 < one.scale <= 2 * farthest}))


def figures(one: Series, radii: Sequence[float]) -> dict[str, Any]:
    """All figures of a series, for JSON."""
    at = {f"{radius:g}": one.at(radius) for radius in radii}
    return {
        "model": one.model,
        "domain": one.domain,
        "certificate": one.title,
        "accuracy": one.at(0.0).value,
        "average_certified_radius": one.mean_radius(),
        "average_certified_radius_correct": one.mean_radius("correct"),
        "biased_low": one.biased,
        "certified_accuracy": {radius: e.value for radius, e in at.items()},
        "interval": {radius: [e.low, e.high] for radius, e in at.items()},
        "abstained": one.abstained,
        "alpha": one.alpha,
        "norm": one.norm,
        "units": one.units,
        "guarantee": one.guarantee,
        "seen_in_training": one.seen,
    }


def certified_csv(parts: Sequence[tuple[Sequence[Series], Sequence[float]]]) -> str:
    """One line a number, in full: series, each with the radii that are shown of them."""
    header = ["model", "domain", "certificate", "norm", "alpha", "metric", "radius", "value", "low", "high", "n"]
    lines: list[list[Any]] = [[*header, "seen_in_training"]]
    for one, radii in [(one, radii) for series, radii in parts for one in series]:
        head = [one.model, one.domain, one.title, one.norm, one.alpha]
        for radius in radii:
            e = one.at(radius)
            lines.append([*head, "certified accuracy", radius, e.value, e.low, e.high, e.n, one.seen])
        for over in ("all", "correct"):
            lines.append([*head, f"average certified radius, {over}", "", one.mean_radius(over), "", "", "", one.seen])
        lines.append([*head, "abstained", "", "" if one.abstained is None else one.abstained, "", "", "", one.seen])
    return csv_text(lines)


def certified_chart(series: Sequence[Series], target: str | None = None) -> dict[str, Any]:
    """A Vega-Lite specification: certified accuracy by radius, one colour a model, dashed on sources.

    Without a target there are no sources to tell from it: dashes then tell noises apart. Where all series are of one
    domain under several noises, their envelope is drawn behind them.
    """
    import altair as alt

    farthest = max(float(one.earned.max()) for one in series)
    radii = np.linspace(0, max(farthest, 1e-3) * 1.02, _POINTS)
    names = list(dict.fromkeys(one.model for one in series))
    values = list(_points(series, radii, target))
    roles = list(dict.fromkeys(row["role"] for row in values))
    roles = sorted(roles, key=lambda role: role == "source")
    x = alt.X("radius:Q", title=f"radius ({series[0].norm}, {series[0].units})", axis=alt.Axis(grid=False))
    y = alt.Y(
        "certified:Q",
        title="certified accuracy",
        scale=alt.Scale(domain=[0, 1]),
        axis=alt.Axis(format="%", values=[0, 0.25, 0.5, 0.75, 1]),
    )
    lines = (
        alt.Chart(alt.InlineData(values=values))
        .mark_line(interpolate="step-before", strokeWidth=2)
        .encode(
            x=x,
            y=y,
            detail="domain:N",
            color=alt.Color(
                "model:N",
                sort=names,
                scale=alt.Scale(range=PALETTE),
                legend=alt.Legend(title=None, orient="top", labelLimit=0, columns=4),
            ),
            strokeDash=alt.StrokeDash(
                "role:N",
                sort=roles,
                scale=alt.Scale(domain=roles, range=_DASHES[: len(roles)]),
                legend=alt.Legend(title=None, orient="top") if len(roles) > 1 else None,
            ),
        )
    )
    layers = [lines]
    noises = len({one.domain for one in series}) == 1 and len({one.title for one in series}) == len(series) > 1
    if target is None and noises and len({one.alpha for one in series}) == 1:
        best = envelope([curve(one.earned, radii) for one in series])
        rows = [{"radius": float(r), "certified": float(c)} for r, c in zip(radii, best, strict=True)]
        shade = alt.Chart(alt.InlineData(values=rows)).mark_area(color="#e7e5e4", interpolate="step-before")
        title = "gray: the best noise at each radius, which is no classifier's curve"
        layers = [shade.encode(x=x, y=y).properties(title=title), lines]
    chart = alt.layer(*layers).properties(width=620, height=300)
    chart = chart.configure_view(stroke=None).configure_axis(grid=False, labelFontSize=12, titleFontSize=12)
    chart = chart.configure_title(fontSize=12, fontWeight="normal", color="#57534e")
    specification: dict[str, Any] = chart.configure_legend(labelFontSize=13).to_dict(validate=False)
    return specification


def band_text(series: Sequence[Series]) -> str:
    """How far a whole curve may be off, in words; nothing where samples come in groups, for which it does not hold."""
    if any(one.grouped for one in series):
        return ""
    widest = max(curve_band(len(one.earned)) for one in series)
    given = " (for this noise)" if series[0].alpha else ""
    return f"Each curve as a whole is within {100 * widest:.1f} points of its domain's, at 95 %{given}."


def _points(series: Sequence[Series], radii: FloatArray, target: str | None) -> Iterator[dict[str, Any]]:
    # where colours tell noises apart already, dashes need not
    told = len({one.model for one in series}) == len(series)
    for one in series:
        other = "measured" if told else one.title
        role = other if target is None else "unseen" if one.domain == target else "source"
        for radius, value in zip(radii, curve(one.earned, radii), strict=True):
            yield {
                "model": one.model,
                "domain": f"{one.domain} {one.setting}",
                "role": role,
                "radius": float(radius),
                "certified": float(value),
            }
