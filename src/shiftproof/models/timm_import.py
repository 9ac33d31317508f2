"""The timm library, imported where torchvision is absent or can't be imported as well.

timm names torchvision at its import, for pictures, data sets and a layer that no network of its own has; networks need
none of that. A torchvision for another torch, such as a CUDA build beside a torch for the CPU, fails when it is
imported ("operator torchvision::nms does not exist"), and timm with it.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import torch

from shiftproof.errors import UsageError

__all__ = ["first_line", "import_timm"]

_NEEDED = ("ops", "ops.misc", "transforms", "transforms.functional", "datasets")
"""What timm imports of torchvision without asking whether it is there."""


def import_timm() -> Any:
    """The library. Where torchvision fails, empty classes stand in for it until timm is imported, and no longer."""
    try:
        # torchvision is not imported for nothing
        known = "timm" in sys.modules or importlib.util.find_spec("timm") is None
        if known or _works("torchvision"):
            return importlib.import_module("timm")
        with _stand_in(), _removed_unless_whole("timm"):
            return importlib.import_module("timm")
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "timm":
            raise UsageError("timm is not installed here: pip install 'shiftproof[timm]'") from error
        raise UsageError(
            f"timm can't be imported here: {first_line(error)}. Another version of timm or of torch "
            f"({torch.__version__}) may help; networks by name (shiftproof ls models) need neither timm nor torchvision"
        ) from error


def first_line(error: Exception) -> str:
    """The first line of what an exception says, as a part of a sentence."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


def _works(name: str) -> bool:
    """Whether the package can be imported with all that timm needs of it; if not, nothing of it stays behind."""
    try:
        with _removed_unless_whole(name):
            for part in (name, *(f"{name}.{part}" for part in _NEEDED)):
                importlib.import_module(part)
    except (Exception, SystemExit):  # noqa: BLE001  (a build for another torch raises what it likes)
        return False
    return True


@contextmanager
def _removed_unless_whole(name: str) -> Iterator[None]:
    """Leave no modules of a package behind whose import fails inside the block."""
    before = _modules_of(name)
    try:
        yield
    except BaseException:
        _put_back(name, before)
        raise


@contextmanager
def _stand_in() -> Iterator[None]:
    """Have a torchvision inside the block that can be imported, and afterwards what was there before."""
    before = _modules_of("torchvision")
    try:
        _put_back("torchvision", _empty_modules())
        yield
    finally:
        _put_back("torchvision", before)


def _modules_of(name: str) -> dict[str, ModuleType]:
    return {one: module for one, module in sys.modules.items() if one == name or one.startswith(f"{name}.")}


def _put_back(name: str, modules: dict[str, ModuleType]) -> None:
    for one in _modules_of(name):
        del sys.modules[one]
    sys.modules.update(modules)


def _empty_modules() -> dict[str, ModuleType]:
    modules: dict[str, ModuleType] = {}
    for name in ("torchvision", *(f"torchvision.{part}" for part in _NEEDED)):
        modules[name] = module = _Empty(name)
        # whoever asks whether there is such a package is answered, too
        module.__spec__, module.__path__ = ModuleSpec(name, None, is_package=True), []
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(modules[parent], last, module)
    return modules


class _Missing(type):
    """A class whose attributes are such classes, too: InterpolationMode.BILINEAR."""

    def __getattr__(cls, name: str) -> type:
        return _missing(f"{cls.__name__}.{name}", name)

    def __call__(cls, *_: object, **__: object) -> Any:
        raise UsageError(
            f"timm asks for {cls.__name__}, and torchvision is not installed, or not in the build for this torch "
            f"({torch.__version__})"
        )


class _Empty(ModuleType):
    """A module in which every name is a class that can be inherited from, and not be called."""

    def __getattr__(self, name: str) -> type:
        return _missing(f"{self.__name__}.{name}", name)


def _missing(path: str, name: str) -> type:
    if name.startswith("__"):
        raise AttributeError(name)
    return _Missing(path, (), {})
