"""The templates of CONTRIBUTING, as a package of their own: everything works by doing what is written there."""

import csv
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from documents import ROOT, blocks_of

FILES = {block.marks["file"]: block.text for block in blocks_of(ROOT / "CONTRIBUTING.md") if "file" in block.marks}

Finished = subprocess.CompletedProcess[str]

CHECKS = """
import shiftproof as sp
from shiftproof import testing
from shiftproof.attacks import ATTACKS
from shiftproof.certification import CERTIFIERS
from shiftproof.objectives import OBJECTIVES
from shiftproof.perturbations.corruptions import CORRUPTIONS
from shiftproof.perturbations.noise import as_noise
from shiftproof.probes import PROBES

testing.check_objective(OBJECTIVES.create("label-smoothing"))
testing.check_certifier(CERTIFIERS.create("careful-margin"))
testing.check_attack(ATTACKS.create("fgsm", {"threat": "linf:8/255"}))
testing.check_noise(as_noise("brightness-shift:0.25"))
testing.check_corruption(CORRUPTIONS.create("posterise", {"severity": 3}))
domains = sp.load_domains("stripes")
testing.check_domains(domains)
testing.check_model(sp.build_model("linear", domains), domains)
reviews = sp.load_domains("signed-reviews")
testing.check_model(sp.build_model("bag-of-words", reviews), reviews)
testing.check_probe(PROBES.create("confidence"))
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


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the templates, installed: what a package manager leaves of the entry points."""
    folder = tmp_path_factory.mktemp("package")
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    project = tomllib.loads(FILES["pyproject.toml"])["project"]
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {place}\n" for name, place in points.items())
        for group, points in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(groups))
    return folder


@pytest.fixture(scope="module")
def ran(package: Path) -> dict[str, Any]:
    """What a study of all templates prints as JSON."""
    (package / "study.yaml").write_text(STUDY)
    out = _python(package, "-m", "shiftproof", "run", "study.yaml", "--workers", "1", "--json").stdout
    result: dict[str, Any] = json.loads(out.splitlines()[-1])
    return result | {"folder": package / result["run"]}


def _python(package: Path | None, *arguments: str, code: int = 0, cwd: Path | None = None) -> Finished:
    """Python with the package on its path, or, with None, without it."""
    path = os.pathsep.join(str(one) for one in (package, ROOT / "src") if one is not None)
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd or package,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done


def test_templates_are_short() -> None:
    lines = {name: sum(map(bool, text.splitlines())) for name, text in FILES.items() if name.endswith(".py")}
    assert len(lines) == 11
    assert [name for name, count in lines.items() if count > 19] == []


def test_templates_pass_their_checks(package: Path) -> None:
    _python(package, "-c", CHECKS)


def test_a_study_of_templates_runs_and_reports(ran: dict[str, Any]) -> None:
    assert {row["kind"] for row in ran["measures"]} >= {"clean", "attacked", "corrupted", "certified"}
    assert (ran["folder"] / "report.html").is_file()


def test_the_section_is_on_the_page_and_in_files(ran: dict[str, Any]) -> None:
    assert ">How sure the model is</h2>" in (ran["folder"] / "report.html").read_text()
    head, *lines = csv.reader((ran["folder"] / "tables" / "mean-confidence.csv").read_text().splitlines())
    assert head == ["model", "domain", "mean confidence"]
    assert [line[:2] for line in lines] == [["one", "clear"], ["one", "noisy"]]
    assert all(50 <= float(line[2].rstrip("%")) <= 100 for line in lines)
    assert (ran["folder"] / "tables" / "mean-confidence.md").read_text().startswith("| model | domain |")


def test_the_verb_runs(package: Path) -> None:
    assert _python(package, "-m", "shiftproof", "count", "stripes").stdout == "clear: 60\nnoisy: 60\n"


def test_without_the_package_its_run_is_shown_and_what_is_missing_is_named(ran: dict[str, Any], tmp_path: Path) -> None:
    before = (ran["folder"] / "tables" / "measures.csv").read_bytes()
    done = _python(
        None, "-m", "shiftproof", "report", str(ran["folder"]), "--format", "csv", "--out", "again", cwd=tmp_path
    )
    (note,) = done.stderr.splitlines()
    for missing in ("data set 'stripes'", "model 'linear'", "attack 'fgsm'", "certifier 'careful-margin'"):
        assert missing in note
    assert "my-methods 0.1" in note
    assert (tmp_path / "again" / "tables" / "measures.csv").read_bytes() == before
    done = _python(None, "-m", "shiftproof", "verify", str(ran["folder"]), "--json", code=2, cwd=tmp_path)
    findings = json.loads(done.stdout)["findings"]
    assert [one["code"] for one in findings if one["level"] == "fail"] == ["not-installed"]
    assert "tables-same" in [one["code"] for one in findings]
