"""HTML for notebooks, read by a parser: what it says, and that it does nothing else."""

from __future__ import annotations

from html.parser import HTMLParser

ODD = """<script>alert("x")</script> & 'a' <img src=x onerror=y>"""


class Reader(HTMLParser):
    """The tags of a piece of HTML, its texts, and the sources of its images."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.images: list[str] = []
        self.attributes: set[str] = set()
        self.feed(str(html))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        self.images += [str(value) for name, value in attrs if name == "src"]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.texts)


def assert_harmless(html: str) -> Reader:
    """No script, no style sheet, no handler, nothing fetched."""
    read = Reader(html)
    assert set(read.tags) <= {"div", "span", "table", "tr", "th", "td", "img", "br"}
    assert read.attributes <= {"style", "src", "alt"}
    assert all(source.startswith("data:image/") for source in read.images)
    assert "url(" not in html
    return read
