"""Folders of runs that were damaged, forged, or are none: refused with a sentence, or found by verify."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shiftproof as sp
from shiftproof.evidence import Evidence, EvidenceStore, Measurement

pytestmark = pytest.mark.usefixtures("brief_examinations")

Call = Callable[..., tuple[int, str, str]]
MINE = ["--data", "colored-digits", "--model", "file:mine.safetensors", "--workers", "1", "--limit", "8"]
CERTIFY = ["certify", *MINE, "--n", "100", "--seed", "3", "--domain", "e=0.1,e=0.9"]
ATTACK = ["attack", *MINE, "--steps", "2", "--domain", "e=0.1,e=0.9", "--threat"]
TRAIN = ["train", "--data", "colored-digits", "--target", "e=0.9", "--model", "mlp", "--set", "training.steps=5"]


@pytest.fixture(autouse=True)
def _model(tmp_path: Path) -> None:
    model = sp.build_model("mlp", sp.load_domains("colored-digits"), width=8, seed=4).eval()
    sp.save_model(model, tmp_path / "mine.safetensors")


def codes(run: Call, folder: str) -> set[str]:
    code, out, err = run("verify", folder, "--part", "2", "--seed", "1", "--json")
    assert code in (0, 2), err
    found = {one["code"] for one in json.loads(out)["findings"] if one["level"] == "fail"}
    assert (code == 2) == bool(found)
    return found


def forge(folder: str, probe: str, change: Callable[[dict[str, Any], dict[str, list[Any]]], None]) -> None:
    """Change facts and columns of the first file of a probe, and seal it again."""
    store = EvidenceStore(Path(folder) / "evidence")
    file = next(one for one in store.files() if one.evidence[0].probe == probe)
    made = []
    for one in file.evidence:
        facts, columns = dict(one.facts), one.table.to_pydict()
        change(facts, columns)
        kinds = {name: one.table.schema.field(name).type for name in columns}
        made.append(Measurement(facts, pa.table({name: pa.array(columns[name], kinds[name]) for name in columns})))
    store.finish(file.path, Evidence(made), file.identity)


def test_weights_of_somebody_else_are_not_overwritten(run: Call) -> None:
    Path("bare").mkdir()
    shutil.copy("mine.safetensors", "bare/model.safetensors")
    before = Path("bare/model.safetensors").read_bytes()
    code, _, err = run(*TRAIN, "--out", "bare")
    assert code == 1
    assert "holds model.safetensors, but no run.json" in err
    assert Path("bare/model.safetensors").read_bytes() == before
    assert [path.name for path in Path("bare").iterdir() if not path.name.startswith(".")] == ["model.safetensors"]


def test_a_requirement_that_can_not_be_judged_is_refused_before_the_start(run: Call) -> None:
    code, _, err = run(*CERTIFY, "--out", "c", "--require", "clean>=0.1")
    assert code == 1
    assert "clean accuracy, which is not measured here" in err
    assert not Path("c").exists()
    unsound = ["--certifier", "median-smoothing", "--set", "certifier.unsound=as-published"]
    asked = ["certify", *MINE, *unsound, "--set", "certifier.radius=0.05", "--set", "certifier.samples=100"]
    code, _, err = run(*asked, "--out", "u", "--require", "certified@0.01>=0.1")
    assert code == 1
    assert not Path("u").exists()


def test_the_same_question_in_other_words_leaves_the_folder_as_it_is(run: Call) -> None:
    drawn = [part for part in CERTIFY if part not in ("--seed", "3")]
    assert run(*drawn, "--out", "c")[0] == 0
    seed = json.loads(Path("c/run.json").read_text())["noise_seed"]
    before = {path: path.read_bytes() for path in Path("c").rglob("*") if path.suffix in (".html", ".csv", ".parquet")}
    assert run(*drawn, "--out", "c", "--seed", seed)[0] == 0
    assert {path: path.read_bytes() for path in before} == before
    assert codes(run, "c") == set()
    assert run(*ATTACK, "l2:0.1", "--out", "a")[0] == 0
    page = Path("a/report.html").read_bytes()
    assert run(*ATTACK, "l2:0.1", "--attack", "pgd", "--seed", "0", "--out", "a")[0] == 0
    assert Path("a/report.html").read_bytes() == page


def test_rows_in_the_wrong_place_are_found(run: Call) -> None:
    assert run(*ATTACK, "l2:0.1", "--out", "a")[0] == 0
    assert run(*ATTACK, "l2:0.1", "--out", "w", "--set", "attack.step=0.00001", "--seed", "9")[0] == 0
    assert codes(run, "a") == set()

    def attacked(folder: str) -> list[Path]:
        return sorted(Path(folder, "evidence").rglob("attack-*.parquet"))

    for name in ("weak", "swapped", "extra", "gone"):
        shutil.copytree("a", name)
    # the rows of another attack, a plain copy
    for mine, other in zip(attacked("weak"), attacked("w"), strict=True):
        shutil.copy(other, mine)
    one, two = attacked("swapped")
    shutil.move(one, "kept")
    shutil.move(two, one)
    shutil.move("kept", two)
    shutil.copy(attacked("extra")[0], attacked("extra")[0].with_name("attack-00000000.parquet"))
    attacked("gone")[0].unlink()
    assert "evidence-of-other" in codes(run, "weak")
    assert "evidence-of-other" in codes(run, "swapped")
    assert "evidence-unexpected" in codes(run, "extra")
    assert "rows-missing" in codes(run, "gone")


def test_forged_answers_of_the_model_itself_are_found(run: Call) -> None:
    assert run(*TRAIN, "--out", "t")[0] == 0

    def all_right(facts: dict[str, Any], columns: dict[str, list[Any]]) -> None:
        columns["prediction"] = columns["label"]
        columns["correct"] = [True] * len(columns["label"])

    forge("t", "clean", all_right)
    assert run("report", "t")[0] == 0
    assert "clean-differs" in codes(run, "t")


STUDY = """
name: corrupted
data: {data}
target: e=0.9
limit: 12
models: {{m: {{model: {model}, objective: erm, training: {{steps: 5}}}}}}
probes: [{{name: corrupt, corruptions: [{corruptions}], severities: [2, 5]}}]
"""
IMAGES = {"data": "colored-digits", "model": "{name: mlp, width: 8}", "corruptions": "gaussian-noise, fog"}
TEXTS = {
    "data": "signed-reviews",
    "model": "{name: text-cnn, width: 8, filters: 8, vocabulary: 256}",
    "corruptions": "typos, case",
}


@pytest.mark.parametrize("asked", [IMAGES, TEXTS], ids=["images", "texts"])
def test_forged_answers_under_corruptions_are_found(run: Call, asked: dict[str, str]) -> None:
    Path("study.yaml").write_text(STUDY.format(**asked))
    assert run("run", "study.yaml", "--out", "s", "--workers", 1)[0] == 0
    last = asked["corruptions"].split(", ")[1]

    def all_right_at_worst(facts: dict[str, Any], columns: dict[str, list[Any]]) -> None:
        if (facts["corruption"], facts["severity"]) == (last, 5):
            columns["prediction"] = columns["label"]
            columns["correct"] = [True] * len(columns["label"])

    def called_another_severity(facts: dict[str, Any], columns: dict[str, list[Any]]) -> None:
        if facts["corruption"] == last:
            facts["severity"] = 2

    assert codes(run, "s") == set()
    for name, change, code in [
        ("right", all_right_at_worst, "corrupt-differs"),
        ("severity", called_another_severity, "rows-missing"),
    ]:
        shutil.copytree("s", name)
        forge(name, "corrupt", change)
        assert run("report", name)[0] == 0
        exit_code, out, err = run("verify", name, "--seed", "1", "--json")
        assert exit_code == 2, err
        assert {one["code"] for one in json.loads(out)["findings"] if one["level"] == "fail"} == {code}
        (finding,) = [one for one in json.loads(out)["findings"] if one["level"] == "fail"]
        assert f"{last} 5" in finding["message"]


def test_forged_survivors_of_an_attack_are_found(run: Call) -> None:
    assert run(*TRAIN, "--set", "training.steps=60", "--out", "t")[0] == 0
    asked = ["attack", "--data", "colored-digits", "--model", "file:t", "--domain", "e=0.1", "--workers", "1"]
    assert run(*asked, "--limit", "20", "--threat", "l2:1", "--out", "a")[0] == 0

    def none_fell(facts: dict[str, Any], columns: dict[str, list[Any]]) -> None:
        columns["prediction"] = columns["label"]
        columns["correct"] = [True] * len(columns["label"])

    assert codes(run, "a") == set()
    forge("a", "attack", none_fell)
    code, out, err = run("verify", "a", "--seed", "1", "--json")
    assert code == 2, err
    assert "attack-differs" in {one["code"] for one in json.loads(out)["findings"]}


@pytest.mark.parametrize(
    ("fact", "value", "code"),
    [
        ("seed", 5, "facts-differ"),
        ("seen_in_training", "yes", "facts-differ"),
        ("noise_options", {"name": "gaussian", "sigma": 0.5}, "noise-differs"),
        ("domain", "e=0.2", "facts-differ"),
    ],
)
def test_forged_facts_are_found(run: Call, fact: str, value: Any, code: str) -> None:
    assert run(*CERTIFY, "--out", "c")[0] == 0
    forge("c", "certify", lambda facts, _: facts.update({fact: value}))
    assert code in codes(run, "c")


def test_a_forged_record_is_found(run: Call) -> None:
    assert run(*CERTIFY, "--out", "c")[0] == 0
    text = Path("c/run.json").read_text()

    def changed(change: Callable[[dict[str, Any]], None]) -> set[str]:
        record = json.loads(text)
        change(record)
        Path("c/run.json").write_text(json.dumps(record))
        return codes(run, "c")

    assert "record-differs" in changed(lambda record: record.update(classes=record["classes"][::-1]))
    assert "record-differs" in changed(lambda record: record.update(hash="0"))
    assert "record-differs" in changed(lambda record: record["config"].update(limit=9))
    assert changed(lambda record: record["study"].update(limit=7))


@pytest.mark.parametrize("key", ["study", "fingerprints", "environment", "later_environments", "noise_seed", "radii"])
def test_a_damaged_record_is_one_sentence(run: Call, key: str) -> None:
    assert run(*CERTIFY, "--out", "c")[0] == 0
    record = json.loads(Path("c/run.json").read_text())
    record[key] = "abc"
    Path("c/run.json").write_text(json.dumps(record))
    for command in ([*CERTIFY, "--out", "c"], ["report", "c"]):
        code, _, err = run(*command)
        assert code == 1
        assert "run.json is damaged" in err
        assert err.count("\n") == 1


def test_rows_that_were_changed_are_not_continued(run: Call) -> None:
    assert run(*CERTIFY, "--out", "c")[0] == 0
    path = next(Path("c/evidence").rglob("*.parquet"))
    table = pq.read_table(path)
    place = table.column_names.index("radius")
    pq.write_table(table.set_column(place, "radius", pa.array([9.0] * table.num_rows)), path)
    code, _, err = run(*CERTIFY, "--out", "c")
    assert code == 1
    assert "was changed after it was written" in err


def test_the_largest_radius_is_said_for_every_alpha(run: Call) -> None:
    code, out, _ = run(*CERTIFY, "--alpha", "0.05,0.001", "--out", "c")
    assert code == 0
    assert "alpha 0.05)" in out
    assert "alpha 0.001)" in out
