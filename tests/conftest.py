"""Shared fixtures. No test writes to the home directory: data and runs go to temporary folders."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from shiftproof.execution import bf16_problem

HAS_DATA = Path(os.environ.get("SHIFTPROOF_DATA", "")).joinpath("mnist.npz").is_file()
needs_data = pytest.mark.skipif(not HAS_DATA, reason="SHIFTPROOF_DATA does not hold the data sets")


@contextmanager
def ignoring_interrupts() -> Iterator[None]:
    """As in a shell's background job: SIGINT is ignored here, and in what is started from here."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what computes in bfloat16 where that would end the process that runs the tests."""
    if item.get_closest_marker("bf16") is not None and (problem := bf16_problem()) is not None:
        pytest.skip(problem)


@pytest.fixture(scope="session", autouse=True)
def _no_index_at_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """For what a fixture of a whole module reads, before any of its tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHIFTPROOF_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def _away_from_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("SHIFTPROOF_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    torch.set_num_threads(1)
    # what a test draws without a generator of its own must not depend on the tests that ran before it
    torch.manual_seed(0)


@pytest.fixture(scope="module")
def least_effort() -> Iterator[None]:
    """Audits ask as little as they can: what they say is looked at, not how hard they tried."""
    from shiftproof.runs import efforts

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(efforts, "DEFAULT", efforts.EFFORTS[-1])
        yield


@pytest.fixture
def brief_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials end after a moment: that a time is foreseen is looked at, not how well."""
    monkeypatch.setattr("shiftproof.probes.costs._TRIAL_SECONDS", 0.02)
    monkeypatch.setattr("shiftproof.certification.sampling.estimate.RATE_SECONDS", 0.02)
    monkeypatch.setattr("shiftproof.runs.estimate.PROBE_SECONDS", 0.05)


@pytest.fixture
def no_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every probe is said to take a hundredth of a second a sample, untried: nobody asks how long an audit takes."""
    from shiftproof.runs.trial import Stopwatch

    monkeypatch.setattr(Stopwatch, "each", lambda *_: 0.01)


def _examine_briefly(patch: pytest.MonkeyPatch) -> None:
    for module in ("validity", "validity_attacks"):
        patch.setattr(f"shiftproof.attacks.{module}.STEPS", 10)
    patch.setattr("shiftproof.attacks.validity_attacks._QUERIES", 20)


@pytest.fixture
def brief_examination(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model is examined with few steps and queries: nobody asks what is found, only that an audit goes on."""
    _examine_briefly(monkeypatch)


@pytest.fixture(scope="module")
def brief_examinations() -> Iterator[None]:
    """The same for all of a module, with what its own fixtures measure."""
    with pytest.MonkeyPatch.context() as patch:
        _examine_briefly(patch)
        yield


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs a command line in process: (exit code, stdout, stderr)."""
    from shiftproof.cli.main import main

    def call(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stopped:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return int(stopped.value.code or 0), captured.out, captured.err

    return call


@pytest.fixture(scope="session")
def model() -> torch.nn.Module:
    """A network that knows the digits a little."""
    from smoothed import trained

    torch.set_num_threads(1)
    return trained()


@pytest.fixture
def images(tmp_path: Path) -> Callable[..., Path]:
    """Makes root/domain/class/image.png trees of small random images."""

    def make(
        domains: tuple[str, ...] = ("clinic-a", "clinic-b"),
        classes: tuple[str, ...] = ("cat", "dog"),
        count: int = 12,
        size: int = 8,
        mode: str = "RGB",
        root: str = "images",
    ) -> Path:
        generator = np.random.default_rng(0)
        for domain in domains:
            for number, label in enumerate(classes):
                folder = tmp_path / root / domain / label
                folder.mkdir(parents=True)
                for index in range(count):
                    Image.fromarray(pixels(generator, size, mode, number)).save(folder / f"{index}.png")
        return tmp_path / root

    return make


def pixels(generator: np.random.Generator, size: int, mode: str, brightness: int = 0) -> np.ndarray:
    """A random image array: RGB and L have 8 bits, I;16 has 16."""
    shape = (size, size, 3) if mode == "RGB" else (size, size)
    if mode == "I;16":
        return generator.integers(0, 30_000, shape).astype(np.uint16) + np.uint16(30_000 * brightness)
    return (generator.integers(0, 128, shape) + 100 * brightness).astype(np.uint8)
