"""The loop: it learns, it forgets nothing when killed, it never looks at the target."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import needs_data
from torch import nn

import shiftproof as sp
from shiftproof.domains import train_part
from shiftproof.domains.splits import first_samples
from shiftproof.errors import DataError, ModelError, TrainingError, UnknownName, UsageError
from shiftproof.models.files import fingerprint
from shiftproof.objectives import Recipe
from shiftproof.training.batches import Batches
from shiftproof.training.checkpoint import read_checkpoint
from shiftproof.training.optimisers import SCHEDULES, learning_rate
from shiftproof.types import Batch, Loss

SOURCES, TARGET = sp.load_domains("colored-digits").leave_out("e=0.9")
SHORT = {"steps": 30, "evaluate_every": 10, "batch": 16}


def test_it_learns_the_shortcut_and_the_gray_model_does_not() -> None:
    def accuracy(gray: bool) -> list[float]:
        model = sp.build_model("mlp", SOURCES, gray=gray)
        fit = sp.train(model, SOURCES, recipe={"steps": 200})
        assert fit.selected.rule == "source-validation"
        assert fit.selected.validation_accuracy == max(sum(row["validation"].values()) / 2 for row in fit.history)
        with torch.no_grad():
            inputs, labels = TARGET.take(np.arange(len(TARGET)))
            return [fit.selected.validation_accuracy, float((fit.model(inputs).argmax(1) == labels).float().mean())]

    source, target = accuracy(gray=False)
    assert source > 0.75
    assert target < 0.25
    source, target = accuracy(gray=True)
    assert target > 0.6


def test_named_parts_of_a_loss_are_in_the_history() -> None:
    class Halves(sp.objectives.ERM):
        def loss(self, model: nn.Module, batch: Batch, generator: torch.Generator) -> Loss:
            total = super().loss(model, batch, generator).total
            return Loss(total, half=total / 2)

    plain = sp.train(sp.build_model("mlp", SOURCES), SOURCES, recipe=SHORT).history
    for row, other in zip(
        sp.train(sp.build_model("mlp", SOURCES), SOURCES, Halves(), recipe=SHORT).history, plain, strict=True
    ):
        assert row["loss"] == other["loss"]
        assert row["half"] == pytest.approx(row["loss"] / 2)


def test_the_order_of_sources_changes_no_bit() -> None:
    def weights(names: list[str]) -> str:
        return fingerprint(sp.train(sp.build_model("mlp", SOURCES), SOURCES.select(names), recipe=SHORT).model)

    assert weights(["e=0.1", "e=0.2"]) == weights(["e=0.2", "e=0.1"])


def test_training_does_not_touch_global_random_state() -> None:
    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # type: ignore[index] # noqa: NPY002
    first = fingerprint(sp.train(sp.build_model("mlp", SOURCES), SOURCES, recipe=SHORT).model)
    assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(np.random.get_state()[1], numpy_before)  # type: ignore[index] # noqa: NPY002
    torch.manual_seed(2)
    assert fingerprint(sp.train(sp.build_model("mlp", SOURCES), SOURCES, recipe=SHORT).model) == first


def test_batches_are_a_function_of_the_step() -> None:
    parts = [train_part(domain) for domain in SOURCES]
    batches = Batches(parts, 64, seed=0, device=torch.device("cpu"))
    again = Batches(parts[::-1], 64, seed=0, device=torch.device("cpu"))
    late = again[20]
    for step in range(21):
        batch = batches[step]
    assert torch.equal(batch.inputs, late.inputs)
    assert batch.names == late.names == ("e=0.1", "e=0.2")
    assert batch.sizes == (64, 64)


def test_an_epoch_shows_every_sample_once() -> None:
    part = train_part(SOURCES["e=0.1"])
    batches = Batches([part], 50, seed=0, device=torch.device("cpu"))
    seen = np.concatenate([batches._indices(part, step) for step in range(3 * len(part) // 50 + 1)])
    for epoch in range(3):
        assert len(set(seen[epoch * len(part) : (epoch + 1) * len(part)].tolist())) == len(part)


def test_only_so_many_samples_are_trained_on() -> None:
    kept = [first_samples(train_part(domain), 20) for domain in SOURCES]
    model, other = (sp.build_model("mlp", SOURCES, width=8, seed=0) for _ in range(2))
    fit = sp.train(model, SOURCES, seed=1, recipe={"steps": 6, "batch": 10, "samples": 20}, selection="last")
    # the same by hand, of the twenty alone
    optimiser = torch.optim.Adam(other.parameters(), lr=fit.recipe.lr)
    for batch in Batches(kept, 10, 1, torch.device("cpu")).steps(0, 6):
        losses = torch.nn.functional.cross_entropy(other(batch.inputs), batch.labels, reduction="none")
        optimiser.zero_grad()
        torch.stack([part.mean() for part in losses.split(10)]).mean().backward()
        optimiser.step()
    for name, weights in other.state_dict().items():
        assert torch.equal(weights, fit.model.state_dict()[name]), name


def test_a_domain_smaller_than_a_batch_still_fills_it() -> None:
    part = train_part(SOURCES["e=0.1"]).subset(range(10))
    assert Batches([part], 64, seed=0, device=torch.device("cpu"))[7].sizes == (64,)


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_start_at_the_learning_rate_and_never_exceed_it(name: str) -> None:
    recipe = Recipe(lr=0.1, steps=200, schedule=name)
    rates = [learning_rate(recipe, step) for step in range(200)]
    assert rates[0] == pytest.approx(0.1)
    assert all(0 < rate <= 0.1 + 1e-12 for rate in rates)
    assert rates == sorted(rates, reverse=True)


@pytest.mark.parametrize("optimiser", ["sgd", "adam", "adamw"])
def test_optimisers_resume_exactly(optimiser: str, tmp_path: Path) -> None:
    recipe = {**SHORT, "optimiser": optimiser, "schedule": "cosine", "weight_decay": 1e-3}
    whole = sp.train(sp.build_model("mlp", SOURCES), SOURCES, recipe=recipe)

    calls = 0
    original = sp.objectives.ERM.loss

    def interrupted(self: object, model: nn.Module, batch: Batch, generator: torch.Generator) -> Loss:
        nonlocal calls
        calls += 1
        if calls == 18:
            raise KeyboardInterrupt
        return original(self, model, batch, generator)

    path = tmp_path / "c.ckpt"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sp.objectives.ERM, "loss", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sp.train(sp.build_model("mlp", SOURCES), SOURCES, recipe=recipe, checkpoint=path, checkpoint_seconds=0)
    assert torch.load(path, weights_only=True)["step"] == 17
    resumed = sp.train(sp.build_model("mlp", SOURCES), SOURCES, recipe=recipe, checkpoint=path)
    assert fingerprint(resumed.model) == fingerprint(whole.model)
    assert resumed.history == whole.history
    assert all(torch.equal(resumed.last[key], whole.last[key]) for key in whole.last)


@pytest.mark.parametrize("place", ["forward", "backward", "step"])
def test_an_interrupt_in_the_middle_of_a_step_leaves_the_last_whole_one(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = {**SHORT, "optimiser": "sgd"}

    def fresh() -> nn.Module:
        return sp.build_model("cnn", SOURCES, width=4)

    whole = sp.train(fresh(), SOURCES, recipe=recipe)
    calls = 0
    owner, name = {
        "forward": (nn.Linear, "forward"),  # after the BatchNorm statistics of this step have moved
        "backward": (torch.Tensor, "backward"),
        "step": (torch.optim.SGD, "step"),
    }[place]
    original = getattr(owner, name)

    def interrupted(*arguments: object, **options: object) -> object:
        nonlocal calls
        calls += 1
        result = original(*arguments, **options)
        if calls == 15:
            raise KeyboardInterrupt
        return result

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            sp.train(fresh(), SOURCES, recipe=recipe, checkpoint=tmp_path / "c", checkpoint_seconds=0)
    resumed = sp.train(fresh(), SOURCES, recipe=recipe, checkpoint=tmp_path / "c")
    assert fingerprint(resumed.model) == fingerprint(whole.model)


SCRIPT = """
import sys, torch, shiftproof as sp
from pathlib import Path
from shiftproof.models.files import fingerprint
torch.set_num_threads(int(sys.argv[4]))
sources, _ = sp.load_domains("colored-digits").leave_out("e=0.9")
net = torch.nn.Sequential(torch.nn.Dropout(0.2), sp.build_model(sys.argv[1], sources))
print("ready", flush=True)
fit = sp.train(net, sources, recipe={"steps": 120, "evaluate_every": 15, "batch": 32}, selection=sys.argv[3],
               checkpoint=Path(sys.argv[2]), checkpoint_seconds=0.05)
print(fingerprint(fit.model), fit.selected.step, fit.history[-1]["loss"], fit.threads)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("model", "selection", "threads"), [("mlp", "source-validation", "2"), ("cnn", "last", "1")])
def test_killed_three_times_it_ends_with_the_same_bits(
    model: str, selection: str, threads: str, tmp_path: Path
) -> None:
    def start(checkpoint: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", SCRIPT, model, str(tmp_path / checkpoint), selection, threads]
        # threads that wait asleep: on a busy machine, spinning ones would take the cores from each other
        environment = {**os.environ, "OMP_WAIT_POLICY": "PASSIVE"}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    def finish(process: subprocess.Popen[str]) -> str:
        output, _ = process.communicate(timeout=300)
        assert process.returncode == 0
        return output

    whole = finish(start("whole.ckpt"))
    generator = np.random.default_rng(int.from_bytes(os.urandom(4), "little"))
    steps = []
    for _ in range(3):
        process = start("killed.ckpt")
        checkpoint = tmp_path / "killed.ckpt"
        before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        while process.poll() is None and (not checkpoint.exists() or checkpoint.stat().st_mtime_ns == before):
            time.sleep(0.005)
        time.sleep(generator.uniform(0, 0.15))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        steps.append(torch.load(checkpoint, weights_only=True)["step"])
    assert finish(start("killed.ckpt")) == whole, f"killed after steps {steps}"
    assert steps[0] > 0


def test_a_checkpoint_of_another_run_is_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "c.ckpt"
    sp.train(sp.build_model("mlp", SOURCES), SOURCES, recipe=SHORT, checkpoint=path)
    with pytest.raises(TrainingError, match="another seed"):
        sp.train(sp.build_model("mlp", SOURCES), SOURCES, recipe=SHORT, checkpoint=path, seed=1)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(TrainingError, match="can't be read"):
        read_checkpoint(path, {})


def test_a_resumed_run_keeps_its_thread_count(tmp_path: Path) -> None:
    path = tmp_path / "c.ckpt"
    torch.set_num_threads(2)
    sp.train(sp.build_model("mlp", SOURCES), SOURCES, recipe=SHORT, checkpoint=path)
    torch.set_num_threads(1)
    assert sp.train(sp.build_model("mlp", SOURCES), SOURCES, recipe=SHORT, checkpoint=path).threads == 2
    assert torch.get_num_threads() == 1


def pair(n: int = 60) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.rand(n, 2, 8, 8, generator=generator), torch.randint(0, 2, (n,), generator=generator)


def test_pairs_of_tensors_train() -> None:
    fit = sp.train(sp.build_model("mlp", SOURCES), pair(), recipe=SHORT)
    assert list(fit.history[0]["validation"]) == ["data"]
    both = sp.train(sp.build_model("mlp", SOURCES), {"a": pair(), "b": pair()}, recipe=SHORT)
    assert list(both.history[0]["validation"]) == ["a", "b"]


def test_bad_pairs_and_models_get_a_sentence() -> None:
    inputs, labels = pair()
    model = sp.build_model("mlp", SOURCES)
    for bad, error, sentence in [
        ((inputs * 255, labels), DataError, "Divide by 255"),
        ((inputs, labels + 5), DataError, "run from 5 to 6, but 2 classes allow 0 to 1"),
        ((inputs[:0], labels[:0]), DataError, "no samples"),
        ((inputs[:, :, :4], labels), ModelError, "does not take inputs of shape"),
        ("nonsense", UsageError, "should be a pair"),
        ({}, UsageError, "there is no domain"),
        ([(inputs, labels), (inputs, labels)], UsageError, "should be a pair"),
        ((inputs.flatten(), labels), DataError, "inputs of shape"),
    ]:
        with pytest.raises(error, match=sentence):
            sp.train(model, bad, recipe=SHORT)  # type: ignore[arg-type]
    for arguments, sentence in [
        ({"objective": "erm"}, "an object such as sp.objectives.ERM"),
        ({"objective": sp.objectives.ERM}, "an object such as sp.objectives.ERM"),
        ({"seed": 1.5}, "a whole number of at least 0"),
        ({"seed": -1}, "a whole number of at least 0"),
        ({"recipe": 3}, "it should be a Recipe"),
        ({"recipe": Recipe(steps=0)}, "steps of training is 0"),
        ({"selection": "best"}, "unknown selection 'best'"),
        ({"device": "quantum"}, "can't compute on the device 'quantum'"),
    ]:
        with pytest.raises(UsageError, match=sentence):
            sp.train(model, SOURCES, **arguments)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="no parameter to train"):
        sp.train(nn.Flatten(), SOURCES, recipe=SHORT)
    small = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    with pytest.raises(ModelError, match="3 outputs, but the data has 10 classes"):
        sp.train(small, sp.load_domains("digits"), recipe=SHORT)


def test_a_loss_that_is_not_a_number_stops_training() -> None:
    with pytest.raises(TrainingError, match="try a smaller learning rate"):
        sp.train(sp.build_model("mlp", SOURCES), SOURCES, recipe={**SHORT, "lr": 1e30, "optimiser": "sgd"})


@pytest.mark.parametrize(
    ("recipe", "error", "sentence"),
    [
        ({"step": 3}, UnknownName, "Did you mean 'steps'"),
        ({"steps": 0}, UsageError, "steps of training is 0; it should be greater"),
        ({"steps": "many"}, UsageError, "it should be a valid integer"),
        ({"optimiser": "adm"}, UnknownName, "Did you mean 'adam'"),
        ({"schedule": "cosin"}, UnknownName, "Did you mean 'cosine'"),
    ],
)
def test_bad_recipes_get_a_sentence(recipe: dict[str, object], error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        sp.train(sp.build_model("mlp", SOURCES), SOURCES, recipe=recipe)


@needs_data
def test_erm_trusts_colour_on_colored_mnist() -> None:
    sources, target = sp.load_domains("colored-mnist").leave_out("e=0.9")
    fit = sp.train(sp.build_model("mlp", sources), sources, recipe={"steps": 300})
    assert fit.selected.validation_accuracy > 0.8
    inputs, labels = target.take(np.arange(len(target)))
    with torch.no_grad():
        assert float((fit.model(inputs).argmax(1) == labels).float().mean()) < 0.25
