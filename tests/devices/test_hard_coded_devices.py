"""No device is written into attacks, objectives, training and perturbations: tensors are made where the inputs are."""

import ast
from pathlib import Path

import pytest

import shiftproof

ROOT = Path(shiftproof.__file__).parent
FOLDERS = ("attacks", "objectives", "training", "perturbations")
FACTORIES = {"zeros", "ones", "empty", "full", "arange", "eye", "linspace", "rand", "randn", "randint", "tensor"}
FACTORIES |= {"randperm", "logspace", "tril_indices", "triu_indices"}
NAMES = {"cuda", "mps", "xpu", "cpu"}


def faults(source: str) -> list[str]:
    """What is wrong in a module, as line and sentence.

    A new tensor needs a `device`, or to be brought somewhere at once: `torch.zeros(3).to(inputs)`; or a comment says
    why it is `# on the CPU: ...`. What generators draw is there, whatever the device, so that draws are the same.
    """
    tree, lines, found = ast.parse(source), source.splitlines(), []
    moved = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in ("to", "type_as"):
            moved |= {id(inner) for inner in ast.walk(node.value)}
    for node in ast.walk(tree):
        text = lines[node.lineno - 1] if hasattr(node, "lineno") else ""
        if isinstance(node, ast.Attribute) and node.attr == "cuda" and "backends" not in text:
            found.append(f"{node.lineno}: .cuda")
        if isinstance(node, ast.keyword) and node.arg == "device" and isinstance(node.value, ast.Constant):
            found.append(f"{node.value.lineno}: device={node.value.value!r}")
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        owner = node.func.value.id if isinstance(node.func.value, ast.Name) else ""
        if owner == "torch" and node.func.attr == "device" and isinstance(node.args[0], ast.Constant):
            found.append(f"{node.lineno}: torch.device({node.args[0].value!r})")
        placed = any(keyword.arg in ("device", "generator") for keyword in node.keywords) or id(node) in moved
        whole = "\n".join(lines[max(0, node.lineno - 2) : (node.end_lineno or node.lineno)])
        if owner == "torch" and node.func.attr in FACTORIES and not placed and "# on the CPU" not in whole:
            found.append(f"{node.lineno}: torch.{node.func.attr} without a device")
    return found


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_device_is_written_down(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{fault}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for fault in faults(path.read_text())
    ]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "x = torch.zeros(3)",
        "x = y.cuda()",
        "x = torch.zeros(3, device='cuda')",
        "x = torch.device('cpu')",
    ],
)
def test_a_device_that_is_written_down_is_found(line: str) -> None:
    assert len(faults(line)) == 1


@pytest.mark.parametrize(
    "line",
    [
        "x = torch.zeros(3, device=y.device)",
        "x = torch.zeros(3).to(y)",
        "x = torch.arange(3)  # on the CPU: places",
        "# on the CPU: places\nx = torch.arange(3)",
        "x = torch.randn(3, generator=g)",
    ],
)
def test_what_follows_its_inputs_is_allowed(line: str) -> None:
    assert faults(line) == []
