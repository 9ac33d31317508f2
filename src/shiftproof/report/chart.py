"""Pictures: accuracy with intervals, heat maps; and how they become files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from shiftproof.report.tables import Table

__all__ = ["accuracy_chart", "chart_png", "chart_svg", "heat_map"]

PALETTE = ["#c2410c", "#1d4ed8", "#15803d", "#7e22ce", "#a16207", "#0e7490", "#be123c", "#4d7c0f"]


def accuracy_chart(table: Table, classes: int) -> dict[str, Any]:
    """A Vega-Lite specification: accuracy with 95 % intervals, domains in order, a dashed line where guessing is."""
    import altair as alt

    order = [table.heading(domain) for domain in table.domains]
    models = [row.model for row in table.rows]
    values = [
        {"model": row.model, "domain": table.heading(domain), "accuracy": e.value, "low": e.low, "high": e.high}
        for row in table.rows
        for domain, e in row.accuracy.items()
    ]
    percent = alt.Axis(format="%", values=[0, 0.25, 0.5, 0.75, 1])
    base = alt.Chart(alt.InlineData(values=values)).encode(
        x=alt.X("domain:N", sort=order, title=None, axis=alt.Axis(labelAngle=0, labelPadding=8, labelLimit=180)),
        xOffset=alt.XOffset("model:N", sort=models),
        color=alt.Color(
            "model:N",
            sort=models,
            scale=alt.Scale(range=PALETTE),
            legend=alt.Legend(title=None, orient="top", labelLimit=0, columns=4),
        ),
    )
    dots = base.mark_circle(size=90, opacity=1).encode(
        y=alt.Y("accuracy:Q", title="accuracy", scale=alt.Scale(domain=[0, 1]), axis=percent)
    )
    bars = base.mark_rule(strokeWidth=2).encode(y=alt.Y("low:Q"), y2=alt.Y2("high:Q"))
    guess = (
        alt.Chart(alt.InlineData(values=[{"guess": 1 / classes}]))
        .mark_rule(strokeDash=[4, 4], color="#78716c")
        .encode(y="guess:Q")
    )
    chart = (guess + bars + dots).properties(width=max(420, min(860, 230 * len(order))), height=300)
    chart = chart.configure_view(stroke=None).configure_axis(grid=False, labelFontSize=12, titleFontSize=12)
    specification: dict[str, Any] = chart.configure_legend(labelFontSize=13).to_dict(validate=False)
    return specification


def chart_svg(specification: dict[str, Any]) -> str:
    """The chart as SVG text."""
    return _svg(json.dumps(specification))


@lru_cache(maxsize=64)
def _svg(specification: str) -> str:
    # a page and a file show the same drawing, which takes a part of a second
    import vl_convert

    return str(vl_convert.vegalite_to_svg(specification))


def chart_png(specification: dict[str, Any]) -> bytes:
    """The chart as a PNG file, at twice the size of the SVG."""
    import vl_convert

    return bytes(vl_convert.vegalite_to_png(specification, scale=2))


def heat_map(
    cells: Sequence[tuple[str, str, float]],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    x: str | None = None,
    y: str | None = None,
) -> dict[str, Any]:
    """A Vega-Lite specification: parts of 1 as colours with the percentage in them; cells are (row, column, value)."""
    import altair as alt

    values = [{"row": r, "column": c, "value": v, "text": f"{100 * v:.0f}"} for r, c, v in cells]
    slanted = max(map(len, columns), default=0) > 7
    base = alt.Chart(alt.InlineData(values=values)).encode(
        x=alt.X(
            "column:N", sort=list(columns), title=x, axis=alt.Axis(labelAngle=-40 if slanted else 0, labelLimit=180)
        ),
        y=alt.Y("row:N", sort=list(rows), title=y, axis=alt.Axis(labelLimit=220)),
    )
    boxes = base.mark_rect().encode(
        color=alt.Color("value:Q", scale=alt.Scale(domain=[0, 1], range=["#fff7ed", "#c2410c"]), legend=None)
    )
    texts = base.mark_text(fontSize=12).encode(
        text="text:N", color=alt.condition("datum.value > 0.55", alt.value("#fff"), alt.value("#1c1917"))
    )
    size = {"width": max(160, 44 * len(columns)), "height": max(40, 34 * len(rows))}
    chart = (boxes + texts).properties(**size, title=title).configure_view(stroke=None)
    chart = chart.configure_axis(grid=False, domain=False, ticks=False, labelFontSize=12, titleFontSize=12)
    specification: dict[str, Any] = chart.configure_title(
        fontSize=13, fontWeight="normal", color="#57534e", anchor="start"
    ).to_dict(validate=False)
    return specification
