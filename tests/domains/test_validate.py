"""`validate` finds what a careful colleague would."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from shiftproof.domains import load_domains, validate
from shiftproof.domains.splits import parts
from shiftproof.errors import DataNotFound


def codes(root: Path, level: str) -> set[str]:
    return {finding.code for finding in validate(f"folder:{root}").findings if finding.level == level}


def test_good_data_passes(images: Callable[..., Path]) -> None:
    result = validate(f"folder:{images()}")
    assert not result.failed
    assert {finding.code for finding in result.findings} == {"readable", "classes", "duplicates"}
    summary = result.domains[0]
    assert (summary.name, summary.samples, summary.per_class) == ("clinic-a", 24, {"cat": 12, "dog": 12})
    assert summary.train + summary.validation == 24


def test_unreadable_files_are_listed_and_counted(images: Callable[..., Path]) -> None:
    root = images()
    (root / "clinic-a" / "cat" / "0.png").write_bytes(b"not an image")
    (root / "clinic-b" / "dog" / "3.png").write_bytes((root / "clinic-b" / "dog" / "3.png").read_bytes()[:60])
    result = validate(f"folder:{root}")
    assert result.failed
    finding = next(f for f in result.findings if f.code == "unreadable")
    assert finding.evidence["files"] == ["clinic-a: clinic-a/cat/0.png", "clinic-b: clinic-b/dog/3.png"]
    assert [domain.unreadable for domain in result.domains] == [1, 1]


def test_a_duplicate_across_domains_is_a_failure(images: Callable[..., Path]) -> None:
    root = images()
    shutil.copy(root / "clinic-a" / "cat" / "0.png", root / "clinic-b" / "cat" / "copy.png")
    assert "duplicates" in codes(root, "fail")


def test_a_duplicate_across_splits_is_a_warning(images: Callable[..., Path]) -> None:
    root = images()
    domain = load_domains(f"folder:{root}")["clinic-a"]
    validation = str(domain.ids[parts(domain) == 1][0])
    for number in range(40):  # until one of the copies falls into the other part
        copy = root / "clinic-a" / "cat" / f"copy{number}.png"
        shutil.copy(root / validation, copy)
    result = validate(f"folder:{root}")
    assert any(f.level == "warn" and "across train and validation" in f.message for f in result.findings)


def test_class_mismatch(images: Callable[..., Path]) -> None:
    root = images(domains=("a", "b", "c"))
    shutil.rmtree(root / "c" / "dog")
    assert codes(root, "warn") == {"class-mismatch"}
    shutil.rmtree(root / "b" / "dog")
    assert "class-mismatch" in codes(root, "fail")


def test_layout_problems_are_findings_a_missing_folder_an_error(images: Callable[..., Path], tmp_path: Path) -> None:
    root = images()
    (root / "clinic-a" / "bird").mkdir()
    (root / "clinic-a" / "notes.txt").write_text("x")
    assert "layout" in codes(root, "fail")
    assert "ignored-files" in codes(root, "warn")
    with pytest.raises(DataNotFound):
        validate(f"folder:{tmp_path / 'nowhere'}")


def test_groups_in_two_domains_are_a_warning(images: Callable[..., Path], tmp_path: Path) -> None:
    images(domains=("scans",))
    rows = [f"images/scans/{c}/{i}.png,{c},site-{i % 2},patient-{i // 2}" for c in ("cat", "dog") for i in range(12)]
    (tmp_path / "m.csv").write_text("path,label,domain,group\n" + "\n".join(rows))
    result = validate(f"folder:{tmp_path / 'm.csv'}")
    assert any(finding.code == "shared-groups" for finding in result.findings)


@pytest.mark.parametrize("name", ["digits", "colored-digits", "rotated-digits"])
def test_embedded_data_has_no_failure(name: str) -> None:
    assert not validate(name).failed
