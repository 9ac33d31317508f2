"""Signals: what ended a process, in words, and SIGTERM as an interruption."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["describe_exit", "terminate_as_interrupt"]

_USUAL_CAUSE = {
    "SIGKILL": "out of memory?",
    "SIGILL": "an instruction that this processor does not have, or is not allowed to use",
    "SIGSEGV": "a fault in a compiled library",
    "SIGBUS": "a file that was cut while in use, or no room in shared memory",
    "SIGFPE": "a fault in a compiled library",
    "SIGABRT": "a fault in a compiled library",
    "SIGTERM": "somebody has ended it",
}


def describe_exit(code: int | None) -> str:
    """How a process ended, by its exit code as Python gives it: negative for a signal.

    >>> describe_exit(-4)
    'died by SIGILL (an instruction that this processor does not have, or is not allowed to use)'
    >>> describe_exit(3)
    'died with exit code 3'
    """
    if code is None:
        return "does not answer"
    if code >= 0:
        return f"died with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"died by {name} ({_USUAL_CAUSE[name]})" if name in _USUAL_CAUSE else f"died by {name}"


@contextmanager
def terminate_as_interrupt() -> Iterator[None]:
    """Let SIGTERM raise KeyboardInterrupt inside the block, as Ctrl-C does, so that what is open is closed.

    Further ones are ignored, because whoever ends a process often sends several, and the first has been heard. A
    process that was started with SIGTERM ignored goes on ignoring it.
    """
    usual = threading.current_thread() is threading.main_thread()
    if not usual or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def interrupt(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        # after an interruption further ones stay ignored until the process has ended
        if signal.getsignal(signal.SIGTERM) is interrupt:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
