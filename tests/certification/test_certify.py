"""Certifying: nothing but image and noise index matters, and what voids a guarantee is refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from smoothed import dense, digits, smoothing
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.errors import ModelError, ShiftproofError
from shiftproof.execution import always_in_workers

# nothing but image and noise index matters


def counts_of(certificates: sp.Certificates) -> list[tuple[str, int, int, int, int]]:
    columns = zip(
        certificates.ids,
        certificates.chosen,
        certificates.count,
        certificates.runner_up_count,
        certificates.n,
        strict=True,
    )
    return sorted((str(i), int(a), int(k), int(b), int(n)) for i, a, k, b, n in columns)


@pytest.mark.parametrize("stop", [pytest.param("full", marks=pytest.mark.slow), "radii:0,0.1,0.2,0.4"])
def test_order_subset_and_workers_change_no_vote(model: nn.Module, stop: str) -> None:
    setting = smoothing(n=600, stop=stop)
    domain = digits(30)
    alone = counts_of(sp.certify(model, domain, setting, seed=0))
    shuffled = domain.subset(np.random.default_rng(0).permutation(len(domain)))
    assert counts_of(sp.certify(model, shuffled, setting, seed=0)) == alone
    some = domain.subset([3, 17, 5])
    assert set(counts_of(sp.certify(model, some, setting, seed=0))) <= set(alone)
    with always_in_workers():
        assert counts_of(sp.certify(model, domain, setting, workers=2, seed=0)) == alone
    together = sp.certify(model, domain, [setting, replace(setting, noise=sp.noise.Gaussian(0.5))], seed=0)
    assert counts_of(together[0]) == alone


def test_a_job_that_stops_anywhere_continues_to_the_same_votes(model: nn.Module, tmp_path: Path) -> None:
    setting = smoothing(n=700, stop="radii:0,0.1,0.2")
    domain = digits(10)
    whole = counts_of(sp.certify(model, domain, setting, seed=0))
    path = tmp_path / "certify.journal"
    sp.certify(model, domain, setting, journal=path, seed=0)
    content = path.read_bytes()
    lines = content.splitlines(keepends=True)
    for kept in (1, 2, 11, 15, len(lines) - 1):
        path.write_bytes(b"".join(lines[:kept]) + b"torn")
        assert counts_of(sp.certify(model, domain, setting, journal=path, seed=0)) == whole
    assert path.read_bytes().splitlines()[0] == lines[0].rstrip(b"\n")
    other = sp.certify(model, domain, setting, journal=path, seed=1)
    assert counts_of(other) != whole, "a journal of another seed is not taken over"


KILLED = """
import sys, numpy as np, torch, shiftproof as sp
from pathlib import Path
from shiftproof.execution import always_in_workers
torch.set_num_threads(1)
if __name__ == "__main__":
    domain = sp.load_domains("digits")["digits"].subset(np.arange(24))
    model = sp.load_model("file:" + sys.argv[1])
    setting = sp.certifiers.RandomizedSmoothing(sp.noise.Gaussian(0.25), n=6_000)
    with always_in_workers():
        c = sp.certify(model, domain, setting, journal=sys.argv[2], seed=0, workers=int(sys.argv[3]), progress="off")
    c.save(sys.argv[4])
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_kill_nine_loses_at_most_what_is_in_flight(model: nn.Module, tmp_path: Path, workers: int) -> None:
    sp.save_model(model, tmp_path / "m.safetensors")
    (tmp_path / "run.py").write_text(KILLED)
    journal, result = tmp_path / "j", tmp_path / "c.parquet"
    command = [sys.executable, "run.py", "m.safetensors", str(journal), str(workers), str(result)]
    kept = []
    for _ in range(2):
        process = subprocess.Popen(command, cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"})
        before = len(journal.read_bytes().splitlines()) if journal.exists() else 0
        while process.poll() is None and (not journal.exists() or len(journal.read_bytes().splitlines()) < before + 40):
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        kept.append(len(journal.read_bytes().splitlines()))
    assert kept[1] > kept[0] > 1
    subprocess.run(command, cwd=tmp_path, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    resumed = sp.Certificates.load(result)
    whole = sp.certify(model, digits(24), smoothing(n=6_000), seed=0)
    assert counts_of(resumed) == counts_of(whole)
    assert np.array_equal(resumed.radius, whole.radius)


def test_a_larger_n_changes_no_vote(model: nn.Module, tmp_path: Path) -> None:
    """The first 256 of 1,000 votes are the 256 votes of a run that asks for no more."""
    few = sp.certify(model, digits(6), smoothing(n=256), seed=0)
    journal = tmp_path / "a.journal"
    sp.certify(model, digits(6), smoothing(n=1_000), journal=journal, seed=0)
    lines = [json.loads(line[line.index("{") :]) for line in journal.read_text().splitlines()[1:]]
    seen = {line["key"]: line["value"] for line in lines if line["value"][0] >= 0 and line["value"][1] == 256}
    assert len(seen) == 6
    for image in range(6):
        chosen, _, classes, counts = seen[f"0:{image}"]
        assert chosen == few.chosen[image]
        assert dict(zip(classes, counts, strict=True)).get(chosen, 0) == few.count[image]


def test_padding_does_not_count(model: nn.Module) -> None:
    certificates = sp.certify(model, digits(3), smoothing(n=333, n0=7, runner_up=True), seed=0)
    assert (certificates.n == 333).all()
    assert (certificates.count + certificates.runner_up_count <= 333).all()


# what voids a guarantee


class Random(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        return torch.stack([inputs.flatten(1).sum(1), torch.rand(len(inputs))], 1)


class HardlyRandom(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        return torch.stack([inputs.flatten(1).sum(1), 1e-5 * torch.rand(len(inputs))], 1)


class OfTheBatch(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        flat = inputs.flatten(1)
        return torch.stack([flat.sum(1) - flat.sum(1).mean(), flat.mean(1)], 1)


class NotANumber(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        return torch.full((len(inputs), 2), float("nan"))


class NotANumberFarAway(nn.Module):
    """A number on clean images, none on very noisy ones."""

    def forward(self, inputs: Tensor) -> Tensor:
        logits = torch.stack([inputs.flatten(1).sum(1), -inputs.flatten(1).sum(1)], 1)
        return torch.where((inputs.flatten(1).abs().amax(1) > 8)[:, None], torch.full_like(logits, torch.nan), logits)


def dropping() -> nn.Module:
    model = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, 10)).eval()
    model[1].train()
    return model


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), "train mode"),
        (dropping(), "Dropout.*train mode"),
        (Random().eval(), "random"),
        (HardlyRandom().eval(), "random"),
        (OfTheBatch().eval(), "other samples in its batch"),
        (
            nn.Sequential(nn.BatchNorm2d(1, track_running_stats=False), nn.Flatten(), nn.Linear(64, 10)).eval(),
            "other samples in its batch",
        ),
        (NotANumber().eval(), "not numbers"),
        (dense(1), "one class"),
        (nn.Sequential(nn.Flatten(), nn.Linear(63, 10)).eval(), "does not take inputs of shape"),
        (nn.Sequential(nn.Flatten(), nn.Linear(64, 3)).eval(), "3 outputs, but the data has 10"),
        (nn.Flatten().eval(), None),
    ],
)
def test_models_that_are_no_fixed_function_are_refused(model: nn.Module, sentence: str | None) -> None:
    if sentence is None:
        assert len(sp.certify(model, digits(2), smoothing(n=16), seed=0)) == 2
        return
    two = isinstance(model, Random | HardlyRandom | OfTheBatch | NotANumber)
    data = (torch.rand(4, 1, 8, 8), torch.tensor([0, 1, 0, 1])) if two else digits(4)
    with pytest.raises(ModelError, match=sentence):
        sp.certify(model, data, smoothing(n=16), seed=0)


def test_a_model_that_fails_on_noise_alone_is_refused() -> None:
    pair = torch.rand(2, 1, 8, 8), torch.tensor([0, 1])
    with pytest.raises(ModelError, match="not numbers.*on noisy inputs"):
        sp.certify(NotANumberFarAway().eval(), pair, smoothing(noise="gaussian:5", n=300), seed=0)


@pytest.mark.parametrize(
    "attempt",
    [
        lambda: smoothing(noise="gaussian:0"),
        lambda: smoothing(noise="gaussian:-1"),
        lambda: smoothing(noise="gaussian:nan"),
        lambda: sp.certify(dense(10), digits(2), smoothing(noise="gaussian:1000", n=16), seed=0),
        lambda: smoothing(n0=0),
        lambda: smoothing(n=0),
        lambda: smoothing(n=1.5),
        lambda: smoothing(alpha=0.0),
        lambda: smoothing(alpha=1.0),
        lambda: smoothing(alpha="a tenth"),
        lambda: smoothing(alpha=float("nan")),
        lambda: smoothing(noise=0.25),
        lambda: smoothing(stop="soon"),
        lambda: sp.certify(dense(10), digits(2), "randomized-smoothing", seed=0),
        lambda: sp.certify(dense(10), digits(2), [], seed=0),
        lambda: sp.certify(dense(10), digits(2), smoothing(), seed=-1),
        lambda: sp.certify(dense(10), digits(2), smoothing(), workers=0, seed=0),
        lambda: sp.certify(dense(10), digits(2), smoothing(), precision="f16", seed=0),
        lambda: sp.certify(dense(10), digits(2), smoothing(), backend="abacus", seed=0),
        lambda: sp.certify(dense(), (torch.zeros(0, 1, 8, 8), torch.zeros(0, dtype=torch.long)), smoothing(), seed=0),
        lambda: sp.certify(dense(), (torch.full((2, 1, 8, 8), torch.nan), torch.tensor([0, 1])), smoothing(), seed=0),
        lambda: sp.certify(dense(), (torch.zeros(2, 1, 7, 8), torch.tensor([0, 1])), smoothing(), seed=0),
        lambda: sp.certify(dense(), (255 * torch.ones(2, 1, 8, 8), torch.tensor([0, 1])), smoothing(), seed=0),
        lambda: sp.certify(dense(), sp.load_domains("colored-digits"), smoothing(), seed=0),
        lambda: sp.certify(dense(10), digits(2), [smoothing(), smoothing(noise="uniform:0.5")], seed=0),
    ],
)
def test_bad_input_gets_a_sentence(attempt: object) -> None:
    with pytest.raises(ShiftproofError) as caught:
        attempt()  # type: ignore[operator]
    assert len(str(caught.value)) > 20
    assert "\n" not in str(caught.value)


class Turned(nn.Module):
    """Equal weights, another function."""

    def __init__(self, sign: float) -> None:
        super().__init__()
        self.sign = sign
        self.head = nn.Linear(64, 10)
        self.head.weight.data.copy_(torch.linspace(-1, 1, 640).view(10, 64))
        self.head.bias.data.zero_()

    def forward(self, inputs: Tensor) -> Tensor:
        return self.sign * self.head(inputs.flatten(1))


def test_votes_of_another_function_are_not_taken_over(tmp_path: Path) -> None:
    plus, minus = Turned(1.0).eval(), Turned(-1.0).eval()
    sp.certify(plus, digits(4), smoothing(n=100), journal=tmp_path / "j", seed=0)
    taken = sp.certify(minus, digits(4), smoothing(n=100), journal=tmp_path / "j", seed=0)
    assert np.array_equal(taken.chosen, sp.certify(minus, digits(4), smoothing(n=100), seed=0).chosen)


@pytest.mark.bf16
def test_models_of_other_kinds_are_certified() -> None:
    for kind in (torch.float64, torch.bfloat16):
        certificates = sp.certify(dense(10).to(kind), digits(2), smoothing(n=50), seed=0)
        assert len(certificates) == 2
    assert len(sp.certify(dense(10), digits(2), smoothing(n=np.int64(50)), seed=0)) == 2
    flat = torch.rand(3, 64), torch.tensor([0, 1, 0])
    assert len(sp.certify(nn.Linear(64, 2).eval(), flat, smoothing(n=50), seed=0)) == 3
