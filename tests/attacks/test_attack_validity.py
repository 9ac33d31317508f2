"""Whether attacks can be trusted: honest models raise no alarm, planted faults do."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.attacks.ensemble import Ensemble
from shiftproof.attacks.pgd import PGD
from shiftproof.attacks.validity import validity_findings
from shiftproof.domains import Domain, Domains
from shiftproof.errors import UsageError
from shiftproof.perturbations import Threat
from shiftproof.types import Finding

CODES = ["input-range", "random-model", "stateful-model", "softmax-outputs", "zero-gradients", "gradient-masking"]
LINF = Threat("linf", 0.1)
elsewhere = pytest.mark.usefixtures("brief_examination")
"""For tests that look at what is found before a model is attacked."""


def digits(classes: int = 10) -> Domain:
    domain = sp.load_domains("digits")["digits"]
    chosen = domain.subset(np.flatnonzero(domain.labels < classes))
    return Domain.from_arrays("digits", chosen.tensors()[0], chosen.labels, [str(i) for i in range(classes)])


def trained(name: str, objective: object, classes: int = 10, **options: object) -> nn.Module:
    torch.set_num_threads(1)
    domains = Domains("digits", [digits(classes)])
    return sp.train(sp.build_model(name, domains, **options), domains, objective, recipe={"steps": 120}).model


def findings(model: nn.Module, threat: Threat = LINF, kinds: int = 10, **options: object) -> dict[str, Finding]:
    few = digits(kinds).subset(np.arange(32))
    inputs, labels = few.tensors()
    return {one.code: one for one in validity_findings(model, inputs, labels, few.ids, threat, **options)}


@pytest.fixture(scope="module")
def honest() -> nn.Module:
    return trained("cnn", sp.objectives.ERM(), width=8)


@pytest.mark.parametrize(
    ("name", "objective", "classes", "threat"),
    [
        ("mlp", sp.objectives.ERM(), 10, LINF),
        ("mlp", sp.objectives.ERM(), 2, Threat("l2", 1.0)),
        ("mlp-cayley", sp.objectives.ERM(), 10, Threat("l2", 0.5)),
        pytest.param("cnn-cayley", sp.objectives.ERM(), 10, LINF, marks=pytest.mark.slow),
        pytest.param("cnn", sp.objectives.Gaussian(0.25), 10, LINF, marks=pytest.mark.slow),
        pytest.param("cnn", sp.objectives.AdversarialTraining("linf:0.1", steps=3), 10, LINF, marks=pytest.mark.slow),
        pytest.param("cnn", sp.objectives.AdversarialTraining("linf:0.1", steps=3), 2, LINF, marks=pytest.mark.slow),
    ],
    ids=lambda value: getattr(value, "norm", None) or (type(value).__name__ if not isinstance(value, str) else value),
)
def test_honest_models_raise_no_alarm(name: str, objective: object, classes: int, threat: Threat) -> None:
    found = findings(trained(name, objective, classes, **({"width": 8} if name == "cnn" else {})), threat, classes)
    assert list(found) == CODES
    assert {one.level for one in found.values()} == {"pass"}, found


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_every_norm_is_checked(honest: nn.Module, norm: str) -> None:
    found = findings(honest, Threat(norm, {"linf": 0.1, "l2": 0.5, "l1": 1.0}[norm]))
    assert {one.level for one in found.values()} == {"pass"}, found
    assert "black box" in found["gradient-masking"].evidence


class Before(nn.Module):
    """Something done to the inputs of a model."""

    def __init__(self, model: nn.Module, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.model, self.change = model, change

    def forward(self, inputs: Tensor) -> Tensor:
        return self.model(self.change(inputs))


class Counter(nn.Module):
    """Outputs that fade from one pass to the next; the count is a buffer or a plain number."""

    def __init__(self, model: nn.Module, buffer: bool) -> None:
        super().__init__()
        self.model = model
        if buffer:
            self.register_buffer("count", torch.zeros(()))
        else:
            self.count = 0

    def forward(self, inputs: Tensor) -> Tensor:
        self.count += 1
        return self.model(inputs) / float(1 + self.count)


def test_quantised_inputs_hide_their_gradients(honest: nn.Module) -> None:
    found = findings(Before(honest, lambda inputs: torch.round(inputs * 8) / 8).eval())
    assert found["zero-gradients"].level == "fail"
    assert found["zero-gradients"].evidence["without gradient"] == found["zero-gradients"].evidence["samples"]
    masking = found["gradient-masking"]
    assert masking.level == "fail"
    assert masking.evidence["black box"]["missed by many steps"] >= 3
    assert masking.evidence["black box"]["chance"] < 0.01
    assert found["random-model"].level == found["stateful-model"].level == "pass"


@elsewhere
def test_probabilities_are_no_logits(honest: nn.Module) -> None:
    found = findings(nn.Sequential(honest, nn.Softmax(1)).eval())
    assert found["softmax-outputs"].level == "fail"
    assert "take the softmax off" in found["softmax-outputs"].message
    assert findings(nn.Sequential(honest, nn.LogSoftmax(1)).eval())["softmax-outputs"].level == "pass"


@elsewhere
def test_very_sure_probabilities_have_no_gradients(honest: nn.Module) -> None:
    class Sure(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = honest

        def forward(self, inputs: Tensor) -> Tensor:
            return (1_000 * self.model(inputs)).softmax(1)

    found = findings(Sure().eval())
    assert found["softmax-outputs"].level == found["zero-gradients"].level == "fail"


def test_noise_inside_is_found(honest: nn.Module) -> None:
    found = findings(Before(honest, lambda inputs: inputs + 0.1 * torch.randn_like(inputs)).eval())
    assert found["random-model"].level == "fail"
    assert found["stateful-model"].level == "pass"
    assert found["gradient-masking"].level == "warn"
    assert "not looked for" in found["gradient-masking"].message


@elsewhere
@pytest.mark.parametrize("buffer", [True, False])
def test_a_model_that_remembers_is_found(honest: nn.Module, buffer: bool) -> None:
    model = Counter(honest, buffer).eval()
    found = findings(model)
    assert found["stateful-model"].level == "fail"
    assert "second pass" in found["stateful-model"].message
    assert ("count" in found["stateful-model"].evidence["changed"]) == buffer
    assert found["random-model"].level == "pass"


def test_batch_statistics_are_found(honest: nn.Module) -> None:
    before = {name: value.clone() for name, value in honest.state_dict().items()}
    honest.train()
    try:
        found = findings(honest)
        assert all(module.training for module in honest.modules())
    finally:
        honest.eval()
    assert found["stateful-model"].level == "fail"
    for text in ("which inputs come together", "a pass changes", "call model.eval()"):
        assert text in found["stateful-model"].message
    # attacks see it in eval mode
    assert found["gradient-masking"].level == "pass"
    assert all(torch.equal(before[name], value) for name, value in honest.state_dict().items())


def test_gradients_that_point_the_wrong_way_are_found(honest: nn.Module) -> None:
    class Backwards(torch.autograd.Function):
        @staticmethod
        def forward(context: object, inputs: Tensor) -> Tensor:
            return inputs.clone()

        @staticmethod
        def backward(context: object, gradient: Tensor) -> Tensor:
            return -gradient

    found = findings(Before(honest, Backwards.apply).eval())
    assert found["zero-gradients"].level == "pass"
    assert found["gradient-masking"].level == "fail"
    assert found["gradient-masking"].evidence["unbounded"]["still right"] > 2


def test_a_model_without_gradients_is_found(honest: nn.Module) -> None:
    class Detached(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            return honest(inputs.detach())

    found = findings(Detached().eval())
    assert found["zero-gradients"].level == "fail"
    assert "no gradient with respect to its input" in found["zero-gradients"].message
    assert found["gradient-masking"].level == "warn"


def test_inputs_out_of_range_are_found(honest: nn.Module) -> None:
    few = digits().subset(np.arange(8))
    inputs, labels = few.tensors()
    found = {one.code: one for one in validity_findings(honest, 2 * inputs - 0.5, labels, few.ids, LINF)}
    assert found["input-range"].level == "fail"
    assert "from -0.5 to 1.5" in found["input-range"].message
    assert found["gradient-masking"].level == "warn"


def test_the_attack_and_the_outputs_are_looked_at_on_demand(honest: nn.Module) -> None:
    weak = findings(honest, attack=PGD(LINF, steps=2, step=0.01), classes=10)
    assert weak["reach"].level == "warn"
    assert weak["class-count"].level == "pass"
    strong = findings(honest, attack=Ensemble(LINF))
    assert strong["attack-reach"].level == "pass"
    assert strong["attack-reach"].message.startswith("ensemble can reach")
    few = digits().subset(np.arange(4))
    inputs, labels = few.tensors()
    levels = {n: next(iter(validity_findings(honest, inputs, labels, few.ids, LINF, classes=n))).level for n in (7, 12)}
    assert levels == {7: "warn", 12: "fail"}


def test_nothing_right_and_nothing_given(honest: nn.Module) -> None:
    few = digits().subset(np.arange(6))
    inputs, labels = few.tensors()
    with torch.no_grad():
        wrong = (honest(inputs).argmax(1) + 1) % 10
    found = {one.code: one for one in validity_findings(honest, inputs, wrong, few.ids, LINF)}
    assert "nothing to attack" in found["gradient-masking"].message
    with pytest.raises(UsageError, match="do not match"):
        list(validity_findings(honest, inputs, labels[:3], few.ids, LINF))


@elsewhere
def test_findings_are_the_same_twice(honest: nn.Module) -> None:
    assert findings(honest) == findings(honest)


@elsewhere
def test_a_very_sure_model_is_not_without_gradients(honest: nn.Module) -> None:
    class Sure(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            return 1_000 * honest(inputs)

    found = findings(Sure())["zero-gradients"]
    assert (found.level, found.evidence["without gradient"]) != ("fail", 32)
    assert found.evidence["without gradient"] == 0


def test_a_rugged_surface_is_found(honest: nn.Module) -> None:
    class Rugged(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            return honest(inputs + 0.1 * torch.sin(1_000 * inputs))

    assert findings(Rugged(), Threat("linf", 0.06))["gradient-masking"].level != "pass"
