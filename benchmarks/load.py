"""How fast minibatches come: ours against a plain loop that fetches, converts and stacks one sample after the other.

    python benchmarks/load.py [--quick] [--json]

Both read the same data set, interleaved, best of several rounds; only the ratio is a claim.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from shiftproof.domains import Domain, load_domains

BATCH = 128


def in_memory() -> Domain:
    """50,000 random images 3x32x32, eight bits."""
    pixels = np.random.default_rng(0).integers(0, 256, (50_000, 3, 32, 32), np.uint8)
    return Domain.from_arrays("memory", pixels, np.arange(50_000) % 10, [str(i) for i in range(10)])


def in_files(folder: Path, count: int) -> Domain:
    """JPEG files of 64x64."""
    generator = np.random.default_rng(0)
    for index in range(count):
        path = folder / "domain" / f"class-{index % 2}" / f"{index}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(generator.integers(0, 256, (64, 64, 3), np.uint8)).save(path)
    return load_domains(f"folder:{folder}")["domain"]


def seconds(batch: Callable[[np.ndarray[tuple[int], np.dtype[np.int64]]], object], size: int, batches: int) -> float:
    """Time for some random batches."""
    generator = np.random.default_rng(1)
    indices = [generator.integers(0, size, BATCH) for _ in range(batches)]
    started = time.perf_counter()
    for chosen in indices:
        batch(chosen)
    return time.perf_counter() - started


def ratio(domain: Domain, batches: int, rounds: int) -> dict[str, float]:
    """Best time of the plain loop over best time of ours, and our rate."""
    ours, plain = [], []
    for _ in range(rounds):
        ours.append(seconds(domain.take, len(domain), batches))
        plain.append(seconds(lambda chosen: torch.stack([domain[int(i)][0] for i in chosen]), len(domain), batches))
    return {"ratio_textbook": min(plain) / min(ours), "images_per_second": BATCH * batches / min(ours)}


def main() -> None:
    """Run both cases and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer batches and rounds")
    parser.add_argument("--json", action="store_true", help="print one JSON object only")
    arguments = parser.parse_args()
    batches, rounds = (20, 2) if arguments.quick else (200, 5)
    results = {"memory 3x32x32": ratio(in_memory(), batches, rounds)}
    with tempfile.TemporaryDirectory() as folder:
        domain = in_files(Path(folder), 256 if arguments.quick else 2_000)
        results["jpeg 64x64, second pass"] = ratio(domain, batches // 4, rounds)
    if not arguments.json:
        for case, result in results.items():
            rate, factor = result["images_per_second"], result["ratio_textbook"]
            print(f"{case:26} {rate:>12,.0f} images/s, {factor:.1f} times one by one")
    print(json.dumps(results))


if __name__ == "__main__":
    main()
