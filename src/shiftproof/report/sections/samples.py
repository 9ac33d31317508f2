"""A few samples of every domain, as images."""

from __future__ import annotations

import base64

from shiftproof.report.section import SECTIONS, Card, Image, Images, Section

__all__ = ["Samples"]


@SECTIONS.register("samples")
class Samples(Section):
    """A few samples of every domain, as images."""

    title = "What the domains look like"
    order = 1300

    def applies(self) -> bool:
        """Whether there are contact sheets."""
        return bool(self.report.sheets)

    def cards(self) -> list[Card]:
        """The contact sheets side by side."""
        rows = ", ".join(self.report.classes[:4])
        return [
            Card(
                [
                    Images(
                        [
                            Image(
                                name,
                                f"{self.report.role_of(name)}; rows: {rows}",
                                base64.b64encode(path.read_bytes()).decode(),
                            )
                            for name, path in self.report.sheets.items()
                        ]
                    )
                ]
            )
        ]

    def to_json(self) -> dict[str, str]:
        """The file of every domain's sheet."""
        return {name: path.name for name, path in self.report.sheets.items()}
