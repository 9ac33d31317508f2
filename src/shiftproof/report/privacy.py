"""What a page says of whose data it is: names of samples, and paths of the machine that a run was made on.

A hash of a path can be guessed: whoever has the list of a hospital's files hashes them all. So ids are hashed with a
key that is drawn for every run and stays in its run.json: only who has the folder can say which sample is meant.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from dataclasses import dataclass, replace
from pathlib import PurePath, PureWindowsPath

from shiftproof.types import Finding

__all__ = ["LEFT_OUT", "SampleNames", "short_command", "short_source"]

LEFT_OUT = "(left out)"
NAMED = (
    *("duplicates", "near-duplicates", "unreadable", "shared-groups", "torn-groups", "empty-texts", "two-labels"),
    "sandwich-broken",
)
"""Findings whose message quotes samples or groups, which stand in their evidence as `names`."""
_LOCAL = ("folder", "table", "file", "hf", "onnx")


@dataclass(frozen=True)
class SampleNames:
    """What samples are called: by their ids, or on a page without samples by a hash with the run's key."""

    private: bool = False
    key: str = ""

    def of(self, name: str) -> str:
        """The name of a sample or a group as the page may show it.

        >>> SampleNames().of("ward-3/jane.png"), SampleNames(True, "00ff").of("ward-3/jane.png")
        ('ward-3/jane.png', '#e5f8b1709f')
        """
        if not self.private:
            return name
        if not self.key:
            return LEFT_OUT
        return f"#{hashlib.blake2b(name.encode(), key=self.key.encode()[:64], digest_size=5).hexdigest()}"

    def finding(self, one: Finding) -> Finding:
        """A finding whose message quotes no sample and no group."""
        if not self.private or one.code not in NAMED or one.level == "pass":
            return one
        names = one.evidence.get("names")
        if names is None:
            # of before names were recorded: which part of the message is one, nobody knows
            return replace(one, message=f"{one.code}: what was found names samples, and is left out here", evidence={})
        longest = sorted(map(str, names), key=len, reverse=True)
        # ids may be numbers, which also stand inside others
        quoted = re.compile(rf"(?<![\w./-])(?:{'|'.join(map(re.escape, longest))})(?![\w/-])")
        message = quoted.sub(lambda found: self.of(found[0]), one.message) if longest else one.message
        return replace(one, message=message, evidence={})


def short_source(name: str) -> str:
    """Data or a model as a page names it: of a path on this machine the last part alone.

    >>> short_source("folder:/home/jane/study 3/images"), short_source("file:model.safetensors"), short_source("pacs")
    ('folder:images', 'file:model.safetensors', 'pacs')
    """
    kind, colon, path = name.partition(":")
    if not colon or kind not in _LOCAL:
        return name
    for pure in (PurePath(path), PureWindowsPath(path)):
        if pure.is_absolute():
            return f"{kind}:{pure.name}"
    return name


def short_command(command: str) -> str:
    """A command as a page shows it: of paths on this machine the last part alone.

    >>> short_command("shiftproof audit --data folder:/home/jane/images --out=/tmp/run")
    'shiftproof audit --data folder:images --out=run'
    """
    try:
        words = shlex.split(command)
    except ValueError:
        return LEFT_OUT
    return shlex.join(_short_word(word) for word in words)


def _short_word(word: str) -> str:
    option, equals, value = word.partition("=")
    if equals and option.startswith("--"):
        return f"{option}={_short_word(value)}"
    for pure in (PurePath(word), PureWindowsPath(word)):
        if pure.is_absolute():
            return pure.name
    return short_source(word)
