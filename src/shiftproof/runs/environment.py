"""Versions, hardware and threads: recorded with every result, never part of its hash."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

__all__ = ["CORE_PACKAGES", "environment", "package_version"]

CORE_PACKAGES = ("shiftproof", "torch", "numpy", "scipy", "scikit-learn", "pillow", "pyarrow", "safetensors")


def environment() -> dict[str, Any]:
    """What the numbers were computed with."""
    import torch

    return {
        "python": platform.python_version(),
        "packages": {name: package_version(name) for name in CORE_PACKAGES},
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "accelerator": str(torch.accelerator.current_accelerator()) if torch.accelerator.is_available() else "none",
    }


def package_version(name: str) -> str | None:
    """The installed version of a distribution, or None."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None
