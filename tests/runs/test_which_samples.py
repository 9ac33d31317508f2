"""Which samples are measured: at random, the same for every verb, and said whether the model was trained on them."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import binom
from torch import nn

import shiftproof as sp
from shiftproof.domains import Domain
from shiftproof.domains.splits import first_samples, random_order
from shiftproof.evidence import metrics
from shiftproof.statistics import Sample

Run = Callable[..., tuple[int, str, str]]


# which samples are measured is looked at here, not how hard
pytestmark = pytest.mark.usefixtures("least_effort", "no_trials", "brief_examinations")


def domain_of(correct: np.ndarray, groups: np.ndarray | None = None) -> Domain:
    """Tiny images in the order of their file names; `correct` is where some model is right."""
    n = len(correct)
    names = None if groups is None else [f"patient-{one}" for one in groups]
    return Domain.from_arrays("d", np.zeros((n, 1, 2, 2), np.uint8), np.arange(n) % 2, ["a", "b"], groups=names)


def index_of(domain: Domain) -> np.ndarray:
    return np.array([int(one.split("/")[1]) for one in domain.ids])


class TestALimit:
    def test_takes_other_samples_with_another_seed_and_more_with_a_larger_limit(self) -> None:
        domain = domain_of(np.ones(300))
        chosen = {seed: set(index_of(first_samples(domain, 30, seed))) for seed in range(20)}
        assert all(len(one) == 30 for one in chosen.values())
        assert len({tuple(sorted(one)) for one in chosen.values()}) == 20
        assert chosen[0] < set(index_of(first_samples(domain, 60, 0)))
        assert first_samples(domain, 300) is domain
        assert list(index_of(first_samples(domain, 30))) == sorted(chosen[0])

    def test_interval_holds_where_files_are_sorted(self) -> None:
        """Right on every tenth file and at the end of either class: equal steps would hit all of it or none."""
        correct = np.arange(600) % 10 == 0
        correct[250:300], truth = True, 0.0
        truth, domain = correct.mean(), domain_of(correct)
        held = []
        for seed in range(300):
            estimate = metrics.accuracy(correct[index_of(first_samples(domain, 30, seed))])
            held.append(estimate.low <= truth <= estimate.high)
        assert np.mean(held) >= 0.95

    def test_takes_whole_groups_one_after_the_other(self) -> None:
        groups = np.repeat(np.arange(40), 10)
        domain = domain_of(np.ones(400), groups)
        counts = np.bincount(groups[index_of(first_samples(domain, 75))])
        assert sorted(counts[counts > 0]) == [5, 10, 10, 10, 10, 10, 10, 10]
        order = groups[random_order(domain, 3)]
        assert len(set(order[:10])) == 1

    def test_equal_ids_come_in_the_same_order_elsewhere(self) -> None:
        here = domain_of(np.ones(100))
        there = Domain.from_arrays(
            "elsewhere", np.ones((100, 1, 2, 2), np.uint8), np.zeros(100, np.int64), ["a", "b"], ids=list(here.ids)
        )
        assert list(first_samples(here, 20, 5).ids) == list(first_samples(there, 20, 5).ids)


class TestGroups:
    """All images of a patient are right or wrong together."""

    @pytest.mark.parametrize("groups", [3, 5, 8, 15])
    def test_interval_of_an_accuracy_counts_groups(self, groups: int) -> None:
        """Coverage by enumeration: with so many groups of twelve, the number that are right is binomial."""
        names = np.repeat(np.arange(groups), 12).astype(str)
        intervals = [metrics.accuracy(np.repeat(np.arange(groups) < k, 12), names) for k in range(groups + 1)]
        for p in (0.1, 0.3, 0.5, 0.7, 0.9):
            holds = [one.low <= p <= one.high for one in intervals]
            assert binom.pmf(np.arange(groups + 1), groups, p) @ holds >= 0.94

    def test_interval_of_a_gap_counts_groups(self) -> None:
        def sample(k: int, where: str) -> Sample:
            return Sample(np.repeat(np.arange(6) < k, 9).astype(float), np.repeat([f"{where}{i}" for i in range(6)], 9))

        gaps = [[metrics.gap([sample(i, "s")], sample(j, "t")) for j in range(7)] for i in range(7)]
        for here, there in ((0.9, 0.5), (0.7, 0.7), (0.5, 0.1)):
            holds = [[one.low <= here - there <= one.high for one in row] for row in gaps]
            weights = np.outer(*(binom.pmf(np.arange(7), 6, p) for p in (here, there)))
            assert (weights * holds).sum() >= 0.94

    def test_interval_holds_for_a_limit(self) -> None:
        """Of 200 patients of unequal size, 80 images: ten patients or so."""
        generator = np.random.default_rng(0)
        groups = np.repeat(np.arange(200), generator.integers(2, 15, 200))
        correct = (generator.random(200) < 0.6)[groups]
        domain, truth = domain_of(correct, groups), correct.mean()
        held = []
        for seed in range(150):
            index = index_of(first_samples(domain, 80, seed))
            estimate = metrics.accuracy(correct[index], groups[index])
            held.append(estimate.low <= truth <= estimate.high)
        assert np.mean(held) >= 0.93

    def test_one_group_says_nothing(self) -> None:
        estimate = metrics.accuracy(np.ones(50, bool), ["a"] * 50)
        assert (estimate.low, estimate.high) == (0, 1)


def tiny() -> nn.Module:
    """For python:test_which_samples:tiny: a model of unknown origin."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(48, 2))
    with torch.no_grad():
        model[1].weight.copy_(torch.stack([-torch.ones(48), torch.ones(48)]) / 48)  # type: ignore[union-attr, operator]
        model[1].bias.copy_(torch.tensor([0.45, -0.45]))  # type: ignore[union-attr, operator]
    return model.eval()


class Turned(nn.Module):
    """The same weights, and an answer that depends on a file: code that was edited."""

    def __init__(self) -> None:
        super().__init__()
        self.model = tiny()
        self.sign = -1.0 if Path("edited").exists() else 1.0

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.sign * self.model(inputs)


def turned() -> nn.Module:
    """For python:test_which_samples:turned."""
    return Turned().eval()


@pytest.fixture
def manifest(images: Callable[..., Path], tmp_path: Path) -> str:
    """Two clinics of 16 images, of which four each are marked as test."""
    root = images(count=8, size=4)
    with (tmp_path / "data.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "label", "domain", "split"])
        for path in sorted(root.rglob("*.png")):
            split = "test" if int(path.stem) >= 6 else "train"
            writer.writerow([path.relative_to(tmp_path), path.parent.name, path.parent.parent.name, split])
    return f"folder:{tmp_path / 'data.csv'}"


FOREIGN = ["--model", "python:test_which_samples:tiny", "--workers", 1]
LITTLE = ["--corruptions", "none", "--threat", "l2:0.1", "--n", 100, "--workers", 1]


def test_every_verb_measures_the_same_rows(run: Run, manifest: str) -> None:
    def ids(folder: str) -> set[str]:
        return set(sp.open_run(folder).evidence.get(domain="clinic-b", probe="certify")["id"])

    for number, (more, n) in enumerate([([], 16), (["--split", "train", "--limit", 7], 7)]):
        where = ["--data", manifest, *FOREIGN, *more, "--json"]
        code, out, err = run("certify", *where, "--domain", "clinic-b", "--n", 100, "--out", f"c{number}")
        assert code == 0, err
        certified = json.loads(out)
        attacked = json.loads(run("attack", *where, "--domain", "clinic-b", "--threat", "l2:0.1", "--steps", 2)[1])
        code, out, err = run("audit", *where, *LITTLE, "--target", "clinic-b", "--out", f"a{number}")
        assert code in (0, 2), err
        audited = json.loads(out)["samples"]
        assert certified["images"] == attacked["images"] == audited["clinic-b"]["n"] == audited["clinic-a"]["n"] == n
        how = "simple" if "--limit" in more else "all"
        assert certified["sampled"] == attacked["sampled"] == audited["clinic-b"]["sampled"] == how
        assert ids(f"c{number}") == set(sp.open_run(f"a{number}").evidence.where(domain="clinic-b").column("id"))


def test_what_may_have_been_trained_on_is_said_everywhere(run: Run, manifest: str) -> None:
    where = ["--data", manifest, *FOREIGN]
    audit = ["audit", *where, *LITTLE, "--target", "clinic-b", "--out", "a", "--require", "clean:clinic-a>=0.1"]
    code, out, err = run(*audit, "--verbose")
    assert code in (0, 2), err
    note = "seen in training: unknown"
    table, after = out.split("warn", 1) if "warn" in out else out.split("pass", 1)
    assert table.count(note) >= 2
    assert after.count(note) >= 3, "findings, verdict and requirement"
    result = json.loads(run(*audit, "--json")[1])
    for one in result["measures"]:
        assert one["seen_in_training"] == {"clinic-a": "unknown", "clinic-b": "no"}
        assert one["gap_seen_in_training"] == "unknown"
    assert result["requirements"][0]["seen_in_training"] == "unknown"
    assert note in result["verdict"][0]
    assert Path("a/report.html").read_text().count(note) > 6
    for table in Path("a/tables").glob("*.csv"):
        if table.name in ("around.csv", "mixes.csv", "one-draw.csv"):
            # what may have been trained on feeds no guarantee around a domain
            assert "clinic-a" not in table.read_text()
        elif table.name != "corrupted.csv" and len(table.read_text().splitlines()) > 1:
            assert "unknown" in table.read_text(), table
    code, out, _ = run("certify", *where, "--n", 100)
    assert out.count(note) >= 2


def test_a_record_says_what_was_held_out(run: Run, manifest: str) -> None:
    train = ["train", "--data", manifest, "--source", "clinic-a", "--target", "clinic-b", "--model", "mlp"]
    assert run(*train, "--set", "training.steps=3", "--out", "m")[0] == 0
    where = ["--data", manifest, "--model", "file:m", "--workers", 1, "--json"]
    found = {one["domain"]: one for one in json.loads(run("certify", *where, "--n", 100)[1])["results"]}
    assert (found["clinic-a"]["images"], found["clinic-a"]["seen_in_training"]) == (4, "no")
    assert (found["clinic-b"]["images"], found["clinic-b"]["seen_in_training"]) == (16, "no")
    samples = json.loads(run("audit", *where, *LITTLE, "--target", "clinic-b")[1])["samples"]
    assert (samples["clinic-a"]["n"], samples["clinic-b"]["n"]) == (4, 16)
    assert samples["clinic-a"]["seen_in_training"] == {"m": "no"}
    told = json.loads(run("certify", *where, "--n", 100, "--split", "train", "--domain", "clinic-a")[1])
    assert 1 <= told["images"] < 12
    assert told["seen_in_training"] == "yes"


def test_a_part_that_is_not_there_is_a_sentence(run: Run, images: Callable[..., Path]) -> None:
    images(count=8, size=4)
    code, _, err = run("certify", "--data", "folder:images", *FOREIGN, "--split", "test")
    assert code == 1
    assert "--split held-out" in err
    code, _, err = run("audit", "--data", "folder:images", *FOREIGN, "--split", "tset", "--target", "clinic-b")
    assert code == 1
    assert "test" in err


class TestAnotherModelUnderTheSameWeights:
    MODEL = ("--model", "python:test_which_samples:turned", "--workers", 1)

    def test_is_not_given_the_old_numbers(self, run: Run, images: Callable[..., Path]) -> None:
        images(count=8, size=4)
        where = ["--data", "folder:images", *self.MODEL]
        audit = ["audit", *where, *LITTLE, "--target", "clinic-b", "--json"]
        certify = ["certify", *where, "--n", 100, "--json"]
        code, out, err = run(*audit, "--out", "a")
        assert code in (0, 2), err
        before = json.loads(out)["measures"][0]["value"]["clinic-b"]
        assert run(*audit, "--out", "a")[0] in (0, 2), "the same model continues"
        assert run(*certify)[0] == 0
        Path("edited").touch()
        for command in ([*audit, "--out", "a"], certify):
            code, out, err = run(*command)
            assert (code, out) == (1, "")
            assert "its weights are the same" in err
            assert "choose another --out" in err
        code, out, err = run(*audit, "--out", "b")
        assert code in (0, 2), err
        assert json.loads(out)["measures"][0]["value"]["clinic-b"] == pytest.approx(1 - before)

    def test_is_not_given_the_old_numbers_by_a_study(self, run: Run, images: Callable[..., Path]) -> None:
        images(count=8, size=4)
        Path("s.yaml").write_text(
            "data: folder:images\ntarget: clinic-b\n"
            "models: {m: {model: 'python:test_which_samples:turned', train: false}}\n"
        )
        assert run("run", "s.yaml", "--workers", 1, "--out", "r")[0] == 0
        Path("edited").touch()
        code, _, err = run("run", "s.yaml", "--workers", 1, "--out", "r")
        assert code == 1
        assert "m is not the model" in err
