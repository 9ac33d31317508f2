"""A corrupted copy of a data set, as a folder of images that every verb reads."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from shiftproof.domains import Domain, Domains
from shiftproof.errors import DataError, UsageError
from shiftproof.evidence import slug
from shiftproof.execution import Mode, progress_bar, read_json, write_atomically, write_json
from shiftproof.models.placement import CPU
from shiftproof.perturbations.corruptions import Constants, check_kind, constants_for, corrupt

__all__ = ["Corrupting"]

RECORD = "corrupt.json"
_TOGETHER = 64


@dataclass(frozen=True, eq=False)
class Corrupting:
    """Domains, and what is to happen to them: every corruption at every severity."""

    domains: Domains
    corruptions: tuple[str, ...]
    severities: tuple[int, ...]
    constants: Constants = "auto"
    seed: int = 0
    place: torch.device = CPU

    @property
    def settings(self) -> list[tuple[str, int]]:
        """Every corruption at every severity."""
        return [(name, severity) for name in self.corruptions for severity in self.severities]

    @property
    def asked(self) -> dict[str, Any]:
        """All that can change a pixel or a letter."""
        images = self.domains.kind == "image"
        return {
            "data": {domain.name: domain.fingerprint for domain in self.domains},
            "settings": [list(one) for one in self.settings],
            "constants": constants_for(self.domains.shape, self.constants) if images else "",
            "seed": self.seed,
            # another kind of device may round a pixel to the next level
            **({} if self.place.type == "cpu" or not images else {"device": self.place.type}),
        }

    def write(self, folder: Path, progress: Mode = "auto") -> list[Path]:
        """Images as PNG at domain/class/image, in a folder of its own for each setting if there are several.

        An image that is there already is not made again, so that the same call continues one that was stopped.
        Returns the folders, each of which is a data set: `folder:PATH`.
        """
        self._check()
        self._begin(folder)
        roots = [self._root(folder, setting) for setting in self.settings]
        with progress_bar("corrupting", len(roots) * sum(map(len, self.domains)), progress) as bar:
            for domain in self.domains:
                names = list(_names(domain))
                for block in domain.in_blocks(_TOGETHER):
                    inputs, ids = domain.take(block)[0].to(self.place), [str(one) for one in domain.ids[block]]
                    for root, (kind, severity) in zip(roots, self.settings, strict=True):
                        paths = [root / names[index] for index in block]
                        if not all(path.is_file() for path in paths):
                            changed = corrupt(inputs, kind, severity, seed=self.seed, ids=ids, constants=self.constants)
                            for path, image in zip(paths, changed, strict=True):
                                write_atomically(path, png(image.cpu()))
                        bar.advance(len(block))
        return roots

    def _check(self) -> None:
        """Refuse samples that can't be corrupted, before anything is written."""
        for name in self.corruptions:
            check_kind(name, self.domains.kind)
        for domain in self.domains:
            if len(domain):
                kind, severity = self.settings[0]
                corrupt(domain.take([0])[0], kind, severity, seed=self.seed, constants=self.constants)

    def _begin(self, folder: Path) -> None:
        """Refuse a folder that holds something else; else note what will be in it."""
        path = folder / RECORD
        if path.is_file():
            if read_json(path, DataError) != self.asked:
                raise UsageError(f"{folder} holds other corrupted {self.domains.kind}s; choose another --out")
        elif folder.is_dir() and any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty; choose another --out")
        else:
            write_json(path, self.asked)

    def _root(self, folder: Path, setting: tuple[str, int]) -> Path:
        # beside the record, which a folder of images passes over
        return folder / f"{setting[0]}-{setting[1]}" if len(self.settings) > 1 else folder


def _names(domain: Domain) -> Iterator[str]:
    """domain/class/image.png for every sample; two that differ in their ending only keep it."""
    stems: dict[str, int] = {}
    found = []
    for sample, label in zip(domain.ids, domain.labels, strict=True):
        name = PurePosixPath(str(sample)).name
        stem = f"{slug(domain.name)}/{slug(domain.classes[label])}/{slug(PurePosixPath(name).stem)}"
        stems[stem] = stems.get(stem, 0) + 1
        found.append((stem, str(sample)))
    for stem, sample in found:
        yield f"{stem}.png" if stems[stem] == 1 else f"{stem}-{slug(sample)}.png"


def png(image: Tensor) -> bytes:
    """An image (C x H x W in [0, 1]) as a PNG of 8 bits; two channels are red and green."""
    pixels = (image.clamp(0, 1) * 255).round().to(dtype=image.dtype).numpy().astype(np.uint8)
    if len(pixels) == 2:
        pixels = np.concatenate([pixels, np.zeros_like(pixels[:1])])
    shown = pixels[0] if len(pixels) == 1 else np.ascontiguousarray(pixels.transpose(1, 2, 0))
    buffer = io.BytesIO()
    Image.fromarray(shown).save(buffer, "PNG")
    return buffer.getvalue()
