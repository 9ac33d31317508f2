"""What certifiers claim, and what of it an attack refutes."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.certification.certifier import Memory
from shiftproof.certification.certifiers.adapted_classifier import CertifiedLargestRadius, CertifiedSelection
from shiftproof.certification.refute import Claims, refute
from shiftproof.errors import UsageError
from shiftproof.evidence import Evidence, EvidenceStore
from shiftproof.execution import HERE, Journal, always_in_workers
from shiftproof.probes import PROBES, run_probe
from shiftproof.probes.refute import Refute
from shiftproof.testing import check_probe

Adapted, Calibration, Median = sp.certifiers.AdaptedSmoothing, sp.certifiers.Calibration, sp.certifiers.MedianSmoothing


class Interval(nn.Module):
    """Class 0 where |x| < 1, behind a BatchNorm that does nothing: the counter-example to the largest radius of all."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(1, eps=1e-12, affine=False)

    def forward(self, inputs: Tensor) -> Tensor:
        inside = 1 - self.norm(inputs.flatten(1)).abs()
        return torch.cat([inside, -inside], 1)


def adapted(**options: Any) -> sp.certifiers.AdaptedSmoothing:
    """Momentum 0 keeps the statistics, so that nothing but the rule is tested."""
    images = Calibration.of(torch.rand(8, 1, 1, 1, generator=torch.Generator().manual_seed(0)) / 2 + 0.251)
    return Adapted((0.25, 2.0), images, 0.0, **{"n": 20_000, **options})


def points(*values: float, labels: list[int] | None = None) -> sp.Domain:
    inputs = torch.tensor(values).reshape(-1, 1, 1, 1)
    return sp.Domain.from_arrays("line", inputs, labels or [0] * len(values), ["A", "B"])


def measured(probe: Refute, model: nn.Module, domain: sp.Domain, folder: Path, **options: Any) -> Any:
    (one,) = run_probe(probe, model.eval(), domain, EvidenceStore(folder), progress="off", **options)
    return one


def lead(x: float, sigmas: tuple[float, ...] = (0.25, 2.0)) -> float:
    """By how much A's radius exceeds B's where the published rule answers, exactly."""
    scores = [s * norm.ppf(norm.cdf((1 - x) / s) - norm.cdf((-1 - x) / s)) for s in sigmas]
    return float(max(scores) - max(-score for score in scores))


# E3.1


def test_the_largest_radius_of_all_is_refuted(tmp_path: Path) -> None:
    """At 0 it claims A within 0.83 (0.96 with more votes), at 0.6 B within 0.6; the truth flips at 0.3726."""
    published = Refute(adapted(unsound="as-published"), steps=8)
    assert published.title == "refute, adapted 0.25,2, as-published"
    one = measured(published, Interval(), points(0.0, 0.6), tmp_path)
    assert one["prediction"].tolist() == [0, 1]
    assert one["claimed"].tolist() == [True, True]
    assert 0.8 < one["radius"][0] < 0.958
    assert one["radius"][1] > 0.6
    assert one["refuted"].tolist() == [True, True]
    # where it was refuted the other class really wins, and that is within what was claimed
    for place, (x, other) in enumerate(((0.0, -1), (0.6, 1))):
        away = one["distance"][place]
        assert 0 < away <= one["radius"][place]
        assert any(lead(abs(x + side * away)) * other > 0 for side in (-1, 1))
    assert lead(0.36) > 0 > lead(0.38)
    assert one.classifier == "adapted"
    facts = {name: one.fact(name) for name in ("unsound", "norm", "level", "steps", "rule")}
    assert facts == {
        "unsound": "as-published",
        "norm": "l2",
        "level": 1e-6,
        "steps": 8,
        "rule": "adapted 0.25,2, as-published",
    }
    assert one.fact("certifier")["unsound"] == "as-published"


@pytest.mark.parametrize("rule", ["selection", "agreement"])
def test_what_is_sound_of_several_sigmas_is_not_refuted(rule: str, tmp_path: Path) -> None:
    one = measured(Refute(adapted(rule=rule, n0=2_000), steps=8), Interval(), points(0.0, 0.1, 0.6), tmp_path)
    assert not one["refuted"].any()
    assert np.isnan(one["distance"]).all()
    # agreement abstains where sigmas contradict each other
    assert one["claimed"].any() == (rule == "selection")
    assert (one["radius"] > 0).tolist() == one["claimed"].tolist()


def test_who_is_asked_answers_as_the_published_rule_does() -> None:
    """With three classes the largest radius and the largest score differ: half the lead over the second class decides.

    One noise says A 0.6, B 0.39, C 0.01 and the other, of the same scale, A 0.3, B 0.5, C 0.2.
    """
    shares = np.array([[[600, 390, 10]], [[300, 500, 200]]])
    noises = (sp.noise.Gaussian(1.0), sp.noise.Gaussian(1.001))

    @dataclass(frozen=True, eq=False)
    class Counted(CertifiedLargestRadius):
        def ballots(self, inputs: Tensor) -> Any:
            return shares

    def radius(of: list[int]) -> float:
        first, second = sorted(of, reverse=True)[:2]
        return float(norm.ppf((first + 0.5) / 1001) - norm.ppf((second + 0.5) / 1001)) / 2

    rule = Counted(nn.ModuleList([Interval(), Interval()]), noises, votes=1_000)
    here = torch.zeros(1, 1, 1, 1)
    # A leads by 0.266 under the first, B by 0.262 under the second; without a runner-up B claims nothing
    judged = rule.judge(here, np.array([0]), 1e-6)
    assert judged.lead[0] == pytest.approx(radius([600, 390]) - 1.001 * radius([500, 300]), abs=1e-6)
    assert rule.answers(here).tolist() == [0]
    alone = replace(rule, runner_up=False)
    assert alone.judge(here, np.array([0]), 1e-6).lead[0] == pytest.approx(float(norm.ppf(600.5 / 1001)), abs=2e-3)
    assert not judged.disproved.any()
    assert rule.judge(here, np.array([2]), 1e-6).disproved.all()
    assert isinstance(adapted(unsound="as-published").certified_classifier(_job(Interval())), CertifiedLargestRadius)
    assert type(adapted(rule="selection").certified_classifier(_job(Interval()))) is CertifiedSelection


def _job(model: nn.Module) -> sp.certifiers.Job:
    return sp.certifiers.Job(model.eval(), points(0.0), 2, 0, Memory())


# E4.6


@pytest.fixture
def spread() -> sp.SplitModel:
    """f(x) = (x1 - 1/2) 1 in 640 dimensions, under rows of L2 norm 1 whose true constant is 25.3."""
    body, head = nn.Linear(1, 640), nn.Linear(640, 2)
    with torch.no_grad():
        body.weight.fill_(1.0)
        body.bias.fill_(-0.5)
        head.weight.copy_(torch.full((640,), 640**-0.5) * torch.tensor([[1.0], [-1.0]]))
        head.bias.zero_()
    return sp.SplitModel(nn.Sequential(nn.Flatten(), body), head).eval()


def test_rows_of_l2_norm_1_are_refuted_and_the_box_claims_nothing(spread: sp.SplitModel, tmp_path: Path) -> None:
    published = Refute(Median(radius=0.1, unsound="as-published"), steps=5)
    one = measured(published, spread, points(0.55, 0.45, 0.8), tmp_path / "published")
    assert one["radius"].tolist() == [0.1, 0.1, 0.1]
    assert one["prediction"].tolist() == [0, 1, 0]
    assert one["correct"].tolist() == [True, False, True]
    # the median of x1 - 1/2 changes its sign 0.05 away from the first two, and 0.3 from the last
    assert one["refuted"].tolist() == [True, True, False]
    assert (one["distance"][:2] > 0.05).all()
    assert (one["distance"][:2] <= 0.1).all()
    box = measured(Refute(Median(radius=0.1), steps=5), spread, points(0.55, 0.45, 0.8), tmp_path / "box")
    assert box["claimed"].tolist() == [False, False, True]
    assert not box["refuted"].any()


def test_a_median_is_disproved_by_boxes_where_no_class_is_left(spread: sp.SplitModel) -> None:
    classifier = Median(radius=0.1).certified_classifier(_job(spread))
    inputs = torch.tensor([0.45, 0.4999, 0.55]).reshape(-1, 1, 1, 1)
    assert classifier.disproved_at(inputs, np.array([0, 0, 0]), 1e-6).tolist() == [True, False, False]


# controls


@pytest.fixture(scope="module")
def trained() -> tuple[nn.Module, sp.Domain]:
    digits = sp.load_domains("digits")["digits"]
    model = sp.build_model("mlp", digits, width=16)
    fit = sp.train(model, digits, sp.objectives.Gaussian(0.25), recipe={"steps": 60})
    return fit.model.eval(), digits.subset(np.arange(12))


def test_a_sound_certificate_of_a_trained_model_is_not_refuted(
    trained: tuple[nn.Module, sp.Domain], tmp_path: Path
) -> None:
    certifier = sp.certifiers.RandomizedSmoothing(sp.noise.Gaussian(0.25), n=500)
    one = measured(Refute(certifier, steps=6), *trained, tmp_path)
    plain = sp.certify(*trained, certifier, seed=0)
    assert one["radius"].tolist() == plain.radius.tolist()
    assert one["prediction"].tolist() == plain.prediction.tolist()
    assert one["claimed"].sum() >= 6
    assert not one["refuted"].any()


def test_claims_that_are_too_large_are_refuted(trained: tuple[nn.Module, sp.Domain]) -> None:
    """The same with radii of 3, in which lie images of other digits; what is no claim is left alone."""
    model, domain = trained
    certifier = sp.certifiers.RandomizedSmoothing(sp.noise.Gaussian(0.25), n=500)
    classifier = certifier.certified_classifier(sp.certifiers.Job(model, domain, 10, 0, Memory()))
    inputs = domain.tensors()[0]
    classes = classifier.answers(inputs).numpy()
    radii = np.full(12, 3.0)
    radii[:4] = 0.0
    found = refute(classifier, inputs, Claims(classes, radii, "l2"), domain.ids, steps=10, level=1e-6, seed=0)
    assert not found.refuted[:4].any()
    assert found.refuted[4:].sum() >= 6
    assert (found.distance[found.refuted] <= 3).all()
    assert np.isnan(found.distance[~found.refuted]).all()


# the contract of a probe


def test_the_probe_of_the_published_rule_keeps_its_promises() -> None:
    calibration = sp.Domains("others", [points(*(k / 12 + 0.01 for k in range(12)))])
    domain = points(*(k / 10 for k in range(8)))
    certifier = {"name": "adapted-smoothing", "sigmas": [0.25, 2.0], "n": 300, "calibration": 12, "momentum": 0.0}
    probe = PROBES.make({"name": "refute", "certifier": {**certifier, "unsound": "as-published"}, "steps": 2})
    assert probe.calibrates
    check_probe(probe, Interval().eval(), domain, calibration)
    cost = probe.cost(Interval().eval(), domain, HERE)
    assert cost.passes < cost.most_passes == 8 * probe.passes(Interval())


def test_what_a_killed_run_has_done_is_not_done_again(trained: tuple[nn.Module, sp.Domain], tmp_path: Path) -> None:
    probe = Refute(sp.certifiers.RandomizedSmoothing(sp.noise.Gaussian(0.25), n=100), steps=1)
    model, some = trained[0], trained[1].subset(np.arange(5))
    whole = measured(probe, model, some, tmp_path / "whole")
    kept: dict[str, bytes] = {}
    discard = Journal.discard

    def keep(journal: Journal) -> None:
        kept["lines"] = journal.path.read_bytes()
        kept["path"] = str(journal.path.relative_to(tmp_path / "first")).encode()
        discard(journal)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Journal, "discard", keep)
        measured(probe, model, some, tmp_path / "first")
    lines = kept["lines"].splitlines(keepends=True)
    keys = [json.loads(line.partition(b" ")[2]).get("key") for line in lines]
    assert sum(str(key).startswith("claims ") for key in keys) >= 5
    assert "0" in keys
    path = tmp_path / "again" / kept["path"].decode()
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join(lines[:-1]))
    assert _same(measured(probe, model, some, tmp_path / "again"), whole)


@pytest.mark.slow
def test_workers_change_nothing(trained: tuple[nn.Module, sp.Domain], tmp_path: Path) -> None:
    probe = Refute(sp.certifiers.RandomizedSmoothing(sp.noise.Gaussian(0.25), n=100), steps=1)
    model, some = trained[0], trained[1].subset(np.arange(5))
    whole = measured(probe, model, some, tmp_path / "whole")
    with always_in_workers():
        spread = measured(probe, model, some, tmp_path / "workers", compute=replace(HERE, workers=2))
    assert _same(spread, whole)


def _same(one: Any, other: Any) -> bool:
    names = ("id", "prediction", "radius", "claimed", "refuted", "distance")
    return all(np.array_equal(one[name], other[name], equal_nan=name == "distance") for name in names)


@pytest.mark.parametrize(
    ("certifier", "sentence"),
    [
        ({"name": "randomized-smoothing", "noise": "word-deletion:0.8"}, "radii in edits"),
        ({"name": "randomized-smoothing", "noise": "embedding-gaussian:0.2"}, "attacks images in l2, linf or l1"),
        ({"name": "randomized-smoothing", "noise": "rotation:0.2"}, "radii in angle"),
        ({"name": "adapted-smoothing", "sigmas": [0.2], "family": "translation"}, "half image sizes"),
    ],
)
def test_what_is_no_change_of_pixels_is_refused(certifier: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        PROBES.make({"name": "refute", "certifier": certifier})


def test_texts_are_refused() -> None:
    texts = sp.load_domains("signed-reviews")["e=0.9"].subset(np.arange(4))
    model = sp.build_model("text-cnn", texts, width=8).eval()
    with pytest.raises(UsageError, match="signed-reviews|e=0.9"):
        Refute(Median(radius=0.1)).check(model, texts, None)


def test_rows_are_evidence_that_can_be_read_again(tmp_path: Path) -> None:
    store = EvidenceStore(tmp_path)
    probe = Refute(adapted(unsound="as-published", n=2_000), steps=2)
    run_probe(probe, Interval().eval(), points(0.0, 0.6), store, progress="off")
    read: Evidence = store.read()
    assert [one.probe for one in read] == ["refute"]
    assert read[0]["claimed"].dtype == bool
