"""Both precisions are measured, and what was measured is said."""

import time
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.domains import Domain
from shiftproof.execution import HERE, Compute
from shiftproof.models.prepared import precisions
from shiftproof.models.prepared.precisions import Speeds, compare_precisions
from shiftproof.models.prepared.prepare import Prepared, prepare

SHAPE = (3, 8, 8)


@pytest.mark.parametrize(
    ("f32", "bf16", "says"),
    [
        (1000.0, 430.0, "0.43 times as fast as f32 here: it does not pay"),
        (1000.0, 1900.0, "1.90 times as fast as f32 here: it pays"),
        (1000.0, 1010.0, "1.01 times as fast as f32 here: it hardly matters"),
        (1000.0, 900.0, "0.90 times as fast as f32 here: it does not pay"),
        (1000.0, 1100.0, "1.10 times as fast as f32 here: it pays"),
    ],
)
def test_what_pays(f32: float, bf16: float, says: str) -> None:
    assert Speeds(f32, bf16).verdict == says


def classifier(name: str) -> nn.Module:
    domain = Domain.from_arrays("d", torch.rand(4, *SHAPE), [0, 1, 2, 0], ["a", "b", "c"])
    return sp.build_model(name, domain, width=8).eval()


@pytest.mark.parametrize(("slower", "says"), [("bf16", "it does not pay"), ("f32", "it pays")])
def test_the_clock_decides(slower: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, int]] = []

    def timed(model: nn.Module, shape: tuple[int, ...], *, compute: Compute = HERE, **more: object) -> Prepared:
        prepared, precision = prepare(model, shape), compute.precision

        def run(inputs: Tensor) -> Tensor:
            seen.append((precision, len(inputs)))
            time.sleep(0.05 if precision == slower else 0.005)
            return prepared.rest(inputs)

        return replace(prepared, rest=run)

    monkeypatch.setattr(precisions, "prepare", timed)
    monkeypatch.setattr(precisions, "TURN_SECONDS", 0.0)
    assert says in compare_precisions(classifier("cnn"), SHAPE).verdict
    # both see as many inputs as votes are cast on at a time
    assert {seen[0][1]} == {count for _, count in seen}


def test_a_slow_model_sees_fewer_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []

    def slow(model: nn.Module, shape: tuple[int, ...], **_: object) -> Prepared:
        prepared = prepare(model, shape)

        def run(inputs: Tensor) -> Tensor:
            counts.append(len(inputs))
            time.sleep(0.001 * len(inputs))
            return prepared.rest(inputs)

        return replace(prepared, rest=run)

    monkeypatch.setattr(precisions, "prepare", slow)
    monkeypatch.setattr(precisions, "TURN_SECONDS", 0.0)
    monkeypatch.setattr(precisions, "LONGEST_PASS", 0.02)
    compare_precisions(classifier("cnn"), SHAPE)
    assert counts[0] == prepare(classifier("cnn"), SHAPE).slice_size
    assert 1 <= counts[-1] <= 20


@pytest.mark.bf16
@pytest.mark.parametrize("name", ["cnn", "mlp"])
def test_both_are_run(name: str) -> None:
    speeds = compare_precisions(classifier(name), SHAPE)
    assert speeds.f32 > 0
    assert speeds.bf16 > 0
