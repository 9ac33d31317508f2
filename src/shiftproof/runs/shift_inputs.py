"""What a distance is computed from: samples of a run's domain and of a target, in pixels or represented by a model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shiftproof.certification.bounds.representations import body_rounding, linear_parts
from shiftproof.domains import Domain
from shiftproof.domains.inputs import ArrayInputs
from shiftproof.domains.splits import part_of
from shiftproof.domains.unlabelled import Unlabelled, unlabelled_folder
from shiftproof.errors import DataError, ModelError, UnknownName, UsageError
from shiftproof.models.split import SplitModel
from shiftproof.perturbations.norms import Norm
from shiftproof.runs.data import StudyData
from shiftproof.runs.run import Run
from shiftproof.runs.spec import Study

__all__ = ["Encoder", "check_unseen", "encoder_of", "reference_samples", "resizes", "target_samples", "to_gray"]

_ROWS, _FEW = 256, 32


def reference_samples(data: StudyData, domain: str) -> Unlabelled:
    """The part of a domain that the run measures, all of it that can be read, whatever the run's limit."""
    whole = next(one for one in data.domains if one.name == domain)
    part = part_of(whole, data.part(domain))
    bad = set(data.left_out.get(domain, ()))
    kept = part.subset(np.flatnonzero([str(one) not in bad for one in part.ids])) if bad else part
    return Unlabelled.of(kept)


def target_samples(target: Any, study: Study, data: StudyData) -> Unlabelled:
    """The target that is meant by the name of a domain of the run's data, folder:PATH, a domain, or an array."""
    if isinstance(target, Unlabelled):
        return target
    if isinstance(target, Domain):
        return Unlabelled.of(target)
    if isinstance(target, Tensor | np.ndarray):
        array = target.numpy() if isinstance(target, Tensor) else target
        ids = np.empty(len(array), object)
        ids[:] = [str(row) for row in range(len(array))]
        return Unlabelled("target", ArrayInputs(array, "target"), ids)
    if isinstance(target, Path):
        target = f"folder:{target}"
    if not isinstance(target, str):
        raise UsageError(f"the target is {target!r}; name a domain of the run, or folder:PATH with images")
    names = [domain.name for domain in data.domains]
    if target in names:
        return reference_samples(data, target)
    # the run may have used some domains of its data only
    every = {domain.name: domain for domain in study.data.load()} if ":" not in target else {}
    if target in every:
        return Unlabelled.of(every[target])
    kind, colon, path = target.partition(":")
    if kind == "folder" and colon:
        shape = data.sources.shape
        if data.sources.kind != "image":
            raise UsageError(f"the run is about {data.sources.kind}s, and {target} is a folder of images")
        return unlabelled_folder(Path(path), shape, resize=resizes(study), to_gray=to_gray(study))
    if kind == "table" and colon:
        raise UsageError(
            f"{target} holds texts, whose distances no radius speaks of: name a domain of the run's own data with "
            "--space representation"
        )
    if Path(target).exists():
        raise UsageError(
            f"{target!r} is no domain of the run, but there is such a path: did you mean 'folder:{target}'?"
        )
    raise UnknownName("domain of the run's data:", target, [*(every or names), "folder:PATH"])


def resizes(study: Study) -> bool:
    """Whether the run's images were brought to a size, so that those of a target may be, in the same way."""
    return getattr(study.data, "size", None) is not None


def to_gray(study: Study) -> bool:
    """Whether the run's images were made gray."""
    return getattr(study.data, "channels", None) == 1


@dataclass(frozen=True, eq=False)
class Encoder:
    """The encoder of a model, frozen; `constant` is how much farther apart it may bring two inputs, if that is known.

    `rounding` is what rounding may change of a representation, in the same norm.
    """

    body: nn.Module
    name: str
    constant: float | None
    rounding: float = 0.0

    def __call__(self, samples: Unlabelled) -> NDArray[np.float32]:
        """Representations (N x D)."""
        blocks = []
        for start in range(0, len(samples), _ROWS):
            rows = np.arange(start, min(start + _ROWS, len(samples)))
            with torch.no_grad():
                blocks.append(self.body(samples.inputs.take(rows)).flatten(1).float().numpy())
        values = np.concatenate(blocks)
        if not np.isfinite(values).all():
            raise ModelError(f"the encoder of {self.name} returns values that are not numbers (NaN or infinite)")
        return values


def encoder_of(model: nn.Module, name: str, norm: str, samples: Unlabelled) -> Encoder:
    """The encoder of a model with its constant in a norm, or without one where that is not known."""
    if not isinstance(model, SplitModel):
        raise ModelError(f"{name} has no representation: it is not put together as SplitModel(encoder, head)")
    shape = samples.inputs.shape
    if samples.kind == "image" and norm in ("l2", "l1", "linf"):
        wanted: Norm = norm  # type: ignore[assignment]
        try:
            parts = linear_parts(model, shape, wanted, needs_split=True)
        except ModelError:
            return Encoder(model.eval().encoder, name, None)
        few = samples.inputs.take(np.linspace(0, len(samples) - 1, min(_FEW, len(samples)), dtype=np.int64))
        return Encoder(parts.body, name, parts.constant, body_rounding(parts, few, wanted))
    return Encoder(model.eval().encoder, name, None)


def check_unseen(run: Run, member: str, domain: str) -> None:
    """Refuse to represent samples by a model that may have been trained on them: they lie elsewhere than others do."""
    known = run.record.get("measured", {}).get(member, {}).get(domain)
    if known is not None and known.get("chose_weights", "unknown") != "no":
        raise DataError(
            f"the samples of {domain} decided which weights of {member} were kept, or may have: it represents them as "
            "it does no others; take --space pixels"
        )
    if known is not None and known["seen_in_training"] != "no":
        raise DataError(
            f"{member} may have been trained on the samples of {domain} (seen in training: "
            f"{known['seen_in_training']}), and represents them as it does no others: take --space pixels"
        )
