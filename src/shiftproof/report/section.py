"""The contract of a report section, what it may put on the page, and the catalogue of sections.

A section is one class in one file of `sections/`, or in a package of your own with an entry point in the group
`shiftproof.report_sections`::

    @SECTIONS.register("confusion")
    class Confusion(Section):
        \"\"\"How often each class is taken for each other one.\"\"\"

        title = "What is taken for what"
        order = 450

        def applies(self) -> bool:
            return len(self.report.evidence.where(probe="clean")) > 0

        def tables(self) -> list[Table]:
            return [Table("confusion", [Heading("label"), Heading("taken for")], [Row([Cell("cat"), Cell("dog")])])]
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from shiftproof.catalogue import Catalogue
from shiftproof.display.chart import Chart
from shiftproof.report.gallery.block import Gallery
from shiftproof.report.tables import Table

if TYPE_CHECKING:
    from shiftproof.report.report import Report

__all__ = ["SECTIONS", "Badge", "Badges", "Block", "Card", "Facts", "Image", "Images", "Section"]


@dataclass(frozen=True)
class Badge:
    """A sentence with a word in a colour in front of it, and what is to be said of it below; `level` is pass, warn or
    fail.
    """

    level: str
    word: str
    text: str
    below: str = ""


@dataclass(frozen=True)
class Badges:
    """Sentences with badges, one below the other."""

    kind: ClassVar[str] = "badges"

    badges: Sequence[Badge]


@dataclass(frozen=True)
class Image:
    """A picture of pixels, as base64 of a PNG file, with what is written below it; `alt` says what it shows, if not
    samples of what it is named after.
    """

    name: str
    caption: str
    png: str
    alt: str = ""


@dataclass(frozen=True)
class Images:
    """Pictures side by side; those that are `wide` one below the other."""

    kind: ClassVar[str] = "images"

    images: Sequence[Image]
    wide: bool = False


@dataclass(frozen=True)
class Facts:
    """Names with values, one below the other."""

    kind: ClassVar[str] = "facts"

    facts: Mapping[str, str]


Block = Table | Chart | Badges | Images | Gallery | Facts


@dataclass(frozen=True)
class Card:
    """A box on the page: a heading, sentences in large print, blocks, and sentences in small print below them.

    One that is `folded` shows its heading until somebody opens it; on paper it is open.
    """

    blocks: Sequence[Block] = ()
    words: Sequence[str] = ()
    heading: str = ""
    lead: Sequence[str] = ()
    folded: bool = False

    @property
    def pictures(self) -> bool:
        """Whether it holds charts only, which then stand side by side."""
        return bool(self.blocks) and all(block.kind == "chart" for block in self.blocks)


class Section(ABC):
    """A chapter of a report. It is made from the report's evidence and says when it applies.

    Its tables become files (CSV, Markdown, LaTeX) under `tables/`, its charts (SVG, PNG) under
    `figures/`, what `to_json` gives a key of `report.json`, and its cards a part of the page.
    """

    title: ClassVar[str]
    """The heading on the page."""
    order: ClassVar[int] = 950
    """Where on the page it stands: sections are sorted by it. Those of shiftproof have multiples of a hundred."""

    def __init__(self, report: Report) -> None:
        self.report = report

    @abstractmethod
    def applies(self) -> bool:
        """Whether the report has anything for this section."""

    def words(self) -> list[str]:
        """Sentences below the tables and charts: what the numbers are, and what they are not."""
        return []

    def tables(self) -> list[Table]:
        """The tables, each under the name of its files."""
        return []

    def charts(self) -> list[Chart]:
        """The charts, each under the name of its files."""
        return []

    def cards(self) -> list[Card]:
        """What the page shows: all tables and charts in one card, unless a section says otherwise."""
        return [Card([*self.tables(), *self.charts()], self.words())]

    def to_json(self) -> Any:
        """The section's numbers, in a form that fits into JSON; unless told, the records of its tables by name."""
        found: dict[str, list[dict[str, Any]]] = {}
        for table in self.tables():
            records = table.records
            found.setdefault(table.name, []).extend(
                dict(zip(records.columns, row, strict=True)) for row in records.rows
            )
        return found


SECTIONS: Catalogue[Section] = Catalogue(
    "report section", "shiftproof.report.sections", group="shiftproof.report_sections", base=Section
)
