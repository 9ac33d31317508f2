"""What every objective promises: conformance, resume, the command line, options, findings, reproductions."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from conftest import needs_data
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.errors import ConformanceError, UsageError
from shiftproof.models.files import fingerprint
from shiftproof.objectives import OBJECTIVES
from shiftproof.perturbations import Threat
from shiftproof.testing import check_objective
from shiftproof.types import Batch, Loss

SOURCES, _ = sp.load_domains("colored-digits").leave_out("e=0.9")
TEXTS, _ = sp.load_domains("signed-reviews").leave_out("e=0.9")
NAMES = [entry.name for entry in OBJECTIVES]
ADVERSARIAL = [name for name in NAMES if hasattr(OBJECTIVES[name].cls, "attack")]
TINY = {"steps": 6, "evaluate_every": 2, "batch": 8}


def created(name: str) -> Any:
    """An objective whose attacks, if it has any, take three steps: what is promised does not depend on how many."""
    return OBJECTIVES.create(name, {"steps": 3} if name in ADVERSARIAL else {})


@pytest.mark.parametrize("name", NAMES)
def test_objectives_conform(name: str) -> None:
    check_objective(created(name))


def test_the_names_of_the_design_are_there() -> None:
    assert set(NAMES) >= {
        *("erm", "gaussian", "deformation", "adversarial-augmentation", "adversarial-training", "trades", "smoothadv"),
        *("macer", "consistency", "stability", "irm", "glean", "v-rex", "group-dro", "coral"),
        *("transfer-noise", "transfer-adv", "transfer-adv-d", "transfer-adv-s"),
    }
    kept = {name: OBJECTIVES[name].cls.selection for name in NAMES}
    assert {name for name in NAMES if kept[name] == "last"} == {"irm", "glean", "v-rex"}
    assert {name for name in NAMES if kept[name] == "robust-source-validation"} == set(ADVERSARIAL)


class _Cheat(sp.objectives.ERM):
    def loss(self, model: nn.Module, batch: Batch, generator: torch.Generator) -> Loss:
        return Loss(self.total(model, batch))


class _Forgetful(_Cheat):
    def total(self, model: nn.Module, batch: Batch) -> Tensor:
        errors = F.cross_entropy(model(batch.inputs), batch.labels, reduction="none")
        return errors[: len(errors) // 2].mean()


class _Pooled(_Cheat):
    neutral = ({},)

    def total(self, model: nn.Module, batch: Batch) -> Tensor:
        return F.cross_entropy(model(batch.inputs), batch.labels)


class _TrainsAll(_Cheat):
    def total(self, model: nn.Module, batch: Batch) -> Tensor:
        model.requires_grad_(True)
        return F.cross_entropy(model(batch.inputs), batch.labels)


class _LeavesGradients(_Cheat):
    def total(self, model: nn.Module, batch: Batch) -> Tensor:
        total = F.cross_entropy(model(batch.inputs), batch.labels)
        total.backward(retain_graph=True)
        return total


class _Overwrites(_Cheat):
    def total(self, model: nn.Module, batch: Batch) -> Tensor:
        return F.cross_entropy(model(batch.inputs.clamp_(max=0.5)), batch.labels)


class _Global(_Cheat):
    def total(self, model: nn.Module, batch: Batch) -> Tensor:
        return F.cross_entropy(model(batch.inputs + 0.1 * torch.randn_like(batch.inputs)), batch.labels)


class _LeavesItFrozen(_Cheat):
    def total(self, model: nn.Module, batch: Batch) -> Tensor:
        total = F.cross_entropy(model(batch.inputs), batch.labels)
        model.eval()
        return total


class _LooksTwice(_Cheat):
    def total(self, model: nn.Module, batch: Batch) -> Tensor:
        model(batch.inputs)
        return F.cross_entropy(model(batch.inputs), batch.labels)


class _NotNeutral(_Cheat):
    neutral = ({},)

    def total(self, model: nn.Module, batch: Batch) -> Tensor:
        return 1.01 * batch.mean_over_domains(F.cross_entropy(model(batch.inputs), batch.labels, reduction="none"))


class _OnlyTheValueIsNeutral(_Cheat):
    neutral = ({},)

    def total(self, model: nn.Module, batch: Batch) -> Tensor:
        total = batch.mean_over_domains(F.cross_entropy(model(batch.inputs), batch.labels, reduction="none"))
        return 2 * total - total.detach()


@pytest.mark.parametrize(
    ("cheat", "sentence"),
    [
        (_Forgetful, "order of domains"),
        (_Pooled, "that of ERM"),
        (_TrainsAll, "changes which parameters are trained"),
        (_LeavesGradients, "leaves gradients behind"),
        (_Overwrites, "changes the batch"),
        (_Global, "all randomness must come from it"),
        (_LeavesItFrozen, "in another mode"),
        (_LooksTwice, "goes forward 2 times in a step, not 1 times"),
        (_NotNeutral, "that of ERM"),
        (_OnlyTheValueIsNeutral, "the gradient is not that of ERM"),
    ],
)
def test_conformance_finds_an_objective_that_cheats(cheat: type[_Cheat], sentence: str) -> None:
    with pytest.raises(ConformanceError, match=sentence):
        check_objective(cheat())


@pytest.mark.parametrize("name", NAMES)
def test_every_objective_resumes_to_the_same_bits(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    objective = created(name)

    def fit(checkpoint: Path | None = None) -> Any:
        sources = TEXTS if objective.kind == "text" else SOURCES
        model = sp.build_model("text-cnn" if objective.kind == "text" else "cnn", sources, width=2)
        return sp.train(model, sources, objective, recipe=TINY, checkpoint=checkpoint, checkpoint_seconds=0)

    whole, calls, original = fit(), 0, type(objective).loss

    def interrupted(self: Any, model: nn.Module, batch: Batch, generator: torch.Generator) -> Loss:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise KeyboardInterrupt
        return original(self, model, batch, generator)

    with monkeypatch.context() as patch:
        patch.setattr(type(objective), "loss", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fit(tmp_path / "c")
    resumed = fit(tmp_path / "c")
    assert fingerprint(resumed.model) == fingerprint(whole.model)
    assert all(torch.equal(resumed.last[key], whole.last[key]) for key in whole.last)
    assert resumed.history == whole.history


@pytest.mark.parametrize("name", NAMES)
def test_every_objective_trains_from_the_command_line(name: str, run: Callable[..., tuple[int, str, str]]) -> None:
    quick = [f"training.{key}={value}" for key, value in {**TINY, "steps": 2}.items()]
    changes = [argument for change in quick for argument in ("--set", change)]
    text = OBJECTIVES[name].cls.kind == "text"
    data, model = ("signed-reviews", "text-cnn") if text else ("colored-digits", "mlp")
    code, out, err = run(
        *("train", "--data", data, "--target", "e=0.9", "--model", model, "--out", "o", "--json"),
        *("--objective", name, *changes),
    )
    assert code == 0, err
    assert Path("o/model.safetensors").is_file()
    assert f'"rule": "{OBJECTIVES[name].cls.selection}"' in out


def test_an_objective_refuses_data_of_another_kind(run: Callable[..., tuple[int, str, str]]) -> None:
    with pytest.raises(UsageError, match="word-deletion is for text data, and 'colored-digits' holds image data"):
        sp.train(sp.build_model("mlp", SOURCES), SOURCES, sp.objectives.WordDeletion())
    for name in ("gaussian", "consistency", "macer", "smoothadv", "stability", "deformation", "transfer-noise"):
        with pytest.raises(UsageError, match="is for image data, and 'signed-reviews' holds text data"):
            sp.train(sp.build_model("text-cnn", TEXTS, width=2), TEXTS, OBJECTIVES.create(name))
    code, _, err = run(
        "train", "--data", "colored-digits", "--objective", "word-deletion", "--model", "mlp", "--out", "o"
    )
    assert (code, "holds image data" in err) == (1, True), err
    assert not Path("o").exists()


def test_options_are_checked_from_the_command_line(run: Callable[..., tuple[int, str, str]]) -> None:
    for change, sentence in {
        "objective.beta=-1": "beta of objective 'trades' is -1; it should be greater than or equal to 0",
        "objective.betta=1": "Did you mean 'beta'?",
        "objective.threat=linf": "write a norm and a size, such as linf:8/255",
        "objective.steps=0": "steps of objective 'trades' is 0",
    }.items():
        code, _, err = run("train", "--data", "digits", "--objective", "trades", "--set", change)
        assert (code, sentence in err) == (1, True), err


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda o: o.TRADES(beta=-1), "beta of TRADES is -1; it should be greater than or equal to 0"),
        (lambda o: o.TRADES(random_start=False), "trades starts at random"),
        (lambda o: o.MACER(samples=0), "samples of MACER is 0"),
        (lambda o: o.SmoothAdv(sigma=math.nan), "sigma of SmoothAdv is nan; it should be a finite number"),
        (lambda o: o.Gaussian(math.inf), "it should be a finite number"),
        (lambda o: o.AdversarialTraining(step=-1.0), "step of AdversarialTraining is -1.0"),
        (lambda o: o.AdversarialTraining(rule="foo"), "rule of AdversarialTraining is 'foo'"),
        (lambda o: o.AdversarialTraining("linf:8"), "did you mean 8/255"),
        (lambda o: o.TransferNoise(reading="x"), "reading of TransferNoise is 'x'"),
        (lambda o: o.IRM(anneal=-3), "anneal of IRM is -3"),
    ],
)
def test_options_are_checked_in_python(make: Callable[[Any], Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        make(sp.objectives)


def test_a_threat_is_written_as_it_is_read() -> None:
    made = sp.objectives.TRADES("linf:8/255")
    assert made == sp.objectives.TRADES(made.to_config()["threat"])
    assert made.threat == Threat("linf", 8 / 255)


@needs_data
def test_invariance_is_learnt_on_colored_mnist() -> None:
    """A short version of the recipe: colour is unlearnt, which no selection on the sources would have kept."""
    sources, _ = sp.load_domains("colored-mnist").leave_out("e=0.9")
    recipe = {"steps": 90, "batch": 2_000, "evaluate_every": 30, "lr": 2e-3}
    fit = sp.train(sp.build_model("mlp", sources), sources, sp.objectives.IRM(anneal=30), recipe=recipe)
    assert fit.selected.step == 90
    assert fit.history[-1]["penalty"] < fit.history[0]["penalty"] / 4
    assert fit.selected.validation_accuracy < 0.75


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize(("name", "model", "least"), [("irm", "mlp", 0.58), ("glean", "mlp-cayley", 0.60)])
def test_colored_mnist_reproduces(name: str, model: str, least: float) -> None:
    torch.set_num_threads(2)
    sources, target = sp.load_domains("colored-mnist").leave_out("e=0.9")
    fit = sp.train(sp.build_model(model, sources), sources, OBJECTIVES.create(name))
    inputs, labels = target.take(np.arange(len(target)))
    with torch.no_grad():
        assert float((fit.model(inputs).argmax(1) == labels).float().mean()) > least
    if name == "glean":
        certificates = sp.certify(fit.model, target, sp.certifiers.LatentMargin())
        assert sp.metrics.average_certified_radius(certificates, target.labels) > 0.30


@pytest.mark.parametrize(
    ("model", "objective", "change", "code"),
    [
        ("mlp", "glean", "objective.anneal=0", "constant"),
        ("mlp-cayley", "glean", "objective.anneal=0", None),
        ("mlp", "irm", "objective.anneal=1", "never-annealed"),
        ("mlp", "irm", "objective.anneal=0", None),
        ("mlp", "erm", "training.part=head", "untrained-encoder"),
        ("mlp", "trades", "objective.step=0.001", "reach"),
        ("mlp", "adversarial-training", "objective.rule=raw", "raw-steps"),
        ("mlp", "adversarial-training", "objective.steps=2", None),
    ],
)
def test_what_weakens_a_training_is_said(
    model: str, objective: str, change: str, code: str | None, run: Callable[..., tuple[int, str, str]]
) -> None:
    small = ["--set", "training.steps=1", "--set", "training.batch=8", "--set", change, "--out", "o", "--json"]
    code_, out, err = run("train", "--data", "colored-digits", "--model", model, "--objective", objective, *small)
    assert code_ == 0, err
    found = {finding["code"] for finding in json.loads(out)["findings"]}
    weak = {"constant", "no-constant", "reach", "raw-steps", "never-annealed", "one-source", "untrained-encoder"}
    assert found & weak == ({code} if code else set())


@pytest.mark.parametrize("name", ["irm", "glean", "v-rex", "coral", "group-dro"])
def test_one_source_is_nothing_to_compare(name: str, run: Callable[..., tuple[int, str, str]]) -> None:
    small = ["--set", "training.steps=1", "--set", "training.batch=8", "--source", "e=0.1", "--out", "o"]
    code, out, _ = run("train", "--data", "colored-digits", "--model", "mlp", "--objective", name, *small)
    assert code == 0
    assert "there is one source, e=0.1" in " ".join(out.split())


@needs_data
@pytest.mark.slow
def test_fashion_mnist_reproduces() -> None:
    """A third of the default steps is enough for half of the images to survive what leaves none of plain training."""
    torch.set_num_threads(2)
    clothes = sp.load_domains("fashion-mnist")
    few = sp.held_out(clothes["fashion-mnist"]).subset(np.arange(500))
    attack = sp.attacks.PGD("linf:0.1", steps=20)

    def robust(objective: Any) -> float:
        fit = sp.train(sp.build_model("cnn", clothes), clothes, objective, recipe={"steps": 300})
        return sp.attack(fit.model, few, attack).robust_accuracy

    assert robust(sp.objectives.AdversarialTraining("linf:0.1")) > robust(sp.objectives.ERM()) + 0.3
