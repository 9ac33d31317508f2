"""The blocks of the Markdown documents, and how a test runs them.

A comment before a block says what a test has to know:

- ``<!-- file: study.yaml -->``: the block is the content of this file, which later blocks use;
- ``<!-- needs: SHIFTPROOF_DATA -->``: the data sets must be there; ``<!-- needs: datasets -->``: a package must be;
- ``<!-- slow -->``: it takes minutes; ``<!-- exit: 2 -->``: the last command ends with this code;
- ``<!-- not run: why -->``: it installs something, or stands for what only the reader has.

Blocks of one document that are marked alike (needs, slow) run in order, in one folder and one namespace. The folder
holds the reader's data: ``my-images`` with the domains photo, cartoon and sketch, and ``reviews.csv``.
"""

from __future__ import annotations

import contextlib
import csv
import importlib.util
import os
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import shiftproof as sp
from shiftproof.domains.texts import texts_of

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SHOWN = ("", "text", "mermaid", "yaml", "toml", "csv")
"""Languages of blocks that nothing runs; a test writes those with a file name."""
DOMAINS, CLASSES, EACH, SIDE = ("photo", "cartoon", "sketch"), ("cat", "dog"), 10, 8
_BLOCK = re.compile(r"((?:<!--[^\n]*-->\n)*)```(\w*)\n(.*?)^```$", re.S | re.M)


@dataclass(frozen=True)
class Block:
    """A fenced block of a document: its language, its text, its line, and what the comments before it say."""

    document: Path
    language: str
    text: str
    line: int
    marks: dict[str, str] = field(default_factory=dict)

    @property
    def where(self) -> str:
        return f"{self.document.name}, line {self.line}"

    @property
    def together(self) -> str:
        """What the blocks that run together have in common."""
        return ", ".join(f"{key}: {self.marks[key]}" if self.marks[key] else key for key in _conditions(self.marks))

    @property
    def runs(self) -> bool:
        return "not run" not in self.marks and ("file" in self.marks or self.language not in SHOWN)

    @property
    def commands(self) -> list[list[str]]:
        """The words of every command line; `#` begins a comment, and a backslash joins lines."""
        lines = self.text.replace("\\\n", " ").splitlines()
        return [words for line in lines if (words := shlex.split(line, comments=True))]


def _conditions(marks: dict[str, str]) -> list[str]:
    return [key for key in ("needs", "slow") if key in marks]


def blocks_of(document: Path) -> list[Block]:
    """All fenced blocks of a document, in order."""
    text, found = document.read_text(), []
    for match in _BLOCK.finditer(text):
        comments = re.findall(r"<!--\s*([\w ]+?)\s*(?::\s*(.*?))?\s*-->", match[1])
        line = text.count("\n", 0, match.start(2)) + 1
        found.append(Block(document, match[2], match[3], line, dict(comments)))
    return found


def groups_of(document: Path) -> dict[str, list[Block]]:
    """The blocks that run, by what they need."""
    groups: dict[str, list[Block]] = {}
    for block in blocks_of(document):
        if block.runs:
            groups.setdefault(block.together, []).append(block)
    return groups


def missing(needs: str) -> str:
    """Why blocks with these needs can't run here; empty if they can."""
    for need in filter(None, (one.strip() for one in needs.split(","))):
        if need == "SHIFTPROOF_DATA":
            if not Path(os.environ.get(need, "")).joinpath("mnist.npz").is_file():
                return "SHIFTPROOF_DATA does not hold the data sets"
        elif importlib.util.find_spec(need) is None:
            return f"the package {need} is not installed"
    return ""


def write_reader_images(folder: Path) -> None:
    """Small images in folder/domain/class/: cats are dark, dogs are bright, noise is on all."""
    generator = np.random.default_rng(0)
    for domain in DOMAINS:
        for number, label in enumerate(CLASSES):
            place = folder / domain / label
            place.mkdir(parents=True)
            for index in range(EACH):
                pixels = generator.integers(0, 128, (SIDE, SIDE, 3)) + 100 * number
                Image.fromarray(pixels.astype(np.uint8)).save(place / f"{index}.png")


def write_reader_texts(path: Path) -> None:
    """Constructed reviews under the names of three shops."""
    domains = zip(("books", "kitchen", "airline"), sp.load_domains("signed-reviews"), strict=True)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["text", "label", "domain"])
        for shop, domain in domains:
            labels = [domain.classes[label] for label in domain.labels]
            rows.writerows([text, label, shop] for text, label in zip(texts_of(domain), labels, strict=True))


@contextlib.contextmanager
def reader_folder(folder: Path) -> Iterator[Path]:
    """A folder with the reader's data, in which modules of a document are found and forgotten afterwards."""
    write_reader_images(folder / "my-images")
    write_reader_texts(folder / "reviews.csv")
    known, path = set(sys.modules), list(sys.path)
    sys.path.insert(0, str(folder))
    try:
        yield folder
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - known:
            if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(folder)):
                del sys.modules[name]


def run_block(block: Block, folder: Path, namespace: dict[str, Any]) -> None:
    """Write a file, run Python, or run commands, each of which must end with the code that is written (0)."""
    from shiftproof.cli.main import main

    if "file" in block.marks:
        path = folder / block.marks["file"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text)
        return
    if block.language == "python":
        exec(compile("\n" * block.line + block.text, str(block.document), "exec"), namespace)
        return
    assert block.language == "sh", f"{block.where}: a test runs python and sh, and shows text; this is {block.language}"
    for number, words in enumerate(block.commands, 1):
        assert words[0] == "shiftproof", f"{block.where}: a test runs shiftproof only, not {words[0]}"
        expected = int(block.marks.get("exit", 0)) if number == len(block.commands) else 0
        with pytest.raises(SystemExit) as stopped:
            main([_found(word, folder) for word in words[1:]])
        assert int(stopped.value.code or 0) == expected, (
            f"{block.where}: {shlex.join(words)} ended with {stopped.value}"
        )


def _found(word: str, folder: Path) -> str:
    """runs/NAME-* as a shell would say it."""
    if not word.startswith("runs/") or "*" not in word:
        return word
    (path,) = folder.glob(word)
    return str(path.relative_to(folder))
