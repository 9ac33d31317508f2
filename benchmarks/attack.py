"""What attacks find and what they cost: ours against foolbox's PGD at equal steps, and against AutoAttack.

    python benchmarks/attack.py [--quick] [--json] [--images N] [--models FOLDER]

A `cnn` is trained three times, as it comes, under noise and under attack: on Fashion-MNIST from SHIFTPROOF_DATA, or on
the digits that are built in. With --models they are kept in a folder, and trained once. PGD and foolbox's take 20 steps
of the same length from a random start (in l1 it is foolbox's sparse descent as it comes); they take turns, and of
several rounds the best counts. The ensemble and the standard AutoAttack (pip install 'shiftproof[attack]') attack the
same images once each, in f32 on the same thread; ours has no minimal-norm attack, and leaves a sample as soon as it is
misclassified. Only ratios are a claim; the accuracy that is left is printed beside them: a weaker attack would be no
faster one.
"""

import argparse
import importlib
import importlib.util
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.attacks import Base, craft
from shiftproof.attacks.ensemble import Ensemble
from shiftproof.attacks.pgd import PGD
from shiftproof.domains import Domain, Domains
from shiftproof.execution import keep_freed_memory

STEPS = 20
THREATS = (sp.Threat("linf", 0.1), sp.Threat("l2", 0.5), sp.Threat("l1", 8.0))
WIDTH, TRAINING_IMAGES = 16, 20_000

Attack = Callable[[nn.Module, Tensor, Tensor], Tensor]


def halves() -> tuple[Domain, Domain]:
    """What models are trained on, and what they are attacked on."""
    if os.environ.get("SHIFTPROOF_DATA"):
        images = sp.load_domains("fashion-mnist")["fashion-mnist"]
        assert images.splits is not None
        trained, tested = (np.flatnonzero(images.splits == split) for split in ("train", "test"))
        return images.subset(trained[:TRAINING_IMAGES]), images.subset(tested)
    images = sp.load_domains("digits")["digits"]
    return images.subset(np.arange(600, len(images))), images.subset(np.arange(600))


def victims(data: Domain, folder: Path | None, quick: bool) -> dict[str, nn.Module]:
    """One network for each way of training, in eval mode."""
    ways: dict[str, tuple[Any, int]] = {
        "undefended": (sp.objectives.ERM(), 400),
        "noise": (sp.objectives.Gaussian(0.25), 400),
        "adversarial": (sp.objectives.AdversarialTraining(THREATS[0], steps=5), 500),
    }
    found, domains = {}, Domains(data.name, [data])
    for name, (objective, steps) in ways.items():
        path = None if folder is None else folder / f"{data.name}-{name}.safetensors"
        if path is not None and path.is_file():
            found[name] = sp.load_model(f"file:{path}").eval()
            continue
        recipe = {"steps": steps // 4 if quick else steps, "batch": 128}
        fit = sp.train(sp.build_model("cnn", domains, width=WIDTH), domains, objective, recipe=recipe)
        found[name] = fit.model.eval()
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            sp.save_model(fit.model, path)
    return found


def crafted(attack: Any) -> Attack:
    """An attack of ours as a function."""

    def run(model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
        ids, radii = [str(index) for index in range(len(inputs))], torch.full((len(inputs),), attack.threat.eps)
        return craft(Base(model), inputs, labels, attack, radii=radii, ids=ids)

    return run


def foolbox(threat: sp.Threat) -> Attack:
    """foolbox's PGD, with steps of the same length as ours; in l1 its sparse descent as it comes, at equal steps."""
    import foolbox as fb

    if threat.norm == "l1":
        attack = fb.attacks.SparseL1DescentAttack(steps=STEPS)
    else:
        kind = {"linf": fb.attacks.LinfPGD, "l2": fb.attacks.L2PGD}[threat.norm]
        attack = kind(abs_stepsize=2.5 * threat.eps / STEPS, steps=STEPS, random_start=True)

    def run(model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
        torch.manual_seed(0)
        _, points, _ = attack(fb.PyTorchModel(model, bounds=(0, 1), device="cpu"), inputs, labels, epsilons=threat.eps)
        attacked: Tensor = points.detach()
        return attacked

    return run


def autoattack(threat: sp.Threat) -> Attack:
    """The standard evaluation of AutoAttack."""
    kind = importlib.import_module("pyautoattack").AutoAttack
    norm = {"linf": "Linf", "l2": "L2", "l1": "L1"}[threat.norm]

    def run(model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
        judge = kind(model, norm=norm, eps=threat.eps, seed=0, device="cpu")
        attacked: Tensor = judge.run_standard_evaluation(inputs, labels, batch_size=256)[0]
        return attacked

    return run


def raced(
    turns: dict[str, Attack], model: nn.Module, inputs: Tensor, labels: Tensor, rounds: int
) -> tuple[dict[str, float], dict[str, Tensor]]:
    """The best seconds of each, and which samples are still right after it."""
    best, standing = dict.fromkeys(turns, float("inf")), {}
    for _ in range(rounds):
        for name, attack in turns.items():
            began = time.perf_counter()
            attacked = attack(model, inputs, labels)
            best[name] = min(best[name], time.perf_counter() - began)
            standing[name] = Base(model).answers(attacked) == labels
    return best, standing


def measure(model: nn.Module, data: Domain, threat: sp.Threat, rounds: int) -> dict[str, float]:
    """Ratios of times, and the accuracy that each attack leaves."""
    inputs, labels = data.tensors()
    right = Base(model).answers(inputs) == labels
    result = {"images": float(len(inputs)), "clean": float(right.double().mean())}
    races: list[tuple[str, dict[str, Attack], int]] = [
        ("pgd", {"pgd": crafted(PGD(threat, STEPS))}, rounds),
        ("ensemble", {"ensemble": crafted(Ensemble(threat))}, 1),
    ]
    if importlib.util.find_spec("foolbox") is not None:
        races[0][1]["foolbox"] = foolbox(threat)
    if importlib.util.find_spec("pyautoattack") is not None:
        races[1][1]["autoattack"] = autoattack(threat)
    for ours, turns, times in races:
        best, standing = raced(turns, model, inputs[right], labels[right], times)
        result[f"images_per_second_{ours}"] = len(inputs[right]) / best[ours]
        for name, still in standing.items():
            result[f"robust_{name}"] = float(still.sum()) / len(inputs)
            if name != ours:
                result[f"ratio_{name}"] = best[name] / best[ours]
    return result


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer images and rounds, shorter training")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--images", type=int, default=None, help="how many to attack [200, or 20 if quick]")
    parser.add_argument("--models", type=Path, default=None, help="folder for trained models")
    given = parser.parse_args()
    torch.set_num_threads(1)
    # as the command line does: memory that goes back and forth between turns would be measured instead
    keep_freed_memory()
    train, test = halves()
    few = test.subset(np.arange(given.images or (20 if given.quick else 200)))
    results: dict[str, Any] = {}
    for name, model in victims(train, given.models, given.quick).items():
        for threat in THREATS:
            case = f"{name} {threat}"
            results[case] = one = measure(model, few, threat, 2 if given.quick else 5)
            if not given.json:
                print(f"cnn, {train.name}, {case}: {one['clean']:.1%} of {len(few)} images right", flush=True)
                for ours, theirs in (("pgd", "foolbox"), ("ensemble", "autoattack")):
                    rate = one[f"images_per_second_{ours}"]
                    print(f"  {ours}: {one[f'robust_{ours}']:.1%} left, {rate:,.1f} images a second", flush=True)
                    if f"ratio_{theirs}" in one:
                        left, ratio = one[f"robust_{theirs}"], one[f"ratio_{theirs}"]
                        print(f"    {ratio:.2f} times faster than {theirs}, which leaves {left:.1%}", flush=True)
    if given.json:
        print(json.dumps(results))


if __name__ == "__main__":
    main()
