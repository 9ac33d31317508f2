"""What adversarial training costs: ours against the loop that everybody writes first, and against foolbox's attack.

    python benchmarks/train.py [--quick] [--json]

All train the same network from the same weights on the same images with PGD of ten steps, eps 8/255 in linf, from a
random start; the network is in eval mode while it is attacked. `textbook` clears gradients, builds a graph and calls
backward at every step; `textbook channels_last` does so with images and weights laid out as ours are; `foolbox` has
foolbox's LinfPGD in the same loop (where it is installed: pip install 'shiftproof[attack]'). They take turns, and of
several rounds the best counts. Only ratios are a claim. `found` is the mean cross-entropy of what each attack finds on
one network: a weaker attack would be no faster one.
"""

import argparse
import importlib.util
import json
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.execution import keep_freed_memory
from shiftproof.models import NetworkBlueprint
from shiftproof.rng import torch_generator
from shiftproof.types import Batch

EPS, STEPS, BATCH, CLASSES = 8 / 255, 10, 128, 10
LENGTH = 2.5 * EPS / STEPS
CASES = {"cnn": (3, 32, 32)}

Attack = Callable[[nn.Module, Tensor, Tensor, int], Tensor]


def ours(model: nn.Module, inputs: Tensor, labels: Tensor, step: int) -> Tensor:
    """The attack inside `AdversarialTraining`."""
    batch = Batch(inputs, labels, ("images",), (len(labels),), step)
    objective = sp.objectives.AdversarialTraining(sp.Threat("linf", EPS), steps=STEPS)
    # read by nothing: the attacked inputs themselves
    return objective.attack_batch(model, batch, torch_generator(0, "benchmark", step))(nn.Identity())


def textbook(model: nn.Module, inputs: Tensor, labels: Tensor, step: int) -> Tensor:
    """Projected gradient ascent as in a first notebook."""
    model.eval()
    points = inputs + torch.empty_like(inputs).uniform_(-EPS, EPS, generator=torch_generator(0, "benchmark", step))
    points = points.clamp(0, 1)
    for _ in range(STEPS):
        points = points.detach().requires_grad_()
        loss = F.cross_entropy(model(points), labels)
        model.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        assert points.grad is not None
        points = points.detach() + LENGTH * points.grad.sign()
        points = torch.min(torch.max(points, inputs - EPS), inputs + EPS).clamp(0, 1)
    model.train()
    return points.detach()


def foolbox(model: nn.Module, inputs: Tensor, labels: Tensor, step: int) -> Tensor:
    """foolbox's LinfPGD."""
    import foolbox as fb

    model.eval()
    attack = fb.attacks.LinfPGD(abs_stepsize=LENGTH, steps=STEPS, random_start=True)
    _, points, _ = attack(fb.PyTorchModel(model, bounds=(0, 1)), inputs, labels, epsilons=EPS)
    model.train()
    attacked: Tensor = points.detach()
    return attacked


def trained(attack: Attack, model: nn.Module, inputs: Tensor, labels: Tensor) -> float:
    """Seconds for one epoch over the images."""
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    model.train()
    began = time.perf_counter()
    for step, rows in enumerate(torch.split(torch.arange(len(inputs)), BATCH)):
        attacked = attack(model, inputs[rows], labels[rows], step)
        loss = F.cross_entropy(model(attacked), labels[rows])
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return time.perf_counter() - began


def found(attack: Attack, model: nn.Module, inputs: Tensor, labels: Tensor) -> float:
    """The mean cross-entropy of attacked images."""
    attacked = attack(model, inputs, labels, 0)
    with torch.no_grad():
        return float(F.cross_entropy(model.eval()(attacked), labels))


def measure(name: str, shape: tuple[int, ...], images: int, rounds: int) -> dict[str, float]:
    """Ratios of the best times, and what the attacks find."""
    generator = torch_generator(0, "benchmark")
    labels = torch.randint(0, CLASSES, (images,), generator=generator)
    # every class has a pattern, so that there is something to learn and to attack
    patterns = torch.rand(CLASSES, shape[0], 1, 1, generator=generator).expand(-1, *shape)
    inputs = 0.5 * patterns[labels] + 0.5 * torch.rand(images, *shape, generator=generator)
    last = inputs.contiguous(memory_format=torch.channels_last)
    turns: dict[str, tuple[Attack, Tensor]] = {
        "ours": (ours, last),
        "textbook": (textbook, inputs),
        "textbook_channels_last": (textbook, last),
    }
    if importlib.util.find_spec("foolbox") is not None:
        turns["foolbox"] = (foolbox, inputs)

    def fresh(laid_out_as: Tensor) -> nn.Module:
        model = NetworkBlueprint(name, shape, CLASSES).build()
        form = torch.channels_last if laid_out_as is last else torch.contiguous_format
        return model.to(memory_format=form)  # type: ignore[no-any-return, call-overload]

    best = dict.fromkeys(turns, float("inf"))
    for _ in range(rounds):
        for kind, (attack, images_) in turns.items():
            best[kind] = min(best[kind], trained(attack, fresh(images_), images_, labels))
    result = {f"ratio_{kind}": seconds / best["ours"] for kind, seconds in best.items() if kind != "ours"}
    result["images_per_second"] = images / best["ours"]
    victim = fresh(last)
    for _ in range(5):
        trained(lambda _model, images, _labels, _step: images, victim, last, labels)
    for kind, (attack, images_) in turns.items():
        result[f"found_{kind}"] = found(attack, victim, images_[:BATCH], labels[:BATCH])
    return result


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer images and rounds")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    given = parser.parse_args()
    torch.set_num_threads(2)
    torch.manual_seed(0)
    # as the command line does: memory that goes back and forth between turns would be measured instead
    keep_freed_memory()
    results: dict[str, Any] = {}
    for name, shape in CASES.items():
        images, rounds = (3 * BATCH, 2) if given.quick else (8 * BATCH, 5)
        results[name] = one = measure(name, shape, images, rounds)
        if not given.json:
            rate, size = f"{one['images_per_second']:,.0f} images a second", "x".join(map(str, shape))
            print(f"{name} on {size}, PGD-{STEPS} training, {rate}")
            for kind in ("textbook", "textbook_channels_last", "foolbox"):
                if f"ratio_{kind}" in one:
                    print(f"  {one[f'ratio_{kind}']:.2f} times faster than {kind.replace('_', ' ')}")
            losses = {key.removeprefix("found_"): value for key, value in one.items() if key.startswith("found_")}
            print(f"  cross-entropy found: {', '.join(f'{kind} {value:.4f}' for kind, value in losses.items())}")
    if given.json:
        print(json.dumps(results))


if __name__ == "__main__":
    main()
