"""What is kept of a folder is what would be read of it, whatever happened to its files since."""

import hashlib
import os
import pickle
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from PIL import Image

from shiftproof.domains import Domains, load_domains, validate
from shiftproof.domains import file_table as tables
from shiftproof.domains.files import Directory
from shiftproof.domains.index_cache import Known, cache_folder, read_known, write_known
from shiftproof.errors import DataError

Make = Callable[..., Path]


@pytest.fixture(autouse=True)
def _indices_of_few_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "WORTH_FILES", 1)
    # so that nobody waits for long; the file system of a test counts in milliseconds
    monkeypatch.setattr(tables, "RACY_NS", 100_000_000)


@pytest.fixture
def root(images: Make) -> Path:
    """A folder whose files have been as they are for a while."""
    made = images(count=6)
    settle(made)
    return made


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Names of the files that are opened, in whatever way."""
    opened: list[str] = []
    for method in ("read", "header"):
        before = getattr(Directory, method)

        def counted(self: Directory, name: str, before: Callable[..., bytes] = before) -> bytes:
            opened.append(name)
            return before(self, name)

        monkeypatch.setattr(Directory, method, counted)
    return opened


def settle(*folders: Path) -> None:
    """Wait until no file can be changed without another time; the system's clock of files is a little behind."""
    newest = max(
        max(path.stat().st_mtime_ns, path.stat().st_ctime_ns) for root in folders for path in root.rglob("*.*")
    )
    while time.time_ns() <= newest + tables.RACY_NS + 20_000_000:
        time.sleep(0.05)


def prints(root: Path | str, **options: Any) -> dict[str, str]:
    return {domain.name: domain.fingerprint for domain in load_domains(f"folder:{root}", **options)}


def without_cache(root: Path | str, **options: Any) -> dict[str, str]:
    """As it was before there was an index: every file is read and hashed here."""
    found = {}
    for domain in load_domains(f"folder:{root}", **options):
        digest = hashlib.blake2b(repr(domain.shape).encode(), digest_size=16)
        base = Path(root).parent if Path(root).is_file() else Path(root)
        for name in domain.ids:
            digest.update(hashlib.blake2b((base / name).read_bytes(), digest_size=16).digest())
        found[domain.name] = digest.hexdigest()
    return found


def inputs(domains: Domains) -> dict[str, str]:
    return {domain.name: domain.inputs.fingerprint for domain in domains}


def kept() -> Path:
    (path,) = (cache_folder() / "files").iterdir()  # type: ignore[operator]
    return path


def agrees(root: Path | str, **options: Any) -> bool:
    return inputs(load_domains(f"folder:{root}", **options)) == without_cache(root, **options)


def repaint(path: Path, value: int) -> None:
    Image.fromarray(np.full((8, 8, 3), value, np.uint8)).save(path)


def test_fingerprints_are_those_of_before_there_was_an_index(tmp_path: Path) -> None:
    root = tmp_path / "made"
    for number in range(4):
        folder = root / "place" / f"class-{number % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.ppm").write_bytes(b"P6 4 4 255\n" + bytes([number] * 48))
    # by the code of version 0.1.0
    known = {"place": "c5397b5f3133354c1933accea22abe9c"}
    assert prints(root) == known
    assert prints(root) == known


def test_the_second_time_no_file_is_opened_and_all_is_the_same(root: Path, reads: list[str]) -> None:
    first = load_domains(f"folder:{root}")
    before = prints(root)
    assert len(set(reads)) == 24
    reads.clear()
    again = load_domains(f"folder:{root}")
    assert {domain.name: domain.fingerprint for domain in again} == before
    assert reads == []
    assert again.shape == first.shape
    assert [domain.ids.tolist() for domain in again] == [domain.ids.tolist() for domain in first]
    assert agrees(root)


def test_a_small_file_is_read_once_a_large_one_when_it_is_hashed(
    root: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    load_domains(f"folder:{root}")
    assert len(reads) == 24
    prints(root)
    assert len(reads) == 24
    reads.clear()
    shutil.rmtree(cache_folder() or Path())
    monkeypatch.setattr(tables, "HEADER_BYTES", 10)
    load_domains(f"folder:{root}")
    assert len(reads) == 24
    assert agrees(root)
    assert len(reads) == 48
    assert agrees(root)
    assert len(reads) == 48


def test_one_change_is_one_file(root: Path, reads: list[str]) -> None:
    before = prints(root)
    repaint(root / "clinic-a" / "cat" / "3.png", 7)
    reads.clear()
    after = prints(root)
    assert set(reads) == {"clinic-a/cat/3.png"}
    assert after["clinic-a"] != before["clinic-a"]
    assert after["clinic-b"] == before["clinic-b"]
    assert agrees(root)


def test_same_size_same_time_another_content(root: Path) -> None:
    path = root / "clinic-a" / "cat" / "6.bmp"
    repaint(path, 1)
    settle(root)
    before, state = prints(root), path.stat()
    repaint(path, 2)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (state.st_size, state.st_mtime_ns)
    assert prints(root)["clinic-a"] != before["clinic-a"]
    assert agrees(root)


def test_files_that_were_just_written_are_read_again(
    images: Make, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = images(count=6)
    repaint(root / "clinic-a" / "cat" / "6.bmp", 1)
    monkeypatch.setattr(tables, "RACY_NS", 60_000_000_000)
    before = prints(root)
    repaint(root / "clinic-a" / "cat" / "6.bmp", 2)
    # as if both had happened within one tick of a clock: nothing tells of the second
    _set_states(kept(), Directory(root).listing().states)
    with monkeypatch.context() as patch:
        patch.setattr(tables, "RACY_NS", -60_000_000_000)
        assert prints(root) == before
    reads.clear()
    assert prints(root)["clinic-a"] != before["clinic-a"]
    assert len(set(reads)) == 25
    monkeypatch.setattr(tables, "RACY_NS", 100_000_000)
    settle(root)
    assert agrees(root)
    reads.clear()
    assert agrees(root)
    assert reads == []


def _set_states(path: Path, states: Any) -> None:
    """Let an index say that all files were in these states when they were read; it is sealed as ours are."""
    known = _columns(path)
    columns = (known["shapes"], known["digests"], known["hashed"], known["stamp"])
    assert write_known(Path(bytes.fromhex(known["source"]).decode()), Known(known["joined"], states, *columns))


def _columns(path: Path) -> dict[str, Any]:
    with safetensors.safe_open(path, framework="np") as file:
        found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        facts = file.metadata()
    return {**found, "joined": found["names"].tobytes().decode(), **facts, "stamp": int(facts["stamp"])}


def test_a_time_in_the_future_is_never_trusted(root: Path, reads: list[str]) -> None:
    path = root / "clinic-b" / "dog" / "0.png"
    os.utime(path, (time.time() + 1e6, time.time() + 1e6))
    settled = [path for path in root.rglob("*.png") if path.name != "0.png" or path.parent.name != "dog"]
    assert len(settled) == 22
    prints(root)
    reads.clear()
    assert agrees(root)
    assert set(reads) == {"clinic-b/dog/0.png"}
    stamp = kept().stat().st_mtime_ns, kept().read_bytes()
    assert agrees(root)
    assert kept().read_bytes() == stamp[1]


def test_a_touched_file_is_read_again_and_the_same(root: Path, reads: list[str]) -> None:
    before = prints(root)
    (root / "clinic-a" / "dog" / "1.png").touch()
    reads.clear()
    assert prints(root) == before
    assert set(reads) == {"clinic-a/dog/1.png"}


def test_files_come_and_go(root: Path, reads: list[str]) -> None:
    before = prints(root)
    (root / "clinic-a" / "cat" / "0.png").unlink()
    shutil.copyfile(root / "clinic-a" / "cat" / "1.png", root / "clinic-b" / "cat" / "new.png")
    (root / "clinic-b" / "dog" / "2.png").rename(root / "clinic-b" / "dog" / "moved.png")
    reads.clear()
    after = load_domains(f"folder:{root}")
    assert (len(after["clinic-a"]), len(after["clinic-b"])) == (11, 13)
    assert {name: after[name].fingerprint == before[name] for name in before} == dict.fromkeys(before, False)
    assert set(reads) == {"clinic-b/cat/new.png", "clinic-b/dog/moved.png"}
    assert agrees(root)


def test_two_files_that_change_places_are_noticed(root: Path) -> None:
    # equal in size, times and content of the folder: only inodes tell them apart
    one, other = (root / "clinic-a" / "cat" / f"{number}.bmp" for number in (1, 2))
    for path, value in ((one, 1), (other, 2)):
        repaint(path, value)
        os.utime(path, ns=(0, 0))
    settle(root)
    time.sleep(tables.RACY_NS / 1e9)
    before = prints(root)
    one.rename(root / "aside")
    other.rename(one)
    (root / "aside").rename(other)
    assert prints(root) != before
    assert agrees(root)


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[: len(content) // 2],
        lambda content: content[:-1] + bytes([content[-1] ^ 1]),
        lambda content: content[:200] + bytes([content[200] ^ 1]) + content[201:],
        lambda content: (2**60).to_bytes(8, "little") + content[8:],
        lambda content: b"PK\x03\x04 something else" * 10,
        lambda content: content.replace(b'"format":"1"', b'"format":"0"'),
        lambda content: content.replace(b'"I64"', b'"F64"'),
    ],
    ids=["empty", "half", "last bit", "header", "long header", "foreign", "version", "type"],
)
def test_a_damaged_index_is_made_anew(root: Path, reads: list[str], damage: Callable[[bytes], bytes]) -> None:
    before = prints(root)
    content = kept().read_bytes()
    assert damage(content) != content
    kept().write_bytes(damage(content))
    reads.clear()
    assert prints(root) == before
    assert len(set(reads)) == 24
    reads.clear()
    assert prints(root) == before
    assert reads == []


@pytest.mark.parametrize(
    "change",
    [
        {"digests": np.zeros((24, 8), np.uint8)},
        {"digests": np.zeros((23, 16), np.uint8)},
        {"hashed": np.zeros((24, 1), bool)},
        {"hashed": np.zeros(0, bool)},
        {"names": np.frombuffer(b"\xff" * 24, np.uint8)},
        {"names": np.zeros(10_000, np.uint8)},
        {"states": np.zeros((24, 4), np.float64)},
        {"stamp": "-1"},
        {"stamp": "1" * 5_000},
        {"stamp": str(2**62)},
        {"stamp": "soon"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_an_index_that_was_made_to_harm_is_ignored(root: Path, reads: list[str], change: dict[str, Any]) -> None:
    """Sealed as ours are, so that the seal does not save us."""
    before = prints(root)
    path = kept()
    known = {**_columns(path), **change}
    names = ("names", "states", "shapes", "digests", "hashed")
    columns = {name: np.ascontiguousarray(known[name]) for name in names}
    digest = hashlib.blake2b(f"1 {known['source']} {known['stamp']}".encode(), digest_size=16)
    for column in columns.values():
        digest.update(column.data)
    facts = {"format": "1", "source": known["source"], "stamp": str(known["stamp"]), "seal": digest.hexdigest()}
    path.write_bytes(safetensors.numpy.save(columns, facts))
    reads.clear()
    assert prints(root) == before
    assert len(set(reads)) == 24


def test_shapes_that_no_image_has_are_read_again(root: Path, reads: list[str]) -> None:
    load_domains(f"folder:{root}")
    known = read_known(root, 24)
    assert known is not None
    shapes = known.shapes.copy()
    shapes[0], shapes[1], shapes[2] = (3, 2**30, 2**30), (2, 8, 8), (3, -1, 8)
    write_known(root, Known(known.joined, known.states, shapes, known.digests, known.hashed, known.stamp))
    reads.clear()
    assert load_domains(f"folder:{root}").shape == (3, 8, 8)
    assert len(reads) == 3


def test_what_is_no_regular_file_is_no_index(root: Path) -> None:
    before = prints(root)
    path = kept()
    path.unlink()
    os.mkfifo(path)
    assert prints(root) == before


def test_an_index_of_another_folder_is_ignored(root: Path, reads: list[str], tmp_path: Path) -> None:
    before = prints(root)
    mine = kept()
    shutil.copytree(root, tmp_path / "other")
    repaint(tmp_path / "other" / "clinic-a" / "cat" / "0.png", 9)
    settle(tmp_path / "other")
    load_domains(f"folder:{tmp_path / 'other'}")
    (theirs,) = set(mine.parent.iterdir()) - {mine}
    shutil.copyfile(theirs, mine)
    reads.clear()
    assert prints(root) == before
    assert len(set(reads)) == 24


def test_without_a_place_to_write_all_works(
    root: Path, reads: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = prints(root)
    # a file where the folder should be: nobody can write below it, not even root
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SHIFTPROOF_CACHE", str(tmp_path / "file"))
    for _ in range(2):
        reads.clear()
        assert prints(root) == before
        assert len(set(reads)) == 24
    monkeypatch.setattr(tables, "QUIET", 5)
    with pytest.warns(UserWarning, match="index can't be written.*SHIFTPROOF_CACHE"):
        assert prints(root) == before


def test_where_the_index_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("SHIFTPROOF_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder() == tmp_path / "home" / ".cache" / "shiftproof"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "shiftproof"


def test_few_files_leave_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "WORTH_FILES", 25)
    prints(root)
    assert not (cache_folder() or Path()).exists()
    monkeypatch.setattr(tables, "WORTH_BYTES", 1_000)
    prints(root)
    assert kept().is_file()


def test_old_indices_go(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load_domains(f"folder:{root}")
    folder, own = kept().parent, kept()
    for number, days in enumerate([1, 2, 3, 170, 190, 500]):
        path = folder / f"{number:032x}.safetensors"
        path.write_bytes(b"")
        os.utime(path, (time.time() - 86_400 * days,) * 2)
    part, gone = (f".{number:032x}.safetensors.x.part" for number in (1, 2))
    (folder / "weights.safetensors").write_bytes(b"somebody else's")
    os.utime(folder / "weights.safetensors", (1, 1))
    for name, hours in ((part, 1), (gone, 48)):
        (folder / name).write_bytes(b"")
        os.utime(folder / name, (time.time() - 3_600 * hours,) * 2)
    repaint(root / "clinic-a" / "cat" / "0.png", 3)
    settle(root)
    load_domains(f"folder:{root}")
    assert {path.name for path in folder.iterdir()} == {
        own.name,
        *(f"{n:032x}.safetensors" for n in range(4)),
        part,
        "weights.safetensors",
    }
    monkeypatch.setattr("shiftproof.domains.index_cache.KEPT", 2)
    repaint(root / "clinic-a" / "cat" / "0.png", 4)
    settle(root)
    load_domains(f"folder:{root}")
    assert {path.name for path in folder.iterdir()} == {own.name, f"{0:032x}.safetensors", part, "weights.safetensors"}


def test_a_link_to_a_folder_is_that_folder(root: Path, reads: list[str], tmp_path: Path) -> None:
    before = prints(root)
    (tmp_path / "link").symlink_to(root, target_is_directory=True)
    reads.clear()
    assert prints(tmp_path / "link") == before
    assert reads == []
    # a link inside it that leads to another folder from now on
    other = tmp_path / "elsewhere"
    shutil.copytree(root / "clinic-a" / "cat", other)
    repaint(other / "0.png", 5)
    shutil.move(root / "clinic-a" / "cat", tmp_path / "cats")
    (root / "clinic-a" / "cat").symlink_to(tmp_path / "cats", target_is_directory=True)
    assert prints(root) == before
    (root / "clinic-a" / "cat").unlink()
    (root / "clinic-a" / "cat").symlink_to(other, target_is_directory=True)
    assert prints(root) != before
    assert agrees(root)


def test_a_link_to_a_file_is_what_it_leads_to(root: Path, tmp_path: Path) -> None:
    place = root / "clinic-a" / "cat" / "linked.png"
    for name, value in (("one.png", 1), ("two.png", 2)):
        repaint(tmp_path / name, value)
    place.symlink_to(tmp_path / "one.png")
    settle(root)
    before = prints(root)
    place.unlink()
    place.symlink_to(tmp_path / "two.png")
    assert prints(root) != before
    assert agrees(root)
    place.unlink()
    place.symlink_to(tmp_path / "nothing.png")
    with pytest.raises(DataError, match="can't read the file"):
        prints(root)


def test_a_folder_with_another_name_is_read_anew(root: Path, reads: list[str]) -> None:
    before = prints(root)
    moved = root.rename(root.with_name("moved"))
    reads.clear()
    assert prints(moved) == before
    assert len(set(reads)) == 24
    # another folder at the old place
    shutil.copytree(moved, root)
    repaint(root / "clinic-b" / "cat" / "0.png", 8)
    assert prints(root)["clinic-b"] != before["clinic-b"]
    assert agrees(root)


def test_two_processes_at_once_agree(root: Path) -> None:
    program = (
        "import sys, shiftproof as sp\n"
        "from shiftproof.domains import file_table\n"
        "file_table.WORTH_FILES = 1\n"
        "for _ in range(5):\n"
        "    print([domain.fingerprint for domain in sp.load_domains(sys.argv[1])])\n"
    )
    command = [sys.executable, "-c", program, f"folder:{root}"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [line for process in both for line in process.communicate()[0].splitlines()]
    assert [process.returncode for process in both] == [0, 0]
    assert len(said) == 10
    assert set(said) == {str(list(prints(root).values()))}
    assert [path.suffix for path in kept().parent.iterdir()] == [".safetensors"]


def test_names_may_be_anything_the_system_takes(root: Path, reads: list[str]) -> None:
    for name in (b"line\nbreak.png", "ümläut.png".encode(), b"not-utf8-\xff.png"):
        cats = root / "clinic-a" / "cat"
        shutil.copyfile(cats / "1.png", cats / os.fsdecode(name))
    settle(root)
    before = prints(root)
    reads.clear()
    assert prints(root) == before
    assert reads == []


def test_an_unreadable_image_is_looked_at_again_and_named_before_long_work(
    root: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "clinic-a" / "cat" / "3.png").write_bytes(b"no image")
    settle(root)
    monkeypatch.setattr("shiftproof.domains.images.CACHE_BYTES", 0)
    load_domains(f"folder:{root}")
    reads.clear()
    domains = load_domains(f"folder:{root}")
    assert set(reads) == {"clinic-a/cat/3.png"}
    reads.clear()
    domains["clinic-b"].inputs.prepare()
    assert reads == []
    with pytest.raises(DataError, match=r"3\.png: not an image"):
        domains["clinic-a"].inputs.prepare()


def test_a_list_of_images_has_an_index(root: Path, reads: list[str], tmp_path: Path) -> None:
    names = sorted(path.relative_to(root).as_posix() for path in root.rglob("*.png"))
    rows = [f"{name},{name.split('/')[1]},{name.split('/')[0]}" for name in names]
    manifest = root / "list.csv"
    manifest.write_text("\n".join(["path,label,domain", *rows]))
    before = prints(manifest)
    assert agrees(manifest)
    reads.clear()
    assert prints(manifest) == before
    assert reads == []
    # another selection of the same files
    manifest.write_text("\n".join(["path,label,domain", *rows[:-1]]))
    assert agrees(manifest)
    assert reads == []
    repaint(root / names[0], 4)
    assert agrees(manifest)
    assert set(reads) == {names[0]}


def test_an_archive_has_an_index(
    images: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHIFTPROOF_DATA", str(tmp_path))
    root = images(domains=("art", "sketch"), root="made", count=3)
    archive = tmp_path / "pacs_64.zip"
    shutil.make_archive(str(archive.with_suffix("")), "zip", tmp_path, "made")
    time.sleep(tables.RACY_NS / 1e9 + 0.05)

    def now() -> dict[str, str]:
        return {domain.name: domain.fingerprint for domain in load_domains("pacs", size=8, whole=False)}

    before = now()
    with monkeypatch.context() as patch:
        patch.setattr("shiftproof.domains.files.ZipArchive.read", None)
        assert now() == before
    repaint(root / "art" / "cat" / "0.png", 3)
    shutil.make_archive(str(archive.with_suffix("")), "zip", tmp_path, "made")
    after = now()
    assert after["sketch"] == before["sketch"]
    assert after["art"] != before["art"]


def test_validate_makes_and_uses_the_index(root: Path, reads: list[str]) -> None:
    assert not validate(f"folder:{root}").failed
    before = prints(root)
    reads.clear()
    assert prints(root) == before
    assert reads == []
    repaint(root / "clinic-a" / "cat" / "0.png", 1)
    repaint(root / "clinic-b" / "cat" / "0.png", 1)
    assert validate(f"folder:{root}").failed
    assert agrees(root)


def test_progress_is_shown_of_many_files_only(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shiftproof.execution.progress._Lines.MOMENT_SECONDS", 0.0)
    validate(f"folder:{root}", progress="lines")
    assert "indexing" not in capsys.readouterr().err
    shutil.rmtree(cache_folder() or Path())
    monkeypatch.setattr(tables, "QUIET", 5)
    validate(f"folder:{root}", progress="lines")
    assert "indexing 24 files: 24/24" in capsys.readouterr().err
    validate(f"folder:{root}", progress="lines")
    assert "indexing" not in capsys.readouterr().err


def test_to_another_process_only_what_is_measured_is_sent(root: Path) -> None:
    domain = load_domains(f"folder:{root}")["clinic-a"]
    few = domain.subset([7, 2])
    package = pickle.dumps(few)
    assert package.count(b".png") == 2
    sent = pickle.loads(package)  # noqa: S301
    assert (sent.fingerprint, sent.ids.tolist()) == (few.fingerprint, few.ids.tolist())
    assert np.array_equal(sent.tensors()[0], few.tensors()[0])
    assert sent.subset([1]).fingerprint == few.subset([1]).fingerprint
