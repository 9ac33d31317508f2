"""Which weights are kept: by accuracy, under noise, under attack, or the last."""

from collections.abc import Callable

import pytest

import shiftproof as sp
from shiftproof.errors import UsageError
from shiftproof.objectives import OBJECTIVES

SOURCES, _ = sp.load_domains("colored-digits").leave_out("e=0.9")
TINY = {"steps": 6, "evaluate_every": 2, "batch": 8}


def test_the_weights_of_highest_robust_accuracy_are_kept() -> None:
    objective = sp.objectives.AdversarialTraining("linf:0.1", steps=2)
    fit = sp.train(sp.build_model("mlp", SOURCES), SOURCES, objective, recipe={"steps": 60, "evaluate_every": 10})
    robust = {row["step"]: sum(row["robust_validation"].values()) / 2 for row in fit.history}
    clean = {row["step"]: sum(row["validation"].values()) / 2 for row in fit.history}
    assert fit.selected.rule == "robust-source-validation"
    assert fit.selected.robust_accuracy == max(robust.values()) == robust[fit.selected.step]
    assert fit.selected.validation_accuracy == clean[fit.selected.step]
    assert all(robust[step] <= clean[step] for step in robust)
    last = sp.train(sp.build_model("mlp", SOURCES), SOURCES, objective, recipe={"steps": 20}, selection="last").selected
    assert (last.rule, last.step, last.robust_accuracy) == ("last", 20, None)


def test_selecting_by_robust_accuracy_needs_an_attack(run: Callable[..., tuple[int, str, str]]) -> None:
    with pytest.raises(UsageError, match="erm has no attack to select by; these have one: adversarial-augmentation, "):
        sp.train(sp.build_model("mlp", SOURCES), SOURCES, selection="robust-source-validation")
    code, _, err = run("train", "--data", "digits", "--set", "selection=robust-source-validation")
    assert code == 1
    assert "has no attack to select by" in err


@pytest.mark.parametrize("name", ["smoothadv", "transfer-adv-s"])
def test_smoothadv_without_noise_is_selected_by_the_network_itself(name: str) -> None:
    objective = OBJECTIVES.create(name, {"sigma": 0.0, "steps": 2})
    fit = sp.train(sp.build_model("mlp", SOURCES), SOURCES, objective, recipe={"steps": 2, "batch": 8})
    assert (fit.selected.noisy_accuracy, fit.selected.rule) == (None, "robust-source-validation")


@pytest.mark.parametrize("name", ["gaussian", "macer", "consistency", "stability", "deformation", "transfer-noise"])
def test_what_is_trained_on_noise_is_selected_under_it(name: str) -> None:
    fit = sp.train(sp.build_model("mlp", SOURCES), SOURCES, OBJECTIVES.create(name), recipe={**TINY, "steps": 12})
    noisy = {row["step"]: sum(row["noisy_validation"].values()) / 2 for row in fit.history}
    assert fit.selected.noisy_accuracy == noisy[fit.selected.step] == max(noisy.values())
