"""Shell completion: the names that `shiftproof ls` knows, without importing what they name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from shiftproof.cli.completion import KINDS, complete, complete_study, known_names

Call = Callable[..., tuple[int, str, str]]


def test_names_are_those_that_ls_lists(run: Call) -> None:
    """Read from the sources, they should be what the catalogues hold once everything is imported."""
    listing = json.loads(run("ls", "--json")[1])
    for kind in (*KINDS, "studies"):
        assert known_names(kind) == sorted(entry["name"] for entry in listing[kind]), kind


def test_names_that_begin_so() -> None:
    assert complete("objectives")("transfer-adv") == ["transfer-adv", "transfer-adv-d", "transfer-adv-s"]
    assert complete("certifiers")("no such") == []


def test_studies_and_files_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("quick.yaml", "other.yaml", "quick.txt"):
        Path(name).touch()
    assert complete_study("quick") == ["quickstart", "quick.yaml"]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("shiftproof run quicks", ["quickstart"]),
        ("shiftproof train --data colored-d", ["colored-digits"]),
        ("shiftproof train --model preact", ["preact-resnet18"]),
        ("shiftproof certify --certifier latent-m", ["latent-margin"]),
        ("shiftproof attack --attack pg", ["pgd"]),
        ("shiftproof ls object", ["objectives"]),
        ("shiftproof ls objectives trade", ["trades"]),
        ("shiftproof estimate text-quick", ["text-quickstart"]),
    ],
)
def test_a_shell_gets_names_without_heavy_imports(typed: str, expected: list[str]) -> None:
    script = (
        "import sys; sys.argv = ['shiftproof']\n"
        "try:\n    import shiftproof.__main__\nexcept SystemExit:\n    pass\n"
        "print('heavy' if {'torch', 'numpy', 'shiftproof.runs'} & set(sys.modules) else 'light')"
    )
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1), "_SHIFTPROOF_COMPLETE": "complete_bash"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env={**os.environ, **words})
    assert done.stdout.split() == [*expected, "light"], done.stderr
