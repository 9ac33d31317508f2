"""The votes so far of some images under one setting, and who needs more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftproof.certification.certificates import Votes
from shiftproof.certification.sampling.bank import CHOOSING, Block
from shiftproof.certification.sampling.setting import Setting
from shiftproof.certification.sampling.stopping import Look
from shiftproof.types import FloatArray, IntArray

__all__ = ["Choice", "Tally", "choose_classes"]

Choice = Callable[[IntArray], IntArray]
"""From the votes that choose (settings x images x classes) to one class an image."""


class Tally:
    """Counts of every class for every image; `state` and `restore` carry one image's from process to process.

    First come `n0` votes that choose the class; with `choose` the counts start again from nothing.
    """

    def __init__(self, setting: Setting, off_grid: FloatArray, classes: int) -> None:
        images = len(off_grid)
        self.setting = setting
        self.off_grid = off_grid
        self.levels = setting.levels(classes)
        self.chosen = np.full(images, -1)
        self.drawn = np.zeros(images, np.int64)
        self.counts = np.zeros((images, classes), np.int64)
        self.settled = np.zeros(images, bool)

    def target(self, purpose: str) -> int:
        """How many votes there are for a purpose at most."""
        return self.setting.n0 if purpose == CHOOSING else self.setting.n

    def waiting(self, purpose: str, block: Block) -> IntArray:
        """The images that need the votes of this block."""
        if block.start >= self.target(purpose):
            return np.zeros(0, np.int64)
        right_stage = (self.chosen < 0) if purpose == CHOOSING else (self.chosen >= 0)
        return np.flatnonzero(right_stage & ~self.settled & (self.drawn == block.start))

    def settle(self, images: IntArray, labels: IntArray) -> IntArray:
        """Look at some images, and return those of them that need no more votes from now on.

        Decided by the votes alone, at the end of a block, so that a restart decides alike.
        """
        images = images[(self.chosen[images] >= 0) & ~self.settled[images]]
        enough = self.skipped(labels)[images] | (self.drawn[images] >= self.setting.n)
        looked_at = ~enough & (self.drawn[images] > 0)
        open_ = images[looked_at]
        if self.setting.stop.early and len(open_):
            rival, _ = self._rivals(open_)
            count = self.counts[open_, self.chosen[open_]]
            look = Look(
                self.setting.noise, count, rival, self.drawn[open_], self.setting.n, self.levels, self.off_grid[open_]
            )
            enough[looked_at] = self.setting.stop.decided(look)
        self.settled[images[enough]] = True
        return images[enough]

    def skipped(self, labels: IntArray) -> NDArray[np.bool_]:
        """Which images are not certified because they are wrong anyway."""
        wrong: NDArray[np.bool_] = (self.chosen >= 0) & (self.chosen != labels) & self.setting.skip_wrong
        return wrong

    def add(self, image: int, votes: IntArray, count: int) -> None:
        """Count a tile."""
        self.counts[image] += votes
        self.drawn[image] += count

    @property
    def undecided(self) -> NDArray[np.bool_]:
        """Images that have all the votes that choose a class, but no class yet."""
        ready: NDArray[np.bool_] = (self.chosen < 0) & (self.drawn >= self.setting.n0)
        return ready

    def choose(self, images: IntArray, classes: IntArray) -> None:
        """Fix the classes; the votes that chose them never count again."""
        self.chosen[images] = classes
        self.counts[images] = 0
        self.drawn[images] = 0

    def state(self, image: int) -> list[Any]:
        """One image's state, in a form that fits into JSON: class, votes drawn, and how many each class has."""
        counts = self.counts[image]
        some = np.flatnonzero(counts)
        return [int(self.chosen[image]), int(self.drawn[image]), some.tolist(), counts[some].tolist()]

    def restore(self, image: int, state: list[Any]) -> None:
        """Take over what `state` gave."""
        self.chosen[image], self.drawn[image], some, counts = state
        self.counts[image] = 0
        self.counts[image, some] = counts

    def forget(self, image: int) -> None:
        """Start an image again."""
        self.chosen[image], self.drawn[image], self.counts[image] = -1, 0, 0

    def saved(self, image: int) -> int:
        """How many votes a settled image did not need."""
        return int(self.setting.n - self.drawn[image])

    def spent(self) -> int:
        """Votes that are done or not needed, of all images."""
        own = self.drawn + np.where(self.chosen >= 0, self.setting.n0, 0)
        return int(np.where(self.settled, self.setting.n0 + self.setting.n, own).sum())

    def votes(self, labels: IntArray) -> Votes:
        """The columns of a certificate that come from counting."""
        every = np.arange(len(self.chosen))
        rival_count, rival = self._rivals(every)
        skipped = self.skipped(labels)
        count = self.counts[every, self.chosen]
        return Votes(self.chosen, skipped, count, rival, rival_count, self.drawn, self.off_grid)

    def label_votes(self, labels: IntArray) -> IntArray:
        """Votes for the label of every image; none for a label that the classifier does not have."""
        known = (labels >= 0) & (labels < self.counts.shape[1])
        return np.where(known, self.counts[np.arange(len(labels)), np.where(known, labels, 0)], 0)

    def _rivals(self, images: IntArray) -> tuple[IntArray, IntArray]:
        """The largest count of any class but the chosen one, and which class has it."""
        others = self.counts[images].copy()
        others[np.arange(len(images)), self.chosen[images]] = -1
        best = others.argmax(1)
        return others[np.arange(len(images)), best], best


def choose_classes(tallies: Sequence[Tally], choice: Choice | None) -> list[IntArray]:
    """Fix the class of every image that has the votes for it; returns the images of each tally that got theirs now.

    With a `choice`, all tallies get one class an image, once all of them have their votes. A run that was killed
    between two of them knows the class already.
    """
    waiting = [tally.undecided for tally in tallies]
    if choice is None:
        found = [np.flatnonzero(ready) for ready in waiting]
        for tally, images in zip(tallies, found, strict=True):
            tally.choose(images, tally.counts[images].argmax(1))
        return found
    known = np.max([tally.chosen for tally in tallies], axis=0)
    complete = np.logical_and.reduce(
        [ready | (tally.chosen >= 0) for ready, tally in zip(waiting, tallies, strict=True)]
    )
    fresh = np.flatnonzero(complete & (known < 0))
    if len(fresh):
        known[fresh] = choice(np.stack([tally.counts[fresh] for tally in tallies]))
    found = [np.flatnonzero(complete & ready) for ready in waiting]
    for tally, images in zip(tallies, found, strict=True):
        tally.choose(images, known[images])
    return found
