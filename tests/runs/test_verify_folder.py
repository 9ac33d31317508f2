"""What verify says of a run's folder: files that are gone, new or edited, a record that was changed, a run that was
stopped.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from shiftproof.cli.main import main
from shiftproof.domains import load_domains
from shiftproof.errors import ShiftproofError, UsageError
from shiftproof.probes.probe import Probe
from shiftproof.runs import find_study, open_run, run_study
from shiftproof.runs.record import write_record
from shiftproof.runs.verify import verify_folder

pytestmark = pytest.mark.usefixtures("brief_examinations")

STUDY = """
data: colored-digits
source: e=0.1
target: e=0.9
limit: 10
models:
  plain: {model: {name: mlp, width: 8, gray: true}, objective: group-dro, training: {steps: 3}}
probes:
  - clean
  - {name: certify, certifier: {noise: "gaussian:0.25", n: 100}}
  - {name: certify, certifier: {noise: "gaussian:0.25", n: 150, stop: "within:0.9"}}
"""


FIRST = str(load_domains("colored-digits")["e=0.9"].ids[0])


def _verb(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stopped:
        main([str(one) for one in arguments])
    return int(stopped.value.code or 0)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("folder")
    (folder / "study.yaml").write_text(STUDY)
    assert _verb("run", folder / "study.yaml", "--out", folder / "run", "--workers", 1) == 0
    return folder / "run"


@pytest.fixture(autouse=True)
def _study_beside(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(STUDY)


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "copy"))


def codes(folder: Path, *levels: str) -> set[str]:
    return {one.code for one in verify_folder(folder, seed=1, part=1) if one.level in (levels or ("fail",))}


def first_fault(folder: Path) -> str:
    """The code of the first failure: what comes after it takes longer."""
    return next((one.code for one in verify_folder(folder, seed=1, part=1) if one.level == "fail"), "")


def edit(path: Path, change: Callable[[Any], Any]) -> None:
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def reseal(folder: Path, change: Callable[[Any], Any]) -> None:
    """Edit run.json as somebody would who knows how it is sealed."""
    record = json.loads((folder / "run.json").read_text())
    change(record)
    write_record(folder, {key: value for key, value in record.items() if key != "seal"})


def test_what_nobody_touched_passes(folder: Path) -> None:
    """Two certificates of one title have a log each, so that none is taken for an edited one of the other."""
    assert codes(folder, "fail", "warn") == set()
    assert len(list((folder / "logs").glob("*.tsv"))) == 4


def test_logs_are_derived_again(folder: Path) -> None:
    first, second, *_ = sorted((folder / "logs").glob("*.tsv"))
    first.write_text(first.read_text().replace("\t0.", "\t9.", 1))
    shutil.copy(second, first.with_name("better.tsv"))
    assert codes(folder) == {"log-differs", "log-unexpected"}
    shutil.rmtree(folder / "logs")
    assert codes(folder, "fail", "warn") == {"report-missing"}


def test_a_report_that_is_gone_is_a_warning(folder: Path) -> None:
    (folder / "tables" / "accuracy.csv").unlink()
    assert codes(folder, "fail", "warn") == {"report-missing"}
    shutil.rmtree(folder / "figures")
    assert codes(folder, "fail", "warn") == {"report-missing", "pictures-missing"}
    assert _verb("report", folder) == 0
    assert codes(folder, "fail", "warn") == {"pictures-missing"}


def test_a_run_without_a_report_is_a_warning(folder: Path) -> None:
    for name in ("report.html", "report.json"):
        (folder / name).unlink()
    for name in ("tables", "figures", "logs"):
        shutil.rmtree(folder / name)
    assert codes(folder, "fail", "warn") == {"report-missing"}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda card: card.update(sources=["e=0.2"]), "model-record-differs"),
        (lambda card: card["selection"].update(step=1), "record-differs"),
        (lambda card: card["architecture"].update(name="cnn"), "model-unreadable"),
    ],
    ids=["sources", "selection", "architecture"],
)
def test_an_edited_record_beside_weights_is_found(folder: Path, change: Callable[[Any], Any], code: str) -> None:
    edit(folder / "models" / "plain.json", change)
    assert {"model-record-differs", code} <= codes(folder)
    with pytest.raises(ShiftproofError, match=r"plain\.json was changed after it was written"):
        run_study(find_study(str(folder.parent / "study.yaml")), folder, progress="off")


def test_a_record_beside_weights_that_is_gone_or_new_is_found(folder: Path) -> None:
    card = folder / "models" / "plain.json"
    shutil.copy(card, card.with_name("other.json"))
    assert codes(folder) == {"model-unexpected"}
    card.rename(card.with_name("other.json"))
    assert {"model-record-missing", "model-unexpected"} <= codes(folder)


def test_weights_that_are_gone_are_found(folder: Path) -> None:
    (folder / "models" / "plain.safetensors").unlink()
    assert "model-unreadable" in codes(folder)


def test_every_entry_of_the_record_counts(folder: Path) -> None:
    """Edited or left out, whatever it is: found, or said to be damaged; never a traceback."""
    path = folder / "run.json"
    text = path.read_text()
    for key in json.loads(text):
        if key == "seal":
            continue
        edit(path, lambda record, key=key: record.pop(key))
        assert first_fault(folder) in ("run-unreadable", "record-changed"), key
        path.write_text(text)
    for key in ("examined", "findings"):
        edit(path, lambda record, key=key: record[key].append({"level": "pass", "code": "fine", "message": "fine"}))
        assert first_fault(folder) == "record-changed", key
        path.write_text(text)
    edit(path, lambda record: record["selected"]["plain"].update(step=2))
    assert {"record-changed", "record-differs"} <= codes(folder)
    with pytest.raises(UsageError, match=r"run\.json was changed after it was written"):
        run_study(find_study(str(folder.parent / "study.yaml")), folder, progress="off")


@pytest.mark.parametrize(
    ("entry", "change"),
    [
        ("environment", lambda record: record.pop("environment")),
        ("environment", lambda record: record.update(environment="abc")),
        ("environment", lambda record: record["environment"].pop("packages")),
        ("environment", lambda record: record["environment"].update(packages=["torch"])),
        ("protocol", lambda record: record["protocol"].pop("split")),
        ("findings", lambda record: record["findings"].append("fine")),
        ("config", lambda record: record["config"].pop("models")),
        ("selected", lambda record: record["selected"].update(plain=5)),
        ("measured", lambda record: record["measured"]["plain"]["e=0.9"].pop("sampled")),
        ("labels", lambda record: record["labels"].pop("e=0.9")),
        ("parts", lambda record: record["parts"].update(other="all")),
    ],
)
def test_a_damaged_record_with_a_seal_is_one_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str], entry: str, change: Callable[[Any], Any]
) -> None:
    reseal(folder, change)
    capsys.readouterr()
    assert _verb("report", folder) == 1
    err = capsys.readouterr().err
    assert f"run.json is damaged: {entry}" in err
    assert err.count("\n") == 1
    assert codes(folder) == {"run-unreadable"}


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (lambda record: record["protocol"].update(split="by hand"), "record-differs", "protocol"),
        (lambda record: record["parts"].update({"e=0.9": "held-out"}), "record-differs", "parts"),
        (
            lambda record: record["measured"]["plain"]["e=0.9"].update(seen_in_training="unknown"),
            "record-differs",
            "measured",
        ),
        (lambda record: record["left_out"].update({"e=0.9": [FIRST]}), "left-out-readable", FIRST),
        (lambda record: record["findings"].clear(), "findings-differ", "plain"),
        (lambda record: [one.update(level="pass") for one in record["findings"]], "findings-differ", "plain"),
    ],
    ids=["protocol", "parts", "measured", "left out", "findings", "levels"],
)
def test_what_a_new_seal_would_hide_is_derived_again(
    folder: Path, change: Callable[[Any], Any], code: str, words: str
) -> None:
    assert open_run(folder).record["findings"], "nothing could be removed"
    reseal(folder, change)
    found = [one.message for one in verify_folder(folder, seed=1, part=1) if one.code == code]
    assert any(words in one for one in found)


def test_a_record_without_a_seal_is_found_and_sealed_by_the_same_command(folder: Path) -> None:
    edit(folder / "run.json", lambda record: record.pop("seal"))
    assert codes(folder) == {"record-unsealed"}
    run_study(find_study(str(folder.parent / "study.yaml")), folder, progress="off")
    assert codes(folder) == set()


def test_what_is_removed_from_a_finished_run_is_named(folder: Path) -> None:
    removed = [path for path in (folder / "evidence").rglob("*.parquet") if path.name.startswith("certify-")][:2]
    for path in removed:
        path.unlink()
    found = [one.message for one in verify_folder(folder, seed=1, part=1) if one.code == "rows-missing"]
    assert len(found) == 2
    assert all("the file was removed" in one for one in found)


@pytest.mark.parametrize("measured", [0, 4])
def test_a_run_that_was_stopped_is_one_sentence_and_what_is_there_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: int, capsys: pytest.CaptureFixture[str]
) -> None:
    from shiftproof.runs import engine

    done, before = [], engine.run_probe

    def until(*arguments: Any, **options: Any) -> Any:
        if len(done) == measured:
            raise KeyboardInterrupt
        done.append(arguments[0])
        return before(*arguments, **options)

    monkeypatch.setattr(engine, "run_probe", until)
    command = ["run", str(tmp_path / "study.yaml"), "--out", str(tmp_path / "run"), "--workers", "1"]
    assert _verb(*command) == 130
    capsys.readouterr()
    assert _verb("verify", tmp_path / "run", "--seed", 1, "--part", 1, "--json") == 2
    findings = json.loads(capsys.readouterr().out)["findings"]
    (failed,) = [one for one in findings if one["level"] == "fail"]
    assert failed["code"] == "unfinished"
    assert f"{6 - measured} of 6 measurements are missing" in failed["message"]
    assert failed["message"].endswith(f"continue it with: shiftproof {' '.join(command)}")
    assert ("record" in {one["code"] for one in findings}) == (measured == 4), "certificates that are there"
    monkeypatch.setattr(engine, "run_probe", before)
    assert _verb(*command) == 0
    assert codes(tmp_path / "run", "fail", "warn") == set()


def test_a_run_that_was_stopped_before_its_model_was_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from shiftproof.runs import cell_models

    def stop(*arguments: Any, **options: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(cell_models, "train_to_file", stop)
    with pytest.raises(KeyboardInterrupt):
        run_study(find_study(str(tmp_path / "study.yaml")), tmp_path / "run", progress="off")
    (failed,) = [one for one in verify_folder(tmp_path / "run", seed=1, part=1) if one.level == "fail"]
    assert "1 of 1 models are not trained yet; the same call in Python continues it" in failed.message
    assert isinstance(open_run(tmp_path / "run", unfinished=True).study.probes[0], Probe)
