"""What several processes buy in training: two with one thread each against one with two threads.

    python benchmarks/processes.py [--quick] [--json]

Both train the same network on the same images, in short turns: while one process trains alone, the others wait. Of many
turns the best counts, and starting processes, which takes seconds once, does not. Only ratios are a claim.
"""

import argparse
import json
import pickle
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import shiftproof as sp
from shiftproof.execution.ranks import run_ranks
from shiftproof.models import NetworkBlueprint
from shiftproof.objectives import OBJECTIVES
from shiftproof.rng import torch_generator
from shiftproof.training.batches import Batches
from shiftproof.training.machine import math_threads
from shiftproof.training.processes import connected
from shiftproof.training.team import Ranks, Team

SIZE, BATCH, CLASSES, IMAGES = 2, 128, 10, 1_024
SHAPE = (3, 32, 32)
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "cnn erm": ("cnn", "erm", {}),
    "cnn adversarial-training": ("cnn", "adversarial-training", {"steps": 3}),
    "mlp erm": ("mlp", "erm", {}),
}


def stepper(case: str, team: Team) -> Callable[[int], float]:
    """A function that takes so many steps of training and says how many seconds each has taken."""
    network, name, options = CASES[case]
    generator = torch_generator(0, "benchmark")
    inputs = torch.rand(IMAGES, *SHAPE, generator=generator)
    labels = torch.randint(0, CLASSES, (IMAGES,), generator=generator)
    domain = sp.Domain.from_arrays("images", inputs, labels, [str(one) for one in range(CLASSES)])
    model = NetworkBlueprint(network, SHAPE, CLASSES).build()
    layout = torch.contiguous_format if network == "mlp" else torch.channels_last
    model.to(memory_format=layout)  # type: ignore[call-overload]
    batches = Batches([domain], BATCH, 0, torch.device("cpu"), layout, team=team)
    optimiser = torch.optim.Adam(model.parameters())
    loss_of, done = team.loss_of(model, OBJECTIVES.create(name, options)), 0

    def seconds(steps: int) -> float:
        nonlocal done
        began = time.perf_counter()
        for batch in batches.steps(done, done + steps):
            model.train()
            loss = loss_of(batch, torch_generator(0, "objective", batch.step))
            optimiser.zero_grad(set_to_none=True)
            loss.total.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        done += steps
        return (time.perf_counter() - began) / steps

    return seconds


@dataclass(frozen=True)
class Turns:
    """Turns of all processes and of one alone, in one group of processes."""

    rounds: int
    store: str

    def __call__(self, rank: int, tell: Callable[[Any], None]) -> dict[str, dict[str, float]]:
        torch.set_num_threads(1)
        with connected(self.store, rank, SIZE, torch.device("cpu")):
            team = Ranks(rank, SIZE)
            return {case: self._measure(case, team) for case in CASES}

    def _measure(self, case: str, team: Ranks) -> dict[str, float]:
        together, alone = stepper(case, team), stepper(case, Team())
        # short turns: a long one has a part of everything else that the machine does
        steps = 20 if case.startswith("mlp") else 1

        def by_one() -> float:
            with math_threads(SIZE):
                return alone(steps)

        turns = []
        for number in range(self.rounds + 1):
            shared = together(steps)
            single = team.from_first(by_one)
            # the first turn also allocates
            turns += [(shared, single)] if number else []
        shared, single = (min(column) for column in zip(*turns, strict=True))
        return {"ratio": single / shared, "milliseconds": 1e3 * shared, "milliseconds_alone": 1e3 * single}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer turns")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        task = Turns(5 if given.quick else 40, str(Path(folder) / "store"))
        results = run_ranks(pickle.dumps(task), SIZE, lambda _: None)
    if given.json:
        print(json.dumps(results))
        return
    for case, one in results.items():
        print(
            f"{case}, {BATCH} images a step: {SIZE} processes take {one['milliseconds']:.1f} ms, one with {SIZE} "
            f"threads {one['milliseconds_alone']:.1f} ms, {one['ratio']:.2f} times as long"
        )


if __name__ == "__main__":
    main()
