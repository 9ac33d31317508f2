"""What the documents say is true: the README's example runs, its study validates, its numbers are the quickstart's."""

import re
from pathlib import Path

import pytest

from shiftproof.runs import parse_study

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def block(language: str) -> str:
    found = re.findall(rf"```{language}\n(.*?)```", README, re.S)
    assert len(found) == 1
    return str(found[0])


def test_the_python_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(block("python"), "README.md", "exec"), {})
    printed = re.search(r"([\d.]+)% \(", capsys.readouterr().out)
    promised = re.search(r"# ([\d.]+)% \(", block("python"))
    assert printed is not None
    assert promised is not None
    # other hardware may round otherwise, which can move a sample or two of 397
    assert float(printed.group(1)) == pytest.approx(float(promised.group(1)), abs=1.0)


def test_the_study_in_the_readme_is_valid() -> None:
    study = parse_study(block("yaml"), "README.md", "readme")
    assert set(study.models) == {"plain", "wider"}


def test_every_verb_in_the_readme_exists() -> None:
    from shiftproof.cli.main import app

    verbs = {info.name for info in app.registered_commands} | {info.name for info in app.registered_groups}
    assert set(re.findall(r"^shiftproof (\w+)", README, re.M)) <= verbs


def test_decisions_are_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    index = (folder / "README.md").read_text()
    assert all(path.name in index for path in folder.glob("0*.md"))


def test_the_version_is_said_once_everywhere() -> None:
    from importlib.metadata import version

    assert f"version: {version('shiftproof')}" in (ROOT / "CITATION.cff").read_text()
