"""In which options two measurements differ, read from their settings, which are written as in Python."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

__all__ = ["differing_keys", "nearest", "options_in", "tell_apart", "told"]

ABSENT = "none"


def options_in(setting: str) -> dict[str, str]:
    """The options of a setting by their dotted names; of one that is not written as Python, the text itself.

    >>> options_in("Attack(attack=PGD(steps=5), eps=()) at 0.25")
    {'': 'Attack', 'attack': 'PGD', 'attack.steps': '5', 'eps': '()', 'at': '0.25'}
    """
    text, _, size = setting.partition(" at ")
    try:
        node = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        return {"": setting}
    found = dict(_options(node, ""))
    return found | ({"at": size} if size else {})


def _options(node: ast.expr, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Call):
        yield name, ast.unparse(node.func)
        for place, argument in enumerate(node.args):
            yield from _options(argument, _joined(name, str(place)))
        for keyword in node.keywords:
            yield from _options(keyword.value, _joined(name, keyword.arg or "**"))
    elif isinstance(node, ast.Tuple | ast.List) and any(isinstance(one, ast.Call) for one in node.elts):
        # of one certifier, its options are those of the probe
        for place, element in enumerate(node.elts):
            yield from _options(element, name if len(node.elts) == 1 else _joined(name, str(place)))
    else:
        yield name, ast.unparse(node)


def _joined(*names: str) -> str:
    return ".".join(name for name in names if name)


def differing_keys(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Keys whose values differ, with both; a mapping inside of one counts by its own keys.

    >>> differing_keys({"limit": 100, "data": {"size": 28}}, {"limit": 200, "data": {"size": 28}})
    {'limit': ('100', '200')}
    """
    here, there = _flat(one), _flat(other)
    keys = [key for key in {**here, **there} if here.get(key) != there.get(key)]
    return {key: (str(here.get(key, ABSENT)), str(there.get(key, ABSENT))) for key in keys}


def _flat(values: Mapping[str, Any], name: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= _flat(value, f"{name}{key}.") if isinstance(value, Mapping) else {f"{name}{key}": value}
    return found


def told(keys: Mapping[str, tuple[str, str]], most: int = 8) -> str:
    """Differing keys in words: limit 100 and 200, sample_seed 0 and 1."""
    words = [f"{key or 'setting'} {_short(one)} and {_short(other)}" for key, (one, other) in keys.items()]
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def nearest(setting: str, others: Iterable[str]) -> tuple[str, dict[str, tuple[str, str]]] | None:
    """The one of several settings of the same kind that differs in the fewest options, and these; None if none is."""
    mine = options_in(setting)
    found = []
    for one in others:
        theirs = options_in(one)
        if mine.get("") == theirs.get(""):
            found.append((one, differing_keys(mine, theirs)))
    return min(found, key=lambda pair: len(pair[1]), default=None)


def tell_apart(titles: Sequence[str], settings: Sequence[str]) -> list[str]:
    """Titles, of which those that are alike also say in which options their settings differ.

    >>> tell_apart(["attack", "attack", "fog"], ["Attack(attack=PGD(steps=5))", "Attack(attack=Ensemble())", "fog 3"])
    ['attack (PGD)', 'attack (Ensemble)', 'fog']
    """
    told_apart = []
    options = [options_in(setting) for setting in settings]
    for title, mine in zip(titles, options, strict=True):
        alike = [one for name, one in zip(titles, options, strict=True) if name == title]
        methods = {one.get("attack", "") for one in alike}
        keys = [key for key in mine if any(one.get(key) != mine[key] for one in alike)]
        if len(alike) == 1:
            told_apart.append(title)
        elif len(methods) == len(alike):
            told_apart.append(f"{title} ({mine.get('attack', '')})")
        else:
            told_apart.append(f"{title} ({', '.join(f'{key} {_short(mine[key])}'.strip() for key in keys)})")
    return told_apart
