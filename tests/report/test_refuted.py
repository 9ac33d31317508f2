"""What published rules claim beside what is certified: every figure recomputed from a run's evidence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from shiftproof.evidence import Column, Evidence, Measurement
from shiftproof.evidence.checks import refuted_findings
from shiftproof.report.sections.refuted import rules_of
from shiftproof.runs import parse_study, run_study
from shiftproof.runs.verify import verify_folder

STUDY = """
data: rotated-digits
source: [angle=0]
target: angle=75
limit: 5
models:
  net: {model: {name: cnn, width: 4}, objective: {name: gaussian, sigma: 0.1}, training: {steps: 30}}
probes:
  - clean
  - {name: certify, certifier: {name: adapted-smoothing, sigmas: [0.1, 0.3], n: 100, rule: selection}}
  - {name: refute, steps: 1, certifier: {name: adapted-smoothing, sigmas: [0.1, 0.3], n: 100, unsound: as-published}}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("refuted") / "run"
    return run_study(parse_study(STUDY, "study", "refuted"), folder, progress="off", images=False)


def test_figures_are_those_of_the_evidence(run: Any) -> None:
    section = run.content().sections["refuted"]
    records = section.to_json()["refuted"]
    for domain in ("angle=75", "angle=0"):
        published = run.evidence.where(probe="refute", domain=domain)[0]
        sound = run.evidence.where(probe="certify", domain=domain)[0]
        for one, unsound in ((published, "as-published"), (sound, "")):
            of_rule = [row for row in records if (row["domain"], row["unsound"]) == (domain, unsound)]
            right = np.where(one["prediction"] == one["label"], one["radius"], 0.0)
            shares = {row["radius"]: row["value"] for row in of_rule if row["metric"] == "claimed right"}
            assert len(shares) >= 2
            for radius, share in shares.items():
                held = (one["prediction"] == one["label"]) & (one["radius"] > 0) & (one["radius"] >= radius)
                assert share == pytest.approx(held.mean())
            told = {row["metric"]: row["value"] for row in of_rule if row["metric"] != "claimed right"}
            assert told["mean radius claimed, all"] == pytest.approx(right.mean())
            # only what was attacked has a number of refutations, even if it is 0
            expected = {"mean radius claimed, all"} | ({"claims attacked", "claims refuted"} if unsound else set())
            assert set(told) == expected
            if unsound:
                assert told["claims attacked"] == (one["radius"] > 0).sum()
                assert told["claims refuted"] == np.isfinite(one["distance"]).sum()


def test_what_is_claimed_is_called_no_guarantee_and_counted_nowhere(run: Any) -> None:
    report = run.content()
    section = report.sections["refuted"]
    words = " ".join(section.words())
    assert "No guarantee: adapted 0.1,0.3, as-published" in words
    assert "those that were not are not thereby true" in words
    table = section.tables()[0]
    doubted = [row for row in table.rows if "no guarantee (as-published)" in row.cells[1].below]
    assert doubted
    assert not any(row.mark for row in doubted)
    assert all(row.mark for row in table.rows if row not in doubted)
    assert {one.title for one in report.series} == {"adapted 0.1,0.3, selection"}
    assert not any("as-published" in one["title"] for one in report.sections["measures"].to_json())
    assert not report.probe_tables
    assert "What published rules claim, and what holds" in run.report().read_text()


def test_a_run_with_attacked_claims_is_verified(run: Any) -> None:
    failed = [one for one in verify_folder(run.folder, seed=1, part=1) if one.level == "fail"]
    assert failed == []


def _claims(refuted: int, unsound: str = "", **facts: Any) -> Measurement:
    columns = {"id": [str(i) for i in range(10)], "label": [0] * 10, "prediction": [0] * 10, "correct": [True] * 10}
    declared = (Column("radius", "float", ""), Column("claimed", "bool", ""), Column("refuted", "bool", ""))
    values = {"radius": np.full(10, 0.5), "claimed": np.ones(10, bool), "refuted": np.arange(10) < refuted}
    known: dict[str, Any] = {
        "model": "m",
        "domain": "d",
        "probe": "refute",
        "setting": "s",
        "title": "t",
        "classifier": "adapted",
    }
    known |= {"rule": "r", "norm": "l2", "units": "pixels", "alpha": 0.1, "scale": 0.5, "level": 1e-6}
    return Measurement.of({**known, "unsound": unsound, **facts}, {**columns, **values}, declared)


@pytest.mark.parametrize(
    ("refuted", "unsound", "levels"),
    [(0, "", []), (1, "", ["warn"]), (2, "", ["fail"]), (9, "as-published", [])],
)
def test_sound_certificates_that_are_refuted_are_findings(refuted: int, unsound: str, levels: list[str]) -> None:
    assert [one.level for one in refuted_findings(Evidence([_claims(refuted, unsound)]))] == levels


def test_an_attack_on_certificates_stands_in_their_row() -> None:
    """Told by certifier and alpha: what was attacked at another alpha has a row of its own."""
    config = {"name": "adapted-smoothing", "sigmas": [0.1]}
    attacked = _claims(0, certifier=config)
    certified = Measurement({**attacked.facts, "probe": "certify", "setting": "c", "title": "r"}, attacked.rows)
    (one,) = rules_of(Evidence([certified, attacked]))
    assert (one.title, one.tried, one.refuted, one.images) == ("r", 10, 0, 10)
    other = Measurement({**certified.facts, "alpha": 0.01}, certified.rows)
    assert [one.tried for one in rules_of(Evidence([other, attacked]))] == [10, None]
    assert rules_of(Evidence([certified])) == []


def test_what_an_attack_refutes_of_an_unsound_rule_is_a_finding(run: Any) -> None:
    (told,) = [one for one in run.findings if one.code == "unsound-rule"]
    published = [one for one in run.evidence.where(probe="refute") if one.fact("unsound")]
    broken, claims = (sum(int(one[name].sum()) for one in published) for name in ("refuted", "claimed"))
    assert told.level == "fail"
    assert f"of all its {claims} claims an attack refutes {broken}, and proves nothing" in told.message
