"""A tiny BERT with a tokenizer of a few words, made and saved by the tests: no package carries it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

WORDS = ["the", "a", "food", "was", "good", "bad", "very", "not", "staff", "awful", "great", "and", ".", ",", "we"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def tiny_tokenizer(words: list[str] = WORDS) -> Any:
    """WordPiece over a few words, with BERT's special tokens."""
    tokenizers = pytest.importorskip("tokenizers")
    letters = [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"] + list("abcdefghijklmnopqrstuvwxyz")
    names = list(dict.fromkeys([*SPECIAL, *words, *letters]))
    vocabulary = {token: number for number, token in enumerate(names)}
    fast = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]"))
    fast.normalizer = tokenizers.normalizers.BertNormalizer()
    fast.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    fast.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return pytest.importorskip("transformers").PreTrainedTokenizerFast(
        tokenizer_object=fast, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]"
    )


def tiny_config(kind: str = "bert", **changes: Any) -> Any:
    transformers = pytest.importorskip("transformers")
    sizes = {
        "vocab_size": 96,
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "max_position_embeddings": 24,
    }
    return transformers.AutoConfig.for_model(kind, **{**sizes, **changes})


def tiny_folder(
    path: Path, *, classifier: bool = True, kind: str = "bert", tokenizer: Any = None, **changes: Any
) -> Path:
    """A folder as save_pretrained writes it, with random weights that tell texts apart."""
    transformers = pytest.importorskip("transformers")
    auto = transformers.AutoModelForSequenceClassification if classifier else transformers.AutoModel
    torch.manual_seed(0)
    module = auto.from_config(tiny_config(kind, **changes))
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.ndim == 2:
                parameter.normal_(0, 0.3)
    module.save_pretrained(path)
    (tiny_tokenizer() if tokenizer is None else tokenizer).save_pretrained(path)
    return path
