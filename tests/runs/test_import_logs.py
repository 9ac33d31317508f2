"""Logs of certificates that others have written, as runs."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shiftproof as sp
from shiftproof.certification.imported import NOT_STATED
from shiftproof.errors import DataError, ShiftproofError, UsageError
from shiftproof.execution import read_json
from shiftproof.runs import Run, import_results
from shiftproof.runs.verify import verify_folder
from shiftproof.types import Finding

Call = Callable[..., tuple[int, str, str]]
LOGS = Path(os.environ.get("SHIFTPROOF_DATA", "")).parent / "reference-logs"
HEAD = "idx\tlabel\tpredict\tradius\tcorrect\ttime"
ROWS = ["0\t3\t3\t0.486\t1\t16.6", "20\t7\t7\t1.41\t1\t17.2", "40\t5\t-1\t0.0\t0\t1.0", "60\t1\t2\t0.25\t0\t1.0"]


def write_log(path: Path, rows: list[str] = ROWS, head: str = HEAD) -> Path:
    path.write_text("\n".join([head, *rows]) + "\n")
    return path


def codes(findings: list[Finding]) -> dict[str, str]:
    return {one.code: one.level for one in findings}


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("import")
    run = import_results(write_log(folder / "one_sigma_0.50.tsv"), out=folder / "run")
    run.export()
    return run


@pytest.mark.skipif(not LOGS.is_dir(), reason="the published logs are not beside SHIFTPROOF_DATA")
@pytest.mark.parametrize(
    ("name", "acr", "right"),
    [
        ("cohen_cifar10_sigma_0.50", 0.538, None),
        ("smoothadv_cifar10_sigma_0.25", 0.578, None),
        ("gaussian_fashion_mnist_sigma_0.50", 1.0563, 0.862),
        ("macer_fashion_mnist_sigma_0.50", 1.1833, 0.833),
        ("consistency_fashion_mnist_sigma_0.50", 1.2118, 0.849),
        ("smoothadv_fashion_mnist_sigma_0.50", 1.2547, 0.833),
    ],
)
def test_published_logs_have_their_average_radius(name: str, acr: float, right: float | None, tmp_path: Path) -> None:
    run = import_results(LOGS / f"{name}.tsv", out=tmp_path / "run")
    one = run.evidence.get(model=name, domain="imported")
    assert (one["correct"] * one["logged"]).mean() == pytest.approx(acr, abs=5e-4)
    series = run.content().series[0]
    rows = np.genfromtxt(LOGS / f"{name}.tsv", names=True)
    assert series.at(0.0).value == rows["correct"].mean()
    assert right is None or series.at(0.0).value == pytest.approx(right, abs=1e-3)
    # rounding is taken off: never more than the log says, and at most half a unit of its third digit less
    assert acr - 0.0055 < series.mean_radius() < acr + 5e-4


@pytest.mark.skipif(not LOGS.is_dir(), reason="the published logs are not beside SHIFTPROOF_DATA")
def test_a_published_log_needs_another_alpha_than_its_paper_states(tmp_path: Path) -> None:
    told: dict[str, Any] = {"sigma": 0.5, "n": 100_000}
    run = import_results(LOGS / "cohen_cifar10_sigma_0.50.tsv", alpha=0.001, **told, out=tmp_path / "a")
    (broken,) = run.broken
    assert broken.code == "radii-too-large"
    assert "it fits alpha 0.01, or 149,684 votes" in broken.message
    assert not import_results(LOGS / "cohen_cifar10_sigma_0.50.tsv", alpha=0.01, **told, out=tmp_path / "b").broken
    # 0.9529 is more than 0.952864, which unanimous votes certify, but was rounded
    fits = import_results(LOGS / "smoothadv_cifar10_sigma_0.25.tsv", alpha=0.001, sigma=0.25, n=100_000)
    assert codes(fits.findings)["radii-possible"] == "pass"
    shutil.rmtree(fits.folder)


def test_a_run_like_any_other(imported: Run) -> None:
    folder = imported.folder
    for name in ("run.json", "report.html", "report.json", "tables/certified.csv", "figures/certified.svg"):
        assert (folder / name).is_file(), name
    again = sp.open_run(folder)
    (one,) = again.evidence
    assert (one.model, one.domain, one.probe, one.classifier) == ("one_sigma_0.50", "imported", "certify", "smoothed")
    assert one["id"].tolist() == ["0", "20", "40", "60"]
    assert set(one["bound"]) == {"imported"}
    assert set(one["label_count"]) == {-1}
    assert set(one["n"]) == {0}
    assert one.fact("sampled") == "systematic"
    assert one.seen_in_training == "unknown"
    assert one.fact("alpha") == NOT_STATED
    assert json.loads((folder / "report.json").read_text())["sections"]["certified"][0]["alpha"] is None
    page = (folder / "report.html").read_text()
    assert "alpha not stated: can&#39;t be checked here" in page
    found = codes(again.findings)
    for code in ("cant-be-checked", "alpha-not-stated", "which-samples", "seen-unknown", "radii-unchecked"):
        assert found[code] == "warn", code
    assert "every 20th sample" in " ".join(one.message for one in again.findings)


def test_curves_are_those_of_the_rows_less_rounding(imported: Run) -> None:
    series = imported.content().series[0]
    # 1.41 has three digits: 0.005 may have been added to it, 0.0005 to 0.486
    assert imported.evidence[0]["radius"].tolist() == pytest.approx([0.4855, 1.405, 0.0, 0.2495])
    radii = np.array([0.0, 0.4855, 0.486, 1.405, 1.41])
    assert series.curve(radii).tolist() == [0.5, 0.5, 0.25, 0.25, 0.0]
    assert series.mean_radius() == pytest.approx((0.4855 + 1.405) / 4)
    assert series.abstained == 0.25


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    certificates = sp.Certificates.from_log(write_log(tmp_path / "log.tsv"))
    labels = certificates.details["labels"]
    certificates.to_log(tmp_path / "ours.tsv", labels)
    series = import_results(tmp_path / "ours.tsv", out=tmp_path / "run").content().series[0]
    radii = np.array([0.0, 0.2, 0.4, 0.485, 1.4, 1.5])
    assert series.curve(radii).tolist() == sp.metrics.certified_accuracy(certificates, labels, radii).tolist()
    assert series.repeats.first["id"].tolist() == ["0", "20", "40", "60"]


@pytest.mark.parametrize("change", [str.upper, lambda text: text.replace("\n", "\r\n"), lambda text: "\ufeff" + text])
def test_line_ends_and_marks(tmp_path: Path, change: object) -> None:
    text = "\n".join([HEAD, *ROWS]) + "\n"
    made = text if change is str.upper else change(text)  # type: ignore[operator]
    (tmp_path / "log.csv").write_bytes(made.replace("\t", ",").encode() if change is str.upper else made.encode())
    assert len(import_results(tmp_path / "log.csv", out=tmp_path / "run").evidence[0]) == 4


def test_verify_fails_what_it_cannot_check(imported: Run) -> None:
    found = list(verify_folder(imported.folder, seed=0))
    assert [one.code for one in found if one.level == "fail"] == ["cant-be-checked"]
    assert {"record-same", "evidence-same", "tables-same", "imported-same"} <= {one.code for one in found}


def test_verify_finds_edits(imported: Run, tmp_path: Path) -> None:
    folder = shutil.copytree(imported.folder, tmp_path / "run")
    (copy,) = (folder / "imported").iterdir()
    copy.write_text(copy.read_text().replace("1.41", "1.91"))
    assert "imported-changed" in codes(list(verify_folder(folder, seed=0)))
    copy.unlink()
    assert "imported-missing" in codes(list(verify_folder(folder, seed=0)))
    (folder / "tables" / "certified.csv").write_text("better")
    assert "table-differs" in codes(list(verify_folder(folder, seed=0)))


def test_the_same_import_is_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files = [write_log(tmp_path / "a.tsv"), write_log(tmp_path / "b.tsv", [*ROWS[:2], "40\t5\t5\t0.1\t1\t0", ROWS[3]])]
    first = import_results(files)
    before = (first.folder / "run.json").read_bytes()
    assert import_results(files).folder == first.folder
    assert import_results(files[::-1]).folder == first.folder
    assert (first.folder / "run.json").read_bytes() == before
    assert import_results(files, alpha=0.001).folder != first.folder
    with pytest.raises(UsageError, match="other files or options; choose another --out"):
        import_results(files[:1], out=first.folder)


def test_a_killed_import_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_log(tmp_path / "a.tsv")
    for killed in ("write_atomically", "EvidenceStore"):
        with monkeypatch.context() as patch:
            patch.setattr(
                f"shiftproof.runs.imports.folder.{killed}", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
            )
            with pytest.raises(KeyboardInterrupt):
                import_results(path, out=tmp_path / killed)
        with pytest.raises(UsageError, match="not finished"):
            sp.open_run(tmp_path / killed)
        assert len(import_results(path, out=tmp_path / killed).evidence[0]) == 4
        assert "finished" in read_json(tmp_path / killed / "run.json", DataError)


def test_models_on_one_domain_are_paired_and_a_target_is_unseen(tmp_path: Path) -> None:
    a = write_log(tmp_path / "a.tsv")
    b = write_log(
        tmp_path / "b.tsv", [row.replace("\t1\t2\t", "\t1\t1\t").replace("0.25\t0", "0.25\t1") for row in ROWS]
    )
    run = import_results([a, b], domain="photo,sketch", model="m", target="sketch", out=tmp_path / "run", held_out=True)
    assert (run.record["sources"], run.study.targets) == (["photo"], ("sketch",))
    assert "guarantee-undecided" in codes(run.findings)
    assert "seen-unknown" not in codes(run.findings)
    with pytest.raises(ShiftproofError, match="unknown domain 'phto'"):
        import_results([a, b], domain="photo,sketch", target="phto", out=tmp_path / "other")


def test_models_that_were_measured_on_different_domains(tmp_path: Path) -> None:
    a, b = write_log(tmp_path / "a.tsv"), write_log(tmp_path / "b.tsv", ["0\t9\t9\t0.5\t1\t0"])
    run = import_results([a, b], domain="x,y", out=tmp_path / "run")
    run.export()
    assert [(one.model, one.domain) for one in sp.open_run(run.folder).evidence] == [("a", "x"), ("b", "y")]
    assert run.samples["y"]["seen_in_training"] == {"b": "unknown"}


def test_numbers_of_edits_are_whole(tmp_path: Path) -> None:
    path = write_log(tmp_path / "a.tsv", ["0\t1\t1\t2.000000\t1\t0", "1\t1\t1\t0.000000\t1\t0"])
    series = import_results(path, norm="edits", out=tmp_path / "run").content().series[0]
    # at all, one edit, two, three
    assert series.curve(np.arange(4.0)).tolist() == [1.0, 0.5, 0.5, 0.0]
    assert series.mean_radius() == 1.0


def test_shift_curves_of_a_log_that_says_enough(tmp_path: Path) -> None:
    rows = [f"{i}\t{i % 2}\t{i % 2}\t{0.5 + 0.001 * i:.3f}\t1\t0" for i in range(400)]
    path = write_log(tmp_path / "a.tsv", rows)
    told: dict[str, Any] = {"alpha": 0.001, "held_out": True}
    (around,) = import_results(path, **told, out=tmp_path / "run").content().around
    assert around.refusal == ""
    # nothing is guaranteed beyond the average certified radius
    assert 0 < float(around.at(0.1)) < 1
    assert 0 < around.ends < 0.6995
    scattered = write_log(tmp_path / "b.tsv", [rows[0], rows[3], rows[4]])
    for changes, file, sentence in [
        ({"held_out": False}, path, "may have been trained on"),
        ({"alpha": None}, path, "was not stated"),
        ({}, scattered, "how these samples were chosen is not known"),
    ]:
        (around,) = import_results(file, **told | changes, out=tmp_path / sentence[-5:]).content().around
        assert sentence in around.refusal


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([], "has no rows"),
        (["0\t1\t1\tnan\t1\t0"], "line 2: the radius is nan"),
        (["0\t1\t1\t-0.1\t1\t0"], "line 2: the radius is -0.1"),
        (["0\t1\t2\t0.1\t1\t0"], "correct is 1, but label and predict say not"),
        (["0\t1\t1\t0.1\t1\t0", "0\t1\t1\t0.1\t1\t0"], "sample 0 stands in line 2 already"),
        (["0\t-2\t-2\t0.1\t1\t0"], "the label is -2"),
        (["0\t1\t1\tfar\t1\t0"], "not a row of numbers"),
        (["0\t1"], "not a row of numbers"),
    ],
)
def test_bad_rows(tmp_path: Path, rows: list[str], sentence: str, run: Call) -> None:
    write_log(tmp_path / "log.tsv", rows)
    code, _, error = run("import", tmp_path / "log.tsv", "--out", tmp_path / "run")
    assert code == 1
    assert sentence in error
    assert not (tmp_path / "run").exists()


def test_bad_files(tmp_path: Path) -> None:
    a, other = write_log(tmp_path / "a.tsv"), write_log(tmp_path / "b.tsv", ["0\t9\t9\t0.5\t1\t0"])
    (tmp_path / "empty.tsv").write_text("")
    (tmp_path / "notes.txt").write_text("hello\n")
    (tmp_path / "noise.bin").write_bytes(bytes(range(256)))
    (tmp_path / "folder").mkdir()
    write_log(tmp_path / "folder" / "a.tsv")
    out = tmp_path / "run"
    for files, sentence in [
        ([tmp_path / "none.tsv"], "can't read .*none.tsv"),
        ([tmp_path / "empty.tsv"], "is empty"),
        ([tmp_path / "notes.txt"], "no column idx, label, predict, radius"),
        ([tmp_path / "noise.bin"], "it is not text"),
        ([tmp_path / "folder"], "is a folder; name the files in it"),
        ([a, other], "sample 0 has label 3 in one and 9 in the other"),
        ([a, tmp_path / "folder" / "a.tsv"], "both called 'a' on 'imported'"),
        ([a, a], "both called 'a' on 'imported'"),
        ([], "there is no file to import"),
    ]:
        with pytest.raises(ShiftproofError, match=sentence):
            import_results(files, out=out)
        assert not out.exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"alpha": 1}, "alpha is 1.0"),
        ({"alpha": "many"}, "alpha is 'many'"),
        ({"sigma": "-1"}, "sigma is -1"),
        ({"n": "0"}, "n is 0"),
        ({"norm": "l3"}, "l3"),
        ({"model": "a,b"}, "2 values for 1 files"),
        ({"model": " "}, "name of a model is empty"),
    ],
)
def test_bad_options(tmp_path: Path, options: dict[str, str], sentence: str) -> None:
    with pytest.raises(ShiftproofError, match=sentence):
        import_results(write_log(tmp_path / "a.tsv"), out=tmp_path / "run", **options)  # type: ignore[arg-type]


def test_on_the_command_line(tmp_path: Path, run: Call) -> None:
    path, out = write_log(tmp_path / "a.tsv"), tmp_path / "run"
    code, shown, _ = run("import", path, "--domain", "cifar10", "--out", out)
    assert code == 0
    assert "can't be checked" in shown
    assert str(out) in shown
    _, shown, _ = run("import", path, "--domain", "cifar10", "--out", out, "--json")
    told = json.loads(shown.splitlines()[-1])
    assert told["certified"][0]["imported"] is True
    assert told["certified"][0]["accuracy"] == 0.5
    options = ["--sigma", "0.25", "--n", "1000", "--alpha", "0.001"]
    code, shown, _ = run("import", path, *options, "--out", tmp_path / "other")
    assert code == 2
    assert "is more than 1,000 votes at sigma 0.25 and alpha 0.001 can certify" in shown
