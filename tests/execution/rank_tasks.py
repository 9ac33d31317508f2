"""Tasks for several processes, in a file that each of them can load quickly."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shiftproof.errors import DataError

Tell = Callable[[Any], None]


def count(rank: int, tell: Tell) -> str:
    """Tells three numbers."""
    for number in range(3):
        tell((rank, number))
    return f"rank {rank}"


def wait_for_ever(rank: int, tell: Tell) -> None:
    """Says who it is, and waits."""
    tell(os.getpid())
    time.sleep(600)


@dataclass(frozen=True)
class Fail:
    """The second process dies, or has a reason to stop, and the first one notices that it is gone."""

    folder: Path
    killed: bool

    def __call__(self, rank: int, tell: Tell) -> None:
        mark = self.folder / "second process was here"
        if rank == 1:
            mark.touch()
            if self.killed:
                os.kill(os.getpid(), signal.SIGKILL)
            raise DataError("no such sample")
        while not mark.exists():
            time.sleep(0.01)
        time.sleep(0.2)
        raise RuntimeError("connection closed by peer")


@dataclass(frozen=True)
class PutAway:
    """Waits with something open, and puts it away when it is ended."""

    folder: Path

    def __call__(self, rank: int, tell: Tell) -> None:
        if rank == 1:
            time.sleep(0.3)
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            time.sleep(600)
        finally:
            (self.folder / "put away").touch()
