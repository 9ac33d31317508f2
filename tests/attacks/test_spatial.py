"""Deformations as threats, the search for the worst one, and what it may and may not break."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from smoothed import digits
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.attacks import ATTACKS, Base, Smoothed, craft, overturn
from shiftproof.attacks.spatial import INSIDE, OUTSIDE, Spatial, _grid
from shiftproof.certification.certifier import Memory
from shiftproof.errors import UsageError
from shiftproof.evidence import EvidenceStore
from shiftproof.execution import always_in_workers
from shiftproof.perturbations import Deformation, Threat
from shiftproof.perturbations.balls import as_ball
from shiftproof.perturbations.deformation import as_deformation
from shiftproof.perturbations.noise import as_noise
from shiftproof.probes import PROBES, run_probe
from shiftproof.runs.verification import Case, verify

pytestmark = pytest.mark.usefixtures("brief_examinations")

KINDS = {
    "rotation": 0.3,
    "translation": 0.2,
    "scaling": 0.3,
    "scaling,log=true": 0.3,
    "affine": 0.15,
    "dct": 0.1,
    "dct,k=3": 0.1,
}
PIXEL = 2 / 64


class Side(nn.Module):
    """Class 0 where the left half is brighter."""

    def forward(self, inputs: Tensor) -> Tensor:
        half = inputs.shape[-1] // 2
        return torch.stack([inputs[..., :half].sum((1, 2, 3)), inputs[..., -half:].sum((1, 2, 3))], 1)


class Striped(nn.Module):
    """Class 0 where neighbouring pixels of the middle row differ."""

    def forward(self, inputs: Tensor) -> Tensor:
        middle = inputs[:, 0, 32, 20:45]
        range_ = middle.amax(1) - middle.amin(1)
        return torch.stack([range_, torch.full_like(range_, 0.1)], 1)


# ---------------------------------------------------------------------------------------------------------- threats


@pytest.mark.parametrize(
    ("text", "norm", "units", "parameters"),
    [
        ("rotation:0.3", "angle", "radians", 1),
        ("translation:1/10", "l2", "half image sizes", 2),
        ("scaling:0.2", "factor", "change of the scale factor", 1),
        ("scaling,log=true:2", "log factor", "log of the scale factor", 1),
        ("affine:0.1", "l2", "affine coefficients of positions in half image sizes", 6),
        ("dct:0.1", "l2", "amplitudes in half image sizes", 8),
        ("dct,k=3:0.1", "l2", "amplitudes in half image sizes", 18),
    ],
)
def test_deformations_are_read_from_text(text: str, norm: str, units: str, parameters: int) -> None:
    one = as_ball(text)
    assert isinstance(one, Deformation)
    assert (one.norm, one.units, one.parameters((1, 8, 8))) == (norm, units, parameters)
    assert as_ball(one.spec) == as_deformation(one) == one
    assert one.at(0.05).eps == 0.05
    assert one.at(0.05).kind == one.kind
    assert str(one) == f"{one.kind} {one.eps:g}"


def test_a_threat_of_pixels_has_the_same_surface() -> None:
    threat = as_ball("linf:8/255")
    assert threat == Threat("linf", 8 / 255)
    assert threat.at(0.5) == Threat("linf", 0.5)
    assert (threat.kind, threat.units) == ("linf", "pixel values in [0, 1]")


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: as_ball("rotation:20"), "did you mean 0.3491, which is 20 degrees?"),
        (lambda: as_ball("scaling:1"), "see also scaling,log=true"),
        (lambda: as_ball("rotatn:0.1"), "Did you mean 'rotation'?"),
        (lambda: as_ball("rotation"), "such as rotation:0.3"),
        (lambda: as_ball("rotation:far"), "eps is 'far'"),
        (lambda: as_ball("translation:-1"), "eps is -1.0"),
        (lambda: as_ball("dct,3:0.1"), "'3' of 'dct,3' is no option"),
        (lambda: as_ball("dct,j=3:0.1"), "unknown option of noise 'dct'"),
        (lambda: as_ball(0.3), "the threat is 0.3"),
        (lambda: as_deformation("gaussian:0.1"), "unknown deformation 'gaussian'"),
        (lambda: as_deformation(Threat("l2", 1)), "write one as 'rotation:0.3'"),
        (lambda: Deformation.of(sp.noise.Gaussian(1.0), 0.1), "deforms nothing"),
        (lambda: Spatial("linf:0.1"), "unknown deformation 'linf'"),
        (lambda: Spatial("rotation:0.1", grid=1), "grid of Spatial is 1"),
        (lambda: Spatial("rotation:0.1", rounds=-1), "rounds of Spatial is -1"),
        (lambda: ATTACKS.create("spatial"), "needs a value for 'threat'"),
        (lambda: sp.attacks.PGD(as_ball("rotation:0.1")), "use spatial"),
    ],
)
def test_mistakes_get_a_sentence(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        make()
    assert sentence in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_deformation_does_what_the_noise_does(kind: str) -> None:
    deformation = Deformation(kind, KINDS[kind])
    options = {"log": True} if "log" in kind else {"k": 3} if "k=3" in kind else {}
    noise = as_noise({"name": kind.partition(",")[0], "sigma": 0.2, **options})
    images = digits(3).tensors()[0]
    parameters = 0.1 * torch.ones(3, deformation.parameters((1, 8, 8)))
    assert torch.equal(deformation.apply(images, parameters), noise.apply(images, parameters))
    assert deformation.matches(noise)
    assert Deformation.of(noise, KINDS[kind]) == deformation
    assert not deformation.matches(sp.noise.Gaussian(0.2))
    assert sum(Deformation(other, 0.1).matches(noise) for other in KINDS) == 1


# ----------------------------------------------------------------------------------------------------------- search


@pytest.mark.parametrize("size", [1, 2, 6, 18])
@pytest.mark.parametrize("count", [2, 7, 40])
def test_the_grid_is_in_the_ball_and_reaches_its_surface(size: int, count: int) -> None:
    points, step = _grid(size, count, "l2")
    lengths = np.linalg.norm(points, axis=1)
    assert points.shape[1] == size
    assert len(points) <= 1.3 * count + 4
    assert lengths.max() == pytest.approx(1)
    assert 0 < step <= 2
    if size == 1:
        assert {-1.0, 1.0} <= set(points[:, 0].tolist())


@pytest.mark.parametrize("kind", ["rotation", "translation", "scaling", "scaling,log=true"])
def test_nothing_that_a_dense_grid_finds_is_missed(model: nn.Module, kind: str) -> None:
    domain, deformation = digits(60), Deformation(kind, KINDS[kind])
    inputs, labels = domain.tensors()
    result = sp.attack(model, domain, Spatial(deformation), progress="off")
    dense, _ = _grid(deformation.parameters(domain.shape), 400, "l2")
    lost = torch.zeros(len(domain), dtype=torch.bool)
    for point in torch.from_numpy(dense).float() * deformation.eps:
        lost |= Base(model).answers(deformation.apply(inputs, point.expand(len(domain), -1))) != labels
    missed = int((lost.numpy() & ~result.success).sum())
    assert missed <= 1
    assert result.robust_accuracy < result.clean_accuracy


@pytest.mark.parametrize("kind", KINDS)
def test_the_search_keeps_its_promises(model: nn.Module, kind: str) -> None:
    domain, attack = digits(40), Spatial(f"{kind}:{KINDS[kind]}")
    budgets = [KINDS[kind] * part for part in (0.2, 0.6, 1.0)]
    state = torch.get_rng_state()
    results = sp.attack(model, domain, attack, eps=budgets)
    assert torch.equal(state, torch.get_rng_state())
    inputs = domain.tensors()[0]
    for one, eps in zip(results, budgets, strict=True):
        assert one.threat == attack.threat.at(eps)
        assert one.how == OUTSIDE
        assert one.parameters is not None
        parameters = torch.from_numpy(one.parameters).float()
        assert (one.distance <= eps * (1 + 1e-5)).all()
        assert np.allclose(one.distance, attack.threat.size(parameters).numpy(), atol=1e-6)
        moved = one.distance > 0
        expected = attack.threat.apply(inputs[moved], parameters[moved])
        assert torch.allclose(one.inputs[moved], expected, atol=1e-6)
        assert torch.equal(one.inputs[~moved], inputs[~moved])
        assert np.array_equal(Base(model).answers(one.inputs).numpy(), one.predictions)
    lost = [set(one.ids[one.success]) for one in results]
    assert all(small <= large for small, large in pairwise(lost))
    assert len(lost[-1]) > (results[0].clean != results[0].labels).sum()
    # no company, order, seed or worker changes a sample's result
    some = np.array([31, 4, 17])
    part = sp.attack(model, domain.subset(some), attack, eps=budgets, seed=5)[-1]
    assert np.array_equal(part.predictions, results[-1].predictions[some])
    assert np.allclose(part.parameters, results[-1].parameters[some], atol=1e-6)


@pytest.mark.slow
def test_workers_and_blocks_change_nothing(model: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    attack = Spatial("rotation:0.3")
    whole = sp.attack(model, digits(30), attack)
    monkeypatch.setattr("shiftproof.domains.domain.BLOCK_SAMPLES", 7)
    with always_in_workers():
        spread = sp.attack(model, digits(30), attack, workers=2)
    assert np.array_equal(whole.predictions, spread.predictions)
    assert np.allclose(whole.parameters, spread.parameters, atol=1e-6)
    assert torch.allclose(whole.inputs, spread.inputs, atol=1e-5)


def test_refinement_finds_what_lies_between_the_points_of_the_grid() -> None:
    """A classifier that is wrong in a narrow window of angles, to which the margin leads."""

    class Window(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            middle = inputs.shape[-1] // 2
            # how far the bright line is turned: the higher its right end, the larger the angle
            rows = torch.linspace(1, -1, inputs.shape[-2])[:, None]
            right = inputs[:, 0, :, middle:]
            height = (right * rows).sum((1, 2)) / right.sum((1, 2))
            return torch.stack([torch.zeros_like(height), 0.002 - (height - 0.0877).abs()], 1)

    image = torch.zeros(1, 1, 33, 33)
    image[..., 16, 2:31] = 1
    inside = [sp.attack(Window(), (image, torch.tensor([0])), Spatial("rotation:1", grid=10, rounds=r)) for r in (0, 6)]
    assert [one.robust_accuracy for one in inside] == [1.0, 0.0]


def test_each_sample_has_its_own_radius() -> None:
    image = torch.zeros(2, 1, 9, 9)
    image[..., 3:6, 1:3] = 1
    labels, radii = torch.tensor([0, 0]), torch.tensor([0.1, 1.5])
    found = overturn(Base(Side()), image, labels, Spatial("translation:1"), radii=radii, ids=["a", "b"])
    assert found.answers.tolist() == [0, 1]
    assert (found.distance <= radii * (1 + 1e-5)).all()
    assert torch.equal(
        craft(Base(Side()), image, labels, Spatial("translation:1"), radii=radii, ids="ab"), found.inputs
    )


def test_inputs_that_are_no_images_are_refused() -> None:
    flat = nn.Linear(4, 2)
    with pytest.raises(UsageError, match="can't be deformed"):
        sp.attack(flat, (torch.rand(3, 4), flat(torch.rand(3, 4)).argmax(1)), Spatial("rotation:0.1"))
    with pytest.raises(sp.errors.ModelError, match="not numbers"):
        sp.attack(NotANumber(), (torch.ones(2, 1, 4, 4), torch.zeros(2).long()), Spatial("rotation:0.1"))


class NotANumber(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        turned = inputs.flatten(1).amin(1) < 0.99
        return torch.where(turned[:, None], math.nan, torch.tensor([[1.0, 0.0]]))


# ------------------------------------------------------------------------------------------------ smoothed classifiers


@pytest.mark.parametrize("name", ["rotation", "translation", "scaling", "affine", "dct"])
def test_the_vote_under_its_own_deformation_is_attacked_inside(model: nn.Module, name: str) -> None:
    domain, noise = digits(12), as_noise(f"{name}:0.2")
    attack = Spatial(Deformation.of(noise, KINDS[name]), grid=10, rounds=2)
    result = sp.attack(model, domain, attack, smoothed=noise, samples=4, votes=100)
    assert result.classifier == "smoothed"
    assert result.how == INSIDE
    assert result.robust_accuracy <= result.clean_accuracy
    victim = Smoothed(model, noise, 4, 100)
    counts = victim.counts(domain.tensors()[0], result.parameters)
    tried = result.distance > 0
    assert np.array_equal(counts.argmax(1)[tried], result.predictions[tried])
    pixels = sp.attack(model, domain, attack, smoothed=sp.noise.Gaussian(0.1), samples=2, votes=20)
    assert pixels.how == OUTSIDE


def test_shifts_of_additive_noise_are_changes_of_the_input(model: nn.Module) -> None:
    inputs = digits(3).tensors()[0]
    victim, shift = Smoothed(model, sp.noise.Gaussian(0.2), 4, 60), torch.full((3, 64), 0.05)
    moved = inputs + shift.view(3, 1, 8, 8)
    assert torch.allclose(victim.scores(inputs, shift), victim.scores(moved), atol=1e-4)
    assert np.abs(victim.counts(inputs, shift.double().numpy()) - victim.counts(moved)).max() <= 1


def test_a_certificate_holds_inside_its_interpolation_and_not_outside() -> None:
    """E0.2: half a pixel is well inside the radius, but an image that was moved by it before has lost its stripes."""
    noise = sp.noise.Translation(2 * PIXEL)
    board = (torch.arange(65) % 2).float().expand(1, 1, 65, 65).contiguous()
    domain = sp.Domain.from_arrays("board", board, [0], ["striped", "plain"])
    certificates = sp.certify(Striped().eval(), domain, sp.certifiers.RandomizedSmoothing(noise, n=2_000), seed=0)
    radius = float(certificates.radius[0])
    assert radius > 2 * PIXEL
    # parameters added inside the interpolation: what the certificate speaks of, and can't be broken
    inside = sp.attack(Striped(), domain, Spatial(f"translation:{0.95 * radius}"), smoothed=noise)
    assert inside.how == INSIDE
    assert inside.robust_accuracy == inside.clean_accuracy == 1
    # the same search finds a deformed image on which the network itself, and the vote when it is handed in, are wrong
    outside = sp.attack(Striped(), domain, Spatial(f"translation:{PIXEL}"))
    assert outside.how == OUTSIDE
    assert outside.robust_accuracy == 0
    assert outside.distance[0] < radius
    half = Deformation("translation", PIXEL).apply(board, torch.tensor([[PIXEL / 2, 0.0]]))
    assert Smoothed(Striped(), noise).answers(half).tolist() == [1]
    assert Smoothed(Striped(), noise).answers(board).tolist() == [0]


@pytest.mark.parametrize("name", ["rotation", "translation"])
def test_the_verifier_searches_inside_certified_deformations(name: str) -> None:
    image = torch.zeros(1, 1, 9, 9)
    image[..., 3:6, 1:3] = 1
    noise = as_noise(f"{name}:0.2")
    certifier = sp.certifiers.RandomizedSmoothing(noise, n=1_000)
    domain = sp.Domain.from_arrays("one", image, [0], ["left", "right"])
    certificates = sp.certify(Side().eval(), domain, certifier, seed=0)
    case = Case("side", certificates, certifier, sp.certifiers.Job(Side().eval(), domain, 2, 0, Memory()), 1)
    findings = verify(case)
    assert {one.level for one in findings} == {"pass"}
    assert any("by a search over parameters" in one.message for one in findings)


# ---------------------------------------------------------------------------------------------------- probe and verb


def test_spatial_attacks_are_evidence(model: nn.Module, tmp_path: Path) -> None:
    domain = digits(20)
    probe = PROBES.create("attack", {"attack": {"name": "spatial", "threat": "rotation:0.3"}})
    (rows,) = run_probe(probe, model, domain, EvidenceStore(tmp_path), seed=3)
    called = sp.attack(model, domain, Spatial("rotation:0.3"))
    assert np.array_equal(rows["prediction"], called.predictions)
    assert np.allclose(rows["distance"], called.distance)
    assert (rows.fact("norm"), rows.fact("units")) == ("angle", "radians")
    assert probe.title == "attack, rotation 0.3"


@pytest.fixture(scope="module")
def a_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from shiftproof.cli.main import main

    folder = tmp_path_factory.mktemp("trained") / "model"
    torch.set_num_threads(1)
    fast = ["--set", "training.steps=40", "--set", "model.width=8"]
    with pytest.raises(SystemExit):
        main(
            ["train", "--data", "rotated-digits", "--target", "angle=75", "--model", "cnn", *fast, "--out", str(folder)]
        )
    return folder


def verb(model: Path, *more: object) -> list[object]:
    few = ["--limit", 10, "--workers", 1, "--domain", "angle=0"]
    return ["attack", "--data", "rotated-digits", "--model", f"file:{model}", *few, *more]


def test_the_verb_deforms(run: Callable[..., tuple[int, str, str]], a_model: Path, tmp_path: Path) -> None:
    out = tmp_path / "a"
    code, text, err = run(*verb(a_model, "--threat", "rotation", "--eps", "0.1,0.4", "--out", out, "--json"))
    assert code == 0, err
    result = json.loads(text.splitlines()[-1])
    assert (result["threat"], result["norm"], result["units"]) == ("rotation", "angle", "radians")
    assert result["how"] == OUTSIDE
    assert result["accuracy"]["0.4"] <= result["accuracy"]["0.1"] <= result["clean_accuracy"]
    assert "rotation" in (out / "tables" / "attacked.csv").read_text()
    assert "radians" in (out / "figures" / "attacked.svg").read_text()
    same = ["--threat", "translation:0.1", "--smoothed", "translation:0.1", "--limit", 3, "--set", "attack.grid=6"]
    code, text, err = run(*verb(a_model, *same))
    assert code == 0, err
    assert "inside its one interpolation" in " ".join(text.split())
    assert "half image sizes" in " ".join(text.split())


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (["--threat", "rotation:20"], "which is 20 degrees"),
        (["--threat", "rotatio:0.1"], "Did you mean 'rotation'?"),
        (["--threat", "rotation:0.1", "--attack", "pgd"], "--attack spatial"),
        (["--threat", "rotation:0.1", "--steps", "5"], "steps"),
        (["--threat", "linf:0.1", "--attack", "spatial"], "rotation:0.3"),
    ],
)
def test_the_verb_answers_a_mistake_with_a_sentence(
    run: Callable[..., tuple[int, str, str]], a_model: Path, bad: list[str], sentence: str
) -> None:
    code, out, err = run(*verb(a_model, *bad))
    assert (code, out) == (1, "")
    assert err.startswith("error: ")
    assert sentence in err
    assert err.count("\n") == 1
