"""hf:PATH and TextModel: models of the transformers library, tiny ones that the tests make."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from tiny_transformers import tiny_folder, tiny_tokenizer

import shiftproof as sp
from shiftproof.domains.texts import text_domain
from shiftproof.errors import ModelError, UsageError
from shiftproof.models import TextModel
from shiftproof.models.huggingface import matched_by_order
from shiftproof.models.labels import match_classes
from shiftproof.models.load import check_trained, starts_by_chance
from shiftproof.perturbations.text import encode, plain
from shiftproof.runs.trust import Trust
from shiftproof.testing import check_model

transformers = pytest.importorskip("transformers")

REVIEWS = sp.load_domains("signed-reviews")
TEXTS = ["the food was good", "", plain("was it good", "very"), "bad " * 40]
Call = Callable[..., tuple[int, str, str]]


def named(*labels: str) -> dict[str, Any]:
    return {"id2label": dict(enumerate(labels)), "label2id": {label: i for i, label in enumerate(labels)}}


def own_logits(folder: Path, texts: list[str]) -> torch.Tensor:
    """What the library itself says of the texts, one at a time."""
    module = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    rows = []
    with torch.no_grad():
        for text in texts:
            inputs = tokenizer(*text.split("\x1e"), truncation=True, max_length=24, return_tensors="pt")
            rows.append(module(**inputs).logits[0])
    return torch.stack(rows)


@pytest.mark.parametrize("kind", ["bert", "distilbert", "roberta"])
def test_a_saved_classifier_is_taken_as_it_is(kind: str, tmp_path: Path) -> None:
    sizes: dict[str, dict[str, Any]] = {
        "distilbert": {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32},
        "roberta": {"max_position_embeddings": 26, "type_vocab_size": 1, "pad_token_id": 1},
    }
    folder = tiny_folder(tmp_path / "m", kind=kind, **named("POSITIVE", "NEGATIVE"), **sizes.get(kind, {}))
    model = sp.load_model(f"hf:{folder}", REVIEWS)
    assert not model.training
    texts = TEXTS if kind == "bert" else [TEXTS[0], TEXTS[1], TEXTS[3]]
    # the data says negative first
    assert torch.allclose(model(encode(texts)), own_logits(folder, texts)[:, [1, 0]], atol=1e-5)
    check_trained(f"hf:{folder}", {})
    assert not starts_by_chance(f"hf:{folder}", {})


@pytest.mark.parametrize("segments", [True, False])
def test_parts_of_a_pair_are_told_apart_as_the_tokenizer_says(segments: bool, tmp_path: Path) -> None:
    tokenizer, texts = tiny_tokenizer(), [plain("was it good", "very"), "good"]
    tokenizer.model_input_names = ["input_ids", "attention_mask", *(["token_type_ids"] if segments else [])]
    folder = tiny_folder(tmp_path / "m", tokenizer=tokenizer)
    model = sp.load_model(f"hf:{folder}", REVIEWS)
    assert torch.allclose(model(encode(texts)), own_logits(folder, texts), atol=1e-5)
    sp.save_model(model, tmp_path / "kept.safetensors")
    again = sp.load_model(f"file:{tmp_path / 'kept.safetensors'}")
    assert torch.equal(again(encode(texts)), model(encode(texts)))


def test_a_saved_classifier_can_be_relied_on_and_needs_its_folder_no_more(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "m")
    model = sp.load_model(f"hf:{folder}", REVIEWS)
    check_model(model, REVIEWS)
    sp.save_model(model, tmp_path / "kept.safetensors")
    shutil.rmtree(folder)
    again = sp.load_model(f"file:{tmp_path / 'kept.safetensors'}", REVIEWS)
    assert torch.equal(again(encode(TEXTS)), model(encode(TEXTS)))
    with pytest.raises(ModelError, match="was kept with its own head"):
        sp.load_model(f"file:{tmp_path / 'kept.safetensors'}", REVIEWS, head="free")


def test_an_encoder_gets_a_head_is_trained_in_part_and_needs_its_folder_no_more(tmp_path: Path, run: Call) -> None:
    folder = tiny_folder(tmp_path / "m", classifier=False)
    code, _, err = run(
        *("train", "--data", "signed-reviews", "--target", "e=0.9", "--model", f"hf:{folder}", "--out", "out"),
        *("--set", "model.freeze=2", "--set", "model.length=16", "--set", "training.steps=3", "--limit", "20"),
    )
    assert code == 0, err
    start = safetensors.torch.load_file(folder / "model.safetensors")
    shutil.rmtree(folder)
    model = sp.load_model("file:out", REVIEWS)
    assert model.encoder.tokeniser.length == 16  # type: ignore[union-attr]
    state = model.encoder.module.state_dict()  # type: ignore[union-attr, operator]
    changed = {name for name, tensor in state.items() if not torch.equal(tensor, start[name])}
    assert changed
    assert {name.split(".layer.")[-1][0] for name in changed} == {"1"}, "embeddings and layer 0 are frozen"
    assert model(encode(TEXTS)).shape == (4, 2)
    code, _, err = run(
        *("certify", "--data", "signed-reviews", "--domain", "e=0.9", "--model", "file:out", "--noise"),
        *("word-deletion:0.8", "--n", "100", "--limit", "3", "--workers", "1"),
    )
    assert code == 0, err


def test_a_classifier_of_python(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "m")
    module = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    model = TextModel(module, tiny_tokenizer())
    assert not model.training
    assert torch.allclose(model(encode(TEXTS)), own_logits(folder, TEXTS), atol=1e-5)
    sp.save_model(model, tmp_path / "kept.safetensors")
    again = sp.load_model(f"file:{tmp_path / 'kept.safetensors'}")
    assert torch.equal(again(encode(TEXTS)), model(encode(TEXTS)))
    with pytest.raises(UsageError, match="length is 25, but BertForSequenceClassification reads from 1 to 24 tokens"):
        TextModel(module, tiny_tokenizer(), length=25)
    with pytest.raises(ModelError, match="the tokenizer is a str; only those with a tokenizer.json"):
        TextModel(module, "bert")
    with pytest.raises(ModelError, match="BertModel can't be read from embeddings .* to logits"):
        TextModel(module.bert, tiny_tokenizer())
    with pytest.raises(UsageError, match="TextModel takes a sequence classifier of transformers, not Linear"):
        TextModel(torch.nn.Linear(2, 2), tiny_tokenizer())


def test_a_random_twin(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "m")
    one, two, other = (
        sp.load_model(f"hf:{folder}", REVIEWS, weights="none", seed=seed).eval()(encode(TEXTS)) for seed in (0, 0, 1)
    )
    assert torch.equal(one, two)
    assert not torch.equal(one, other)
    assert starts_by_chance(f"hf:{folder}", {"weights": "none"})


@pytest.mark.parametrize(
    ("labels", "classes", "words"),
    [
        (["a", "b", "c"], ["negative", "positive"], "tells apart 3 classes .a, b, c.; the data has 2"),
        (["other"], ["negative", "positive"], "tells apart 1 classes"),
        (["neutral", "Negative"], ["negative", "positive"], "some names are the same but not in the same places"),
    ],
)
def test_classes_that_do_not_fit(labels: list[str], classes: list[str], words: str) -> None:
    with pytest.raises(ModelError, match=words):
        match_classes("hf:m", dict(enumerate(labels)), classes)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"length": 25}, "length is 25, but hf:m reads from 1 to 24 tokens"),
        ({"freeze": 4}, "freeze is 4; of hf:m, 3 can be frozen"),
        ({"pooling": "first"}, "pooling needs a new one"),
        ({"layers": 4}, "unknown option of model 'hf:m': 'layers'"),
        ({"weights": "random"}, "weights of model 'hf:m'"),
    ],
)
def test_mistakes_in_options(options: dict[str, Any], words: str, tmp_path: Path) -> None:
    tiny_folder(tmp_path / "m")
    with pytest.raises((ModelError, UsageError), match=words):
        sp.load_model("hf:m", REVIEWS, **options)


def test_mistakes_in_a_folder(tmp_path: Path, run: Call, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tiny_folder(tmp_path / "m")
    with pytest.raises(ModelError, match="hf:m reads text, and 'digits' holds image data"):
        sp.load_model("hf:m", sp.load_domains("digits"))
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    del weights["classifier.weight"]
    safetensors.torch.save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match="has no weights for 'classifier.weight'"):
        sp.load_model("hf:m", REVIEWS)
    (folder / "model.safetensors").write_bytes(b"broken")
    capsys.readouterr()
    code, out, err = run("attack", "--data", "signed-reviews", "--model", "hf:m", "--threat", "l2:1", "--limit", "2")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "transformers can't read " in err
    assert not Path("runs").exists()
    tiny_folder(tmp_path / "n", tokenizer=tiny_tokenizer([f"word{i}" for i in range(90)]))
    with pytest.raises(ModelError, match="numbers tokens up to 146, but the model's embedding has 96 rows"):
        sp.load_model("hf:n", REVIEWS)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match="empty holds no config.json"):
        sp.load_model("hf:empty", REVIEWS)
    with pytest.raises(ModelError, match="there is no folder missing/folder/here, and"):
        sp.load_model("hf:missing/folder/here", REVIEWS)
    with pytest.raises(UsageError, match="the name behind 'hf:' is empty"):
        sp.load_model("hf:", REVIEWS)


@pytest.mark.parametrize("options", [{"head": "free"}, {"weights": "none"}])
def test_what_nobody_trained_is_not_measured(options: dict[str, Any], tmp_path: Path) -> None:
    tiny_folder(tmp_path / "m")
    with pytest.raises(UsageError, match="'shiftproof train' trains it"):
        check_trained("hf:m", options)
    tiny_folder(tmp_path / "e", classifier=False)
    with pytest.raises(UsageError, match="hf:e is no trained classifier"):
        check_trained("hf:e", {})


def test_a_hub_that_is_out_of_reach_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    asked = []

    def snapshot_download(name: str, **options: Any) -> str:
        asked.append((name, options.get("local_files_only", False)))
        raise FileNotFoundError("no route to the hub.\nTry again")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    with pytest.raises(ModelError, match="no folder 'some/model' here, and no model .* .no route to the hub.;"):
        sp.load_model("hf:some/model", REVIEWS)
    assert asked == [("some/model", True), ("some/model", False)]


def test_a_file_can_not_choose_what_is_run_or_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_folder(tmp_path / "m")
    path = tmp_path / "kept.safetensors"
    sp.save_model(sp.load_model("hf:m", REVIEWS), path)
    card = json.loads(path.with_suffix(".json").read_text())
    card["architecture"]["config"] |= {
        "auto_map": {"AutoConfig": "evil.Config", "AutoModelForSequenceClassification": "evil.Model"},
        "_attn_implementation": "someone/kernel",
        "attn_implementation": "someone/kernel",
    }
    path.with_suffix(".json").write_text(json.dumps(card))
    import huggingface_hub

    for name in ("snapshot_download", "hf_hub_download"):
        monkeypatch.setattr(huggingface_hub, name, lambda *_a, **_k: pytest.fail("something is fetched"))
    assert sp.load_model(f"file:{path}")(encode(TEXTS)).shape == (4, 2)
    card["architecture"]["config"]["model_type"] = "evil"
    path.with_suffix(".json").write_text(json.dumps(card))
    with pytest.raises(ModelError, match="transformers can't build a 'evil'"):
        sp.load_model(f"file:{path}")
    card["architecture"]["config"] |= {"model_type": "bert", "vocab_size": 10**12}
    path.with_suffix(".json").write_text(json.dumps(card))
    with pytest.raises(ModelError, match="do not fit into memory"):
        sp.load_model(f"file:{path}")


def test_a_run_may_name_a_folder_of_this_machine_but_no_model_of_the_hub(tmp_path: Path) -> None:
    tiny_folder(tmp_path / "m")
    Trust().check(tmp_path, "signed-reviews", [(f"hf:{tmp_path / 'm'}", {})])
    with pytest.raises(UsageError, match="names hf:some/model. Code is not run, and nothing is fetched"):
        Trust().check(tmp_path, "signed-reviews", [("hf:some/model", {})])


def test_a_damaged_tokeniser_is_one_sentence(tmp_path: Path) -> None:
    tiny_folder(tmp_path / "m")
    model = sp.load_model("hf:m", REVIEWS)
    for state, words in (
        (torch.zeros(3), "should be bytes"),
        (torch.tensor([255, 254], dtype=torch.uint8), "it is no text"),
        (torch.tensor(list(b"{}"), dtype=torch.uint8), "the tokeniser can't be read"),
    ):
        with pytest.raises(ModelError, match=words):
            model.encoder.set_extra_state(state)  # type: ignore[union-attr, operator]


def test_a_decoder_is_refused(tmp_path: Path) -> None:
    sizes = {"n_embd": 16, "n_layer": 2, "n_head": 2, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
    tiny_folder(tmp_path / "g", kind="gpt2", **sizes)
    with pytest.raises(ModelError, match="hf:g says other things of embeddings in a batch that is filled up"):
        sp.load_model("hf:g", REVIEWS)


def test_classes_that_are_matched_by_order_are_named(tmp_path: Path) -> None:
    data = text_domain("texts", ["good food", "bad food"] * 3, [1, 0] * 3, ["negative", "positive"])
    plain = sp.load_model(f"hf:{tiny_folder(tmp_path / 'plain')}", data)
    assert matched_by_order(plain, data.classes) == "LABEL_0 for negative, LABEL_1 for positive"
    names = {"id2label": {0: "POSITIVE", 1: "NEGATIVE"}, "label2id": {"POSITIVE": 0, "NEGATIVE": 1}}
    named = sp.load_model(f"hf:{tiny_folder(tmp_path / 'named', **names)}", data)
    assert matched_by_order(named, data.classes) == ""
    run = sp.audit(plain, data, threats="edits:1", corruptions="none", certifiers=[], limit=2, progress="off")
    assert [one.message for one in run.findings if one.code == "classes-by-order"] == [
        "model has other names of classes than the data; by their order it was taken LABEL_0 for negative, LABEL_1 for "
        "positive: if that is wrong, set id2label in its config.json"
    ]


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "bare")
    for path in folder.glob("tokenizer*"):
        path.unlink()
    data = text_domain("texts", ["good food", "bad food"], [1, 0], ["negative", "positive"])
    with pytest.raises(ModelError, match="holds no tokenizer"):
        sp.load_model(f"hf:{folder}", data)
