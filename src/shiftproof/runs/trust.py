"""What a folder may make this program run or fetch: nothing that the user has not said himself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shiftproof.errors import UsageError
from shiftproof.models import MODELS
from shiftproof.runs.sources import GIVEN

__all__ = ["Trust"]

LOCAL = ("folder:", "table:")
"""Kinds of data that are read from this machine, whoever names them."""
Model = tuple[str, Mapping[str, Any]]
"""The name of a model, and its options."""


@dataclass(frozen=True)
class Trust:
    """What the user has said: models of the folder that he has repeated, or that all that it names is trusted.

    A run that comes from elsewhere must not choose what code runs here (python:PKG.MOD:FN), nor what is fetched (data
    and models of hf:NAME, published weights of timm:NAME).
    """

    models: tuple[str, ...] = ()
    everything: bool = False

    def check(self, folder: Path, data: str, models: Sequence[Model]) -> None:
        """Refuse to load the data and the models that `folder` names, unless that was said."""
        named = {name for model in models for name in _names(*model)}
        for model in self.models:
            if model not in named:
                raise UsageError(f"--model {model}: {folder} names no such model; it names {', '.join(sorted(named))}")
        if self.everything:
            return
        foreign = [one for model in models for one in _foreign(*model)]
        unsaid = [name for name in dict.fromkeys(foreign) if name not in self.models]
        fetched = [data] if ":" in data and not data.startswith(LOCAL) else []
        if not unsaid and not fetched:
            return
        repeat = "" if fetched else f"repeat it, {' '.join(f'--model {name}' for name in unsaid)}, or "
        raise UsageError(
            f"{folder} names {', '.join([*fetched, *unsaid])}. Code is not run, and nothing is fetched, because a "
            f"folder says so: nothing was verified. If you trust it, {repeat}give --trust"
        )


def _names(name: str, options: Mapping[str, Any]) -> list[str]:
    return [name, *([str(options["architecture"])] if "architecture" in options else [])]


def _foreign(name: str, options: Mapping[str, Any]) -> Iterator[str]:
    """The names behind a model whose loading would run code of others, or fetch weights."""
    # weights of a file are read in place of published ones
    published = options.get("pretrained", False) is not False and options.get("weights") is None
    for one in _names(name, options):
        unpublished = one.startswith("timm:") and not published
        # a model of transformers in a folder of this machine is read as a file is; one of the hub would be fetched
        local = one.startswith("file:") or (one.startswith("hf:") and Path(one.removeprefix("hf:")).is_dir())
        if not (one in MODELS or one == GIVEN or local or unpublished):
            yield one
