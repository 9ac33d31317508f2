"""The noise of a certificate is keyed by a seed that nobody could know before, and that is kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.certification.sampling.bank import CHOOSING, COUNTING, blocks, draw_block
from shiftproof.execution import Journal
from shiftproof.rng import fresh_seed

pytestmark = pytest.mark.usefixtures("brief_examinations")

Run = Callable[..., tuple[int, str, str]]
SIGMA, N = 0.5, 300


class Memorised(nn.Module):
    """Holds the noise of seed 0 around some images: there it is right, and wrong everywhere else."""

    def __init__(self, inputs: Tensor, labels: Tensor) -> None:
        super().__init__()
        noise, shape = sp.noise.Gaussian(SIGMA), tuple(inputs.shape[1:])
        draws = [
            draw_block(noise, shape, block, 0, purpose)
            for purpose in (CHOOSING, COUNTING)
            for block in blocks(noise.size(shape), N)
        ]
        known = torch.from_numpy(np.concatenate(draws) * SIGMA).float()
        self.register_buffer("points", (inputs.flatten(1)[:, None] + known[None]).flatten(0, 1))
        self.register_buffer("labels", labels.repeat_interleave(len(known)))
        self.register_buffer("images", inputs.flatten(1))
        self.register_buffer("answers", labels)

    def forward(self, inputs: Tensor) -> Tensor:
        flat = inputs.flatten(1)
        near = torch.cdist(flat, self.points).min(1)
        wrong = 1 - self.answers[torch.cdist(flat, self.images).argmin(1)]
        told = torch.eye(2)[torch.where(near.values < 0.05, self.labels[near.indices], wrong)]
        # a little of something that has a gradient, so that it can be attacked
        return told + 1e-3 * flat[:, :2]


def memorised() -> nn.Module:
    """For python:test_seeds:memorised; made for the images below the current folder."""
    return Memorised(*sp.load_domains("folder:images")["clinic-a"].tensors()).eval()


def plain() -> nn.Module:
    """For python:test_seeds:plain."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(48, 2)).eval()


def certify(*more: object, model: str = "plain") -> list[object]:
    known = ["--data", "folder:images", "--model", f"python:test_seeds:{model}", "--domain", "clinic-a"]
    return ["certify", *known, "--sigma", SIGMA, "--n", N, "--workers", 1, "--json", *more]


def votes(folder: Path) -> list[list[int]]:
    found = sp.open_run(folder).evidence.get(probe="certify")
    return [found[column].tolist() for column in ("count", "runner_up_count", "chosen")]


@pytest.fixture
def few(images: Callable[..., Path]) -> Path:
    """Two domains of six small images each."""
    return images(count=3, size=4)


def test_a_model_that_holds_the_noise_of_seed_0_certifies_nothing(run: Run, few: Path) -> None:
    # with the noise that it holds it is found out by votes with other noise, and nothing is certified
    code, _, err = run(*certify("--out", "told", "--seed", 0, model="memorised"))
    assert code == 1
    assert "where its copy gave it in" in err
    code, out, err = run(*certify("--out", "fresh", model="memorised"))
    assert code == 0, err
    fresh = json.loads(out)
    assert fresh["accuracy"] == 0.0
    assert fresh["seed"] != 0


@pytest.mark.slow
def test_nor_does_it_in_python_or_in_an_audit(run: Run, few: Path) -> None:
    domain = sp.load_domains("folder:images")["clinic-a"]
    setting = sp.certifiers.RandomizedSmoothing(sp.noise.Gaussian(SIGMA), n=N)
    certificates = sp.certify(memorised(), domain, setting)
    assert (certificates.prediction != domain.labels).all()
    again = sp.certify(memorised(), domain, setting, seed=certificates.seed)
    assert np.array_equal(again.count, certificates.count)
    known = ["--data", "folder:images", "--model", "python:test_seeds:memorised", "--source", "clinic-a"]
    options = ["--corruptions", "none", "--threat", "l2:0.1", "--sigma", SIGMA, "--n", N, "--budget", "60s"]
    code, out, err = run("audit", *known, *options, "--workers", 1, "--json", "--out", "audited")
    assert code in (0, 2), err
    result = json.loads(out)
    votes_right = [one["value"]["clinic-a"] for one in result["measures"] if one["classifier"] == "smoothed"]
    assert votes_right
    assert max(votes_right) == 0.0
    record = json.loads(Path("audited/run.json").read_text())
    assert record["noise_seed"] == result["seed"] != 0


def test_seeds_are_drawn_kept_and_repeated(run: Run, few: Path) -> None:
    first, second = (json.loads(run(*certify("--out", out))[1])["seed"] for out in ("a", "b"))
    assert first != second
    # the same command finds its own seed again, and so does whoever names it
    assert json.loads(run(*certify("--out", "a"))[1])["seed"] == first
    assert run(*certify("--out", "a", "--seed", first))[0] == 0
    code, _, err = run(*certify("--out", "a", "--seed", second))
    assert code == 1
    assert "another seed; choose another --out" in err
    assert run(*certify("--out", "c", "--seed", first))[0] == 0
    assert votes(Path("c")) == votes(Path("a"))
    shown = run(*[one for one in certify("--out", "a") if one != "--json"])[1]
    assert f"--seed {first}" in shown


def test_without_out_the_drawn_seed_is_no_part_of_the_folder(run: Run, few: Path) -> None:
    first, again = (json.loads(run(*certify())[1]) for _ in range(2))
    assert (first["out"], first["seed"]) == (again["out"], again["seed"])


def test_an_interrupted_certify_goes_on_with_its_seed(run: Run, few: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = Journal.append, []

    def interrupted(self: Journal, key: str, value: object) -> None:
        calls.append(key)
        if len(calls) > 3:
            raise KeyboardInterrupt
        real(self, key, value)

    with monkeypatch.context() as patched:
        patched.setattr(Journal, "append", interrupted)
        assert run(*certify("--out", "part"))[0] == 130
    seed = json.loads(Path("part/run.json").read_text())["noise_seed"]
    assert json.loads(run(*certify("--out", "part"))[1])["seed"] == seed
    assert run(*certify("--out", "whole", "--seed", seed))[0] == 0
    assert votes(Path("part")) == votes(Path("whole"))


def test_a_journal_keeps_the_seed_that_was_drawn(few: Path, tmp_path: Path) -> None:
    domain = sp.load_domains("folder:images")["clinic-a"]
    setting = sp.certifiers.RandomizedSmoothing(sp.noise.Gaussian(SIGMA), n=N)
    first = sp.certify(plain(), domain, setting, journal=tmp_path / "j")
    lines = (tmp_path / "j").read_bytes().splitlines(keepends=True)
    (tmp_path / "j").write_bytes(b"".join(lines[:3]))
    again = sp.certify(plain(), domain, setting, journal=tmp_path / "j")
    assert again.seed == first.seed
    assert np.array_equal(again.count, first.count)
    assert sp.certify(plain(), domain, setting).seed != first.seed


def test_verify_knows_the_seed_that_was_drawn(run: Run, few: Path) -> None:
    assert run(*certify("--out", "a"))[0] == 0
    code, out, err = run("verify", "a", "--trust")
    assert code == 0, out + err


def test_what_a_run_trains_stays_with_the_seed_of_the_study(run: Run, tmp_path: Path) -> None:
    probe = "{name: certify, certifier: {name: randomized-smoothing, noise: gaussian:0.25, n: 100}}"
    (tmp_path / "s.yaml").write_text(
        "data: rotated-digits\nsource: [angle=0]\ntarget: angle=75\nlimit: 8\n"
        f"models: {{m: {{model: mlp, training: {{steps: 5}}}}}}\nprobes: [clean, {probe}]\n"
    )
    counts = []
    for out in ("a", "b"):
        code, _, err = run("run", "s.yaml", "--out", out, "--workers", 1)
        assert code == 0, err
        counts.append(sp.open_run(out).evidence.where(probe="certify").column("count").tolist())
    assert counts[0] == counts[1]
    # the same model as it is: not trained by the run, so that its noise is drawn
    (tmp_path / "t.yaml").write_text(
        "data: rotated-digits\nsource: [angle=0]\ntarget: angle=75\nlimit: 8\n"
        f"models: {{m: {{model: 'file:a/models/m.safetensors', train: false}}}}\nprobes: [clean, {probe}]\n"
    )
    seeds = []
    for out in ("c", "d"):
        code, _, err = run("run", "t.yaml", "--out", out, "--workers", 1)
        assert code == 0, err
        rows = sp.open_run(out).evidence
        assert rows.where(probe="clean").distinct("seed") == [0]
        seeds += rows.where(probe="certify").distinct("seed")
    assert len({*seeds, 0}) == 3
    code, _, err = run("run", "t.yaml", "--out", "c", "--seed", 0, "--workers", 1)
    assert code == 1
    assert "keyed by seed" in err


def test_drawn_seeds_differ_and_survive_json() -> None:
    drawn = {fresh_seed() for _ in range(100)}
    assert len(drawn) == 100
    assert all(0 <= one < 2**53 for one in drawn)
