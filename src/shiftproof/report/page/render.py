"""One HTML page that needs nothing else: styles, script and drawings are in it, and nothing is fetched."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

if TYPE_CHECKING:
    from shiftproof.report.report import Report

__all__ = ["render_page"]

STYLES, SCRIPTS = ("style.css", "gallery.css"), ("page.js", "gallery.js")
"""Files of this folder that are put into the page, in this order."""


def render_page(report: Report) -> str:
    """The report as one HTML page."""
    # some sections are in files alone
    shown = [(name, section.title, cards) for name, section in report.sections.items() if (cards := section.cards())]
    page: str = _template().render(
        report=report,
        sections=shown,
        svg=lambda chart: Markup(chart.svg()),
        style=_text(STYLES),
        script=_text(SCRIPTS),
    )
    return page


@cache
def _template() -> Any:
    """The page's template, which takes a part of a second to compile."""
    environment = Environment(
        loader=PackageLoader("shiftproof.report.page", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    return environment.get_template("page.html.j2")


@cache
def _text(names: tuple[str, ...]) -> Markup:
    """Files of ours, which are put into the page as they are."""
    folder = files("shiftproof.report.page")
    return Markup("\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in names))
