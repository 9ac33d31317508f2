"""Robust flags that others have left, as runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shiftproof as sp
from shiftproof.errors import ShiftproofError
from shiftproof.runs import import_results
from shiftproof.runs.verify import verify_folder

Call = Callable[..., tuple[int, str, str]]
ROBUST = [True, False, True, False, False]


def state(path: Path, **changes: object) -> Path:
    """As AutoAttack writes it; a set is written as Python prints it."""
    known = {
        "_attacks_to_run": "{'apgd-ce', 'square'}",
        "path": str(path),
        "_run_attacks": ["square", "apgd-ce"],
        "_robust_flags": ROBUST,
        "_last_saved": "2024-01-01 00:00:00",
        "_SAVE_TIMEOUT": 60,
        "_clean_accuracy": 0.8,
    }
    path.write_text(json.dumps({**known, **changes}))
    return path


def test_a_state_of_autoattack(tmp_path: Path) -> None:
    run = import_results(state(tmp_path / "carmon.json"), domain="cifar10", threat="linf:8/255", out=tmp_path / "run")
    run.export()
    (one,) = sp.open_run(run.folder).evidence
    assert (one.probe, one.classifier, one.fact("norm"), one.fact("eps")) == ("attack", "base", "linf", 8 / 255)
    assert one["correct"].tolist() == ROBUST
    assert "prediction" not in one
    found = {finding.code: finding.message for finding in run.findings}
    assert "states a clean accuracy of 80.0%" in found["clean-not-stated"]
    assert "attack-unfinished" not in found
    (row,) = run.content().measures.rows
    assert row.accuracy["cifar10"].value == 0.4
    assert "imported, the model itself" in (run.folder / "report.html").read_text()
    checked = [one.code for one in verify_folder(run.folder, seed=0) if one.level == "fail"]
    assert checked == ["cant-be-checked"]


def test_an_evaluation_that_had_not_finished(tmp_path: Path) -> None:
    path = state(tmp_path / "a.json", _run_attacks=["apgd-ce"], _clean_accuracy=0.2)
    run = import_results(path, threat="linf:8/255", out=tmp_path / "run")
    found = {finding.code: finding for finding in run.findings}
    assert "square had not run" in found["attack-unfinished"].message
    assert found["robust-above-clean"].level == "fail"


def test_arrays(tmp_path: Path, run: Call) -> None:
    np.save(tmp_path / "a.npy", np.array(ROBUST))
    np.savez(tmp_path / "b.npz", robust=np.array(ROBUST, np.int64), clean=np.array([1, 1, 1, 1, 0]))
    files = [tmp_path / "a.npy", tmp_path / "b.npz"]
    options = ["--domain", "cifar10,cifar10.1", "--threat", "l2:0.5", "--out", tmp_path / "run", "--json"]
    code, shown, _ = run("import", *files, *options)
    assert code == 0
    rows = json.loads(shown.splitlines()[-1])["measures"]
    assert [(one["model"], one["kind"], one["value"]) for one in rows] == [
        ("a", "attacked", {"cifar10": 0.4}),
        ("b", "clean", {"cifar10.1": 0.8}),
        ("b", "attacked", {"cifar10.1": 0.4}),
    ]


def test_a_gap_between_domains(tmp_path: Path) -> None:
    for name, clean in (("photo", [1] * 40), ("sketch", [1, 0] * 20)):
        np.savez(tmp_path / f"{name}.npz", robust=np.array(clean) * (np.arange(40) % 4 == 0), clean=clean)
    files = [tmp_path / "photo.npz", tmp_path / "sketch.npz"]
    told: dict[str, Any] = {"domain": "photo,sketch", "model": "m", "target": "sketch", "threat": "linf:0.1"}
    run = import_results(files, **told, out=tmp_path / "run")
    run.export()
    assert run.content().accuracy.rows[0].gaps["sketch"].value == 0.5
    assert run.verdict[0].startswith("What follows was imported")
    np.savez(tmp_path / "odd.npz", robust=np.array([1, 1]), clean=np.array([1, 0]))
    odd = import_results(tmp_path / "odd.npz", threat="linf:0.1", out=tmp_path / "odd")
    assert [one.code for one in odd.broken] == ["sandwich-broken"]


def test_a_log_and_flags_of_one_model(tmp_path: Path) -> None:
    (tmp_path / "m.tsv").write_text(
        "idx\tlabel\tpredict\tradius\tcorrect\ttime\n0\t1\t1\t0.5\t1\t0\n1\t1\t1\t0.1\t1\t0\n"
    )
    np.save(tmp_path / "m.npy", np.array([True, False]))
    run = import_results([tmp_path / "m.tsv", tmp_path / "m.npy"], threat="l2:0.25", out=tmp_path / "run")
    run.export()
    assert {row.measure.kind for row in run.content().measures.rows} == {"attacked", "certified"}


def test_bad_flags(tmp_path: Path) -> None:
    good = state(tmp_path / "good.json")
    np.save(tmp_path / "two.npy", np.ones((2, 2), bool))
    np.save(tmp_path / "half.npy", np.array([0.5]))
    np.save(tmp_path / "text.npy", np.array(["a"]))
    np.save(tmp_path / "empty.npy", np.array([], bool))
    np.save(tmp_path / "pickle.npy", np.array([{}], object), allow_pickle=True)
    (tmp_path / "cut.npy").write_bytes((tmp_path / "two.npy").read_bytes()[:40])
    np.savez(tmp_path / "named.npz", flags=np.ones(2))
    np.savez(tmp_path / "long.npz", robust=np.ones(2), clean=np.ones(3))
    np.savez(tmp_path / "twice.npz", robust=np.ones(2), idx=np.zeros(2, int))
    (tmp_path / "info.json").write_text('{"clean_acc": "89.69", "autoattack_acc": "59.53", "eps": "8/255"}')
    (tmp_path / "other.json").write_text('{"a": 1}')
    (tmp_path / "cut.json").write_text('{"a": 1')
    for name, sentence in [
        ("two.npy", "shape"),
        ("half.npy", "one true or false a sample"),
        ("text.npy", "one true or false a sample"),
        ("empty.npy", "one true or false a sample"),
        ("pickle.npy", "can't be read as arrays"),
        ("cut.npy", "can't be read as arrays"),
        ("named.npz", "has the arrays flags"),
        ("long.npz", "'robust' has 2 samples and 'clean' 3"),
        ("twice.npz", "names a sample twice"),
        ("info.json", "states accuracies, and not which samples"),
        ("other.json", "JSON of another kind"),
        ("cut.json", "neither JSON nor lines"),
        (state(tmp_path / "begun.json", _robust_flags=None).name, "had only begun"),
    ]:
        with pytest.raises(ShiftproofError, match=sentence):
            import_results(tmp_path / name, threat="linf:8/255", out=tmp_path / "run")
    with pytest.raises(ShiftproofError, match="--threat linf:8/255"):
        import_results(good, out=tmp_path / "run")
    with pytest.raises(ShiftproofError, match="norm"):
        import_results(good, threat="far:1", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
