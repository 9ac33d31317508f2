"""What every objective promises, and what each of them computes, by hand and by closed form."""

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
from shiftproof.attacks.ascent import ascend, attackable
from shiftproof.catalogue import plain_options
from shiftproof.errors import ConformanceError, DataError, ModelError, UsageError
from shiftproof.models.files import fingerprint
from shiftproof.models.gradients import gradient_copy
from shiftproof.objectives import OBJECTIVES
from shiftproof.objectives.annealing import penalised
from shiftproof.objectives.irm import irm_penalty, scale_slopes
from shiftproof.perturbations import Threat
from shiftproof.rng import torch_generator
from shiftproof.testing import check_objective
from shiftproof.types import Batch, Loss

SOURCES, TARGET = sp.load_domains("colored-digits").leave_out("e=0.9")
NAMES = [entry.name for entry in OBJECTIVES]
ADVERSARIAL = [name for name in NAMES if hasattr(OBJECTIVES[name].cls, "attack")]
TINY = {"steps": 6, "evaluate_every": 2, "batch": 8}


def generator(*keys: int) -> torch.Generator:
    return torch_generator(0, "test", *keys)


def batch_of(*parts: tuple[Tensor, Tensor], memory: dict[str, Tensor] | None = None, step: int = 0) -> Batch:
    names = tuple(f"d{index}" for index in range(len(parts)))
    inputs, labels = (torch.cat(tensors) for tensors in zip(*parts, strict=True))
    return Batch(inputs, labels, names, tuple(len(part[1]) for part in parts), step, memory or {})


def linear(weight: list[float], bias: float = 0.0) -> nn.Module:
    """Two classes by the sign of w.x + b: logits (-s/2, s/2)."""
    head = nn.Linear(len(weight), 2)
    with torch.no_grad():
        rows = torch.tensor([weight])
        head.weight.copy_(torch.cat([-rows, rows]) / 2)
        head.bias.copy_(torch.tensor([-bias, bias]) / 2)
    return sp.SplitModel(nn.Flatten(), head)


@pytest.mark.parametrize("name", NAMES)
def test_objectives_conform(name: str) -> None:
    check_objective(OBJECTIVES.create(name))


def test_the_names_of_the_design_are_there() -> None:
    assert set(NAMES) >= {
        *("erm", "gaussian", "deformation", "adversarial-augmentation", "adversarial-training", "trades", "smoothadv"),
        *("macer", "consistency", "stability", "irm", "glean", "v-rex", "group-dro", "coral"),
        *("transfer-noise", "transfer-adv", "transfer-adv-d", "transfer-adv-s"),
    }
    kept = {name: OBJECTIVES[name].cls.selection for name in NAMES}
    assert {name for name in NAMES if kept[name] == "last"} == {"irm", "glean", "v-rex"}
    assert {name for name in NAMES if kept[name] == "robust-source-validation"} == set(ADVERSARIAL)


class _Cheat(sp.objectives.ERM):  # type: ignore[misc, name-defined]
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
    objective = OBJECTIVES.create(name)

    def fit(checkpoint: Path | None = None) -> Any:
        model = sp.build_model("cnn", SOURCES, width=2)
        return sp.train(model, SOURCES, objective, recipe=TINY, checkpoint=checkpoint, checkpoint_seconds=0)

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
    code, out, err = run(
        *("train", "--data", "colored-digits", "--target", "e=0.9", "--model", "mlp", "--out", "o", "--json"),
        *("--objective", name, *changes),
    )
    assert code == 0, err
    assert Path("o/model.safetensors").is_file()
    assert f'"rule": "{OBJECTIVES[name].cls.selection}"' in out


def test_options_are_checked_from_the_command_line(run: Callable[..., tuple[int, str, str]]) -> None:
    for change, sentence in {
        "objective.beta=-1": "beta of objective 'trades' is -1; it should be greater than or equal to 0",
        "objective.betta=1": "Did you mean 'beta'?",
        "objective.threat=linf": "write a norm and a size, such as linf:8/255",
        "objective.steps=0": "steps of objective 'trades' is 0",
    }.items():
        code, _, err = run("train", "--data", "digits", "--objective", "trades", "--set", change)
        assert (code, sentence in err) == (1, True), err


# ---- closed forms

LOGITS = torch.tensor([[2.0, 0.0, -1.0], [1.0, 0.5, 0.0]], dtype=torch.float64)[:, None]
"""Two noisy copies of one input, three classes."""


@pytest.mark.parametrize(
    ("label", "beta", "shortfall"), [(0, 1.0, 0.842731), (0, 16.0, 0.103426), (1, 1.0, 0.0), (1, 16.0, 0.0)]
)
def test_macer(label: int, beta: float, shortfall: float) -> None:
    macer = sp.objectives.MACER(sigma=0.25, weight=12.0, gamma=8.0, beta=beta)
    error, found = macer.parts(LOGITS, torch.tensor([label]))
    assert float(found) == pytest.approx(shortfall, abs=5e-7)
    if label == 0:
        assert float(error) == pytest.approx(0.392839, abs=5e-7)


def test_macer_has_a_gradient_where_the_network_is_sure() -> None:
    logits = torch.tensor([[[40.0, 0.0], [9.0, 0.0], [0.3, 0.0]]], requires_grad=True)
    error, shortfall = sp.objectives.MACER(sigma=0.5).parts(logits, torch.tensor([0, 0, 0]))
    (error.sum() + shortfall.sum()).backward()
    assert bool(logits.grad.isfinite().all())
    assert shortfall.tolist()[:2] == [0.0, 0.0]
    assert float(shortfall[2].detach()) > 0


def test_consistency() -> None:
    error, disagreement, entropy = sp.objectives.Consistency().parts(LOGITS, torch.tensor([0]))
    assert float(error) == pytest.approx(0.425058, abs=5e-7)
    assert float(disagreement) == pytest.approx(0.075663, abs=5e-7)
    assert float(entropy) == pytest.approx(0.841098, abs=5e-7)
    assert float(sp.objectives.Consistency().parts(LOGITS[:1], torch.tensor([0]))[1]) == pytest.approx(0, abs=1e-12)


SCORES = torch.tensor([1.5, -0.5, 2.0, -3.0], dtype=torch.float64)
SIDES = torch.tensor([1, 1, 0, 0])


def test_irm_slope() -> None:
    logits = torch.stack([torch.zeros_like(SCORES), SCORES], 1)
    assert float(scale_slopes(logits, SIDES).mean()) == pytest.approx(0.414227, abs=5e-7)
    scale = torch.ones((), dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(F.cross_entropy(scale * logits, SIDES), scale)
    assert float(slope) == pytest.approx(float(scale_slopes(logits, SIDES).mean()))


def test_the_irm_penalty_is_unbiased_and_the_squared_mean_is_not() -> None:
    draws, size, repeats = generator(), 8, 4_000
    logits = torch.stack([torch.zeros_like(SCORES), SCORES], 1)
    slopes = scale_slopes(logits, SIDES)
    truth, variance = float(slopes.mean() ** 2), float(slopes.var(correction=0))
    chosen = torch.randint(0, 4, (repeats, size), generator=draws)
    batches = [batch_of((logits[rows], SIDES[rows])) for rows in chosen]
    found = np.array([float(irm_penalty(batch.inputs, batch)) for batch in batches])
    squared = np.array([float(scale_slopes(batch.inputs, batch.labels).mean() ** 2) for batch in batches])
    assert abs(found.mean() - truth) < 4 * found.std() / math.sqrt(repeats)
    assert squared.mean() - truth == pytest.approx(variance / size, rel=0.2)
    with pytest.raises(DataError, match="two samples of every domain"):
        irm_penalty(logits[:1], batch_of((logits[:1], SIDES[:1])))


def test_a_penalty_is_annealed() -> None:
    one = torch.tensor(1.0)
    assert float(penalised(one, one, weight=1e4, anneal=5, step=4)) == 2
    assert float(penalised(one, one, weight=1e4, anneal=5, step=5)) == pytest.approx(1 + 1e-4)
    assert float(penalised(one, one, weight=0.5, anneal=5, step=0)) == 1.5


def test_glean_adds_its_noise_to_the_representation() -> None:
    batch = batch_of((torch.rand(64, 1, 1, 2, generator=generator()), torch.ones(64, dtype=torch.int64)))
    seen: list[Tensor] = []

    class Head(nn.Linear):
        def forward(self, inputs: Tensor) -> Tensor:
            seen.append(inputs.detach())
            return super().forward(inputs)

    model = sp.SplitModel(nn.Flatten(), Head(2, 2))
    sp.objectives.GLEAN(sigma=0.5).loss(model, batch, generator())
    assert float((seen[0] - batch.inputs.flatten(1)).std()) == pytest.approx(0.5, rel=0.2)
    for name in ("GLEAN", "CORAL", "TransferAdvD"):
        with pytest.raises(ModelError, match="needs a model with an encoder and a head"):
            getattr(sp.objectives, name)().loss(nn.Sequential(model), batch, generator())


def test_v_rex_and_group_dro_weigh_risks() -> None:
    model = linear([2.0, 0.0])
    easy, hard = torch.tensor([[[[0.9, 0.5]]]]), torch.tensor([[[[0.2, 0.5]]]])
    label = torch.tensor([1])
    risks = [math.log1p(math.exp(-2 * x)) for x in (0.9, 0.2)]
    mean, half = sum(risks) / 2, abs(risks[0] - risks[1]) / 2
    loss = sp.objectives.VREx(weight=0.5).loss(model, batch_of((easy, label), (hard, label)), generator())
    assert loss.total.item() == pytest.approx(mean + 0.5 * half**2, rel=1e-5)

    dro, memory = sp.objectives.GroupDRO(eta=0.5), {}
    for steps in (1, 2):
        loss = dro.loss(model, batch_of((easy, label), (hard, label), memory=memory), generator())
        grown = [math.exp(0.5 * steps * risk) for risk in risks]
        assert loss.total.item() == pytest.approx(sum(g * r for g, r in zip(grown, risks, strict=True)) / sum(grown))
        memory = loss.memory
    # by name: another order of domains means the same weights
    turned = Batch(torch.cat([hard, easy]), label.repeat(2), ("d1", "d0"), (1, 1), 2, memory)
    straight = batch_of((easy, label), (hard, label), memory=memory)
    assert dro.loss(model, turned, generator()).total.item() == pytest.approx(
        dro.loss(model, straight, generator()).total.item()
    )


def test_coral_measures_means_and_covariances() -> None:
    codes = torch.rand(50, 3, generator=generator())
    labels = torch.zeros(50, dtype=torch.int64)
    model = sp.SplitModel(nn.Identity(), nn.Linear(3, 2))

    def difference(other: Tensor) -> float:
        return float(
            sp.objectives.CORAL()
            .loss(model, batch_of((codes, labels), (other, labels)), generator())
            .parts["difference"]
        )

    assert difference(codes) == pytest.approx(0, abs=1e-9)
    assert difference(codes + 0.5) == pytest.approx(0.25, rel=1e-4)
    wider = codes.mean(0) + 2 * (codes - codes.mean(0))
    assert difference(wider) == pytest.approx(float(((4 - 1) * torch.cov(codes.T)).square().mean()), rel=1e-4)


def test_both_readings_of_transfer_noise() -> None:
    batch = batch_of((torch.full((200, 1, 28, 28), 0.5), torch.zeros(200, dtype=torch.int64)))
    seen: list[Tensor] = []
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 2))
    model.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0] - 0.5))
    for reading in ("gauss", "sphere"):
        sp.objectives.TransferNoise(reading=reading, sigma=0.1, eps=0.1).loss(model, batch, generator())
    gauss, sphere = (noise.flatten(1).norm(dim=1) for noise in seen)
    assert float(gauss.mean()) == pytest.approx(2.8, rel=0.01)
    assert torch.allclose(sphere, torch.tensor(0.1), rtol=1e-4)


# ---- attacks inside training


@pytest.mark.parametrize(("norm", "dual"), [("linf", 3.5), ("l2", math.sqrt(5.25))])
@pytest.mark.parametrize(
    "make",
    [
        lambda threat: sp.objectives.AdversarialTraining(threat, steps=3, random_start=False),
        lambda threat: sp.objectives.AdversarialAugmentation(threat, steps=3, random_start=False, clean_weight=0.0),
        lambda threat: sp.objectives.TransferAdv(threat, steps=3, random_start=False),
        lambda threat: sp.objectives.TransferAdvD(threat, steps=3, random_start=False, weight=0.0),
        lambda threat: sp.objectives.SmoothAdv(sigma=0.0, eps=threat.eps, steps=3),
    ],
    ids=["training", "augmentation", "transfer-adv", "transfer-adv-d", "smoothadv"],
)
def test_the_worst_loss_of_a_linear_model_is_reached(make: Callable[[Threat], Any], norm: str, dual: float) -> None:
    objective = make(Threat(norm, 0.1))
    if norm == "linf" and isinstance(objective, sp.objectives.SmoothAdv):
        pytest.skip("SmoothAdv attacks in l2")
    model, point = linear([1.0, -2.0, 0.5], 0.1), torch.tensor([[[[0.3, 0.5, 0.4]]]])
    for label, side in ((1, 1), (0, -1)):
        margin = side * (0.3 - 1.0 + 0.2 + 0.1) - 0.1 * dual
        found = objective.loss(model, batch_of((point, torch.tensor([label]))), generator()).total
        assert found.item() == pytest.approx(math.log1p(math.exp(-margin)), rel=1e-5)


def test_raw_steps_hardly_move_where_the_model_is_sure() -> None:
    """At probability .99 a gradient is .01 long: eight steps of r/4 go 2 % of the way."""
    model = linear([1.0, 0.0])
    with torch.no_grad():
        model.head.bias.copy_(torch.tensor([-1.0, 1.0]) * math.log(99) / 2)
    radius, inputs, labels = 0.01, torch.full((1, 1, 1, 2), 0.5), torch.tensor([1])

    def moved(rule: str) -> float:
        with attackable(model, inputs) as scores:
            points = ascend(
                scores,
                lambda said: F.cross_entropy(said, labels, reduction="none"),
                inputs, Threat("l2", radius), 8, generator(), step=radius / 4, rule=rule, random_start=False,
            )  # fmt: skip
        return float((points - inputs).norm()) / radius

    assert 0.01 < moved("raw") < 0.03
    assert moved("steepest") == pytest.approx(1, rel=1e-4)


@pytest.mark.parametrize("name", ["cnn", "preact-resnet18", "mlp-cayley", "cnn-cayley", "mlp"])
def test_the_copy_that_is_attacked_has_the_gradient_of_the_model(name: str) -> None:
    options = {} if name.startswith("mlp") else {"width": 4}
    model = sp.build_model(name, SOURCES, **options).train()
    inputs = torch.rand(16, *SOURCES.shape, generator=generator())
    model(inputs)
    model.eval()
    copied = gradient_copy(model, inputs)
    assert (copied is model) == (name == "mlp")

    def gradient(of: nn.Module) -> Tensor:
        points = inputs.clone().requires_grad_()
        (found,) = torch.autograd.grad(of(points)[:, 0].sum(), points)
        return found

    assert torch.allclose(gradient(copied), gradient(model), rtol=1e-3, atol=1e-5)


def test_a_model_that_tracing_would_change_is_attacked_as_it_is() -> None:
    class Branching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2)

        def forward(self, inputs: Tensor) -> Tensor:
            hidden = self.norm(self.conv(inputs)).mean((2, 3))
            # for a tracer a size is not a number
            return hidden if inputs.shape[0] > 3 else -hidden

    model, inputs = Branching().eval(), torch.rand(5, 2, 4, 4, generator=generator())
    copied = gradient_copy(model, inputs)
    for count in (5, 2):
        assert torch.allclose(copied(inputs[:count]), model(inputs[:count]), atol=1e-6)


@pytest.mark.parametrize("name", ADVERSARIAL)
def test_attacks_inside_training_leave_statistics_and_dropout_alone(name: str) -> None:
    """BatchNorm counts the passes that train, one for each kind of inputs; dropout is drawn in no other."""
    drawn: list[bool] = []

    class Watched(nn.Dropout):
        def forward(self, inputs: Tensor) -> Tensor:
            drawn.append(self.training)
            return super().forward(inputs)

    norm = nn.BatchNorm2d(2)
    encoder = nn.Sequential(nn.Conv2d(2, 2, 1), norm, Watched(0.5), nn.Flatten())
    model = sp.SplitModel(encoder, nn.Linear(128, 2)).train()
    inputs, labels = SOURCES["e=0.1"].take(np.arange(16))
    OBJECTIVES.create(name).loss(model, batch_of((inputs, labels)), generator())
    passes = 2 if name in ("trades", "adversarial-augmentation", "transfer-adv-d") else 1
    assert int(norm.num_batches_tracked) == sum(drawn) == passes
    assert norm.training


def test_bf16_is_for_the_attack_alone() -> None:
    inputs, labels = SOURCES["e=0.1"].take(np.arange(8))
    model, seen = sp.build_model("mlp", SOURCES), set()
    model.head.register_forward_hook(lambda _module, _inputs, output: seen.add((torch.is_grad_enabled(), output.dtype)))
    loss = sp.objectives.AdversarialTraining(precision="bf16", steps=2).loss(
        model, batch_of((inputs, labels)), generator()
    )
    assert {dtype for _, dtype in seen} == {torch.bfloat16, torch.float32}
    assert loss.total.dtype == torch.float32


# ---- selection


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


# ---- what networks of users do


class _Stashes(nn.Module):
    """Keeps an activation, so that it can't be copied."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2), nn.Linear(128, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        self.kept = self.norm(self.conv(inputs))
        return self.head(self.kept.flatten(1))


class _Views(_Stashes):
    """Views images as rows of numbers, which they are not with their channels last."""

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.norm(self.conv(inputs)).view(len(inputs), 128))


class _Overwriting(_Stashes):
    """Shifts the images that it is given."""

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.norm(self.conv(inputs.sub_(0.5))).flatten(1))


class _Detaching(_Stashes):
    """Has no gradient through its first layers, which fx would not notice."""

    def forward(self, inputs: Tensor) -> Tensor:
        with torch.no_grad():
            hidden = self.norm(self.conv(inputs)).flatten(1)
        return self.head(hidden + inputs.flatten(1))


@pytest.mark.parametrize("network", [_Stashes, _Views, _Overwriting, _Detaching])
@pytest.mark.parametrize("name", ["adversarial-training", "trades", "smoothadv"])
def test_networks_of_users_train_under_attack(network: type[nn.Module], name: str) -> None:
    recipe = {"steps": 3, "evaluate_every": 3, "batch": 8}
    fit = sp.train(network(), SOURCES, OBJECTIVES.create(name), recipe=recipe)
    assert math.isfinite(fit.history[-1]["loss"])


@pytest.mark.parametrize("small", [1.0, 1e-3])
@pytest.mark.parametrize("hook", ["forward", "backward"])
def test_a_copy_is_not_folded_past_a_hook(hook: str, small: float) -> None:
    norm = nn.BatchNorm2d(2)
    model = nn.Sequential(nn.Conv2d(2, 2, 1), norm, nn.ReLU(), nn.Flatten(), nn.Linear(128, 2)).eval()
    with torch.no_grad():
        model[-1].weight *= small
        model[-1].bias *= small
    if hook == "forward":
        norm.register_forward_hook(lambda _module, _inputs, output: -output)
    else:
        norm.register_full_backward_hook(lambda _module, gradients, _outputs: (-gradients[0],))
    inputs = torch.rand(16, *SOURCES.shape, generator=generator())
    copied = gradient_copy(model, inputs)

    def gradient(of: nn.Module) -> Tensor:
        points = inputs.clone().requires_grad_()
        return torch.autograd.grad(of(points)[:, 0].sum(), points)[0]

    assert torch.allclose(copied(inputs), model(inputs), atol=1e-4 * small)
    assert torch.allclose(gradient(copied), gradient(model), atol=1e-4 * small)


def test_the_attack_moves_where_the_network_is_sure() -> None:
    model, inputs, labels = linear([400.0, -300.0]), torch.full((1, 1, 1, 2), 0.5), torch.tensor([1])
    with torch.no_grad():
        model.head.bias.copy_(torch.tensor([-100.0, 100.0]))
    objective = sp.objectives.AdversarialTraining("linf:0.1", steps=2, random_start=False)
    moved = objective.misled(model, batch_of((inputs, labels)), generator()) - inputs
    assert torch.allclose(moved, torch.tensor([[[[-0.1, 0.1]]]]))


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
    assert made == sp.objectives.TRADES(plain_options(made)["threat"])
    assert made.threat == Threat("linf", 8 / 255)


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
