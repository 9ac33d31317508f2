"""Tables of the page fit a usual window; cells wrap before a table scrolls. Asked of a browser, where there is one."""

import html
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shiftproof.report.page import render_page
from shiftproof.report.tables import Cell, Heading, Row, Table, percent_cell
from shiftproof.types import Estimate

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
WIDTHS = (
    "<script>onload = () => { const seen = [...document.querySelectorAll('.scroll')].map(one => "
    "one.clientWidth + ' ' + one.scrollWidth); document.title = 'widths: ' + seen.join(', ') }</script></body>"
)


HEIGHTS = WIDTHS.replace(
    "querySelectorAll('.scroll')].map(one => one.clientWidth + ' ' + one.scrollWidth)",
    "querySelectorAll('td:not(:first-child) small')].map(one => one.clientHeight)",
)


LONG_NAMES = ("clinic-north", "corrupted", "dropped-punctuation", "gaussian-noise", "e=0.1")


def page_of(columns: int, about: str = "guaranteed, smoothed classifier", names: Sequence[str] = LONG_NAMES) -> str:
    """A page with one table: a figure with its interval in every cell."""
    heads = [
        Heading("right, of all samples"),
        *(Heading(names[i % len(names)], ("n = 1,000",)) for i in range(columns - 1)),
    ]
    what = Cell("certified within 2 edits, word-deletion 0.8", (about,))
    figures = [percent_cell(Estimate(0.5, 0.412, 0.588, 100))] * (columns - 1)
    table = Table("wide", heads, [Row([what, *figures], group="a model")])
    card = SimpleNamespace(heading="", lead=[], pictures=False, blocks=[table], words=[], folded=False)
    section: Any = SimpleNamespace(title="Tables", cards=lambda: [card])
    report: Any = SimpleNamespace(title="Wide", about="", sections={"wide": section})
    return render_page(report)


@pytest.mark.skipif(BROWSER is None, reason="there is no browser")
@pytest.mark.parametrize("columns", [5, 8, 11, 12])
def test_a_table_fits_a_window_of_1200_pixels(columns: int, tmp_path: Path) -> None:
    found = re.search(r"widths: (\d+) (\d+)$", title_of(page_of(columns).replace("</body>", WIDTHS), tmp_path))
    assert found is not None
    assert int(found[2]) <= int(found[1])


@pytest.mark.skipif(BROWSER is None, reason="there is no browser")
def test_long_words_about_a_model_do_not_break_intervals(tmp_path: Path) -> None:
    about = "embeddings moved by three steps of 0.0005 within a linf ball of 0.001, and by three more within another"
    title = title_of(page_of(10, about, ["dvd", "gap", "kitchen"]).replace("</body>", HEIGHTS), tmp_path)
    heights = [int(one) for one in title.removeprefix("widths: ").split(", ")]
    assert len(heights) == 9
    assert max(heights) < 25


def title_of(page: str, folder: Path) -> str:
    """The title that a page gives itself in a window of 1200 pixels."""
    (folder / "page.html").write_text(page)
    asked = [str(BROWSER), "--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1200,900", "--dump-dom"]
    asked += ["--virtual-time-budget=2000", f"--user-data-dir={folder / 'profile'}"]
    shown = subprocess.run([*asked, f"file://{folder / 'page.html'}"], capture_output=True, text=True, timeout=120)
    found = re.search(r"<title>(.*)</title>", html.unescape(shown.stdout))
    assert found is not None, shown.stderr[-500:]
    return found[1]


@pytest.mark.parametrize(("columns", "classes"), [(9, ""), (10, ' class="wide"'), (15, ' class="wide widest"')])
def test_tables_with_many_columns_are_set_smaller(columns: int, classes: str) -> None:
    assert f"<table{classes}>" in page_of(columns)
