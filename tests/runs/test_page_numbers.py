"""Every figure of the tables of the page again, from Parquet files alone: no code of ours stands between the two."""

import json
from collections.abc import Sequence
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from scipy.stats import beta

import shiftproof as sp
from shiftproof.runs import parse_study, run_study

STUDY = """
name: page-numbers
data: colored-digits
target: e=0.9
limit: 60
models:
  sees colour: {model: mlp, objective: erm, training: {steps: 40}}
  gray: {model: {name: mlp, gray: true}, objective: {name: gaussian, sigma: 0.25}, training: {steps: 60}}
probes:
  - clean
  - {name: attack, attack: {name: pgd, threat: "l2:0.25", steps: 3}}
  - {name: corrupt, corruptions: [fog, gaussian-noise], severities: [3]}
  - {name: certify, certifier: {name: randomized-smoothing, noise: "gaussian:0.25", n: 200}}
"""
SOURCES, TARGET = ("e=0.1", "e=0.2"), "e=0.9"
RADIUS = 0.25


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> sp.Run:
    return run_study(
        parse_study(STUDY, "test", "page-numbers"), tmp_path_factory.mktemp("runs") / "run", progress="off"
    )


class Rows(HTMLParser):
    """The tables of a page: by section a list of tables, each a list of rows of cells, each a list of texts."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: dict[str, list[list[list[list[str]]]]] = {}
        self.section, self.inside, self.heading = "", False, ""
        self.summaries: dict[str, list[str]] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        if tag == "section":
            self.section = known.get("id") or ""
        elif tag == "table":
            self.tables.setdefault(self.section, []).append([])
        elif tag == "tr":
            self.tables[self.section][-1].append([])
        elif tag in ("td", "th"):
            self.tables[self.section][-1][-1].append([])
            self.inside = True
        elif tag == "summary":
            self.summaries.setdefault(self.section, []).append("")
            self.heading = self.section

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self.inside = False
        elif tag == "summary":
            self.heading = ""

    def handle_data(self, data: str) -> None:
        if self.inside and data.strip():
            self.tables[self.section][-1][-1][-1].append(data.strip())
        elif self.heading:
            self.summaries[self.heading][-1] += data


@pytest.fixture(scope="module")
def page(ran: sp.Run) -> Rows:
    rows = Rows()
    rows.feed(ran.report().read_text())
    return rows


Columns = dict[str, Any]


@pytest.fixture(scope="module")
def measured(ran: sp.Run) -> dict[tuple[str, str, str], list[Columns]]:
    """By model, domain and probe the columns of every measurement: a file holds one after the other."""
    found: dict[tuple[str, str, str], list[Columns]] = {}
    for path in sorted((ran.folder / "evidence").rglob("*.parquet")):
        table, start = pq.read_table(path), 0
        for facts in json.loads(table.schema.metadata[b"shiftproof.facts"])["facts"]:
            part = table.slice(start, facts["samples"])
            start += facts["samples"]
            key = facts["model"], facts["domain"], facts["probe"]
            found.setdefault(key, []).append({name: part.column(name).to_numpy() for name in part.column_names})
        assert start == table.num_rows
    return found


Measured = dict[tuple[str, str, str], list[Columns]]


def share(right: Any) -> list[str]:
    """A share and its Clopper-Pearson interval, as the page writes them."""
    k, n = int(np.sum(right)), len(right)
    low = beta.ppf(0.025, k, n - k + 1) if k else 0.0
    high = beta.ppf(0.975, k + 1, n - k) if k < n else 1.0
    return [f"{k / n:.1%}", f"{100 * low:.1f} to {100 * high:.1f}"]


def lost(here: Sequence[Any], there: Any) -> str:
    return f"{100 * (np.mean([np.mean(one) for one in here]) - np.mean(there)):+.1f}"


def rights(measured: Measured, model: str, domain: str) -> dict[str, Any]:
    """What is right, one number a sample: clean, attacked, the mean over corruptions, certified within the radius."""
    (clean,), (attack,) = measured[model, domain, "clean"], measured[model, domain, "attack"]
    (certified,) = measured[model, domain, "certify"]
    corrupted = np.mean([one["correct"] for one in measured[model, domain, "corrupt"]], axis=0)
    held = certified["correct"] & ~certified["skipped"] & (certified["radius"] >= RADIUS)
    return {"clean": clean["correct"], "attacked": attack["correct"], "corrupted": corrupted, "certified": held}


def test_every_model_in_one_line(page: Rows, measured: Measured) -> None:
    (table,) = page.tables["overview"]
    heads = [cell[0] for cell in table[0]]
    assert heads == ["on e=0.9", "clean", "lost", "attacked", "lost", "corrupted", "lost", "certified", "lost"]
    assert [row[0][0] for row in table[1:]] == ["sees colour", "gray"]
    for row in table[1:]:
        there = rights(measured, row[0][0], TARGET)
        sources = [rights(measured, row[0][0], domain) for domain in SOURCES]
        for place, kind in enumerate(there):
            figure, gap = row[1 + 2 * place], row[2 + 2 * place]
            if kind == "corrupted":
                # a mean over corruptions has a bootstrap interval
                assert figure[0] == f"{there[kind].mean():.1%}"
            else:
                assert figure == share(there[kind])
            assert gap[0] == lost([one[kind] for one in sources], there[kind])


def test_all_measures_of_a_model(page: Rows, measured: Measured) -> None:
    assert [text.split(":")[0] for text in page.summaries["measures"]] == ["sees colour", "gray"]
    for model, table in zip(("sees colour", "gray"), page.tables["measures"], strict=True):
        heads = [cell[0] for cell in table[0]]
        assert heads[1:] == [TARGET, "gap", *SOURCES]
        rows = {row[0][0]: row for row in table[1:]}
        names = {"as they are": "clean", "attack, l2 0.25": "attacked", "certified within l2 0.25": "certified"}
        checked = 0
        for title, row in rows.items():
            kind = next((kind for name, kind in names.items() if title.startswith(name)), None)
            if kind is None:
                continue
            found = {domain: rights(measured, model, domain)[kind] for domain in (TARGET, *SOURCES)}
            assert [row[1], row[3], row[4]] == [share(found[domain]) for domain in (TARGET, *SOURCES)]
            assert row[2][0] == lost([found[domain] for domain in SOURCES], found[TARGET])
            checked += 1
        assert checked == 3


def test_certified_accuracy_and_mean_radii(page: Rows, measured: Measured) -> None:
    (table,) = page.tables["certified"]
    radii = [0.0 if cell[0] == "certified at all" else float(cell[0].split()[1]) for cell in table[0][1:-3]]
    assert len(radii) > 2
    for row in table[1:]:
        model, domain = row[0][0], row[0][1].split(",")[0]
        (one,) = measured[model, domain, "certify"]
        earned = np.where(one["correct"] & ~one["skipped"], one["radius"], -1.0)
        assert row[1:-3] == [share(earned >= radius) for radius in radii]
        assert row[-3] == [f"{np.maximum(earned, 0).mean():.3f}"]
        assert row[-1] == [f"{(one['prediction'] < 0).mean():.1%}"]


def test_classes_and_calibration(page: Rows, measured: Measured) -> None:
    for model, table in zip(("sees colour", "gray"), page.tables["classes"], strict=True):
        (there,) = measured[model, TARGET, "clean"]
        for label, row in enumerate(table[1:]):
            own = there["label"] == label
            here = np.concatenate(
                [one["correct"][one["label"] == label] for name in SOURCES for one in measured[model, name, "clean"]]
            )
            assert row[1] == [f"{here.mean():.1%}", f"n = {len(here)}"]
            assert row[2] == [f"{there['correct'][own].mean():.1%}", f"n = {own.sum()}"]
    (table,) = page.tables["calibration"]
    assert len(table) == 1 + 2 * 3
    for row in table[1:]:
        (one,) = measured[row[0][0], row[0][1].split(",")[0], "clean"]
        apart = one["confidence"].mean() - one["correct"].mean()
        assert [row[1][0], row[2][0]] == [f"{one['correct'].mean():.1%}", f"{one['confidence'].mean():.1%}"]
        assert row[3][0] == f"{100 * apart:+.1f}"


def test_confidence_is_the_softmax_of_the_model_itself(ran: sp.Run, measured: Measured) -> None:
    model = sp.load_model(f"file:{next((ran.folder / 'models').glob('gray*.safetensors'))}").double().eval()
    (one,) = measured["gray", TARGET, "clean"]
    domain = sp.load_domains("colored-digits")[TARGET]
    places = {sample: place for place, sample in enumerate(domain.ids.tolist())}
    inputs = domain.take(np.array([places[sample] for sample in one["id"].tolist()]))[0]
    with torch.no_grad():
        sure = model(inputs.double()).softmax(1).amax(1).numpy()
    assert one["confidence"] == pytest.approx(sure, abs=1e-4)
