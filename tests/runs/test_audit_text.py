"""Audits of text: the same samples as they are, edited, corrupted and certified; and verbs on text one by one."""

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import shiftproof as sp
from shiftproof.attacks.word_edits import WordEdits
from shiftproof.certification.certifiers.randomized_smoothing import RandomizedSmoothing
from shiftproof.certification.explain import explain
from shiftproof.display.marks import Dots, Line
from shiftproof.domains import Domain
from shiftproof.domains.texts import texts_of
from shiftproof.errors import UsageError
from shiftproof.perturbations.balls import as_ball
from shiftproof.perturbations.corruptions import TEXT
from shiftproof.perturbations.noise import EmbeddingGaussian, Gaussian, WordDeletion
from shiftproof.perturbations.text import encode
from shiftproof.runs import efforts
from shiftproof.runs.audit import audit_study, prepare_audit, usual_certifiers, usual_threats
from shiftproof.runs.efforts import EFFORTS, _attack, _on_smoothed
from shiftproof.runs.inspect import cut_findings
from shiftproof.runs.run import Run
from shiftproof.runs.sources import ModelSource

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def network() -> nn.Module:
    """A network that reads reviews a little."""
    sources, _ = sp.load_domains("signed-reviews").leave_out("e=0.9")
    network = sp.build_model("text-cnn", sources, width=16, filters=16, vocabulary=512, seed=0)
    recipe = {"steps": 40, "batch": 32, "lr": 1e-2}
    return sp.train(
        network, sources, sp.objectives.WordDeletion(0.8), recipe=recipe, seed=0, progress="off"
    ).model.eval()


@pytest.fixture(scope="module")
def saved(network: nn.Module, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "model.safetensors"
    sp.save_model(network, path)
    return path


@pytest.fixture(scope="module")
def audited(network: nn.Module, tmp_path_factory: pytest.TempPathFactory) -> Run:
    with pytest.MonkeyPatch.context() as patch:
        # the least effort: a look, not an audit
        patch.setattr(efforts, "DEFAULT", EFFORTS[-1])
        sources, target = sp.load_domains("signed-reviews").leave_out("e=0.9")
        out = tmp_path_factory.mktemp("audit") / "run"
        return sp.audit(network, sources, target, limit=5, seed=0, out=out, progress="off")


class Counts(nn.Module):
    """Reads rows of bytes without an encoder: no embedding can be moved."""

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        letters = (rows > 0).sum(1, keepdim=True).float()
        return torch.cat([letters, 40 - letters], 1)


def test_embeddings_are_attacked_where_a_model_has_them(network: nn.Module) -> None:
    reviews = sp.load_domains("signed-reviews")
    for model, threats in ((network, ("edits:3", "embedding-l2:1.0")), (Counts(), ("edits:3",))):
        study = audit_study(reviews, ModelSource.make(model), "model", None, ["e=0.9"], {"limit": 5})
        assert usual_threats(prepare_audit(study)) == threats


def test_models_that_cut_the_same_texts_share_a_sentence() -> None:
    reviews = sp.load_domains("signed-reviews")
    short, other, whole = (
        sp.build_model("text-cnn", reviews, width=8, filters=8, vocabulary=64, length=length) for length in (4, 4, 400)
    )
    (finding,) = cut_findings({"short": short, "other": other, "whole": whole}, [reviews["e=0.9"]])
    assert finding.message.startswith(f"short, other do not read to the end of {len(reviews['e=0.9'])} of")
    (alone,) = cut_findings({"short": short, "whole": whole}, [reviews["e=0.9"]])
    assert alone.message.startswith("short does not read")


def test_an_audit_of_text_asks_all_four_questions_of_the_same_samples(audited: Run) -> None:
    assert [row["kind"] for row in audited.content().measures.figures()] == [
        *("clean", "clean", "attacked", "attacked", "attacked", "corrupted", "certified", "certified"),
    ]
    assert {tuple(sorted(one["id"])) for one in audited.evidence.where(domain="e=0.9")} == {
        tuple(sorted(audited.evidence.where(domain="e=0.9", probe="clean")[0]["id"]))
    }
    attacks = audited.evidence.where(probe="attack")
    sizes = {("edits", 3.0), ("edits", 0.0), ("embedding-l2", 1.0)}
    assert {(one.fact("norm"), one.fact("eps")) for one in attacks} == sizes
    assert {one.fact("norm") for one in attacks.where(classifier="smoothed")} == {"edits"}
    assert {one.classifier for one in attacks} == {"base", "smoothed"}
    assert tuple(audited.evidence.distinct("corruption")[1:]) == TEXT
    (certified,) = {one.fact("noise") for one in audited.evidence.where(probe="certify")}
    assert certified == "word-deletion 0.8"
    assert not audited.broken


def test_what_is_said_of_text_is_not_of_images(audited: Run) -> None:
    audited.export(("html", "json"))
    page = (audited.folder / "report.html").read_text()
    assert "image" not in page.split("</style>")[1]
    # five samples of each domain can't show that the model has learned
    assert audited.verdict[0].startswith("What follows says little (model: ")
    assert "survive an attack of 3 edits" in audited.verdict[1]
    assert "guaranteed within 3 edits" in audited.verdict[1]
    assert re.search(
        r"embedding-l2 1 \([\d.]+( to [\d.]+)? % of the median l2 norm of a text's embeddings", audited.verdict[1]
    )
    assert "certified within 3 edits, word-deletion 0.8" in page
    assert "word-deletion 0.8, radius in edits (words inserted, deleted or replaced), 3 edits at most" in page
    # what was not checked does not pass
    unmade = {"input-range", "zero-gradients", "input-scale", "gradient-masking"}
    assert not {one.code for one in audited.findings} & unmade
    assert "not looked at" not in page


def test_radii_are_whole_numbers_of_edits_up_to_the_cap(audited: Run) -> None:
    series = audited.content().series
    assert audited.content().radii_of(series) == (0.0, 1.0, 2.0, 3.0)
    assert {one.cap for one in series} == {3}
    radii = np.concatenate([one.earned for one in series])
    assert np.allclose(radii[radii >= 0] % 1, 1e-4)
    means = [one.mean_radius() for one in series]
    assert all(
        mean * one.images == pytest.approx(round(mean * one.images)) for mean, one in zip(means, series, strict=True)
    )
    section = audited.content().sections["certified"]
    heads = [heading.text for heading in section.tables()[0].headings]
    assert heads == [
        "model, domain",
        "certified at all",
        "1 edit",
        "2 edits",
        "3 edits",
        *["mean edits"] * 2,
        "abstains",
    ]
    marks = section.charts()[0].panels[0].marks
    lines = [mark for mark in marks if isinstance(mark, Line)]
    # what is drawn at k holds up to k, and no farther
    assert {line.step for line in lines} == {"before"}
    assert {x % 1 for mark in marks for x, _ in mark.points} == {0}
    assert any(isinstance(mark, Dots) and not mark.hidden for mark in marks)


def test_the_report_shows_what_the_attack_changed(audited: Run, network: nn.Module) -> None:
    edited = audited.content().edited_texts
    assert edited
    rows = encode([one.after for one in edited], 256)
    classes = audited.content().classes
    assert [classes[answer] for answer in network(rows).argmax(1)] == [one.answer for one in edited]
    assert all(one.answer != one.label and one.before != one.after for one in edited)
    page = audited.report().read_text()
    assert "<del><span" in page
    for one in edited:
        # what is struck through or underlined stands on the page, text by text
        changed = [piece for piece in one.pieces if piece.kind != "same" and piece.text in page]
        assert changed


def test_texts_are_escaped_in_the_report(tmp_path: Path, network: nn.Module) -> None:
    from shiftproof.domains.texts import text_domain

    texts = ["<script>alert(1)</script> lovely", "awful & <b>rude</b> place", "great food", "a dirty place"]
    domain = text_domain("<i>shop</i>", texts, [1, 0, 1, 0], ["negative", "positive"], width=256)
    options = {"threats": "edits:1", "certifiers": [], "corruptions": "none", "seed": 0, "progress": "off"}
    page = sp.audit(network, domain, out=tmp_path / "run", **options).report().read_text()  # type: ignore[arg-type]
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_the_noise_is_that_of_the_training(saved: Path) -> None:
    record = saved.with_suffix(".json")
    card = json.loads(record.read_text())
    record.write_text(json.dumps({**card, "objective": {"name": "word-deletion", "q": 0.9}}))
    study = audit_study("signed-reviews", ModelSource(f"file:{saved}"), "m", None, ["e=0.9"], {"limit": 4})
    (vote,) = usual_certifiers(prepare_audit(study))
    record.write_text(json.dumps(card))
    assert vote.noise == WordDeletion(0.9)


def test_attacks_of_an_audit_grow_with_the_effort() -> None:
    tried = [_attack(as_ball("edits:2"), effort) for effort in EFFORTS]
    assert all(isinstance(one, WordEdits) for one in tried)
    passes = [one.passes for one in tried]
    assert passes == sorted(passes, reverse=True)
    assert len(set(passes)) == len(passes)
    vote = _on_smoothed(as_ball("edits:2"), WordDeletion(0.8), EFFORTS[1])
    assert vote.attack.passes < tried[1].passes


def test_the_wrong_kind_is_refused_in_a_sentence(network: nn.Module) -> None:
    reviews = sp.load_domains("signed-reviews")["e=0.1"].subset([0, 1])
    digits = sp.load_domains("colored-digits")["e=0.1"].subset([0, 1])
    flat = nn.Sequential(nn.Flatten(), nn.Linear(2 * 8 * 8, 2)).eval()
    smoothing = RandomizedSmoothing(Gaussian(0.25), n=10)
    with pytest.raises(UsageError, match="gaussian 0.25 changes images, and 'e=0.1' holds texts;.*word-deletion:0.8"):
        sp.certify(network, reviews, smoothing)
    with pytest.raises(UsageError, match="word-deletion 0.8 changes texts, and 'e=0.1' holds images;.*gaussian:0.25"):
        sp.certify(flat, digits, RandomizedSmoothing(WordDeletion(0.8), n=10))
    with pytest.raises(UsageError, match="lipschitz-margin certifies changes of images, and 'e=0.1' holds texts"):
        sp.certify(network, reviews, sp.certifiers.LipschitzMargin())
    with pytest.raises(UsageError, match="gaussian 0.25 changes images"):
        sp.attack(network, reviews, WordEdits("edits:1"), smoothed=Gaussian(0.25))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="'fog' corrupts images, and these samples are texts"):
        sp.audit(network, reviews, corruptions="fog", certifiers=[], progress="off")


def test_a_model_that_knows_noise_on_its_embeddings_is_certified_under_both(saved: Path) -> None:
    record = saved.with_suffix(".json")
    card = json.loads(record.read_text())
    record.write_text(json.dumps({**card, "objective": {"name": "embedding-gaussian", "sigma": 0.2}}))
    study = audit_study("signed-reviews", ModelSource(f"file:{saved}"), "m", None, ["e=0.9"], {"limit": 4})
    votes = usual_certifiers(prepare_audit(study))
    record.write_text(json.dumps(card))
    assert [vote.noise for vote in votes] == [WordDeletion(0.8), EmbeddingGaussian(0.2)]


def test_explain_names_word_deletion(network: nn.Module) -> None:
    found = explain(network, sp.load_domains("signed-reviews")["e=0.1"].subset([0, 1]))
    able = [(one.certifier, one.title) for one in found if one.applies]
    names = ["word-deletion 0.8", "embedding-gaussian 0.1"]
    assert able == [("randomized-smoothing", name) for name in names]
    assert "no radius can exceed 3 edits" in next(one.why for one in found if one.applies)
    assert all("word-deletion:0.8" in one.why for one in found if not one.applies)


class TestCommands:
    def test_attack_shows_words(self, run: Call, saved: Path, tmp_path: Path) -> None:
        options = ["--threat", "edits:2", "--eps", "1,2", "--limit", 4, "--workers", 1, "--out", tmp_path / "run"]
        code, out, err = run("attack", "--data", "signed-reviews", "--model", f"file:{saved}", *options)
        assert code == 0, err
        assert "1 edit" in out
        assert "2 edits" in out
        assert "is taken for" in out
        assert "[-" in out or "{+" in out
        assert "image" not in out

    @pytest.mark.parametrize(
        ("told", "cap"),
        [
            ([], "0.9 no radius can exceed 6 edits"),
            (["--noise", "word-deletion"], "0.8 no radius can exceed 3 edits"),
            (["--sigma", "0.95"], "0.95 no radius can exceed 13 edits"),
            (["--set", "noise.q=0.95"], "0.95 no radius can exceed 13 edits"),
        ],
    )
    def test_certify_and_explain_take_the_noise_of_text(
        self, run: Call, saved: Path, tmp_path: Path, told: list[str], cap: str
    ) -> None:
        """By the kind of the data, as strong as the record says that training was, unless told."""
        model = tmp_path / "model.safetensors"
        model.write_bytes(saved.read_bytes())
        card = json.loads(saved.with_suffix(".json").read_text())
        trained = {"objective": {"name": "word-deletion", "q": 0.9}}
        model.with_suffix(".json").write_text(json.dumps({**card, **trained}))
        asked = ["--data", "signed-reviews", "--model", f"file:{model}", *told]
        few = ["--n", 100, "--limit", 2, "--domain", "e=0.9", "--workers", 1, "--out", tmp_path / "run"]
        code, out, err = run("certify", *asked, *few)
        assert code == 0, err
        assert f"Under word-deletion {cap}" in out
        assert "image" not in out.split("guarantee")[0]
        code, out, err = run("explain", *asked, "--certifier", "randomized-smoothing", "--json")
        assert code == 0, err
        (one,) = json.loads(out)["certifiers"]
        assert (one["applies"], one["title"]) == (True, f"word-deletion {cap.split()[0]}")

    def test_a_noise_of_images_that_is_told_is_refused(self, run: Call, saved: Path) -> None:
        asked = ["--data", "signed-reviews", "--model", f"file:{saved}", "--noise", "gaussian", "--limit", 2]
        code, _, err = run("certify", *asked)
        assert code == 1
        assert "a noise for these is --noise word-deletion:0.8" in " ".join(err.split())

    def test_explain_needs_no_data(self, run: Call, saved: Path) -> None:
        code, out, err = run("explain", "--model", f"file:{saved}", "--json")
        assert code == 0, err
        able = [one["title"] for one in json.loads(out)["certifiers"] if one["applies"]]
        assert able == ["word-deletion 0.8", "embedding-gaussian 0.1"]

    def test_corrupt_writes_tables(self, run: Call, tmp_path: Path) -> None:
        options = ["--corruption", "typos,case", "--severity", "5", "--domain", "e=0.9", "--json"]
        code, out, err = run("corrupt", "--data", "signed-reviews", "--out", tmp_path / "all", *options)
        assert code == 0, err
        written = json.loads(out)
        assert (written["texts"], len(written["tables"])) == (800, 2)
        with Path(written["tables"][0]).open(newline="") as file:
            rows = list(csv.DictReader(file))
        domain: Domain = sp.load_domains("signed-reviews")["e=0.9"]
        assert list(rows[0]) == ["text", "label", "domain", "id"]
        assert [row["text"] for row in rows] == sp.corrupt(texts_of(domain), "typos", 5, ids=domain.ids.tolist())
        assert [row["label"] for row in rows] == [domain.classes[label] for label in domain.labels]
        assert [row["id"] for row in rows] == domain.ids.tolist()
        code, _, err = run("corrupt", "--data", "signed-reviews", "--out", tmp_path / "x", "--corruption", "fog")
        assert "'fog' corrupts images, and these samples are texts" in " ".join(err.split())
        assert not (tmp_path / "x").exists()
