"""How fast images are corrupted, and how near the result is to the reference: the package imagecorruptions-imaug.

    python benchmarks/corrupt.py [--quick] [--json]          images a second, ours and the reference's
    python benchmarks/corrupt.py --agreement [--quick]       the tables of docs/corruptions.md

Both get the same 256 images, at severity 3 and with ImageNet-C's constants: ours as one float batch, with one thread
(`ratio`) and with two; the reference as bytes, one image at a time, in one process, as it demands. They take turns, and
of several rounds the best counts, by the clock or by processor time, whichever is less, so that other programs on the
machine count little. Only ratios are a claim. The agreement needs SHIFTPROOF_DATA with cifar10.npz and pacs_64.zip.
Install the reference with pip install -c constraints.txt imagecorruptions-imaug==1.1.5.
"""

import argparse
import contextlib
import importlib
import importlib.util
import io
import json
import math
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shiftproof.domains import load_domains
from shiftproof.execution import keep_freed_memory
from shiftproof.perturbations.corruptions import EXTRA, STANDARD, corrupt

BATCH, SEVERITY = 256, 3
DRAWS_NOTHING = (
    *("defocus-blur", "zoom-blur", "brightness", "contrast", "pixelate", "jpeg-compression"),
    *("gaussian-blur", "saturate"),
)
Bytes = NDArray[np.uint8]


def reference(images: Bytes, name: str, severity: int) -> Bytes:
    """The reference's result for images N x H x W x C."""
    package: Any = importlib.import_module("imagecorruptions")
    # for some sizes it prints what it works around
    with contextlib.redirect_stdout(io.StringIO()), np.errstate(invalid="ignore"):
        results = [
            package.corrupt(image, corruption_name=name.replace("-", "_"), severity=severity) for image in images
        ]
    return np.stack(results)


def as_batch(images: Bytes) -> Tensor:
    """N x H x W x C bytes as N x C x H x W in [0, 1]."""
    return torch.from_numpy(images).permute(0, 3, 1, 2).contiguous().float() / 255


def taken(turn: Callable[[], object]) -> float:
    """Seconds for one turn, by the clock or of processor time, whichever is less."""
    began, busy = time.perf_counter(), time.process_time()
    turn()
    return min(time.perf_counter() - began, time.process_time() - busy)


def speed(name: str, side: int, rounds: int, few: int) -> dict[str, float]:
    """Images a second, the best of several rounds; the reference is timed on the first `few` images."""
    pixels = np.random.default_rng(0).integers(0, 256, (BATCH, side, side, 3), np.uint8)
    batch = as_batch(pixels)
    best = dict.fromkeys(("one", "two", "reference"), math.inf)
    for turn in range(rounds + 1):
        for threads, key in ((1, "one"), (2, "two")):
            torch.set_num_threads(threads)
            seconds = taken(lambda: corrupt(batch, name, SEVERITY, constants="imagenet")) / BATCH
            # the first round builds tables, and the reference compiles
            best[key] = min(best[key], seconds) if turn else math.inf
        seconds = taken(lambda: reference(pixels[:few], name, SEVERITY)) / few
        best["reference"] = min(best["reference"], seconds) if turn else math.inf
    return {
        "images_per_second": 1 / best["one"],
        "images_per_second_two_threads": 1 / best["two"],
        "images_per_second_reference": 1 / best["reference"],
        "ratio": best["reference"] / best["one"],
        "ratio_two_threads": best["reference"] / best["two"],
    }


def geometric_mean(values: Iterable[float]) -> float:
    """The mean of ratios."""
    return math.exp(float(np.mean(np.log(list(values)))))


def speeds(quick: bool, quiet: bool) -> dict[str, Any]:
    """Both sizes, all corruptions; means are over the fifteen standard ones."""
    results: dict[str, Any] = {}
    for side in (32, 64):
        rows = {}
        for name in STANDARD + EXTRA:
            rows[name] = speed(name, side, 3 if quick else 7, 16 if quick else 64)
            if not quiet:
                one = rows[name]
                rates = (one["images_per_second"], one["images_per_second_two_threads"])
                ours = "".join(f"{rate:>12,.0f}" for rate in rates)
                ratios = f"{one['ratio']:>8.1f}{one['ratio_two_threads']:>8.1f}"
                print(f"{side}x{side} {name:18}{ours}{one['images_per_second_reference']:>12,.0f}{ratios}", flush=True)
        keys = ("ratio", "ratio_two_threads")
        means = {key: geometric_mean(rows[name][key] for name in STANDARD) for key in keys}
        results[f"{side}x{side}"] = {"geometric_mean": means, "corruptions": rows}
        if not quiet:
            print(f"{side}x{side} geometric mean over the 15: {means['ratio']:.1f} ({means['ratio_two_threads']:.1f})")
    return results


def real_images(count: int) -> dict[str, Bytes]:
    """Some images of CIFAR-10 and of all domains of PACS."""
    chosen = {}
    for name in ("cifar10", "pacs"):
        domains = load_domains(name)
        inputs = [
            domain.take(np.arange(0, len(domain), max(len(domain) * len(domains) // count, 1))) for domain in domains
        ]
        pixels = torch.cat([images for images, _ in inputs])[:count]
        chosen[name] = (pixels * 255).round().byte().permute(0, 2, 3, 1).contiguous().numpy()
    return chosen


def exact_table(images: dict[str, Bytes]) -> list[str]:
    """Per corruption that draws nothing: mean error and PSNR in dB at each severity, for both data sets."""
    lines = ["| corruption | data | 1 | 2 | 3 | 4 | 5 |", "|---|---|---|---|---|---|---|"]
    for name in DRAWS_NOTHING:
        for data, pixels in images.items():
            cells = []
            for severity in range(1, 6):
                error = corrupt(as_batch(pixels), name, severity, constants="imagenet") - as_batch(
                    reference(pixels, name, severity)
                )
                cells.append(f"{error.abs().mean():.4f}, {-10 * math.log10(float(error.square().mean())):.1f}")
            lines.append(f"| {name} | {data} | {' | '.join(cells)} |")
    return lines


def residuals(pixels: Bytes, corrupted: Tensor) -> list[float]:
    """What a corruption did to the images: mean, standard deviation, quantiles of the change, mean absolute change."""
    change = corrupted - as_batch(pixels)
    low, middle, high = np.quantile(change.numpy(), (0.05, 0.5, 0.95))
    return [float(change.mean()), float(change.std()), low, middle, high, float(change.abs().mean())]


def random_table(images: dict[str, Bytes]) -> list[str]:
    """Per corruption that draws: the law of the change, ours / reference, at severities 1, 3 and 5."""
    lines = [
        "| corruption | data | severity | mean | deviation | 5 % | median | 95 % | mean absolute |",
        "|---" * 9 + "|",
    ]
    for name in (name for name in STANDARD + EXTRA if name not in DRAWS_NOTHING):
        for data, pixels in images.items():
            for severity in (1, 3, 5):
                expected = as_batch(reference(pixels, name, severity))
                # spatter without a drop divides 0 by 0 there, and the image comes back black
                usable = expected.amax((1, 2, 3)) > 0
                images_left = pixels[usable.numpy()]
                batch = corrupt(as_batch(pixels), name, severity, constants="imagenet")
                ours, theirs = residuals(images_left, batch[usable]), residuals(images_left, expected[usable])
                cells = [f"{one:.3f} / {other:.3f}" for one, other in zip(ours, theirs, strict=True)]
                lines.append(f"| {name} | {data} | {severity} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds or images")
    parser.add_argument("--json", action="store_true", help="print one JSON object only")
    parser.add_argument("--agreement", action="store_true", help="print how near the results are instead")
    given = parser.parse_args()
    if importlib.util.find_spec("imagecorruptions") is None:
        sys.exit("the reference is missing: pip install -c constraints.txt imagecorruptions-imaug==1.1.5")
    # as the command line does: memory that goes back and forth between turns would be measured instead
    keep_freed_memory()
    if given.agreement:
        torch.set_num_threads(1)
        np.random.seed(0)  # noqa: NPY002 - the reference draws from the global state
        images = real_images(64 if given.quick else 400)
        print("\n".join([*exact_table(images), "", *random_table(images)]))
        return
    if not given.json:
        print("images/s: ours with one thread and with two, reference; ratio with one thread and with two")
    print(json.dumps(speeds(given.quick, given.json)))


if __name__ == "__main__":
    main()
