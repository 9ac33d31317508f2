"""Machines that lie and processes that end: bfloat16 that kills, workers that die, SIGTERM, an ignored SIGINT."""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from conftest import ignoring_interrupts
from torch import nn

import shiftproof as sp
from shiftproof.errors import ShiftproofError, UsageError
from shiftproof.execution import Compute, bf16, bf16_problem, run_shards, terminate_as_interrupt
from shiftproof.execution.journal import Journal
from shiftproof.execution.signals import describe_exit
from shiftproof.models.outputs import logits_of
from shiftproof.models.prepared.prepare import prepare

Call = Callable[..., tuple[int, str, str]]
KILLED = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"
REPAIRED = f"import os, sys; os.environ.get('{bf16.SETTING}') == '{bf16.REPAIR}' and sys.exit()\n{KILLED}"
PRIMITIVE = "raise RuntimeError('could not create a primitive')"


@pytest.fixture
def trial(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Lets the trial of bfloat16 be another script, on a machine that has not been tried."""
    monkeypatch.delenv(bf16.SETTING, raising=False)
    monkeypatch.delenv(bf16._ANSWER, raising=False)
    monkeypatch.setattr(bf16, "_problems", {})
    return lambda script: monkeypatch.setattr(bf16, "TRIAL", script)


# bfloat16


def test_the_trial_computes_and_is_made_once(trial: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    done = subprocess.run([sys.executable, "-c", bf16.TRIAL], capture_output=True, text=True, check=False)
    trial("")
    assert bf16_problem() is None
    trial(KILLED)
    assert bf16_problem() is None
    # what was started from here knows without a trial of its own
    monkeypatch.setattr(bf16, "_problems", {})
    assert bf16_problem() is None
    # another setting is another machine
    monkeypatch.setenv(bf16.SETTING, "AVX2")
    assert bf16_problem() is not None
    if done.returncode:
        pytest.skip(f"bfloat16 does not work here: {done.stderr}")


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (REPAIRED, ["SIGILL", "With ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 in the environment it works"]),
        (KILLED, ["SIGILL", "with ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 in the environment too", "f32"]),
        (PRIMITIVE, ["RuntimeError: could not create a primitive"]),
        ("raise SystemExit(7)", ["died with exit code 7"]),
    ],
)
def test_what_goes_wrong_with_bf16_is_a_sentence(trial: Callable[[str], None], script: str, words: list[str]) -> None:
    trial(script)
    problem = bf16_problem()
    assert problem is not None
    assert all(word in problem for word in words)
    assert "\n" not in problem


def test_bf16_is_refused_wherever_it_is_used_first(trial: Callable[[str], None]) -> None:
    trial(REPAIRED)
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 2)).eval()
    batch, smoothing = torch.rand(2, 1, 2, 2), sp.certifiers.RandomizedSmoothing(sp.noise.Gaussian(0.25), n=100)
    digits = sp.load_domains("digits")
    with pytest.raises(UsageError, match="SIGILL"):
        prepare(model, (1, 2, 2), compute=Compute("cpu", "bf16"))
    with pytest.raises(UsageError, match="SIGILL"):
        sp.certify(model, (batch, torch.zeros(2, dtype=torch.long)), smoothing, precision="bf16")
    with pytest.raises(UsageError, match="SIGILL"):
        logits_of(nn.Sequential(nn.Flatten(), nn.Linear(4, 2)).to(torch.bfloat16), batch)
    with pytest.raises(UsageError, match="SIGILL"):
        sp.train(sp.build_model("mlp", digits), digits, sp.objectives.AdversarialTraining(precision="bf16", steps=1))


def test_certify_and_doctor_say_what_to_set(run: Call, trial: Callable[[str], None], tmp_path: Path) -> None:
    trial(REPAIRED)
    asked = ["--data", "digits", "--model", "file:nowhere", "--precision", "bf16", "--out", tmp_path / "c"]
    code, out, err = run("certify", *asked)
    assert (code, out) == (1, "")
    assert err.startswith("error: bfloat16 does not work on this machine")
    assert "ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16" in err
    assert err.count("\n") == 1
    code, out, _ = run("doctor", "--json")
    assert code == 0
    finding = {one["code"]: one for one in json.loads(out)["findings"]}["bf16"]
    assert finding["level"] == "warn"
    assert "ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16" in finding["message"]


def test_the_benchmark_leaves_bf16_out(trial: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    trial(KILLED)
    benchmark = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "certify.py"))

    class Team:
        def __init__(self, case: object) -> None:
            self.rate = lambda order: {"f32": 4.0, "raw": 5.0, "openvino": 4.0}[order]
            self.close = lambda: None

    names = benchmark["measure"].__globals__
    monkeypatch.setitem(names, "Team", Team)
    monkeypatch.setitem(names, "textbook_rate", lambda *_: 2.0)
    row = benchmark["measure"](benchmark["CASES"]["mlp"], 2)
    assert row["ratio_bf16"] is None
    assert row["ratio_textbook"] == 2.0


def test_tests_of_bf16_are_skipped_with_the_reason(trial: Callable[[str], None]) -> None:
    from conftest import pytest_runtest_setup

    class Item:
        def get_closest_marker(self, name: str) -> object:
            return name if name == "bf16" else None

    trial(REPAIRED)
    with pytest.raises(pytest.skip.Exception, match="SIGILL"):
        pytest_runtest_setup(Item())  # type: ignore[arg-type]


# workers


def illegal(shard: int) -> Iterator[int]:
    yield shard
    if shard:
        os.kill(os.getpid(), shard)


class DiesWhenUnpacked:
    """A task whose worker is gone before the first shard."""

    def __reduce__(self) -> tuple[object, tuple[int]]:
        return os._exit, (5,)

    def __call__(self, shard: int) -> Iterator[int]:
        yield shard


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (signal.SIGILL, "a worker process died by SIGILL .*ONEDNN_MAX_CPU_ISA"),
        (signal.SIGTERM, "a worker process died by SIGTERM .*run the same command again"),
    ],
)
def test_the_signal_that_ended_a_worker_is_named(number: int, words: str) -> None:
    with pytest.raises(ShiftproofError, match=words):
        list(run_shards(illegal, [0, int(number)], Compute(workers=2), worth=0.0, seconds=1.0))


def test_a_worker_that_ends_before_its_work_is_a_sentence() -> None:
    with pytest.raises(ShiftproofError, match="a worker process died with exit code 5"):
        list(run_shards(DiesWhenUnpacked(), [0, 1], Compute(workers=2), worth=0.0, seconds=1.0))


def test_every_signal_has_its_name() -> None:
    for one in signal.Signals:
        assert describe_exit(-one).startswith(f"died by {one.name}")
    assert "out of memory" in describe_exit(-9)
    assert describe_exit(-200) == "died by signal 200"


# interruptions


def test_sigterm_interrupts_once() -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        with terminate_as_interrupt():
            assert signal.getsignal(signal.SIGTERM) is not before
        assert signal.getsignal(signal.SIGTERM) is before
        heard = []
        with terminate_as_interrupt():
            try:
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(10)
            except KeyboardInterrupt:
                heard.append("first")
            os.kill(os.getpid(), signal.SIGTERM)
        assert heard == ["first"]
        # a process that ignores it goes on doing so
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with terminate_as_interrupt():
            os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)


def certify_for_long(folder: Path, model: Path) -> list[str]:
    asked = ["certify", "--data", "digits", "--model", f"file:{model}", "--sigma", "0.25", "--n", "400000"]
    return [*asked, "--out", str(folder), "--workers", "2"]


def wait_for_votes(process: subprocess.Popen[str], folder: Path) -> Path:
    """The journal, once it holds votes that workers have sent."""
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        for journal in folder.glob("evidence/*/*/*.journal"):
            if len(children(process.pid)) >= 2 and journal.read_bytes().count(b"\n") > 12:
                return journal
        time.sleep(0.05)
    process.kill()
    raise AssertionError(process.communicate())


def children(pid: int) -> list[int]:
    """Processes that were started from `pid`, without the one that multiprocessing keeps for itself."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(one) for one in listed if b"spawn_main" in Path(f"/proc/{one}/cmdline").read_bytes()]


@pytest.fixture
def a_model(tmp_path: Path) -> Path:
    model = sp.build_model("mlp", sp.load_domains("digits"), width=1024).eval()
    sp.save_model(model, tmp_path / "m.safetensors")
    return tmp_path / "m.safetensors"


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="children are looked up in /proc")
def test_sigterm_ends_a_certificate_and_its_workers(tmp_path: Path, a_model: Path) -> None:
    folder = tmp_path / "c"
    command = [sys.executable, "-m", "shiftproof", *certify_for_long(folder, a_model)]
    # a group of its own, with SIGINT ignored, as in the background of a shell; `timeout` ends a job by its group
    with ignoring_interrupts():
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
    journal = wait_for_votes(process, folder)
    workers = children(process.pid)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None
    for _ in range(2):
        os.killpg(process.pid, signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "run the same command again to continue" in err.splitlines()[-1]
    assert "Traceback" not in err
    assert not [one for one in workers if Path(f"/proc/{one}").exists()]
    written = journal.read_bytes()
    identity = json.loads(written.split(b"\n")[0].partition(b" ")[2])["identity"]
    with Journal(journal, identity) as reopened:
        assert reopened.done
    assert journal.read_bytes() == written
