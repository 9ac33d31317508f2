"""The house rule: a room may look into rooms to its left only."""

import ast
from pathlib import Path

import pytest

import shiftproof

ROOMS = [
    *("errors", "types", "rng", "catalogue", "execution", "statistics"),
    *("perturbations", "domains", "models", "attacks", "objectives", "training"),
    *("certification", "theory", "evidence", "probes", "report", "studies", "cli", "ui"),
]
ROOT = Path(shiftproof.__file__).parent
# testing.py is for third parties and may look anywhere; __init__ and __main__ are the front door
FREE = {"__init__", "__main__", "testing"}


def doors() -> list[tuple[str, str, str]]:
    """(room, room that it imports, where)."""
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        relative = path.relative_to(ROOT)
        room = relative.parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text())):
            modules = []
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{relative}:{node.lineno}: imports are absolute"
                modules = [node.module or ""]
                if node.module == "shiftproof":
                    modules = [f"shiftproof.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            found += [
                (room, module.split(".")[1], f"{relative}:{node.lineno}")
                for module in modules
                if module.startswith("shiftproof.")
            ]
    return found


def test_every_room_is_known() -> None:
    modules = [path for path in ROOT.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
    rooms = {path.name.removesuffix(".py") for path in modules}
    assert rooms - FREE <= set(ROOMS)


def test_imports_point_left() -> None:
    back = [
        f"{where}: {room} -> {other}"
        for room, other, where in doors()
        if room not in FREE and room != other and ROOMS.index(other) > ROOMS.index(room)
    ]
    assert back == []


def test_the_rule_sees_doors_of_every_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "domains").mkdir()
    (tmp_path / "domains" / "a.py").write_text(
        "import shiftproof.report.page\nfrom shiftproof.studies import run\nfrom shiftproof import probes\n"
        "def f():\n    from shiftproof.training.loop import train\n"
    )
    monkeypatch.setattr("test_imports.ROOT", tmp_path)
    assert {other for _, other, _ in doors()} == {"report", "studies", "probes", "training"}


@pytest.mark.parametrize("name", shiftproof.__all__)
def test_public_names_exist_and_are_documented(name: str) -> None:
    assert getattr(shiftproof, name).__doc__


def test_the_public_surface_stays_small() -> None:
    assert len(shiftproof.__all__) <= 30
