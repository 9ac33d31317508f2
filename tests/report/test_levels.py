"""What is smoothed, label, representation or logits: every figure of the table from a run's evidence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from shiftproof.runs import parse_study, run_study

STUDY = """
data: rotated-digits
source: [angle=0]
target: angle=75
limit: 12
models:
  net: {model: {name: mlp, width: 16}, objective: {name: gaussian, sigma: 0.1}, training: {steps: 80}}
probes:
  - clean
  - {name: certify, certifier: {name: randomized-smoothing, noise: "gaussian:0.1", n: 200, alpha: 0.01}}
  - {name: certify, certifier: {name: randomized-smoothing, noise: "gaussian:0.3", n: 200, alpha: 0.01}}
  - {name: certify, certifier: {name: median-smoothing, radius: 0.05, samples: 200, alpha: 0.01}}
  - {name: certify, certifier: {name: median-smoothing, radius: 0.05, samples: 200, alpha: 0.01, level: logits}}
  - {name: certify, certifier: {name: median-smoothing, radius: 0.05, samples: 200, alpha: 0.01, unsound: as-published}}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    torch.set_num_threads(1)
    return run_study(
        parse_study(STUDY, "study", "levels"), tmp_path_factory.mktemp("levels") / "run", progress="off", images=False
    )


def certified_by(run: Any, domain: str, **options: Any) -> Any:
    rows = [
        one
        for one in run.evidence.where(probe="certify", domain=domain)
        if all(one.fact("certifier").get(key) == value for key, value in options.items())
    ]
    assert len(rows) == 1
    return rows[0]


@pytest.mark.parametrize("domain", ["angle=75", "angle=0"])
def test_figures_are_those_of_the_evidence(run: Any, domain: str) -> None:
    records = run.content().sections["levels"].to_json()["levels"]
    told = {(row["what"], row["metric"]): row["value"] for row in records if row["domain"] == domain}
    (clean,) = run.evidence.where(probe="clean", domain=domain)
    assert told["model itself", "accuracy"] == pytest.approx((clean["prediction"] == clean["label"]).mean())
    vote = certified_by(run, domain, noise={"name": "gaussian", "sigma": 0.1})
    right = vote["prediction"] == vote["label"]
    assert told["label", "certified"] == pytest.approx((right & (vote["radius"] >= 0.05)).mean())
    assert told["label", "acr"] == pytest.approx(np.where(right, vote["radius"], 0).mean())
    for level in ("representation", "logits"):
        one = certified_by(run, domain, name="median-smoothing", level=level, unsound="")
        held = (one["prediction"] == one["label"]) & (one["radius"] >= 0.05)
        assert told[level, "certified"] == pytest.approx(held.mean())
        assert told[level, "answers"] == pytest.approx((one["chosen"] == one["label"]).mean())
        assert told[level, "answers"] >= told[level, "certified"]


def test_the_table_leaves_a_gap_where_nothing_was_measured(run: Any) -> None:
    (table,) = run.content().sections["levels"].tables()
    assert len(table.rows) == 2
    assert all(cell.text != "-" for row in table.rows for cell in row.cells)
    assert "as-published" not in str(table)
