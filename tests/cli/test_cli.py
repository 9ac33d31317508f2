"""The command line: verbs, exit codes, one sentence for every mistake, nothing half-written."""

import errno
import importlib
import json
import os
import pickle
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import pytest
import torch
from conftest import ignoring_interrupts, needs_data
from PIL import Image

from shiftproof.cli.main import main
from shiftproof.models import load_model
from shiftproof.runs import open_run
from shiftproof.runs.next_steps import _longer_attack

pytestmark = pytest.mark.usefixtures("brief_examinations")

FAST = ["--set", "training.steps=20", "--set", "training.evaluate_every=10"]


Call = Callable[..., tuple[int, str, str]]


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def train(*more: object) -> list[object]:
    return ["train", "--data", "colored-digits", "--target", "e=0.9", "--model", "mlp", *FAST, *more]


def test_help_names_every_verb_without_importing_torch() -> None:
    script = (
        "import sys; sys.argv = ['shiftproof', '--help']\n"
        "try:\n    import shiftproof.__main__\nexcept SystemExit as stopped:\n    assert not stopped.code\n"
        "assert not {'torch', 'numpy', 'pydantic'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    for verb in ("run", "train", "certify", "report", "estimate", "validate", "ls", "data", "doctor"):
        assert f" {verb} " in done.stdout


KEYS = ("attack", "certifier", "data", "limit", "model", "models", "noise", "objective", "pretrain", "selection")
KEYS += ("probes", "training")
SETTING = {
    "train": ["--data", "digits"],
    "certify": ["--data", "digits", "--model", "file:nowhere"],
    "audit": ["--data", "digits", "--model", "file:nowhere"],
    "attack": ["--data", "digits", "--model", "file:nowhere", "--threat", "l2:1"],
    "explain": ["--model", "file:nowhere"],
    "corrupt": ["--data", "digits", "--out", "o"],
    "run": ["quickstart"],
    "estimate": ["quickstart"],
}


@pytest.mark.parametrize("verb", SETTING)
def test_help_of_set_names_the_keys_that_the_verb_takes(run: Call, verb: str) -> None:
    command = importlib.import_module(f"shiftproof.cli.{verb}").command
    (option,) = get_type_hints(command, include_extras=True)["set_"].__metadata__
    named = {key.split(".")[0] for key in re.findall(r"([\w.]+)=", option.help)}
    assert named <= set(KEYS)
    # the value is one that nothing takes, so that a key that is taken stops before anything is done
    for key in KEYS:
        said = run(verb, *SETTING[verb], "--set", f"{key}.nonsense=1")[2]
        assert (re.search(rf"unknown key [^']*'{key}'", said) is None) == (key in named), said


def test_without_a_verb_help_is_shown(run: Call) -> None:
    assert "shiftproof run quickstart" in run()[1]
    assert run("--version")[1].startswith("shiftproof ")


def test_train_writes_a_run_with_its_model_at_the_top(run: Call, tmp_path: Path) -> None:
    code, out, _ = run(*train("--out", tmp_path / "m", "--json"))
    assert code == 0
    result = json.loads(out.strip().splitlines()[-1])
    assert set(result["accuracy"]) == {"e=0.1", "e=0.2", "e=0.9"}
    assert result["model"] == str(tmp_path / "m" / "model.safetensors")
    found = files_below(tmp_path / "m")
    assert {"model.safetensors", "model.json", "run.json", "report.html", "tables/accuracy.csv"} <= found
    assert not [name for name in found if name.startswith(("models/", "checkpoints/"))]
    assert run("report", tmp_path / "m", "--format", "csv")[0] == 0
    load_model(f"file:{tmp_path / 'm'}")
    # the same command again trains nothing and says the same
    code, out, _ = run(*train("--out", tmp_path / "m", "--json"))
    assert (code, json.loads(out)["accuracy"]) == (0, result["accuracy"])
    code, _, err = run(*train("--out", tmp_path / "m", "--seed", 1))
    assert code == 1
    assert "holds a run with other seed; choose another --out" in err


def test_train_prints_a_table(run: Call, tmp_path: Path) -> None:
    code, out, _ = run(*train("--out", tmp_path / "m"))
    assert code == 0
    for text in ("e=0.1", "unseen", "lost", "model.safetensors", "kept       step", " loses ", "points", "report.html"):
        assert text in out


@pytest.mark.parametrize(
    ("domains", "said"),
    [
        (["--target", "e=0.9"], ""),
        (
            [],
            "target   none: without --target no domain is left out of training, so that nothing is unseen and points "
            "lost can't be measured; to leave one out: --target e=0.9",
        ),
        (["--source", "e=0.9"], "to leave one out: --target and the name of another domain"),
    ],
)
def test_train_says_that_no_domain_is_left_out(run: Call, tmp_path: Path, domains: list[str], said: str) -> None:
    fast = [*FAST, "--estimate", "--out", tmp_path / "a"]
    code, _, err = run("train", "--data", "colored-digits", *domains, "--model", "mlp", *fast)
    assert code == 0
    notes = [line for line in err.splitlines() if line.startswith("target ")]
    assert [said in line for line in notes] == ([True] if said else [])


def test_train_starts_from_a_file_and_from_python(run: Call, tmp_path: Path) -> None:
    run(*train("--out", tmp_path / "m"))
    code, _, _ = run(*train("--out", tmp_path / "n", "--model", f"file:{tmp_path / 'm'}"))
    assert code == 0
    (tmp_path / "nets_for_cli.py").write_text(
        "from torch import nn\ndef tiny(): return nn.Sequential(nn.Flatten(), nn.Linear(128, 2))\n"
    )
    for _ in range(2):
        code, _, err = run(*train("--out", tmp_path / "p", "--model", "python:nets_for_cli:tiny"))
        assert code == 0, err


def test_a_model_that_has_seen_the_target_says_so(run: Call, tmp_path: Path) -> None:
    run("train", "--data", "colored-digits", "--source", "e=0.9", "--model", "mlp", *FAST, "--out", tmp_path / "seen")
    code, out, _ = run(*train("--out", tmp_path / "m", "--model", f"file:{tmp_path / 'seen'}"))
    assert code == 0
    assert "was trained on e=0.9" in out
    again = run(*train("--out", tmp_path / "n", "--model", f"file:{tmp_path / 'm'}"))[1]
    assert "was trained on e=0.9" in again
    assert "was trained on e=0.9" not in run(*train("--out", tmp_path / "o"))[1]


def test_train_into_the_current_folder(run: Call, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    os.chdir(tmp_path / "here")
    assert run(*train("--out", "."))[0] == 0
    assert {"model.safetensors", "model.json", "run.json"} <= files_below(tmp_path / "here")


def test_a_short_quickstart_runs_and_reports(run: Call, tmp_path: Path) -> None:
    """The quickstart with a tenth of its training and few samples: every stage, few of its figures."""
    short = ("--set", "training.steps=100", "--set", "limit=30", "--out", tmp_path / "run")
    code, out, _ = run("run", "quickstart", *short, "--json")
    assert code == 0
    result = json.loads(out.strip().splitlines()[-1])
    colour, gray = result["accuracy"]["sees colour"], result["accuracy"]["gray reference"]
    assert colour["e=0.1"] > 0.75
    assert colour["e=0.9"] < 0.4 < gray["e=0.9"]
    assert {"sandwich-holds", "guarantee-shrinks"} <= {finding["code"] for finding in result["findings"]}
    assert {one["kind"] for one in result["measures"]} == {"clean", "attacked", "corrupted", "certified"}
    assert len(result["certified"]) == 4 * 3
    assert Path(result["report"]).is_file()
    _tells_the_story(run("run", "quickstart", *short), result, tmp_path / "run")
    # what is advised can be typed
    (step,) = _longer_attack(open_run(tmp_path / "run"), tmp_path / "run")
    assert "--attack ensemble --steps 100 --set attack.version=white-box" in step.command
    code, out, err = run(*shlex.split(step.command)[1:], "--limit", 2, "--out", tmp_path / "longer")
    assert code == 0, err
    code, out, _ = run("run", "quickstart", *short, "--verbose")
    assert code == 0
    assert "points lost" in out
    assert all(finding["message"] in out for finding in result["findings"])
    _reports(run, tmp_path / "run")


def _tells_the_story(called: tuple[int, str, str], result: dict[str, Any], folder: Path) -> None:
    """About 25 lines after what the study is about: one line a model with the figures of --json, the report last."""
    code, out, _ = called
    assert code == 0
    title = "Does it still work where you ship it, and what is guaranteed there?"
    assert out.splitlines().count(title) == 2
    lines = out.rpartition(title)[2].strip().splitlines()
    assert 12 <= len(lines) <= 28, out
    assert lines[-1] == f"report     {folder / 'report.html'}"
    by_kind = {(one["model"], one["kind"]): one for one in result["measures"] if one["classifier"] == "base"}
    certified = {
        one["model"]: one["certified_accuracy"]["0.25"] for one in result["certified"] if one["domain"] == "e=0.9"
    }
    for model in result["accuracy"]:
        (line,) = [line for line in lines if line.startswith(f"{model} ") and "%" in line and "(" in line[16:40]]
        shown = re.findall(r"([\d.]+)%", line)
        kinds = [by_kind[model, kind]["value"]["e=0.9"] for kind in ("clean", "attacked", "corrupted")]
        assert shown == [f"{100 * value:.1f}" for value in (*kinds, certified[model])]
        gaps = [f"{100 * by_kind[model, kind]['gap']:+.1f}" for kind in ("clean", "attacked", "corrupted")]
        assert all(gap in line for gap in gaps)
    levels = [finding["level"] for finding in result["findings"]]
    assert f"pass       {levels.count('pass')} check" in out
    assert any(line.startswith("next ") and f"verify {folder}" in line for line in lines)


@pytest.mark.slow
def test_quickstart_runs_and_reports(run: Call, tmp_path: Path) -> None:
    code, out, _ = run("run", "quickstart", "--out", tmp_path / "run", "--json")
    assert code == 0
    result = json.loads(out.strip().splitlines()[-1])
    colour, gray = result["accuracy"]["sees colour"], result["accuracy"]["gray reference"]
    assert colour["e=0.1"] > 0.75
    assert colour["e=0.9"] < 0.25
    assert gray["e=0.9"] > 0.6
    codes = [finding["code"] for finding in result["findings"]]
    assert codes[:2] == ["collapse", "guarantee-shrinks"]
    assert codes.count("holds") == 3
    assert "sandwich-holds" in codes
    attacked = {one["model"]: one["value"] for one in result["measures"] if one["kind"] == "attacked"}
    assert attacked["gray, attacked"]["e=0.9"] > 0.5
    assert {one["kind"] for one in result["measures"]} == {"clean", "attacked", "corrupted", "certified"}
    certified = {(one["model"], one["domain"]): one for one in result["certified"]}
    assert certified["gray, noise", "e=0.9"]["certified_accuracy"]["0.25"] > 0.45
    assert certified["gray, attacked", "e=0.9"]["certified_accuracy"]["0.5"] > 0.3
    assert certified["sees colour", "e=0.9"]["certified_accuracy"]["0.25"] < 0.25
    assert Path(result["report"]).is_file()
    code, out, _ = run("run", "quickstart", "--out", tmp_path / "run", "--verbose")
    assert code == 0
    assert "points lost" in out
    _reports(run, tmp_path / "run")


def _reports(run: Call, folder: Path) -> None:
    _, out, _ = run("report", folder, "--format", "csv,latex", "--json")
    first = ("overview", "measures", "curves", "accuracy", "classes", "mistakes", "calibration")
    tables = (*first, "corrupted", "certified", "radius-gap", "agreement", "around", "one-draw", "mixes")
    assert [Path(path).name for path in json.loads(out)["written"]] == [
        f"{table}.{suffix}" for table in tables for suffix in ("csv", "tex")
    ]
    _, out, _ = run("report", folder, "--format", "html,latex")
    assert out.splitlines() == [f"{len(tables)} files in {folder / 'tables'}", str(folder / "report.html")]


def test_lists(run: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SHIFTPROOF_DATA", str(tmp_path))
    listing = json.loads(run("ls", "--json")[1])
    objectives = {entry["name"]: entry for entry in listing["objectives"]}
    assert all({"paper", "buys", "cost"} <= set(entry["metadata"]) for entry in objectives.values())
    assert objectives["macer"]["options"]["gamma"] == 8.0
    assert objectives["macer"]["ranges"]["beta"] == "1..16 log"
    assert (objectives["irm"]["selection"], objectives["irm"]["recipe"]["batch"]) == ("last", 4_000)
    assert "kept by robust-source-validation" in " ".join(run("ls", "objectives")[1].replace("│", " ").split())
    assert {entry["name"] for entry in listing["models"]} >= {"mlp", "cnn", "preact-resnet18"}
    assert "quickstart" in run("ls", "studies")[1]
    states = {row["name"]: row["state"] for row in json.loads(run("data", "ls", "--json")[1])["data"]}
    assert states["digits"] == "embedded"
    assert states["colored-mnist"] == "missing"
    assert "needs mnist.npz" in run("data", "ls")[1]
    (tmp_path / "mnist.npz").write_bytes(b"")
    assert "here" in run("data", "ls")[1]


def test_doctor(run: Call) -> None:
    code, out, _ = run("doctor", "--json")
    assert code == 0
    found = {finding["code"]: finding["message"] for finding in json.loads(out)["findings"]}
    assert {"python", "torch", "data"} <= set(found)
    # measured where it works, and a reason where it does not
    assert re.search(r"runs cnn [\d.]+ times as fast as f32 here|does not work on this machine", found["bf16"])
    assert "Python 3" in run("doctor")[1]


def test_estimate(run: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shiftproof.runs.estimate.PROBE_SECONDS", 0.1)
    monkeypatch.setattr("shiftproof.probes.costs._TRIAL_SECONDS", 0.1)
    monkeypatch.setattr("shiftproof.certification.sampling.estimate.RATE_SECONDS", 0.05)
    code, out, _ = run("estimate", "quickstart", "--json")
    assert code == 0
    assert json.loads(out)["forward_passes"] > 256_000
    assert "forward passes" in run("estimate", "quickstart")[1]


def test_validate_exits_2_when_a_check_fails(run: Call, images: Callable[..., Path]) -> None:
    root = images()
    code, out, _ = run("validate", f"folder:{root}")
    assert code == 0
    assert "clinic-a" in out
    (root / "clinic-a" / "cat" / "0.png").write_bytes(b"no image")
    code, out, _ = run("validate", f"folder:{root}")
    assert code == 2
    assert "1 file can't be read" in out
    code, out, _ = run("validate", f"folder:{root}", "--json", "--set", "data.size=4")
    assert json.loads(out)["domains"][0]["shape"] == [3, 4, 4]


# --- mistakes --------------------------------------------------------------------------------------------------------


def sentence(result: tuple[int, str, str]) -> str:
    """The one sentence of a mistake; checks that it is one, and that the code is 1."""
    code, _, err = result
    lines = [line for line in err.strip().splitlines() if line]
    assert code == 1, err
    assert len(lines) == 1, err
    assert lines[0].startswith("error: ")
    return lines[0]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["rn"], "no such verb 'rn'. Did you mean 'run'?"),
        (["frobnicate"], "no such verb 'frobnicate'"),
        (["train"], "--data"),
        (["train", "--dta", "x"], "--data"),
        (["train", "--data"], "--data"),
        (["train", "--data", "digits", "--seed", "x"], "--seed"),
        (["train", "--data", "digits", "--seed", "-1"], "--seed"),
        (["run"], "Missing argument"),
        (["run", "quikstart"], "unknown study 'quikstart'. Did you mean 'quickstart'?"),
        (["data", "sl"], "No such command 'sl'"),
        (["ls", "modles"], "Did you mean 'models'?"),
        (["report", "nowhere"], "there is no file nowhere/run.json"),
        (["train", "--data", "digts"], "unknown data set 'digts'. Did you mean 'digits'?"),
        (["train", "--data", "digits", "--model", "mpl"], "unknown model 'mpl'. Did you mean 'mlp'?"),
        (["train", "--data", "digits", "--objective", "emr"], "unknown objective 'emr'. Did you mean 'erm'?"),
        (["train", "--data", "digits", "--target", "digits"], "leaves nothing to train on"),
        (["train", "--data", "colored-digits", "--target", "e=9"], "Did you mean 'e=0.9'?"),
        (["train", "--data", "colored-digits", "--target", "e=0.9", "--source", "e=0.9"], "both source and target"),
        (["train", "--data", "colored-digits", "--source", "x"], "unknown domain of 'colored-digits': 'x'"),
        (
            ["train", "--data", "digits", "--set", "training.steps=none"],
            "steps of training is 'none'; it should be a valid integer",
        ),
        (["train", "--data", "digits", "--set", "training.lr=-1"], "lr of training is -1; it should be greater than 0"),
        (["train", "--data", "digits", "--set", "model.width=-3"], "width of model 'cnn' is -3; it should be greater"),
        (["train", "--data", "digits", "--set", "model.gray=maybe"], "gray of model 'cnn' is 'maybe'"),
        (["train", "--data", "digits", "--set", "training.weight_decay=-1"], "weight_decay of training is -1"),
        (["train", "--data", "digits", "--set", "training.lr=.nan"], "lr of training is nan"),
        (["train", "--data", "digits", "--set", "model.width=true"], "it takes no true or false"),
        (["train", "--data", "folder:x", "--set", "data.size=abc"], "size of data set 'folder' is 'abc'"),
        (["validate", "folder:x", "--set", "data.sise=8"], "Did you mean 'size'?"),
        (["train", "--data", "digits", "--model", "python:x:y", "--set", "model.gray=true"], "takes no options"),
        (["train", "--data", "digits", "--model", "file:x", "--set", "model.width=3"], "needs architecture=NAME"),
        (["train", "--data", "colored-digits", "--source", ""], "the value of --source is empty"),
        (["train", "--data", "digits", "--set", "steps=3"], "Did you mean 'training.steps'?"),
        (["train", "--data", "digits", "--set", "gray=true"], "Did you mean 'model.gray'?"),
        (["train", "--data", "."], "did you mean 'folder:.'?"),
        (["train", "--data", "digits", "--model", "."], "did you mean 'file:.'?"),
        (["train", "--data", "digits", "--set", "model.widht=3"], "Did you mean 'width'?"),
        (["train", "--data", "digits", "--set", "nonsense"], "should read key.key=value"),
        (["train", "--data", "digits", "--model", "file:none.safetensors"], "there is no model file"),
        (["train", "--data", "folder:nowhere"], "nowhere does not exist. Expected: root/domain/class/image"),
        (["validate", "folder:nowhere"], "nowhere does not exist"),
        (["train", "--data", "digits", "--device", "quantum"], "quantum"),
    ],
)
def test_mistakes_get_one_sentence(run: Call, tmp_path: Path, arguments: list[str], expected: str) -> None:
    assert expected in sentence(run(*arguments))
    assert files_below(tmp_path) <= {"home", "xdg"}


def test_missing_data_is_one_sentence(run: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHIFTPROOF_DATA", raising=False)
    assert "needs mnist.npz" in sentence(run("train", "--data", "colored-mnist", "--target", "e=0.9"))


def test_a_wrong_key_in_a_study(run: Call, tmp_path: Path) -> None:
    path = tmp_path / "my.yaml"
    path.write_text("data: digits\nmodels:\n  m:\n    model: mlp\n    objectve: erm\n")
    assert f"{path}, line 5: unknown key 'objectve'. Did you mean 'objective'?" in sentence(run("run", path))
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("spoil", ["corrupt jpeg", "empty class", "no images", "text as image"])
def test_bad_folders_leave_nothing_behind(run: Call, images: Callable[..., Path], tmp_path: Path, spoil: str) -> None:
    root = images()
    if spoil == "corrupt jpeg":
        victim = root / "clinic-a" / "dog" / "victim.jpg"
        Image.new("RGB", (8, 8)).save(victim)
        victim.write_bytes(victim.read_bytes()[:300])
        expected = "can't read the image"
    elif spoil == "empty class":
        (root / "clinic-a" / "bird").mkdir()
        expected = "holds no image"
    elif spoil == "no images":
        root = tmp_path / "empty"
        root.mkdir()
        expected = "holds no image"
    else:
        (root / "clinic-b" / "dog" / "3.png").write_text("hello")
        expected = "can't read the image"
    target = ["--target", "clinic-b"] if spoil != "text as image" else ["--target", "clinic-a"]
    out = tmp_path / "out"
    assert expected in sentence(run("train", "--data", f"folder:{root}", *target, "--model", "mlp", "--out", out))
    assert not out.exists()
    assert not list(tmp_path.glob("out*"))


class Bomb:
    """Unpickling this creates a folder."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("exploded",)


def test_a_malicious_pickle_is_not_run(run: Call, tmp_path: Path) -> None:
    (tmp_path / "m.safetensors").write_bytes(pickle.dumps(Bomb()))
    message = sentence(run(*train("--model", f"file:{tmp_path / 'm.safetensors'}", "--out", tmp_path / "o")))
    assert "it was not executed" in message
    assert not (tmp_path / "exploded").exists()
    assert not (tmp_path / "o").exists()


def test_an_unwritable_folder_is_found_at_once(run: Call, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "can't write" in sentence(run(*train("--out", tmp_path / "file" / "x")))
    assert "can't write" in sentence(run("run", "quickstart", "--out", tmp_path / "file" / "x"))


def test_a_full_disk_is_one_sentence(run: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    code, _, err = run(*train("--out", tmp_path / "m"))
    assert code == 1
    assert "error: the disk is full" in err.splitlines()[-1]
    assert files_below(tmp_path) <= {"m", "home", "xdg"}


LISTENING = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "from shiftproof.cli.main import main; main(sys.argv[1:])"
)
"""The command line as in the foreground of a terminal, wherever it is started: a shell's background ignores SIGINT."""


def test_an_interrupt_exits_130_and_the_same_command_goes_on(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LISTENING, *map(str, train("--out", tmp_path / "m", "--json"))]
    command += ["--set", "training.steps=20000", "--set", "training.evaluate_every=100"]
    with ignoring_interrupts():
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    checkpoint = tmp_path / "m" / "checkpoints" / "mlp.ckpt"
    while not checkpoint.exists() and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "run the same command again to continue" in err
    assert "Traceback" not in err
    assert not (tmp_path / "m" / "model.safetensors").exists()
    step = torch.load(checkpoint, weights_only=True)["step"]
    assert 0 < step < 20000
    again = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while torch.load(checkpoint, weights_only=True)["step"] == step and again.poll() is None:
        time.sleep(0.1)
    again.kill()
    again.communicate()
    assert torch.load(checkpoint, weights_only=True)["step"] > step


@pytest.mark.slow
@needs_data
def test_colored_mnist_from_the_command_line(run: Call, tmp_path: Path) -> None:
    code, out, _ = run(
        "train", "--data", "colored-mnist", "--target", "e=0.9", "--model", "mlp", "--out", tmp_path / "m", "--json"
    )
    assert code == 0
    accuracy = json.loads(out)["accuracy"]
    assert (accuracy["e=0.1"] + accuracy["e=0.2"]) / 2 > 0.8
    assert accuracy["e=0.9"] < 0.25


@pytest.fixture(scope="module")
def a_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model that was trained on noise, for a moment."""
    folder = tmp_path_factory.mktemp("trained") / "model"
    torch.set_num_threads(1)
    arguments = [*train("--objective", "gaussian", "--out", folder), "--json"]
    with pytest.raises(SystemExit):
        main([str(argument) for argument in arguments])
    return folder


def certify(model: Path, *more: object) -> list[object]:
    few = ["--n", 300, "--limit", 12, "--workers", 1]
    return ["certify", "--data", "colored-digits", "--model", f"file:{model}", *few, *more]


def test_certify_writes_certificates_logs_table_and_picture(run: Call, a_model: Path, tmp_path: Path) -> None:
    code, out, _ = run(*certify(a_model, "--sigma", "0.25,0.5", "--out", tmp_path / "c", "--json"))
    assert code == 0
    result = json.loads(out.splitlines()[-1])
    assert {(one["domain"], one["certificate"]) for one in result["results"]} == {
        (domain, noise) for domain in ("e=0.1", "e=0.2", "e=0.9") for noise in ("gaussian 0.25", "gaussian 0.5")
    }
    assert {"accuracy", "average_certified_radius", "certified_accuracy", "abstained", "n", "alpha"} <= set(result)
    assert result["n"] == 300
    assert result["forward_passes"] == 12 * 400
    found = files_below(tmp_path / "c")
    # both noises are one probe: they share their draws
    assert len([one for one in found if one.startswith("evidence/model/e=0.9/certify-")]) == 1
    assert len([one for one in found if one.startswith("logs/") and one.endswith(".tsv")]) == 6
    assert {"tables/certified.csv", "figures/certified.svg", "figures/certified.png"} <= found
    assert not [one for one in found if one.endswith(".journal")]
    before = {one: (tmp_path / "c" / one).stat().st_mtime_ns for one in found if one.startswith("evidence/")}
    code, out, _ = run(*certify(a_model, "--sigma", "0.25,0.5", "--out", tmp_path / "c", "--verbose"))
    assert code == 0
    assert all((tmp_path / "c" / one).stat().st_mtime_ns == when for one, when in before.items())
    assert "guarantee" in out
    assert "share noise" in out
    code, out, err = run(*certify(a_model, "--sigma", "0.25,0.5", "--out", tmp_path / "c", "--seed", 1))
    assert (code, out) == (1, "")
    assert "another seed; choose another --out" in err


def test_certify_says_which_samples(run: Call, a_model: Path) -> None:
    out = run(*certify(a_model))[1]
    assert "12 of its held-out part" in out
    assert "12 samples" in out


@pytest.mark.parametrize("noise", ["uniform", "rotation", "translation", "scaling", "affine", "dct"])
def test_certify_knows_every_noise(run: Call, a_model: Path, noise: str) -> None:
    options = ["--noise", noise, "--sigma", 0.2, "--domain", "e=0.9", "--json", "--n", 100]
    code, out, err = run(*certify(a_model, *options))
    assert code == 0, err
    assert json.loads(out)["certificate"].startswith(noise)


def test_certify_takes_options_of_a_noise(run: Call, a_model: Path) -> None:
    options = ["--noise", "scaling", "--set", "noise.log=true", "--domain", "e=0.9", "--n", 100, "--json"]
    code, out, _ = run(*certify(a_model, *options))
    assert code == 0
    assert json.loads(out)["norm"] == "log factor"
    code, out, _ = run(*certify(a_model, "--noise", "gaussian:0.5", "--domain", "e=0.9", "--n", 100))
    assert code == 0
    assert "gaussian 0.5" in out
    assert "no radius can exceed" in out
    assert "unseen by the model" in out


def test_certify_stops_early_and_says_so(run: Call, a_model: Path) -> None:
    options = ["--stop", "radii", "--radii", "0,0.1", "--skip-wrong", "--domain", "e=0.9", "--n", 4000]
    code, out, _ = run(*certify(a_model, *options, "--json"))
    assert code == 0
    result = json.loads(out)
    assert result["biased_low"]
    assert set(result["certified_accuracy"]) == {"0", "0.1"}
    assert result["forward_passes"] < 12 * 4100
    assert "or more" in run(*certify(a_model, *options))[1]


def test_certify_at_several_alphas_votes_once(run: Call, a_model: Path) -> None:
    code, out, _ = run(*certify(a_model, "--domain", "e=0.1", "--alpha", "0.001,0.05", "--json"))
    assert code == 0
    strict, loose = json.loads(out)["results"]
    assert (strict["alpha"], loose["alpha"]) == (0.001, 0.05)
    assert strict["certificates"] == loose["certificates"]
    assert strict["average_certified_radius"] < loose["average_certified_radius"]


PRECISIONS = r"In bf16 \(certify --precision bf16\) .* runs [\d.]+ times as fast as f32 here|bf16 does not work"


def test_certify_estimates(run: Call, a_model: Path) -> None:
    code, out, _ = run(*certify(a_model, "--estimate", "--json"))
    assert code == 0
    costs = json.loads(out)
    assert costs["forward_passes"] == 3 * 12 * 400
    assert re.search(PRECISIONS, costs["precisions"])
    code, out, _ = run(*certify(a_model, "--estimate"))
    assert "at most" in out
    assert re.search(PRECISIONS, " ".join(out.split()))
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    "bad",
    [
        ["--sigma", "0"],
        ["--sigma", "-1"],
        ["--sigma", "wide"],
        ["--sigma", "nan"],
        ["--sigma", "0.25,0.25"],
        ["--n0", "0"],
        ["--n", "0"],
        ["--alpha", "0"],
        ["--alpha", "1"],
        ["--alpha", "0.001,2"],
        ["--alpha", "small"],
        ["--noise", "gausian"],
        ["--certifier", "magic"],
        ["--stop", "soon"],
        ["--stop", "radii"],
        ["--stop", "within:7"],
        ["--radii", "0,far"],
        ["--radii", "-1"],
        ["--domain", "e=0.7"],
        ["--precision", "f16"],
        ["--backend", "abacus"],
        ["--set", "training.steps=1"],
        ["--data", "digits"],
        ["--model", "file:nowhere"],
        ["--model", "mlp"],
        ["--n", "5"],
    ],
)
def test_certify_answers_a_mistake_with_a_sentence(run: Call, a_model: Path, bad: list[str], tmp_path: Path) -> None:
    code, out, err = run(*certify(a_model, "--out", tmp_path / "c", *bad))
    assert (code, out) == (1, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert not (tmp_path / "c").exists()
