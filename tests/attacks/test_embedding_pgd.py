"""The attack on embeddings: what moves and how far, its worst case in closed form, and its way through a run."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.attacks import ATTACKS, Base, EmbeddingPGD, craft, usual_attack
from shiftproof.attacks.attack import overturn
from shiftproof.attacks.victim import frozen
from shiftproof.domains.texts import text_domain
from shiftproof.errors import ConformanceError
from shiftproof.evidence import Column, Evidence, Measurement
from shiftproof.evidence.order import order_findings
from shiftproof.models.text import EmbeddedTexts
from shiftproof.perturbations.balls import as_ball
from shiftproof.perturbations.embedding import EmbeddingThreat
from shiftproof.perturbations.text import encode
from shiftproof.rng import torch_generator
from shiftproof.testing import check_attack
from shiftproof.testing.text_attacks import mean_of_words
from shiftproof.testing.text_oracle import TextOracle

ORDERS, PARTS = ("l2", "linf", "l1"), ("text", "token")
TEXTS = ["a good film", "we saw a long and dull film about the sea", "bad", "the plot is thin , the end is fine"]
TINY = {"width": 8, "vocabulary": 64, "length": 12}
LABELS = torch.tensor([0, 1, 1, 0])


def transformer() -> nn.Module:
    return sp.build_model("text-transformer", domain(), seed=0, heads=2, depth=1, **TINY).eval()


def domain(texts: list[str] = TEXTS) -> sp.Domain:
    return text_domain("texts", texts, [0, 1, 1, 0][: len(texts)], ["below", "above"])


def worst(model: nn.Module, attack: EmbeddingPGD, texts: list[str], labels: Tensor) -> tuple[EmbeddedTexts, Tensor]:
    """Texts, and the change of their embeddings that the attack finds."""
    with frozen(model):
        embedded = EmbeddedTexts.of(model, encode(texts))
        eps = torch.full((len(texts),), attack.threat.eps)
        points = attack.worst(embedded, labels, eps, [torch_generator(0, "test", text) for text in texts])
        return embedded, points - embedded.embed()


# ------------------------------------------------------------------------------------------------------- promises


@pytest.mark.parametrize("name", [entry.name for entry in ATTACKS if "text" in entry.metadata.get("needs", "")])
def test_every_attack_on_text_keeps_its_promises(name: str) -> None:
    threats = {"word-edits": "edits:2", "embedding-pgd": "embedding-l2:0.5"}
    check_attack(ATTACKS.create(name, {"threat": threats[name]}))


@pytest.mark.parametrize("options", [{"random_start": True, "steps": 10}, {"early_exit": False}, {"loss": "dlr"}])
def test_promises_are_kept_with_options(options: dict[str, Any]) -> None:
    check_attack(EmbeddingPGD("embedding-linf:0.1", **options))


def test_the_check_finds_an_attack_that_does_not_get_there() -> None:
    with pytest.raises(ConformanceError, match="misses what the worst change within embedding-l2"):
        check_attack(EmbeddingPGD("embedding-l2:1.0", step=0.1))


# ------------------------------------------------------------------------------------------------ what moves, how far


@pytest.mark.parametrize("per", PARTS)
@pytest.mark.parametrize("order", ORDERS)
def test_a_size_stands_beside_the_median_norm_of_what_may_move(order: str, per: str) -> None:
    model = transformer()
    texts = EmbeddedTexts.of(model, encode(TEXTS))
    # special tokens and what texts are filled up with do not count
    own = [embedded[words].double() for embedded, words in zip(texts.embed().detach(), texts.tokens.words, strict=True)]
    units = [one.flatten() for one in own] if per == "text" else [token for one in own for token in one]
    p = {"l2": 2, "linf": float("inf"), "l1": 1}[order]
    norms = torch.stack([torch.linalg.vector_norm(one, p) for one in units])
    reference = EmbeddingPGD(EmbeddingThreat(order, 0.5, per)).reference(Base(model), domain())
    assert reference is not None
    what = {"text": "a text's embeddings", "token": "a token's embedding"}[per]
    assert reference == (f"the median {order} norm of {what}", pytest.approx(float(norms.median()), rel=1e-5))


@pytest.mark.parametrize("attack", [sp.attacks.PGD("l2:0.5"), sp.attacks.WordEdits("edits:3")])
def test_pixels_and_words_need_no_comparison(attack: Any) -> None:
    assert attack.reference(Base(transformer()), domain()) is None


@pytest.mark.parametrize("start", [False, True])
@pytest.mark.parametrize("per", PARTS)
@pytest.mark.parametrize("order", ORDERS)
def test_own_tokens_move_within_the_budget_and_no_others(order: str, per: str, start: bool) -> None:
    attack = EmbeddingPGD(EmbeddingThreat(order, 0.5, per), random_start=start, early_exit=False)
    texts, change = worst(transformer(), attack, TEXTS, LABELS)
    words = texts.tokens.words
    assert not words[:, 0].any(), "texts begin with a special token"
    assert not words[0, 4:].any(), "and are filled up"
    assert not change[~words].any()
    assert (change[words].abs().amax(1) > 0).float().mean() > (0.05 if order == "l1" else 0.9)
    p = {"l2": 2, "linf": float("inf"), "l1": 1}[order]
    rows = change.flatten(1) if per == "text" else change.flatten(0, 1)
    sizes = torch.linalg.vector_norm(rows.double(), p, dim=1)
    assert sizes.max() <= 0.5 * (1 + 1e-5) + 1e-6
    assert sizes.max() >= 0.5 * (1 - 1e-3), "the surface is reached"


@pytest.mark.parametrize(
    "attack", [EmbeddingPGD("embedding-l2:0", random_start=True), EmbeddingPGD("embedding-l2:9", 0)]
)
def test_no_budget_or_no_step_changes_nothing(attack: EmbeddingPGD) -> None:
    model, data = transformer(), domain()
    assert not worst(model, attack, TEXTS, LABELS)[1].any()
    found = overturn(
        Base(model), data.tensors()[0], LABELS, attack, radii=torch.full((4,), attack.threat.eps), ids=data.ids
    )
    assert torch.equal(found.answers, Base(model).answers(data.tensors()[0]))
    assert not found.distance.any()


@pytest.mark.parametrize(
    ("spec", "share"),
    # of the worst loss of margin; what a text of n tokens (one special) and weights w lets expect, by hand
    [
        ("embedding-l2:0.3", lambda w, n: (n - 1) ** 0.5 / n * w.norm()),
        ("embedding-linf:0.3", lambda w, n: (n - 1) / n * w.abs().sum()),
        ("embedding-l1:0.3", lambda w, n: w.abs().max() / n),
        ("embedding-l2,per=token:0.3", lambda w, n: (n - 1) / n * w.norm()),
    ],
)
def test_the_worst_of_a_linear_model_is_exact(spec: str, share: Callable[[Tensor, int], Tensor]) -> None:
    weights = torch.tensor([1.0, -2.0, 0.5, 0.0, 3.0, -0.25])
    model = mean_of_words(weights)
    texts, change = worst(model, EmbeddingPGD(spec, early_exit=False), TEXTS, LABELS)
    with torch.no_grad():
        start = texts.embed()
        lost = (texts.scores(start) - texts.scores(start + change)) * torch.tensor([-1.0, 1.0])
    expected = torch.stack([0.3 * share(weights, int(n)) for n in texts.tokens.real.sum(1)])
    assert torch.allclose(lost.sum(1) * (2 * LABELS - 1), expected, rtol=1e-4)


@pytest.mark.parametrize("start", [False, True])
def test_no_text_depends_on_its_company_or_order(start: bool) -> None:
    attack, model = EmbeddingPGD("embedding-l2:0.5", random_start=start, early_exit=False), transformer()
    together, alone = worst(model, attack, TEXTS, LABELS)[1], worst(model, attack, TEXTS[:1], LABELS[:1])[1]
    assert alone.shape[1] < together.shape[1], "alone it is filled up to another length"
    assert torch.allclose(together[0, : alone.shape[1]], alone[0], atol=1e-5)
    backwards = worst(model, attack, TEXTS[::-1], LABELS.flip(0))[1]
    assert torch.allclose(together, backwards.flip(0), atol=1e-5)


def test_a_vote_under_noise_on_embeddings_is_overturned_beyond_its_radius_alone() -> None:
    """The vote of a linear model has the boundary of the model itself, in closed form."""
    oracle = TextOracle(16)
    near = np.flatnonzero((oracle.radii > 0.3) & (oracle.radii < 2))
    data, noise = oracle.domain.subset(near), sp.noise.EmbeddingGaussian(0.4)
    sizes = {"inside": 0.8 * oracle.radii[near].min(), "outside": 1.2 * oracle.radii[near].max()}
    options = {"smoothed": noise, "samples": 8, "votes": 400, "progress": "off"}
    attack = EmbeddingPGD("embedding-l2:1.0", early_exit=False)
    inside, outside = sp.attack(oracle.model, data, attack, eps=list(sizes.values()), **options)
    assert inside.clean_accuracy == inside.robust_accuracy == 1.0
    assert outside.robust_accuracy == 0.0
    assert outside.classifier == "smoothed"
    assert outside.distance == pytest.approx(sizes["outside"], rel=1e-3)


class _Turned(nn.Module):
    """A classifier whose answers are turned around outside of its encoder and head."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = mean_of_words(torch.ones(6))

    def forward(self, rows: Tensor) -> Tensor:
        return self.inner(rows).flip(1)


def test_what_is_around_the_encoder_takes_part() -> None:
    attack, model = EmbeddingPGD("embedding-l2:0.5", early_exit=False), _Turned()
    there, back = worst(model, attack, TEXTS, LABELS)[1], worst(model.inner, attack, TEXTS, 1 - LABELS)[1]
    assert there.any()
    assert torch.allclose(there, back)


# ----------------------------------------------------------------------------------------- what it says of itself


def test_reach_is_told() -> None:
    """E2.9: the published l2 attack reaches 0.3 of its budget, the published linf attack all of it."""
    published = EmbeddingPGD("embedding-l2:1.0", steps=3, step=0.1)
    assert published.reach == pytest.approx(0.3)
    (finding,) = published.findings()
    assert (finding.level, finding.code) == ("warn", "reach")
    assert finding.message.startswith("3 steps of 0.1 reach 0.3 from where they start, eps is 1")
    linf = EmbeddingPGD("embedding-linf:0.001", steps=3, step=0.0005)
    assert linf.reach == 0.001
    assert not list(linf.findings())
    assert EmbeddingPGD("embedding-l2:1.0").reach == 1.0
    assert EmbeddingPGD("embedding-l2:1.0", steps=0).reach == 0


def test_the_result_keeps_the_texts() -> None:
    result = sp.attack(transformer(), domain(), EmbeddingPGD("embedding-l2:50.0"))
    assert torch.equal(result.inputs, domain().tensors()[0])
    assert result.overturned.any()
    assert (result.distance[result.overturned] > 0).all()
    assert "no text leads" in result.how


class _Twice(nn.Module):
    """Asks its encoder about two copies of every text."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = mean_of_words(torch.ones(6))

    def forward(self, rows: Tensor) -> Tensor:
        return self.inner(rows.repeat(2, 1))[: len(rows)]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda m: sp.attack(m, domain(), EmbeddingPGD("embedding-l2:1"), smoothed=sp.noise.WordDeletion(0.5)),
            "a vote",
        ),
        (lambda m: sp.attack(m, sp.load_domains("digits"), EmbeddingPGD("embedding-l2:1")), "holds images"),
        (lambda m: sp.attack(m, domain(), sp.attacks.PGD("linf:8/255")), "holds text: write --threat edits:3"),
        (lambda m: sp.attack(nn.Flatten(), domain(), EmbeddingPGD("embedding-l2:1")), "has no encoder of text"),
        (
            lambda m: sp.attack(_Twice(), domain(), EmbeddingPGD("embedding-l2:1")),
            r"hands \d texts to its encoder where it was given",
        ),
        (lambda m: EmbeddingPGD("l2:1"), "write a norm and a size, such as embedding-l2:1.0"),
        (lambda m: sp.attacks.PGD(as_ball("embedding-l2:1")), "use embedding-pgd"),
        (
            lambda m: craft(
                Base(m), encode(TEXTS), LABELS, EmbeddingPGD("embedding-l2:1"), radii=torch.ones(4), ids="abcd"
            ),
            "there is no text for embeddings that have moved",
        ),
    ],
)
def test_mistakes_get_a_sentence(call: Callable[[nn.Module], object], sentence: str) -> None:
    with pytest.raises(sp.errors.ShiftproofError, match=sentence):
        call(transformer())


def test_it_is_the_usual_attack_for_its_threat() -> None:
    assert usual_attack(as_ball("embedding-linf,per=token:0.001")) == "embedding-pgd"


def test_a_model_is_the_same_after_it_was_given_embeddings() -> None:
    model, rows = transformer(), encode(TEXTS)
    before = model(rows)
    texts = EmbeddedTexts.of(model, rows)
    assert torch.equal(texts.scores(texts.embed()), before)
    with pytest.raises(ZeroDivisionError), texts.encoder.given(texts.embed() * 0, texts.tokens):
        1 / 0  # noqa: B018
    assert torch.equal(model(rows), before)


def certified_and_attacked(norm: str, units: str) -> Evidence:
    """A model that is certified within l2 5, in pixels, and wrong within 1 of a threat."""
    facts = {"model": "m", "domain": "d", "classifier": "base", "title": "t"}
    held = facts | {"probe": "certify", "setting": "c", "norm": "l2", "units": "pixels", "alpha": 0.0, "unsound": ""}
    other = facts | {"probe": "attack", "setting": "a", "norm": norm, "units": units, "eps": 1.0}
    columns = {"id": np.array(["one"], object), "label": np.array([0])}
    right = {"prediction": np.array([0]), "correct": np.array([True])}
    certified = {"radius": np.array([5.0]), "skipped": np.array([False])}
    radii = [Column("radius", "float", ""), Column("skipped", "bool", "")]
    wrong = {"prediction": np.array([1]), "correct": np.array([False])}
    rows = [Measurement.of(held, {**columns, **right, **certified}, radii), Measurement.of(other, {**columns, **wrong})]
    return Evidence(rows)


def test_sizes_in_embeddings_are_never_compared_with_radii_of_another_norm() -> None:
    threat = EmbeddingThreat("l2", 1.0)
    assert not list(order_findings(certified_and_attacked(threat.norm, threat.units)))
    assert [one.code for one in order_findings(certified_and_attacked("l2", "pixels"))] == ["sandwich-broken"]


# ------------------------------------------------------------------------------------------------------------- a run


def test_a_study_attacks_embeddings_and_hidden_states(run: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    tiny = "{name: text-transformer, width: 8, heads: 2, depth: 1, vocabulary: 128}"
    adversary = '{name: adversarial-training, threat: "embedding-l2:1.0", steps: 2, step: 0.1, random_start: false}'
    (tmp_path / "text.yaml").write_text(f"""
data: signed-reviews
target: e=0.9
limit: 6
models:
  adversarial:
    model: {tiny}
    objective: {adversary}
    training: {{optimiser: adamw, lr: 3e-5, schedule: linear, batch: 8, steps: 2}}
probes:
  - clean
  - {{name: attack, attack: {{name: embedding-pgd, threat: "embedding-l2:1.0"}}, eps: [0.5]}}
  - hidden-state
""")
    out = tmp_path / "out"
    code, text, err = run("run", tmp_path / "text.yaml", "--out", out, "--workers", 1, "--json")
    assert code == 0, err
    findings = json.dumps(json.loads(text.splitlines()[-1]))
    assert "2 steps of 0.1 reach 0.2 from where they start" in findings
    for bad in ("inputs run from", "no gradient with respect to its input"):
        assert bad not in findings
    attacked = list(csv.DictReader((out / "tables" / "attacked.csv").read_text().splitlines()))
    assert {row["norm"] for row in attacked} == {"embedding-l2"}
    hidden = list(csv.DictReader((out / "tables" / "hidden-state.csv").read_text().splitlines()))
    assert {row["metric"] for row in hidden} == {"change of hidden states (l2)", "1 - cosine of hidden states"}
    assert all(float(row["value"]) > 0 for row in hidden)
    code, text, err = run("verify", out)
    assert code == 0, text + err
    assert "attacked again end as recorded" in " ".join(text.split())
    verb = ["attack", "--data", "signed-reviews", "--model", f"file:{out / 'models' / 'adversarial.safetensors'}"]
    size = "embedding-l2,per=token:0.2"
    asked = ["--threat", size, "--limit", 5, "--domain", "e=0.9", "--require", f"attacked@{size}>=0"]
    code, text, err = run(*verb, *asked, "--workers", 1, "--out", tmp_path / "a", "--json")
    assert code == 0, err
    result = json.loads(text.splitlines()[-1])
    assert result["norm"] == "embedding-l2,per=token"
    assert "embedding, over each token" in result["units"]
