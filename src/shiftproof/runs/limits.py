"""How many samples of a domain a study measures: a number, or {balanced: N}, the same number from every class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator

from shiftproof.domains.splits import Balanced
from shiftproof.errors import ShiftproofError, UsageError
from shiftproof.runs.model_spec import refuse

__all__ = ["LimitOption", "PrefixOption", "as_limit", "as_prefix", "limit_text", "takes_balanced"]

_KEY = "balanced"
Prefix = int | Balanced | dict[str, int | Balanced]


def as_limit(value: object, key: str = "limit", least: int = 1) -> int | Balanced:
    """A limit as it stands in a study: 100, or {balanced: 100}.

    >>> as_limit({"balanced": 100})
    Balanced(balanced=100)
    """
    if isinstance(value, Balanced):
        return value
    if isinstance(value, Mapping) and set(value) == {_KEY}:
        return Balanced(_count(value[_KEY], f"{key}.{_KEY}", 1))
    if isinstance(value, Mapping):
        raise UsageError(f"{key} is {dict(value)!r}; it should be a number, or {{balanced: 100}}")
    return _count(value, key, least)


def as_prefix(value: object) -> Prefix:
    """A prefix as it stands in a study: like a limit, or one for each domain, of which 0 is none of it."""
    if isinstance(value, Mapping) and set(value) != {_KEY}:
        return {str(name): as_limit(few, f"prefix.{name}", least=0) for name, few in value.items()}
    return as_limit(value, "prefix")


def limit_text(limit: int | Balanced) -> str:
    """As --limit takes it.

    >>> limit_text(Balanced(100))
    'balanced:100'
    """
    return f"{_KEY}:{limit.balanced}" if isinstance(limit, Balanced) else str(limit)


def takes_balanced(limit: int | Balanced | None, prefix: Prefix | None) -> bool:
    """Whether any sample of a study is chosen by its class."""
    limits = [limit, *(prefix.values() if isinstance(prefix, dict) else [prefix])]
    return any(isinstance(one, Balanced) for one in limits)


def _count(value: object, key: str, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UsageError(
            f"{key} is {value!r}; it should be a whole number of at least {least}, or {{balanced: 100}} for as many "
            "samples of every class as there are, 100 in all"
        )
    return value


def _checked(make: Callable[[object], Any]) -> PlainValidator:
    def check(value: object) -> Any:
        try:
            return None if value is None else make(value)
        except ShiftproofError as error:
            raise refuse(error) from error

    return PlainValidator(check)


def _written(value: Prefix | None) -> Any:
    if isinstance(value, dict):
        return {name: _written(few) for name, few in value.items()}
    return {_KEY: value.balanced} if isinstance(value, Balanced) else value


LimitOption = Annotated[int | Balanced | None, _checked(as_limit), PlainSerializer(_written)]
PrefixOption = Annotated[Prefix | None, _checked(as_prefix), PlainSerializer(_written)]
