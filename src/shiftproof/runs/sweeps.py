"""Sweeps in a study: one model written once, and trained once for every value of some of its options.

    models:
      GLEAN:
        objective: glean
        vary: {objective.irm_weight: [10, 100, 10000]}

is three models, "GLEAN, irm_weight 10" and so on. With several options there is one for every combination. A `vary` at
the top of a study is for all of its models.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

from shiftproof.errors import UsageError

__all__ = ["MOST_MODELS", "SweepError", "expand_sweeps", "put"]

MOST_MODELS = 1_000
"""A sweep of more is a slip of the pen."""
_FIXED = ("about", "varied", "vary", "source", "probes", "train")
"""Keys of a model that no sweep goes over: what tells a name, or what is measured."""


class SweepError(UsageError):
    """A sweep that means nothing; `path` is where it stands in the study."""

    def __init__(self, message: str, path: tuple[str, ...] = ("vary",)) -> None:
        super().__init__(message)
        self.path = path


def expand_sweeps(document: Any) -> Any:
    """A study with every `vary` written out as models; as it is where there is none."""
    models = document.get("models") if isinstance(document, Mapping) else None
    if not isinstance(models, Mapping):
        return document
    expanded: dict[str, Any] = {}
    for name, spec in models.items():
        # what is measured as it is has no option to vary
        trained = isinstance(spec, Mapping) and spec.get("train", True)
        shared = _checked(document["vary"], ("vary",)) if trained and "vary" in document else {}
        own = _checked(spec["vary"], ("models", str(name), "vary")) if trained and "vary" in spec else {}
        options = {**shared, **own}
        if problem := _problem(options) if options else "":
            raise SweepError(f"vary: {problem}", ("models", str(name)))
        for varied in _combinations(options):
            title = ", ".join([str(name), *(f"{path.split('.')[-1]} {_text(value)}" for path, value in varied.items())])
            if title in expanded:
                raise SweepError(f"two models would be called {title!r}; rename one of them", ("models", str(name)))
            expanded[title] = _varied(spec, varied) if varied else spec
            if len(expanded) > MOST_MODELS:
                raise SweepError(f"vary would make more than {MOST_MODELS:,} models; name fewer values")
    return {**{key: value for key, value in document.items() if key != "vary"}, "models": expanded}


def put(document: dict[str, Any], keys: list[str], value: Any) -> None:
    """Put a value into a nested mapping; a plain text on the way becomes its name.

    Of what is a list already, a key is the place: probes.0.n is of the first probe.
    """
    here: Any = document
    for number, key in enumerate(keys):
        place = _place(here, key, keys[:number])
        if number == len(keys) - 1:
            here[place] = value
            return
        inner = here[place] if isinstance(here, list) else here.get(place)
        # a copy: what YAML aliases share is changed in one place only
        if isinstance(inner, list):
            here[place] = list(inner)
        else:
            here[place] = (
                {"name": inner} if isinstance(inner, str) else dict(inner) if isinstance(inner, Mapping) else {}
            )
        here = here[place]


def _place(here: Any, key: str, before: list[str]) -> Any:
    """The key of a mapping, or the place in a list."""
    if not isinstance(here, list):
        return key
    if not key.isdecimal() or int(key) >= len(here):
        path = ".".join(before)
        places = f"{path}.0 to {path}.{len(here) - 1}" if here else "nothing"
        raise UsageError(f"{path} is a list; its entries are {places}, so that there is no {path}.{key}")
    return int(key)


def _checked(options: Any, path: tuple[str, ...]) -> dict[str, list[Any]]:
    if problem := _problem(options):
        raise SweepError(f"vary: {problem}", path)
    return {str(option): list(values) for option, values in options.items()}


def _problem(options: Any) -> str:
    """What is wrong with a sweep; nothing if it is one."""
    example = "such as {objective.weight: [10, 100]}"
    if not isinstance(options, Mapping) or not options:
        return f"it should map options to lists of values, {example}, not {options!r}"
    for option, values in options.items():
        if not isinstance(values, list | tuple) or not values:
            return f"the values of {option} should be a list, {example}, not {values!r}"
        if len({_text(value) for value in values}) != len(values):
            return f"a value of {option} is named twice"
        if str(option).split(".")[0] in _FIXED:
            return f"{option} is not an option of a model or its training; write two models instead"
        if any(isinstance(value, Mapping | list) for value in values):
            return f"a value of {option} is a list or a mapping; name its options one by one, {example}"
        if inside := [other for other in options if str(other).startswith(f"{option}.")]:
            return f"{inside[0]} is an option of {option}, which is swept over, too; leave one of them out"
    return ""


def _combinations(options: Mapping[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(options, values, strict=True)) for values in product(*options.values())]


def _varied(spec: Mapping[str, Any], varied: Mapping[str, Any]) -> dict[str, Any]:
    own = {key: value for key, value in spec.items() if key != "vary"}
    for path, value in varied.items():
        put(own, path.split("."), value)
    return {**own, "varied": dict(varied)}


def _text(value: Any) -> str:
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 1e12
    return str(int(value)) if whole else str(value)
