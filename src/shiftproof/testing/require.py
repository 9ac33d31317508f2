"""What a failed check raises, and what is required of every method."""

import dataclasses
import json
from typing import Any

from shiftproof.catalogue import Method
from shiftproof.errors import ConformanceError

__all__ = ["require", "require_frozen", "require_method"]


def require(condition: bool, sentence: str) -> None:
    """Raise `sentence` unless the condition holds."""
    if not condition:
        raise ConformanceError(sentence)


def require_frozen(method: Method) -> None:
    """Require a frozen dataclass."""
    frozen = dataclasses.is_dataclass(method) and bool(method.__dataclass_params__.frozen)
    require(frozen, f"{type(method).__name__} should be a frozen dataclass")


def require_method(method: Method) -> None:
    """Require a frozen dataclass that `to_config` writes down, through JSON, so that it can be made again."""
    require_frozen(method)
    name = type(method).__name__
    config: dict[str, Any] = json.loads(json.dumps(method.to_config()))
    require(config.pop("name") == method.name, f"{name} calls itself something else in its configuration")
    require(type(method)(**config) == method, f"{name} made again from {config} is another one")
