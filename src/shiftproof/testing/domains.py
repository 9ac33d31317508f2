"""Whether data keeps its promises."""

import numpy as np
import torch
from torch import Tensor

from shiftproof.domains import Domains, held_out, train_part, validation_part
from shiftproof.domains.splits import has_training_rows
from shiftproof.perturbations.text import decode, encode, parts_of, plain
from shiftproof.testing.require import require

__all__ = ["check_domains"]

_PROBED = 64


def check_domains(domains: Domains) -> None:
    """Whether domains keep their promises: values, shape, labels, ids, repeatable reads, parts that do not overlap."""
    for domain in domains:
        where = f"domain {domain.name!r}"
        require(len(domain) > 0, f"{where} has no samples")
        require(domain.classes == domains.classes, f"{where} has other classes than the rest")
        require(len(set(domain.ids.tolist())) == len(domain), f"{where} has two samples with the same id")
        indices = np.unique(np.linspace(0, len(domain) - 1, _PROBED).astype(np.int64))
        inputs, labels = domain.take(indices)
        require(
            inputs.dtype == torch.float32 and tuple(inputs.shape[1:]) == domains.shape,
            f"{where}: inputs are {inputs.dtype} of shape {tuple(inputs.shape[1:])}",
        )
        _check_values(domain.kind, inputs, where)
        _check_labels(labels, len(domain.classes), where)
        require(torch.equal(domain.take(indices)[0], inputs), f"{where} gives other inputs when read again")
        first, label = domain[int(indices[-1])]
        require(
            torch.equal(first, inputs[-1]) and bool(labels.new_tensor(label) == labels[-1]),
            f"{where}: domain[i] and take([i]) differ",
        )
        reversed_inputs = domain.take(indices[::-1].copy())[0]
        require(torch.equal(reversed_inputs.flip(0), inputs), f"{where}: what is read depends on the order of reading")
        if not has_training_rows(domain):
            # others have split it, and this is what they measure on
            continue
        train, validation = train_part(domain), validation_part(domain)
        require(
            not set(train.units.tolist()) & set(validation.units.tolist()), f"{where}: train and validation share units"
        )
        require(
            not set(train.ids.tolist()) & set(held_out(domain).ids.tolist()),
            f"{where}: train and held-out share samples",
        )
    if len(domains) > 1:
        sources, target = domains.leave_out(domains.names[-1])
        require(target.name not in sources.names, "leave_out keeps the target among the sources")


def _check_labels(labels: Tensor, classes: int, where: str) -> None:
    """Whole numbers below the number of classes; without classes, finite numbers."""
    if not classes:
        require(
            labels.dtype == torch.float32 and bool(labels.isfinite().all()), f"{where}: labels are no finite numbers"
        )
        return
    require(
        labels.dtype == torch.int64 and bool((labels >= 0).all()) and int(labels.max()) < classes,
        f"{where}: labels leave 0 to {classes - 1}",
    )


def _check_values(kind: str, inputs: Tensor, where: str) -> None:
    """Images are in [0, 1]; texts are UTF-8, filled up with zeros, in the one way in which a text is kept."""
    if kind == "text":
        texts = decode(inputs)
        same = torch.equal(encode(texts, inputs.shape[1]), inputs)
        require(same, f"{where}: inputs are not texts as rows of UTF-8 bytes")
        require(
            all(plain(*parts_of(text)) == text for text in texts), f"{where}: texts have more than words and spaces"
        )
        return
    inside = bool(torch.isfinite(inputs).all()) and float(inputs.min()) >= 0 and float(inputs.max()) <= 1
    require(inside, f"{where}: inputs leave [0, 1]")
