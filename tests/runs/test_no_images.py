"""Reports without samples: no pixel, no text, no id, and in no report a path of the machine."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from toys import two_classes

import shiftproof as sp
from shiftproof.domains.texts import text_domain
from shiftproof.models.files import save_model
from shiftproof.report.gallery.files import read_gallery
from shiftproof.report.privacy import SampleNames, short_source
from shiftproof.runs import Run, open_run
from shiftproof.types import Finding

Shell = Callable[..., tuple[int, str, str]]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A model in a file, below a folder with a name that nobody should see."""
    path = tmp_path / "jane-doe" / "model.safetensors"
    path.parent.mkdir()
    save_model(two_classes(), path, {})
    return path


@pytest.fixture
def hospital(tmp_path: Path, images: Callable[..., Path]) -> Path:
    """Images of two clinics, one of them twice, with patients in their names."""
    root = images(root="jane-doe-data", count=6)
    for path in root.rglob("*.png"):
        path.rename(path.with_name(f"patient-{path.parent.parent.name[-1]}{path.parent.name}{path.stem}.png"))
    twice = next(root.glob("clinic-a/cat/*.png"))
    Image.open(twice).save(root / "clinic-b" / "cat" / "patient-copied.png")
    return root


def texts_in(folder: Path) -> dict[str, str]:
    """All that a report writes for others to read."""
    names = ["report.html", "report.json", "tables/*", "figures/*.svg", "logs/*"]
    return {path.name: path.read_text() for name in names for path in folder.glob(name)}


def attacked(run: Shell, hospital: Path, saved: Path, out: Path, *more: str) -> dict[str, str]:
    model = ["--model", f"file:{saved}", "--architecture", "python:toys:two_classes"]
    asked = ["--threat", "l2:0.5", "--steps", "2", "--out", out, *more]
    code, _, said = run("attack", "--data", f"folder:{hospital}", *model, *asked)
    assert code == 0, said
    return texts_in(out)


def test_a_page_with_samples_shows_them_but_no_path(run: Shell, hospital: Path, saved: Path, tmp_path: Path) -> None:
    written = attacked(run, hospital, saved, tmp_path / "run")
    page = written["report.html"]
    assert page.count("data:image/png;base64,") > 20
    assert "patient-" in page
    assert "folder:jane-doe-data" in page
    for name, text in written.items():
        assert str(tmp_path) not in text, name


def test_without_images_nothing_of_a_sample_is_in_what_is_written(
    run: Shell, hospital: Path, saved: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    written = attacked(run, hospital, saved, out, "--no-images")
    for name, text in written.items():
        assert "base64" not in text, name
        assert "patient-" not in text, name
        assert str(tmp_path) not in text, name
    assert not list(out.glob("figures/samples-*"))
    for path in out.glob("figures/gallery-*"):
        assert all(not sample.versions for sample in read_gallery(path).samples)
    # who has the folder finds a sample by its hash
    key = json.loads((out / "run.json").read_text())["id_key"]
    shown = json.loads(written["report.json"])["sections"]["gallery"]["samples"]["clinic-a"]
    ids = open_run(out).evidence.where(domain="clinic-a")[0]["id"].tolist()
    assert {one["id"] for one in shown} <= {SampleNames(True, key).of(sample) for sample in ids}
    # and the same command without it draws them
    again = attacked(run, hospital, saved, out)
    assert "data:image/png;base64," in again["report.html"]
    assert list(out.glob("figures/samples-*"))
    # a page of such a run can be written without them, too
    code, _, _ = run("report", out, "--no-images", "--out", tmp_path / "shared")
    assert code == 0
    for name, text in texts_in(tmp_path / "shared").items():
        assert "patient-" not in text, name
        assert "base64" not in text, name
    # back to none: what was drawn does not stay
    attacked(run, hospital, saved, out, "--no-images")
    assert not list(out.glob("figures/samples-*"))


def test_two_runs_call_a_sample_differently(run: Shell, hospital: Path, saved: Path, tmp_path: Path) -> None:
    pages = [attacked(run, hospital, saved, tmp_path / name, "--no-images")["report.json"] for name in ("one", "two")]
    names = [{one["id"] for one in json.loads(page)["sections"]["gallery"]["samples"]["clinic-a"]} for page in pages]
    assert len(names[0]) == len(names[1]) == 12
    assert not names[0] & names[1]


def test_texts_stay_out(tmp_path: Path) -> None:
    from shiftproof.models import build_model

    words = [f"secret{i} lovely place" if i % 2 else f"secret{i} awful place" for i in range(8)]
    domain = text_domain("shop", words, [i % 2 for i in range(8)], ["negative", "positive"], width=64)
    model = build_model("text-cnn", domain, seed=0)
    options: dict[str, Any] = {"threats": "edits:1", "certifiers": [], "corruptions": ["typos"], "severities": [3]}
    options |= {"seed": 0, "progress": "off", "out": tmp_path / "run"}
    made: Run = sp.audit(model, domain, images=False, **options)
    made.export()
    for name, text in texts_in(made.folder).items():
        assert "secret" not in text, name
    assert not any("secret" in path.read_text() for path in made.folder.glob("figures/*.json"))
    shown = sp.audit(model, domain, **options)
    page = shown.report().read_text()
    assert all(f"secret{i}" in page for i in range(8))
    assert "secret" not in shown.report(tmp_path / "private.html", images=False).read_text()


def test_a_hash_needs_its_key() -> None:
    named = SampleNames(True, "a" * 32)
    assert named.of("ward/1.png") == named.of("ward/1.png") != SampleNames(True, "b" * 32).of("ward/1.png")
    assert SampleNames(True).of("ward/1.png") == "(left out)"
    assert SampleNames().of("ward/1.png") == "ward/1.png"


def test_findings_quote_no_sample() -> None:
    told = {"names": ["ward/1.png", "ward/11.png", "7"]}
    one = Finding("fail", "duplicates", "17 identical images: ward/1.png = ward/11.png, 7 = x", told)
    hidden = SampleNames(True, "k").finding(one)
    assert "ward" not in hidden.message
    assert hidden.message.startswith("17 identical images: #")
    assert not hidden.evidence
    assert SampleNames().finding(one) is one
    # a run of before says not which words are names
    old = Finding("warn", "shared-groups", "2 groups are in both: jane, joe")
    assert "jane" not in SampleNames(True, "k").finding(old).message
    other = Finding("warn", "no-target", "there is no target")
    assert SampleNames(True, "k").finding(other) is other


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("folder:/home/jane/images", "folder:images"),
        ("table:/home/jane/a b/reviews.csv", "table:reviews.csv"),
        ("file:C:\\Users\\jane\\model.safetensors", "file:model.safetensors"),
        ("hf:bert-base", "hf:bert-base"),
        ("python:pkg.mod:fn", "python:pkg.mod:fn"),
        ("pacs", "pacs"),
    ],
)
def test_paths_are_shortened(name: str, short: str) -> None:
    assert short_source(name) == short


def test_logs_count_samples_where_ids_are_numbers(tmp_path: Path) -> None:
    from shiftproof.runs.log_files import certificate_logs

    inputs = np.random.default_rng(0).random((6, 3, 8, 8)).astype(np.float32)
    domain = sp.Domain.from_arrays("a", inputs, [0, 1] * 3, ["x", "y"], ids=[str(90_000 + i) for i in range(6)])
    smoothing = [sp.certifiers.RandomizedSmoothing(sp.noise.Gaussian(0.25), n=100)]
    options: dict[str, Any] = {"threats": [], "corruptions": "none", "seed": 0, "progress": "off"}
    made: Run = sp.audit(two_classes(), domain, certifiers=smoothing, out=tmp_path / "run", **options)
    for named, first in ((True, "90000"), (False, "0")):
        (log,) = dict(certificate_logs(made.evidence, named=named)).values()
        rows = list(csv.DictReader(log.decode().splitlines(), delimiter="\t"))
        assert rows[0]["idx"] == first
        assert len(rows) == 6
