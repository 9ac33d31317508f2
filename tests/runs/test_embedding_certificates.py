"""Certificates in embeddings on their way through a run: study, report, verify, and the verbs one by one."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import shiftproof as sp
from shiftproof.evidence.order import order_findings
from shiftproof.probes.noisy import Noisy
from shiftproof.report.certified import by_chart, by_setting, series_of_evidence
from shiftproof.runs import open_run, parse_study, run_study

Call = Callable[..., tuple[int, str, str]]

STUDY = """
data: signed-reviews
target: e=0.9
limit: 5
models:
  reader:
    model: {name: text-cnn, width: 8, filters: 8, vocabulary: 256, length: 48}
    objective: {name: embedding-gaussian, sigma: 0.3}
    training: {steps: 30, batch: 16, lr: 1e-2}
probes:
  - clean
  - {name: noisy, noise: "embedding-gaussian:0.3"}
  - {name: attack, attack: {name: embedding-pgd, threat: "embedding-l2:0.3"}}
  - name: attack
    attack: {name: embedding-pgd, threat: "embedding-l2:0.3"}
    smoothed: "embedding-gaussian:0.3"
    samples: 4
    votes: 200
  - {name: certify, certifier: {name: randomized-smoothing, noise: "embedding-gaussian:0.3", n: 300}}
  - {name: certify, certifier: {name: randomized-smoothing, noise: "word-deletion:0.8", n: 300}}
"""


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory, brief_examinations: None) -> Path:
    folder = tmp_path_factory.mktemp("study")
    run = run_study(parse_study(STUDY, "study.yaml", "study"), folder / "run", progress="off")
    run.export()
    return folder / "run"


def rows(folder: Path, table: str) -> list[dict[str, str]]:
    return list(csv.DictReader((folder / "tables" / f"{table}.csv").read_text().splitlines()))


def test_both_radii_are_shown_in_their_own_units_and_never_in_one_chart(studied: Path) -> None:
    run = open_run(studied)
    series = series_of_evidence(run.evidence)
    assert {one.norm for one in series} == {"embedding-l2", "edits"}
    for target in ("e=0.9", None):
        for group in [*by_chart(series, target), *by_setting(series)]:
            assert len({(one.norm, one.units) for one in group}) == 1
    certified = rows(studied, "certified")
    assert {row["norm"] for row in certified} == {"embedding-l2", "edits"}
    page = " ".join((studied / "report.html").read_text().split())
    assert "own embedding, over the text" in page
    assert "no exchange, insertion or deletion of words" in page
    assert (studied / "figures" / "certified.svg").is_file()
    assert (studied / "figures" / "certified-2.svg").is_file()


def test_order_is_checked_between_the_same_balls_of_the_same_vote_alone(studied: Path) -> None:
    run = open_run(studied)
    found = [one for one in order_findings(run.evidence) if one.code.startswith("sandwich")]
    attacked = [one for one in found if one.evidence.get("eps", 0) > 0]
    assert attacked
    assert all("embedding-gaussian" in one.message and "embedding-l2" in one.message for one in attacked)
    assert not [one for one in found if one.level == "fail"]


@pytest.mark.slow
def test_the_run_is_verified(studied: Path, run: Call) -> None:
    code, text, err = run("verify", studied, "--part", 2)
    assert code == 0, text + err
    assert "balls of embeddings" in " ".join(text.split())


def test_noise_of_training_selects(studied: Path) -> None:
    card = json.loads((studied / "models" / "reader.json").read_text())
    assert card["objective"]["name"] == "embedding-gaussian"
    assert "noisy_validation" in json.dumps(card)


def test_the_verbs(studied: Path, run: Call, tmp_path: Path) -> None:
    model = f"file:{studied / 'models' / 'reader.safetensors'}"
    asked = ["certify", "--data", "signed-reviews", "--model", model, "--noise", "embedding-gaussian", "--sigma", "0.1"]
    few = ["--domain", "e=0.9", "--limit", 3, "--n", 100, "--workers", 1]
    code, text, err = run(*asked, *few, "--estimate")
    assert code == 0, err
    code, text, err = run(*asked, *few, "--out", tmp_path / "c", "--json")
    assert code == 0, err
    result: dict[str, Any] = json.loads(text.splitlines()[-1])
    assert (result["norm"], result["certificate"]) == ("embedding-l2", "embedding-gaussian 0.1")
    assert "of the model's own embedding" in result["units"]
    before = (tmp_path / "c" / "run.json").read_text()
    code, text, err = run(*asked, *few, "--out", tmp_path / "c")
    assert code == 0, err
    assert json.loads(before)["noise_seed"] == json.loads((tmp_path / "c" / "run.json").read_text())["noise_seed"]
    code, text, err = run("verify", tmp_path / "c", "--part", 1)
    assert code == 0, text + err
    explained = [
        "explain",
        "--model",
        model,
        "--certifier",
        "randomized-smoothing",
        "--noise",
        "embedding-gaussian:0.1",
    ]
    code, text, err = run(*explained, "--json")
    assert code == 0, err
    (one,) = json.loads(text)["certifiers"]
    assert one["applies"]
    assert "with an encoder of text" in one["why"]
    code, text, err = run("ls", "noise")
    assert code == 0
    assert "embedding-gaussian" in text


def test_images_are_refused_before_anything_is_written(run: Call, tmp_path: Path) -> None:
    domains = sp.load_domains("colored-digits")
    sp.save_model(sp.build_model("mlp", domains, width=8), tmp_path / "m.safetensors")
    asked = ["--data", "colored-digits", "--model", f"file:{tmp_path / 'm.safetensors'}", "--limit", 3]
    code, _, err = run("certify", *asked, "--noise", "embedding-gaussian:0.1", "--out", tmp_path / "out")
    assert code != 0
    assert "embedding-gaussian 0.1 changes texts" in " ".join(err.split())
    assert not (tmp_path / "out").exists()


def test_a_reader_without_an_encoder_is_refused_before_anything_is_written(run: Call, tmp_path: Path) -> None:
    (tmp_path / "own_reader.py").write_text(
        "import torch\n"
        "class Reader(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.scale = torch.nn.Parameter(torch.ones(1))\n"
        "    def forward(self, rows):\n"
        "        vowels = (rows.round() == 101).float().sum(1)\n"
        "        return self.scale * torch.stack([vowels, 5 - vowels], 1)\n"
        "def build():\n"
        "    return Reader().eval()\n"
    )
    asked = ["--data", "signed-reviews", "--model", "python:own_reader:build", "--limit", 3, "--out", tmp_path / "out"]
    code, _, err = run("certify", *asked, "--noise", "embedding-gaussian:0.1")
    assert code != 0
    assert "has no encoder of text" in " ".join(err.split())
    assert not (tmp_path / "out").exists()


def test_the_noisy_probe_refuses_noise_of_another_kind() -> None:
    data = sp.load_domains("signed-reviews")["e=0.9"].subset(range(3))
    model = sp.build_model("text-cnn", data, width=4, filters=4, vocabulary=32).eval()
    with pytest.raises(sp.errors.UsageError, match="gaussian 0.25 changes images"):
        Noisy("gaussian:0.25").check(model, data, None)  # type: ignore[arg-type]
    with pytest.raises(sp.errors.UsageError, match="BatchNorm is adapted to noise on images"):
        Noisy("embedding-gaussian:0.25", adapted=True)  # type: ignore[arg-type]
