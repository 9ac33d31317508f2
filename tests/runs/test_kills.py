"""Killed with -9 at random moments and run again, every verb ends with what it would have had undisturbed."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
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
    hits = 0
    for _ in range(3 * times):
        began = time.monotonic()
        if kill_at_random(verb, Path("killed"), seconds, generator):
            hits += 1
            if hits == times:
                break
        else:
            # it was done before its time came: from the beginning, and sooner
            shutil.rmtree("killed")
            seconds = min(seconds, time.monotonic() - began)
    assert hits == times
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


NURSERY = """
import json, os, sys
import shiftproof.cli.main, shiftproof.runs.audit, shiftproof.runs.verify, shiftproof.report.page, vl_convert, pydantic
import rich.progress, scipy.optimize, scipy.stats, sklearn.datasets, torch
torch.set_num_threads(1)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        folder, *arguments = json.loads(line)
        os.chdir(folder)
        os.dup2(os.open("log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 1)
        os.dup2(1, 2)
        shiftproof.cli.main.main(arguments)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Starts commands as its children, which have all imports behind them: two kills of every verb then take seconds."""
SMALLER = {
    "train": [*VERBS["train"][:-3], "training.steps=250", "--seed", "1"],
    "certify": ["certify", *DATA, *MODEL, "--limit", "20", "--n", "2000", "--sigma", "0.25,0.5", "--seed", "1"],
    "attack": ["attack", *DATA, *MODEL, "--limit", "64", "--threat", "l2:0.5", "--eps", "0.1,0.5", "--seed", "1"],
    "run": ["run", "study.yaml", "--set", "training.steps=100", "--limit", "20"],
    "audit": [
        *("audit", *DATA, *MODEL, "--target", "e=0.9", "--limit", "8", "--n", "500", "--seed", "1"),
        # the ensemble of attacks takes three times as long, and is killed in test_killed_ten_times
        *("--corruptions", "fog", "--severities", "3", "--threat", "rotation:0.1"),
    ],
}


class Nursery:
    """A process whose children run commands."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", NURSERY]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True
        )

    def run(self, arguments: list[str], kill_after: float | None = None) -> int:
        """The exit code in the folder of the test; -9 if it was killed after so many seconds."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([str(Path.cwd()), *arguments]) + "\n")
        self.process.stdin.flush()
        child = int(self.process.stdout.readline())
        if kill_after is not None:
            timer = threading.Timer(kill_after, os.kill, (child, signal.SIGKILL))
            timer.start()
        code = int(self.process.stdout.readline())
        if kill_after is not None:
            timer.cancel()
        return code


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    """One for all verbs: to start it takes longer than most of them."""
    started = Nursery()
    yield started
    started.process.kill()
    started.process.communicate()


@pytest.mark.usefixtures("_made")
@pytest.mark.parametrize(
    "verb",
    # the engine that continues is one for all verbs; the others are killed ten times each below, by hand
    [verb if verb == "run" else pytest.param(verb, marks=pytest.mark.slow) for verb in SMALLER],
)
def test_killed_twice(verb: str, nursery: Nursery) -> None:
    generator = random.Random(verb)
    whole, killed = ([*SMALLER[verb], "--out", name, "--workers", "1"] for name in ("whole", "killed"))
    began = time.monotonic()
    assert nursery.run(whole) in (0, 2), Path("log.txt").read_text()
    seconds = time.monotonic() - began
    hits = 0
    for _ in range(8):
        began = time.monotonic()
        if nursery.run(killed, generator.uniform(0.1, 0.8) * seconds) == -signal.SIGKILL:
            hits += 1
            if hits == 2:
                break
        else:
            # it was done before its time came: from the beginning, and sooner
            shutil.rmtree("killed")
            hits, seconds = 0, time.monotonic() - began
    assert hits == 2
    assert nursery.run(killed) in (0, 2), Path("log.txt").read_text()
    same(Path("whole"), Path("killed"))
    assert nursery.run(["report", "killed", "--format", "csv"]) == 0
    assert nursery.run(["verify", "killed", "--part", "2", "--seed", "1"]) == 0, Path("log.txt").read_text()
