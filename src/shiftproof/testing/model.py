"""Whether a classifier is what attacks, training and certificates rely on."""

from __future__ import annotations

import copy
import random
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shiftproof.certification.checks import check_classifier, reference_inputs
from shiftproof.domains import Domain, Domains
from shiftproof.errors import ConformanceError, ShiftproofError
from shiftproof.execution import single_threaded
from shiftproof.models import SplitModel, blueprint_of, load_model, save_model
from shiftproof.models.outputs import check_copyable, logits_of
from shiftproof.models.reference import Reference
from shiftproof.models.text import text_encoder_of
from shiftproof.testing.require import require

__all__ = ["check_model"]

_BATCHES = (1, 2, 5)


def check_model(model: nn.Module, domain: Domain | Domains, *, gradients: bool = True) -> None:
    """Whether a classifier is one fixed function of each input, on inputs like the domain's; in eval mode, on a copy.

    It returns finite logits, N x classes, for any batch size; what it says of an input depends on nothing else: not on
    the batch, its order, earlier calls, or a visit to train mode. It leaves inputs and global random state alone. A
    copy, and a model of the catalogue that was saved and loaded, is the same function. Its outputs have gradients with
    respect to the inputs, which attacks follow; for a model that is not made for that, say `gradients=False`. A model
    of text answers the empty text, does not depend on how far texts are filled up, and has gradients with respect to
    the embeddings of its tokens.

    >>> from shiftproof import build_model, load_domains
    >>> digits = load_domains("digits")
    >>> check_model(build_model("mlp", digits), digits)
    """
    samples = next(iter(domain)) if isinstance(domain, Domains) else domain
    name = type(model).__name__
    require(isinstance(model, nn.Module), f"{name} should be a torch.nn.Module that returns logits")
    try:
        check_copyable(model)
        own = copy.deepcopy(model).eval()
        check_classifier(own, samples)
        # sums of several threads may be rounded otherwise from call to call
        with single_threaded():
            _check_function(name, own, reference_inputs(samples))
            _check_side_effects(name, own, reference_inputs(samples))
            _check_copies(name, own, reference_inputs(samples))
            if samples.kind == "text":
                _check_texts(name, own, samples)
            if gradients:
                _check_gradients(name, own, reference_inputs(samples))
    except ConformanceError:
        raise
    except ShiftproofError as error:
        raise ConformanceError(f"{name}: {error}") from error


def _check_function(name: str, model: nn.Module, inputs: Tensor) -> None:
    """Values, the order and size of a batch, and modes."""
    logits = logits_of(model, inputs).float().cpu()
    require(bool(logits.isfinite().all()), f"{name} returns logits that are not finite")
    reference = Reference(inputs, logits)
    turned = logits_of(model, inputs.flip(0)).float().cpu().flip(0)
    require(reference.agrees(turned), f"{name}: the output for an input depends on the order of the batch")
    for size in _BATCHES:
        parts = torch.cat([logits_of(model, part).float().cpu() for part in torch.split(inputs, size)])
        require(reference.agrees(parts), f"{name}: the output for an input is another in a batch of {size}")
    model.train()
    model.eval()
    left = [layer for layer, module in model.named_modules() if module.training]
    require(not left, f"{name}.eval() leaves {', '.join(map(repr, left))} in train mode")
    require(
        reference.agrees(logits_of(model, inputs).float().cpu()), f"{name} is another function after train() and eval()"
    )


def _check_texts(name: str, model: nn.Module, domain: Domain) -> None:
    """Widths of rows, and the text without a word."""
    inputs = domain.take(np.arange(min(len(domain), _BATCHES[-1])))[0]
    reference = Reference.of(model, inputs)
    wider = logits_of(model, F.pad(inputs, (0, 7))).float().cpu()
    alone = [logits_of(model, row[None, : max(1, int((row != 0).sum()))]).float().cpu() for row in inputs]
    for logits in (wider, torch.cat(alone)):
        require(reference.agrees(logits), f"{name}: the output for a text depends on how far its row is filled up")
    empty = logits_of(model, torch.zeros(2, domain.shape[0]))
    require(bool(empty.isfinite().all()), f"{name} does not answer the empty text")


def _check_side_effects(name: str, model: nn.Module, inputs: Tensor) -> None:
    weight = next((one for one in model.parameters() if one.is_floating_point()), inputs)
    given = inputs.to(weight.device, weight.dtype, copy=True)
    before, states = given.clone(), _random_states()
    with torch.no_grad():
        model(given)
    require(torch.equal(given, before), f"{name} overwrites its inputs; take a copy in forward")
    require(_random_states() == states, f"{name} draws from, or sets, the global random state")


def _random_states() -> tuple[object, ...]:
    _, words, *rest = np.random.get_state()  # noqa: NPY002 - it is looked at, not drawn from
    return torch.get_rng_state().numpy().tobytes(), np.asarray(words).tobytes(), *rest, random.getstate()


def _check_copies(name: str, model: nn.Module, inputs: Tensor) -> None:
    reference = Reference.of(model, inputs)
    copied = copy.deepcopy(model)
    require(reference.holds_for(copied), f"a copy of {name} is another function")
    with torch.no_grad():
        for parameter in copied.parameters():
            parameter.zero_()
    require(reference.holds_for(model), f"a copy of {name} shares its weights: what changes the one changes the other")
    if blueprint_of(model) is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        save_model(model, path)
        require(reference.holds_for(load_model(f"file:{path}")), f"{name} is another function once saved and loaded")


def _check_gradients(name: str, model: nn.Module, inputs: Tensor) -> None:
    weight = next((one for one in model.parameters() if one.is_floating_point()), inputs)
    points, follow = _differentiable(model, inputs.to(weight.device, weight.dtype, copy=True))
    place = "the inputs" if text_encoder_of(model) is None else "the embeddings of tokens"
    hint = "attacks that follow gradients find nothing (gradients=False if that is meant)"
    with torch.enable_grad():
        logits = follow(points.clone())
        require(logits.requires_grad, f"{name}: outputs have no gradient with respect to {place}, so that {hint}")
        # a constant would cancel where outputs sum to 1
        mixture = torch.linspace(1, 2, logits.shape[1], dtype=logits.dtype, device=logits.device)
        (slopes,) = torch.autograd.grad(logits, points, mixture.expand_as(logits), allow_unused=True)
    require(slopes is not None, f"{name}: outputs have no gradient with respect to {place}, so that {hint}")
    require(bool(slopes.isfinite().all()), f"{name}: a gradient with respect to {place} is not finite")
    require(bool(slopes.any()), f"{name}: all gradients with respect to {place} are 0, so that {hint}")


def _differentiable(model: nn.Module, inputs: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """What gradients are taken with respect to, and what follows it: the inputs, or the embeddings of a text."""
    encoder = text_encoder_of(model)
    if encoder is None:
        return inputs.requires_grad_(), model
    tokens = encoder.tokens(inputs)
    head = model.head if isinstance(model, SplitModel) and model.encoder is encoder else nn.Identity()
    return encoder.embed(tokens).detach().requires_grad_(), lambda points: head(encoder.encode(points, tokens))
