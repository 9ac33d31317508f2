"""Accuracies that a sweep of DomainBed has left, as runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import shiftproof as sp
from shiftproof.errors import ShiftproofError
from shiftproof.runs import import_results
from shiftproof.runs.verify import verify_folder

Call = Callable[..., tuple[int, str, str]]


def line(target: int | list[int] = 0, **changes: object) -> dict[str, object]:
    """A line as DomainBed writes it: accuracies on the larger (in) and the held-out (out) part of every domain."""
    args = {
        "algorithm": changes.pop("algorithm", "ERM"),
        "dataset": changes.pop("dataset", "PACS"),
        "hparams_seed": changes.pop("hparams_seed", 0),
        "trial_seed": changes.pop("trial_seed", 0),
        "test_envs": target if isinstance(target, list) else [target],
        "task": changes.pop("task", "domain_generalization"),
        "seed": 1,
    }
    accuracies = {f"env{place}_{part}_acc": 0.5 for place in range(3) for part in ("in", "out")}
    return {"args": args, "hparams": {"lr": 0.1}, "step": 0, "epoch": 0.0, "loss": 1.0, **accuracies, **changes}


def sweep(path: Path, *lines: dict[str, object]) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return path


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Two trials of one algorithm on one domain: steps and hyper-parameters to choose from."""
    return [
        sweep(
            tmp_path / "one" / "results.jsonl",
            line(env0_in_acc=0.9, env1_out_acc=0.6, env2_out_acc=0.6),
            line(env0_in_acc=0.7, env1_out_acc=0.9, env2_out_acc=0.7, step=300),
        ),
        # worse on the training domains, so that its accuracy elsewhere does not count
        sweep(tmp_path / "two" / "results.jsonl", line(env0_in_acc=1.0, env0_out_acc=1.0, hparams_seed=1)),
        sweep(
            tmp_path / "three" / "results.jsonl",
            line(env0_in_acc=0.6, trial_seed=1, env1_out_acc=0.8, env2_out_acc=0.8),
            line([0, 1], trial_seed=1, env1_out_acc=1.0, env2_out_acc=1.0),
        ),
    ]


def test_the_step_that_training_domains_select(files: list[Path], tmp_path: Path) -> None:
    run = import_results(files, out=tmp_path / "run")
    run.export()
    (one,) = sp.open_run(run.folder).evidence
    assert (one.model, one.domain, one.probe, one.seen_in_training) == ("ERM", "PACS A", "trials", "no")
    assert one["id"].tolist() == ["trial 0", "trial 1"]
    assert one["accuracy"].tolist() == [0.7, 0.6]
    assert one["source_accuracy"].tolist() == pytest.approx([0.8, 0.8])
    assert one["step"].tolist() == [300, 0]
    assert one["tried"].tolist() == [2, 1]
    rows = json.loads((run.folder / "report.json").read_text())["sections"]["trials"]["trials"]
    mean = {row["metric"]: row["value"] for row in rows if row["domain"] == "mean"}
    assert mean == pytest.approx({"accuracy": 0.65, "source_accuracy": 0.8, "gap": 0.15})
    # t of one degree of freedom, 12.706, times the standard error 0.05, cut at what an accuracy can be
    first = next(row for row in rows if (row["domain"], row["metric"]) == ("PACS A", "accuracy"))
    assert (first["standard_error"], first["low"], first["high"]) == pytest.approx((0.05, 0.0147, 1.0), abs=1e-3)
    found = {finding.code: finding.level for finding in run.findings}
    assert found == {"cant-be-checked": "warn", "few-trials": "warn", "lines-left-out": "pass"}
    failed = [one.code for one in verify_folder(run.folder, seed=0) if one.level == "fail"]
    assert failed == ["cant-be-checked"]


def test_algorithms_and_data_sets_side_by_side(tmp_path: Path, run: Call) -> None:
    path = sweep(
        tmp_path / "a" / "results.jsonl",
        *(
            line(place, algorithm=name, trial_seed=trial)
            for place in range(3)
            for name in ("ERM", "IRM")
            for trial in range(3)
        ),
        line(1, dataset="Own", task="domain_adaptation"),
    )
    code, shown, _ = run("import", path, "--out", tmp_path / "run")
    assert code == 0
    for words in ("PACS A", "PACS P", "Own env1", "IRM", "50.0%", "3 trials"):
        assert words in shown
    evidence = sp.open_run(tmp_path / "run").evidence
    assert evidence.get(domain="Own env1").seen_in_training == "unknown"
    assert len(evidence) == 7


def test_bad_sweeps(files: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "run"
    (tmp_path / "log.tsv").write_text("idx\tlabel\tpredict\tradius\n0\t1\t1\t0.5\n")
    with pytest.raises(ShiftproofError, match="import each kind by itself"):
        import_results([*files, tmp_path / "log.tsv"], out=out)
    with pytest.raises(ShiftproofError, match="leave out --model and --domain"):
        import_results(files, model="m", out=out)
    for lines, sentence in [
        ([line([0, 1])], "no line leaves out exactly one domain"),
        ([line(env0_in_acc=1.5)], "not between 0 and 1"),
        ([line(7)], "lacks 'env7_in_acc'"),
        ([line(), {"args": {}}], "line 2: not a line of results"),
        ([line(env1_out_acc="high")], "has something else there"),
    ]:
        with pytest.raises(ShiftproofError, match=sentence):
            import_results(sweep(tmp_path / "bad" / "results.jsonl", *lines), out=out)
    with pytest.raises(ShiftproofError, match=r"is a folder; name the files in it: .*/\*/results.jsonl"):
        import_results(tmp_path, out=out)
    assert not out.exists()
