"""Several training seeds: every model is trained and measured with each, figures are means with honest intervals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import shiftproof as sp
from shiftproof.errors import StudyError
from shiftproof.execution.tables import hash_table
from shiftproof.runs import Study, parse_study, run_study

pytestmark = pytest.mark.usefixtures("brief_examinations")

Call = Callable[..., tuple[int, str, str]]
SMALL = """
data: colored-digits
target: e=0.9
limit: 40
models:
  plain: {model: {name: mlp, width: 16}, training: {steps: 20, batch: 32}}
  gray: {model: {name: mlp, width: 16, gray: true}, training: {steps: 20, batch: 32}}
probes:
  - clean
  - {name: attack, attack: {threat: "l2:0.25", steps: 2}}
  - {name: certify, certifier: {noise: "gaussian:0.25", n: 100}}
"""


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> sp.Run:
    out = tmp_path_factory.mktemp("seeds") / "run"
    return run_study(parse_study(SMALL + "seeds: [3, 1, 2]\n", "s", "s"), out, progress="off")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> sp.Run:
    out = tmp_path_factory.mktemp("seeds") / "alone"
    return run_study(parse_study(SMALL + "seed: 1\n", "s", "s"), out, progress="off")


def test_each_seed_gives_the_model_and_evidence_of_a_run_with_that_seed(seeded: sp.Run, alone: sp.Run) -> None:
    for name in ("plain", "gray"):
        one = load_file(seeded.folder / "models" / f"{name}-1.safetensors")
        other = load_file(alone.folder / "models" / f"{name}.safetensors")
        assert all(torch.equal(one[key], other[key]) for key in other)
        here, there = seeded.evidence.where(model=name, train_seed=1), alone.evidence.where(model=name)
        assert len(here) == len(there) > 0
        for first, second in zip(here, there, strict=True):
            assert {k: v for k, v in first.facts.items() if k != "train_seed"} == dict(second.facts)
            assert hash_table(first.table.drop(["seconds"])) == hash_table(second.table.drop(["seconds"]))


def test_every_seed_starts_from_the_weights_of_a_model_that_was_handed_over(tmp_path: Path) -> None:
    model = sp.build_model("mlp", sp.load_domains("colored-digits"), width=8, seed=0)
    before = {name: weights.clone() for name, weights in model.state_dict().items()}

    def train(folder: str, **seeds: object) -> dict[str, torch.Tensor]:
        given = {"models": {"m": {"model": model, "training": {"steps": 3, "batch": 8}}}, "limit": 8, **seeds}
        study = Study.model_validate({"name": "s", "data": "colored-digits", "target": "e=0.9", **given})
        run_study(study, tmp_path / folder)
        (path,) = (tmp_path / folder / "models").glob("m-1.safetensors" if study.seeds else "m.safetensors")
        return dict(load_file(path))

    both, alone = train("both", seeds=(0, 1)), train("alone", seed=1)
    assert all(torch.equal(both[name], alone[name]) for name in alone)
    assert all(torch.equal(before[name], weights) for name, weights in model.state_dict().items())
    assert not torch.equal(before["head.weight"], alone["head.weight"])


def test_figures_are_means_over_seeds_and_intervals_hold_those_of_samples(seeded: sp.Run) -> None:
    table = seeded.content().accuracy
    for row in table.rows:
        for domain, estimate in row.accuracy.items():
            each = [
                float(
                    seeded.evidence.get(model=row.model, domain=domain, probe="clean", train_seed=seed)[
                        "correct"
                    ].mean()
                )
                for seed in (3, 1, 2)
            ]
            assert estimate.value == pytest.approx(np.mean(each))
            assert estimate.n == 40
            assert estimate.method.endswith("3 seeds")
            # a t interval over three seeds alone is inside, up to the limits of a share
            reach = 4.3026527 * np.std(each, ddof=1) / np.sqrt(3)
            assert estimate.low <= max(0.0, np.mean(each) - reach) + 1e-6
            assert estimate.high >= min(1.0, np.mean(each) + reach) - 1e-6


def test_curves_and_mean_radii_are_means_over_seeds(seeded: sp.Run) -> None:
    for series in seeded.content().series:
        rows = seeded.evidence.where(model=series.model, domain=series.domain, probe="certify")
        earned = [np.where(one["correct"], one["radius"], 0.0) for one in rows]
        assert series.mean_radius() == pytest.approx(np.mean([one.mean() for one in earned]))
        assert series.at(0.25).value == pytest.approx(np.mean([(one >= 0.25).mean() for one in earned]))
        assert series.curve(np.array([0.25]))[0] == pytest.approx(series.at(0.25).value)


def test_the_report_says_what_its_figures_are(seeded: sp.Run) -> None:
    page = seeded.report().read_text()
    assert "trained with 3 seeds (3, 1, 2)" in page
    assert "seeds 3, 1, 2" in page
    logs = [path.name for path in seeded.export(["csv"]) and sorted((seeded.folder / "logs").glob("*.tsv"))]
    assert len(logs) == 2 * 3 * 3


def test_a_seeded_run_goes_on_and_is_verified(seeded: sp.Run, run: Call) -> None:
    file = next((seeded.folder / "evidence" / "gray-2").rglob("certify-*.parquet"))
    before = file.read_bytes()
    file.unlink()
    again = run_study(parse_study(SMALL + "seeds: [3, 1, 2]\n", "s", "s"), seeded.folder, progress="off")
    assert len(again.evidence) == len(seeded.evidence)
    assert file.is_file()
    again.export()
    code, out, err = run("verify", seeded.folder, "--part", 2, "--seed", 0, "--json")
    assert code == 0, out + err
    file.write_bytes(before)


def test_another_seed_copied_in_is_found(seeded: sp.Run, run: Call, tmp_path: Path) -> None:
    import shutil

    forged = tmp_path / "forged"
    shutil.copytree(seeded.folder, forged)
    for file in (forged / "evidence" / "gray-1").rglob("clean-*.parquet"):
        shutil.copy(file, forged / "evidence" / "gray-2" / file.relative_to(forged / "evidence" / "gray-1"))
    code, out, _ = run("verify", forged, "--part", 1, "--seed", 0, "--json")
    assert code == 2
    codes = {one["code"] for one in json.loads(out.splitlines()[-1])["findings"] if one["level"] == "fail"}
    assert "evidence-of-other" in codes
    assert "facts-differ" in codes


@pytest.mark.parametrize("left_out", ["seed", "model"])
def test_a_seed_or_a_model_taken_out_of_a_run_is_found(
    seeded: sp.Run, run: Call, tmp_path: Path, left_out: str
) -> None:
    """Figures could be made better by dropping what is bad."""
    import shutil

    forged = tmp_path / "forged"
    shutil.copytree(seeded.folder, forged)
    record = json.loads((forged / "run.json").read_text())
    if left_out == "seed":
        record["study"]["seeds"] = [3, 1]
    else:
        del record["study"]["models"]["gray"]
    (forged / "run.json").write_text(json.dumps(record))
    for folder in (forged / "evidence").glob("*-2" if left_out == "seed" else "gray-*"):
        shutil.rmtree(folder)
    code, _, err = run("report", forged)
    assert code == 0, err
    code, out, _ = run("verify", forged, "--part", 1, "--seed", 0, "--json")
    assert code == 2
    codes = {one["code"] for one in json.loads(out.splitlines()[-1])["findings"] if one["level"] == "fail"}
    assert {"record-differs", "model-unexpected"} <= codes


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (SMALL + "seeds: [1, 1]\n", "each once"),
        (SMALL + "seeds: []\n", "at least one seed"),
        (SMALL + "seed: 0\nseeds: [1, 2]\n", "stand in place of seed"),
        (SMALL.replace("gray: {model", "gray: {seed: 4, model") + "seeds: [1, 2]\n", "'gray' has a seed of its own"),
        # a model that is not trained has no seed in its name
        (
            SMALL.replace("  gray:", "  plain-1: {model: file:x, train: false}\n  gray:") + "seeds: [1, 2]\n",
            "would be kept",
        ),
        (SMALL + "seeds: [1, -2]\n", "greater than or equal to 0"),
        (SMALL + "seeds: [one]\n", "valid integer"),
    ],
)
def test_seeds_that_make_no_sense(text: str, sentence: str) -> None:
    with pytest.raises(StudyError, match=sentence):
        parse_study(text, "s", "s")


def test_seeds_from_the_command_line_and_their_cost(run: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shiftproof.runs.estimate.PROBE_SECONDS", 0.01)
    Path("s.yaml").write_text(SMALL)
    code, once, err = run("run", "s.yaml", "--estimate", "--json")
    assert code == 0, err
    code, three, err = run("run", "s.yaml", "--seeds", "0,1,2", "--estimate", "--json")
    assert code == 0, err
    passes = [json.loads(out.splitlines()[-1])["forward_passes"] for out in (once, three)]
    assert passes[1] == 3 * passes[0]
    code, _, err = run("run", "s.yaml", "--seeds", "0,x")
    assert code == 1
    assert "seeds" in err
