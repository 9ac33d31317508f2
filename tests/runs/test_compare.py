"""Runs against a baseline: every difference again from the Parquet files, and protocols that disagree."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow.parquet as pq
import pytest

import shiftproof as sp
from shiftproof.errors import UnknownName, UsageError
from shiftproof.report.comparison import Line
from shiftproof.runs import Run, import_results

Call = Callable[..., tuple[int, str, str]]
N = 40
STUDY = """
name: NAME
data: colored-digits
target: e=0.9
limit: LIMIT
models:
  MODEL: {model: {name: mlp, width: 16, gray: true}, training: {steps: STEPS}}
probes:
  - clean
  - {name: attack, attack: {name: pgd, threat: "l2:0.25", steps: PGD}, eps: [0.1, 0.25]}
  - {name: corrupt, corruptions: [fog, contrast], severities: [3]}
  - {name: certify, certifier: {name: randomized-smoothing, noise: "gaussian:0.25", n: 200}}
"""


def measured(folder: Path, **changes: object) -> Run:
    words: dict[str, object] = {"NAME": folder.name, "LIMIT": N, "MODEL": "m", "STEPS": 20, "PGD": 2, **changes}
    text = STUDY
    for word, value in words.items():
        text = text.replace(word, str(value))
    path = folder.with_suffix(".yaml")
    path.write_text(text)
    return sp.run_study(str(path), out=folder, workers=1, progress="off")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("compare")


@pytest.fixture(scope="module")
def before(root: Path) -> Run:
    return measured(root / "before")


@pytest.fixture(scope="module")
def after(root: Path) -> Run:
    return measured(root / "after", STEPS=60, MODEL="other")


@pytest.fixture(scope="module")
def harder(root: Path) -> Run:
    """More steps of the attack, and fewer samples."""
    return measured(root / "harder", PGD=3, LIMIT=30)


def files(run: Run, domain: str, probe: str) -> list[dict[str, dict[str, Any]]]:
    """Columns by id, of every measurement of a probe, read from its file without the package."""
    (path,) = (path for path in (run.folder / "evidence").rglob(f"{probe}-*.parquet") if path.parent.name == domain)
    table = pq.read_table(path)
    counts = [one["samples"] for one in json.loads(table.schema.metadata[b"shiftproof.facts"])["facts"]]
    found, start = [], 0
    for count in counts:
        rows = table.slice(start, count).to_pylist()
        found.append({row["id"]: row for row in rows})
        start += count
    return found


def right_by_hand(run: Run, line: Line) -> dict[str, float]:
    """What every sample has, by the files alone."""
    if line.metric in ("clean", "attacked"):
        place = {0.1: 0, 0.25: 1}.get(line.size, 0)
        rows = files(run, line.domain, "clean" if line.metric == "clean" else "attack")[place]
        return {name: float(row["correct"]) for name, row in rows.items()}
    if line.metric == "corrupted":
        kinds = files(run, line.domain, "corrupt")
        return {name: float(np.mean([kind[name]["correct"] for kind in kinds])) for name in kinds[0]}
    (rows,) = files(run, line.domain, "certify")
    if line.metric == "certified":
        return {name: float(row["correct"] and row["radius"] >= line.size) for name, row in rows.items()}
    return {name: row["radius"] if row["correct"] else 0.0 for name, row in rows.items()}


def test_every_difference_again_from_the_files(before: Run, after: Run) -> None:
    (pair,) = sp.compare(before, after).pairs
    assert (pair.baseline_model, pair.model) == ("m", "other")
    kinds = {line.metric for line in pair.lines}
    assert kinds == {"clean", "attacked", "corrupted", "certified", "radius"}
    assert {line.domain for line in pair.lines} == {"e=0.1", "e=0.2", "e=0.9"}
    for line in pair.lines:
        one, other = right_by_hand(before, line), right_by_hand(after, line)
        assert set(one) == set(other) == set(line.ids)
        assert line.difference.n == N
        change = {name: other[name] - one[name] for name in one}
        assert line.difference.value == pytest.approx(np.mean(list(change.values())), abs=1e-12)
        assert line.difference.low <= line.difference.value <= line.difference.high
        if line.is_share:
            assert set(line.gained) == {name for name, value in change.items() if value > 0}
            assert set(line.lost) == {name for name, value in change.items() if value < 0}
        assert (line.verdict == "undecided") == (line.difference.low <= 0 <= line.difference.high)
    # training three times as long is seen
    assert any(line.verdict == "better" for line in pair.lines)
    # what stands in both reports is what is compared
    shown = before.content().measures.rows[0].accuracy["e=0.9"]
    assert next(line for line in pair.lines if line.domain == "e=0.9").baseline == shown


def test_files_of_a_comparison(before: Run, after: Run, tmp_path: Path) -> None:
    found = sp.compare(str(before.folder), after.folder, radii=[0, 0.25])
    written = found.export(tmp_path / "out")
    assert written[0].name == "compare.html"
    page = written[0].read_text()
    assert not re.search(r"(?:src|href)=[\"']https?:", page)
    assert "Which samples changed" in page
    with (tmp_path / "out" / "tables" / "samples.csv").open() as file:
        rows = list(csv.DictReader(file))
    lines = found.pairs[0].lines
    assert len(rows) == N * len(lines)
    for line in lines:
        mine = [row for row in rows if (row["domain"], row["measure"]) == (line.domain, line.title)]
        assert [row["id"] for row in mine if row["change"] == "lost"] == line.lost
        assert np.mean([float(row["other"]) - float(row["baseline"]) for row in mine]) == pytest.approx(
            line.difference.value
        )
    with (tmp_path / "out" / "tables" / "compare.csv").open() as file:
        assert [row["measure"] for row in csv.DictReader(file)] == [line.title for line in lines]
    numbers = json.loads((tmp_path / "out" / "compare.json").read_text())
    assert numbers["pairs"][0]["lines"][0]["gained"] == lines[0].gained
    assert {path.suffix for path in written} == {".html", ".json", ".csv", ".md", ".tex", ".svg", ".png"}
    assert found.rows[0]["difference"] == lines[0].difference.value
    assert "as they are" in found.table
    assert f"{len(lines)} differences on e=0.9, e=0.1, e=0.2" in repr(found)


def test_more_than_two_runs_stand_against_the_first(before: Run, after: Run) -> None:
    found = sp.compare(before, after, before.folder, model=[])
    assert [(pair.run, pair.model) for pair in found.pairs] == [("after", "other"), ("before", "m")]
    itself = found.pairs[1]
    assert {line.difference.value for line in itself.lines} == {0.0}
    assert not any(line.gained or line.lost for line in itself.lines)
    assert itself.notes[0].startswith("Both are the same weights")
    alone = sp.compare(before, after)
    assert [one.difference for one in alone.pairs[0].lines] == [one.difference for one in found.pairs[0].lines]


class TestProtocols:
    def test_other_samples_are_refused_with_both_values(self, run: Call, before: Run, harder: Run) -> None:
        code, out, err = run("compare", before.folder, harder.folder)
        assert (code, out) == (1, "")
        assert err.startswith("error: ")
        assert "both measured 30 of up to 40 (limit 40 and 30); measure both alike" in err
        assert len(err.strip().splitlines()) == 1

    def test_shared_samples_and_what_is_left_out(self, before: Run, harder: Run) -> None:
        (pair,) = sp.compare(before, harder, shared_samples=True, domain="e=0.9").pairs
        ids = set(files(harder, "e=0.9", "clean")[0])
        assert all(set(line.ids) == ids for line in pair.lines)
        assert "attacked" not in {line.metric for line in pair.lines}
        assert any("attack differs in attack.steps 2 and 3" in text for text in pair.left_out)
        assert "On e=0.9, the 30 samples that both measured are compared." in pair.notes

    def test_other_data_under_one_name(self, before: Run, after: Run, root: Path) -> None:
        other = sp.open_run(after.folder)
        other.record["fingerprints"]["data"]["e=0.9"] = "0" * 32
        with pytest.raises(UsageError, match="other data under one name .fingerprint of e=0.9 [0-9a-f]{32} and 0{32}"):
            sp.compare(before, other)
        assert sp.compare(before, other, domain=["e=0.1"]).pairs[0].domains == ("e=0.1",)

    def test_other_classes(self, before: Run, after: Run) -> None:
        other = sp.open_run(after.folder)
        other.record["classes"] = ["5-9", "0-4"]
        with pytest.raises(UsageError, match="their classes are 0-4, 5-9 and 5-9, 0-4"):
            sp.compare(before, other)

    @pytest.mark.parametrize(
        ("options", "error", "said"),
        [
            ({"domain": ["moon"]}, UnknownName, "unknown domain of both runs 'moon'"),
            ({"model": ["m=nobody"]}, UnknownName, "unknown model 'nobody'"),
            ({"model": ["who=other"]}, UnknownName, "unknown model 'who'"),
            ({"require": ["claims"]}, UsageError, "can't be required of a comparison"),
            ({"require": ["certified@linf:0.1>=baseline"]}, UsageError, "nothing of the kind was compared on e=0.9"),
            ({"require": ["clean:moon>=baseline"]}, UsageError, "nothing of the kind was compared on moon"),
        ],
    )
    def test_mistakes(self, before: Run, after: Run, options: Any, error: type[Exception], said: str) -> None:
        with pytest.raises(error, match=said):
            sp.compare(before, after, **options)

    def test_one_run_alone(self, before: Run) -> None:
        with pytest.raises(UsageError, match="a comparison needs two runs"):
            sp.compare(before)
        with pytest.raises(UsageError, match="compared with itself"):
            sp.compare(before, model=["m=m"])


class TestGate:
    def test_exit_code_and_junit(self, run: Call, before: Run, after: Run, tmp_path: Path) -> None:
        where = tmp_path / "ci" / "junit.xml"
        asked = ["clean>=baseline-1", "certified@0.25:e=0.9 >= baseline+90% with 95%", "clean>=0"]
        required = [word for text in asked for word in ("--require", text)]
        command = ["compare", before.folder, after.folder, *required, "--junit", where]
        code, out, _ = run(*command, "--out", tmp_path / "out")
        assert code == 2
        assert "certified@0.25:e=0.9 >= baseline+90% with 95% is not met" in out.splitlines()[-2]
        assert (tmp_path / "out" / "compare.html").is_file()
        root = ElementTree.parse(where).getroot()
        cases = {case.get("name"): case for case in root.iter("testcase")}
        assert [cases[text].find("failure") is None for text in asked] == [True, False, True]
        code, out, _ = run(*command, "--json")
        result = json.loads(out)
        assert code == 2
        difference = result["requirements"][1]["difference"]
        line = next(
            one
            for one in result["pairs"][0]["lines"]
            if (one["domain"], one["metric"], one["size"]) == ("e=0.9", "certified", 0.25)
        )
        assert [difference["low"], difference["high"]] == line["difference"]["interval"]
        assert run("compare", before.folder, after.folder, "--require", "clean>=baseline-1")[0] == 0

    def test_elsewhere_there_is_no_baseline(self, run: Call, before: Run, tmp_path: Path) -> None:
        model = next((before.folder / "models").glob("*.safetensors"))
        verb = ["attack", "--data", "colored-digits", "--model", f"file:{model}", "--threat", "l2:0.1", "--steps", 1]
        verb += ["--limit", 5, "--workers", 1, "--out", tmp_path / "run"]
        code, _, err = run(*verb, "--require", "clean>=baseline-0.02")
        assert code == 1
        assert "there is none here: shiftproof compare BASELINE RUN" in err
        assert not (tmp_path / "run").exists()
        # a file for CI that can't be written is said before anything is measured
        code, _, err = run(*verb, "--junit", tmp_path)
        assert (code, (tmp_path / "run").exists()) == (1, False)
        assert "it should name a file" in err
        code, _, _ = run(*verb, "--require", "clean>=1 with 95%", "--junit", tmp_path / "junit.xml")
        assert code == 2
        root = ElementTree.parse(tmp_path / "junit.xml").getroot()
        suites = {suite.get("name"): suite for suite in root}
        assert suites["requirements"].get("failures") == "1"
        found = sp.open_run(tmp_path / "run").findings
        assert suites["findings"].get("tests") == str(len(found))
        # the same of a finished run, with all that calls have required
        code, out, _ = run("report", tmp_path / "run", "--format", "junit", "--out", tmp_path / "again")
        assert (code, out.strip()) == (0, str(tmp_path / "again" / "junit.xml"))
        assert (tmp_path / "again" / "junit.xml").read_bytes() == (tmp_path / "junit.xml").read_bytes()
        assert not (tmp_path / "again" / "logs").exists()


def test_models_of_several_names(before: Run, root: Path) -> None:
    text = STUDY.replace("  MODEL:", "  plain: {model: {name: mlp, width: 8}, training: {steps: 5}}\n  e=9:")
    text = (
        re.sub(r"probes:.*", "", text, flags=re.S).replace("NAME", "two").replace("LIMIT", "40").replace("STEPS", "5")
    )
    (root / "two.yaml").write_text(text)
    run = sp.run_study(str(root / "two.yaml"), out=root / "two", workers=1, progress="off")
    with pytest.raises(UsageError, match="no model is called alike.*--model m=plain"):
        sp.compare(before, run)
    assert [(p.baseline_model, p.model) for p in sp.compare(before, run, model="m=e=9").pairs] == [("m", "e=9")]
    # two models of one run, where one name holds an equal sign
    (pair,) = sp.compare(run, model="e=9=plain").pairs
    assert pair.title == "plain against e=9"
    assert len(sp.compare(run, run.folder).pairs) == 2
    (root / "plain.yaml").write_text(re.sub(r"\n  e=9.*", "", text))
    plain = sp.run_study(str(root / "plain.yaml"), out=root / "plain", workers=1, progress="off")
    (pair,) = sp.compare(run, plain).pairs
    assert pair.title == "plain: plain against two"
    assert pair.left_out == ("models of the baseline alone: e=9",)


def test_imported_logs(tmp_path: Path) -> None:
    head = "idx\tlabel\tpredict\tradius\tcorrect\ttime"
    logs = {
        "a": ["0\t3\t3\t0.486\t1\t1", "20\t7\t7\t1.41\t1\t1", "40\t5\t-1\t0.0\t0\t1", "60\t1\t2\t0.25\t0\t1"],
        "b": ["60\t1\t1\t0.3\t1\t1", "0\t3\t3\t0.2\t1\t1", "20\t7\t2\t0.5\t0\t1", "40\t5\t5\t0.9\t1\t1"],
    }
    for name, rows in logs.items():
        (tmp_path / f"{name}.tsv").write_text("\n".join([head, *rows]) + "\n")
    told: dict[str, Any] = {"alpha": 0.001, "n": 100_000}
    a, b = (
        import_results(tmp_path / f"{name}.tsv", sigma=sigma, **told, out=tmp_path / f"run-{name}")
        for name, sigma in (("a", 0.5), ("b", 0.25))
    )
    with pytest.raises(UsageError, match="certify differs in sigma 0.5 and 0.25"):
        sp.compare(a, b)
    found = sp.compare(a, b, any_certificate=True, radii=[0, 0.4])
    at_all, within, _ = found.pairs[0].lines
    assert (at_all.gained, at_all.lost) == (["40", "60"], ["20"])
    assert (within.gained, within.lost) == (["40"], ["0", "20"])
    assert within.difference.value == pytest.approx(-0.25)
    assert any("can't be checked" in note for note in found.pairs[0].notes)


def test_samples_are_not_named_where_a_run_hides_them(before: Run, after: Run, tmp_path: Path) -> None:
    hidden = replace(after, record={**after.record, "images": False, "id_key": "00ff"})
    ids = {sample for one in before.evidence for sample in one["id"].tolist()}
    for found in (sp.compare(before, hidden), sp.compare(before, after, images=False)):
        found.export(tmp_path)
        written = [path for path in tmp_path.rglob("*") if path.suffix in (".html", ".json", ".csv", ".md", ".tex")]
        assert written
        text = "\n".join(path.read_text() for path in written) + json.dumps(found.to_json())
        assert not [sample for sample in ids if sample in text]
        # the same sample has the same name everywhere, so that rows can still be followed
        assert any("#" in name for line in found.pairs[0].lines for name in line.ids)


def test_a_radius_that_nothing_reaches_is_no_requirement(before: Run, after: Run) -> None:
    with pytest.raises(UsageError, match=r"'certified@9>=baseline' says nothing: not one sample"):
        sp.compare(before, after, require="certified@9>=baseline")
