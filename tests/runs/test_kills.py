"""Killed with -9 at random moments and run again, every verb ends with what it would have had undisturbed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import shiftproof as sp
from shiftproof.evidence import EvidenceStore
from shiftproof.execution.tables import hash_table

DATA = ["--data", "colored-digits"]
MODEL = ["--model", "file:model.safetensors", "--set", "model.architecture=mlp", "--set", "model.width=64"]
STUDY = """
data: colored-digits
target: e=0.9
limit: 60
seed: 1
models:
  gray: {model: {name: mlp, gray: true, width: 64}, objective: {name: gaussian, sigma: 0.25}, training: {steps: 600}}
probes:
  - clean
  - {name: attack, attack: {threat: "l2:0.25", steps: 40}}
  - {name: certify, certifier: {noise: "gaussian:0.25", n: 4000}}
"""
VERBS = {
    "train": ["train", *DATA, "--target", "e=0.9", "--model", "mlp", "--set", "training.steps=1500", "--seed", "1"],
    "certify": ["certify", *DATA, *MODEL, "--limit", "60", "--n", "8000", "--sigma", "0.25,0.5", "--seed", "1"],
    "attack": ["attack", *DATA, *MODEL, "--limit", "150", "--threat", "l2:0.5", "--eps", "0.1,0.25,0.5", "--seed", "1"],
    "run": ["run", "study.yaml"],
    "audit": ["audit", *DATA, *MODEL, "--target", "e=0.9", "--limit", "20", "--n", "1000", "--seed", "1"],
}


def start(verb: str, folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "shiftproof", *VERBS[verb], "--out", str(folder), "--workers", "2"]
    command = [part for part in command if verb != "train" or part not in ("--workers", "2")]
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True, env=dict(os.environ)
    )


def finish(verb: str, folder: Path) -> float:
    began = time.monotonic()
    process = start(verb, folder)
    _, err = process.communicate(timeout=300)
    assert process.returncode in (0, 2), err.decode()
    return time.monotonic() - began


def kill_at_random(verb: str, folder: Path, seconds: float, generator: random.Random) -> bool:
    """Whether it was still running."""
    process = start(verb, folder)
    try:
        process.communicate(timeout=generator.uniform(0.3, 0.95) * seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return True
    return False


def same(one: Path, other: Path) -> None:
    """Evidence and weights of two runs, bit by bit, but for the time that was measured."""
    left, right = (EvidenceStore(folder / "evidence").read() for folder in (one, other))
    assert len(left) == len(right) > 0
    for first, second in zip(left, right, strict=True):
        assert dict(first.facts) == dict(second.facts)
        assert hash_table(first.table.drop(["seconds"])) == hash_table(second.table.drop(["seconds"]))
    files = sorted(path.relative_to(one) for path in one.rglob("*.safetensors"))
    assert files == sorted(path.relative_to(other) for path in other.rglob("*.safetensors"))
    for file in files:
        weights, again = load_file(one / file), load_file(other / file)
        assert weights.keys() == again.keys()
        assert all(torch.equal(weights[name], again[name]) for name in weights)
    assert not list(other.rglob("*.journal"))


@pytest.fixture
def _made(tmp_path: Path) -> None:
    Path("study.yaml").write_text(STUDY)
    model = sp.build_model("mlp", sp.load_domains("colored-digits"), width=64, seed=4)
    sp.save_model(model.eval(), Path("model.safetensors"))


def ends_the_same(verb: str, times: int) -> None:
    """Killed so many times, it has the evidence and weights of an undisturbed run; report and verify take it."""
    seconds = finish(verb, Path("whole"))
    generator = random.Random(f"{verb} {times}")
    hits = sum(kill_at_random(verb, Path("killed"), seconds, generator) for _ in range(times))
    assert hits
    finish(verb, Path("killed"))
    same(Path("whole"), Path("killed"))
    for command in (["report", "killed", "--format", "csv"], ["verify", "killed", "--part", "2", "--seed", "1"]):
        done = subprocess.run([sys.executable, "-m", "shiftproof", *command], capture_output=True, check=False)
        assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()


@pytest.mark.slow
@pytest.mark.usefixtures("_made")
@pytest.mark.parametrize("verb", VERBS)
def test_killed_ten_times(verb: str) -> None:
    ends_the_same(verb, 10)
