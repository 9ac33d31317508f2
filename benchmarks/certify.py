"""How fast certificates come: our engine against the loop that everybody writes first, and against the bare model.

    python benchmarks/certify.py [--quick] [--json] [--cases mlp,cnn,preact-resnet18]

The textbook loop takes one image at a time, repeats it, adds fresh noise, counts the winners; it has two threads, and
is measured at batch 1000 and at its best batch. Our engine has two single-threaded workers, which are started before
the clock is; it is timed over whole blocks of noise, with the draws and the votes that are asked again of the model
itself. `raw` is how fast the same two workers run the prepared model on inputs that are already there. All of them
take turns of a second or more, and of many rounds the best counts. Only ratios are a claim. bf16 is compared with the
loop in f32; on a processor without bf16 instructions it is slower than f32, and where a trial of it fails it is left
out. `openvino` is our engine against itself with the backend of that name, on the same cores, where it is installed.
"""

import argparse
import importlib.util
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from shiftproof.certification.certifier import Job, Memory
from shiftproof.certification.certifiers.randomized_smoothing import RandomizedSmoothing
from shiftproof.certification.sampling.engine import Sampling, Work
from shiftproof.domains import Domain
from shiftproof.execution import Backend, Compute, Precision, bf16_problem, keep_freed_memory
from shiftproof.execution.signals import describe_exit
from shiftproof.models import build_model
from shiftproof.models.prepared.prepare import Prepared
from shiftproof.perturbations.noise.gaussian import Gaussian

SIGMA, N = 0.5, 100_000
WORKERS = THREADS = 2
BATCHES = (16, 32, 64, 128, 256, 512, 1000)
TURN_SECONDS = 1.0


@dataclass(frozen=True)
class Case:
    """A model, on how many images it votes, and after how many votes an image it starts again."""

    model: str
    options: dict[str, Any]
    shape: tuple[int, ...]
    classes: int
    images: int
    lap: int

    def domain(self) -> Domain:
        """Random images."""
        pixels = np.random.default_rng(0).integers(0, 256, (self.images, *self.shape), np.uint8)
        labels = np.arange(self.images) % self.classes
        return Domain.from_arrays("random", pixels, labels, [str(i) for i in range(self.classes)])

    def build(self) -> nn.Module:
        """A fresh network in eval mode; how it was trained does not change its speed."""
        return build_model(self.model, self.domain(), **self.options).eval()


CASES = {
    "mlp": Case("mlp", {"width": 390}, (2, 28, 28), 2, 256, 8_192),
    "cnn": Case("cnn", {}, (3, 32, 32), 10, 16, 4_096),
    "preact-resnet18": Case("preact-resnet18", {}, (3, 32, 32), 10, 4, 256),
}


def textbook(model: nn.Module, image: Tensor, n: int, batch: int, classes: int) -> Tensor:
    """Votes on one image, as it is usually written."""
    counts = torch.zeros(classes, dtype=torch.long)
    with torch.no_grad():
        while n > 0:
            size = min(batch, n)
            n -= size
            repeated = image.repeat((size, 1, 1, 1))
            noise = torch.randn_like(repeated) * SIGMA
            counts += torch.bincount(model(repeated + noise).argmax(1), minlength=classes)
    return counts


def textbook_rate(case: Case, model: nn.Module, batch: int) -> float:
    """Forward passes a second of the textbook loop, over a turn or one batch, whichever is longer."""
    image = case.domain().take([0])[0]
    passes, began = 0, time.perf_counter()
    while passes == 0 or time.perf_counter() - began < TURN_SECONDS:
        textbook(model, image, batch, batch, case.classes)
        passes += batch
    return passes / (time.perf_counter() - began)


def worker(connection: Connection, case: Case) -> None:
    """Answer 'f32', 'bf16', 'openvino' or 'raw' with forward passes a second, measured over a turn."""
    keep_freed_memory()
    torch.set_num_threads(1)
    contestants = {
        "f32": _engine(_work(case, "f32"), case),
        **({"bf16": _engine(_work(case, "bf16"), case)} if bf16_problem() is None else {}),
        **({"openvino": _engine(_work(case, "f32", "openvino"), case)} if has_openvino() else {}),
        "raw": _raw(_work(case, "f32").sampling.prepared[0], case),
    }
    for contestant in contestants.values():
        next(contestant)
    connection.send("ready")
    while (order := connection.recv()) is not None:
        passes, began = 0, time.perf_counter()
        while passes == 0 or time.perf_counter() - began < TURN_SECONDS:
            passes += next(contestants[order])
        connection.send(passes / (time.perf_counter() - began))


def _engine(work: Work, case: Case) -> Iterator[int]:
    """Votes of all images under one block of noise after the other, from the start again after a lap."""
    while True:
        votes, total, last = 0, 0, -1
        for key, state, new in work(0):
            if state is None or not new:
                continue
            image = int(key.split(":")[1])
            if image <= last:
                # the first image again: with this vote the next block has begun
                yield votes
                votes = 0
            votes, total, last = votes + new, total + new, image
            if total > case.images * case.lap:
                break


def _raw(prepared: Prepared, case: Case) -> Iterator[int]:
    """The prepared model on inputs that are there."""
    inputs = 0.5 + SIGMA * torch.randn(prepared.slice_size, *case.shape)
    inputs = inputs.contiguous(memory_format=torch.channels_last)
    while True:
        with torch.inference_mode():
            prepared(inputs).argmax(1)
        yield len(inputs)


def has_openvino() -> bool:
    """Whether the extra `fast` is installed."""
    return importlib.util.find_spec("openvino") is not None


def _work(case: Case, precision: Precision, backend: Backend = "torch") -> Work:
    domain = case.domain()
    setting = RandomizedSmoothing(Gaussian(SIGMA), n=N, n0=128)
    job = Job(case.build(), domain, case.classes, 0, Memory(), Compute("cpu", precision, backend))
    sampling = Sampling.of(job, [setting])
    return Work(sampling, [np.arange(len(domain))], {})


class Team:
    """Two worker processes that do the same at the same time."""

    def __init__(self, case: Case) -> None:
        context = multiprocessing.get_context("spawn")
        self._workers: dict[Connection, BaseProcess] = {}
        for _ in range(WORKERS):
            ours, theirs = context.Pipe()
            process = context.Process(target=worker, args=(theirs, case), daemon=True)
            process.start()
            theirs.close()
            self._workers[ours] = process
        for connection in self._workers:
            self._receive(connection)

    def rate(self, order: str) -> float:
        """Forward passes a second of all workers together."""
        for connection in self._workers:
            connection.send(order)
        return float(sum(map(self._receive, self._workers)))

    def close(self) -> None:
        """Send them home."""
        for connection in self._workers:
            connection.send(None)

    def _receive(self, connection: Connection) -> Any:
        try:
            return connection.recv()
        except (EOFError, OSError):
            self._workers[connection].join(1)
            raise SystemExit(f"a worker process {describe_exit(self._workers[connection].exitcode)}") from None


def measure(case: Case, rounds: int) -> dict[str, float | None]:
    """Best rates of all contestants, and their ratios."""
    torch.set_num_threads(THREADS)
    model, team = case.build(), Team(case)
    trials = {batch: textbook_rate(case, model, batch) for batch in BATCHES}
    best_batch = max(trials, key=lambda batch: trials[batch])
    rates: dict[str, float] = {}
    for number in range(rounds):
        turn = {
            "engine": team.rate("f32"),
            "best": textbook_rate(case, model, best_batch),
            "raw": team.rate("raw"),
            **({"openvino": team.rate("openvino")} if has_openvino() else {}),
        }
        # a batch of 1000, or bf16 that is emulated, takes a large network many seconds; every third time is enough then
        if bf16_problem() is None and (number % 3 == 0 or case.images * 128 / rates["bf16"] < 5 * TURN_SECONDS):
            turn["bf16"] = team.rate("bf16")
        if number % 3 == 0 or 1000 / rates["textbook"] < 5 * TURN_SECONDS:
            turn["textbook"] = textbook_rate(case, model, 1000)
        rates |= {name: max(rate, rates.get(name, 0.0)) for name, rate in turn.items()}
    team.close()
    return {
        "ratio_textbook": rates["engine"] / rates["textbook"],
        "ratio_best_batch": rates["engine"] / rates["best"],
        "ratio_raw": rates["engine"] / rates["raw"],
        "ratio_bf16": rates["bf16"] / rates["textbook"] if "bf16" in rates else None,
        "ratio_openvino": rates["engine"] / rates["openvino"] if "openvino" in rates else None,
        "best_batch": best_batch,
        "passes_per_second": rates["engine"],
        "textbook_per_second": rates["textbook"],
    }


def main() -> None:
    """Run the cases and print them as a table and as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", action="store_true", help="print one JSON object only")
    parser.add_argument("--cases", default=",".join(CASES), help="which models, with commas")
    arguments = parser.parse_args()
    if (problem := bf16_problem()) is not None:
        print(f"bf16 is left out: {problem}", file=sys.stderr)
    results = {name: measure(CASES[name], 9 if arguments.quick else 24) for name in arguments.cases.split(",")}
    if not arguments.json:
        print(f"{os.cpu_count()} cores, torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}")
        headings = f"{'model':16} {'passes/s':>10} {'batch 1000':>11} {'best batch':>16} {'raw':>6} {'bf16':>6}"
        print(f"{headings} {'openvino':>9}")
        for name, row in results.items():
            bf16 = "-" if row["ratio_bf16"] is None else f"{row['ratio_bf16']:.2f}x"
            openvino = "-" if row["ratio_openvino"] is None else f"{row['ratio_openvino']:.2f}x"
            best = f"{row['ratio_best_batch']:.2f}x (at {row['best_batch']:.0f})"
            print(
                f"{name:16} {row['passes_per_second']:>10,.0f} {row['ratio_textbook']:>10.2f}x {best:>16} "
                f"{row['ratio_raw']:>6.2f} {bf16:>6} {openvino:>9}"
            )
    print(json.dumps(results))


if __name__ == "__main__":
    main()
