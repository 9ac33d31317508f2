"""YAML that can't take more of a machine than a study needs: no bombs of aliases, no bottomless nesting."""

from __future__ import annotations

from typing import Any

import yaml

from shiftproof.execution.nesting import DEEPEST

__all__ = ["LARGEST", "Refused", "parse_yaml"]

LARGEST = 500_000
"""Characters of a document with every alias written out; studies have a few thousand."""


class Refused(yaml.MarkedYAMLError):
    """Valid YAML that is deeper or larger than anything that we would want to read."""


def parse_yaml(text: str) -> tuple[yaml.Node | None, Any]:
    """A YAML document as nodes, which know their lines, and as values; a `yaml.YAMLError` if it is none, or is refused.

    >>> parse_yaml("a: [1, 2]")[1]
    {'a': [1, 2]}
    """
    if len(text) > LARGEST:
        raise Refused(problem=f"it has {len(text):,} characters; at most {LARGEST:,} are read")
    _check_size(text)
    return yaml.compose(text, Loader=yaml.SafeLoader), yaml.safe_load(text)


def _check_size(text: str) -> None:
    """Refuse a document by its events alone, which come one after the other, before anything is built from them."""
    anchors: dict[str, int] = {}
    sizes, opened = [0], [""]
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        anchor, mark = getattr(event, "anchor", None) or "", event.start_mark
        if isinstance(event, yaml.CollectionStartEvent):
            # what is opened again under the name of an anchor is another thing
            anchors.pop(anchor, None)
            sizes.append(1)
            opened.append(anchor)
            if len(opened) > DEEPEST + 1:
                raise Refused(
                    problem=f"lists and mappings lie in each other more than {DEEPEST} levels deep", problem_mark=mark
                )
            continue
        if isinstance(event, yaml.AliasEvent):
            if anchor in opened and anchor not in anchors:
                raise Refused(problem=f"the alias *{anchor} stands inside of what it names", problem_mark=mark)
            size = anchors.get(anchor, 1)
        elif isinstance(event, yaml.ScalarEvent):
            size = 1 + len(event.value)
            anchors[anchor] = size
        elif isinstance(event, yaml.CollectionEndEvent):
            size, anchor = sizes.pop(), opened.pop()
            anchors[anchor] = size
        else:
            continue
        sizes[-1] += size
        if sizes[-1] > LARGEST:
            message = f"with its aliases written out it has more than {LARGEST:,} characters"
            raise Refused(problem=message, problem_mark=mark)
