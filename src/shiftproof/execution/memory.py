"""How much memory there is, and how the C library treats freed memory."""

import ctypes
import os
import platform

__all__ = ["keep_freed_memory", "machine_memory"]

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_GIBIBYTE = 1 << 30


def keep_freed_memory() -> bool:
    """Let this process keep large freed blocks for itself; whether that could be arranged.

    By default glibc gives them back to the system, and every training step pays for getting its activations back, page
    by page: about half of the time of a small convolutional network. A setting of the whole process, so that programs
    call it (the command line does), libraries do not.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    library = ctypes.CDLL(None)
    settings = ((_M_MMAP_THRESHOLD, _GIBIBYTE), (_M_TRIM_THRESHOLD, 2 * _GIBIBYTE - 1))
    accepted = [bool(library.mallopt(name, value)) for name, value in settings]
    return all(accepted)


def machine_memory() -> int | None:
    """Bytes of memory of this machine; None where the system does not say."""
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", {}):
        return None
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
