"""The model of a cell: taken as it is, or trained now unless it was before."""

from __future__ import annotations

import glob
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from shiftproof.evidence import slug
from shiftproof.execution import Compute, Mode
from shiftproof.runs.model_spec import Member
from shiftproof.runs.models import kept_copy, model_file, train_to_file
from shiftproof.runs.plan import Planned
from shiftproof.runs.pretraining import first_alike
from shiftproof.runs.spec import Study
from shiftproof.training.machine import math_threads

__all__ = ["model_of_cell", "trained_files"]


def model_of_cell(
    planned: Planned, threads: int, compute: Compute, progress: Mode, processes: int, member: Member
) -> tuple[nn.Module, dict[str, Any]]:
    """A model with its record: as it is, or trained now, on so many threads, unless it was before."""
    prepared, study, folder = planned.prepared, planned.study, planned.folder
    path = model_file(folder, study, member)
    if (taken := prepared.models.get(member.name)) is not None:
        return taken, kept_copy(taken, dict(prepared.cards[member.name]), prepared.data.sources, path)
    with math_threads(threads):
        return train_to_file(
            study.models[member.name],
            replace(prepared.data, sources=prepared.data.sources_of(member.name)),
            path,
            folder / "checkpoints" / f"{slug(member.key)}.ckpt",
            seed=study.seed_of(member),
            data=study.data.to_config(),
            extractor=_extractor(folder, study, member),
            device=compute.device,
            processes=processes,
            progress=progress,
            label="training" if study.at_top else f"training {member.title}",
        )


def trained_files(planned: Planned, threads: int, compute: Compute, member: Member) -> dict[str, bytes]:
    """The files of a model that is trained now, in a folder of its own: only who asked writes into that of the run."""
    with tempfile.TemporaryDirectory(prefix="shiftproof-") as place:
        elsewhere = replace(planned, folder=Path(place))
        model_of_cell(elsewhere, threads, compute, "off", 1, member)
        path = model_file(elsewhere.folder, planned.study, member)
        files = sorted(path.parent.glob(f"{glob.escape(path.stem)}.*"))
        return {file.relative_to(place).as_posix(): file.read_bytes() for file in files}


def _extractor(folder: Path, study: Study, member: Member) -> tuple[Path, Path] | None:
    """Weights and checkpoint of what a model is pre-trained to."""
    if study.models[member.name].pretrain is None:
        return None
    path = model_file(folder, study, Member(first_alike(study, member.name), member.seed))
    stem = f"{path.stem}-pretrained"
    return path.with_name(f"{stem}{path.suffix}"), folder / "checkpoints" / f"{stem}.ckpt"
