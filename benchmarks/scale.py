"""How cost grows: images, votes, workers, training processes, Ray nodes and rows of evidence against time and memory.

    python benchmarks/scale.py [--quick] [--json] [--plot docs/images/scale.svg]

Every point is a child process of its own, so that its peak of resident memory, with that of its workers, is its own;
the clock starts when the work does, not when the process does. Each sweep has an ideal line beside it: cost in
proportion to the work, at the price of the largest point; of workers, processes and nodes, the first point's time
divided by how many there are. Ray's nodes are raylets of one core each on the loopback address, and are left out where
ray is not installed. Rows of evidence are made up (`made_up_run.py`), 500,000 a model, and reported. Only how the
points lie to the line is a claim: seconds are those of the machine.
"""

import argparse
import importlib.util
import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SHAPE, CLASSES, SIGMA = (3, 32, 32), 10, 0.5
TWO_NODES = Path(__file__).resolve().parents[1] / "tests" / "cluster" / "two_nodes.py"


@dataclass(frozen=True)
class Sweep:
    """What grows, the values that it takes, and how the ideal cost follows from the first."""

    name: str
    title: str
    values: tuple[int, ...]
    shared: bool = False
    """Whether more of it should make it faster, not slower."""

    def ideal(self, rows: list[dict[str, float]], value: float) -> float:
        """The time at a value, from what was measured."""
        if self.shared:
            return rows[0]["seconds"] * rows[0]["value"] / value
        # what is paid once, starting workers above all, weighs least in the largest
        return rows[-1]["seconds"] * value / rows[-1]["value"]


SWEEPS = (
    Sweep("images", "images certified (n = 1,024, two workers)", (32, 64, 128, 256)),
    Sweep("n", "noise samples an image (64 images, two workers)", (512, 1_024, 2_048, 4_096)),
    Sweep("workers", "worker processes (128 images, n = 1,024)", (1, 2), shared=True),
    Sweep("processes", "training processes of one thread (cnn, batch 128)", (1, 2), shared=True),
    Sweep("nodes", "Ray nodes of one core (128 images, n = 1,024)", (1, 2), shared=True),
    Sweep("rows", "million rows of evidence in a report", (1, 2, 5, 10)),
)
BEFORE = {"images": 128, "n": 1_024, "workers": 2, "processes": 1, "nodes": 0, "steps": 60, "rows": 0}


def child(settings: dict[str, int]) -> None:
    """Do the work of one point, and print its seconds."""
    if settings["rows"]:
        report(settings["rows"])
        return
    import numpy as np
    import torch

    import shiftproof as sp
    from shiftproof.execution import always_in_workers, keep_freed_memory

    keep_freed_memory()
    generator = np.random.default_rng(0)
    count = 512 if settings["sweep"] == 3 else settings["images"]
    pixels = generator.integers(0, 256, (count, *SHAPE), np.uint8)
    domain = sp.Domain.from_arrays("random", pixels, np.arange(count) % CLASSES, [str(i) for i in range(CLASSES)])
    model = sp.build_model("cnn", domain, seed=0).eval()
    if settings["sweep"] == 3:
        torch.set_num_threads(settings["processes"])  # one thread a process
        recipe = {"steps": settings["steps"], "batch": 128, "evaluate_every": settings["steps"]}
        running: dict[str, Any] = {"recipe": recipe, "selection": "last", "progress": "off"}
        if settings["processes"] > 1:
            running["processes"] = settings["processes"]
        # what both pay once, starting processes above all, is no part of a step
        seconds = []
        for steps in (settings["steps"] // 4, settings["steps"]):
            began = time.perf_counter()
            few = {**running, "recipe": {**recipe, "steps": steps, "evaluate_every": steps}}
            sp.train(sp.build_model("cnn", domain, seed=0), domain, sp.objectives.ERM(), **few)
            seconds.append(time.perf_counter() - began)
        print(json.dumps({"seconds": seconds[1] - seconds[0]}))
        return
    smoothing = sp.certifiers.RandomizedSmoothing(sp.noise.Gaussian(SIGMA), n=settings["n"], n0=32)
    options: dict[str, Any] = {"workers": settings["workers"], "seed": 0, "progress": "off"}
    if settings["nodes"]:
        options = {"cluster": "ray", "seed": 0, "progress": "off"}
    with always_in_workers() if settings["workers"] > 1 else nullcontext():
        # the first time workers are started, and on a cluster kept
        if settings["nodes"]:
            sp.certify(model, domain.subset(range(8)), smoothing, **options)
        began = time.perf_counter()
        sp.certify(model, domain, smoothing, **options)
    print(json.dumps({"seconds": time.perf_counter() - began}))


def report(millions: int) -> None:
    """Write the page and tables of a run, in a process that has not made it, and print its seconds."""
    from made_up_run import ROWS_OF_A_MODEL

    with tempfile.TemporaryDirectory() as folder:
        write = f"from pathlib import Path; from made_up_run import *; write_run(Path({folder!r}), {{}})"
        here = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
        subprocess.run(
            [sys.executable, "-c", write.format(millions * 1_000_000 // ROWS_OF_A_MODEL)], env=here, check=True
        )
        import shiftproof as sp

        began = time.perf_counter()
        sp.open_run(folder).export()
        print(json.dumps({"seconds": time.perf_counter() - began}))


def measure(sweep: Sweep, value: int, quick: bool) -> dict[str, float]:
    """Seconds and peak memory of a point, the best of a few tries."""
    settings = {**BEFORE, sweep.name: value, "sweep": SWEEPS.index(sweep)}
    if sweep.name == "n":
        settings["images"] = 64
    found = []
    for _ in range(1 if quick else 3):
        with two_nodes(value) if sweep.name == "nodes" else nullcontext(dict(os.environ)) as environment:
            command = [sys.executable, __file__, "--point", json.dumps(settings)]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
            peak = Peak(process.pid)
            output = process.communicate()[0]
            if process.returncode:
                raise SystemExit(f"{sweep.name} = {value} failed")
            found.append((json.loads(output.splitlines()[-1])["seconds"], peak.stop()))
    return {"value": value, "seconds": min(one for one, _ in found), "peak_mb": min(one for _, one in found)}


@contextmanager
def two_nodes(count: int) -> Iterator[dict[str, str]]:
    """One or two raylets on the loopback address, and the environment of a process that uses them."""
    with tempfile.TemporaryDirectory() as folder:
        token = Path(folder) / "token"
        token.write_text(secrets.token_hex(32))
        environment = {**os.environ, "HOME": folder, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
        environment |= {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "PYTHONWARNINGS": "ignore"}
        command = [sys.executable, str(TWO_NODES), str(count)]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(command, env=environment, text=True, **pipes) as host:
            assert host.stdout is not None
            assert host.stdin is not None
            said = json.loads(next(line for line in host.stdout if line.startswith("{")))
            yield {**environment, "RAY_ADDRESS": said["address"]}
            host.stdin.close()


class Peak:
    """The most resident memory that a process and its children had together, looked at ten times a second."""

    def __init__(self, pid: int) -> None:
        self._pid, self._peak, self._ended = pid, 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> float:
        """In MB."""
        self._ended.set()
        self._thread.join()
        return self._peak / 2**20

    def _watch(self) -> None:
        while not self._ended.wait(0.1):
            self._peak = max(self._peak, sum(map(_resident, _family(self._pid))))


def _family(pid: int) -> list[int]:
    try:
        tasks = Path(f"/proc/{pid}/task")
        children = [int(one) for task in tasks.iterdir() for one in (task / "children").read_text().split()]
    except OSError:
        return []
    return [pid, *(one for child in children for one in _family(child))]


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def plot(results: dict[str, list[dict[str, float]]], path: Path) -> None:
    """A panel a sweep: seconds with the ideal line, and memory."""
    from shiftproof.display.axes import numbers_axis
    from shiftproof.display.chart import Chart, Key, Panel
    from shiftproof.display.marks import Dots, Line, Style

    measured, ideal, panels = Style(0), Style(None, dash=(5.0, 4.0)), []
    for sweep in (one for one in SWEEPS if one.name in results):
        points = [(row["value"], row["seconds"]) for row in results[sweep.name]]
        line = [(value, sweep.ideal(results[sweep.name], value)) for value, _ in points]
        hints = [f"{row['seconds']:.1f} s, {row['peak_mb']:,.0f} MB" for row in results[sweep.name]]
        seconds = [second for _, second in [*points, *line]]
        x = numbers_axis(sweep.title, [value for value, _ in points], ticks=[value for value, _ in points])
        y = numbers_axis("seconds", seconds, zero=True, grid=True)
        marks = [Line(line, ideal, ("ideal",)), Line(points, measured, ("measured",))]
        panels.append(Panel([*marks, Dots(points, measured, ("measured",), hints)], x, y, sweep.name, 400, 200))
    keys = [Key("measured", measured, "both"), Key("ideal", ideal)]
    Chart("scale", panels, keys, "How cost grows", columns=2).save(path)


def table(results: dict[str, list[dict[str, float]]]) -> Iterator[str]:
    """Rows of Markdown."""
    yield "| what grows | value | seconds | of the ideal | peak memory |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for sweep in (one for one in SWEEPS if one.name in results):
        for row in results[sweep.name]:
            part = sweep.ideal(results[sweep.name], row["value"]) / row["seconds"]
            cells = f"{row['value']:,.0f} | {row['seconds']:.1f} | {part:.2f} | {row['peak_mb']:,.0f} MB"
            yield f"| {sweep.title} | {cells} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the sweeps and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="each point once")
    parser.add_argument("--json", action="store_true", help="print one JSON object only")
    parser.add_argument("--plot", type=Path, help="write the chart to this SVG or PNG file")
    parser.add_argument("--sweeps", default=",".join(one.name for one in SWEEPS), help="which, with commas")
    parser.add_argument("--point", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.point:
        child(json.loads(given.point))
        return
    wanted = [one for one in SWEEPS if one.name in given.sweeps.split(",")]
    if importlib.util.find_spec("ray") is None:
        wanted = [one for one in wanted if one.name != "nodes"]
    results = {}
    for sweep in wanted:
        results[sweep.name] = [measure(sweep, value, given.quick) for value in sweep.values]
        print(f"{sweep.name}: {results[sweep.name]}", file=sys.stderr)
    if given.plot:
        plot(results, given.plot)
    if not given.json:
        print("\n".join(table(results)))
    print(json.dumps({name: {str(int(row["value"])): row for row in rows} for name, rows in results.items()}))


if __name__ == "__main__":
    main()
