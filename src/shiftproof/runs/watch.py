"""Follow a folder: new images are judged as they arrive, and what was judged is kept on disk."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from shiftproof.domains.file_table import FileTable
from shiftproof.domains.files import Directory
from shiftproof.domains.images import FileInputs
from shiftproof.domains.unlabelled import check_sizes, image_names
from shiftproof.errors import DataError
from shiftproof.execution import read_json, write_json
from shiftproof.rng import fresh_seed, numpy_generator
from shiftproof.theory.alarm import Alarm
from shiftproof.theory.points import content_units
from shiftproof.theory.profile import Profile

__all__ = ["Look", "open_alarm", "watch_folder"]

_CHUNK = 256
_Stamp = tuple[int, int]


@dataclass(frozen=True)
class Look:
    """One look at a folder: the alarm after it, how many new images it saw, and what it could not use, and why."""

    alarm: Alarm
    new: int
    skipped: dict[str, str]


def open_alarm(profile: Profile, state: Path | None, level: float, seed: int | None = None) -> Alarm:
    """The alarm that a file keeps, or a new one; its own seed is drawn, so that nobody can arrange files for it."""
    if state is not None and state.exists():
        return Alarm.from_state(profile, read_json(state, DataError), level)
    return Alarm(profile, level, fresh_seed() if seed is None else seed)


def watch_folder(
    alarm: Alarm,
    folder: Path,
    *,
    state: Path | None = None,
    every: float = 0.0,
    looks: int | None = 1,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Look]:
    """Looks at a folder, one after the other, until the alarm is raised or `looks` are over (None: for ever).

    Between two looks `every` seconds pass; a file is read when it did not change from one look to the next, so that
    one that is being written is left alone. The state is written after each look that saw something new.
    """
    read: dict[str, _Stamp] = {}
    before: dict[str, _Stamp] = {}
    count = 0
    while not alarm.raised and (looks is None or count < looks):
        if count:
            sleep(every)
        now = {name: _stamp(folder / name) for name in image_names(folder)}
        settled = [name for name, stamp in now.items() if looks == 1 or before.get(name) == stamp]
        fresh = [name for name in settled if read.get(name) != now[name]]
        seen = alarm.evidence.count
        alarm, skipped = _judge(alarm, folder, fresh)
        # one that can't be read is tried again when it has changed
        read |= {name: now[name] for name in fresh}
        before, count = now, count + 1
        if state is not None and (alarm.evidence.count > seen or not state.exists()):
            write_json(state, alarm.to_state())
        yield Look(alarm, alarm.evidence.count - seen, skipped)


def _judge(alarm: Alarm, folder: Path, names: list[str]) -> tuple[Alarm, dict[str, str]]:
    """All of `names` in a random order, some at a time."""
    order = numpy_generator(alarm.seed, "order of files", alarm.evidence.count).permutation(len(names))
    shuffled = [names[place] for place in order]
    skipped: dict[str, str] = {}
    for start in range(0, len(shuffled), _CHUNK):
        images = {}
        for name in shuffled[start : start + _CHUNK]:
            try:
                images[name] = _image(folder, name, alarm.profile)
            except DataError as error:
                skipped[name] = str(error)
        if images:
            pixels = np.stack(list(images.values()))
            # a file that is overwritten by another image is another sample
            ids = [f"{name} {content}" for name, content in zip(images, content_units(pixels), strict=True)]
            alarm = alarm.update(pixels, ids)
        if alarm.raised:
            break
    return alarm, skipped


def _image(folder: Path, name: str, profile: Profile) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    channels, height, width = profile.shape
    files, shape = Directory(folder), (channels, height, width)
    check_sizes(FileTable(files, [name]), shape, resize=profile.resize, to_gray=profile.to_gray)
    pixels: np.ndarray[tuple[int, ...], np.dtype[np.float32]] = (
        FileInputs(files, [name], shape).take(np.array([0]))[0].numpy()
    )
    return pixels


def _stamp(path: Path) -> _Stamp:
    try:
        found = path.stat()
    except OSError:
        # gone since it was listed
        return -1, -1
    return found.st_size, found.st_mtime_ns
