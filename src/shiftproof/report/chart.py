"""Charts of a report: size, fonts and colours set up once, written as SVG, PNG and interactive HTML."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import cycle, islice
from typing import Any, ClassVar

__all__ = [
    "Chart",
    "by_colour",
    "by_domain",
    "by_role",
    "heat_map",
    "intervals",
    "layer",
    "make_chart",
    "numbers_axis",
    "share_axis",
]

Json = dict[str, Any]

WIDTH, HEIGHT = 780, 300
INK, SOFT, LINE = "#1c1917", "#57534e", "#e7e5e4"
PALETTE = ["#c2410c", "#1d4ed8", "#15803d", "#7e22ce", "#a16207", "#0e7490", "#be123c", "#4d7c0f"]
# of Okabe and Ito, "Color universal design" (2008): told apart with every kind of colour vision
_SAFE = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"]
_SHAPES = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down"]
_UNSEEN_DASHES = [[1, 0], [8, 3, 2, 3], [1, 3], [14, 4], [4, 2, 1, 2, 1, 2]]
_SOURCE_DASH = [5, 4]
_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
_AXIS = {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "labelColor": SOFT, "titleColor": SOFT}
_CONFIG = {
    # drawings are laid out with the widths of this font; in a wider one, legends would overlap
    "font": "Arial, Helvetica, Liberation Sans, sans-serif",
    "view": {"stroke": None},
    "axis": {**_AXIS, "grid": False, "domainColor": "#a8a29e", "tickColor": "#a8a29e", "titlePadding": 8},
    "legend": {"title": None, "orient": "top", "labelLimit": 0, "columns": 4, "labelFontSize": 13, "labelColor": INK},
    "title": {"fontSize": 13, "fontWeight": "normal", "color": SOFT, "anchor": "start"},
    "range": {"category": PALETTE},
    "mark": {"tooltip": True},
}


@dataclass(frozen=True, eq=False)
class Chart:
    """A Vega-Lite specification under the name of its files, and a sentence that stands below it."""

    kind: ClassVar[str] = "chart"

    name: str
    specification: Json
    words: str = ""

    def svg(self) -> str:
        """SVG text."""
        return _svg(json.dumps(self.specification))

    def png(self) -> bytes:
        """A PNG file, at twice the size of the SVG."""
        import vl_convert

        return bytes(vl_convert.vegalite_to_png(self.specification, scale=2))

    def html(self) -> str:
        """A page of its own that opens offline, with the values under the pointer."""
        import vl_convert

        return str(vl_convert.vegalite_to_html(self.specification, bundle=True))


@lru_cache(maxsize=64)
def _svg(specification: str) -> str:
    # a page and a file show the same drawing, which takes a part of a second
    import vl_convert

    return str(vl_convert.vegalite_to_svg(specification))


def make_chart(
    name: str, layers: Sequence[Json], *, title: str = "", words: str = "", width: int = WIDTH, height: int = HEIGHT
) -> Chart:
    """A chart of layers, one drawn over the other."""
    specification = {"$schema": _SCHEMA, "config": _CONFIG, "width": width, "height": height, "layer": list(layers)}
    return Chart(name, specification | ({"title": title} if title else {}), words)


def layer(values: Iterable[Json], mark: str | Json, **encoding: Any) -> Json:
    """Values drawn with one mark: `layer(values, "circle", x=..., y=..., color=...)`."""
    return {"data": {"values": list(values)}, "mark": mark, "encoding": encoding}


def numbers_axis(field: str, title: str) -> Json:
    """A horizontal axis of numbers."""
    return {"field": field, "type": "quantitative", "title": title}


def share_axis(field: str, title: str) -> Json:
    """A vertical axis from 0 to 100 %, with faint lines across."""
    axis = {"format": "%", "values": [0, 0.25, 0.5, 0.75, 1], "grid": True, "gridColor": LINE}
    return {"field": field, "type": "quantitative", "title": title, "scale": {"domain": [0, 1]}, "axis": axis}


def by_colour(field: str, names: Sequence[str]) -> Json:
    """A colour for each name, in this order, and the legend."""
    return {"field": field, "type": "nominal", "sort": list(names), "scale": {"domain": list(names)}}


def by_role(field: str, unseen: Sequence[str], sources: Sequence[str]) -> tuple[Json, Json, Json]:
    """Colours, dashes and shapes of dots for lines of several domains, which can be told apart in black and white, too.

    Sources share a dash, the unseen domains have others. The legend shows the dots.
    """
    names = [*unseen, *sources]
    dashes = [*islice(cycle(_UNSEEN_DASHES), len(unseen)), *([_SOURCE_DASH] * len(sources))]
    colours, shapes = (list(islice(cycle(some), len(names))) for some in (_SAFE, _SHAPES))
    # an outline of the dots in the legend would be frayed by the dashes
    legend = {"symbolOpacity": 1, "symbolStrokeWidth": 0}
    colour, dash, shape = (
        {"field": field, "type": "nominal", "scale": {"domain": names, "range": values}, "legend": legend}
        for values in (colours, dashes, shapes)
    )
    return colour, dash, shape


def by_domain(domains: Sequence[str], models: Sequence[str]) -> Json:
    """Domains side by side in this order, in each of them the models, with a colour for each."""
    axis = {"labelAngle": 0, "labelPadding": 8, "labelLimit": 180}
    return {
        "x": {"field": "domain", "type": "nominal", "sort": list(domains), "title": None, "axis": axis},
        "xOffset": {"field": "model", "type": "nominal", "sort": list(models)},
        "color": by_colour("model", models),
    }


def intervals(values: Iterable[Json], stroke: float = 2, opacity: float = 1, **encoding: Any) -> Json:
    """Upright bars from `low` to `high`."""
    limits = {"y": {"field": "low", "type": "quantitative"}, "y2": {"field": "high"}}
    return layer(values, {"type": "rule", "strokeWidth": stroke, "opacity": opacity}, **encoding, **limits)


def heat_map(
    name: str,
    cells: Iterable[tuple[str, str, float]],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    x: str | None = None,
) -> Chart:
    """Shares as colours with the percentage in them; cells are (row, column, share)."""
    values = [{"row": row, "column": column, "value": v, "text": f"{100 * v:.0f}"} for row, column, v in cells]
    plain = {"domain": False, "ticks": False, "labelPadding": 6}
    angle = -40 if max(map(len, columns), default=0) > 7 else 0
    places = {
        "x": {
            "field": "column",
            "type": "nominal",
            "sort": list(columns),
            "title": x,
            "axis": {**plain, "labelAngle": angle, "labelLimit": 180},
        },
        "y": {
            "field": "row",
            "type": "nominal",
            "sort": list(rows),
            "title": None,
            "axis": {**plain, "labelLimit": 220},
        },
    }
    shades = {"domain": [0, 1], "range": ["#fff7ed", PALETTE[0]]}
    shade = {"field": "value", "type": "quantitative", "scale": shades, "legend": None}
    dark = {"test": "datum.value > 0.55", "value": "#fff"}
    boxes = layer(values, "rect", **places, color=shade)
    texts = layer(
        values,
        {"type": "text", "fontSize": 12},
        **places,
        text={"field": "text", "type": "nominal"},
        color={"condition": dark, "value": INK},
    )
    width, height = max(160, 48 * len(columns)), max(40, 34 * len(rows))
    return make_chart(name, [boxes, texts], title=title, width=width, height=height)
