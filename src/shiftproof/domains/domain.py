"""A domain is labelled samples from one place; domains share one label space and one input shape."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from shiftproof.domains.inputs import ArrayInputs, Inputs, SubsetInputs
from shiftproof.domains.notebook import domain_html, domains_html
from shiftproof.errors import DataError, UnknownName, UsageError
from shiftproof.types import FloatArray, IntArray

__all__ = ["Domain", "Domains", "class_labels"]

BLOCK_SAMPLES, BLOCK_BYTES = 256, 1 << 24
JSON_TEXTS = 4_096
SPLITS = {"train", "validation", "test"}


@dataclass(frozen=True, eq=False, repr=False)
class Domain:
    """Labelled samples from one place: a hospital, a style, an environment.

    `inputs` are float32 in [0, 1] when taken, before any normalisation. `ids` are stable names of the samples: equal
    ids in two domains mean the same thing measured twice. `groups` (patient, slide, author) are never torn apart by a
    split. `splits`, where the data set comes with them, say train, validation or test for each sample.
    `counterfactual`, where a data set is constructed, turns inputs into what they would be elsewhere: the same digit in
    the other colour. Without `classes`, labels are numbers to be predicted (regression): how alike two sentences are.
    """

    name: str
    classes: tuple[str, ...]
    inputs: Inputs
    labels: NDArray[Any]
    ids: NDArray[np.object_]
    groups: NDArray[np.object_] | None = None
    splits: NDArray[np.object_] | None = None
    counterfactual: Callable[[Tensor], Tensor] | None = None

    def __post_init__(self) -> None:
        columns = {"labels": self.labels, "ids": self.ids, "groups": self.groups, "splits": self.splits}
        for column, values in columns.items():
            if values is not None and len(values) != len(self.inputs):
                raise DataError(f"domain {self.name!r} has {len(self.inputs)} inputs but {len(values)} {column}")
        if len(set(self.classes)) != len(self.classes):
            raise DataError(f"two classes of {self.name!r} have the same name: {', '.join(self.classes)}")
        if len(set(self.ids.tolist())) != len(self.ids):
            raise DataError(f"domain {self.name!r} has two samples with the same id")
        if self.splits is not None and not set(self.splits.tolist()) <= SPLITS:
            raise DataError(f"splits of {self.name!r} should be train, validation or test")
        if self.is_regression:
            if not np.isfinite(self.labels).all():
                raise DataError(f"labels of {self.name!r} should be finite numbers")
        elif len(self.labels) and (self.labels.min() < 0 or self.labels.max() >= len(self.classes)):
            raise DataError(
                f"labels of {self.name!r} run from {self.labels.min()} to {self.labels.max()}, "
                f"but {len(self.classes)} classes allow 0 to {len(self.classes) - 1}"
            )

    @classmethod
    def from_arrays(
        cls,
        name: str,
        inputs: NDArray[np.uint8] | NDArray[np.float32] | Tensor,
        labels: ArrayLike,
        classes: Sequence[str],
        *,
        ids: Sequence[str] | None = None,
        groups: Sequence[str] | None = None,
        splits: Sequence[str] | None = None,
    ) -> Domain:
        """A domain held in memory: uint8, or float in [0, 1], N x C x H x W. Ids default to '<name>/<index>'."""
        given = ArrayInputs(inputs, name)
        return cls.from_inputs(name, given, labels, classes, ids=ids, groups=groups, splits=splits)

    @classmethod
    def from_inputs(
        cls,
        name: str,
        inputs: Inputs,
        labels: ArrayLike,
        classes: Sequence[str],
        *,
        ids: Sequence[str] | None = None,
        groups: Sequence[str] | None = None,
        splits: Sequence[str] | None = None,
    ) -> Domain:
        """A domain of inputs of any kind. Ids default to '<name>/<index>'."""
        return cls(
            name,
            tuple(classes),
            inputs,
            class_labels(labels, name) if len(classes) else _numbers(labels, name),
            _objects(ids if ids is not None else [f"{name}/{i}" for i in range(len(inputs))]),
            None if groups is None else _objects(groups),
            None if splits is None else _objects(splits),
        )

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, Any]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"domain {self.name!r} has {len(self)} samples; there is no number {index}")
        return self.inputs.take(np.array([index % len(self)]))[0], self.labels[index].item()

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.shape)) if self.kind == "image" else self.kind
        groups = f", {len(set(self.groups.tolist()))} groups" if self.groups is not None else ""
        labels = "numbers to predict" if self.is_regression else f"{len(self.classes)} classes"
        return f"Domain({self.name!r}, {len(self)} samples of {shape}, {labels}{groups})"

    def _repr_html_(self) -> str:
        return domain_html(self)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one input, C x H x W for images."""
        return self.inputs.shape

    @property
    def kind(self) -> str:
        """What inputs are: image (numbers in [0, 1]) | text (rows of bytes)."""
        return self.inputs.kind

    @property
    def is_regression(self) -> bool:
        """Whether labels are numbers to be predicted, not classes."""
        return not self.classes

    @property
    def outputs(self) -> int:
        """How many outputs a model of it has: a logit for each class, or one number."""
        return len(self.classes) or 1

    @property
    def units(self) -> NDArray[np.object_]:
        """What a split or a bootstrap may not tear apart: the groups where there are any, else the ids."""
        return self.ids if self.groups is None else self.groups

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all that is in the domain: inputs, labels, classes, ids, groups and splits."""
        digest = hashlib.blake2b(self.inputs.fingerprint.encode(), digest_size=16)
        digest.update(self.labels.tobytes())
        for column in (self.classes, self.ids, self.groups, self.splits):
            for part in _in_json(column):
                digest.update(part)
        return digest.hexdigest()

    @property
    def class_counts(self) -> dict[str, int]:
        """How many samples each class has; nothing where labels are numbers."""
        if self.is_regression:
            return {}
        return dict(zip(self.classes, np.bincount(self.labels, minlength=len(self.classes)).tolist(), strict=True))

    def take(self, indices: ArrayLike) -> tuple[Tensor, Tensor]:
        """Inputs and labels at `indices`, as tensors; labels that are numbers in float32."""
        chosen = np.asarray(indices, np.int64)
        labels = torch.from_numpy(self.labels[chosen])
        return self.inputs.take(chosen), labels.float() if self.is_regression else labels

    def tensors(self) -> tuple[Tensor, Tensor]:
        """All inputs and labels, for domains that fit in memory."""
        return self.take(np.arange(len(self)))

    @cached_property
    def blocks(self) -> list[IntArray]:
        """All indices in consecutive blocks, small enough that large images do not fill the memory.

        The blocks depend on the domain alone, so that results by block depend on nothing else either.
        """
        return self.in_blocks(BLOCK_SAMPLES)

    def in_blocks(self, most: int) -> list[IntArray]:
        """All indices in consecutive blocks of `most` samples or, if they are large, fewer."""
        room = BLOCK_BYTES // (4 * max(1, math.prod(self.shape)))
        size = max(1, min(most, room))
        return [np.arange(start, min(start + size, len(self))) for start in range(0, len(self), size)]

    def subset(self, indices: ArrayLike) -> Domain:
        """The same domain with only the samples at `indices`, without copying inputs."""
        chosen = np.asarray(indices, np.int64)
        return replace(
            self,
            inputs=SubsetInputs(self.inputs, chosen),
            labels=self.labels[chosen],
            ids=self.ids[chosen],
            groups=None if self.groups is None else self.groups[chosen],
            splits=None if self.splits is None else self.splits[chosen],
        )


class Domains:
    """Several domains with one label space: iterate over them, or ask by name.

    >>> from shiftproof.domains import load_domains
    >>> sources, target = load_domains("colored-digits").leave_out("e=0.9")
    >>> sources.names, len(target)
    (('e=0.1', 'e=0.2'), 397)
    """

    def __init__(self, name: str, members: Sequence[Domain]) -> None:
        self.name = name
        self._members = {domain.name: domain for domain in members}
        if not members:
            raise DataError(f"data set {name!r} has no domain")
        if len(self._members) != len(members):
            raise DataError(f"data set {name!r} has two domains of the same name: {[d.name for d in members]}")
        first = members[0]
        for domain in members[1:]:
            if domain.classes != first.classes:
                raise DataError(
                    f"domains {first.name!r} and {domain.name!r} have different classes: "
                    f"{', '.join(first.classes)} and {', '.join(domain.classes)}"
                )
            if domain.kind != first.kind:
                raise DataError(f"{first.name!r} holds {first.kind} data and {domain.name!r} {domain.kind} data")
            if domain.shape != first.shape:
                raise DataError(
                    f"domains {first.name!r} and {domain.name!r} have inputs of different shape: "
                    f"{first.shape} and {domain.shape}"
                )

    def __iter__(self) -> Iterator[Domain]:
        return iter(self._members.values())

    def __len__(self) -> int:
        return len(self._members)

    def __getitem__(self, name: str) -> Domain:
        if name not in self._members:
            raise UnknownName(f"domain of {self.name!r}:", name, self._members)
        return self._members[name]

    def __repr__(self) -> str:
        return f"Domains({self.name!r}: " + ", ".join(f"{d.name} ({len(d)})" for d in self) + ")"

    def _repr_html_(self) -> str:
        return domains_html(self)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the domains, in their own order."""
        return tuple(self._members)

    @property
    def classes(self) -> tuple[str, ...]:
        """The class names that all domains share, in the order of the labels."""
        return next(iter(self)).classes

    @property
    def is_regression(self) -> bool:
        """Whether labels are numbers to be predicted, not classes."""
        return not self.classes

    @property
    def outputs(self) -> int:
        """How many outputs a model of it has: a logit for each class, or one number."""
        return next(iter(self)).outputs

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return next(iter(self)).shape

    @property
    def kind(self) -> str:
        """What inputs are: image | text."""
        return next(iter(self)).kind

    def select(self, names: Sequence[str]) -> Domains:
        """Only the named domains."""
        return Domains(self.name, [self[name] for name in names])

    def leave_out(self, name: str) -> tuple[Domains, Domain]:
        """(all other domains, the named one): train on the first, ship to the second."""
        target = self[name]
        return self.without([name]), target

    def without(self, names: Sequence[str]) -> Domains:
        """All domains but the named ones."""
        left_out = [self[name] for name in names]
        others = [domain for domain in self if domain not in left_out]
        if not others:
            has = f"one domain only, {self.names[0]!r}; leaving it out"
            has = has if len(self) == 1 else f"no domain besides {', '.join(self.names)}; leaving all of them out"
            raise UsageError(f"{self.name!r} has {has} leaves nothing to train on")
        return Domains(self.name, others)


def _in_json(texts: Sequence[str] | NDArray[np.object_] | None) -> Iterator[bytes]:
    """A list of texts as `json.dumps` writes it, piece by piece: a million ids are not in memory once more."""
    if texts is None:
        yield b"-"
        return
    for start in range(0, len(texts), JSON_TEXTS):
        yield (b", " if start else b"[") + json.dumps(list(texts[start : start + JSON_TEXTS]))[1:-1].encode()
    yield b"]" if len(texts) else b"[]"


def class_labels(labels: ArrayLike, owner: str) -> IntArray:
    """Labels as whole numbers; `owner` is whose they are, for errors."""
    values = np.asarray(labels)
    if values.ndim != 1 or values.dtype.kind not in "iub":
        raise DataError(
            f"labels of {owner!r} should be one integer a sample, not {values.dtype} of shape {values.shape}"
        )
    return values.astype(np.int64)


def _numbers(labels: ArrayLike, owner: str) -> FloatArray:
    values = np.asarray(labels)
    if values.ndim != 1 or values.dtype.kind not in "iuf":
        raise DataError(
            f"labels of {owner!r} should be one number a sample, not {values.dtype} of shape {values.shape}"
        )
    return values.astype(np.float64)


def _objects(values: Sequence[str]) -> NDArray[np.object_]:
    column = np.empty(len(values), object)
    column[:] = [str(value) for value in values]
    return column
