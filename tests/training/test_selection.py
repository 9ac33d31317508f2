"""Which weights are kept: by accuracy, under noise, under attack, or the last."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import shiftproof as sp
from shiftproof.domains import as_domains, validation_part
from shiftproof.errors import StorageError, UsageError
from shiftproof.objectives import OBJECTIVES, Recipe
from shiftproof.runs.model_spec import ModelSpec
from shiftproof.runs.models import training_findings
from shiftproof.training.selection import Validation

SOURCES, _ = sp.load_domains("colored-digits").leave_out("e=0.9")
TINY = {"steps": 6, "evaluate_every": 2, "batch": 8}


def test_the_weights_of_highest_robust_accuracy_are_kept() -> None:
    objective = sp.objectives.AdversarialTraining("linf:0.1", steps=2)
    fit = sp.train(sp.build_model("mlp", SOURCES), SOURCES, objective, recipe={"steps": 60, "evaluate_every": 10})
    robust = {row["step"]: sum(row["robust_validation"].values()) / 2 for row in fit.history}
    assert fit.selected.rule == "robust-source-validation"
    assert fit.selected.robust_accuracy == max(robust.values()) == robust[fit.selected.step]
    # no clean pass where another one selects; of what is kept it is measured once
    assert not any("validation" in row or "noisy_validation" in row for row in fit.history)
    assert fit.selected.validation_accuracy >= fit.selected.robust_accuracy
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


class Counting(torch.nn.Module):
    """A linear classifier that counts the samples it is asked about, in training and in evaluations."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)
        self.trained = self.evaluated = 0

    def forward(self, inputs: Tensor) -> Tensor:
        self.trained += len(inputs) * self.training
        self.evaluated += len(inputs) * (not self.training)
        logits: Tensor = self.layer(inputs.flatten(1))
        return logits


@pytest.mark.parametrize("objective", [sp.objectives.ERM(), sp.objectives.Gaussian(0.25)])
@pytest.mark.parametrize("recipe", [{"steps": 200, "evaluate_every": 100}, {"steps": 101, "evaluate_every": 25}])
def test_evaluations_take_a_tenth_of_the_passes_of_training(objective: Any, recipe: dict[str, int]) -> None:
    inputs = torch.rand(40_000, 1, 2, 2, generator=torch.Generator().manual_seed(0))
    labels = (inputs.flatten(1).sum(1) > 2).long()
    model = Counting()
    fit = sp.train(model, (inputs, labels), objective, recipe={**recipe, "batch": 128})
    # each sample of a step goes forward and backward; two look at one input each before training starts
    assert model.evaluated - 2 <= 2 * model.trained / 10
    assert 400 < fit.selected.samples["data"] < 8_000 * 0.9
    assert model.evaluated - 2 >= len(fit.history) * fit.selected.samples["data"]


def test_the_validation_part_is_random_fixed_and_recorded(run: Callable[..., tuple[int, str, str]]) -> None:
    inputs = torch.rand(4_000, 1, 2, 2, generator=torch.Generator().manual_seed(0))
    domain = next(iter(as_domains((inputs, torch.zeros(4_000, dtype=torch.long)), 2)))
    recipe, model = Recipe(steps=100, evaluate_every=50, batch=32), Counting()

    def part(seed: int) -> list[str]:
        validation = Validation.of([domain], recipe, "source-validation", sp.objectives.ERM(), seed, model)
        return list(validation.domains[0].ids)

    whole = list(validation_part(domain).ids)
    assert part(0) == part(0) != part(1)
    assert set(part(0)) < set(whole)
    assert len(part(0)) == 2 * 100 * 32 // (10 * 3)
    # neither the first ones nor equal steps
    steps = {whole.index(one) - whole.index(other) for one, other in itertools.pairwise(part(0))}
    assert len(steps) > 5
    run("train", "--data", "digits", "--model", "mlp", "--set", "training.steps=4", "--out", "m")
    card = json.loads(Path("m/model.json").read_text())
    assert card["selection"]["samples"] == {"digits": 100}


def test_saving_where_nothing_can_be_written_is_a_sentence_for_python(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="can't write .*: Not a directory. Choose another folder") as caught:
        sp.save_model(Counting(), tmp_path / "file" / "model.safetensors")
    assert "--out" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "options", "by_chance"),
    [
        ("efficientnet-lite0", {}, False),
        ("efficientnet-lite0", {"weights": "none"}, True),
        ("cnn", {}, True),
        ("file:x", {}, False),
        ("python:a:b", {}, False),
    ],
)
def test_whether_a_head_stands_on_random_weights(name: str, options: dict[str, str], by_chance: bool) -> None:
    training = {"part": "head", "steps": 1}
    spec = ModelSpec.model_validate({"model": {"name": name, **options}, "objective": "erm", "training": training})
    codes = [one.code for one in training_findings(name, spec, Counting(), SOURCES)]
    assert ("untrained-encoder" in codes) == by_chance
