"""Several targets: one training, each target measured with a gap of its own, in one report."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import shiftproof as sp
from shiftproof.display.marks import Dots
from shiftproof.errors import StudyError, UnknownName, UsageError
from shiftproof.report import accuracy_table
from shiftproof.runs import parse_study, run_study
from shiftproof.runs.identity import digest, study_identity
from shiftproof.runs.run import open_run

pytestmark = pytest.mark.usefixtures("brief_examinations", "brief_trials")

Call = Callable[..., tuple[int, str, str]]
SOURCES, TARGETS = ("angle=0", "angle=30"), ("angle=75", "angle=15")
SMALL = """
data: rotated-digits
source: [angle=0, angle=30]
target: [angle=75, angle=15]
limit: 50
models: {plain: {model: {name: mlp, width: 32}, training: {steps: 40, batch: 32}}}
probes:
  - clean
  - {name: attack, attack: {name: pgd, threat: "l2:0.3", steps: 2}, eps: [0.1]}
  - {name: certify, certifier: {noise: "gaussian:0.25", n: 100}}
"""
TRAIN = ["--data", "rotated-digits", "--source", "angle=0,angle=30", "--model", "mlp", "--set", "training.steps=10"]

QUICK: dict[str, Any] = {"threats": "l2:0.1", "corruptions": ["fog"], "severities": [3], "limit": 8, "seed": 0}
QUICK |= {"certifiers": [sp.certifiers.RandomizedSmoothing(sp.noise.Gaussian(0.25), n=50)], "progress": "off"}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> sp.Run:
    torch.set_num_threads(1)
    return run_study(parse_study(SMALL, "s", "s"), tmp_path_factory.mktemp("targets") / "run", progress="off")


def answers(run: sp.Run) -> dict[str, dict[str, float]]:
    """Whether the model of the run is right on every measured sample, by domain and id, from plain predictions."""
    domains = sp.load_domains("rotated-digits")
    model = sp.load_model(f"file:{run.folder / 'models' / 'plain.safetensors'}", domains).eval()
    right = {}
    for name in (*SOURCES, *TARGETS):
        places = {str(one): place for place, one in enumerate(domains[name].ids)}
        ids = [str(one) for one in run.evidence.where(domain=name, probe="clean").column("id")]
        inputs, labels = domains[name].subset([places[one] for one in ids]).tensors()
        with torch.no_grad():
            correct = (model(inputs).argmax(1) == labels).tolist()
        right[name] = dict(zip(ids, map(float, correct), strict=True))
    return right


def gap_by_hand(right: dict[str, dict[str, float]], target: str) -> tuple[float, float]:
    """The mean over sources less the target, and its standard error; a sample of several domains counts once."""
    weights = {**dict.fromkeys(SOURCES, 1 / len(SOURCES)), target: -1.0}
    means = {name: sum(right[name].values()) / len(right[name]) for name in weights}
    parts: dict[str, float] = {}
    for name, weight in weights.items():
        for one, value in right[name].items():
            parts[one] = parts.get(one, 0.0) + weight * (value - means[name]) / len(right[name])
    return sum(weight * means[name] for name, weight in weights.items()), float(np.linalg.norm(list(parts.values())))


def test_each_target_has_the_gap_that_plain_predictions_give(ran: sp.Run) -> None:
    right = answers(ran)
    assert all(len(one) == 50 for one in right.values())
    (row,) = ran.content().accuracy.rows
    assert list(row.gaps) == list(TARGETS)
    for target in TARGETS:
        lost, error = gap_by_hand(right, target)
        assert row.gaps[target].value == pytest.approx(lost, abs=1e-12)
        assert row.gaps[target].low == pytest.approx(lost - 1.96 * error, abs=0.04)
        assert row.gaps[target].high == pytest.approx(lost + 1.96 * error, abs=0.04)
    assert row.gaps["angle=75"].value > row.gaps["angle=15"].value


def test_a_gap_is_that_of_a_report_with_this_target_alone(ran: sp.Run) -> None:
    (row,) = ran.content().accuracy.rows
    for target in TARGETS:
        (alone,) = accuracy_table(ran.evidence, SOURCES, (target,), ran.study.seed).rows
        assert alone.gaps == {target: row.gaps[target]}
        assert {name: alone.accuracy[name] for name in (*SOURCES, target)} == alone.accuracy
        assert alone.accuracy[target] == row.accuracy[target]


class TestReport:
    def test_tables_have_a_gap_beside_each_target(self, ran: sp.Run, tmp_path: Path) -> None:
        ran.export(folder=tmp_path)
        head = (tmp_path / "tables" / "accuracy.md").read_text().splitlines()[0]
        assert [cell.strip() for cell in head.strip("| ").split("|")] == [
            "model",
            "angle=75 (unseen)",
            "gap on angle=75 in points",
            "angle=15 (unseen)",
            "gap on angle=15 in points",
            "angle=0 (source)",
            "angle=30 (source)",
        ]
        with (tmp_path / "tables" / "accuracy.csv").open() as file:
            lines = [line for line in csv.DictReader(file) if line["metric"] == "gap"]
        (row,) = ran.content().accuracy.rows
        assert {line["domain"]: float(line["value"]) for line in lines} == {
            target: pytest.approx(row.gaps[target].value) for target in TARGETS
        }
        with (tmp_path / "tables" / "measures.csv").open() as file:
            names = [line["domain"] for line in csv.DictReader(file) if line["measure"] == "as they are"]
        assert names == [*SOURCES, *TARGETS, "gap on angle=75", "gap on angle=15"]
        figures = {path.stem for path in (tmp_path / "figures").glob("*.svg")}
        assert {"matrix-sources", "matrix-unseen-angle=75", "matrix-unseen-angle=15"} <= figures

    def test_every_target_is_called_unseen(self, ran: sp.Run) -> None:
        content = ran.content()
        assert [content.role_of(name) for name in (*SOURCES, *TARGETS)] == ["source", "source", "unseen", "unseen"]
        (chart,) = content.sections["certified"].charts()
        assert "sources are dashed, and each unseen domain has a line and dots of its own" in chart.words
        hints = " ".join(hint for mark in chart.panels[0].marks if isinstance(mark, Dots) for hint in mark.hints)
        for name in (*SOURCES, *TARGETS):
            assert f", {name}, " in hints
        assert content.facts["data"] == "rotated-digits; trained on angle=0, angle=30; left out: angle=75, angle=15"

    def test_a_finding_for_each_target(self, ran: sp.Run) -> None:
        about = [one.message for one in ran.findings if one.code in ("gap", "collapse", "undecided", "holds")]
        assert len(about) == 2
        assert all(any(f"% on {target}: " in message for message in about) for target in TARGETS)
        assert sum(one.code.startswith("guarantee-") for one in ran.findings) == 2

    def test_the_verdict_is_about_the_worst(self, ran: sp.Run) -> None:
        (text,) = ran.verdict
        assert text.startswith("On 50 samples of angle=75, the worst of 2 targets, the model is right on ")

    def test_json_has_a_gap_by_target(self, ran: sp.Run) -> None:
        found, (row,) = ran.content().to_json()["sections"], ran.content().accuracy.rows
        assert found["accuracy"]["gap"] == {"plain": {target: row.gaps[target].value for target in TARGETS}}
        assert set(found["measures"][0]["gap_interval"]) == set(TARGETS)


class TestRecord:
    def test_the_record_and_the_model_name_all_targets(self, ran: sp.Run) -> None:
        assert ran.record["study"]["target"] == list(TARGETS)
        card = json.loads((ran.folder / "models" / "plain.json").read_text())
        assert (card["sources"], card["target"]) == (["angle=0", "angle=30"], ["angle=15", "angle=75"])

    def test_the_folder_alone_gives_the_same_report(self, ran: sp.Run) -> None:
        opened = open_run(ran.folder)
        assert opened.study.targets == TARGETS
        assert opened.content().accuracy.figures() == ran.content().accuracy.figures()

    def test_order_and_form_do_not_matter_to_what_is_asked(self, ran: sp.Run) -> None:
        before = (ran.folder / "models" / "plain.safetensors").stat().st_mtime_ns
        for other in ('"angle=15, angle=75"', "[angle=15, angle=75]"):
            again = run_study(parse_study(SMALL.replace("[angle=75, angle=15]", other), "s", "s"), ran.folder)
            # what was asked first is what is shown
            assert again.content().targets == TARGETS
        assert (ran.folder / "models" / "plain.safetensors").stat().st_mtime_ns == before
        with pytest.raises(UsageError, match="holds a run with other target"):
            run_study(parse_study(SMALL.replace("[angle=75, angle=15]", "angle=75"), "s", "s"), ran.folder)

    @pytest.mark.parametrize(
        ("written", "names", "recorded"),
        [
            ("angle=75", ("angle=75",), "angle=75"),
            ("[angle=75]", ("angle=75",), "angle=75"),
            ("75", ("75",), "75"),
            ("[75, 15]", ("75", "15"), ["75", "15"]),
            ("'a,b'", ("a", "b"), ["a", "b"]),
            ("['a,b']", ("a,b",), ["a,b"]),
            ("[]", (), None),
            ("null", (), None),
        ],
    )
    def test_one_name_is_recorded_as_before(self, written: str, names: tuple[str, ...], recorded: Any) -> None:
        study = parse_study(SMALL.replace("[angle=75, angle=15]", written), "s", "s")
        assert study.targets == names
        assert study.to_config()["target"] == recorded
        again = study.changed()
        assert again.targets == names
        assert digest(study_identity(again)) == digest(study_identity(study))

    def test_verify_and_estimate(self, ran: sp.Run, run: Call, tmp_path: Path) -> None:
        code, out, err = run("verify", ran.folder, "--part", 1, "--seed", 1)
        assert code == 0, out + err
        (tmp_path / "s.yaml").write_text(SMALL)
        code, out, err = run("estimate", tmp_path / "s.yaml", "--json")
        assert code == 0, err
        passes = {one["stage"]: one["forward_passes"] for one in json.loads(out)["costs"]}
        assert passes["clean"] == 4 * 50

    def test_verify_finds_a_target_that_was_edited(self, ran: sp.Run, run: Call, tmp_path: Path) -> None:
        from shutil import copytree

        copytree(ran.folder, tmp_path / "run")
        record = json.loads((tmp_path / "run" / "run.json").read_text())
        record["config"]["target"] = "angle=75"
        (tmp_path / "run" / "run.json").write_text(json.dumps(record))
        code, out, _ = run("verify", tmp_path / "run", "--part", 1, "--seed", 1)
        assert code == 2
        assert "config.target" in out


@pytest.mark.usefixtures("least_effort", "no_trials")
class TestCommandLine:
    def test_train_and_audit(self, run: Call, tmp_path: Path) -> None:
        train = ["train", *TRAIN, "--target", "angle=75,angle=15", "--limit", 20, "--out", "m", "--json"]
        code, out, err = run(*train, "--require", "clean>=0.99")
        assert code == 2, err
        found = json.loads(out)
        sources = (found["accuracy"]["angle=0"] + found["accuracy"]["angle=30"]) / 2
        assert found["gap"] == {name: pytest.approx(sources - found["accuracy"][name]) for name in TARGETS}
        (required,) = found["requirements"]
        assert (required["met"], required["domain"]) == (False, min(TARGETS, key=lambda one: found["accuracy"][one]))
        assert json.loads(Path("m/model.json").read_text())["target"] == ["angle=15", "angle=75"]
        # of three targets, the model was trained on one
        where = ["--source", "angle=30", "--target", "angle=75, angle=0,angle=15"]
        quick = ["--limit", 6, "--n", 50, "--corruptions", "fog", "--severities", 3, "--threat", "l2:0.1"]
        code, out, err = run(
            "audit", "--data", "rotated-digits", "--model", "file:m", *where, *quick, "--out", "a", "--verbose"
        )
        assert code == 0, err
        assert out.count("was trained on angle=") == out.count("was trained on angle=0, or") > 0
        assert ", the worst of 3 targets, the model is right on" in out

    @pytest.mark.parametrize(
        ("target", "said"),
        [
            ("angle=75,angle=15,angle=75", "the target 'angle=75' is named twice; name each target once"),
            ("angle=75,angle=30", "'angle=30' is both source and target; a target is what training leaves out"),
            ("angle=15,angle=7", "unknown domain of 'rotated-digits': 'angle=7'. Did you mean 'angle=75'?"),
            ("angle=75,", "unknown domain of 'rotated-digits': ''."),
        ],
    )
    def test_targets_that_make_no_sense(self, run: Call, target: str, said: str) -> None:
        for verb in (["train", *TRAIN], ["audit", *TRAIN[:4], "--model", "python:toys:two_classes"]):
            code, out, err = run(*verb, "--target", target, "--out", "m")
            assert (code, out) == (1, "")
            assert said in err
            assert not Path("m").exists()

    def test_all_domains_are_targets(self, run: Call) -> None:
        code, _, err = run("train", "--data", "colored-digits", "--target", "e=0.1,e=0.2,e=0.9", "--out", "m")
        assert code == 1
        assert "leaving all of them out leaves nothing to train on" in err


@pytest.mark.parametrize("target", ["{a: b}", "true", "[angle=75, [angle=15]]"])
def test_a_target_that_is_no_name(target: str) -> None:
    with pytest.raises(StudyError, match="s, line 4: target.*: input should be a valid string"):
        parse_study(SMALL.replace("[angle=75, angle=15]", target), "s", "s")


@pytest.mark.usefixtures("least_effort", "no_trials")
class TestPython:
    @pytest.fixture
    def model(self) -> nn.Module:
        return sp.build_model("mlp", sp.load_domains("rotated-digits"), width=16)

    def test_an_audit(self, model: nn.Module) -> None:
        domains = sp.load_domains("rotated-digits")
        sources = domains.select(SOURCES)
        run = sp.audit(model, sources, [domains["angle=75"], domains["angle=15"]], **QUICK, out="list")
        assert run.study.targets == TARGETS
        assert all(set(row.gaps) == set(TARGETS) for row in run.content().measures.rows)
        # what is shown with the figure of one target rests on the sources and on that target alone
        assert {fact["seen_in_training"]["model"] for fact in run.samples.values()} == {"unknown", "no"}
        assert run.study.about.endswith("; angle=75, angle=15 are where it is shipped to.")
        same = sp.audit(model, sources, domains.select(TARGETS), **QUICK, out="list")
        assert same.content().accuracy.figures() == run.content().accuracy.figures()

    def test_targets_that_make_no_sense(self, model: nn.Module) -> None:
        domains = sp.load_domains("rotated-digits")
        sources, target = domains.select(SOURCES), domains["angle=75"]
        with pytest.raises(UsageError, match="the target 'angle=75' is named twice"):
            sp.audit(model, sources, [target, target])
        with pytest.raises(UsageError, match="'angle=30' is both source and target"):
            sp.audit(model, sources, [target, domains["angle=30"]])
        for wrong in ("angle=75", ["angle=75"], [target, None], 3):
            with pytest.raises(UsageError, match="audit takes domains"):
                sp.audit(model, sources, wrong)  # type: ignore[arg-type]


def test_domains_without_some() -> None:
    domains = sp.load_domains("colored-digits")
    assert domains.without(["e=0.9", "e=0.1"]).names == ("e=0.2",)
    assert domains.without([]).names == domains.names
    with pytest.raises(UnknownName, match="Did you mean 'e=0.9'"):
        domains.without(["e=0.1", "e=9"])
