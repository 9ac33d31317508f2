"""The models of a study that differ in one option alone, for figures over that option."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shiftproof.perturbations.threat import parse_eps
from shiftproof.report.sections.sweeps import Sweep
from shiftproof.runs.model_spec import ModelSpec
from shiftproof.runs.spec import Study

__all__ = ["sweeps_of"]

FEWEST = 3
"""Models that were written one by one are a sweep if there are so many; two are a comparison."""


def sweeps_of(study: Study) -> list[Sweep]:
    """One for every option that `vary` goes over alone, with models that fit into it but are written on their own, and
    for every other option in which three models or more differ alone.
    """
    trained = {name: spec for name, spec in study.models.items() if spec.train}
    told = list(dict.fromkeys(next(iter(spec.varied)) for spec in trained.values() if len(spec.varied) == 1))
    options = [*told, *(one for one in _numeric(trained.values()) if one not in told)]
    found = []
    for option in options:
        groups: dict[str, dict[float, str]] = {}
        varied: set[str] = set()
        for name, spec in trained.items():
            rest, value = _but(spec, option)
            if _is_number(value):
                groups.setdefault(rest, {}).setdefault(float(value), name)
                varied |= {rest} if list(spec.varied) == [option] else set()
        for rest, models in groups.items():
            if len(models) > 1 and (rest in varied or (not varied and len(models) >= FEWEST)):
                found.append(Sweep(option, tuple(sorted(models.items()))))
    return found


def _numeric(specs: Any) -> list[str]:
    """The options of objectives, recipes and networks that are numbers, in order of appearance."""
    every = [path for spec in specs for path, value in _leaves(_written(spec)) if _is_number(value)]
    return list(dict.fromkeys(every))


def _leaves(config: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in config.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{path}{key}.")
        elif key == "threat" and isinstance(value, str) and ":" in value:
            # the size of a threat is an option like others, and its kind another
            kind, _, eps = value.partition(":")
            yield from _leaves({"kind": kind, "eps": parse_eps(eps)}, f"{path}threat.")
        else:
            yield f"{path}{key}", value


def _but(spec: ModelSpec, option: str) -> tuple[str, Any]:
    """What makes a model, without one option, and the option's value."""
    leaves = dict(_leaves(_written(spec)))
    value = leaves.pop(option, None)
    return repr(leaves), value


def _written(spec: ModelSpec) -> dict[str, Any]:
    """What makes a model; what is measured of it does not."""
    return spec.model_dump(mode="json", exclude={"about", "varied", "probes"})


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
