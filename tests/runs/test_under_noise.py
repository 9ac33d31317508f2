"""A study under noise: tables that follow from Parquet, and pictures of loss gradients as autograd gives them."""

import csv
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

import shiftproof as sp
from shiftproof.certification.calibration import calibration_images
from shiftproof.models.adaptation import adapt_batchnorm
from shiftproof.probes import PROBES, Probe
from shiftproof.report.gallery.gradients import GAP, HEAD, MARGIN, gradient_path, gradient_picture, tile_side
from shiftproof.report.page import render_page
from shiftproof.rng import numpy_generator
from shiftproof.runs import Run, open_run
from shiftproof.runs.gallery.gradients import largest_adaptation, loss_gradients

STUDY = """
data: rotated-digits
source: [angle=0]
target: angle=75
limit: 40
prefix: 30
models:
  small: {model: {name: cnn, width: 4}, training: {steps: 60, batch: 32}}
probes:
  - clean
  - {name: noisy, noise: "gaussian:0.25", draws: 3}
  - {name: noisy, noise: "gaussian:0.5", adapted: true, calibration: 40, draws: 2}
  - {name: noisy, noise: "gaussian:0.5", adapted: true, calibration: 40, draws: 2, momentum: 0.5}
"""
SIDE = tile_side((1, 8, 8))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, brief_examinations: None) -> Run:
    folder = tmp_path_factory.mktemp("study")
    (folder / "study.yaml").write_text(STUDY)
    return sp.run_study(str(folder / "study.yaml"), out=folder / "run")


def probes(*texts: dict[str, object]) -> list[Probe]:
    return [PROBES.make(one) for one in texts]


def test_tables_follow_from_parquet(run: Run) -> None:
    run.export(["csv"])
    with (run.folder / "tables" / "under-noise.csv").open() as file:
        records = list(csv.DictReader(file))
    # without noise, at 0.25 as trained and at 0.5 adapted, on two domains
    assert len(records) == 6
    found = set()
    for path in (run.folder / "evidence").rglob("noisy-*.parquet"):
        rows = pq.read_table(path).to_pydict()
        answers = np.stack([rows[name] for name in rows if name.startswith("prediction")])
        right = answers == np.array(rows["label"])
        two_sd = 2 * right.mean(1).std(ddof=1)
        found.add((len(right), round(float(right.mean()), 9), round(float(two_sd), 9), right.shape[1]))
    shown = {
        (int(one["draws"]), round(float(one["value"]), 9), round(float(one["two_sd"]), 9), int(one["n"]))
        for one in records
        if one["draws"] != "0"
    }
    assert len(shown) >= 2
    assert shown <= found
    # without noise, on the samples that have it
    clean = run.evidence.where(probe="clean", domain="angle=75")[0]
    few = run.evidence.where(probe="noisy", domain="angle=75")[0]["id"].tolist()
    (still,) = (one for one in records if one["draws"] == "0" and one["domain"] == "angle=75")
    right = dict(zip(clean["id"].tolist(), clean["correct"].tolist(), strict=True))
    assert (float(still["value"]), int(still["n"])) == (pytest.approx(np.mean([right[one] for one in few])), 40)
    with (run.folder / "tables" / "under-noise-by-momentum.csv").open() as file:
        assert sorted({one["momentum"] for one in csv.DictReader(file)}) == ["0.5", "1.0"]


def test_what_has_a_section_is_not_shown_twice(run: Run) -> None:
    content = run.content()
    assert "probe-accuracy" not in content.sections
    page = render_page(content)
    assert "Under noise, with BatchNorm as trained and adapted" in page
    assert "2 standard deviations" in page
    assert content.probe_tables[0].title == "under noise, gaussian 0.25"


def test_the_terminal_says_what_the_report_says(run: Run) -> None:
    """The mean over all draws, not the first of them."""
    content = run.content()
    with_draws = [one for one in run.evidence.where(probe="noisy", domain="angle=75") if "prediction_2" in one]
    assert with_draws
    for one in with_draws:
        columns = ["prediction", *(f"prediction_{k}" for k in range(2, 9) if f"prediction_{k}" in one)]
        (table,) = (shown.table for shown in content.probe_tables if shown.title == one.title)
        mean = np.mean([one[name] == one["label"] for name in columns])
        assert table.rows[0].accuracy["angle=75"].value == pytest.approx(mean)


def test_gradients_are_those_of_the_models(run: Run) -> None:
    path = gradient_path(run.folder, "angle=75")
    pixels = np.asarray(Image.open(path).convert("L"))
    assert pixels.shape == (HEAD + SIDE, MARGIN + 10 * SIDE + 8 * GAP + 1 * 4 * GAP)
    model = sp.load_model(f"file:{run.folder / 'models' / 'small.safetensors'}").eval()
    data = sp.load_domains("rotated-digits")
    shown = run.content().galleries["angle=75"].samples[:2]
    ids = [one.id for one in shown]
    domain = data["angle=75"]
    inputs, labels = domain.subset([domain.ids.tolist().index(one) for one in ids]).tensors()
    noise = [numpy_generator(0, "gradient picture", one).standard_normal(64) for one in ids]
    noisy = inputs + torch.from_numpy(np.stack(noise) * 0.5).float().reshape(inputs.shape)
    for place, some in enumerate((inputs, noisy), 1):
        moved = some.clone().requires_grad_()
        torch.nn.functional.cross_entropy(model(moved), labels, reduction="sum").backward()
        assert moved.grad is not None
        for sample, gradient in enumerate(moved.grad.numpy()):
            left = MARGIN + (5 * sample + place) * (SIDE + GAP) + sample * 3 * GAP
            tile = pixels[HEAD : HEAD + SIDE, left : left + SIDE][SIDE // 16 :: SIDE // 8, SIDE // 16 :: SIDE // 8]
            full = np.quantile(np.abs(gradient[0]), 0.99)
            expected = 255 * (0.5 + 0.5 * np.clip(gradient[0] / full, -1, 1))
            assert np.abs(tile - expected).max() <= 2
            assert tile.std() > 5


def test_adapted_gradients_are_those_of_the_copy() -> None:
    digits = sp.load_domains("digits")["digits"]
    model = sp.build_model("cnn", digits, width=4).eval()
    inputs, labels = digits.subset([3, 5]).tensors()
    copy = adapt_batchnorm(model, calibration_images(20, digits).inputs, 0.5)
    own, other = (loss_gradients(one, inputs, labels) for one in (model, copy))
    assert not torch.allclose(own, other)
    for sample in range(2):
        moved = inputs[sample : sample + 1].clone().requires_grad_()
        torch.nn.functional.cross_entropy(copy(moved), labels[sample : sample + 1]).backward()
        assert moved.grad is not None
        assert torch.allclose(moved.grad[0], other[sample], atol=1e-5)
    # what was asked leaves no trace in the model
    assert all(one.grad is None and one.requires_grad for one in model.parameters())


def test_pictures_are_drawn_once_and_left_out_where_nobody_wants_samples(run: Run, tmp_path: Path) -> None:
    path = gradient_path(run.folder, "angle=75")
    assert "gradients on angle=75" in run.report(tmp_path / "with.html").read_text()
    private = run.report(tmp_path / "without.html", images=False).read_text()
    assert "gradients on" not in private
    assert "base64" not in private
    drawn, kept = path.read_bytes(), path.stat().st_mtime_ns
    study = str(run.folder.parent / "study.yaml")
    sp.run_study(study, out=run.folder)
    assert path.stat().st_mtime_ns == kept
    path.unlink()
    sp.run_study(study, out=run.folder)
    assert path.read_bytes() == drawn
    sp.run_study(study, out=run.folder, images=False)
    assert not path.exists()
    assert not open_run(run.folder).content().gradients
    sp.run_study(study, out=run.folder)
    assert path.read_bytes() == drawn


def test_the_largest_noise_that_is_adapted_to() -> None:
    plain = {"name": "noisy", "noise": "gaussian:2"}
    assert largest_adaptation(probes({"name": "clean"}, plain)) is None
    votes = {"name": "certify", "certifier": {"name": "adapted-smoothing", "sigmas": [0.25, 0.75], "calibration": 64}}
    swept = [{"name": "noisy", "noise": "gaussian:0.75", "adapted": True, "momentum": one} for one in (0.0, 1.0, 0.5)]
    copy = {"name": "adapted", "noise": "gaussian:0.5"}
    chosen = largest_adaptation(probes(plain, copy, votes, *swept))
    assert chosen is not None
    assert (chosen.noise.scale, chosen.momentum, chosen.calibration) == (0.75, 1.0, 512)


def test_pictures_of_gradients_are_scaled_around_gray() -> None:
    assert (gradient_picture(np.zeros((1, 4, 4))) == 0.5).all()
    gradient = np.linspace(-1, 1, 201).reshape(1, 1, 201)
    shown = gradient_picture(gradient)
    assert (shown.min(), shown.max(), shown[0, 0, 100]) == (0.0, 1.0, 0.5)
    assert np.array_equal(gradient_picture(5 * gradient).round(9), shown.round(9))
    assert (tile_side((1, 8, 8)), tile_side((3, 32, 32)), tile_side((3, 224, 224))) == (96, 96, 96)
    assert tile_side((1, 28, 28)) == 84
