"""What every certifier says of itself, and that it can be written down and made again."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import shiftproof as sp
from shiftproof.certification import CERTIFIERS, Certifier
from shiftproof.certification.sampling.stopping import Full, Radii, Within, as_stop
from shiftproof.errors import UsageError
from shiftproof.perturbations.noise.gaussian import Gaussian

OPTIONS = {"noise": "rotation:0.5", "sigma": 0.3, "sigmas": (0.1, 0.3)}


def certifier(name: str) -> Certifier:
    options = {key: value for key, value in OPTIONS.items() if CERTIFIERS[name].options.get(key) is ...}
    return CERTIFIERS.create(name, options)


@pytest.mark.parametrize("name", [entry.name for entry in CERTIFIERS])
def test_its_configuration_makes_it_again(name: str) -> None:
    one = certifier(name)
    assert CERTIFIERS.make(json.loads(json.dumps(one.to_config()))) == one
    assert CERTIFIERS.make(one) is one


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("latent-margin", ("l2", Gaussian.units, 0.0, 0, 1, math.inf)),
        ("lipschitz-margin", ("l2", Gaussian.units, 0.0, 0, 1, math.inf)),
        ("adapted-smoothing", ("l2", Gaussian.units, 0.001, 100_000, 100_100, math.inf)),
        ("latent-smoothing", ("l2", Gaussian.units, 0.001, 100_000, 100_100, math.inf)),
        ("median-smoothing", ("l2", Gaussian.units, 1e-4, 500, 600, math.inf)),
    ],
)
def test_what_it_says_of_itself(name: str, expected: tuple[object, ...]) -> None:
    one = certifier(name)
    assert (one.norm, one.units, one.alpha, one.votes, one.passes, one.largest_radius(10)) == expected
    assert one.noise is None
    assert one.unsound == ""
    assert one.scale > 0


def test_a_vote_speaks_of_its_noise() -> None:
    one = certifier("randomized-smoothing")
    assert one.noise is not None
    assert (one.norm, one.units, one.scale) == (one.noise.norm, one.noise.units, one.noise.scale)
    assert 0 < one.largest_radius(2) < math.inf
    assert one.asked_radii is None
    assert sp.certifiers.RandomizedSmoothing("gaussian:0.25", stop=[0.5, 0]).asked_radii == (0.0, 0.5)


def test_calibration_images_are_written_as_name_and_hash() -> None:
    images = sp.certifiers.Calibration.of(next(iter(sp.load_domains("digits"))).subset(np.arange(20)))
    one = sp.certifiers.AdaptedSmoothing((0.25,), images)
    assert one.to_config()["calibration"] == f"20 images of digits ({images.hash})"


@pytest.mark.parametrize(
    "options",
    [{"n": 0}, {"n0": 0}, {"n": True}, {"alpha": 1.0}, {"alpha": math.nan}, {"noise": None}, {"stop": "soon"}],
    ids=str,
)
def test_options_are_checked_in_python_as_on_the_command_line(options: dict[str, object]) -> None:
    with pytest.raises(UsageError) as in_python:
        sp.certifiers.RandomizedSmoothing(**{"noise": "gaussian:0.25", **options})  # type: ignore[arg-type]
    with pytest.raises(UsageError) as by_name:
        CERTIFIERS.create("randomized-smoothing", {"noise": "gaussian:0.25", **options})
    named = str(by_name.value).replace("certifier 'randomized-smoothing'", "RandomizedSmoothing")
    assert str(in_python.value) == named


def test_a_stopping_rule_keeps_every_digit_as_text() -> None:
    for rule in (Radii([0, 0.1 + 0.2, 1e-9, 2]), Within(1 / 3), Full()):
        assert as_stop(rule.spec) == rule
    assert Radii([0.25, 0]).spec == "radii:0,0.25"
