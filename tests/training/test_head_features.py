"""A head over a frozen encoder, trained on features: the same as with the encoder in every step, but for rounding."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.objectives.erm import ERM
from shiftproof.training import loop
from shiftproof.training.fit import Fit

DIGITS = sp.load_domains("rotated-digits")
SOURCES, _ = DIGITS.leave_out("angle=75")
RECIPE = {"part": "head", "steps": 60, "batch": 32, "evaluate_every": 20}


class Counted(nn.Module):
    """An encoder that counts the samples it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 24), nn.BatchNorm1d(24), nn.ReLU())
        self.seen = 0

    def forward(self, inputs: Tensor) -> Tensor:
        self.seen += len(inputs)
        return self.layers(inputs)  # type: ignore[no-any-return]


def network() -> sp.SplitModel:
    torch.manual_seed(0)
    return sp.SplitModel(Counted(), nn.Linear(24, 10))


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("SHIFTPROOF_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def fitted(model: sp.SplitModel, **options: object) -> Fit:
    return sp.train(model, SOURCES, sp.objectives.ERM(), seed=0, recipe=RECIPE, progress="off", **options)


def test_the_head_is_that_of_training_through_the_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    quick, slow = network(), network()
    before = {name: value.clone() for name, value in quick.encoder.state_dict().items()}
    one = fitted(quick)
    monkeypatch.setattr(loop, "uses_features", lambda *_: False)
    other = fitted(slow)
    for name, value in one.model.state_dict().items():
        assert torch.allclose(value, other.model.state_dict()[name], atol=1e-5), name
    assert [row["loss"] for row in one.history] == pytest.approx([row["loss"] for row in other.history], rel=1e-4)
    assert one.selected.step == other.selected.step
    assert one.last.keys() == other.last.keys() == quick.state_dict().keys()
    # the encoder is back in its place, to the bit
    assert isinstance(quick.encoder, Counted)
    for name, value in quick.encoder.state_dict().items():
        assert torch.equal(value, before[name])


def test_a_second_head_costs_no_pass_through_the_encoder(cache: Path) -> None:
    first, second = network(), network()
    fitted(first)
    fitted(second)
    samples = 60 * 32 * len(list(SOURCES))
    assert first.encoder.seen < samples / 2
    # what is measured once of the network as it is: its layout, its key in the cache, the kept weights
    assert second.encoder.seen < first.encoder.seen / 3
    assert len(list((cache / "features").iterdir())) > 0


def test_another_encoder_has_other_features() -> None:
    first, second = network(), network()
    with torch.no_grad():
        second.encoder.layers[1].weight.mul_(2)
    fitted(first)
    fitted(second)
    fresh = network()
    with torch.no_grad():
        fresh.encoder.layers[1].weight.mul_(2)
    inputs, _ = DIGITS["angle=0"].subset(np.arange(50)).tensors()
    assert torch.allclose(second.encoder(inputs), fresh.eval().encoder(inputs))
    assert not torch.allclose(first.head.weight, second.head.weight, atol=1e-3)


def test_losses_that_change_inputs_see_inputs() -> None:
    model = network()
    recipe = RECIPE | {"steps": 40}
    sp.train(model, SOURCES, sp.objectives.Gaussian(0.25), seed=0, recipe=recipe, progress="off")
    assert model.encoder.seen >= 40 * 32 * len(list(SOURCES))

    @dataclass(frozen=True)
    class Inverted(ERM):
        """Says nothing of its own loss."""

        def loss(self, model, batch, generator):  # type: ignore[no-untyped-def]
            return super().loss(lambda inputs: model(1 - inputs), batch, generator)

    assert not Inverted().takes_features
    assert ERM().takes_features


def test_it_is_not_done_where_it_costs_more_than_it_saves() -> None:
    model = network()
    sp.train(model, SOURCES, seed=0, recipe={"part": "head", "steps": 2, "batch": 4}, progress="off")
    assert model.encoder.seen < sum(map(len, SOURCES))


def test_a_stopped_training_goes_on_to_the_same_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, checkpoint = fitted(network()), tmp_path / "training.checkpoint"
    taken = [0]

    def stop(*arguments: object, **options: object) -> object:
        taken[0] += 1
        if taken[0] > 30:
            raise KeyboardInterrupt
        return original(*arguments, **options)

    from shiftproof.training import descent

    original = descent._step
    monkeypatch.setattr(descent, "_step", stop)
    model = network()
    with pytest.raises(KeyboardInterrupt):
        fitted(model, checkpoint=checkpoint, checkpoint_seconds=0.0)
    # an interrupt leaves the model whole
    assert isinstance(model.encoder, Counted)
    monkeypatch.setattr(descent, "_step", original)
    resumed = fitted(network(), checkpoint=checkpoint, checkpoint_seconds=0.0)
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, resumed.model.state_dict()[name]), name
