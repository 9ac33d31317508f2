"""Drawing of charts as SVG: the same text in a page, where styles and a script join it, and in a file of its own.

Colours are attributes, which hold in every viewer, and classes, by which the page sets its own in light and dark. What
a mark shows is a title inside of it, so that a browser tells it without a script.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from shiftproof.display.axes import Axis
from shiftproof.display.marks import Band, Boxes, Dots, Line, Mark, Rule, Style, Whiskers

if TYPE_CHECKING:
    from shiftproof.display.chart import Chart, Key, Panel

__all__ = ["PALETTE", "draw_chart", "text_width"]

# after Okabe and Ito, "Color universal design" (2008), darker where they would be faint on white
PALETTE = ("#d55e00", "#0072b2", "#008a65", "#b4558b", "#b8860b", "#3d9ad6", "#5b3f99", "#44403c")
INK, SOFT, LINE = "#1c1917", "#57534e", "#e7e5e4"
_FONT = "Arial, Helvetica, Liberation Sans, sans-serif"
_SMALL, _ROW, _GAP = 12, 20, 28
_NARROW, _WIDE = frozenset("ijlt.,:;'|!f()[] "), frozenset("mwMW@%")
# corners of a dot of size 1
_OUTLINES: dict[str, tuple[tuple[float, float], ...]] = {
    "square": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
    "triangle": ((0, -1.2), (1.2, 1), (-1.2, 1)),
    "diamond": ((0, -1.4), (1.4, 0), (0, 1.4), (-1.4, 0)),
    "wedge": ((0, 1.2), (1.2, -1), (-1.2, -1)),
    "cross": (
        *((-0.4, -1.2), (0.4, -1.2), (0.4, -0.4), (1.2, -0.4), (1.2, 0.4), (0.4, 0.4)),
        *((0.4, 1.2), (-0.4, 1.2), (-0.4, 0.4), (-1.2, 0.4), (-1.2, -0.4), (-0.4, -0.4)),
    ),
}


def draw_chart(chart: Chart, background: str = "") -> str:
    """SVG text of a chart; `background` is a colour, or nothing."""
    boxes = [_Frame(panel) for panel in chart.panels]
    rows = [boxes[i : i + chart.columns] for i in range(0, len(boxes), chart.columns)]
    width = max([sum(one.width for one in row) + _GAP * (len(row) - 1) for row in rows] or [0])
    # a name or a title that is wider than its panel is not cut
    width = max([width, text_width(chart.title, 13), *(_key_width(key) for key in chart.keys)])
    top = 0.0
    parts: list[str] = []
    if chart.title:
        parts.append(_text(0, 14, chart.title, 13, "soft-text"))
        top += 24
    legend, high = _legend(chart.keys, width, top)
    parts += legend
    top += high
    for row in rows:
        left = 0.0
        for one in row:
            parts += one.draw(left, top)
            left += one.width + _GAP
        top += max(one.height for one in row) + 14
    size = f'width="{width:.0f}" height="{top:.0f}" viewBox="0 0 {width:.0f} {top:.0f}"'
    label = _escape(" ".join(part for part in (chart.title, chart.words) if part) or chart.name)
    paper = f'<rect width="100%" height="100%" fill="{background}"/>' if background else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{label}" font-family="{_FONT}" '
        f'fill="none">{paper}{"".join(parts)}</svg>'
    )


def text_width(text: str, size: float = _SMALL) -> float:
    """About how wide a text is, in pixels: enough to lay out a legend."""
    wide = sum(0.3 if c in _NARROW else 0.86 if c in _WIDE else 0.68 if c.isupper() else 0.56 for c in text)
    return size * wide


class _Frame:
    """A panel with room around it for ticks and titles, at a place of the drawing."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        names = [label for _, label in panel.x.ticks]
        room = panel.width / max(1, len(names))
        self._slanted = bool(names) and max(map(text_width, names)) > room * 0.98
        self._left = 10 + max([text_width(label) for _, label in panel.y.ticks] or [0.0])
        if self._slanted and names:
            self._left = max(self._left, 0.77 * text_width(names[0]) - room / 2)
        self._above = (20 if panel.title else 0) + (24 if panel.y.title else 6)
        below = 0.64 * max(map(text_width, names)) + 12 if self._slanted else 20
        self._below = (below if names else 4) + (20 if panel.x.title else 0)
        # half a label stands beyond the last tick
        self._right = 6 + (text_width(names[-1]) / 2 if names and not self._slanted else 0)
        self.width = max(self._left + panel.width + self._right, self._left + text_width(panel.title, 14))
        self.height = self._above + panel.height + self._below

    def draw(self, left: float, top: float) -> Iterator[str]:
        panel = self._panel
        if panel.title:
            yield _text(left + self._left, top + 12, panel.title, 13, "ink", weight="bold")
        self._x0, self._y0 = left + self._left, top + self._above
        yield from self._axis_y(panel.y)
        yield from self._axis_x(panel.x)
        for mark in panel.marks:
            drawn = "".join(self._mark(mark))
            if drawn:
                # as the keys of the legend are written, by which the page finds them
                names = json.dumps([_clean(name) for name in mark.of], ensure_ascii=False)
                of = f' data-of="{_escape(names)}"' if mark.of else ""
                yield f"<g{of}>{drawn}</g>"

    def _x(self, value: float) -> float:
        return self._x0 + self._panel.width * self._panel.x.place(value)

    def _y(self, value: float) -> float:
        return self._y0 + self._panel.height * (1 - self._panel.y.place(value))

    def _axis_y(self, axis: Axis) -> Iterator[str]:
        end = self._x0 + self._panel.width
        if axis.title:
            yield _text(self._x0 - self._left, self._y0 - 12, axis.title, _SMALL, "soft-text")
        for value, label in axis.ticks:
            y = self._y(value)
            if axis.grid:
                yield f'<path class="grid" stroke="{LINE}" d="M{_n(self._x0)},{_n(y)}H{_n(end)}"/>'
            yield _text(self._x0 - 6, y + 4, label, _SMALL, "soft-text", "end")

    def _axis_x(self, axis: Axis) -> Iterator[str]:
        bottom = self._y0 + self._panel.height
        yield f'<path class="axis" stroke="{SOFT}" d="M{_n(self._x0)},{_n(bottom)}h{_n(self._panel.width)}"/>'
        free = -1e9
        for value, label in axis.ticks:
            x, half = self._x(value), text_width(label) / 2
            yield f'<path class="axis" stroke="{SOFT}" d="M{_n(x)},{_n(bottom)}v4"/>'
            if self._slanted:
                yield _text(x + 3, bottom + 14, label, _SMALL, "soft-text", "end", turn=-40)
            elif x - half > free:
                # labels that would lie on each other are left out
                yield _text(x, bottom + 17, label, _SMALL, "soft-text", "middle")
                free = x + half + 4
        if axis.title:
            middle = self._x0 + self._panel.width / 2
            yield _text(
                middle, self._y0 + self._panel.height + self._below - 2, axis.title, _SMALL, "soft-text", "middle"
            )

    def _mark(self, mark: Mark) -> Iterator[str]:
        if isinstance(mark, Line):
            if mark.points:
                yield f'<path {_stroke(mark.style)} d="{_path(self._points(mark.points), mark.step)}"/>'
        elif isinstance(mark, Band):
            if mark.ranges:
                floor = self._points([(x, low) for x, low, _ in mark.ranges])
                roof = self._points([(x, high) for x, _, high in mark.ranges])
                back = {"before": "after", "after": "before"}.get(mark.step, "")
                outline = _path(roof, mark.step) + "L" + _path(floor[::-1], back)[1:]
                yield f'<path {_fill(mark.style)} fill-opacity="{mark.style.opacity}" d="{outline}Z"/>'
        elif isinstance(mark, Dots):
            hints = mark.hints or [""] * len(mark.points)
            for (x, y), hint in zip(self._points(mark.points), hints, strict=True):
                yield _dot(x, y, mark, hint)
        elif isinstance(mark, Whiskers):
            for x, low, high in mark.ranges:
                yield f'<path {_stroke(mark.style)} d="M{_n(self._x(x))},{_n(self._y(low))}V{_n(self._y(high))}"/>'
        elif isinstance(mark, Boxes):
            yield from self._boxes(mark)
        else:
            yield from self._rule(mark)

    def _points(self, points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
        return [(self._x(x), self._y(y)) for x, y in points]

    def _boxes(self, mark: Boxes) -> Iterator[str]:
        blank = [""] * len(mark.boxes)
        shades = mark.shades or [mark.style.opacity] * len(mark.boxes)
        for (x0, x1, y0, y1), hint, shade, text in zip(
            mark.boxes, mark.hints or blank, shades, mark.texts or blank, strict=True
        ):
            left, right = sorted((self._x(x0), self._x(x1)))
            top, bottom = sorted((self._y(y0), self._y(y1)))
            strong = 0.06 + 0.6 * shade if mark.shades else shade
            middle = (left + right) / 2, (top + bottom) / 2
            place = f'x="{_n(left)}" y="{_n(top)}" width="{_n(right - left)}" height="{_n(bottom - top)}"'
            size = f' data-box="{_n(right - left)} {_n(bottom - top)}"' if hint else ""
            title = f"<title>{_escape(hint)}</title>" if hint else ""
            at = f' data-at="{_n(middle[0])} {_n(middle[1])}"' if hint else ""
            yield f'<rect {place} {_fill(mark.style)} fill-opacity="{strong:.3f}"{at}{size}>{title}</rect>'
            if text:
                yield _text(middle[0], middle[1] + 4, text, _SMALL, "ink", "middle")

    def _rule(self, mark: Rule) -> Iterator[str]:
        axis = self._panel.x if mark.upright else self._panel.y
        if not min(axis.low, axis.high) <= mark.at <= max(axis.low, axis.high):
            return
        if mark.upright:
            x = self._x(mark.at)
            yield f'<path {_stroke(mark.style)} d="M{_n(x)},{_n(self._y0)}v{_n(self._panel.height)}"/>'
            if mark.label:
                # beside the line, on the side where there is room
                fits = x + 4 + text_width(mark.label) < self._x0 + self._panel.width
                yield _text(
                    x + (4 if fits else -4), self._y0 + 11, mark.label, _SMALL, "soft-text", "start" if fits else "end"
                )
        else:
            y = self._y(mark.at)
            yield f'<path {_stroke(mark.style)} d="M{_n(self._x0)},{_n(y)}h{_n(self._panel.width)}"/>'
            if mark.label:
                yield _text(self._x0 + self._panel.width, y - 4, mark.label, _SMALL, "soft-text", "end")


def _legend(keys: Iterable[Key], width: float, top: float) -> tuple[list[str], float]:
    """Entries one after the other, in as many rows as they need; and how high that is."""
    parts, x, y = list[str](), 0.0, top
    for key in keys:
        wide = _key_width(key)
        if x and x + wide > width:
            x, y = 0.0, y + _ROW
        sample = ""
        if key.shows in ("line", "both"):
            sample += f'<path {_stroke(key.style)} d="M{_n(x)},{_n(y + 9)}h22"/>'
        if key.shows in ("dot", "both"):
            sample += _dot(x + 11, y + 9, Dots([], key.style), "")
        # an area that can be hit, without a gap between sign and name
        hit = f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(wide)}" height="18" fill="transparent"/>'
        name = _text(x + 28, y + 13, key.name, 13, "ink")
        parts.append(f'<g class="key" data-key="{_escape(key.name)}">{hit}{sample}{name}</g>')
        x += wide + 14
    return parts, (y - top + _ROW + 8 if parts else 0.0)


def _key_width(key: Key) -> float:
    return 34 + text_width(key.name, 13)


def _path(points: Sequence[tuple[float, float]], step: str) -> str:
    """The d of a path: level steps are drawn as they are, and points on a level line left out."""
    x, y = points[0]
    path = [f"M{_n(x)},{_n(y)}"]
    for i in range(1, len(points)):
        x, y = points[i]
        if not step:
            path.append(f"L{_n(x)},{_n(y)}")
        elif _n(y) != _n(points[i - 1][1]):
            path.append(f"V{_n(y)}H{_n(x)}" if step == "before" else f"H{_n(x)}V{_n(y)}")
        elif i == len(points) - 1 or _n(points[i + 1][1]) != _n(y):
            path.append(f"H{_n(x)}")
    return "".join(path)


def _dot(x: float, y: float, mark: Dots, hint: str) -> str:
    r, shape = mark.size, mark.style.shape
    title = f"<title>{_escape(hint)}</title>" if hint else ""
    at = f' data-at="{_n(x)} {_n(y)}"' if hint else ""
    hidden = ' opacity="0"' if mark.hidden else f' fill-opacity="{mark.style.opacity}"' * (mark.style.opacity < 1)
    look = f"{_fill(mark.style)}{hidden}{at}"
    if shape == "circle" or mark.hidden:
        return f'<circle cx="{_n(x)}" cy="{_n(y)}" r="{_n(r)}" {look}>{title}</circle>'
    corners = "L".join(f"{_n(x + r * a)},{_n(y + r * b)}" for a, b in _OUTLINES[shape])
    return f'<path d="M{corners}Z" {look}>{title}</path>'


def _stroke(style: Style) -> str:
    colour, name = (SOFT, "soft-line") if style.colour is None else (_colour(style), f"s{style.colour % len(PALETTE)}")
    dash = f' stroke-dasharray="{" ".join(f"{one:g}" for one in style.dash)}"' if style.dash else ""
    faint = f' stroke-opacity="{style.opacity}"' if style.opacity < 1 else ""
    return f'class="{name}" stroke="{colour}" stroke-width="{style.width:g}"{dash}{faint}'


def _fill(style: Style) -> str:
    if style.colour is None:
        return f'class="soft-area" fill="{LINE}"'
    return f'class="f{style.colour % len(PALETTE)}" fill="{_colour(style)}"'


def _colour(style: Style) -> str:
    return PALETTE[(style.colour or 0) % len(PALETTE)]


def _text(
    x: float, y: float, text: str, size: float, kind: str, anchor: str = "start", *, weight: str = "", turn: float = 0
) -> str:
    colour = INK if kind == "ink" else SOFT
    end = f' text-anchor="{anchor}"' * (anchor != "start")
    bold = f' font-weight="{weight}"' if weight else ""
    place = f'transform="translate({_n(x)},{_n(y)}) rotate({turn:g})"' if turn else f'x="{_n(x)}" y="{_n(y)}"'
    return f'<text {place} class="{kind}" fill="{colour}" font-size="{size:g}"{end}{bold}>{_escape(text)}</text>'


def _clean(text: str) -> str:
    """Text without control characters, which XML does not know."""
    return "".join(c if c.isprintable() or c == " " else "�" for c in text)


def _escape(text: str) -> str:
    return escape(_clean(text))


def _n(value: float) -> str:
    """A coordinate, to a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0")
