"""Is this machine fit to run a study?"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from shiftproof.errors import StorageError
from shiftproof.execution import bf16_problem, check_writable
from shiftproof.runs.environment import CORE_PACKAGES, package_version
from shiftproof.types import Finding

__all__ = ["examine"]

LOW_DISK_BYTES = 1 << 30


def examine() -> list[Finding]:
    """Findings about Python, packages, cores, disk and data."""
    return [*_python(), *_packages(), *_torch(), *_folders()]


def _python() -> Iterator[Finding]:
    good = sys.version_info >= (3, 11)
    yield Finding("pass" if good else "fail", "python", f"Python {platform.python_version()} (3.11 or newer is needed)")


def _packages() -> Iterator[Finding]:
    missing = [name for name in CORE_PACKAGES if package_version(name) is None]
    if missing:
        yield Finding("fail", "packages", f"not installed: {', '.join(missing)}; run pip install shiftproof again")
    else:
        yield Finding("pass", "packages", ", ".join(f"{name} {package_version(name)}" for name in CORE_PACKAGES))


def _torch() -> Iterator[Finding]:
    try:
        import torch
    except (ImportError, OSError) as error:
        yield Finding("fail", "torch", f"torch can't be imported: {error}")
        return
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    where = f"accelerator {accelerator}" if accelerator else "no accelerator, computing on the CPU"
    yield Finding("pass", "torch", f"torch uses {torch.get_num_threads()} threads of {os.cpu_count()} cores; {where}")
    from shiftproof.runs.precisions import describe_bf16

    extras = {"openvino": ("--backend openvino", "fast"), "ray": ("--cluster ray", "distributed")}
    for package, (option, extra) in extras.items():
        version = package_version(package)
        missing = f"{option} needs the package {package}: pip install 'shiftproof[{extra}]'"
        yield Finding("pass", package, f"{option} works: {package} {version}" if version else missing)
    problem = bf16_problem()
    yield Finding("pass" if problem is None else "warn", "bf16", problem or describe_bf16())
    if importlib.util.find_spec("torchvision") is not None:
        yield Finding(
            "warn",
            "torchvision",
            "torchvision is installed; shiftproof does not need it, and a build for another torch breaks packages",
        )


def _folders() -> Iterator[Finding]:
    from shiftproof.domains import DOMAINS
    from shiftproof.domains.registry import data_folder, look_for

    folder = data_folder()
    sets = [entry for entry in DOMAINS if entry.cls.files]
    here = [entry.name for entry in sets if all(look_for(file) for file in entry.cls.files)]
    if "SHIFTPROOF_DATA" in os.environ and not folder.is_dir():
        yield Finding("warn", "data", f"SHIFTPROOF_DATA names {folder}, which is not a folder")
    else:
        yield Finding(
            "pass",
            "data",
            f"{len(here)} of {len(sets)} data sets on disk are in {folder}; the embedded ones always work",
        )
    free = shutil.disk_usage(Path.cwd()).free
    yield Finding(
        "pass" if free > LOW_DISK_BYTES else "warn", "disk", f"{free / 2**30:.1f} GiB free in the current folder"
    )
    try:
        check_writable(Path("runs"))
        yield Finding("pass", "writable", "runs can be written in the current folder")
    except StorageError as error:
        yield Finding("warn", "writable", str(error))
