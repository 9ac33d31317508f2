"""The house rules: a room may look into rooms to its left only, and no module imports itself through others."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import shiftproof

ROOMS = [
    *("errors", "types", "rng", "catalogue", "execution", "display", "statistics"),
    *("perturbations", "domains", "models", "attacks", "objectives", "training"),
    *("certification", "theory", "evidence", "probes", "report", "runs", "cli", "ui"),
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
        "import shiftproof.report.page\nfrom shiftproof.runs import run\nfrom shiftproof import probes\n"
        "def f():\n    from shiftproof.training.loop import train\n"
    )
    monkeypatch.setattr("test_imports.ROOT", tmp_path)
    assert {other for _, other, _ in doors()} == {"report", "runs", "probes", "training"}


def modules_of(root: Path) -> dict[str, Path]:
    """The modules of a package by their dotted names; an `__init__` has that of its folder."""
    parts = {path: (root.name, *path.relative_to(root).with_suffix("").parts) for path in root.rglob("*.py")}
    return {".".join(names).removesuffix(".__init__"): path for path, names in parts.items()}


def imports_of(path: Path, modules: dict[str, Path]) -> set[str]:
    """Those of `modules` that a file imports, anywhere but under `if TYPE_CHECKING`."""
    tree = ast.parse(path.read_text())
    branches = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)]
    never_run = {id(inner) for branch in branches for line in branch.body for inner in ast.walk(line)}
    imported = set()
    for node in ast.walk(tree):
        if id(node) in never_run:
            continue
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            # a name is a module, or something inside the module that it is taken from
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            imported |= {name if name in modules else str(node.module) for name in names}
    return imported & modules.keys()


def first_cycle(root: Path) -> list[str]:
    """Modules of which each imports the next and the last is the first; none if there are none."""
    modules = modules_of(root)
    graph = {name: imports_of(path, modules) - {name} for name, path in modules.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        # the sorter names each module before the one that imports it
        return list(reversed(error.args[1]))
    return []


def test_no_module_imports_itself_through_others() -> None:
    assert first_cycle(ROOT) == []


@pytest.mark.parametrize(
    "back", ["from package.a import f", "import package.a", "from package import a", "def g():\n    import package.a"]
)
def test_cycles_are_found_in_functions_and_packages_too(back: str, tmp_path: Path) -> None:
    inner = tmp_path / "package" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "package" / "a.py").write_text("from package.inner import g\n")
    (inner / "__init__.py").write_text("from package.inner.b import g\n")
    (inner / "b.py").write_text("def g(): ...\n")
    assert first_cycle(tmp_path / "package") == []
    (inner / "b.py").write_text(f"{back}\n")
    cycle = first_cycle(tmp_path / "package")
    assert cycle[0] == cycle[-1]
    assert set(cycle) == {"package.a", "package.inner", "package.inner.b"}


def test_imports_for_type_checkers_alone_make_no_cycle(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(f"from {tmp_path.name}.b import f\n")
    (tmp_path / "b.py").write_text(f"if TYPE_CHECKING:\n    from {tmp_path.name}.a import g\n")
    assert first_cycle(tmp_path) == []
    (tmp_path / "b.py").write_text(f"if TYPE_CHECKING:\n    pass\nelse:\n    from {tmp_path.name}.a import g\n")
    assert first_cycle(tmp_path) != []


@pytest.mark.parametrize("name", shiftproof.__all__)
def test_public_names_exist_and_are_documented(name: str) -> None:
    assert getattr(shiftproof, name).__doc__


def test_the_public_surface_stays_small() -> None:
    # the design names 33: about 25 things to call, and the modules that complete in an editor
    assert len(shiftproof.__all__) <= 33
