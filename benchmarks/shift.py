"""Lower bounds on the distance between domains: all pairs of PACS, and colon patients dealt at random, the null case.

    python benchmarks/shift.py pacs docs/results/shift-pacs.csv
    python benchmarks/shift.py colon docs/results/shift-colon.csv

Needs SHIFTPROOF_DATA. The last line is one JSON object.
"""

from __future__ import annotations

import csv
import json
import sys
import time
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np

from shiftproof.domains import load_domains
from shiftproof.domains.splits import first_samples, held_out
from shiftproof.rng import numpy_generator
from shiftproof.theory import Points, lower_distance
from shiftproof.theory.critics_network import NetworkFit
from shiftproof.theory.distances.lower_bound import Fit, LinearFit, difference_bound

DEALS, PATCHES = 200, 10
LEVELS, BRIGHTER = (0.99, 0.9, 0.8), np.float32(0.1)
Row = dict[str, object]


def pacs() -> Iterator[Row]:
    """Every pair of domains at 64 pixels, 99 %: held-out images, by critics and intervals."""
    domains = list(load_domains("pacs"))
    networks: dict[str, Fit] = {"mlp-cayley": NetworkFit("mlp-cayley")}
    for limit in (200, 400, None):
        points = {}
        for domain in domains:
            inputs = first_samples(held_out(domain), limit).tensors()[0].numpy()
            points[domain.name] = Points.of(domain.name, inputs)
        cases = [("linear", "betting", None), ("linear", "bernstein", None)]
        for critic, interval, fits in [*cases, *([("mlp-cayley", "betting", networks)] if limit == 400 else [])]:
            for one, other in combinations(points, 2):
                began = time.perf_counter()
                known = fits or {"linear": LinearFit("l2")}
                found = lower_distance(points[one], points[other], fits=known, interval=interval)  # type: ignore[arg-type]
                yield {
                    "domain": one,
                    "target": other,
                    "images": "all" if limit is None else limit,
                    "judged": f"{found.n[0]}+{found.n[1]}",
                    "critic": critic,
                    "interval": interval,
                    "difference": round(found.difference, 2),
                    "lower_99": round(found.lower, 2),
                    "seconds": round(time.perf_counter() - began, 1),
                }


def colon() -> Iterator[Row]:
    """Patients dealt at random into two halves, again and again: no shift is there, and none may be proven."""
    data = list(load_domains("colon"))
    inputs = np.concatenate([domain.tensors()[0].numpy() for domain in data])
    groups = np.concatenate([domain.groups for domain in data if domain.groups is not None])
    patients = np.unique(groups.astype(str))
    generator = numpy_generator(0, "patients of a patch")
    rows = np.concatenate([generator.permutation(np.flatnonzero(groups == patient))[:PATCHES] for patient in patients])
    inputs, groups = inputs[rows], groups[rows]
    for deal in range(DEALS):
        first = set(numpy_generator(deal, "deal patients").permutation(patients)[: len(patients) // 2].tolist())
        here = np.array([group in first for group in groups])
        sides = [
            Points.of(name, inputs[mask], groups[mask].tolist()) for name, mask in (("here", here), ("there", ~here))
        ]
        row: Row = {"deal": deal}
        # one site that is brighter shows that an alarm could come
        brighter = Points(sides[1].name, np.clip(sides[1].inputs + BRIGHTER, 0, 1), sides[1].units)
        for name, target in (("same", sides[1]), ("brighter", brighter)):
            found = lower_distance(sides[0], target, seed=deal)
            row |= {"patients": f"{found.n[0]}+{found.n[1]}", f"lower_99_{name}": round(found.lower, 3)}
            scores = [
                np.clip((values - found.judge.low) / (found.judge.high - found.judge.low), 0, 1)
                for values in (found.reference_values, found.target_values)
            ]
            for level in LEVELS:
                alarm = difference_bound(scores[0], scores[1], 1 - level, "betting") > 0
                row[f"alarm_{round(100 * level)}_{name}"] = int(alarm)
        yield row


def main() -> None:
    """Measure and write a CSV file."""
    rows: list[Row] = []
    measure, path = {"pacs": pacs, "colon": colon}[sys.argv[1]], Path(sys.argv[2])
    for row in measure():
        rows.append(row)
        print(*row.values(), flush=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    totals = {key: sum(int(str(row[key])) for row in rows) for key in rows[0] if key.startswith("alarm")}
    print(json.dumps({"rows": len(rows), **totals}))


if __name__ == "__main__":
    main()
