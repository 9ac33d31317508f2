"""Which kinds of devices vote in a job: all votes of an image are of one kind, because devices round differently."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from shiftproof.certification.certifier import Job
from shiftproof.certification.sampling.tally import Tally

__all__ = ["of_images", "place_of", "restart_elsewhere"]

DEVICES = "devices"
"""The key under which a record says which kinds voted, the present one last, where it is not the CPU alone."""


def of_images(done: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What a record says of images."""
    return ((key, state) for key, state in done.items() if key != DEVICES)


def place_of(key: str) -> tuple[int, int]:
    """The numbers of the setting and the image of which a record speaks under a key."""
    number, image = key.split(":")
    return int(number), int(image)


def restart_elsewhere(job: Job, tallies: Sequence[Tally]) -> list[str]:
    """The kinds of devices that have a part in the job's votes; what another kind has begun starts again.

    What it has finished is kept. `tallies` hold what was recorded, and know which images are settled.
    """
    before, now = job.record.done.get(DEVICES) or (["cpu"] if job.record.done else []), job.compute.kind
    if before and before[-1] != now:
        for number, tally in enumerate(tallies):
            begun = ~tally.settled & ((tally.drawn > 0) | (tally.chosen >= 0))
            for image in np.flatnonzero(begun).tolist():
                tally.forget(image)
                job.record.append(f"{number}:{image}", tally.state(image))
    kinds = [*(one for one in before if one != now), now]
    if kinds != (before or ["cpu"]):
        job.record.append(DEVICES, kinds)
    return kinds
