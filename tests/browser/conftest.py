"""A headless browser, where there is one: `make browser-test` installs what these tests need."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

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
