"""Tables of the page fit a usual window; cells wrap before a table scrolls. Asked of a browser, where there is one."""

import html
import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shiftproof.report.page import render_page
from shiftproof.report.tables import Cell, Heading, Row, Table, percent_cell
from shiftproof.types import Estimate

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
WIDTHS = (
    "<script>onload = () => { const seen = [...document.querySelectorAll('.card')].map(one => "
    "one.clientWidth + ' ' + one.scrollWidth); document.title = 'widths: ' + seen.join(', ') }</script></body>"
)


def page_of(columns: int) -> str:
    """A page with one table: long words in heads, a figure with its interval in every cell."""
    names = ["clinic-north", "corrupted", "dropped-punctuation", "gaussian-noise", "e=0.1"]
    heads = [Heading("right, of all samples"), *(Heading(names[i % 5], ("n = 1,000",)) for i in range(columns - 1))]
    what = Cell("certified within 2 edits, word-deletion 0.8", ("guaranteed, smoothed classifier",))
    figures = [percent_cell(Estimate(0.5, 0.412, 0.588, 100))] * (columns - 1)
    table = Table("wide", heads, [Row([what, *figures], group="a model")])
    card = SimpleNamespace(heading="", lead=[], pictures=False, blocks=[table], words=[])
    section: Any = SimpleNamespace(title="Tables", cards=lambda: [card])
    report: Any = SimpleNamespace(title="Wide", about="", sections={"wide": section})
    return render_page(report)


@pytest.mark.skipif(BROWSER is None, reason="there is no browser")
@pytest.mark.parametrize("columns", [5, 8, 11, 12])
def test_a_table_fits_a_window_of_1200_pixels(columns: int, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(page_of(columns).replace("</body>", WIDTHS))
    asked = [str(BROWSER), "--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1200,900", "--dump-dom"]
    asked += ["--virtual-time-budget=2000", f"--user-data-dir={tmp_path / 'profile'}"]
    shown = subprocess.run([*asked, f"file://{tmp_path / 'page.html'}"], capture_output=True, text=True, timeout=120)
    found = re.search(r"<title>widths: (\d+) (\d+)</title>", html.unescape(shown.stdout))
    assert found is not None, shown.stderr[-500:]
    assert int(found[2]) <= int(found[1])


@pytest.mark.parametrize(("columns", "classes"), [(9, ""), (10, ' class="wide"'), (15, ' class="wide widest"')])
def test_tables_with_many_columns_are_set_smaller(columns: int, classes: str) -> None:
    assert f"<table{classes}>" in page_of(columns)
