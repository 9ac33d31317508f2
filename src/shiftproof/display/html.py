"""Pieces of HTML for notebooks: what is not HTML already is escaped, and styles are inline.

Notebooks and code hosts drop style sheets and scripts, so there are none. Colours are those of the page around, light
or dark; only badges, and pictures with a ground of their own, bring theirs. Nothing is loaded from anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markupsafe import Markup

__all__ = ["badge", "figure", "lines", "panel", "small", "table"]

_EDGE = "1px solid rgba(128,128,128,.4)"
_PANEL = f"border:{_EDGE};border-radius:6px;padding:8px 12px;margin:4px 0;max-width:900px;overflow-x:auto;"
_SMALL = "opacity:.75;font-size:85%;"
_BADGES = {"pass": "#15803d", "warn": "#a16207", "fail": "#b91c1c"}
_PART = Markup('<div style="margin:6px 0">{}</div>')


def panel(title: str, *parts: str) -> Markup:
    """A box with a title and parts below each other; empty parts are left out."""
    head = Markup('<div style="font-weight:600">{}</div>').format(title)
    body = Markup().join(_PART.format(part) for part in parts if part)
    return Markup('<div style="{}">{}{}</div>').format(_PANEL, head, body)


def table(head: Sequence[str], rows: Iterable[Sequence[str]], names: int = 1) -> Markup:
    """A table whose first columns, with `names`, are on the left, the others, which hold figures, on the right."""
    cells = [_row("th", head, names), *(_row("td", row, names) for row in rows)]
    return Markup('<table style="border-collapse:collapse">{}</table>').format(Markup().join(cells))


def _row(tag: str, cells: Sequence[str], names: int) -> Markup:
    form = Markup(f'<{tag} style="text-align:{{}};padding:2px 10px 2px 0;border-bottom:{_EDGE};white-space:nowrap">')
    shown = [
        form.format("left" if place < names else "right") + cell + Markup(f"</{tag}>")
        for place, cell in enumerate(cells)
    ]
    return Markup("<tr>{}</tr>").format(Markup().join(shown))


def lines(texts: Iterable[str]) -> Markup:
    """Sentences, one below the other."""
    return Markup().join(Markup('<div style="margin:2px 0">{}</div>').format(text) for text in texts)


def small(text: str) -> Markup:
    """A text in small print."""
    return Markup('<span style="{}">{}</span>').format(_SMALL, text)


def badge(level: str, text: str) -> Markup:
    """A sentence with its level, pass, warn or fail, in a colour in front of it."""
    look = f"background:{_BADGES[level]};color:#fff;border-radius:3px;padding:0 5px;font-size:80%"
    return Markup('<span style="{}">{}</span> {}').format(look, level, text)


def figure(source: str, caption: str = "", width: int | None = None) -> Markup:
    """An image from a data URI, with a sentence below it; `width` in pixels, or as wide as it is and fits."""
    form = Markup('<img src="{}" alt="{}" style="max-width:100%;{}">')
    image = form.format(source, caption, "" if width is None else f"width:{width}px")
    below = Markup("<br>{}").format(small(caption)) if caption else Markup()
    return Markup('<div style="margin:4px 0">{}{}</div>').format(image, below)
