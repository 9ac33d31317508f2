"""Distances of targets that a run keeps: in its report, in verify, and what a damaged file says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import shiftproof as sp
from shiftproof.cli.main import main
from shiftproof.errors import DataError
from shiftproof.runs import Study, open_run, parse_study, run_study
from shiftproof.runs.distances import read_distances
from shiftproof.runs.verify_texts import check_report

STUDY = """
name: turned
data: rotated-digits
source: [angle=0]
target: angle=15
limit: 120
models:
  margin: {model: {name: mlp-cayley, width: 8}, objective: erm, selection: last, training: {steps: 60}}
probes: [{name: certify, certifier: lipschitz-margin}]
"""


def study() -> Study:
    return parse_study(STUDY, "turned.yaml", "turned")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("distances") / "run"
    run_study(study(), where, progress="off").export(["html", "json", "csv", "svg"])
    return where


def code_of(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    return int(stopped.value.code or 0)


def test_a_distance_is_kept_and_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("shift", "--run", str(folder), "--target", "angle=75", "--in-report") == 2
    assert "provably farther than" in capsys.readouterr().out
    known = read_distances(folder)
    assert {one.domain for one in known} == {"angle=0", "angle=15"}
    assert all(one.outside and one.lower > 0 for one in known)
    assert known[0].sentence in (folder / "report.html").read_text()
    figures = json.loads((folder / "report.json").read_text())["sections"]["around"]["distances"]
    assert figures[0]["lower"] == known[0].lower
    # asked again it is replaced, not repeated
    assert code_of("shift", "--run", str(folder), "--target", "angle=75", "--in-report", "--seed", "3") == 2
    assert len(read_distances(folder)) == 2
    findings = list(check_report(open_run(folder)))
    assert {"distances-unchecked"} <= {one.code for one in findings}
    assert not [one for one in findings if one.level == "fail"]


def test_guarantees_are_printed_without_a_target(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("shift", "--run", str(folder)) == 0
    shown = capsys.readouterr().out
    ends = sp.shift(folder).certificates[0].ends
    assert f"{ends:.3g}" in shown
    assert "on every distribution within W1, in l2" in shown
    assert code_of("shift", "--run", str(folder), "--in-report") == 1


def test_a_damaged_file_is_a_sentence(tmp_path: Path) -> None:
    for text in ("{}", '{"format": "shiftproof-distances/1", "distances": [{"target": 3}]}', "[]"):
        (tmp_path / "distances.json").write_text(text)
        with pytest.raises(DataError):
            read_distances(tmp_path)
    assert read_distances(tmp_path / "elsewhere") == []
