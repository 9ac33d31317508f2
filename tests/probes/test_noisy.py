"""Predictions under noise: one draw as ever, further ones beside it, each keyed by the sample's id alone."""

from pathlib import Path

import numpy as np
import pytest
import torch

import shiftproof as sp
from shiftproof.domains import Domain
from shiftproof.errors import UsageError
from shiftproof.evidence import EvidenceStore, Measurement
from shiftproof.execution import HERE
from shiftproof.models.adaptation import adapt_batchnorm
from shiftproof.probes import PROBES, run_probe
from shiftproof.probes.noisy import Noisy
from shiftproof.rng import numpy_generator

DIGITS = sp.load_domains("digits")["digits"]
SOME = DIGITS.subset(np.arange(40))
IMAGES = sp.certifiers.Calibration.of(DIGITS.subset(np.arange(100, 160)))
SIGMA, SEED = 0.4, 7


@pytest.fixture(scope="module")
def model() -> torch.nn.Module:
    fit = sp.train(sp.build_model("cnn", DIGITS, width=4), DIGITS, sp.objectives.ERM(), recipe={"steps": 60})
    return fit.model.eval()


def measured(probe: Noisy, model: torch.nn.Module, domain: Domain, folder: Path) -> Measurement:
    (found,) = run_probe(probe, model, domain, EvidenceStore(folder), seed=SEED, progress="off")
    return found


def by_hand(model: torch.nn.Module, domain: Domain, *key: int) -> np.ndarray:
    """Answers to standard normal numbers times sigma, as the generator of each id gives them."""
    inputs, _ = domain.tensors()
    shape = inputs.shape[1:]
    noise = [numpy_generator(SEED, "noisy", str(one), *key).standard_normal(shape.numel()) for one in domain.ids]
    with torch.no_grad():
        moved = inputs + torch.from_numpy(np.stack(noise) * SIGMA).float().reshape(inputs.shape)
        return model(moved).argmax(1).numpy()


def test_the_first_draw_is_that_of_a_single_one(model: torch.nn.Module, tmp_path: Path) -> None:
    alone = measured(Noisy("gaussian:0.4"), model, SOME, tmp_path / "1")
    three = measured(Noisy("gaussian:0.4", draws=3), model, SOME, tmp_path / "3")
    assert np.array_equal(alone["prediction"], by_hand(model, SOME))
    assert np.array_equal(three["prediction"], alone["prediction"])
    assert "prediction_2" not in alone
    for k in (2, 3):
        assert np.array_equal(three[f"prediction_{k}"], by_hand(model, SOME, k))
    assert (three["prediction_2"] != three["prediction"]).any()
    assert (three["prediction_2"] != three["prediction_3"]).any()
    assert np.array_equal(three["correct"], three["prediction"] == SOME.labels)


def test_draws_depend_on_the_sample_and_on_nothing_beside_it(model: torch.nn.Module, tmp_path: Path) -> None:
    probe, order = Noisy("gaussian:0.4", draws=2), np.random.default_rng(0).permutation(40)[:25]
    whole = measured(probe, model, SOME, tmp_path / "whole")
    few = measured(probe, model, SOME.subset(order), tmp_path / "few")
    for name in ("prediction", "prediction_2"):
        assert np.array_equal(few[name], whole[name][order])


def test_draws_of_the_adapted_copy_are_the_same(model: torch.nn.Module, tmp_path: Path) -> None:
    probe = Noisy("gaussian:0.4", adapted=True, calibration=IMAGES, draws=2)
    found = measured(probe, model, SOME, tmp_path)
    copy = adapt_batchnorm(model, IMAGES.inputs, SIGMA)
    assert np.array_equal(found["prediction"], by_hand(copy, SOME))
    assert np.array_equal(found["prediction_2"], by_hand(copy, SOME, 2))
    assert found.fact("calibration_images") == 60


def test_what_was_asked_stands_beside_the_answers(model: torch.nn.Module, tmp_path: Path) -> None:
    probe = Noisy("gaussian:0.4", draws=2)
    asked = measured(probe, model, SOME, tmp_path).fact("asked")
    assert asked["noise"] == {"name": "gaussian", "sigma": 0.4}
    assert PROBES.make(asked) == probe
    given = sp.certifiers.Calibration.of(DIGITS.subset(np.arange(100, 160)))
    copied = PROBES.make({"name": "adapted", "noise": "gaussian:0.4", "calibration": given})
    (found,) = run_probe(copied, model, SOME, EvidenceStore(tmp_path), progress="off")
    assert found.fact("asked")["probe"] == {"name": "clean"}
    assert found.fact("asked")["momentum"] == 1.0


def test_draws_count_in_what_it_costs(model: torch.nn.Module) -> None:
    one, five = Noisy("gaussian:0.4"), Noisy("gaussian:0.4", draws=5)
    assert (one.passes(model), five.passes(model)) == (1, 5)
    assert five.cost(model, SOME, HERE).passes == 5 * one.cost(model, SOME, HERE).passes == 5 * 40


def test_names_tell_settings_apart() -> None:
    # what was measured before there were draws is found under this name
    assert repr(Noisy("gaussian:0.4")) == (
        "Noisy(noise=Gaussian(sigma=0.4), adapted=False, calibration=512, momentum=1.0)"
    )
    assert repr(Noisy("gaussian:0.4", draws=2)).endswith("momentum=1.0, draws=2)")
    assert Noisy("gaussian:0.4", adapted=True).title == "under noise, gaussian 0.4, adapted"
    other = Noisy("gaussian:0.4", adapted=True, momentum=0.5, calibration=64)
    assert other.title == "under noise, gaussian 0.4, adapted, momentum 0.5, 64 images"
    with pytest.raises(sp.errors.UsageError, match="draws"):
        Noisy("gaussian:0.4", draws=0)


def test_what_only_adaptation_uses_is_refused_without_it() -> None:
    with pytest.raises(UsageError, match="momentum and calibration of noisy are for adapted: true"):
        Noisy("gaussian:0.25", momentum=0.5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="momentum and calibration"):
        Noisy("gaussian:0.25", calibration=64)  # type: ignore[arg-type]
