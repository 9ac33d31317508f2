"""What certificates in the representation cost: against one forward pass, and against sampling it 100,000 times.

    python benchmarks/latent.py [--quick] [--json]

`forward` is one pass of the frozen network over 10,000 images of 28x28 in batches of 256; `margin` is `LatentMargin` of
the same images by the same frozen encoder, `whole` with freezing and checking the model too. `sampled` is
`LatentSmoothing` with n = 100,000 in as many dimensions as there are classes, measured on fewer images and scaled. All
take turns, and of many rounds the best counts. Only ratios are a claim.
"""

import argparse
import json
import time
from collections.abc import Callable

import numpy as np
import torch

import shiftproof as sp
from shiftproof.certification.bounds.representations import linear_parts
from shiftproof.certification.certifier import Job, Memory
from shiftproof.certification.certifiers.margin import margin_certificates
from shiftproof.domains import Domain
from shiftproof.execution import keep_freed_memory
from shiftproof.models.lipschitz import frozen

CLASSES, BATCH = 10, 256
CASES = {"mlp-cayley": (1, 28, 28), "cnn-cayley": (1, 28, 28)}


def domain_of(shape: tuple[int, ...], images: int) -> Domain:
    """Random images."""
    pixels = np.random.default_rng(0).integers(0, 256, (images, *shape), np.uint8)
    names = [str(label) for label in range(CLASSES)]
    return Domain.from_arrays("random", pixels, np.arange(images) % CLASSES, names)


def measure(model_name: str, shape: tuple[int, ...], images: int, sampled: int, rounds: int) -> dict[str, float]:
    """Seconds for all images, the best of several rounds."""
    domain = domain_of(shape, images)
    few = domain.subset(np.arange(sampled))
    model = sp.build_model(model_name, domain).eval()
    plain, parts = frozen(model, shape), linear_parts(model, shape, "l2", needs_split=True)
    job = Job(model, domain, CLASSES, 0, Memory(), progress="off")

    def forward() -> None:
        with torch.inference_mode():
            for block in domain.blocks:
                plain(domain.take(block)[0])

    turns: dict[str, Callable[[], object]] = {
        "forward": forward,
        "margin": lambda: margin_certificates(job, parts, "l2", "", sp.certifiers.LatentMargin()),
        "whole": lambda: sp.certify(model, domain, sp.certifiers.LatentMargin(), progress="off", seed=0),
        "sampled": lambda: sp.certify(model, few, sp.certifiers.LatentSmoothing(0.25), progress="off", seed=0),
    }
    best = dict.fromkeys(turns, np.inf)
    for _ in range(rounds):
        for name, turn in turns.items():
            began = time.perf_counter()
            turn()
            best[name] = min(best[name], time.perf_counter() - began)
    best["sampled"] *= images / sampled
    return best


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    given = parser.parse_args()
    torch.set_num_threads(2)
    # as the command line does: memory that goes back and forth between turns would be measured instead
    keep_freed_memory()
    results = {}
    for name, shape in CASES.items():
        seconds = measure(name, shape, 10_000, 50 if given.quick else 200, 3 if given.quick else 7)
        results[name] = {
            "ratio_forward": seconds["margin"] / seconds["forward"],
            "ratio_forward_whole": seconds["whole"] / seconds["forward"],
            "ratio_sampled": seconds["sampled"] / seconds["margin"],
            "images_per_second": 10_000 / seconds["margin"],
        }
        if not given.json:
            one = results[name]
            print(f"{name}: 10,000 margins take {one['ratio_forward']:.2f} forward passes over the images")
            print(f"  ({one['ratio_forward_whole']:.2f} with all checks, {one['images_per_second']:,.0f} a second)")
            print(f"  sampling 100,000 times in the representation takes {one['ratio_sampled']:,.0f} times as long")
    if given.json:
        print(json.dumps(results))


if __name__ == "__main__":
    main()
