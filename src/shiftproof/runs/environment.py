"""Versions, hardware and threads: recorded with every result, never part of its hash."""

import os
import platform
from importlib.metadata import PackageNotFoundError, entry_points, version
from typing import Any

__all__ = ["CORE_PACKAGES", "environment", "package_version", "plug_ins"]

CORE_PACKAGES = ("shiftproof", "torch", "numpy", "scipy", "scikit-learn", "pillow", "pyarrow", "safetensors")


def environment() -> dict[str, Any]:
    """What the numbers were computed with."""
    import torch

    return {
        "python": platform.python_version(),
        "packages": {name: package_version(name) for name in (*CORE_PACKAGES, *plug_ins())},
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "accelerator": str(torch.accelerator.current_accelerator()) if torch.accelerator.is_available() else "none",
    }


def plug_ins() -> list[str]:
    """The installed packages that bring methods, report sections or verbs."""
    groups = [group for group in entry_points().groups if group.startswith("shiftproof.")]
    points = [point for group in groups for point in entry_points(group=group)]
    return sorted({point.dist.name for point in points if point.dist is not None})


def package_version(name: str) -> str | None:
    """The installed version of a distribution, or None."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None
