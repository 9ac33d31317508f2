"""Certificates for edits of words: the engine against the truth, brute force, coverage, and forged ones."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import binom
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.certification.certificates import Votes, certified_rows
from shiftproof.certification.certifier import Job, Memory
from shiftproof.certification.plain_votes import count_votes, noisy_copies, standard_noise
from shiftproof.certification.sampling.budget import budget
from shiftproof.certification.sampling.voting import Voter
from shiftproof.domains import Domain
from shiftproof.domains.texts import text_domain
from shiftproof.errors import ModelError
from shiftproof.evidence import EvidenceStore
from shiftproof.models.prepared.prepare import prepare
from shiftproof.perturbations.edits import edit_distance
from shiftproof.perturbations.noise.noise import draw
from shiftproof.perturbations.text import decode, plain
from shiftproof.probes.certify import Certify
from shiftproof.probes.probe import run_probe
from shiftproof.runs.log_files import certificate_logs
from shiftproof.runs.verification import Case, verify
from shiftproof.runs.verification.edits import edit_texts


class Contains(nn.Module):
    """Class 1 for texts that contain the word A; a vote for it has the probability 1 - q^c with c copies of it."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, rows: Tensor) -> Tensor:
        found = torch.tensor([float("A" in text.split()) for text in decode(rows)], device=rows.device)
        return self.scale * torch.stack([0.5 - found, found - 0.5], 1)


TEXTS = [" ".join(words) for length in range(5) for words in product("Ab", repeat=length)]


def small_domain(texts: list[str]) -> Domain:
    return text_domain("small", texts, [int("A" in text.split()) for text in texts], ["without", "with"])


@pytest.mark.parametrize("q", [0.5, 0.8])
def test_no_certificate_is_broken_by_any_edits(q: float) -> None:
    domain = small_domain(TEXTS)
    certifier = sp.certifiers.RandomizedSmoothing(sp.noise.WordDeletion(q), n=2_000, alpha=1e-5)
    certificates = sp.certify(Contains().eval(), domain, certifier, seed=3, progress="off")
    held = np.flatnonzero(certificates.radius > 0)
    assert len(held) > 10
    if q == 0.8:
        assert np.floor(certificates.radius).max() >= 2
    for row in held.tolist():
        for other in TEXTS:
            if edit_distance(TEXTS[row].split(), other.split()) <= certificates.radius[row]:
                with_a = 1 - q ** other.split().count("A")
                assert certificates.prediction[row] == int(with_a > 0.5), (TEXTS[row], other)


def test_coverage_over_many_repetitions() -> None:
    # one text with 9 copies: p = 1 - .8^9 = .866, which survives 2 edits (.8^2 > 1.5 - p > .8^3)
    # an error of a fifth makes misses visible
    noise, repetitions, n, alpha = sp.noise.WordDeletion(0.8), 2_000, 200, 0.2
    row = small_domain(["A " * 9]).take([0])[0]
    generator, counts = np.random.default_rng(0), []
    for _ in range(repetitions // 100):
        coins = torch.from_numpy(
            np.rint(draw(noise, tuple(row.shape[1:]), 100 * n, generator) * 65_536) / 65_536
        ).float()
        stays = noise.apply(row, coins).any(1).reshape(100, n)
        counts.append(stays.sum(1).numpy())
    count = np.concatenate(counts)
    ones, nothing = np.ones(repetitions, np.int64), np.zeros(repetitions)
    votes = Votes(ones, nothing > 0, count, 0 * ones, n - count, n * ones, nothing)
    rows = certified_rows(noise, votes, n, budget(alpha, 2, runner_up=False, stops_early=False))
    wrong_probability = int((rows["p_lower"] > 1 - 0.8**9).sum())
    assert binom.sf(wrong_probability - 1, repetitions, alpha) > 0.01
    assert wrong_probability > 0.1 * alpha * repetitions, "the error is visible at all"
    too_many = int((np.floor(rows["radius"]) > 2).sum())
    assert binom.sf(too_many - 1, repetitions, alpha) > 0.01


@pytest.mark.parametrize(
    "text", ["a good film", "", plain("two parts", "of a pair"), plain("", "second only"), "née à Köln"]
)
def test_the_engine_and_the_plain_path_thin_alike(text: str) -> None:
    noise, domain = sp.noise.WordDeletion(0.6), text_domain("one", [text, "x"], [0, 1], ["a", "b"])
    row = domain.take([0])[0]
    draws = standard_noise(noise.law, noise.size(domain.shape), 300, np.random.default_rng(1))
    voter = Voter(prepare(Contains().eval(), domain.shape), noise, domain.shape, 2)
    fast = noise.apply(voter.place_image(row), voter.place_noise(draws))
    assert torch.equal(fast, noisy_copies(noise, row[0], draws))
    assert len(set(decode(fast))) > 1 or len(text.split()) < 2


def test_votes_do_not_depend_on_workers_order_or_company() -> None:
    domain = sp.load_domains("signed-reviews")["e=0.9"].subset(range(12))
    model = sp.build_model("text-cnn", domain, seed=1, vocabulary=512, width=8, filters=8).eval()
    certifier = sp.certifiers.RandomizedSmoothing(sp.noise.WordDeletion(0.8), n=300)
    whole = sp.certify(model, domain, certifier, seed=5, progress="off")
    turned = sp.certify(model, domain.subset(range(11, -1, -1)), certifier, seed=5, progress="off")
    apart = sp.certify(model, domain.subset(range(3)), certifier, seed=5, progress="off", workers=2)
    for name in ("count", "chosen", "runner_up_count", "radius"):
        assert np.array_equal(getattr(whole, name), getattr(turned, name)[::-1])
        assert np.array_equal(getattr(whole, name)[:3], getattr(apart, name))
    drawn = standard_noise("uniform", sp.noise.WordDeletion(0.8).size(domain.shape), 4_000, np.random.default_rng(0))
    plain_votes = count_votes(model, sp.noise.WordDeletion(0.8), domain.take([0])[0][0], drawn)
    assert abs(plain_votes[whole.chosen[0]] / 4_000 - whole.count[0] / 300) < 0.12


def test_certified_texts_are_verified_and_forged_ones_are_not() -> None:
    sources, target = sp.load_domains("signed-reviews").leave_out("e=0.9")
    model = sp.build_model("text-cnn", sources, seed=0, vocabulary=1024, width=16, filters=16)
    recipe = {"steps": 60, "batch": 32}
    fit = sp.train(model, sources, sp.objectives.WordDeletion(0.8), recipe=recipe, progress="off", seed=0)
    certifier, domain = sp.certifiers.RandomizedSmoothing(sp.noise.WordDeletion(0.8), n=1_000), target.subset(range(12))
    certificates = sp.certify(fit.model, domain, certifier, seed=1, progress="off")
    assert (certificates.radius >= 1).any()
    job = Job(fit.model, domain, 2, 1, Memory(), progress="off")
    found = {one.code: one.level for one in verify(Case("words", certificates, certifier, job, seed=7, part=4))}
    assert "fail" not in found.values()
    assert found["attacked"] == "pass"
    forged = replace(certificates, radius=certificates.radius + 1.0 * (certificates.radius > 0))
    levels = {one.code: one.level for one in verify(Case("words", forged, certifier, job, seed=7, part=4))}
    assert "fail" in levels.values()


def test_edits_break_a_vote_that_rests_on_one_word() -> None:
    # a certificate that says 3 edits of a text in which one word decides: the search finds it
    texts = ["A " * 3 + "b c d e f"] * 3
    domain, model = small_domain(texts), Contains().eval()
    certifier = sp.certifiers.RandomizedSmoothing(sp.noise.WordDeletion(0.2), n=1_000)
    certificates = sp.certify(model, domain, certifier, seed=1, progress="off")
    assert (np.floor(certificates.radius) == 0).all()
    lied = replace(certificates, radius=np.full(3, 3.0001))
    job = Job(model, domain, 2, 1, Memory(), progress="off")
    classifier = certifier.certified_classifier(job)
    judged = edit_texts(Case("one", lied, certifier, job, seed=1), classifier, lied, domain.take(range(3))[0])
    assert judged.disproved.all()
    honest = edit_texts(
        Case("one", certificates, certifier, job, seed=1), classifier, certificates, domain.tensors()[0]
    )
    assert not honest.disproved.any()


class Width(nn.Module):
    """Tells texts apart by how wide their rows are, which an insertion may change."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, rows: Tensor) -> Tensor:
        wide = float(rows.shape[1] > 11)
        return self.scale * torch.tensor([[1 - wide, wide]]).repeat(len(rows), 1)


@pytest.mark.parametrize(
    ("model", "sentence"),
    [(Width(), "depends on the zeros behind it"), (nn.Linear(11, 2), "reads rows of one width only")],
)
def test_a_model_that_a_longer_text_does_not_meet_is_refused(model: nn.Module, sentence: str) -> None:
    domain = text_domain("d", ["A", "A bb"], [0, 0], ["0", "1"], width=11)
    certifier = sp.certifiers.RandomizedSmoothing(sp.noise.WordDeletion(0.8), n=200)
    with pytest.raises(ModelError, match=sentence):
        sp.certify(model.eval(), domain, certifier, seed=0, progress="off")


def test_a_model_of_text_refuses_images() -> None:
    texts, images = sp.load_domains("signed-reviews"), sp.load_domains("digits")["digits"].subset(range(4))
    model = sp.build_model("text-cnn", texts, width=4, filters=4, vocabulary=64).eval()
    with pytest.raises(ModelError, match="the model reads text, and 'digits' holds image data"):
        sp.certify(model, images, sp.certifiers.RandomizedSmoothing(sp.noise.Gaussian(0.25), n=50), progress="off")
    with pytest.raises(ModelError, match="reads text"):
        sp.train(model, images, progress="off")


def test_people_read_whole_numbers_of_edits(tmp_path: Path) -> None:
    """In the log, in averages and in the flat table; read back, nothing is certified that was not."""
    domain = small_domain(["", "b", "A", "A " * 4, "A " * 9, "A " * 40])
    certifier = sp.certifiers.RandomizedSmoothing(sp.noise.WordDeletion(0.8), n=500)
    certificates = sp.certify(Contains().eval(), domain, certifier, seed=0, progress="off")
    edits = [int(radius) for radius in certificates.radius]
    assert len(set(edits)) > 2
    certificates.to_log(tmp_path / "log.tsv", domain.labels)
    lines = (tmp_path / "log.tsv").read_text().splitlines()[1:]
    assert [line.split("\t")[3] for line in lines] == [f"{k}.000000" for k in edits]
    again = sp.Certificates.from_log(tmp_path / "log.tsv", norm="edits")
    assert (again.radius <= certificates.radius).all()
    assert np.array_equal(again.prediction, certificates.prediction)
    radii = [0, 1, 2, 3, 4]
    reached = [np.mean((certificates.prediction == domain.labels) & (np.array(edits) >= radius)) for radius in radii]
    for one in (certificates, again):
        assert np.allclose(sp.metrics.certified_accuracy(one, domain.labels, radii), reached)
        assert sp.metrics.average_certified_radius(one, domain.labels) == np.mean(
            np.where(certificates.prediction == domain.labels, edits, 0)
        )


def test_the_flat_table_and_logs_of_a_run_say_whole_numbers(tmp_path: Path) -> None:
    domain = small_domain(["", "b b", "A " * 9, "A " * 40])
    probe = Certify(sp.certifiers.RandomizedSmoothing(sp.noise.WordDeletion(0.8), n=500))
    evidence = run_probe(probe, Contains().eval(), domain, EvidenceStore(tmp_path / "evidence"), progress="off")
    inside = evidence[0]["radius"]
    assert (inside % 1 > 0).all(), "where code compares, k edits are below the radius"
    assert evidence.to_arrow().column("radius").to_pylist() == np.floor(inside).tolist()
    (log,) = dict(certificate_logs(evidence)).values()
    assert [line.split("\t")[3] for line in log.decode().splitlines()[1:]] == [f"{int(k)}.000000" for k in inside]
