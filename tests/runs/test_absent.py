"""A run of a plug-in that is not installed any more: shown as recorded, checked as far as it can be."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import parquet
from torch import Tensor, nn

from shiftproof.domains import Domain
from shiftproof.errors import StudyError, UsageError
from shiftproof.evidence import Column
from shiftproof.execution import HERE, read_json
from shiftproof.objectives import OBJECTIVES
from shiftproof.objectives.erm import ERM
from shiftproof.probes import PROBES, Probe
from shiftproof.probes.blocks import Columns, ProbeTask, answers_of, measure_blocks
from shiftproof.probes.costs import block_cost
from shiftproof.probes.probe import Result
from shiftproof.runs import open_run, run_study
from shiftproof.runs.study_files import validated
from shiftproof.runs.verify import verify_folder
from shiftproof.types import Cost

pytestmark = pytest.mark.usefixtures("brief_examinations")

STUDY = {
    "name": "study",
    "data": "rotated-digits",
    "target": "angle=75",
    "limit": 12,
    "models": {"m": {"model": "mlp", "objective": "erm-too", "training": {"steps": 3}}},
    "probes": ["clean", {"name": "sureness", "scale": 2.0}, {"name": "sureness", "scale": 1.0}],
}


@dataclass(frozen=True)
class Sureness(Probe):
    """How sure the model is."""

    columns: ClassVar = (Column("sureness", "float", ""),)

    scale: float = 1.0

    @property
    def title(self) -> str:
        return f"sureness {self.scale:g}"

    def collect(self, task: ProbeTask) -> list[Result]:
        return [Result(measure_blocks(self.measure, task))]

    def cost(self, model: nn.Module, domain: Domain, workers: int) -> Cost:
        return block_cost(self.measure, model, domain)

    def measure(self, model: nn.Module, inputs: Tensor, labels: Tensor) -> Columns:
        with torch.no_grad():
            logits = model(inputs)
        return {"prediction": answers_of(logits), "sureness": self.scale * logits.softmax(1).amax(1).numpy()}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a probe and an objective that are gone after it, and the report that it wrote."""
    folder = tmp_path_factory.mktemp("absent") / "run"
    with pytest.MonkeyPatch.context() as patch:
        for catalogue in (PROBES, OBJECTIVES):
            assert list(catalogue)  # all are found before one more is
            patch.setattr(catalogue, "_entries", dict(catalogue._entries))
        PROBES.register("sureness")(Sureness)
        OBJECTIVES.register("erm-too")(type("ERMToo", (ERM,), {"__doc__": "As erm."}))
        run_study(validated(json.loads(json.dumps(STUDY)), "test"), folder, progress="off").export()
    return folder


def test_everything_that_follows_from_evidence_is_shown(finished: Path, tmp_path: Path) -> None:
    run = open_run(finished)
    assert run.absent == (
        "the probe 'sureness' and the objective 'erm-too' are not installed: what depends on that is shown as it was "
        "recorded, and can't be checked again"
    )
    tables = {path.name for path in run.export(["csv", "html"], tmp_path)}
    assert {"report.html", "accuracy.csv"} <= tables
    for path in (tmp_path / "tables").glob("*.csv"):
        assert path.read_bytes() == (finished / "tables" / path.name).read_bytes()
    assert [one.title for one in run.content().probe_tables] == ["sureness 2", "sureness 1"]
    assert "not-installed" in [finding.code for finding in run.findings]
    assert "sureness (the probe &#39;sureness&#39; is not installed)" in (tmp_path / "report.html").read_text()
    assert run.study.to_config() == read_json(finished / "run.json", StudyError)["study"]


def test_verify_checks_what_it_can_and_does_not_pass(finished: Path) -> None:
    findings = list(verify_folder(finished, seed=0))
    assert [one.code for one in findings if one.level == "fail"] == ["not-installed"]
    assert {"weights-same", "data-same", "evidence-same", "tables-same"} <= {one.code for one in findings}


def test_a_change_is_still_found(finished: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(finished, tmp_path / "run")
    table = folder / "tables" / "accuracy.csv"
    table.write_text(table.read_text().replace("angle=0", "angle=1"))
    path = next((folder / "evidence").rglob("sureness-*.parquet"))
    rows = parquet.read_table(path)
    column = rows.schema.get_field_index("sureness")
    parquet.write_table(rows.set_column(column, "sureness", pa.array(np.ones(len(rows)))), path)
    codes = [one.code for one in verify_folder(folder, seed=0) if one.level == "fail"]
    assert sorted(codes) == ["evidence-changed", "not-installed", "table-differs"]


def test_an_objective_is_not_needed_to_verify(finished: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PROBES, "_entries", dict(PROBES._entries))
        PROBES.register("sureness")(Sureness)
        (finding,) = [one for one in verify_folder(finished, seed=0) if one.code == "not-installed"]
    assert (finding.level, "erm-too" in finding.message) == ("warn", True)


def test_it_can_not_measure_or_train_again(finished: Path) -> None:
    study = open_run(finished).study
    with pytest.raises(UsageError, match="the probe 'sureness' is not installed"):
        study.probes[1].cost(nn.Identity(), None, HERE)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="the objective 'erm-too' is not installed"):
        study.models["m"].objective.loss(nn.Identity(), None, torch.Generator())  # type: ignore[arg-type]


def test_a_study_to_run_is_refused_as_ever(finished: Path) -> None:
    with pytest.raises(StudyError, match="unknown (probe|objective)"):
        validated(json.loads(json.dumps(STUDY)), "test")


def test_without_what_evidence_is_filed_under_there_is_one_sentence(finished: Path, tmp_path: Path) -> None:
    record = read_json(finished / "run.json", StudyError)
    del record["settings"]
    (tmp_path / "run.json").write_text(json.dumps(record))
    with pytest.raises(StudyError, match="unknown probe 'sureness'"):
        open_run(tmp_path)
