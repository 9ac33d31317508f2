"""What must be true of a classifier before anything is certified: it is one fixed function of one input."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np
import torch
from torch import Tensor, nn

from shiftproof.domains import Domain
from shiftproof.errors import DataError, ModelError, UsageError
from shiftproof.execution import single_threaded
from shiftproof.models.outputs import check_copyable, logits_of
from shiftproof.models.reference import Reference, random_inputs
from shiftproof.models.state import first_change, snapshot
from shiftproof.models.text import EmbeddedTexts, TextEncoder, embedding_shape
from shiftproof.models.text.encoder import check_takes
from shiftproof.rng import torch_generator

__all__ = ["check_classifier", "check_embeddings", "checked_once", "reference_inputs"]

COMPARED = 8


_CHECKED: ContextVar[list[tuple[object, object, int]] | None] = ContextVar("checked", default=None)
"""Models that were checked, the domain and how many classes; None outside of `checked_once`."""


@contextmanager
def checked_once() -> Iterator[None]:
    """Within it, a model is checked on a domain once: for several questions about models that nothing changes between.

    Certificates are never made within it; who makes one checks the model itself.
    """
    token = _CHECKED.set([])
    try:
        yield
    finally:
        _CHECKED.reset(token)


def check_classifier(model: nn.Module, domain: Domain) -> int:
    """Refuse a model that is not one fixed function of a single input; return how many classes it tells apart.

    A guarantee is about a function. A model in train mode, with dropout, with statistics of the batch, with a random
    draw inside or with a memory of its calls is none. Outputs are compared relative to what would change an answer.
    """
    known = _CHECKED.get()
    for one, there, classes in known or ():
        if one is model and there is domain:
            return classes
    classes = _check(model, domain)
    if known is not None:
        known.append((model, domain, classes))
    return classes


def _check(model: nn.Module, domain: Domain) -> int:
    if not isinstance(model, nn.Module):
        raise UsageError(f"the model is {type(model).__name__}; it should be a torch.nn.Module that returns logits")
    check_copyable(model)
    check_takes(model, domain)
    if not len(domain):
        raise DataError(f"domain {domain.name!r} has no samples to certify")
    if model.training:
        raise ModelError("the model is in train mode, in which it is not one fixed function; call model.eval() first")
    for name, layer in model.named_modules():
        if layer.training:
            raise ModelError(f"layer {name!r} ({type(layer).__name__}) is in train mode; call model.eval() first")
    inputs = reference_inputs(domain)
    with torch.no_grad(), single_threaded():
        logits = _logits(model, inputs)
        classes = logits.shape[1]
        if classes < 2:
            raise ModelError("the model has one class: there is nothing to certify")
        if classes < len(domain.classes):
            raise ModelError(f"the model has {classes} outputs, but the data has {len(domain.classes)} classes")
        before = snapshot(model)
        if not torch.equal(logits, _logits(model, inputs)):
            raise ModelError("the model is random: the same inputs give other outputs, so that no guarantee can hold")
        _check_memory(before, snapshot(model))
        with torch.enable_grad():
            graded = model(inputs.to(*_where(model), copy=True)).detach().float().cpu()
        if not Reference(inputs, logits).agrees(graded):
            raise ModelError("the model gives other outputs while gradients are computed, so that it is two functions")
        _check_batches(model, Reference(inputs, logits))
        if domain.kind == "text":
            _check_width(model, Reference(inputs, logits))
        if not torch.equal(logits, _logits(model, inputs)):
            raise ModelError("the model changes: inputs that it has seen before get other outputs than the first time")
        _check_memory(before, snapshot(model))
    return int(classes)


def _where(model: nn.Module) -> tuple[torch.device, torch.dtype]:
    first = next((one for one in model.parameters() if one.is_floating_point()), torch.zeros(()))
    return first.device, first.dtype


def _check_memory(before: dict[str, object], after: dict[str, object]) -> None:
    change = first_change(before, after)
    if change is not None:
        raise ModelError(
            f"the model changes when it is called ({change}), so that it is no fixed function and no guarantee for it "
            "can hold; take out what counts or remembers"
        )


def _check_batches(model: nn.Module, reference: Reference) -> None:
    """Every input alone, beside its negative, and at the end of a batch of others."""
    inputs = reference.inputs
    others = random_inputs(tuple(inputs.shape[1:]), len(inputs), "other inputs of a batch")
    # of each kind some: a call with one input takes nearly as long as one with many
    few = torch.arange(0, len(inputs), 3)
    alone = torch.cat([_logits(model, inputs[one][None]) for one in few])
    beside = torch.cat([_logits(model, torch.stack([inputs[one], 1 - inputs[one]]))[:1] for one in few])
    behind = _logits(model, torch.cat([others, inputs]))[len(others) :]
    part = reference.subset(few)
    if not (part.agrees(alone) and part.agrees(beside) and reference.agrees(behind)):
        raise ModelError(
            "the model's output for a sample depends on the other samples in its batch (BatchNorm with the batch's own "
            "statistics?), so that no guarantee for one sample can hold"
        )


def _check_width(model: nn.Module, reference: Reference) -> None:
    """The same texts in wider rows: a text that somebody lengthens needs one, and must meet the same function."""
    for more in (1, 3, 64):
        try:
            wider = _logits(model, torch.nn.functional.pad(reference.inputs, (0, more)))
        except ModelError as error:
            raise ModelError(
                f"the model reads rows of one width only, and a longer text needs a wider one: {error}"
            ) from error
        if not reference.agrees(wider):
            raise ModelError(
                "the model's output for a text depends on the zeros behind it, so that a longer text meets another "
                "function and no guarantee against insertions can hold; decode rows with shiftproof.perturbations.text"
            )


def check_embeddings(model: nn.Module, domain: Domain) -> None:
    """Refuse a model without an encoder of text, and one that is not a function of the embeddings of a text's tokens.

    One that calls its encoder twice, or with other texts than it is given, says other things of embeddings. One that
    reads embeddings elsewhere, where no noise would reach them, does not move with them.
    """
    embedding_shape(model)
    if sum(isinstance(part, TextEncoder) for part in model.modules()) > 1:
        raise ModelError("the model has two encoders of text, and noise would reach the embeddings of one only")
    inputs = domain.take(np.linspace(0, len(domain) - 1, min(COMPARED, len(domain)), dtype=np.int64))[0]
    with torch.no_grad(), single_threaded():
        texts = EmbeddedTexts.of(model, inputs)
        given = texts.scores(texts.embed()).float().cpu()
    if not Reference(inputs, _logits(model, inputs)).agrees(given):
        raise ModelError(
            "the model says other things of the embeddings of a text's tokens than of the text, so that no guarantee "
            "for changes of embeddings would speak of it"
        )
    _check_moves(model, inputs)


def _check_moves(model: nn.Module, inputs: Tensor) -> None:
    """Refuse a model that says other things of moved embeddings when it is given them than when its own layer gives
    them, and one that says the same wherever they are.
    """
    generator, still = torch_generator(0, "moved embeddings"), True
    for row in inputs:
        with torch.no_grad(), single_threaded():
            texts = EmbeddedTexts.of(model, row[None])
            start, own = texts.embed(), texts.movable[..., None]
            if not bool(own.any()):
                continue
            draws = torch.randn(start.shape, generator=generator).to(start)
            points = start + torch.where(own, draws * start.std().clamp(min=1e-3), 0)
            given, before = texts.scores(points).float().cpu(), texts.scores(start).float().cpu()
            with texts.encoder.embedding_replaced(points):
                moved = _logits(model, row[None])
        if not Reference(row[None], moved).agrees(given):
            raise ModelError(
                "the model reads embeddings of its tokens past what it is given, where no noise would reach them: let "
                "it call its encoder of text as it is"
            )
        still = still and bool((given == before).all())
        if not still:
            return
    if still and any(bool(EmbeddedTexts.of(model, row[None]).movable.any()) for row in inputs):
        raise ModelError(
            "the model says the same wherever the embeddings of its tokens are, so that noise on them tells nothing"
        )


def reference_inputs(domain: Domain, scale: float = 0.5) -> Tensor:
    """Samples of the domain, with noise of a scale, and gray noise: where a model and its copies are compared."""
    inputs = domain.take(np.linspace(0, len(domain) - 1, min(COMPARED, len(domain)), dtype=np.int64))[0]
    noise = torch.randn(inputs.shape, generator=torch_generator(0, "classifier check"))
    return torch.cat([inputs, inputs + scale * noise, random_inputs(domain.shape)])


def _logits(model: nn.Module, inputs: Tensor) -> Tensor:
    logits = logits_of(model, inputs)
    # minus infinity is how some models say never
    if not bool((logits.isfinite() | logits.isneginf()).all() and logits.max(1).values.isfinite().all()):
        raise ModelError("the model returns values that are not numbers (NaN or infinite)")
    return logits.float().cpu()
