"""Progress for people: a bar with ETA on a terminal, plain lines in a log, nothing when nobody asked."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, Protocol, TextIO

from shiftproof.errors import UsageError

__all__ = ["Mode", "Progress", "current_progress", "duration", "parse_duration", "progress_bar", "showing_progress"]

Mode = Literal["auto", "lines", "off"]
"""`auto`: a bar if stderr is a terminal, else nothing; `lines`: a bar if it is one, else a line now and then."""
_current: ContextVar[Mode] = ContextVar("progress", default="auto")


class Progress(Protocol):
    """Something that is told how far the work is."""

    def advance(self, amount: int = 1, note: str = "") -> None:
        """Count `amount` more pieces as done; `note` (loss, accuracy, rate) stands at the end of the bar."""


@contextmanager
def progress_bar(label: str, total: int, mode: Mode = "auto", done: int = 0) -> Iterator[Progress]:
    """Show how far a piece of work of `total` steps is, starting from `done`."""
    if mode != "off" and sys.stderr.isatty():
        yield from _bar(label, total, done)
    elif mode == "lines":
        lines = _Lines(label, total, done, sys.stderr)
        with lines.heard():
            yield lines
        lines.close()
    else:
        yield _Silent()


@contextmanager
def showing_progress(mode: Mode) -> Iterator[None]:
    """Let work inside the block that can't be told how to show its progress (opening data) show it like this."""
    before = _current.set(mode)
    try:
        yield
    finally:
        _current.reset(before)


def current_progress() -> Mode:
    """How `showing_progress` says that progress is shown; `auto` outside of it."""
    return _current.get()


def duration(seconds: float) -> str:
    """A time as people say it.

    >>> duration(45), duration(700), duration(9000), duration(4.5e7)
    ('45 s', '12 min', '2.5 h', '12,500 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 360_000 else f"{seconds / 3600:,.0f} h"


def parse_duration(text: str, name: str = "budget") -> float:
    """Seconds from text such as 90s, 20m, 1.5h; `name` is what it is the time of, for errors.

    >>> parse_duration("20m"), parse_duration("1.5h")
    (1200.0, 5400.0)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|m|min|h)\s*", text)
    seconds = float(match[1]) * {"s": 1, "m": 60, "min": 60, "h": 3600}[match[2]] if match else 0.0
    if not seconds > 0:
        raise UsageError(f"the {name} is {text!r}; write a time such as 90s, 20m or 1.5h")
    return seconds


class _Silent:
    def advance(self, amount: int = 1, note: str = "") -> None:
        """Say nothing."""


class _Lines:
    """A line every ten seconds at most, and one at the end of work that took longer than a moment.

    Work that is long without any news says that it goes on.
    """

    EVERY_SECONDS = 10.0
    MOMENT_SECONDS = 1.0
    SILENT_SECONDS = 30.0

    def __init__(self, label: str, total: int, done: int, stream: TextIO) -> None:
        self._label, self._total, self._stream = label, total, stream
        self._done = self._first = done
        self._started = self._spoke = time.monotonic()
        self._note = ""
        self._spoken: int | None = None

    def advance(self, amount: int = 1, note: str = "") -> None:
        self._done += amount
        self._note = note or self._note
        if time.monotonic() - self._spoke >= self.EVERY_SECONDS:
            self._speak()

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Speak every half minute inside the block, whatever happens in it."""
        ended = threading.Event()

        def speak() -> None:
            while not ended.wait(self.SILENT_SECONDS):
                if time.monotonic() - self._spoke >= self.SILENT_SECONDS:
                    self._speak()

        # a daemon: it holds nothing, and must not keep a process that is ending
        thread = threading.Thread(target=speak, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def close(self) -> None:
        # a line that was just written is not written again
        if time.monotonic() - self._started >= self.MOMENT_SECONDS and self._spoken != self._done:
            self._speak()

    def _speak(self) -> None:
        self._spoke, self._spoken = time.monotonic(), self._done
        elapsed = self._spoke - self._started
        rate = (self._done - self._first) / elapsed if elapsed else 0.0
        left = (
            f"{(self._total - self._done) / rate:.0f} s left"
            if rate and self._done < self._total
            else f"{elapsed:.0f} s"
        )
        note = f", {self._note}" if self._note else ""
        self._stream.write(f"{self._label}: {self._done}/{self._total}, {left}{note}\n")
        self._stream.flush()


def _bar(label: str, total: int, done: int) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    columns = (
        # names may have brackets
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", style="dim", markup=False),
    )
    with RichProgress(*columns, console=Console(stderr=True)) as bars:
        task = bars.add_task(label, total=total, completed=done, note="")

        class Bar:
            def advance(self, amount: int = 1, note: str = "") -> None:
                if note:
                    bars.update(task, advance=amount, note=note)
                else:
                    bars.update(task, advance=amount)

        yield Bar()
