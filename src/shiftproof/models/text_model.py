"""A sequence classifier of the transformers library as a model of text."""

from __future__ import annotations

from typing import Any

from torch import nn

from shiftproof.errors import UsageError
from shiftproof.models.huggingface import PREFIX, HuggingFaceBlueprint
from shiftproof.models.split import SplitModel
from shiftproof.models.text.fast_tokeniser import FastTokeniser
from shiftproof.models.text.library import gives_segments, plain_config, tokenizer_content
from shiftproof.models.text.reading import check_reading, checked_length
from shiftproof.models.text.transformer import TransformerEncoder, length_limit

__all__ = ["TextModel"]


class TextModel(SplitModel):
    """A sequence classifier of transformers with its tokenizer, measured as it is: its logits are the logits.

    Its embedding layer is found; attacks and noise act behind it. Texts are cut at `length` tokens, by default as many
    as it can read.

    Args:
        module: What AutoModelForSequenceClassification gives, or a module like it: it takes `inputs_embeds` and
            `attention_mask`, returns an object with `logits`, and has `get_input_embeddings` and a `config`.
        tokenizer: Its tokenizer; one with a tokenizer.json (a fast one).
    """

    def __init__(self, module: nn.Module, tokenizer: Any, *, length: int | None = None) -> None:
        if not isinstance(module, nn.Module) or not hasattr(module, "get_input_embeddings"):
            raise UsageError(f"TextModel takes a sequence classifier of transformers, not {type(module).__name__}")
        name, training = type(module).__name__, module.training
        limit = length_limit(module, getattr(tokenizer, "model_max_length", None))
        tokeniser = FastTokeniser(tokenizer_content(tokenizer), checked_length(length, limit, name))
        encoder = TransformerEncoder(module, tokeniser, None, segments=gives_segments(tokenizer))
        check_reading(encoder, name)
        super().__init__(encoder, nn.Identity(), _blueprint(encoder))
        self.train(training)


def _blueprint(encoder: TransformerEncoder) -> HuggingFaceBlueprint | None:
    """How the library builds the module again; None if it is one of somebody's own."""
    module: Any = encoder.module
    if not type(module).__module__.startswith("transformers."):
        return None
    classes, config = int(module.config.num_labels), plain_config(module.config.to_dict())
    name, order = f"{PREFIX}{type(module).__name__}", tuple(range(classes))
    options = {"length": encoder.tokeniser.length}
    return HuggingFaceBlueprint(
        name, (1,), classes, options, config=config, order=order, segments=encoder.takes_segments
    )
