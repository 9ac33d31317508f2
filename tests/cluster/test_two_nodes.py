"""Two Ray nodes on this machine: the same evidence as one process, whatever is killed; and only with a token."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from cluster.conftest import TwoNodes

pytestmark = pytest.mark.slow

SIX_MODELS = """
name: six
data: {name: colored-digits}
target: e=0.9
limit: 60
seeds: [0, 1, 2]
models:
  plain: {model: {name: mlp, width: 32}, objective: {name: erm}, training: {steps: 60}}
  noisy: {model: {name: mlp, width: 32}, objective: {name: gaussian, sigma: 0.25}, training: {steps: 60}}
probes:
  - clean
  - {name: attack, attack: {name: pgd, threat: "linf:8/255", steps: 5}}
  - {name: certify, certifier: {name: randomized-smoothing, noise: "gaussian:0.25", n: 2000}}
"""


def shiftproof(environment: dict[str, str], folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "shiftproof", *arguments]
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=600)


def evidence(run: Path) -> dict[str, str]:
    """All columns of a run but the times; as texts, in which what is not a number equals itself."""
    files = sorted((run / "evidence").rglob("*.parquet"))
    return {path.relative_to(run).as_posix(): str(pq.read_table(path).drop(["seconds"]).to_pylist()) for path in files}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    arguments = "train --data colored-digits --target e=0.9 --model mlp --objective gaussian --set training.steps=80"
    done = shiftproof(dict(os.environ), folder, *arguments.split(), "--out", str(folder / "run"))
    assert done.returncode == 0, done.stderr
    return folder / "run"


def audit(model: Path, out: Path) -> list[str]:
    asked = "--data colored-digits --target e=0.9 --limit 40 --n 1000 --seed 5 --corruptions fog --severities 3"
    return ["audit", "--model", f"file:{model}", *asked.split(), "--out", str(out)]


def test_an_audit_is_that_of_one_process(two_nodes: TwoNodes, model: Path, tmp_path: Path) -> None:
    here = shiftproof(dict(os.environ), tmp_path, *audit(model, tmp_path / "here"), "--workers", "1")
    there = shiftproof(two_nodes.environment, tmp_path, *audit(model, tmp_path / "there"), "--cluster", "ray")
    assert here.returncode == there.returncode == 0, there.stderr
    assert evidence(tmp_path / "there") == evidence(tmp_path / "here")


def test_a_study_of_six_models_is_that_of_one_process(two_nodes: TwoNodes, tmp_path: Path) -> None:
    (tmp_path / "six.yaml").write_text(SIX_MODELS)
    here = shiftproof(dict(os.environ), tmp_path, "run", "six.yaml", "--out", "here", "--workers", "1")
    there = shiftproof(two_nodes.environment, tmp_path, "run", "six.yaml", "--out", "there", "--cluster", "ray")
    assert here.returncode == there.returncode == 0, there.stderr
    assert len(evidence(tmp_path / "here")) == 6 * 3 * 3
    assert evidence(tmp_path / "there") == evidence(tmp_path / "here")
    assert "training models: 6/6" in there.stderr
    weights = [sorted((tmp_path / run / "models").glob("*.safetensors")) for run in ("here", "there")]
    assert [path.read_bytes() for path in weights[0]] == [path.read_bytes() for path in weights[1]]


@pytest.mark.parametrize("token", ["none", "wrong"])
def test_without_the_token_nobody_is_let_in(two_nodes: TwoNodes, token: str, tmp_path: Path) -> None:
    environment = {**two_nodes.environment, "HOME": str(tmp_path)}
    del environment["RAY_AUTH_TOKEN_PATH"]
    if token == "wrong":
        environment["RAY_AUTH_TOKEN"] = "0" * 64
    done = shiftproof(environment, tmp_path, "run", "quickstart", "--cluster", "ray", "--out", "run")
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: the Ray cluster {two_nodes.address} does not accept this process's token")
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_workers_and_a_node_that_are_killed_change_nothing(two_nodes: TwoNodes, model: Path, tmp_path: Path) -> None:
    asked = f"certify --model file:{model} --data colored-digits --domain e=0.9 --limit 60 --n 100000 --seed 7"
    here = shiftproof(dict(os.environ), tmp_path, *asked.split(), "--workers", "2", "--out", "here")
    assert here.returncode == 0, here.stderr
    command = [sys.executable, "-m", "shiftproof", *asked.split(), "--cluster", "ray", "--out", "there"]
    with subprocess.Popen(
        command, env=two_nodes.environment, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as there:
        worker = until(lambda: child_of(two_nodes.second, "run_shard"), there)
        until(lambda: journal_of(tmp_path / "there"), there)
        os.kill(worker, signal.SIGKILL)
        until(lambda: child_of(two_nodes.second, "run_shard", worker), there)
        mailbox = until(lambda: child_of(two_nodes.head, "Mailbox"), there)
        os.kill(mailbox, signal.SIGKILL)
        until(lambda: child_of(two_nodes.head, "Mailbox", mailbox), there)
        until(lambda: child_of(two_nodes.second, "run_shard"), there)
        os.kill(two_nodes.second, signal.SIGKILL)
        _, said = there.communicate(timeout=600)
    assert there.returncode == 0, said
    assert evidence(tmp_path / "there") == evidence(tmp_path / "here")


def until(find: Callable[[], Any], process: subprocess.Popen[str], seconds: float = 120.0) -> Any:
    """What is found, as soon as it is there; the process must not end before."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := find():
            return found
        assert process.poll() is None, "it ended before anything could be killed"
        time.sleep(0.05)
    raise AssertionError("nothing was found to be killed")


def child_of(raylet: int, what: str, other_than: int = 0) -> int | None:
    """A process of a node that runs something now."""
    listed = subprocess.run(["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()[1:]]
    own = (int(pid) for pid, parent, name in rows if int(parent) == raylet and f"ray::{what}" in name)
    return next((pid for pid in own if pid != other_than), None)


def journal_of(run: Path) -> Path | None:
    """The journal of a run that has votes in it."""
    return next((one for one in run.rglob("*.journal") if one.stat().st_size > 5_000), None)
