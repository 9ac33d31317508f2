"""Charts: panels with axes and marks, as values; `draw` makes one drawing for page, files and notebooks."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal

from shiftproof.display.axes import Axis, names_axis
from shiftproof.display.draw import draw_chart
from shiftproof.display.html import figure
from shiftproof.display.marks import Boxes, Mark, Style
from shiftproof.errors import UsageError
from shiftproof.execution import as_path, write_atomically

__all__ = ["HEIGHT", "WIDTH", "Chart", "Key", "Panel", "heat_map", "style_of", "styles_by_role"]

WIDTH, HEIGHT = 880, 300
_SHAPES = ("circle", "square", "triangle", "diamond", "cross", "wedge")
_UNSEEN_DASHES: tuple[tuple[float, ...], ...] = ((), (8, 3, 2, 3), (1, 3), (14, 4), (4, 2, 1, 2, 1, 2))
SOURCE_DASH = (5.0, 4.0)


@dataclass(frozen=True)
class Key:
    """An entry of the legend; on the page it switches on and off the marks that are `of` its name."""

    name: str
    style: Style
    shows: Literal["line", "dot", "both"] = "line"


@dataclass(frozen=True)
class Panel:
    """One pair of axes with marks, drawn in their order; sizes are in pixels."""

    marks: Sequence[Mark]
    x: Axis
    y: Axis
    title: str = ""
    width: int = WIDTH
    height: int = HEIGHT


@dataclass(frozen=True, repr=False)
class Chart:
    """Panels side by side under the name of its files, with a legend, a title and a sentence that stands below it."""

    kind: ClassVar[str] = "chart"

    name: str
    panels: Sequence[Panel]
    keys: Sequence[Key] = ()
    title: str = ""
    words: str = ""
    columns: int = 1

    def __repr__(self) -> str:
        return f"Chart({self.name!r}{': ' if self.words else ''}{self.words})"

    def svg(self) -> str:
        """SVG text, which is the same wherever it is drawn."""
        return self._svg

    @cached_property
    def _svg(self) -> str:
        return draw_chart(self)

    def png(self) -> bytes:
        """A PNG file, at twice the size of the SVG, on white."""
        import vl_convert

        return bytes(vl_convert.svg_to_png(draw_chart(self, background="#fff"), scale=2))

    def save(self, path: Path | str) -> Path:
        """Write it as SVG or PNG, as the ending of the name says; returns where."""
        where = as_path("the file of the chart", path)
        forms: dict[str, Callable[[], bytes]] = {".svg": lambda: self.svg().encode(), ".png": self.png}
        if where.suffix.lower() not in forms:
            raise UsageError(f"the file of the chart is {where.name!r}; its name should end in .svg or .png")
        write_atomically(where, forms[where.suffix.lower()]())
        return where

    def _repr_svg_(self) -> str:
        return draw_chart(self, background="#fff")

    def _repr_html_(self) -> str:
        # as an image on white: a notebook, light or dark, has no colours for the classes of a drawing
        drawing = base64.b64encode(self._repr_svg_().encode()).decode()
        return str(figure(f"data:image/svg+xml;base64,{drawing}", self.words))


def style_of(names: Iterable[str]) -> dict[str, Style]:
    """A colour and a shape of dots for each name, in their order; told apart with every kind of colour vision."""
    return {name: Style(place, shape=_SHAPES[place % len(_SHAPES)]) for place, name in enumerate(names)}


def styles_by_role(unseen: Sequence[str], sources: Sequence[str]) -> dict[str, Style]:
    """Colours, dashes and shapes for lines of several domains, which can be told apart in black and white, too.

    Sources share a dash, the unseen domains have others.
    """
    names = [*unseen, *sources]
    dashes = [_UNSEEN_DASHES[place % len(_UNSEEN_DASHES)] for place in range(len(unseen))]
    dashes += [SOURCE_DASH] * len(sources)
    return {
        name: Style(place, dash, _SHAPES[place % len(_SHAPES)])
        for place, (name, dash) in enumerate(zip(names, dashes, strict=True))
    }


def heat_map(
    name: str,
    cells: Iterable[tuple[str, str, float]],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    x: str = "",
) -> Chart:
    """Shares as colours with the percentage in them; cells are (row, column, share)."""
    places = [(rows.index(row), columns.index(column), share, f"{row}, {column}") for row, column, share in cells]
    boxes = Boxes(
        [(column - 0.5, column + 0.5, row - 0.5, row + 0.5) for row, column, _, _ in places],
        Style(0),
        hints=[f"{what}: {share:.1%}" for _, _, share, what in places],
        shades=[share for _, _, share, _ in places],
        texts=[f"{100 * share:.0f}" for _, _, share, _ in places],
    )
    width, height = max(160, 48 * len(columns)), max(40, 34 * len(rows))
    across, down = names_axis(columns, x), names_axis(rows, turned=True)
    return Chart(name, [Panel([boxes], across, down, width=width, height=height)], title=title)
