"""Probes asked of a model whose BatchNorm is adapted: what they say is what the copy says, and nobody takes it for the
model's own."""

from pathlib import Path

import numpy as np
import pytest
import torch

import shiftproof as sp
from shiftproof.errors import ShiftproofError, UsageError
from shiftproof.evidence import EvidenceStore
from shiftproof.models.adaptation import adapt_batchnorm
from shiftproof.perturbations.corruptions import corrupt
from shiftproof.probes import PROBES, run_probe
from shiftproof.probes.adapted import Adapted

DIGITS = sp.load_domains("digits")["digits"]
IMAGES = sp.certifiers.Calibration.of(DIGITS.subset(np.arange(100, 160)))


@pytest.fixture(scope="module")
def model() -> torch.nn.Module:
    fit = sp.train(sp.build_model("cnn", DIGITS, width=4), DIGITS, sp.objectives.ERM(), recipe={"steps": 30})
    return fit.model.eval()


def by_hand(model: torch.nn.Module, noise: float) -> torch.nn.Module:
    return adapt_batchnorm(model, IMAGES.inputs, noise)


def test_clean_and_corrupted_answers_are_those_of_the_copy(model: torch.nn.Module, tmp_path: Path) -> None:
    some, store = DIGITS.subset(np.arange(40)), EvidenceStore(tmp_path)
    inputs, _ = some.tensors()
    copy = by_hand(model, 0.5)
    (clean,) = run_probe(Adapted("gaussian:0.5", "clean", IMAGES), model, some, store, progress="off")
    assert np.array_equal(clean["prediction"], copy(inputs).argmax(1).numpy())
    assert not np.array_equal(clean["prediction"], model(inputs).argmax(1).numpy())
    asked = {"name": "corrupt", "corruptions": "fog", "severities": [2, 5]}
    corrupted = run_probe(Adapted("gaussian:0.5", asked, IMAGES), model, some, store, progress="off")
    for one, severity in zip(corrupted, (2, 5), strict=True):
        changed = corrupt(inputs, "fog", severity, seed=0, ids=[str(i) for i in some.ids])
        assert np.array_equal(one["prediction"], copy(changed).argmax(1).numpy())
        assert one.title == f"fog {severity}, adapted to gaussian 0.5"
        assert (one.probe, one.classifier, one.fact("adapted_to")) == ("adapted", "adapted", "gaussian 0.5")
    assert len({one.setting for one in corrupted}) == 2


def test_attacks_are_on_the_copy(model: torch.nn.Module, tmp_path: Path) -> None:
    some, attack = DIGITS.subset(np.arange(20)), {"name": "pgd", "threat": "l2:0.5", "steps": 5}
    asked = {"name": "attack", "attack": attack}
    (found,) = run_probe(Adapted("gaussian:0.5", asked, IMAGES), model, some, EvidenceStore(tmp_path), progress="off")
    by_itself = sp.attack(by_hand(model, 0.5), some, sp.attacks.PGD("l2:0.5", steps=5), seed=0, progress="off")
    assert np.array_equal(found["prediction"], by_itself.predictions)
    assert found["distance"] == pytest.approx(by_itself.distance)


def test_a_study_keeps_both_models_apart(tmp_path: Path) -> None:
    study = tmp_path / "study.yaml"
    study.write_text(
        """
data: rotated-digits
target: angle=75
limit: 30
models: {small: {model: {name: cnn, width: 4}, training: {steps: 20, batch: 32}}}
probes:
  - clean
  - {name: adapted, noise: "uniform:0.5", calibration: 40}
  - {name: adapted, noise: "gaussian:0.5", calibration: 40, probe: {name: corrupt, corruptions: fog, severities: [3]}}
"""
    )
    run = sp.run_study(str(study), out=tmp_path / "run")
    clean = run.evidence.where(probe="clean", domain="angle=75")
    assert len(clean) == 1
    page = run.report(tmp_path / "report.html").read_text()
    for words in ("clean, adapted to uniform 0.5", "fog 3, adapted to gaussian 0.5"):
        assert words in page
    # what the overview shows as clean is the model itself
    assert run.evidence.where(probe="adapted", domain="angle=75")[0]["prediction"].shape == (30,)
    assert clean[0].classifier == "base"


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="adapted-smoothing"):
        PROBES.make({"name": "adapted", "noise": "gaussian:0.5", "probe": "certify"})
    with pytest.raises(ShiftproofError, match="noise on images"):
        Adapted("word-deletion:0.5")
    flat = sp.build_model("mlp", DIGITS).eval()
    with pytest.raises(ShiftproofError, match="no BatchNorm"):
        Adapted("gaussian:0.5", "clean", IMAGES).check(flat, DIGITS.subset([1, 2]), None)
    deep = sp.build_model("cnn", DIGITS, width=4).eval()
    with pytest.raises(UsageError, match="among the calibration images"):
        Adapted("gaussian:0.5", "clean", IMAGES).check(deep, DIGITS.subset([1, 110]), None)
