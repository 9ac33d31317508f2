"""What a large folder of images costs: seconds and memory of `validate`, `train` and `audit` on made-up JPEGs.

    python benchmarks/folder.py [--images 200000] [--side 32] [--folder PATH] [--json]

All images differ; they lie in four domains of ten classes. Every command runs in a process of its own with an index
folder that is empty at first. `largest` is the peak of resident memory of the largest process, `all` that of a command
with its workers, where a page that they share counts once. `processor` is the time of all cores together.
Opening is `load_domains` and the fingerprint of all files, in a process that has imported everything before, which
`processor` counts as well. Seconds are of this machine.
"""

import argparse
import io
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

DOMAINS, CLASSES, BLOCK = ("art", "photo", "scan", "sketch"), 10, 8
BEAT_SECONDS = 0.05
MEBIBYTE = 1 << 20
OPEN = """
import sys, time
import shiftproof as sp
sp.load_domains("rotated-digits")
import shiftproof.domains.folder
began = time.perf_counter()
domains = sp.load_domains(sys.argv[1])
opened = time.perf_counter()
for domain in domains:
    domain.fingerprint
print(opened - began, time.perf_counter() - began)
"""


def make_images(folder: Path, images: int, side: int) -> None:
    """Files of random squares of 8x8 pixels, the brighter the higher their class; no two are equal."""
    each = images // (len(DOMAINS) * CLASSES)
    places = [(domain, label) for domain in range(len(DOMAINS)) for label in range(CLASSES)]
    with ProcessPoolExecutor() as pool:
        list(pool.map(partial(_make_class, folder, each, side), places))


def _make_class(folder: Path, count: int, side: int, place: tuple[int, int]) -> None:
    domain, label = place
    here = folder / DOMAINS[domain] / f"class-{label}"
    here.mkdir(parents=True)
    generator, squares = np.random.default_rng(place), max(1, side // BLOCK)
    for number in range(count):
        small = generator.integers(0, 156, (squares, squares, 3), np.uint8) + np.uint8(10 * label)
        pixels = small.repeat(side // squares, 0).repeat(side // squares, 1)
        content = io.BytesIO()
        Image.fromarray(pixels).save(content, "JPEG", quality=85)
        (here / f"{number:06}.jpg").write_bytes(content.getvalue())


def measure(command: Sequence[str], environment: dict[str, str], *, may_fail: bool = False) -> dict[str, float | str]:
    """Seconds, and peaks of resident memory in MiB, of a command and the processes that it starts."""
    began, before, largest, together = time.perf_counter(), _processor_seconds(), 0, 0
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as complained:
        process = subprocess.Popen(command, stdout=said, stderr=complained, env=environment)
        while process.poll() is None:
            family = _family(process.pid)
            sizes = [_resident(one) for one in family]
            largest, together = max([largest, *sizes]), max(together, _proportional(family) or sum(sizes))
            time.sleep(BEAT_SECONDS)
        seconds = time.perf_counter() - began
        said.seek(0)
        complained.seek(0)
        output, errors = said.read(), complained.read()
    if process.returncode and not may_fail:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}:\n{errors[-2000:]}")
    peaks = {"largest": round(largest / MEBIBYTE), "all": round(together / MEBIBYTE)}
    times = {"seconds": round(seconds, 1), "processor": round(_processor_seconds() - before, 1)}
    return {**times, **peaks, "exit": process.returncode, "output": output.strip()}


def _processor_seconds() -> float:
    """Of all processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _family(first: int) -> list[int]:
    """A process and all that come from it, by /proc."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError, ValueError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found = [first]
    for one in found:
        found += children.get(one, [])
    return found


def _resident(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def _proportional(processes: Sequence[int]) -> int:
    """Bytes of several processes, a page that n of them share counting 1/n in each; 0 where the system does not say."""
    total = 0
    for one in processes:
        try:
            lines = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
            total += 1024 * int(next(line.split()[1] for line in lines if line.startswith("Pss:")))
        except (OSError, StopIteration):
            continue
    return total


def run_all(folder: Path, scratch: Path, steps: int, budget: str) -> dict[str, dict[str, float | str]]:
    """All commands, one after the other; the first of them finds no index."""
    environment = {**os.environ, "SHIFTPROOF_CACHE": str(scratch / "cache")}
    shiftproof = [sys.executable, "-m", "shiftproof"]
    data, target = f"folder:{folder}", DOMAINS[-1]
    opening = [sys.executable, "-c", OPEN, data]
    training = ["train", "--data", data, "--target", target, "--model", "cnn", "--out", str(scratch / "model")]
    auditing = ["audit", "--data", data, "--target", target, "--model", f"file:{scratch / 'model'}"]
    cases = {
        "open, first": opening,
        "open, again": opening,
        "validate": [*shiftproof, "validate", data],
        f"train, {steps} steps": [*shiftproof, *training, "--set", f"training.steps={steps}"],
        "audit --limit 500": [
            *shiftproof,
            *auditing,
            "--limit",
            "500",
            "--budget",
            budget,
            "--out",
            str(scratch / "audit"),
        ],
    }
    results = {}
    for case, command in cases.items():
        results[case] = measure(command, environment, may_fail=case.startswith("audit"))
        print(f"{case}: {results[case]['seconds']} s", file=sys.stderr)
    for case in ("open, first", "open, again"):
        loaded, fingerprinted = map(float, str(results[case]["output"]).split())
        results[case] |= {"load": round(loaded, 2), "with fingerprints": round(fingerprinted, 2)}
    return {case: {key: value for key, value in one.items() if key != "output"} for case, one in results.items()}


def main() -> None:
    """Make the folder, run the commands, print what they took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=200_000)
    parser.add_argument("--side", type=int, default=32, help="pixels, a multiple of 8")
    parser.add_argument("--steps", type=int, default=50, help="of training")
    parser.add_argument("--budget", default="2m", help="of the audit")
    parser.add_argument("--folder", type=Path, help="where images are, or are made if it is not there; else temporary")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = asked.folder or Path(scratch) / "images"
        if not folder.exists():
            make_images(folder, asked.images, asked.side)
        results = run_all(folder.resolve(), Path(scratch), asked.steps, asked.budget)
    if asked.json:
        print(json.dumps(results))
        return
    print(f"{'':20} {'seconds':>8} {'processor':>10} {'largest':>12} {'all':>12}")
    for case, result in results.items():
        seconds = result.get("with fingerprints", result["seconds"])
        print(f"{case:20} {seconds:>8} {result['processor']:>10} {result['largest']:>8,} MiB {result['all']:>8,} MiB")


if __name__ == "__main__":
    main()
