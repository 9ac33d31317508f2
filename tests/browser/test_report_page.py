"""The report in a browser: sorting, legends, hints, dark, paper, phones, and without a script.

`make browser-test` installs what these tests need; elsewhere they are skipped, and say so.
"""

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shiftproof.evidence import Evidence, Measurement
from shiftproof.report import Report
from shiftproof.report.page import render_page
from tests.measured import N, attacked, certified, rows
from tests.report.test_sections import report_of

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium; tests are skipped, and say so, where it or playwright is missing."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make browser-test")
    if BROWSER is None:
        pytest.skip("there is no browser: make browser-test")
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield started
        started.close()


class Tab:
    """A page that is open, with all that it complained about and asked for."""

    def __init__(self, browser: Any, path: Path, **options: Any) -> None:
        self._context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **options})
        self.page = self._context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())

    def close(self) -> None:
        self._context.close()


@pytest.fixture
def open_tab(browser: Any) -> Iterator[Any]:
    """Opens a file in a tab of its own; whatever a test does, nothing is complained about and nothing is fetched."""
    tabs: list[Tab] = []

    def opened(path: Path, **options: Any) -> Tab:
        tabs.append(Tab(browser, path, **options))
        return tabs[-1]

    yield opened
    for tab in tabs:
        assert tab.complaints == []
        assert [url for url in tab.requests if not url.startswith(("file:", "data:"))] == []
        tab.close()


HOSTILE = "<script>document.title='owned'</script> & <b>co</b>"
MODELS = {HOSTILE: 20, "plain": 0}
DOMAINS = ("photo", "cartoon", "sketch")


def evidence() -> Evidence:
    """Two models on three domains: clean, attacked, corrupted and certified."""
    parts = []
    for model, better in MODELS.items():
        for place, domain in enumerate(DOMAINS):
            right = 70 + better - 10 * place
            some = [
                rows(domain, "clean", right),
                attacked(domain, right - 20, 0.25),
                attacked(domain, right - 40, 0.5),
                rows(domain, "corrupt", right - 5, corruption="fog", severity=3, title="fog"),
                certified(domain, right - 30, [0.6 * i / N for i in range(N)]),
            ]
            parts += [Measurement({**one.facts, "model": model}, one.table) for part in some for one in part]
    return Evidence(parts)


@pytest.fixture(scope="module")
def report() -> Report:
    labels = {domain: {"cat": N, "dog": 0} for domain in DOMAINS}
    made = report_of(evidence(), sources=("photo", "cartoon"), targets=("sketch",), labels=labels)
    return replace(made, title=f"Report {HOSTILE}", about="What <i>was</i> tested.")


@pytest.fixture(scope="module")
def path(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("page") / "report.html"
    where.write_text(render_page(report))
    return where


def first_cells(page: Any) -> list[str]:
    cells: list[str] = page.locator("#overview tbody tr td:first-child b").all_inner_texts()
    return cells


def test_a_click_on_a_heading_sorts_and_another_turns_round(open_tab: Any, path: Path) -> None:
    page = open_tab(path).page
    clean = page.locator("#overview th", has_text="clean")
    assert first_cells(page) == [HOSTILE, "plain"]
    clean.get_by_role("button").click()
    assert clean.get_attribute("aria-sort") == "descending"
    assert first_cells(page) == [HOSTILE, "plain"]
    clean.get_by_role("button").click()
    assert clean.get_attribute("aria-sort") == "ascending"
    assert first_cells(page) == ["plain", HOSTILE]
    figures = [
        float(text.rstrip("%")) for text in page.locator("#overview tbody tr td:nth-child(2) b").all_inner_texts()
    ]
    assert figures == sorted(figures)
    # names sort from A, and by the keyboard
    page.locator("#overview th").first.get_by_role("button").focus()
    page.keyboard.press("Enter")
    assert page.locator("#overview th").first.get_attribute("aria-sort") == "ascending"


def visible(page: Any, model: str) -> int:
    """How many drawn groups of a model are shown in the chart of curves."""
    script = """([name]) => [...document.querySelectorAll('#curves svg [data-of]')].filter(
        one => JSON.parse(one.dataset.of).includes(name) && getComputedStyle(one).display !== 'none').length"""
    return int(page.evaluate(script, [model]))


def test_the_legend_hides_and_shows_a_model_by_pointer_and_by_keyboard(open_tab: Any, path: Path) -> None:
    page = open_tab(path).page
    key = page.locator("#curves svg .key", has_text="plain").first
    before = {model: visible(page, model) for model in MODELS}
    assert all(before.values())
    key.click()
    assert key.get_attribute("aria-pressed") == "false"
    assert visible(page, "plain") == 0
    assert visible(page, HOSTILE) == before[HOSTILE]
    key.focus()
    page.keyboard.press("Enter")
    assert {model: visible(page, model) for model in MODELS} == before


def test_a_kind_of_line_can_be_hidden_too(open_tab: Any, path: Path) -> None:
    page = open_tab(path).page
    page.locator("#curves svg .key", has_text="attacked").first.click()
    shown = page.evaluate(
        "[...document.querySelectorAll('#curves svg [data-of]')]"
        ".filter(one => getComputedStyle(one).display !== 'none').flatMap(one => JSON.parse(one.dataset.of))"
    )
    assert any(name.startswith("certified") for name in shown)
    assert not any(name.startswith("attacked") for name in shown)


def test_the_value_nearest_to_the_pointer_is_shown(open_tab: Any, path: Path) -> None:
    page = open_tab(path).page
    dot = page.locator("#curves svg [data-at][aria-label*='plain on sketch, attack, l2 0.5']").first
    dot.scroll_into_view_if_needed()
    box = dot.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    hint = page.locator(".hint")
    assert hint.is_visible()
    # sketch is the first panel: 50 right, 40 of them broken
    assert re.match(r"plain on sketch, attack, l2 0\.5: 10\.0% \(4\.9% to 17\.6%\)", hint.inner_text())
    page.mouse.move(2, 2)
    assert not hint.is_visible()


def test_what_is_folded_opens_by_a_click_and_by_a_link(open_tab: Any, path: Path) -> None:
    page = open_tab(path).page
    card = page.locator("#measures details").first
    assert not card.locator("table").is_visible()
    card.locator("summary").click()
    assert card.locator("table").is_visible()
    page.locator("nav summary").click()
    page.locator("nav a", has_text="What is guaranteed").click()
    assert page.url.endswith("#certified")


def colour_of(page: Any, selector: str, name: str) -> tuple[int, ...]:
    text = page.evaluate(f"getComputedStyle(document.querySelector('{selector}')).{name}")
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def luminance(colour: tuple[int, ...]) -> float:
    parts = [c / 255 for c in colour]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: tuple[int, ...], other: tuple[int, ...]) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_lines_can_be_read_in_light_and_dark(open_tab: Any, path: Path, scheme: str) -> None:
    page = open_tab(path, color_scheme=scheme).page
    paper = colour_of(page, ".card", "backgroundColor")
    assert (luminance(paper) < 0.1) == (scheme == "dark")
    # as WCAG 2 asks: 4.5 for text, 3 for graphics
    assert contrast(colour_of(page, "td b", "color"), paper) > 7
    assert contrast(colour_of(page, "p.soft", "color"), paper) > 4.5
    assert contrast(colour_of(page, "svg text.soft-text", "fill"), paper) > 4.5
    for i in range(2):
        assert contrast(colour_of(page, f"svg .s{i}", "stroke"), paper) > 3


@pytest.mark.parametrize("width", [390, 800, 1200, 1800])
def test_nothing_sticks_out_of_the_window(open_tab: Any, path: Path, width: int) -> None:
    page = open_tab(path, viewport={"width": width, "height": 800}).page
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_without_a_script_everything_is_there(open_tab: Any, path: Path) -> None:
    page = open_tab(path, java_script_enabled=False).page
    assert page.locator("#overview tbody tr").count() == 2
    assert page.locator("svg").first.is_visible()
    assert page.locator("#curves svg title").count() > 20
    card = page.locator("#measures details").first
    card.locator("summary").click()
    assert card.locator("table").is_visible()


def test_names_with_html_are_text(open_tab: Any, path: Path) -> None:
    page = open_tab(path).page
    assert page.title() == f"Report {HOSTILE}"
    assert page.locator("script").count() == 1
    assert page.locator("h1").inner_text() == f"Report {HOSTILE}"
    assert page.locator(".about i").count() == 0


def test_paper_has_all_of_it_and_cuts_nothing(open_tab: Any, path: Path, tmp_path: Path) -> None:
    page = open_tab(path, color_scheme="dark").page
    page.emulate_media(media="print", color_scheme="dark")
    # A4 without its margins, at 96 pixels an inch
    page.set_viewport_size({"width": 703, "height": 1000})
    wide = page.evaluate(
        "[...document.querySelectorAll('main table, main svg')].map(one => one.getBoundingClientRect().right)"
    )
    assert max(wide) <= 703
    assert luminance(colour_of(page, ".card", "backgroundColor")) > 0.9
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("#measures details table").first.is_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert not page.locator("#measures details").first.get_attribute("open")
    page.pdf(path=tmp_path / "report.pdf", format="A4")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")


def test_the_first_screen_says_what_was_tested_and_what_to_do(open_tab: Any, path: Path) -> None:
    page = open_tab(path).page
    box = page.locator("#verdict").bounding_box()
    assert box["y"] < 900
    words = page.locator("#verdict").inner_text()
    assert "2 models, on sketch (unseen, n = 100), photo (source, n = 100), cartoon (source, n = 100)" in words
    assert page.locator("#verdict .badge").count() > 1
