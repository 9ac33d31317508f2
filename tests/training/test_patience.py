"""Early stopping on the loss of source validation, as in "Provably robust transfer": patience of ten evaluations."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import shiftproof as sp
from shiftproof.domains import validation_part
from shiftproof.errors import UsageError
from shiftproof.objectives import Recipe
from shiftproof.training import selection
from shiftproof.training.plateau import LOSS_PATIENCE, expected_steps, is_patience_out, planned_recipe

DIGITS = sp.load_domains("digits")
RECIPE = {"until": "patience", "epochs": 60, "batch": 64, "lr": 0.02, "evaluate_every": 5}


def fresh() -> torch.nn.Module:
    return sp.build_model("mlp", DIGITS, seed=0, width=32)


def fit(**options: object):
    return sp.train(fresh(), DIGITS, sp.objectives.ERM(), seed=0, recipe=RECIPE, progress="off", **options)


def losses(rows: list[dict]) -> np.ndarray:
    return np.array([np.mean(list(row["loss_validation"].values())) for row in rows])


def test_training_stops_ten_evaluations_after_the_least_loss_and_keeps_its_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # all validation samples, and not some that are affordable
    monkeypatch.setattr(selection, "FEWEST", 10_000)
    found = fit()
    seen = losses(found.history)
    best = int(seen.argmin())
    assert found.stopped.reason == "patience"
    assert len(seen) == best + 1 + LOSS_PATIENCE
    assert found.stopped.step == found.history[-1]["step"] < 60 * -(-len(DIGITS["digits"]) // 64)
    assert (found.selected.rule, found.selected.step) == ("loss-source-validation", found.history[best]["step"])
    # the loss is that of the model which is kept, on held-out samples of the sources, by torch's own
    inputs, labels = validation_part(DIGITS["digits"]).tensors()
    with torch.no_grad():
        by_torch = float(F.cross_entropy(found.model(inputs).double(), labels))
    assert seen[best] == pytest.approx(by_torch, rel=1e-5)


def test_a_resumed_training_stops_where_the_whole_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from shiftproof.training import descent

    whole, original, taken = fit(), descent._step, [0]

    def stop(*arguments: object, **options: object) -> object:
        taken[0] += 1
        if taken[0] > 23:
            raise KeyboardInterrupt
        return original(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(descent, "_step", stop)
    with pytest.raises(KeyboardInterrupt):
        fit(checkpoint=tmp_path / "training.checkpoint", checkpoint_seconds=0.0)
    monkeypatch.setattr(descent, "_step", original)
    resumed = fit(checkpoint=tmp_path / "training.checkpoint", checkpoint_seconds=0.0)
    assert resumed.stopped == whole.stopped
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, resumed.model.state_dict()[name])


def test_the_last_weights_can_be_kept_and_epochs_end_it() -> None:
    last = fit(selection="last")
    assert last.selected.step == last.stopped.step
    assert last.stopped.reason == "patience"
    short = sp.train(
        fresh(), DIGITS, seed=0, recipe=RECIPE | {"epochs": 1, "evaluate_every": 10, "lr": 1e-4}, progress="off"
    )
    assert short.stopped.reason == "epochs"


def test_noise_of_the_objective_is_in_the_loss() -> None:
    noisy = sp.train(
        fresh(), DIGITS, sp.objectives.Gaussian(2.0), seed=0, recipe=RECIPE | {"epochs": 2}, progress="off"
    )
    plain = sp.train(fresh(), DIGITS, seed=0, recipe=RECIPE | {"epochs": 2}, progress="off")
    assert losses(noisy.history)[-1] > losses(plain.history)[-1] + 0.5


def test_patience_is_counted_from_the_best() -> None:
    assert not is_patience_out([])
    assert not is_patience_out([3.0] + [1.0] * 9)
    assert is_patience_out([3.0] + [1.0] * 10)
    # of equal ones the first counts
    assert is_patience_out([1.0] * 11)


def test_steps_are_planned_and_mistakes_are_told() -> None:
    planned = planned_recipe(Recipe().override({"until": "patience", "epochs": 30, "batch": 100}), [1_000])
    assert (planned.steps, planned.evaluate_every, planned.schedule) == (300, 10, "constant")
    assert 110 <= expected_steps(planned) <= 300
    with pytest.raises(UsageError, match=r"training.until=patience"):
        sp.train(fresh(), DIGITS, seed=0, recipe={"epochs": 3}, progress="off")
