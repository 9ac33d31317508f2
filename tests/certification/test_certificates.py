"""Certificates as files, logs, metrics and costs."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import needs_data
from smoothed import dense, digits, job_of, smoothing
from torch import nn

import shiftproof as sp
from shiftproof.certification.sampling.bank import Block, blocks
from shiftproof.certification.sampling.stopping import Full
from shiftproof.errors import DataError, UsageError

# files


def test_certificates_survive_a_file(model: nn.Module, tmp_path: Path) -> None:
    certificates = sp.certify(model, digits(6), smoothing(n=300, stop="within:0.8", skip_wrong=True), seed=0)
    certificates.save(tmp_path / "c.parquet")
    again = sp.Certificates.load(tmp_path / "c.parquet")
    for name in ("ids", "prediction", "radius", "skipped", "count", "n", "p_lower", "p_upper", "bound", "off_grid"):
        assert np.array_equal(getattr(again, name), getattr(certificates, name)), name
    assert (again.noise, again.levels, again.guarantee) == (
        certificates.noise,
        certificates.levels,
        certificates.guarantee,
    )
    (tmp_path / "bad.parquet").write_text("no")
    with pytest.raises(DataError, match="does not hold certificates"):
        sp.Certificates.load(tmp_path / "bad.parquet")


def test_a_log_never_rounds_up(model: nn.Module, tmp_path: Path) -> None:
    domain = digits(12)
    certificates = sp.certify(model, domain, smoothing(n=300), seed=0)
    certificates.to_log(tmp_path / "log.tsv", domain.labels)
    again = sp.Certificates.from_log(tmp_path / "log.tsv")
    assert np.array_equal(again.prediction, certificates.prediction)
    assert (again.radius <= certificates.radius).all()
    assert (certificates.radius - again.radius < 1.1e-6).all()
    with pytest.raises(UsageError, match="only the votes"):
        again.at_alpha(0.1)
    with pytest.raises(UsageError, match="12 certificates but 3 labels"):
        certificates.to_log(tmp_path / "log.tsv", [0, 1, 2])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("idx\tlabel\tpredict\n0\t1\t1\n", "no column radius"),
        ("idx\tlabel\tpredict\tradius\tcorrect\ttime\n", "no rows"),
        ("idx\tlabel\tpredict\tradius\tcorrect\ttime\n0\t1\t1\tfar\t1\t0\n", "line 2: not a row of numbers"),
        ("idx\tlabel\tpredict\tradius\tcorrect\ttime\n0\t1\t2\t0.5\t1\t0\n", "correct is 1, but"),
        ("idx\tlabel\tpredict\tradius\tcorrect\ttime\n0\t1\t1\tnan\t1\t0\n", "the radius is nan"),
        ("idx\tlabel\tpredict\tradius\tcorrect\ttime\n0\t1\t1\t-1\t1\t0\n", "the radius is -1"),
    ],
)
def test_logs_that_are_none(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "log.tsv").write_text(text)
    with pytest.raises(DataError, match=sentence):
        sp.Certificates.from_log(tmp_path / "log.tsv")
    with pytest.raises(DataError, match="can't read"):
        sp.Certificates.from_log(tmp_path / "none.tsv")


LOGS = Path(os.environ.get("SHIFTPROOF_DATA", "")).parent / "reference-logs"


@pytest.mark.skipif(not LOGS.is_dir(), reason="the published logs are not beside SHIFTPROOF_DATA")
@pytest.mark.parametrize(
    ("name", "acr"),
    [
        ("cohen_cifar10_sigma_0.50", 0.5375),
        ("smoothadv_cifar10_sigma_0.25", 0.5781),
        ("gaussian_mnist_sigma_0.50", 1.5569),
    ],
)
def test_published_logs_have_their_average_radius(name: str, acr: float) -> None:
    log = sp.Certificates.from_log(LOGS / f"{name}.tsv")
    labels = log.details["labels"]
    assert sp.metrics.average_certified_radius(log, labels) == pytest.approx(acr, abs=5e-5)
    at = sp.metrics.certified_accuracy(log, labels, [0, 0.25, 0.5, 1.0])
    assert at.shape == (4,)
    assert (np.diff(at) <= 0).all()


# metrics


def made_up(radius: np.ndarray, right: np.ndarray) -> tuple[sp.Certificates, np.ndarray]:
    """Certificates with given radii, on labels of which some are met."""
    n = len(radius)
    certificates = replace(
        sp.certify(dense(), (torch.rand(n, 1, 8, 8), torch.zeros(n, dtype=torch.long)), smoothing(n=1, n0=1), seed=0),
        radius=radius,
        prediction=np.where(right, 0, 1),
    )
    return certificates, np.zeros(n, np.int64)


def test_the_average_radius_is_the_area_under_the_curve() -> None:
    generator = np.random.default_rng(0)
    certificates, labels = made_up(generator.uniform(0, 1, 400), generator.random(400) < 0.7)
    grid = np.linspace(0, 1, 2_001)
    area = np.trapezoid(sp.metrics.certified_accuracy(certificates, labels, grid), grid)
    acr = sp.metrics.average_certified_radius(certificates, labels)
    assert acr == pytest.approx(area, abs=1e-3)
    correct = sp.metrics.average_certified_radius(certificates, labels, over="correct")
    accuracy = float(sp.metrics.certified_accuracy(certificates, labels, 0))
    assert correct == pytest.approx(acr / accuracy)
    estimate = sp.metrics.radius_interval(certificates, labels)
    assert estimate.low < acr < estimate.high
    assert estimate.value == pytest.approx(acr)
    at = sp.metrics.certified_interval(certificates, labels, 0.5)
    assert at.low < at.value < at.high
    assert sp.metrics.radius_difference(certificates, certificates, labels).high == pytest.approx(0)


def test_what_is_skipped_changes_certified_accuracy_by_nothing(model: nn.Module) -> None:
    domain = digits(30)
    all_of_them = sp.certify(model, domain, smoothing(n=400), seed=0)
    skipping = sp.certify(model, domain, smoothing(n=400, skip_wrong=True), seed=0)
    radii = [0, 0.1, 0.2, 0.3]
    for one in (sp.metrics.certified_accuracy, sp.metrics.average_certified_radius):
        arguments = (radii,) if one is sp.metrics.certified_accuracy else ()
        assert np.array_equal(one(all_of_them, domain.labels, *arguments), one(skipping, domain.labels, *arguments))
    assert skipping.skipped.any()
    assert skipping.passes < all_of_them.passes
    assert (skipping.prediction[skipping.skipped] >= 0).all()
    assert sp.metrics.abstention_rate(skipping) is None
    assert sp.metrics.abstention_rate(all_of_them) is not None


def test_curves_and_their_band() -> None:
    assert sp.metrics.curve_band(1_000) == pytest.approx(0.04295, abs=1e-4)
    best = sp.metrics.envelope([[0.9, 0.2], [0.5, 0.4]])
    assert best.tolist() == [0.9, 0.4]
    with pytest.raises(UsageError):
        sp.metrics.envelope([])
    certificates, labels = made_up(np.array([0.5, 0.5]), np.array([True, False]))
    assert sp.metrics.certified_accuracy(certificates, labels, [0, 0.5, 0.50001]).tolist() == [0.5, 0.5, 0.0]
    with pytest.raises(UsageError):
        sp.metrics.certified_accuracy(certificates, labels, [-1])


# cost


def test_fewer_passes_for_the_same_answer(model: nn.Module) -> None:
    domain = digits(30)
    radii = [0, 0.1, 0.2]
    full = sp.certify(model, domain, smoothing(n=5_000), seed=0)
    fewer = sp.certify(model, domain, smoothing(n=5_000, stop=sp.certifiers.Radii(radii), skip_wrong=True), seed=0)
    assert fewer.passes < full.passes / 1.3
    at = [sp.metrics.certified_accuracy(one, domain.labels, radii) for one in (full, fewer)]
    assert np.abs(at[0] - at[1]).max() <= 0.04
    assert fewer.stops_early


@pytest.mark.parametrize("stop", ["full", "radii:0,0.1,0.2", "within:0.9"])
def test_an_estimate_of_passes_is_near(model: nn.Module, stop: str) -> None:
    from shiftproof.certification.sampling.estimate import estimate_sampling

    domain = digits(40)
    setting = smoothing(n=5_000, stop=stop)
    cost = estimate_sampling(job_of(model, domain), setting)
    spent = sp.certify(model, domain, setting, seed=0).passes
    assert cost.passes == pytest.approx(spent, rel=0.5 if stop != "full" else 0)
    assert cost.most_passes == 40 * 5_100
    assert cost.seconds > 0


def test_the_stop_rule_is_part_of_the_record(model: nn.Module) -> None:
    certificates = sp.certify(model, digits(2), smoothing(n=200, stop="within:0.9"), seed=0)
    assert json.dumps(dict(certificates.details))
    assert certificates.details["stop"] == "within:0.9"
    assert certificates.details["prepared"].startswith("f32, 4 BatchNorm folded")
    assert smoothing().stop == Full()
    assert Block(0, 0, 128) == next(iter(blocks(10, 1)))


@pytest.mark.slow
@needs_data
def test_the_same_table_for_fewer_passes_on_mnist() -> None:
    """An mlp trained on noise, sigma 0.5, n = 100,000, 1,000 test images; minutes."""
    torch.set_num_threads(2)
    mnist = sp.load_domains("mnist")
    fit = sp.train(sp.build_model("mlp", mnist), mnist, sp.objectives.Gaussian(0.5))
    domain = sp.held_out(mnist["mnist"]).subset(np.arange(0, 10_000, 10))
    radii = [0, 0.25, 0.5, 0.75, 1.0]
    full = smoothing(noise="gaussian:0.5", n=100_000)
    stopping = replace(full, stop=sp.certifiers.Radii(radii), skip_wrong=True)
    one, other = (sp.certify(fit.model, domain, setting, workers=2, seed=0) for setting in (full, stopping))
    at = [sp.metrics.certified_accuracy(certificates, domain.labels, radii) for certificates in (one, other)]
    print(f"passes {one.passes:,} and {other.passes:,}: {one.passes / other.passes:.1f} times; {at[0]} and {at[1]}")  # noqa: T201
    assert one.passes >= 1.3 * other.passes
    assert np.abs(at[0] - at[1]).max() <= 0.002
