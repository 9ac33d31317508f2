"""What every verb that measures has in common: a run, --estimate, --require, --limit, report and verify."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import shiftproof as sp

Call = Callable[..., tuple[int, str, str]]
DATA = ["--data", "colored-digits"]
STUDY = """
data: colored-digits
target: e=0.9
models:
  one: {model: {name: mlp, width: 8}, training: {steps: 20}}
  two: {model: {name: mlp, width: 8, gray: true}, training: {steps: 20}}
"""


@pytest.fixture
def verbs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    # an estimate tries everything for a moment only
    monkeypatch.setattr("shiftproof.runs.estimate.PROBE_SECONDS", 0.05)
    monkeypatch.setattr("shiftproof.probes.costs._TRIAL_SECONDS", 0.05)
    monkeypatch.setattr("shiftproof.certification.sampling.estimate.RATE_SECONDS", 0.02)
    model = sp.build_model("mlp", sp.load_domains("colored-digits"), width=8, seed=4).eval()
    sp.save_model(model, tmp_path / "mine.safetensors")
    (tmp_path / "study.yaml").write_text(STUDY)
    mine = ["--model", "file:mine.safetensors", "--workers", "1"]
    return {
        "run": ["run", "study.yaml"],
        "train": ["train", *DATA, "--target", "e=0.9", "--model", "mlp", "--set", "training.steps=20"],
        "certify": ["certify", *DATA, *mine, "--n", "100", "--sigma", "0.25,0.5", "--alpha", "0.001,0.01"],
        "attack": ["attack", *DATA, *mine, "--threat", "l2:0.25", "--eps", "0.1,0.25", "--steps", "3"],
    }


@pytest.mark.parametrize("verb", ["run", "train", "certify", "attack"])
def test_all_of_them_write_a_run(run: Call, verbs: dict[str, list[str]], verb: str) -> None:
    command = [*verbs[verb], "--limit", "12"]
    code, out, err = run(*command, "--estimate", "--json")
    assert code == 0, err
    assert json.loads(out)["forward_passes"] > 0
    assert not Path("runs").exists()
    metric = {"certify": "certified@0.25"}.get(verb, "clean")
    code, out, err = run(*command, "--require", f"{metric}>=0", "--json")
    assert code == 0, err
    result = json.loads(out.splitlines()[-1])
    assert result["requirements"][0]["met"]
    (folder,) = Path("runs").iterdir()
    assert folder.name.startswith(verb if verb != "run" else "study")
    opened = sp.open_run(folder)
    assert {len(measurement) for measurement in opened.evidence} == {12}
    assert (folder / "report.html").is_file()
    # the same again is the same run; another limit is another one, in a folder of its own
    written = {path: path.stat().st_mtime_ns for path in folder.rglob("*.parquet")}
    assert run(*command)[0] == 0
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.parquet")} == written
    code, _, err = run(*verbs[verb], "--limit", "10", "--out", folder)
    assert code == 1
    assert "holds a run with other limit; choose another --out" in err
    # what was required once stays in the report; what is not met is exit 2
    code, out, _ = run(*command, "--require", f"{metric}>=1")
    assert code == 2
    assert "is not met" in out
    assert "is not met" in (folder / "report.html").read_text()
    assert run("report", folder, "--format", "csv")[0] == 0
    code, out, err = run("verify", folder, "--part", "2", "--seed", "1")
    assert code == 0, out + err


def test_of_several_models_each_is_judged_by_its_name(run: Call, verbs: dict[str, list[str]]) -> None:
    code, out, _ = run(*verbs["run"], "--require", "clean<=0.8", "--json")
    judged = json.loads(out.splitlines()[-1])["requirements"]
    assert [one["model"] for one in judged] == ["one", "two"]
    assert code == (0 if all(one["met"] for one in judged) else 2)


def test_certify_and_python_count_the_same_votes(run: Call, verbs: dict[str, list[str]]) -> None:
    command = [*verbs["certify"], "--limit", "12", "--domain", "e=0.9", "--seed", "7", "--out", "c"]
    assert run(*command)[0] == 0
    evidence = sp.open_run("c").evidence
    assert len(evidence) == 4
    domain = sp.load_domains("colored-digits")["e=0.9"]
    order = {str(one): row for row, one in enumerate(domain.ids)}
    few = domain.subset([order[one] for one in evidence[0]["id"]])
    model = sp.load_model("file:mine.safetensors").eval()
    for sigma in (0.25, 0.5):
        certifier = sp.certifiers.RandomizedSmoothing(sp.noise.Gaussian(sigma), n=100)
        counted = sp.certify(model, few, certifier, seed=7)
        for alpha in (0.001, 0.01):
            due = counted if alpha == 0.001 else counted.at_alpha(alpha)
            (stored,) = [one for one in evidence.where(title=f"gaussian {sigma}") if one.fact("alpha") == alpha]
            for column in ("chosen", "count", "runner_up_count", "label_count", "n", "prediction", "radius"):
                assert stored[column].tolist() == getattr(due, column).tolist()


def test_figures_of_certify_are_those_of_their_own_measurement(run: Call, verbs: dict[str, list[str]]) -> None:
    """Of several domains, noises and alphas, each with another number of samples."""
    domains = sp.load_domains("colored-digits")
    code, out, err = run(*verbs["certify"], "--seed", "7", "--out", "c", "--radii", "0,0.25", "--json")
    assert code == 0, err
    evidence, found = sp.open_run("c").evidence, json.loads(out.splitlines()[-1])["results"]
    assert len(found) == len(evidence) == 3 * 2 * 2
    for one in found:
        (rows,) = [
            rows
            for rows in evidence.where(domain=one["domain"], title=one["certificate"])
            if rows.fact("alpha") == one["alpha"]
        ]
        assert one["images"] == len(rows) == len(domains[one["domain"]])
        assert one["forward_passes"] == len(rows) * 200
        for radius, value in one["certified_accuracy"].items():
            assert value == pytest.approx((rows["correct"] & (rows["radius"] >= float(radius))).mean())


def test_attack_and_python_find_the_same(run: Call, verbs: dict[str, list[str]]) -> None:
    command = [*verbs["attack"], "--limit", "12", "--domain", "e=0.9", "--seed", "7", "--out", "a"]
    assert run(*command)[0] == 0
    evidence = sp.open_run("a").evidence.where(probe="attack")
    domain = sp.load_domains("colored-digits")["e=0.9"]
    order = {str(one): row for row, one in enumerate(domain.ids)}
    few = domain.subset([order[one] for one in evidence[0]["id"]])
    model = sp.load_model("file:mine.safetensors").eval()
    found = sp.attack(model, few, sp.attacks.PGD("l2:0.25", steps=3), eps=[0.1, 0.25], seed=7)
    for one, stored in zip(found, evidence, strict=True):
        assert stored["prediction"].tolist() == one.predictions.tolist()
        assert stored["distance"].tolist() == pytest.approx(one.distance.tolist())
