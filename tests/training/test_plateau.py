"""Training until a plateau: when it is reached, what happens there, and that a killed run ends in the same bits."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch import nn

import shiftproof as sp
from shiftproof.domains import train_part
from shiftproof.errors import UsageError
from shiftproof.models.files import fingerprint
from shiftproof.objectives import OBJECTIVES, Recipe
from shiftproof.objectives.objective import Outcome
from shiftproof.perturbations.noise import as_noise
from shiftproof.runs import study_files
from shiftproof.runs.estimate import estimate_study
from shiftproof.training import descent
from shiftproof.training.optimisers import check_recipe, learning_rate
from shiftproof.training.plateau import Stopped, expected_steps, find_plateaus, planned_recipe
from shiftproof.training.selection import RADIUS_VOTES, Validation, radius_estimate
from shiftproof.types import Batch, Loss

SOURCES, _ = sp.load_domains("colored-digits").leave_out("e=0.9")
RECIPE = {"until": "plateau", "epochs": 20, "batch": 112, "lr": 3e-3}


@pytest.mark.parametrize(
    ("values", "plateaus"),
    [
        ([], []),
        ([0.5, 0.5, 0.5], []),  # three evaluations must come after a first
        ([0.5, 0.5, 0.5, 0.5], [3]),
        ([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7], []),
        ([0.5, 0.501, 0.502, 0.506], []),  # 0.006 in three evaluations is a gain
        ([0.5, 0.501, 0.502, 0.504], [3]),  # 0.004 is none
        ([0.5, 0.506, 0.4, 0.4, 0.4], [4]),  # the best counts, not the last
        ([0.5, 0.4, 0.3, 0.51], []),  # a dip on the way does not end it
        ([0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5], [3, 6]),  # after a plateau, three more are waited for
        ([0.5, 0.5, 0.5, 0.5, 0.6, 0.6, 0.6, 0.6], [3, 7]),  # the drop helped: what it gained is the new measure
        ([0.5] * 10, [3, 6, 9]),
    ],
)
def test_where_plateaus_are(values: list[float], plateaus: list[int]) -> None:
    assert find_plateaus(values) == plateaus
    for end in range(len(values)):
        assert find_plateaus(values[:end]) == [place for place in plateaus if place < end], "it looks ahead"


def test_steps_are_counted_out_by_the_largest_domain() -> None:
    recipe = Recipe().override({"until": "plateau", "batch": 100})
    assert (recipe.schedule, recipe.evaluate_every, recipe.epochs) == ("constant", None, 25)
    plan = planned_recipe(recipe, [950, 1_001])
    assert (plan.steps, plan.evaluate_every) == (25 * 11, 11)
    assert planned_recipe(recipe.override({"samples": 200, "until": "plateau"}), [950]).steps == 25 * 2
    assert planned_recipe(Recipe(), [950]) == Recipe()


def test_the_learning_rate_falls_at_plateaus() -> None:
    recipe = Recipe(lr=0.1, until="plateau")
    assert [learning_rate(recipe, 50, drops) for drops in range(3)] == pytest.approx([0.1, 0.01, 0.001])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"until": "plateau", "schedule": "cosine"}, "leave the schedule 'cosine' out"),
        ({"epochs": 10}, "say training.until=plateau or training.until=patience"),
        ({"until": "convergence"}, "until"),
    ],
)
def test_recipes_without_effect_are_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        check_recipe(Recipe().override(changes))


def test_radii_are_those_of_the_shares_of_votes() -> None:
    counts = np.array([[99, 1, 0], [50, 30, 20], [10, 80, 10], [40, 35, 25]])
    found = radius_estimate(counts, np.array([0, 0, 0, 0]), as_noise("gaussian:0.5"))
    assert found == pytest.approx([0.5 * norm.ppf(99.5 / 101), 0.0, 0.0, 0.0], abs=1e-9)


def fixed_measures(values: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluations that find these radii, one after the other."""
    left = iter(values)

    def measure(self: Validation, model: nn.Module) -> dict[str, dict[str, float]]:
        value = next(left)
        return {self.selects_by: dict.fromkeys(self.samples, value)}

    monkeypatch.setattr(Validation, "measure", measure)


def test_it_stops_at_the_third_plateau_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    fixed_measures([0.1, 0.2, 0.2, 0.2, 0.2, 0.3, 0.3, 0.3, 0.3, 0.29, 0.3, 0.3, 0.9], monkeypatch)
    rates = []
    monkeypatch.setattr(descent, "_step", lambda *rest: (rates.append(rest[3]), _step(*rest))[1])
    fit = sp.train(sp.build_model("mlp", SOURCES, width=8), SOURCES, sp.objectives.Gaussian(0.25), recipe=RECIPE)
    epoch = -(-max(len(train_part(domain)) for domain in SOURCES) // RECIPE["batch"])
    assert fit.stopped == Stopped(12 * epoch, "plateau", (5 * epoch, 9 * epoch, 12 * epoch))
    assert (fit.selected.rule, fit.selected.step) == ("radius-source-validation", 6 * epoch)
    assert fit.selected.mean_radius == pytest.approx(0.3)
    assert rates == pytest.approx([3e-3] * 5 * epoch + [3e-4] * 4 * epoch + [3e-5] * 3 * epoch)
    record = fit.describe(SOURCES, sp.objectives.Gaussian(0.25), None)["stopped"]
    assert record == {"step": 12 * epoch, "reason": "plateau", "plateaus": (5 * epoch, 9 * epoch, 12 * epoch)}


_step = descent._step


def test_it_stops_after_its_epochs_and_waits_for_a_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = {**RECIPE, "epochs": 6, "evaluate_every": 4, "samples": 112, "batch": 28}
    fixed_measures([0.2] * 6, monkeypatch)
    objective = sp.objectives.MACER(sigma=0.25, samples=2, defer=8)
    fit = sp.train(sp.build_model("mlp", SOURCES, width=8), SOURCES, objective, recipe=recipe)
    # evaluations after 4 and 8 steps are before the penalty: the first plateau is three after that of step 12
    assert fit.stopped == Stopped(24, "epochs", (24,))
    fixed_measures([0.2] * 6, monkeypatch)
    assert sp.train(sp.build_model("mlp", SOURCES, width=8), SOURCES, recipe=recipe).stopped.plateaus == (16,)


@pytest.mark.parametrize("selection", [None, "last"])
def test_radii_are_measured_and_select(selection: Any) -> None:
    fit = sp.train(
        sp.build_model("mlp", SOURCES, width=16),
        SOURCES,
        sp.objectives.Gaussian(0.25),
        recipe={**RECIPE, "epochs": 3},
        selection=selection,
    )
    radii = {row["step"]: sum(row["radius_validation"].values()) / 2 for row in fit.history}
    assert fit.stopped.reason == "epochs"
    assert fit.selected.mean_radius == radii[fit.selected.step]
    assert fit.selected.step == (max(radii) if selection else max(radii, key=lambda step: (radii[step], -step)))
    assert 0 < max(radii.values()) < 0.25 * norm.ppf(1 - 0.5 / (RADIUS_VOTES + 1))


def test_without_noise_it_goes_by_what_selects() -> None:
    fit = sp.train(sp.build_model("mlp", SOURCES, width=8), SOURCES, recipe={**RECIPE, "epochs": 2})
    assert (fit.selected.rule, fit.selected.mean_radius) == ("source-validation", None)
    assert all("validation" in row for row in fit.history)
    with pytest.raises(UsageError, match="erm has no noise"):
        sp.train(sp.build_model("mlp", SOURCES), SOURCES, selection="radius-source-validation")


@pytest.mark.parametrize("killed_at", [20, 33])
def test_killed_before_and_after_a_plateau_it_ends_in_the_same_bits(killed_at: int, tmp_path: Path) -> None:
    objective = sp.objectives.Gaussian(0.5)
    recipe = {**RECIPE, "evaluate_every": 5, "batch": 64, "lr": 0.03, "epochs": 8}

    def fresh() -> nn.Module:
        return sp.build_model("mlp", SOURCES, width=8)

    whole = sp.train(fresh(), SOURCES, objective, recipe=recipe)
    assert whole.stopped.plateaus
    assert whole.stopped.plateaus[0] < 33 < whole.stopped.step
    calls, original = 0, sp.objectives.Gaussian.loss

    def killed(self: Any, model: nn.Module, batch: Batch, generator: torch.Generator) -> Loss:
        nonlocal calls
        calls += 1
        if calls == killed_at:
            raise KeyboardInterrupt
        return original(self, model, batch, generator)

    path = tmp_path / "c.ckpt"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sp.objectives.Gaussian, "loss", killed)
        with pytest.raises(KeyboardInterrupt):
            sp.train(fresh(), SOURCES, objective, recipe=recipe, checkpoint=path, checkpoint_seconds=0)
    resumed = sp.train(fresh(), SOURCES, objective, recipe=recipe, checkpoint=path)
    # a finished run, asked for again, trains no further
    again = sp.train(fresh(), SOURCES, objective, recipe=recipe, checkpoint=path)
    for fit in (resumed, again):
        assert fingerprint(fit.model) == fingerprint(whole.model)
        assert (fit.history, fit.selected, fit.stopped) == (whole.history, whole.selected, whole.stopped)
        assert all(torch.equal(fit.last[key], whole.last[key]) for key in whole.last)


STUDY = """
name: early
data: digits
limit: 20
models:
  m:
    model: {name: mlp, width: 8}
    objective: {name: gaussian, sigma: 0.25}
    training: {until: plateau, epochs: 3, batch: 100}
"""


def test_an_estimate_is_the_most_that_it_can_take_and_the_record_says_why_it_stopped(tmp_path: Path, run: Any) -> None:
    (tmp_path / "early.yaml").write_text(STUDY)
    study = study_files.find_study(str(tmp_path / "early.yaml"))
    (training,) = [cost for cost in estimate_study(study).costs if cost.stage == "training"]
    size = len(train_part(next(iter(sp.load_domains("digits")))))
    steps = 3 * -(-size // 100)
    assert training.forward_passes == training.most_forward_passes
    assert training.forward_passes > steps * 100 + 3 * RADIUS_VOTES * 100
    assert study.models["m"].rule == "radius-source-validation"
    code, out, err = run("run", str(tmp_path / "early.yaml"), "--out", str(tmp_path / "out"))
    assert code == 0, out + err
    card = (tmp_path / "out" / "models" / "m.json").read_text()
    assert '"reason": "epochs"' in card
    assert "radius-source-validation" in card


def test_the_command_line_says_when_and_why_it_stopped(run: Any) -> None:
    changes = ("training.until=plateau", "training.epochs=2", "objective.sigma=0.25", "model.width=8")
    code, out, err = run(
        "train", "--data", "digits", "--model", "mlp", "--objective", "gaussian", "--out", "m",
        *(part for change in changes for part in ("--set", change)),
    )  # fmt: skip
    said = " ".join((out + err).split())
    assert code == 0, said
    assert re.search(r"kept step (12|24) of 24 ", said)
    assert "stopped after step 24: all 2 epochs are over" in said
    assert "which is no certificate" in said


@pytest.mark.parametrize(
    ("name", "options", "at", "values"),
    [
        ("smoothadv", {"eps": 1.0, "warmup": 10}, "eps_at", {0: 0.1, 4: 0.5, 9: 1.0, 10: 1.0}),
        ("smoothadv", {"eps": 0.5}, "eps_at", {0: 0.5}),
        ("macer", {"weight": 16.0, "defer": 10}, "weight_at", {0: 0.0, 9: 0.0, 10: 16.0}),
        ("macer", {"weight": 12.0}, "weight_at", {0: 12.0}),
    ],
)
def test_warm_ups(name: str, options: dict[str, Any], at: str, values: dict[int, float]) -> None:
    objective = OBJECTIVES.create(name, options)
    for step, value in values.items():
        assert getattr(objective, at)(step) == pytest.approx(value)
    outcome = Outcome(nn.Identity(), (1, 2, 2), Recipe(steps=10), ("d",))
    late = name == "macer" and options.get("defer", 0) >= 10
    assert [finding.code for finding in objective.findings(outcome)] == (["never-annealed"] if late else [])
    assert not list(objective.findings(replace(outcome, recipe=Recipe(until="plateau"))))
    assert objective.warm_up == options.get("warmup", options.get("defer", 0))
    assert OBJECTIVES.create("irm", {"anneal": 7}).warm_up == 7


@pytest.mark.parametrize(
    ("epochs", "warm_up", "steps"),
    [(25, 0, 158), (10, 0, 100), (5, 0, 50), (25, 60, 200), (25, 500, 250)],
)
def test_expected_steps_lie_between_the_fewest_and_the_most(epochs: int, warm_up: int, steps: int) -> None:
    """Three plateaus of three evaluations each take ten epochs; an epoch of 1,000 samples has ten steps of 100."""
    planned = planned_recipe(Recipe(until="plateau", epochs=epochs, batch=100, evaluate_every=None), [1_000])
    assert expected_steps(planned, warm_up) == steps
    assert expected_steps(replace(planned, until="steps"), warm_up) == planned.steps
