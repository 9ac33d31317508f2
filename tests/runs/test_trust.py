"""A folder that comes from elsewhere must not choose what code runs here, nor what is fetched."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import shiftproof as sp
from shiftproof.domains import huggingface
from shiftproof.errors import UsageError
from shiftproof.runs import parse_study, run_study
from shiftproof.runs.trust import Trust

pytestmark = pytest.mark.usefixtures("brief_examinations")

Call = Callable[..., tuple[int, str, str]]
MODULE = """
from pathlib import Path
import shiftproof as sp

def build():
    Path({marker!r}).write_text("ran")
    return sp.build_model("mlp", sp.load_domains("digits"), width=8, seed=3).eval()
"""
STUDY = """
data: digits
limit: 6
models:
  mine: {model: "MODEL", train: false}
probes:
  - clean
  - {name: certify, certifier: {noise: "gaussian:0.25", n: 100}}
"""


@pytest.fixture
def marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that is there once the code of python:named_by_a_folder:build has run."""
    (tmp_path / "named_by_a_folder.py").write_text(MODULE.format(marker=str(tmp_path / "ran")))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "named_by_a_folder", raising=False)
    return tmp_path / "ran"


def study(folder: Path, model: str) -> Path:
    run_study(parse_study(STUDY.replace("MODEL", model), "study", "trust"), folder, progress="off")
    return folder


def certified(run: Call, folder: Path, model: str) -> Path:
    asked = ["--data", "digits", "--model", model, "--sigma", "0.25", "--n", "100", "--limit", "6", "--workers", "1"]
    assert run("certify", *asked, "--out", folder)[0] == 0
    return folder


def saved(tmp_path: Path) -> Path:
    model = sp.build_model("mlp", sp.load_domains("digits"), width=8, seed=3).eval()
    sp.save_model(model, tmp_path / "m.safetensors", {"classes": list(sp.load_domains("digits").classes)})
    return tmp_path / "m.safetensors"


@pytest.mark.parametrize("kind", ["run", "certify"])
def test_code_that_a_folder_names_is_run_when_the_user_says_so(
    run: Call, tmp_path: Path, marker: Path, kind: str
) -> None:
    spec = "python:named_by_a_folder:build"
    folder = study(tmp_path / "r", spec) if kind == "run" else certified(run, tmp_path / "r", spec)
    assert marker.exists()
    marker.unlink()
    code, out, err = run("verify", folder, "--part", "2")
    assert (code, out) == (1, "")
    assert f"{folder} names {spec}" in err
    assert f"--model {spec}, or give --trust" in err
    assert "nothing was verified" in err
    assert err.count("\n") == 1
    assert not marker.exists()
    # another one is no repetition
    code, _, err = run("verify", folder, "--model", "python:another:build")
    assert (code, marker.exists()) == (1, False)
    assert "names no such model" in err
    # no code is needed for a report
    if kind == "run":
        assert run("report", folder, "--format", "csv")[0] == 0
        assert not marker.exists()
    for allowed in (["--model", spec], ["--trust"]):
        code, out, err = run("verify", folder, "--part", "2", "--seed", "1", *allowed)
        assert code == 0, out + err
        assert marker.exists()
        marker.unlink()


def test_the_users_own_command_goes_on_without_repeating_it(run: Call, tmp_path: Path, marker: Path) -> None:
    certified(run, tmp_path / "c", "python:named_by_a_folder:build")
    certified(run, tmp_path / "c", "python:named_by_a_folder:build")
    study(tmp_path / "r", "python:named_by_a_folder:build")
    study(tmp_path / "r", "python:named_by_a_folder:build")
    assert marker.exists()


def test_planted_names_are_refused(run: Call, tmp_path: Path, marker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface.HuggingFace, "load", lambda _: pytest.fail("data was fetched"))
    monkeypatch.setattr("shiftproof.models.load.build_timm", lambda *_, **__: pytest.fail("weights were fetched"))
    file = f"file:{saved(tmp_path)}"
    code = {"name": file, "architecture": "python:named_by_a_folder:build"}
    original = study(tmp_path / "r", file), certified(run, tmp_path / "c", file)

    def refused(change: Callable[[dict, str], None], words: str) -> None:
        for number, folder in enumerate(original):
            copy = Path(shutil.copytree(folder, tmp_path / "copy"))
            path = copy / "run.json"
            record = json.loads(path.read_text())
            change(record["study"], next(iter(record["study"]["models"])))
            path.write_text(json.dumps(record))
            status, _, err = run("verify", copy)
            shutil.rmtree(copy)
            assert status == 1, (number, err)
            assert words in err
            assert "Traceback" not in err

    def architecture(plan: dict, name: str) -> None:
        plan["models"] = {name: {"model": code, "train": False}}

    def data(plan: dict, name: str) -> None:
        plan["data"] = {"name": "hf:somebody/pictures"}

    refused(architecture, "python:named_by_a_folder:build")
    refused(data, "hf:somebody/pictures")
    assert not marker.exists()


def test_a_harmless_model_does_not_hide_another_of_its_name() -> None:
    models = [("file:m", {"architecture": "python:a:b"}), ("file:m", {}), ("cnn", {})]
    with pytest.raises(UsageError, match="python:a:b"):
        Trust().check(Path("run"), "digits", models)
    Trust(("python:a:b",)).check(Path("run"), "folder:x", models)
    with pytest.raises(UsageError, match="hf:x"):
        Trust(("python:a:b",)).check(Path("run"), "hf:x", models)
    Trust(everything=True).check(Path("run"), "hf:x", models)


def test_a_model_file_does_not_choose_code(run: Call, tmp_path: Path, marker: Path) -> None:
    path = saved(tmp_path)
    card = json.loads(path.with_suffix(".json").read_text())
    card["architecture"] = {"name": "python:named_by_a_folder:build"}
    path.with_suffix(".json").write_text(json.dumps(card))
    asked = ["--data", "digits", "--model", f"file:{path}", "--threat", "l2:0.1", "--limit", "4", "--steps", "1"]
    code, _, err = run("attack", *asked, "--out", tmp_path / "a")
    assert code == 1
    assert "--set model.architecture=python:named_by_a_folder:build" in err
    assert not marker.exists()
    torch.set_num_threads(1)
    said = ["--set", "model.architecture=python:named_by_a_folder:build"]
    assert run("attack", *asked, *said, "--out", tmp_path / "a", "--workers", "1")[0] == 0
    assert marker.exists()
