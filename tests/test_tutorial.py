"""The tutorial notebook: a valid file with outputs of its own cells, small, and true when it is run again."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from harmless import assert_harmless

NOTEBOOK = Path(__file__).parents[1] / "docs" / "tutorial.ipynb"
LARGEST = 1_500_000
MACHINE = re.compile(r"(?<![\w.:/])/(?:home|root|tmp|work|Users|var|opt|private)/|[A-Z]:\\\\", re.IGNORECASE)
POINTS = 3.0
"""By how much a percentage may differ on another machine, where sums of floats end in other bits."""


def cells() -> list[dict[str, Any]]:
    return list(json.loads(NOTEBOOK.read_text())["cells"])


def code() -> list[dict[str, Any]]:
    return [cell for cell in cells() if cell["cell_type"] == "code"]


def printed(cell: dict[str, Any]) -> str:
    return "".join("".join(one["text"]) for one in cell["outputs"] if one["output_type"] == "stream")


def test_it_is_a_valid_notebook() -> None:
    """The rules of nbformat 4.5 that a reader relies on."""
    notebook = json.loads(NOTEBOOK.read_text())
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert set(notebook) == {"cells", "metadata", "nbformat", "nbformat_minor"}
    names = [cell["id"] for cell in notebook["cells"]]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in names)
    assert 15 <= len(names) <= 20
    for cell in notebook["cells"]:
        keys = {"cell_type", "id", "metadata", "source"}
        assert set(cell) == (keys | {"outputs", "execution_count"} if cell["cell_type"] == "code" else keys)
        for output in cell.get("outputs", ()):
            assert output["output_type"] in ("stream", "execute_result", "display_data")


def test_it_is_valid_by_nbformat() -> None:
    nbformat = pytest.importorskip("nbformat")
    nbformat.validate(nbformat.read(NOTEBOOK, 4))


def test_every_cell_was_run_in_order_and_says_something() -> None:
    assert [cell["execution_count"] for cell in code()] == list(range(1, len(code()) + 1))
    assert all(cell["outputs"] for cell in code())
    assert not [one for cell in code() for one in cell["outputs"] if one.get("name") == "stderr"]


def test_it_is_small_and_tells_nothing_of_a_machine() -> None:
    text = NOTEBOOK.read_text()
    assert len(text.encode()) < LARGEST
    assert MACHINE.search(text) is None
    assert MACHINE.search(json.dumps("see /home/me/x")) is not None


def test_its_outputs_are_harmless() -> None:
    shown = [one["data"]["text/html"] for cell in code() for one in cell["outputs"] if "data" in one]
    assert len(shown) >= 6
    for html in shown:
        assert_harmless("".join(html))


@pytest.mark.slow
def test_it_runs_again_to_the_same_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a kernel: a cell is its statements, and shows the value of the last if that is an expression."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {}
    for cell in code():
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(tree, cell["id"], "exec"), namespace)
            if last is not None:
                value = eval(compile(ast.Expression(last.value), cell["id"], "eval"), namespace)  # noqa: S307
                if value is not None:
                    assert_harmless(value._repr_html_())
        before, now = ([float(x) for x in re.findall(r"([\d.]+)%", text)] for text in (printed(cell), out.getvalue()))
        assert now == pytest.approx(before, abs=POINTS), cell["id"]
