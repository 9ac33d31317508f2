"""A balanced limit takes the same number from every class, the same samples whatever else there is, and says so."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from torch import nn

import shiftproof as sp
from shiftproof.cli.show_audit import show_plan
from shiftproof.domains import Domain, Domains
from shiftproof.domains.splits import Balanced, balanced_order, first_samples
from shiftproof.errors import DataNotFound, StudyError, UsageError
from shiftproof.execution import HERE
from shiftproof.probes.attack import Attack
from shiftproof.probes.clean import Clean
from shiftproof.rng import derive
from shiftproof.runs.data import StudyData
from shiftproof.runs.dry_run import prepare_blank
from shiftproof.runs.limits import as_limit, as_prefix, limit_text
from shiftproof.runs.plan import plan_run
from shiftproof.runs.study_files import parse_study

Run = Callable[..., tuple[int, str, str]]
CLASSES = ("cat", "dog", "emu", "fox")


def domain_of(labels: np.ndarray, groups: list[str] | None = None, ids: list[str] | None = None) -> Domain:
    n = len(labels)
    names = [f"image-{k}" for k in range(n)] if ids is None else ids
    return Domain.from_arrays("d", np.zeros((n, 1, 2, 2), np.uint8), labels, CLASSES, ids=names, groups=groups)


def counts_of(domain: Domain) -> list[int]:
    return [int(np.sum(domain.labels == label)) for label in range(len(CLASSES))]


@pytest.mark.parametrize("sample_seed", range(3))
@pytest.mark.parametrize("limit", [1, 3, 4, 10, 41, 99, 160])
def test_counts_of_classes_differ_by_one_at_most(limit: int, sample_seed: int) -> None:
    """Classes of 40 to 400 samples, the rarest first."""
    domain = domain_of(np.repeat(np.arange(4), (40, 400, 120, 60)))
    counts = counts_of(first_samples(domain, Balanced(limit), sample_seed))
    assert sum(counts) == limit
    assert max(counts) - min(counts) <= 1


def test_a_class_that_is_used_up_leaves_its_share_to_the_others() -> None:
    domain = domain_of(np.repeat(np.arange(4), (5, 0, 300, 200)))
    assert counts_of(first_samples(domain, Balanced(60))) in ([5, 0, 28, 27], [5, 0, 27, 28])
    assert first_samples(domain, Balanced(505)) is domain


def test_a_larger_limit_takes_the_same_samples_and_more() -> None:
    domain = domain_of(np.random.default_rng(0).choice(4, 900, p=(0.1, 0.2, 0.3, 0.4)))
    for seed in range(3):
        before: set[str] = set()
        for limit in (2, 3, 50, 100, 200, 700):
            now = set(first_samples(domain, Balanced(limit), seed).ids)
            assert before < now
            before = now
    assert set(first_samples(domain, Balanced(50), 0).ids) != set(first_samples(domain, Balanced(50), 1).ids)
    # a prefix of a limit is that of all
    part = first_samples(domain, Balanced(200))
    assert list(first_samples(part, Balanced(100)).ids) == list(first_samples(domain, Balanced(100)).ids)


def test_of_a_class_those_are_taken_that_a_plain_limit_would_take_of_it_alone() -> None:
    labels = np.random.default_rng(1).integers(0, 4, 300)
    domain = domain_of(labels)
    chosen = first_samples(domain, Balanced(80), 5)
    for label in range(4):
        alone = first_samples(domain.subset(np.flatnonzero(labels == label)), 20, 5)
        assert list(alone.ids) == [one for one, of in zip(chosen.ids, chosen.labels, strict=True) if of == label]


def test_neither_the_order_of_files_nor_other_classes_matter() -> None:
    generator = np.random.default_rng(2)
    labels, order = generator.integers(0, 4, 300), generator.permutation(300)
    ids = [f"image-{k}" for k in range(300)]
    here = first_samples(domain_of(labels, ids=ids), Balanced(30))
    there = first_samples(domain_of(labels[order], ids=[ids[k] for k in order]), Balanced(30))
    assert set(here.ids) == set(there.ids)


def test_every_class_is_as_likely_to_be_the_one_however_many_samples_it_has() -> None:
    domain = domain_of(np.repeat(np.arange(4), (3, 30, 100, 300)))
    firsts = [int(first_samples(domain, Balanced(1), seed).labels[0]) for seed in range(200)]
    assert min(np.bincount(firsts, minlength=4)) > 30


def test_groups_come_one_after_the_other() -> None:
    """Forty patients of one class each, ten images a patient: whole patients, but for the last of a class."""
    patients = np.repeat(np.arange(40), 10)
    domain = domain_of(patients % 4, [f"patient-{one}" for one in patients])
    chosen = first_samples(domain, Balanced(100))
    assert counts_of(chosen) == [25] * 4
    assert chosen.groups is not None
    assert sorted(np.unique(chosen.groups.astype(str), return_counts=True)[1].tolist()) == [5] * 4 + [10] * 8


def test_a_plain_limit_takes_what_it_took() -> None:
    domain = domain_of(np.arange(500) % 4)
    by_hash = sorted(domain.ids, key=lambda one: derive(3, "samples", str(one)))
    assert set(first_samples(domain, 40, 3).ids) == set(by_hash[:40])
    told = ["image-13", "image-22", "image-48", "image-49", "image-7"]
    assert sorted(first_samples(domain_of(np.arange(50) % 4), 5, 0).ids) == told


def test_numbers_have_no_classes_to_balance() -> None:
    domain = Domain.from_arrays("stars", np.zeros((9, 1, 2, 2), np.uint8), np.linspace(0, 1, 9), ())
    with pytest.raises(UsageError, match="labels of 'stars' are numbers.*--limit 100"):
        balanced_order(domain)


class TestLimits:
    @pytest.mark.parametrize("limit", [7, Balanced(7)])
    def test_a_text_of_the_command_line_is_the_same_limit(self, limit: int | Balanced) -> None:
        from shiftproof.cli.options import limit_of

        assert as_limit(limit_of(limit_text(limit))) == limit

    def test_a_prefix_is_for_all_domains_or_by_name(self) -> None:
        assert as_prefix({"balanced": 5}) == Balanced(5)
        assert as_prefix({"photo": {"balanced": 5}, "art": 3, "none": 0}) == {"photo": Balanced(5), "art": 3, "none": 0}

    @pytest.mark.parametrize("wrong", ["0", "balanced:0", "balanced", "-3", "balanced:x", "few:3", "1.5"])
    def test_a_text_that_is_none_is_a_sentence(self, run: Run, wrong: str) -> None:
        code, _, err = run("certify", "--data", "digits", "--model", "x", "--limit", wrong)
        assert code != 0
        assert "balanced:500" in err.replace("\n", " ")

    @pytest.mark.parametrize(
        ("line", "said"),
        [
            ("limit: 0", "line 2: limit is 0; it should be a whole number of at least 1"),
            ("limit: true", "limit is True"),
            ("limit: {balanced: 0}", "limit.balanced is 0"),
            ("limit: {balanced: 1, even: 2}", "limit is {'balanced': 1, 'even': 2}; it should be a number"),
            ("prefix: {photo: {most: 3}}", "prefix.photo is {'most': 3}"),
            ("prefix: {photo: -1}", "prefix.photo is -1"),
        ],
    )
    def test_what_is_no_limit_is_a_sentence(self, line: str, said: str) -> None:
        with pytest.raises(StudyError) as caught:
            parse_study(f"data: digits\n{line}\nmodels: {{a: {{model: mlp}}}}\n", "s.yaml", "s")
        assert said in str(caught.value)


def data_of(**options: Any) -> StudyData:
    sources = Domains("x", [domain_of(np.repeat(np.arange(4), (20, 40, 60, 80)))])
    return StudyData(sources, parts={"d": "all"}, **options)


@pytest.mark.parametrize(
    ("options", "sampled", "n", "few"),
    [
        ({"limit": Balanced(40)}, "balanced", 40, 40),
        ({"limit": Balanced(500)}, "all", 200, 200),
        ({"limit": Balanced(40), "prefix": 8}, "balanced", 40, 8),
        ({"limit": Balanced(40), "prefix": {"d": Balanced(8)}}, "balanced", 40, 8),
        ({"limit": 100, "prefix": Balanced(8)}, "simple", 100, 8),
        ({"prefix": Balanced(8)}, "all", 200, 8),
    ],
)
def test_a_probe_that_takes_long_measures_a_balanced_part(
    options: dict[str, Any], sampled: str, n: int, few: int
) -> None:
    data = data_of(**options)
    attack = Attack(sp.attacks.PGD(sp.Threat.parse("l2:0.1")))
    (measured,), (attacked,) = data.measured_by(Clean()), data.measured_by(attack)
    assert (data.sampled("d"), len(measured), len(attacked)) == (sampled, n, few)
    assert set(attacked.ids) <= set(measured.ids)
    assert data.sampled_of(measured) == {}
    if few < n:
        assert counts_of(attacked) == [2] * 4
        assert data.sampled_of(attacked) == {"sampled": "balanced"}


def tiny() -> nn.Module:
    """For python:test_balanced_samples:tiny: says whether an image is bright."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(128, 2))
    with torch.no_grad():
        model[1].weight.copy_(torch.stack([-torch.ones(128), torch.ones(128)]) / 19)  # type: ignore[operator]
        model[1].bias.copy_(torch.tensor([2.0, -2.0]))  # type: ignore[operator]
    return model.eval()


STUDY = """
data: colored-digits
target: e=0.9
limit: {balanced: 30}
prefix: 12
models: {tiny: {model: "python:test_balanced_samples:tiny", train: false}}
probes: [clean, {name: certify, certifier: {name: randomized-smoothing, noise: "gaussian:0.25", n: 100}}]
"""


def study_of(**changes: Any) -> str:
    document = yaml.safe_load(STUDY)
    return yaml.safe_dump({**document, **changes})


class TestARun:
    def test_says_that_classes_are_balanced_and_is_the_same_again(self, run: Run) -> None:
        Path("s.yaml").write_text(STUDY)
        code, out, err = run("run", "s.yaml", "--workers", 1, "--out", "r")
        assert code == 0, err
        done = sp.open_run("r")
        for one in done.evidence:
            assert one.fact("sampled") == "balanced"
            counts = np.bincount(one["label"])
            assert counts.tolist() == [len(one) // 2] * 2
            assert len(one) == (30 if one.fact("probe") == "clean" else 12)
        assert done.record["study"]["limit"] == {"balanced": 30}
        assert "balanced" in done.record["protocol"]
        sentence = "a share is the mean over classes"
        assert sentence in " ".join(out.split())
        assert sentence in Path("r/report.html").read_text()
        # no shift certificate is one of the domain
        refusals = {one.domain: one.refusal for one in done.content().around}
        assert refusals["e=0.9"] == "samples were balanced by class, so that their shares are not those of the domain"
        assert all(refusals.values())
        assert "mixes" not in done.content().sections
        assert any("--limit balanced:120" in step.text for step in done.content().steps())
        before = {one.fact("probe"): one["seconds"].tolist() for one in done.evidence.where(domain="e=0.9")}
        assert run("run", "s.yaml", "--workers", 1, "--out", "r")[0] == 0
        again = sp.open_run("r").evidence.where(domain="e=0.9")
        assert before == {one.fact("probe"): one["seconds"].tolist() for one in again}
        code, out, err = run("verify", "r", "--part", 1, "--trust")
        assert code == 0, out + err
        code, _, err = run("run", "s.yaml", "--limit", 30, "--workers", 1, "--out", "r")
        assert code == 1
        assert "limit" in err

    def test_is_planned_with_the_counts_of_both(self, capsys: pytest.CaptureFixture[str]) -> None:
        planned = plan_run(parse_study(STUDY, "s.yaml", "s"), "r", progress="off")
        show_plan(planned, HERE, json=False, estimate=False, verbose=False)
        shown = capsys.readouterr().out
        assert "samples  e=0.1 30, e=0.2 30, e=0.9 30" in shown
        assert "for all probes but clean: e=0.1 12, e=0.2 12, e=0.9 12" in shown

    def test_that_was_edited_is_found(self, run: Run) -> None:
        Path("s.yaml").write_text(study_of(probes=["clean"]))
        assert run("run", "s.yaml", "--workers", 1, "--out", "r")[0] == 0
        record = json.loads(Path("r/run.json").read_text())
        for places in record["measured"].values():
            for known in places.values():
                known["sampled"] = "simple"
        Path("r/run.json").write_text(json.dumps(record))
        code, out, _ = run("verify", "r", "--trust")
        assert code != 0
        assert "follows from its study and data: measured" in " ".join(out.split())

    def test_is_typed_or_set_and_compares_with_its_like(self, run: Run) -> None:
        where = ["--data", "colored-digits", "--model", "python:test_balanced_samples:tiny", "--workers", 1]
        certify = ["certify", *where, "--domain", "e=0.9", "--n", 100, "--seed", 1]
        code, out, err = run(*certify, "--limit", "balanced:20", "--out", "a", "--json")
        assert code == 0, err
        assert (json.loads(out)["sampled"], json.loads(out)["images"]) == ("balanced", 20)
        code, out, _ = run(*certify, "--limit", "balanced:10", "--out", "b")
        assert code == 0
        assert run(*certify, "--limit", 20, "--sample-seed", 1, "--out", "c")[0] == 0
        code, _, err = run("compare", "a", "b", "--out", "ab")
        assert code == 1
        assert "limit.balanced 20 and 10" in err
        assert run("compare", "a", "b", "--shared-samples", "--out", "ab")[0] == 0
        assert "limit.balanced 20 and none" in run("compare", "a", "c", "--out", "ac")[2]


@pytest.mark.usefixtures("least_effort", "no_trials", "brief_examinations")
@pytest.mark.parametrize(("limit", "learned"), [(180, False), ({"balanced": 180}, True)])
def test_one_class_for_all_is_judged_on_the_samples_that_were_measured(limit: Any, learned: bool) -> None:
    """Nine of ten samples are cats; who is right on three of four of either class has learned, but in their share."""
    labels = np.repeat([0, 1], (900, 100))
    bright = np.where(np.arange(1_000) % 4 != 0, labels, 1 - labels).astype(np.uint8)
    images = np.repeat(255 * bright, 128).reshape(-1, 2, 8, 8)
    data = Domains("x", [Domain.from_arrays("d", images, labels, ("cat", "dog"))])
    options: dict[str, Any] = {"corruptions": "none", "threats": "l2:0.01", "certifiers": [], "progress": "off"}
    done = sp.audit(tiny(), data, limit=limit, **options, out="r")
    assert ("not-learned" in {one.code for one in done.content().findings}) is not learned
    assert ("mean over classes" in " ".join(done.content().doubts)) is learned


def test_a_dry_run_counts_a_balanced_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As of document 003: 500 images of ImageNet, at most one a class."""
    monkeypatch.setenv("SHIFTPROOF_DATA", str(tmp_path))
    text = "data: {name: imagenet, size: 8}\nlimit: {balanced: 500}\nprefix: 50\nmodels: {a: {model: mlp}}\n"
    study = parse_study(text, "s.yaml", "s")
    dry = prepare_blank(study, DataNotFound("no imagenet"))
    attack = Attack(sp.attacks.PGD(sp.Threat.parse("l2:0.1")))
    assert dry.measured(dry.prepared.data, "imagenet", Clean()) == 500
    assert dry.measured(dry.prepared.data, "imagenet", attack) == 50
