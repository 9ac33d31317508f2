"""A study beside its publication: sections of the report, and the page for the documents of a project."""

from __future__ import annotations

import csv
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import shiftproof as sp
from shiftproof.errors import DataError, StudyError
from shiftproof.report.sections.sweeps import Sweep
from shiftproof.runs import open_run, parse_study, run_study
from shiftproof.runs.estimate_not_run import estimate_not_run

STUDY = """
title: A small study
about: Few steps.
data: colored-digits
target: e=0.9
seeds: [0, 1, 2]
limit: 30
models:
  Gaussian:
    model: {name: mlp, width: 16}
    objective: {name: gaussian, sigma: 0.12}
    training: {steps: 10}
    probes: [{name: certify, certifier: {name: randomized-smoothing, noise: "gaussian:0.12", n: 200}}]
  GLEAN:
    model: {name: mlp-cayley, width: 16}
    objective: &glean {name: glean, anneal: 5}
    training: &few {steps: 10, batch: 50}
    probes: &margin [{name: certify, certifier: latent-margin}]
  weight:
    model: {name: mlp-cayley, width: 16}
    objective: *glean
    training: *few
    vary: {objective.irm_weight: [10, 1.0e+6]}
    probes: *margin
published:
  - document: "001"
    table: Table 2
    dataset: CMNIST
    methods: {Gaussian: {model: Gaussian, by: randomized-smoothing}, GLEAN: {model: GLEAN, by: latent-margin}}
claims:
  - id: K1.2
    says: GLEAN's mean radius is larger
    model: GLEAN
    by: latent-margin
    metric: acr
    above: {model: Gaussian, by: randomized-smoothing}
    effect: 0.05
  - {id: K1.3, says: An order of data sets, needs: "data: CelebA", for: mean radii}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> sp.Run:
    return run_study(parse_study(STUDY, "s", "small"), tmp_path_factory.mktemp("page") / "run", progress="off")


def test_a_sweep_holds_the_model_that_is_written_on_its_own(run: sp.Run) -> None:
    names = ((10.0, "weight, irm_weight 10"), (10_000.0, "GLEAN"), (1e6, "weight, irm_weight 1000000"))
    assert list(run.content().sweeps) == [Sweep("objective.irm_weight", names)]


def test_figures_of_the_page_are_those_of_the_evidence(run: sp.Run, tmp_path: Path) -> None:
    open_run(run.folder).export(["reproduction"], tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["small", "small.md"]
    page = (tmp_path / "small.md").read_text()
    # by hand, from the columns of the evidence: the mean over seeds of the mean over samples
    parts = list(run.evidence.where(model="GLEAN", domain="e=0.9", probe="certify"))
    radii = np.array([np.where(one["correct"], one["radius"], 0.0) for one in parts])
    shares = [100 * float((np.where(radii > 0, radii, -1) >= r).mean()) for r in (0.05, 0.45)]
    row = re.search(r"^\| GLEAN \| (.*) \|$", page, re.MULTILINE)
    assert row is not None
    cells = row[1].split(" | ")
    assert cells[-1] == f"{radii.mean():.4f} (0.2466)"
    assert [cells[1], cells[9]] == [f"{shares[0]:.1f} % (62.7 %)", f"{shares[1]:.1f} % (38.6 %)"]
    assert "K1.3: An order of data sets (needs data: CelebA" in page
    # not a study that comes with shiftproof
    assert "make reproduce" not in page
    assert "sp.run_study('small')" in page
    for link in re.findall(r"\]\((.*?)\)", page):
        assert (tmp_path / link).read_text().startswith("<svg")


def test_records_hold_both_numbers_and_what_was_not_measured_says_so(run: sp.Run, tmp_path: Path) -> None:
    run.export(["csv"], tmp_path)
    rows = list(csv.DictReader((tmp_path / "tables" / "published.csv").read_text().splitlines()))
    mapped = [row for row in rows if row["method"] in ("Gaussian", "GLEAN")]
    assert {row["published"] for row in mapped if row["metric"] == "acr"} == {"0.0458", "0.2466"}
    assert all(float(row["low"]) <= float(row["ours"]) <= float(row["high"]) for row in mapped)
    # the table has five methods, each at ten radii and with its mean
    others = [row for row in rows if row not in mapped]
    assert (len(mapped), len(others)) == (22, 33)
    assert {(row["method"], row["ours"]) for row in others} == {(m, "") for m in ("MACER", "SmoothAdv", "Consistency")}
    swept = list(csv.DictReader((tmp_path / "tables" / "sweeps.csv").read_text().splitlines()))
    assert {(row["value of the option"], row["measure"]) for row in swept} == {
        (value, measure)
        for value in ("10.0", "10000.0", "1000000.0")
        for measure in ("accuracy", "mean radius, latent margin")
    }


def test_what_was_not_run_is_shown_with_what_it_would_take(
    run: sp.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that another study has, whose data is not here."""
    monkeypatch.setenv("SHIFTPROOF_DATA", str(tmp_path / "none"))
    elsewhere = (
        "data: celeba\ntarget: agrees=0.1\nmodels:\n  plain:\n    model: {name: cnn, width: 4}\n"
        "    training: {steps: 3, batch: 8}\n    probes: [{name: certify, certifier: "
        '{name: randomized-smoothing, noise: "gaussian:0.12", n: 100}}]\n'
        'published:\n  - {document: "001", table: Table 2, dataset: CelebA, '
        "methods: {Gaussian: {model: plain, by: randomized-smoothing}}}\n"
    )
    (tmp_path / "other.yaml").write_text(elsewhere)
    named = f'  - {{document: "001", table: Table 2, dataset: CelebA, study: {tmp_path / "other.yaml"}}}\nclaims:'
    copy = tmp_path / "run"
    shutil.copytree(run.folder, copy)
    # which tables are shown may change after a run: nothing is measured again
    changed = parse_study(STUDY.replace("claims:", named, 1), "s", "small")
    before = {path: path.stat().st_mtime_ns for path in (copy / "evidence").rglob("*.parquet")}
    again = run_study(changed, copy, progress="off")
    assert {path: path.stat().st_mtime_ns for path in (copy / "evidence").rglob("*.parquet")} == before
    assert {row.takes for row in again.content().published if row.dataset == "CelebA"} == {"in other"}
    (one,) = estimate_not_run(open_run(copy))
    assert (one.dataset, one.method, one.study) == ("CelebA", "Gaussian", "other")
    assert 0 < one.seconds <= one.most_seconds
    rows = [row for row in open_run(copy).content().published if row.dataset == "CelebA"]
    assert len(rows) == 55
    assert {(row.method, row.takes) for row in rows if row.takes != "in other"} == {("Gaussian", one.words)}
    open_run(copy).export(["reproduction"], tmp_path / "pages")
    page = (tmp_path / "pages" / "small.md").read_text()
    assert f"- Table 2, CelebA, Gaussian: not run; {one.words}" in page
    assert "- Table 2, CelebA, MACER: not run; in other\n" in page
    (copy / "not-run.json").write_text("{}")
    with pytest.raises(DataError, match="is damaged; remove it"):
        open_run(copy).content()


def test_a_published_table_is_of_this_study_or_of_another() -> None:
    both = STUDY.replace("dataset: CMNIST", "dataset: CMNIST\n    study: glean-celeba")
    neither = re.sub(r"    methods: .*\n", "", STUDY)
    for text in (both, neither):
        with pytest.raises(StudyError, match="needs 'methods', or the 'study' that has them, and not both"):
            parse_study(text, "s", "s")


def test_remarks_become_a_part_of_the_page(run: sp.Run, tmp_path: Path) -> None:
    (tmp_path / "small.remarks.md").write_text("Few samples.\n")
    run.export(["reproduction"], tmp_path)
    assert "## What differs, and why\n\nFew samples.\n" in (tmp_path / "small.md").read_text()


def test_a_page_stays_in_its_folder_whatever_the_study_is_called(tmp_path: Path) -> None:
    text = STUDY.replace("seeds: [0, 1, 2]", "seeds: [0]").replace("title:", "name: ../evil\ntitle:", 1)
    other = run_study(parse_study(text, "s", "s"), tmp_path / "run", progress="off")
    other.export(["reproduction"], tmp_path / "in" / "pages")
    pages = [path.relative_to(tmp_path / "in" / "pages") for path in (tmp_path / "in").rglob("*.md")]
    assert len(pages) == 1
    assert ".." not in pages[0].parts


def test_radii_in_another_norm_do_not_stand_beside_published_ones() -> None:
    text = STUDY.replace('noise: "gaussian:0.12", n: 200', 'noise: "rotation:0.5", n: 200')
    with pytest.raises(StudyError, match="radii of the document are in l2, and those of Gaussian"):
        parse_study(text, "s", "s")
