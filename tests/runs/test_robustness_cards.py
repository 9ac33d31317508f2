"""Robustness cards: figures again from the Parquet files, names that YAML or Markdown could take for more, limits."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml
from harmless import ODD, assert_harmless

import shiftproof as sp
from shiftproof.cli.main import main
from shiftproof.display.marks import Line
from shiftproof.errors import UnknownName, UsageError
from shiftproof.evidence import Column, Evidence, Measurement
from shiftproof.report import Report
from shiftproof.report.model_index import METRICS, card_head
from shiftproof.report.robustness_card import CardFacts, card_text, report_of_model, rounded_up
from shiftproof.report.robustness_chart import robustness_chart
from shiftproof.runs import open_run, parse_study, run_study
from shiftproof.types import Finding

FIRST, SECOND = 'a: "b" | <script> # é', "a"
STUDY = f"""
data: colored-digits
target: e=0.9
limit: 30
probes:
  - clean
  - {{name: attack, attack: {{name: pgd, threat: "l2:0.25", steps: 3}}}}
  - {{name: corrupt, corruptions: [fog], severities: [3]}}
  - {{name: certify, certifier: {{name: randomized-smoothing, noise: "gaussian:0.25", n: 200}}}}
models:
  {FIRST!r}: {{model: {{name: mlp, width: 8}}, objective: erm, training: {{steps: 20}}}}
  {SECOND}: {{model: {{name: mlp, width: 8, gray: true}}, objective: erm, training: {{steps: 20}}}}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> sp.Run:
    study = yaml.safe_dump(yaml.safe_load(STUDY) | {"title": f"A study of {ODD}"}, sort_keys=False)
    return run_study(parse_study(study, "s", "small"), tmp_path_factory.mktemp("cards") / "run", progress="off")


@pytest.fixture(scope="module")
def cards(run: sp.Run) -> dict[str, str]:
    """The text of each card, by model."""
    paths = open_run(run.folder).export(["card"])
    texts = [path.read_text() for path in paths]
    assert all(re.fullmatch(r"card-[\w.=+-]+\.md", path.name) for path in paths)
    return {head_of(text)["model-index"][0]["name"]: text for text in texts}


def head_of(text: str) -> dict[str, Any]:
    """The YAML between the first two lines of dashes, by a parser."""
    found = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL)
    assert found is not None
    head = yaml.safe_load(found[1])
    assert isinstance(head, dict)
    return head


def rows_of(folder: Path, model: str, domain: str, probe: str) -> list[tuple[dict[str, Any], dict[str, np.ndarray]]]:
    """Facts and columns of the measurements of a probe, read without the package."""
    found = []
    for path in sorted((folder / "evidence").rglob(f"{probe}-*.parquet")):
        table = pq.read_table(path)
        facts = yaml.safe_load(table.schema.metadata[b"shiftproof.facts"])["facts"]
        start = 0
        for one in facts:
            part = table.slice(start, one["samples"])
            start += one["samples"]
            if (one["model"], one["domain"]) == (model, domain):
                found.append((one, {name: part.column(name).to_numpy() for name in part.column_names}))
    return found


def test_a_card_for_each_model(cards: dict[str, str]) -> None:
    assert list(cards) == [FIRST, SECOND]


@pytest.mark.parametrize("model", [FIRST, SECOND])
def test_the_index_holds_what_the_parquet_files_say(model: str, run: sp.Run, cards: dict[str, str]) -> None:
    (index,) = head_of(cards[model])["model-index"]
    assert [result["dataset"]["config"] for result in index["results"]] == ["e=0.9", "e=0.1", "e=0.2"]
    for result in index["results"]:
        domain = result["dataset"]["config"]
        assert result["task"] == {"type": "image-classification"}
        assert result["dataset"]["name"].endswith("(unseen)" if domain == "e=0.9" else "(source)")
        ((_, clean),) = rows_of(run.folder, model, domain, "clean")
        expected = {("accuracy", None): clean["correct"].mean()}
        ((facts, attacked),) = rows_of(run.folder, model, domain, "attack")
        expected["accuracy-under-attack", facts["eps"]] = attacked["correct"].mean()
        ((_, corrupted),) = rows_of(run.folder, model, domain, "corrupt")
        expected["accuracy-when-corrupted", None] = corrupted["correct"].mean()
        ((_, held),) = rows_of(run.folder, model, domain, "certify")
        for radius in (0.0, 0.25):
            right = held["correct"] & ~held["skipped"] & (held["radius"] >= radius)
            expected["certified-accuracy", radius] = right.mean()
        told = {(metric["type"], metric["args"].get("size")): metric["value"] for metric in result["metrics"]}
        assert told == {key: pytest.approx(float(value)) for key, value in expected.items()}
        for metric in result["metrics"]:
            low, high = metric["args"]["interval"]
            assert low <= metric["value"] <= high
            assert metric["args"]["samples"] == len(clean["id"])


def test_the_guarantee_is_the_sentence_of_the_evidence(run: sp.Run, cards: dict[str, str]) -> None:
    ((facts, held),) = rows_of(run.folder, SECOND, "e=0.9", "certify")
    assert f"> {facts['guarantee']}\n" in cards[SECOND]
    largest = max(
        float(np.where(one["correct"], one["radius"], 0).max())
        for domain in ("e=0.9", "e=0.1", "e=0.2")
        for _, one in rows_of(run.folder, SECOND, domain, "certify")
    )
    told = re.search(r"no sample has more than l2 ([\d.]+)\.", cards[SECOND])
    assert told is not None
    assert largest <= float(told[1]) <= largest * 1.002
    assert f"| {(held['prediction'] < 0).mean():.1%} |" in cards[SECOND]


def test_what_a_card_says_besides_figures(run: sp.Run, cards: dict[str, str]) -> None:
    text = cards[SECOND]
    assert "Trained on e=0.1, e=0.2. Meant for, and judged on, e=0.9, which training left out." in text
    assert "the guarantee holds for the smoothed classifier, not for the model as it is" in text
    assert "changes measured in linf, changes measured in l1: not covered" in text
    assert run.record["hash"] in text
    assert run.record["fingerprints"]["weights"][SECOND] in text
    assert run.record["fingerprints"]["weights"][FIRST] not in text
    assert str(run.folder) not in text
    assert str(Path.home()) not in text


def test_odd_names_are_text_in_yaml_and_markdown(cards: dict[str, str]) -> None:
    body = cards[FIRST].split("\n---\n", 1)[1]
    assert "<script>" not in body
    assert '# Robustness of a: "b" | &lt;script&gt; # é\n' in body
    tables = [part.splitlines() for part in body.split("\n\n") if part.startswith("|")]
    assert all(len({line.count("|") for line in table}) == 1 for table in tables)


def test_one_card_from_python_and_from_the_command_line(run: sp.Run, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the run has 2 models .* and a card is of one: run.card"):
        run.card(tmp_path / "card.md")
    path = run.card(tmp_path / "README.md", model=SECOND)
    with pytest.raises(UnknownName):
        run.card(tmp_path / "x.md", model="b")
    with pytest.raises(SystemExit) as stopped:
        main(["report", str(run.folder), "--format", "card", "--model", SECOND, "--out", str(tmp_path / "out")])
    assert stopped.value.code == 0
    (written,) = (tmp_path / "out").iterdir()
    assert written.read_text() == path.read_text()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["README.md", "out"]


def test_a_model_without_a_card_is_refused(run: sp.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["report", str(run.folder), "--format", "html", "--model", "a", "--out", str(tmp_path / "out")])
    assert stopped.value.code == 1
    assert "--model says whose card is written; add --format card" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_an_unknown_model_is_refused_before_anything_is_written(run: sp.Run, tmp_path: Path) -> None:
    with pytest.raises(UnknownName):
        run.export(["csv", "card"], tmp_path / "out", model="b")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("data", "listed"),
    [("pacs", "pacs"), ("hf:owner/name", "owner/name"), ("folder:images", None), ("given", None), ("imported", None)],
)
def test_only_names_that_others_can_find_are_listed_as_data_sets(data: str, listed: str | None) -> None:
    head = head_of(card_head(report_of(Evidence(measured("m", "clean"))), "m", data, "image-classification"))
    assert head.get("datasets") == (None if listed is None else [listed])
    assert head["model-index"][0]["results"][0]["dataset"]["type"] == (listed or "local")


def test_a_hub_reads_the_index(cards: dict[str, str]) -> None:
    hub = pytest.importorskip("huggingface_hub")
    data = hub.ModelCard(cards[FIRST]).data
    assert data.model_name == FIRST
    assert {one.metric_type for one in data.eval_results} == set(METRICS.values())


class TestNotebook:
    def test_a_run_shows_its_title_figures_and_findings(self, run: sp.Run) -> None:
        opened = open_run(run.folder)
        read = assert_harmless(opened._repr_html_())
        assert f"A study of {ODD}" in read.texts
        ((_, clean),) = rows_of(run.folder, SECOND, "e=0.9", "clean")
        row = read.texts[read.texts.index(SECOND) :]
        assert f"{clean['correct'].mean():.1%}" in row[:12]
        assert all(f"{one.message}." in read.text for one in opened.findings[:3])
        assert "report.html" in read.text or "run.report()" in read.text

    def test_the_plot_is_of_the_evidence(self, run: sp.Run) -> None:
        (panel,) = run.plot(model=SECOND, domain="e=0.9").panels
        curves = {mark.of[1].split(",")[0]: dict(mark.points) for mark in panel.marks if isinstance(mark, Line)}
        ((_, held),) = rows_of(run.folder, SECOND, "e=0.9", "certify")
        for radius, share in curves["certified"].items():
            assert share == pytest.approx((held["correct"] & (held["radius"] >= radius)).mean())
        ((facts, attacked),) = rows_of(run.folder, SECOND, "e=0.9", "attack")
        ((_, clean),) = rows_of(run.folder, SECOND, "e=0.9", "clean")
        known = {0.0: clean["correct"].mean(), facts["eps"]: attacked["correct"].mean()}
        assert curves["attacked"] == pytest.approx(known)

    def test_what_can_not_be_plotted(self, run: sp.Run) -> None:
        for wrong in ({"model": "b"}, {"domain": "e=0.5"}, {"norm": "l1"}):
            with pytest.raises(UnknownName):
                run.plot(**wrong)
        every = run.plot()
        assert {mark.of[0] for mark in every.panels[0].marks} == {FIRST, SECOND}
        assert [panel.title.split(",")[0] for panel in every.panels] == ["e=0.9", "e=0.1", "e=0.2"]

    def test_without_attacks_or_certificates_what_there_is_is_plotted(self, run: sp.Run) -> None:
        content = run.content()
        for probes, kinds in ((("clean", "certify"), "certified"), (("clean", "attack"), ""), (("clean",), "")):
            kept = Evidence([one for one in run.evidence if one.probe in probes])
            if kinds:
                assert robustness_chart(replace(content, evidence=kept)).name == kinds
            else:
                with pytest.raises(UsageError, match="nothing to plot by size"):
                    robustness_chart(replace(content, evidence=kept), model=SECOND)


def report_of(evidence: Evidence, **changes: Any) -> Report:
    known: dict[str, Any] = {
        "title": "t",
        "about": "",
        "models": {str(name): "" for name in evidence.distinct("model")},
        "sources": ("photo",),
        "targets": (ODD,),
        "classes": ("cat", "dog"),
        "evidence": evidence,
        "sheets": {},
        "facts": {},
        "labels": {name: {"cat": 2, "dog": 2} for name in ("photo", ODD)},
        "notes": (),
        "seed": 0,
    }
    return Report(**{**known, **changes})


def measured(model: str, probe: str, **facts: Any) -> list[Measurement]:
    columns = (Column("radius", "float", ""), Column("skipped", "bool", ""), Column("bound", "text", ""))
    of_certificates = {"radius": np.full(4, 0.5), "skipped": np.zeros(4, bool), "bound": ["clopper-pearson"] * 4}
    base = {"model": model, "probe": probe, "setting": probe, "title": probe, "classifier": "base", **facts}
    rows = {"label": [0, 1, 0, 1], "prediction": [0, 1, 0, 0], "correct": [True, True, True, False]}
    certify = probe == "certify"
    return [
        Measurement.of(
            {**base, "domain": domain},
            {"id": list("abcd"), **rows, **(of_certificates if certify else {})},
            columns if certify else (),
        )
        for domain in ("photo", ODD)
    ]


FACTS = CardFacts("folder:images", "image-classification", {}, {"command": "a `b` c"})
UNSOUND = {
    "unsound": "as-published",
    "norm": "l2",
    "units": "pixels",
    "scale": 0.25,
    "alpha": 0.001,
    "guarantee": "No.",
}


def test_unsound_rows_are_never_certified() -> None:
    report = report_of(Evidence([*measured("m", "clean"), *measured("m", "certify", **UNSOUND)]))
    text = card_text(report_of_model(report, "m"), "m", FACTS)
    kinds = {metric["type"] for one in head_of(text)["model-index"][0]["results"] for metric in one["metrics"]}
    assert kinds == {"accuracy"}
    assert "Nothing: no certificate was computed." in text
    first = text.split("\n---\n", 1)[1]
    assert first.index("**fail**") < first.index("## Intended domain")
    assert "proves nothing was computed for comparison; none of it is certified" in text
    assert "- command: ``a `b` c``" in text


def test_notes_on_other_models_are_not_on_the_card() -> None:
    notes = [Finding("warn", "x", message) for message in ("a: first", "a: b: second", "of all")]
    evidence = Evidence([*measured("a", "clean"), *measured("a: b", "clean")])
    report = report_of(evidence, notes=notes)
    assert [one.message for one in report_of_model(report, "a").notes] == ["a: first", "of all"]
    assert [one.message for one in report_of_model(report, "a: b").notes] == ["a: b: second", "of all"]


@pytest.mark.parametrize(
    "name",
    ["no", "0o14", "1_000", "2001-01-01", "a: b", "#", "- x", "---", "\u2028", "\x07", "'\"", "{", "é 日本", "~", ""],
)
def test_every_name_comes_back_from_yaml(name: str) -> None:
    evidence = Evidence([Measurement({**one.facts, "model": name}, one.table) for one in measured("m", "clean")])
    head = head_of(card_head(report_of(evidence), name, name, "text-classification"))
    (index,) = head["model-index"]
    assert index["name"] == name
    assert [one["dataset"]["config"] for one in index["results"]] == [ODD, "photo"]
    assert index["results"][0]["dataset"]["name"] == f"{name}, {ODD} (unseen)"


@pytest.mark.parametrize("value", [0.67541, 0.001, 0.99999, 3.0, 12.3456, 1e-9])
def test_what_no_radius_exceeds_does_not_shrink(value: float) -> None:
    assert value <= rounded_up(value) <= value * 1.002
