"""The templates of CONTRIBUTING, as a package of their own: everything works by doing what is written there."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from documents import ROOT, blocks_of

FILES = {block.marks["file"]: block.text for block in blocks_of(ROOT / "CONTRIBUTING.md") if "file" in block.marks}

CHECKS = """
import shiftproof as sp
from shiftproof import testing
from shiftproof.attacks import ATTACKS
from shiftproof.certification import CERTIFIERS
from shiftproof.objectives import OBJECTIVES

testing.check_objective(OBJECTIVES.create("label-smoothing"))
testing.check_certifier(CERTIFIERS.create("careful-margin"))
testing.check_attack(ATTACKS.create("fgsm", {"threat": "linf:8/255"}))
testing.check_domains(sp.load_domains("stripes"))
"""

STUDY = """
data: stripes
target: noisy
limit: 20
models: {one: {model: linear, objective: label-smoothing, training: {steps: 20}}}
probes:
  - clean
  - confidence
  - {name: corrupt, corruptions: posterise, severities: [5]}
  - {name: attack, attack: {name: fgsm, threat: "linf:0.1"}}
  - {name: certify, certifier: {name: careful-margin}}
  - {name: certify, certifier: {name: randomized-smoothing, noise: "brightness-shift:0.25", n: 200}}
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The files of the templates, installed: what a package manager leaves of the entry points."""
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    project = tomllib.loads(FILES["pyproject.toml"])["project"]
    info = tmp_path / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {place}\n" for name, place in points.items())
        for group, points in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(groups))
    return tmp_path


def _python(package: Path, *arguments: str) -> str:
    path = os.pathsep.join([str(package), str(ROOT / "src")])
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=package,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_templates_pass_their_checks(package: Path) -> None:
    _python(package, "-c", CHECKS)


def test_a_study_of_templates_runs_and_reports(package: Path) -> None:
    (package / "study.yaml").write_text(STUDY)
    out = _python(package, "-m", "shiftproof", "run", "study.yaml", "--workers", "1", "--json")
    result = json.loads(out.splitlines()[-1])
    assert {row["kind"] for row in result["measures"]} >= {"clean", "attacked", "corrupted", "certified"}
    assert (Path(package) / result["report"]).is_file()
