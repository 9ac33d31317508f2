"""Losses, restarts, APGD, Square and the ensemble: closed forms, promises, and a comparison with the reference."""

import dataclasses
import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.attacks import ATTACKS, Attack, Base, Smoothed, craft
from shiftproof.attacks.apgd import APGD, checkpoints
from shiftproof.attacks.ascent import fast_copy
from shiftproof.attacks.ensemble import Ensemble
from shiftproof.attacks.losses import LOSSES, TARGETED, towards
from shiftproof.attacks.pgd import PGD
from shiftproof.attacks.square import Square, window_size
from shiftproof.attacks.victim import frozen
from shiftproof.domains import Domain, Domains
from shiftproof.errors import UsageError
from shiftproof.perturbations import Threat
from shiftproof.perturbations.noise import as_noise
from shiftproof.perturbations.threat import inside
from shiftproof.rng import torch_generator
from shiftproof.testing import check_attack

DUAL = {"l2": 2.0, "linf": 1.0}
SMALL = {"square": {"queries": 400}, "ensemble": {"queries": 200, "steps": 30}, "apgd": {"steps": 40}}


def generator(*keys: str | int) -> torch.Generator:
    return torch_generator(0, "tests of the attack suite", *keys)


def network(shape: tuple[int, ...], classes: int) -> nn.Module:
    """A small network with random weights."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = [nn.Conv2d(shape[0], 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten()]
        return nn.Sequential(*layers, nn.Linear(6 * shape[1] * shape[2], classes)).eval()


def samples(shape: tuple[int, ...], classes: int, count: int = 12) -> tuple[nn.Module, Tensor, Tensor]:
    """A network, inputs, and what it says of them as labels."""
    model, inputs = network(shape, classes), torch.rand(count, *shape, generator=generator(*shape, classes))
    with torch.no_grad():
        # answers are spread over the classes, so that all of them are within reach
        model[-1].bias -= model(inputs).mean(0)
    return model, inputs, Base(model).answers(inputs)


@pytest.fixture(scope="module")
def trained() -> tuple[nn.Module, Domain]:
    """A network that knows the digits and withstands some attacks, and the samples it is tested on."""
    torch.set_num_threads(1)
    digits = sp.load_domains("digits")["digits"]
    rest = Domains("digits", [digits.subset(np.arange(200, len(digits)))])
    objective = sp.objectives.AdversarialTraining("linf:0.1", steps=3)
    fit = sp.train(sp.build_model("cnn", rest, width=8), rest, objective, recipe={"steps": 120})
    return fit.model, digits.subset(np.arange(60))


# -------------------------------------------------------------------------------------------------------- losses


def test_losses_by_hand() -> None:
    scores = torch.tensor([[4.0, 1.0, 3.0, -1.0]], dtype=torch.float64)
    label, goal = torch.tensor([0]), torch.tensor([1])
    assert float(LOSSES["margin"](scores, label)) == -1
    assert float(LOSSES["dlr"](scores, label)) == pytest.approx(-1 / 3)
    assert float(LOSSES["ce"](scores, label)) == pytest.approx(float(torch.logsumexp(scores, 1)) - 4)
    assert float(TARGETED["margin"](scores, label, goal)) == -3
    assert float(towards("dlr", goal)(scores, label)) == pytest.approx(-3 / 4)
    assert float(TARGETED["ce"](scores, label, goal)) == pytest.approx(1 - float(torch.logsumexp(scores, 1)))


@pytest.mark.parametrize("classes", [2, 3, 4, 10])
@pytest.mark.parametrize("scale", [0.0, 1.0, 1e6])
def test_losses_are_finite_and_so_are_their_slopes(classes: int, scale: float) -> None:
    scores = scale * torch.randn(5, classes, dtype=torch.float64, generator=generator("scores"))
    labels, goals = torch.zeros(5).long(), torch.ones(5).long()
    for name in LOSSES:
        for losses in (LOSSES[name], towards(name, goals)):
            given = scores.clone().requires_grad_()
            values = losses(given, labels)
            assert values.shape == (5,)
            assert values.isfinite().all()
            assert torch.autograd.grad(values.sum(), given)[0].isfinite().all()


def test_two_classes_have_no_third_logit_and_three_no_fourth() -> None:
    two, three = torch.tensor([[1.0, 3.0]]), torch.tensor([[1.0, 3.0, 0.0]])
    label, goal = torch.tensor([0]), torch.tensor([2])
    assert torch.equal(LOSSES["dlr"](two, label), LOSSES["margin"](two, label))
    assert torch.equal(TARGETED["dlr"](three, label, goal), TARGETED["margin"](three, label, goal))


# ------------------------------------------------------------------------------------------------- closed forms


@pytest.mark.parametrize("norm", DUAL)
@pytest.mark.parametrize(
    "options", [{"loss": "ce"}, {"loss": "margin"}, {"loss": "dlr"}, {"restarts": 2}, {"loss": "dlr", "targets": 5}]
)
def test_apgd_finds_the_worst_of_a_linear_model(norm: str, options: dict[str, object]) -> None:
    """O11: the worst margin is y(w.x + b) - eps |w|_q, with 1/p + 1/q = 1."""
    worst, found = linear_case(norm, APGD(Threat(norm, 0.1), early_exit=False, **options))
    assert found == pytest.approx(worst, abs=1e-5)


@pytest.mark.parametrize("norm", DUAL)
def test_square_finds_no_more_than_there_is_and_nearly_that(norm: str) -> None:
    worst, found = linear_case(norm, Square(Threat(norm, 0.1), queries=1_000, early_exit=False))
    assert worst - 1e-5 <= found <= worst + 0.01


@pytest.mark.parametrize("norm", DUAL)
def test_pgd_with_restarts_and_the_ensemble_find_it_too(norm: str) -> None:
    for attack in (PGD(Threat(norm, 0.1), steps=40, step=0.1, restarts=2), Ensemble(Threat(norm, 0.1), queries=20)):
        worst, found = linear_case(norm, attack)
        assert found == pytest.approx(worst, abs=1e-5)


def linear_case(norm: str, attack: Attack) -> tuple[float, float]:
    """The worst margin of a plane that no change within the ball crosses, and that of what the attack finds."""
    weights, x, bias = torch.tensor([1.0, -2.0, 0.5]), torch.tensor([[0.3, 0.6, 0.4]]), 2.0
    model = nn.Linear(3, 2)
    with torch.no_grad():
        model.weight.copy_(torch.stack([-weights, weights]) / 2)
        model.bias.copy_(torch.tensor([-bias, bias]) / 2)
    label = torch.tensor([1])
    attacked = craft(Base(model), x, label, attack, radii=torch.tensor([attack.threat.eps]), ids=["one"])
    worst = float(x[0] @ weights + bias - attack.threat.eps * torch.linalg.vector_norm(weights, DUAL[norm]))
    assert worst > 0
    return worst, float(attacked[0] @ weights + bias)


# ------------------------------------------------------------------------------------------------------ promises


@pytest.mark.parametrize(
    # the smaller ensemble of test_attacks.py keeps the same promises in every run of the tests
    "name",
    [pytest.param(name, marks=pytest.mark.slow) if name in ("square", "ensemble") else name for name in SMALL],
)
def test_promises_are_kept_in_every_norm(name: str) -> None:
    check_attack(ATTACKS.create(name, {"threat": "linf:0.1", **SMALL[name]}))


@pytest.mark.parametrize("options", [{"restarts": 2}, {"restarts": 2, "early_exit": True}, {"loss": "dlr"}])
def test_pgd_keeps_its_promises_with_new_options(options: dict[str, object]) -> None:
    check_attack(PGD("linf:0.1", **options))


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 9, 6), (2, 1, 5)], ids=str)
@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("name", SMALL)
def test_any_image_and_number_of_classes(name: str, classes: int, shape: tuple[int, ...]) -> None:
    model, inputs, labels = samples(shape, classes)
    for norm in DUAL:
        eps = {"linf": 0.2, "l2": 1.0}[norm]
        few = {"square": {"queries": 40}, "ensemble": {"queries": 40, "steps": 8}, "apgd": {"steps": 8}}[name]
        attack = ATTACKS.create(name, {"threat": Threat(norm, eps), **few})
        result = sp.attack(model, (inputs, labels), attack)
        assert inside(result.inputs - inputs, norm, eps).all()
        assert ((result.inputs >= 0) & (result.inputs <= 1)).all()
        assert result.robust_accuracy < 1


@pytest.mark.parametrize("name", SMALL)
def test_company_and_order_change_nothing(name: str) -> None:
    model, inputs, labels = samples((1, 8, 8), 10)
    attack = ATTACKS.create(name, {"threat": "linf:0.02", **SMALL[name]})
    ids, radii = [f"sample {i}" for i in range(12)], torch.full((12,), 0.02)

    def crafted(rows: list[int]) -> Tensor:
        return craft(Base(model), inputs[rows], labels[rows], attack, radii=radii[rows], ids=[ids[i] for i in rows])

    whole, few = crafted(list(range(12))), [7, 2, 9]
    assert torch.allclose(whole[few], crafted(few), atol=1e-6)
    assert torch.allclose(whole.flip(0), crafted(list(range(12))[::-1]), atol=1e-6)


@pytest.mark.parametrize(
    "attack", [APGD("l2:0.5", 6), APGD("l2:0.5", 4, "dlr", targets=2), PGD("l2:0.5", 4, restarts=2)]
)
def test_the_vote_of_a_noisy_model_is_attacked(attack: Attack) -> None:
    model, inputs, labels = samples((1, 6, 6), 4, 5)
    noise = as_noise("gaussian:0.1")
    for other in (attack, Square("l2:0.5", 10), Ensemble("l2:0.5", steps=3, queries=5)):
        result = sp.attack(model, (inputs, labels), other, smoothed=noise, samples=3, votes=30)
        assert result.classifier == "smoothed"
        assert inside(result.inputs - inputs, "l2", 0.5).all()
    victim = Smoothed(model, noise, samples=3, votes=30)
    start = victim.scores(inputs).gather(1, labels[:, None])
    crafted = craft(victim, inputs, labels, attack, radii=torch.full((5,), 0.5), ids=list("abcde"))
    assert (victim.scores(crafted).gather(1, labels[:, None]) < start).all()


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: PGD("l2:1", restarts=0), "restarts of PGD is 0"),
        (lambda: PGD("l2:1", restarts=3, random_start=False), "3 restarts without a random start are all the same"),
        (lambda: APGD("l2:1", steps=0), "steps of APGD is 0; it should be greater than or equal to 1"),
        (lambda: APGD("l2:1", targets=-1), "targets of APGD is -1; it should be greater than or equal to 0"),
        (lambda: APGD("l2:1", loss="dlrr"), "loss of APGD is 'dlrr'; it should be 'ce', 'margin' or 'dlr'"),
        (lambda: Square("l2:1", queries=0), "queries of Square is 0"),
        (lambda: Square("l2:1", p=1.5), "p of Square is 1.5; it should be less than or equal to 1"),
        (
            lambda: Ensemble("l2:1", version="standart"),
            "version of Ensemble is 'standart'; it should be 'standard' or 'white-box'",
        ),
        (lambda: Ensemble("l2:1", targets=0), "targets of Ensemble is 0; it should be greater than or equal to 1"),
        (lambda: ATTACKS.create("ensemble", {"threat": "l2:1", "queries": "many"}), "queries of attack 'ensemble'"),
        (lambda: ATTACKS.create("square"), "attack 'square' needs a value for 'threat'"),
    ],
)
def test_mistakes_get_a_sentence(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        make()
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


# ------------------------------------------------------------------------------------------------------- members


def test_checkpoints_come_closer() -> None:
    for steps in (1, 5, 20, 100):
        ends = sorted(checkpoints(steps))
        assert all(0 < end <= steps for end in ends)
    gaps = [b - a for a, b in itertools.pairwise([0, *sorted(checkpoints(100))])]
    assert gaps[0] == 22
    assert gaps[:5] == sorted(gaps[:5], reverse=True)


def test_restarts_find_more_and_never_less() -> None:
    model, inputs, labels = samples((1, 8, 8), 10, 20)
    weak = PGD("linf:0.01", steps=1, step=1e-4)
    results = [sp.attack(model, (inputs, labels), dataclasses.replace(weak, restarts=n)) for n in (1, 20)]
    assert not (results[0].success & ~results[1].success).any()
    losses = []
    for one in results:
        with torch.no_grad():
            losses.append(LOSSES["ce"](model(one.inputs).double(), labels))
    assert (losses[1] >= losses[0] - 1e-6).all()
    assert (losses[1] > losses[0]).any()


def test_passes_count_everything() -> None:
    assert PGD("l2:1", steps=10, restarts=3, directions=2).passes == 3 * 11 + 2
    assert APGD("l2:1", steps=10, restarts=2).passes == 22
    assert APGD("l2:1", steps=10, targets=3).passes == 34
    assert Square("l2:1", queries=70).passes == 70
    assert Ensemble("l2:1", steps=10, targets=3, queries=70).passes == 11 + 34 + 70


class Counting(nn.Module):
    """Counts the rows that it is asked about."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.rows = model, 0

    def forward(self, inputs: Tensor) -> Tensor:
        self.rows += len(inputs)
        return self.model(inputs)


@pytest.mark.parametrize("name", SMALL)
def test_what_is_overturned_is_left_alone(name: str) -> None:
    _, inputs, labels = samples((1, 8, 8), 10)
    # without BatchNorm there is no faster copy, which would count for itself
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Counting(nn.Sequential(nn.Flatten(), nn.Linear(64, 10))).eval()
    labels = Base(model).answers(inputs)
    attack = ATTACKS.create(name, {"threat": "linf:1", **SMALL[name]})
    model.rows = 0
    craft(Base(model), inputs, labels, attack, radii=torch.ones(12), ids=list(map(str, range(12))))
    assert model.rows < 12 * attack.passes / 2


def test_windows_shrink() -> None:
    areas = [math.prod(window_size((32, 32), 0.8, done)) for done in np.linspace(0, 1, 50)]
    assert areas == sorted(areas, reverse=True)
    assert areas[0] == 29 * 28
    assert areas[-1] <= 4
    assert window_size((1, 7), 1.0, 0.0) == (1, 7)


def test_square_takes_vectors_and_refuses_what_is_no_image() -> None:
    model, inputs = nn.Linear(20, 3).eval(), torch.rand(6, 20, generator=generator("vectors"))
    labels = Base(model).answers(inputs)
    result = sp.attack(model, (inputs, labels), Square("linf:0.3", 300))
    assert result.robust_accuracy < 1
    square, odd = Square("linf:0.3", 5), torch.rand(2, 4, 5)
    with pytest.raises(UsageError, match=r"inputs are of shape \(4, 5\); this attack takes images"):
        craft(Base(nn.Flatten()), odd, torch.zeros(2).long(), square, radii=torch.full((2,), 0.3), ids="ab")


def test_square_needs_no_gradient() -> None:
    class Steps(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            level = (inputs.flatten(1).mean(1) * 64).round() / 64
            return torch.stack([0.5 - level, level - 0.5], 1).detach()

    inputs = torch.full((4, 1, 8, 8), 0.45)
    result = sp.attack(Steps(), (inputs, torch.zeros(4).long()), Square("linf:0.1", 2_000))
    assert result.robust_accuracy == 0


@pytest.mark.parametrize(
    ("classes", "names"),
    [
        (2, ["apgd-ce", "apgd-margin", "square"]),
        (3, ["apgd-ce", "apgd-t", "square"]),
        (10, ["apgd-ce", "apgd-t", "square"]),
    ],
)
def test_the_ensemble_adapts_to_the_classes(classes: int, names: list[str]) -> None:
    members = Ensemble("linf:0.1").members(classes)
    assert list(members) == names
    assert list(Ensemble("linf:0.1", version="white-box").members(classes)) == names[:2]
    if classes > 2:
        assert members["apgd-t"].targets == min(9, classes - 1)
        assert members["apgd-t"].loss == ("dlr" if classes > 3 else "margin")


def test_the_ensemble_tells_who_overturned_a_sample(trained: tuple[nn.Module, Domain]) -> None:
    model, domain = trained
    inputs, labels = domain.tensors()
    ensemble, eps = Ensemble("linf:0.1", steps=20, queries=30), torch.full((len(inputs),), 0.1)

    def draws() -> list[torch.Generator]:
        return [torch_generator(0, "attack", str(name)) for name in domain.ids]

    with frozen(model):
        traced = ensemble.trace(Base(model), inputs, labels, eps, draws())
        assert torch.equal(traced.inputs, ensemble.run(Base(model), inputs, labels, eps, draws()))
    wrong = (Base(model).answers(traced.inputs) != labels).tolist()
    assert [bool(name) for name in traced.members] == wrong
    assert set(traced.members) <= {"", *ensemble.members(10)}
    assert "apgd-ce" in traced.members
    assert "" in traced.members


def test_the_ensemble_finds_what_its_members_find(trained: tuple[nn.Module, Domain]) -> None:
    model, domain = trained
    ensemble = Ensemble("linf:0.1", steps=20, queries=50)
    found = sp.attack(model, domain, ensemble)
    for member in (APGD("linf:0.1", 20), PGD("linf:0.1", 20, restarts=3)):
        assert found.robust_accuracy <= sp.attack(model, domain, member).robust_accuracy
    assert found.robust_accuracy < found.clean_accuracy


def test_the_copy_that_is_attacked_says_what_the_model_says(trained: tuple[nn.Module, Domain]) -> None:
    model, domain = trained
    inputs, _ = domain.tensors()
    with frozen(model), torch.no_grad():
        quick = fast_copy(Base(model), inputs)
        assert quick.model is not model
        assert torch.allclose(quick.scores(inputs), Base(model).scores(inputs), atol=1e-4)
        assert next(model.parameters()).is_contiguous()
    vote = Smoothed(model, as_noise("gaussian:0.1"))
    assert fast_copy(vote, inputs) is vote


def test_a_network_that_takes_views_is_attacked_as_it_is() -> None:
    class Views(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.features = nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU())
            self.head = nn.Linear(6 * 64, 3)

        def forward(self, inputs: Tensor) -> Tensor:
            return self.head(self.features(inputs).view(-1, 6 * 64))

    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Views().eval()
    inputs = torch.rand(4, 1, 8, 8, generator=generator("views"))
    labels = Base(model).answers(inputs)
    for attack in (PGD("linf:0.5"), APGD("linf:0.5", 10), Square("linf:0.5", 20), Ensemble("linf:0.5", queries=10)):
        assert sp.attack(model, (inputs, labels), attack).clean_accuracy == 1


def test_unknown_names_are_unknown_names() -> None:
    with pytest.raises(UsageError):
        APGD("linf:0.1", loss="mse")


# ----------------------------------------------------------------------------------------------------- reference


@pytest.mark.slow
@pytest.mark.parametrize(("norm", "eps"), [("linf", 0.1), ("l2", 0.5)])
def test_the_ensemble_is_no_weaker_than_the_reference(norm: str, eps: float, trained: tuple[nn.Module, Domain]) -> None:
    reference = pytest.importorskip("pyautoattack")
    model, domain = trained
    inputs, labels = domain.tensors()
    ours = sp.attack(model, domain, Ensemble(Threat(norm, eps))).robust_accuracy
    theirs = reference.AutoAttack(model, norm={"linf": "Linf", "l2": "L2"}[norm], eps=eps, seed=0, device="cpu")
    attacked, _ = theirs.run_standard_evaluation(inputs, labels)
    assert inside(attacked - inputs, norm, eps * 1.001).all()
    assert ours <= float((Base(model).answers(attacked) == labels).double().mean()) + 0.01
