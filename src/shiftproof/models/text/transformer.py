"""Modules of the transformers library as encoders of text."""

from __future__ import annotations

import inspect
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from shiftproof.errors import ModelError
from shiftproof.models.text.encoder import TextEncoder
from shiftproof.models.text.fast_tokeniser import FastTokeniser
from shiftproof.models.text.tokens import Tokens

__all__ = ["Pooling", "TransformerEncoder", "freeze_layers", "length_limit", "set_dropout"]

Pooling = Literal["mean", "first"]
_UNLIMITED = 512
"""Tokens of a model that says no limit."""


class TransformerEncoder(TextEncoder):
    """Hidden states of a module of transformers, pooled over tokens; or, without `pooling`, a classifier's logits.

    `embed` is the module's own layer of word embeddings, `encode` all that follows: places, layers, pooling. The
    tokenizer.json is a part of its state: it is saved with the weights and counts in their hash.

    Args:
        pooling: "mean" over all tokens, special ones included, or the "first" token; None for a sequence classifier.
        segments: Whether the module is told which part of a pair a token belongs to, if it can be.
    """

    costly = True

    def __init__(
        self, module: nn.Module, tokeniser: FastTokeniser, pooling: Pooling | None, *, segments: bool = True
    ) -> None:
        super().__init__()
        self.module = module
        self.pooling = pooling
        taken = inspect.signature(module.forward).parameters
        several = getattr(module.config, "type_vocab_size", 0) > 1
        self.takes_segments = segments and several and "token_type_ids" in taken
        self.tokeniser: FastTokeniser = tokeniser
        if tokeniser.content:
            self._check_vocabulary()

    @property
    def width(self) -> int:
        """The length of a representation."""
        return int(self.module.config.hidden_size)  # type: ignore[union-attr, arg-type]

    def embed(self, tokens: Tokens) -> Tensor:
        """Word embeddings, N x T x D."""
        return self._embedding(tokens.ids)  # type: ignore[no-any-return]

    def encode(self, embedded: Tensor, tokens: Tokens) -> Tensor:
        """Representations, or logits, of embedded tokens."""
        return self._read(tokens, inputs_embeds=embedded)

    def hidden(self, embedded: Tensor, tokens: Tokens) -> Tensor | None:
        """States of the last layer for every token; of a whole classifier they are not known."""
        return None if self.pooling is None else self._outputs(tokens, inputs_embeds=embedded).last_hidden_state

    def neighbours(self, word: str, count: int) -> list[str]:
        """Words of the vocabulary whose embeddings have the smallest angles to that of a word; none if it is not there.

        Upper case is looked for as it is, then in lower case.
        """
        words, weights = self.tokeniser.words, getattr(self._embedding, "weight", None)
        number = words.get(word, words.get(word.lower()))
        if number is None or weights is None or not count:
            return []
        others = {own: name for name, own in words.items() if own != number}
        numbers = torch.tensor(list(others), device=weights.device)
        with torch.no_grad():
            alike = nn.functional.cosine_similarity(weights[numbers], weights[number][None])
        nearest = alike.topk(min(count, len(others))).indices.cpu()
        return [others[int(own)] for own in numbers.cpu()[nearest]]

    def read_directly(self, tokens: Tokens) -> Tensor:
        """The same by the way on which the module itself looks up its embeddings, to compare with."""
        return self._read(tokens, input_ids=tokens.ids)

    def _outputs(self, tokens: Tokens, **inputs: Tensor) -> Any:
        if self.takes_segments:
            inputs["token_type_ids"] = tokens.segment
        return self.module(attention_mask=tokens.real.long(), return_dict=True, **inputs)

    def _read(self, tokens: Tokens, **inputs: Tensor) -> Tensor:
        outputs = self._outputs(tokens, **inputs)
        if self.pooling is None:
            return outputs.logits  # type: ignore[no-any-return]
        hidden: Tensor = outputs.last_hidden_state
        if self.pooling == "first":
            return hidden[:, 0]
        real = tokens.real[..., None].to(hidden)
        return (hidden * real).sum(1) / real.sum(1)

    @property
    def _embedding(self) -> nn.Module:
        return self.module.get_input_embeddings()  # type: ignore[operator, no-any-return]

    def get_extra_state(self) -> Tensor:
        """The tokenizer.json, as bytes: torch puts it among the weights."""
        return torch.from_numpy(np.frombuffer(self.tokeniser.content.encode(), np.uint8).copy())

    def set_extra_state(self, state: Any) -> None:
        """The tokenizer.json from a file of weights."""
        if not isinstance(state, Tensor) or state.dtype != torch.uint8:
            raise ModelError("the tokeniser among the weights is damaged: it should be bytes")
        try:
            content = bytes(state.cpu().numpy().tobytes()).decode()
        except UnicodeDecodeError as error:
            raise ModelError("the tokeniser among the weights is damaged: it is no text") from error
        if content != self.tokeniser.content:
            self.tokeniser = FastTokeniser(content, self.tokeniser.length)
            self._check_vocabulary()

    def _check_vocabulary(self) -> None:
        rows = getattr(self._embedding, "num_embeddings", None)
        largest = self.tokeniser.largest
        if isinstance(rows, int) and largest >= rows:
            raise ModelError(
                f"the tokeniser numbers tokens up to {largest}, but the model's embedding has {rows} rows: they do not "
                "belong together"
            )


def length_limit(module: nn.Module, tokenizer_limit: int | None = None) -> int:
    """How many tokens a module can read: as many as it has places, or as its tokenizer says."""
    places = getattr(module.config, "max_position_embeddings", None)
    for name, layer in module.named_modules():
        if name.endswith("position_embeddings") and isinstance(layer, nn.Embedding) and layer.padding_idx is not None:
            # RoBERTa and its kin count places from behind the one of padding
            places = layer.num_embeddings - layer.padding_idx - 1
    limits = [one for one in (places, tokenizer_limit) if isinstance(one, int) and 0 < one < 1_000_000]
    return min(limits, default=_UNLIMITED)


def set_dropout(module: nn.Module, probability: float) -> None:
    """Give all dropout layers one probability."""
    for layer in module.modules():
        if isinstance(layer, nn.Dropout):
            layer.p = probability


def freeze_layers(module: nn.Module, count: int, name: str) -> None:
    """Keep the lowest `count` layers from being trained: the embeddings are the first, of which there is one."""
    if not count:
        return
    embedding = module.get_input_embeddings()  # type: ignore[operator]
    home = next(path for path, layer in module.named_modules() if layer is embedding).rpartition(".")[0]
    blocks: list[nn.Module] = [module.get_submodule(home) if home else embedding]
    depth = getattr(module.config, "num_hidden_layers", 0)
    stacks = [layer for layer in module.modules() if isinstance(layer, nn.ModuleList) and len(layer) == depth]
    blocks += list(stacks[0]) if stacks else []
    if count > len(blocks):
        raise ModelError(f"freeze is {count}; of {name}, {len(blocks)} can be frozen: its embeddings and what follows")
    for block in blocks[:count]:
        block.requires_grad_(False)
