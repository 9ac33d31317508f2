"""Labels, tables and the path of the report, on terminals of any width and in logs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from rich.console import Console

from shiftproof.cli import lines
from shiftproof.report.tables import Cell, Heading, Row, Table, percent_cell, points_cell
from shiftproof.types import Estimate

MODELS = ("sees colour", "gray, attacked and smoothed under noise")
KINDS = (("clean",), ("attacked", "l2 0.25"), ("corrupted", "15 kinds", "severity 3"), ("certified", "l2 0.25"))


def overview(note: str = "") -> Table:
    """Two models with four figures each and what is lost; every figure is another."""
    headings = [Heading("on e=0.9", ("unseen", "n = 397"))]
    for text, *below in KINDS:
        headings += [Heading(text, tuple(below), tint=True), Heading("lost", ("points",))]
    rows = []
    for place, model in enumerate(MODELS):
        cells = [Cell(model)]
        for kind in range(len(KINDS)):
            value = (11 + 20 * place + 2 * kind) / 100
            cells.append(percent_cell(Estimate(value, value - 0.05, value + 0.05, 397), note))
            cells.append(points_cell(Estimate(value - 0.3, value - 0.4, value - 0.2, 397)))
        rows.append(Row(cells))
    return Table("overview", headings, rows)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> int:
    width = int(request.param)
    monkeypatch.setattr(lines, "console", lambda: Console(width=width, force_terminal=True, no_color=True))
    return width


@pytest.mark.parametrize("terminal", [40, 60, 80, 100, 120, 160, 220], indirect=True)
def test_tables_fit_and_nothing_is_cut(terminal: int, capsys: pytest.CaptureFixture[str]) -> None:
    table = overview()
    lines.show_compact(table)
    out = capsys.readouterr().out
    assert all(len(line) <= terminal for line in out.splitlines()), out
    words = out.split()
    for row in table.rows:
        assert all(part in words for part in row.cells[0].text.split()), out
        for cell in row.cells[1:]:
            assert any(word.startswith(cell.text) for word in words), (cell.text, out)
    for heading in table.headings:
        assert all(word.rstrip(":") in out for word in f"{heading.text} {heading.below}".split() if word.isalpha())


@pytest.mark.parametrize(
    ("terminal", "intervals", "gaps"),
    [(80, False, False), (120, True, False), (220, True, True)],
    indirect=["terminal"],
)
def test_intervals_go_before_anything_wraps(
    terminal: int, intervals: bool, gaps: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    lines.show_compact(overview())
    out = capsys.readouterr().out
    assert ("11.0% (6.0-16.0)" in out, "-19.0 (-29.0 to -9.0)" in out) == (intervals, gaps)
    assert sum("11.0%" in line for line in out.splitlines()) == 1
    # a line a model, but for the name that is longer than its column
    assert sum("%" in line for line in out.splitlines()) == len(MODELS)


def test_in_a_log_a_row_is_a_line_with_intervals(capsys: pytest.CaptureFixture[str]) -> None:
    lines.show_compact(overview())
    figures = [line for line in capsys.readouterr().out.splitlines() if "%" in line]
    assert [line.startswith(model) for line, model in zip(figures, MODELS, strict=True)] == [True, True]
    assert all(line.count("(") == len(KINDS) for line in figures)


@pytest.mark.parametrize("terminal", [60, 120], indirect=True)
def test_notes_get_a_number(terminal: int, capsys: pytest.CaptureFixture[str]) -> None:
    lines.show_compact(overview("seen in training: unknown"))
    *above, last = capsys.readouterr().out.splitlines()
    assert last == "[1] seen in training: unknown"
    assert "\n".join(above).count("[1]") == len(MODELS) * len(KINDS)


@pytest.mark.parametrize("terminal", [40, 80], indirect=True)
def test_sentences_stand_beside_their_label(terminal: int, capsys: pytest.CaptureFixture[str]) -> None:
    lines.tell("warn", "a sentence of many words " * 8)
    first, *others = capsys.readouterr().out.splitlines()
    assert first.startswith("warn       a sentence")
    assert all(line.startswith(" " * 11 + "") and line[11] != " " for line in others)
    assert all(len(line) <= terminal for line in [first, *others])


def test_in_a_log_a_sentence_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    lines.tell("warn", "a sentence of many words " * 8)
    assert len(capsys.readouterr().out.splitlines()) == 1


@pytest.mark.parametrize("terminal", [60], indirect=True)
def test_commands_are_never_broken(terminal: int, capsys: pytest.CaptureFixture[str]) -> None:
    command = "shiftproof verify " + "runs/a-very-long-name-of-a-study-0123456789/" * 2
    lines.tell_command("next", command, "tries to disprove what is certified")
    why, line = capsys.readouterr().out.splitlines()
    assert line.strip() == command
    assert why.endswith("certified:")


@pytest.mark.parametrize(
    ("platform", "environment", "terminal", "command"),
    [
        ("darwin", {}, True, "open"),
        ("win32", {}, True, "start"),
        ("linux", {"DISPLAY": ":0"}, True, "xdg-open"),
        ("linux", {"WAYLAND_DISPLAY": "wayland-0"}, True, "xdg-open"),
        ("linux", {}, True, ""),
        ("linux", {"DISPLAY": ":0", "SSH_CONNECTION": "1.2.3.4"}, True, ""),
        ("darwin", {"SSH_TTY": "/dev/pts/0"}, True, ""),
        ("darwin", {}, False, ""),
    ],
)
def test_how_to_open_a_report(
    monkeypatch: pytest.MonkeyPatch, platform: str, environment: dict[str, str], terminal: bool, command: str
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION", "SSH_TTY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    assert lines.opening_command() == command


@pytest.mark.parametrize(("columns", "hint"), [(200, True), (40, False)])
def test_the_path_of_the_report_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int, hint: bool
) -> None:
    monkeypatch.setattr(lines, "opening_command", lambda: "open")
    monkeypatch.setenv("COLUMNS", str(columns))
    lines.show_report_path(Path("runs/my study/report.html"))
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("report     runs/my study/report.html")
    assert ("(open it with: open 'runs/my study/report.html')" in line) == hint
