"""Files made to harm: they are refused with a sentence, or what they hold stays text."""

from __future__ import annotations

import csv
import io
import itertools
import json
import os
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import shiftproof as sp
from shiftproof.domains.files import ZipArchive
from shiftproof.domains.npz import read_npz
from shiftproof.errors import DataError, ModelError, StudyError, UsageError
from shiftproof.evidence import EvidenceStore
from shiftproof.execution import Journal, read_json
from shiftproof.models.files import read_weights
from shiftproof.probes import PROBES, run_probe
from shiftproof.report.cells import csv_text, latex_cell, markdown_cell
from shiftproof.report.sections.attacked import attacked_of, attacked_records
from shiftproof.runs import parse_study, run_study
from shiftproof.runs.study_files import apply_override

Call = Callable[..., tuple[int, str, str]]
STUDY = "data: digits\nmodels: {m: {model: mlp}}\n"


# YAML and JSON

LAUGHS = "a0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 40)
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (LAUGHS, "aliases written out"),
        (f"a: &a {'x' * 5000}\nb: [{', '.join(['*a'] * 500)}]", "aliases written out"),
        ("a: &a [1, *a]", "inside of what it names"),
        (f"a: {'[' * 3000}{']' * 3000}", "more than 64 levels deep"),
        (f"a: {'{b: ' * 3000}1{'}' * 3000}", "more than 64 levels deep"),
        ("".join(f"{' ' * i}a:\n" for i in range(300)), "more than 64 levels deep"),
        ("a: " + "x" * 600_000, "at most 500,000 are read"),
    ],
)
def test_yaml_that_would_take_the_machine_is_refused(run: Call, tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "study.yaml").write_text(STUDY + text)
    for verb in ("run", "estimate"):
        code, out, err = run(verb, tmp_path / "study.yaml")
        assert (code, out) == (1, "")
        assert words in err
        assert err.count("\n") == 1


def test_aliases_of_an_honest_study_are_read() -> None:
    text = (
        "data: digits\nmodels:\n  a: &a {model: mlp, training: &t {steps: 9}}\n  b: {<<: *a, training: *t}\n  c: *a\n"
    )
    study = parse_study(text, "study", "s")
    assert [one.training for one in study.models.values()] == [{"steps": 9}] * 3
    # an anchor may be given again
    assert parse_study("x-y: &a 1\n".replace("x-y", "seed") + "limit: *a\n" + STUDY, "s", "s").limit == 1


def test_set_takes_no_bombs() -> None:
    for text in (f"{'[' * 3000}{']' * 3000}", "&a [*a]", "x" * 600_000):
        with pytest.raises(UsageError, match="--set .data.size=.*(deep|names|are read)"):
            apply_override({}, f"data.size={text}")
    with pytest.raises(UsageError, match="no option lies so deep"):
        apply_override({}, f"{'.'.join(['a'] * 3000)}=1")


@pytest.mark.parametrize("depth", [100, 900, 3000, 100_000])
def test_json_that_nests_too_deep_is_refused(tmp_path: Path, depth: int, run: Call) -> None:
    deep = f'{{"format": {"[" * depth}{"]" * depth}}}'
    for name in ("run.json", "m.json"):
        (tmp_path / name).write_text(deep)
    with pytest.raises(DataError, match="64 levels deep"):
        read_json(tmp_path / "run.json", DataError)
    (tmp_path / "m.safetensors").write_bytes(b"")
    for asked in (
        ["report", tmp_path],
        ["attack", "--data", "digits", "--threat", "l2:1", "--model", f"file:{tmp_path}/m.safetensors"],
    ):
        code, _, err = run(*asked)
        assert code == 1
        assert "64 levels deep" in err
    body = f'{{"key": "k", "value": {"[" * depth}{"]" * depth}}}'.encode()
    with Journal(tmp_path / "j", {}) as journal:
        journal.append("a", 1)
    with (tmp_path / "j").open("ab") as file:
        file.write(b"%08x %s\n" % (zlib.crc32(body), body))
    with Journal(tmp_path / "j", {}) as journal:
        assert journal.done == {"a": 1}


# archives


def bomb(path: Path, size: int, declared: int | None = None, kind: int = zipfile.ZIP_DEFLATED) -> Path:
    """A torch file with a record of `size` zeros, compressed, whose directory says `declared`."""
    buffer = io.BytesIO()
    torch.save({"w": torch.zeros(4)}, buffer)
    with zipfile.ZipFile(buffer) as saved, zipfile.ZipFile(path, "w", kind) as packed:
        for info in saved.infolist():
            content = bytes(size) if info.filename.endswith("data/0") else saved.read(info)
            packed.writestr(info.filename, content)
    if declared is not None:
        content = path.read_bytes()
        path.write_bytes(content.replace(struct.pack("<I", size), struct.pack("<I", declared)))
    return path


@pytest.mark.parametrize(
    ("declared", "words"),
    [pytest.param(None, "would unpack to 209,7", marks=pytest.mark.slow), (4096, "damaged zip archive")],
    ids=["honest", "lying"],
)
def test_a_torch_file_that_unpacks_to_a_thousand_times_its_size_is_refused(
    tmp_path: Path, declared: int | None, words: str
) -> None:
    path = bomb(tmp_path / "m.pt", 200 << 20, declared)
    assert path.stat().st_size < (200 << 20) / 900
    # in a process of its own, because the most memory that this one has ever used is not taken back
    script = (
        "import resource, sys; from pathlib import Path; from shiftproof.errors import ModelError\n"
        "from shiftproof.models.files import read_weights\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try: read_weights(Path(sys.argv[1]))\n"
        "except ModelError as error: print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    kilobytes, _, sentence = done.stdout.partition(" ")
    assert int(kilobytes) < 100 << 10
    assert words in sentence


@pytest.mark.parametrize("kind", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compressions_that_unpack_at_once_are_refused(tmp_path: Path, kind: int) -> None:
    with pytest.raises(ModelError, match="not read here"):
        read_weights(bomb(tmp_path / "m.pt", 16, kind=kind))


def test_overlapping_records_are_refused(tmp_path: Path) -> None:
    """Many names for the same bytes: no compression, and yet a thousand times the size."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        packed.writestr("archive/data/0", bytes(100_000))
        info = packed.infolist()[0]
        for number in range(1, 1000):
            again = zipfile.ZipInfo(f"archive/data/{number}")
            again.file_size = again.compress_size = info.file_size
            again.CRC, again.header_offset = info.CRC, 0
            packed.filelist.append(again)
    (tmp_path / "m.pt").write_bytes(buffer.getvalue())
    with pytest.raises(ModelError, match="would unpack to"):
        read_weights(tmp_path / "m.pt")


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_honest_torch_files_are_read(tmp_path: Path, compression: int) -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Linear(50, 20).to(torch.float64))
    torch.save(model.state_dict(), tmp_path / "m.pt")
    with zipfile.ZipFile(tmp_path / "m.pt") as saved, zipfile.ZipFile(tmp_path / "z.pt", "w", compression) as packed:
        for info in saved.infolist():
            packed.writestr(info.filename, saved.read(info))
    for name in ("m.pt", "z.pt"):
        found = read_weights(tmp_path / name)
        assert all(torch.equal(found[key], value) for key, value in model.state_dict().items())


def test_bombs_of_data_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shiftproof.domains.npz.ALWAYS_UNPACKED", 1 << 20)
    np.savez_compressed(tmp_path / "x.npz", x=np.zeros((64 << 20,), np.uint8))
    with pytest.raises(DataError, match="would unpack to 67,"):
        read_npz(tmp_path / "x.npz", ("x",))
    monkeypatch.setattr("shiftproof.domains.files.LARGEST_FILE", 1 << 20)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("d/c/1.png", bytes(2 << 20))
    with pytest.raises(ValueError, match="would unpack to 2,097,152"):
        ZipArchive(tmp_path / "a.zip").read("c/1.png")


# links


def test_a_link_to_a_folder_around_it_is_refused(run: Call, images: Callable[..., Path]) -> None:
    root = images(count=2)
    (root / "clinic-a" / "cat" / "again").symlink_to(root, target_is_directory=True)
    code, _, err = run("validate", f"folder:{root}")
    assert code == 1
    assert "is a link to a folder that it lies in" in err
    assert str(root / "clinic-a" / "cat" / "again") in err
    # from one to the other and back
    (root / "clinic-a" / "cat" / "again").unlink()
    (root / "clinic-a" / "cat" / "there").symlink_to(root / "clinic-b" / "dog", target_is_directory=True)
    assert len(sp.load_domains(f"folder:{root}")["clinic-a"]) == 6
    (root / "clinic-b" / "dog" / "back").symlink_to(root / "clinic-a" / "cat", target_is_directory=True)
    with pytest.raises(DataError, match="is a link to a folder that it lies in"):
        sp.load_domains(f"folder:{root}")


def test_links_that_double_at_every_step_come_to_an_end(tmp_path: Path) -> None:
    folders = [tmp_path / "data" / "d" / "c", *(tmp_path / f"f{number}" for number in range(40))]
    for folder in folders:
        folder.mkdir(parents=True)
    for folder, following in itertools.pairwise(folders):
        for name in ("left", "right"):
            (folder / name).symlink_to(following, target_is_directory=True)
    with pytest.raises(DataError, match="in more than 1,000 ways"):
        sp.load_domains(f"folder:{tmp_path / 'data'}")


def test_a_pipe_is_no_image(run: Call, images: Callable[..., Path]) -> None:
    root = images(count=2)
    os.mkfifo(root / "clinic-a" / "cat" / "pipe.png")
    code, out, _ = run("validate", f"folder:{root}")
    assert code == 2
    assert "pipe.png" in out


# tables

NAMES = ["=cmd|' /C calc'!A0", "+1+1", "-1+1", "@SUM(A1)", "\tx", "\uff1d1"]


def test_cells_of_csv_are_no_formulas() -> None:
    rows = [*[[name, -0.5, "-0.5", "+1e-3", name] for name in NAMES], ["a-b", -1, "e=0.9", "plain", ""]]
    found = list(csv.reader(io.StringIO(csv_text(rows))))
    assert [row[0] for row in found[:-1]] == [f"'{name}" for name in NAMES]
    assert all(row[1:4] == ["-0.5", "-0.5", "+1e-3"] for row in found[:-1])
    assert found[-1] == ["a-b", "-1", "e=0.9", "plain", ""]


def test_names_in_tables_stay_texts(tmp_path: Path, images: Callable[..., Path]) -> None:
    evil, bold = "=HYPERLINK(0)", "<img src=x onerror=alert(1)>|[a](b)`\\\nx"
    root = images(domains=("@site", "b"), count=8)
    study = {
        "data": f"folder:{root}",
        "target": "@site",
        "models": {name: {"model": {"name": "mlp", "width": 4}, "training": {"steps": 2}} for name in (evil, bold)},
        "probes": [
            "clean",
            {"name": "attack", "attack": {"threat": "l2:0.1", "steps": 1}},
            {"name": "corrupt", "corruptions": "fog", "severities": "1"},
        ],
    }
    study["probes"].append({"name": "certify", "certifier": {"noise": "gaussian:0.25", "n": 100}})  # type: ignore[attr-defined]
    run = run_study(parse_study(json.dumps(study), "s", "s"), tmp_path / "run", progress="off")
    run.export()
    tables = sorted((tmp_path / "run" / "tables").glob("*.csv"))
    assert {"accuracy", "measures", "corrupted", "certified"} <= {path.stem for path in tables}
    for path in tables:
        cells = [cell for row in csv.reader(io.StringIO(path.read_text())) for cell in row]
        assert f"'{evil}" in cells
        assert [one for one in cells if one.startswith(("=", "@", "+"))] == []
    rows = (tmp_path / "run" / "tables" / "accuracy.md").read_text().splitlines()
    assert len(rows) == 4
    assert len({row.count("|") for row in rows}) == 1
    assert not {"<", "[", "`", "\\"} & set("".join(rows))


def test_attacked_tables_hold_no_formulas(tmp_path: Path) -> None:
    few = replace(sp.load_domains("digits")["digits"].subset(np.arange(4)), name="=1+1")
    model, store = sp.build_model("mlp", few, width=4).eval(), EvidenceStore(tmp_path)
    for name, options in (("clean", {}), ("attack", {"attack": {"threat": "l2:0.1", "steps": 1}})):
        run_probe(PROBES.create(name, options), model, few, store, progress="off")
    assert ",'=1+1," in csv_text(attacked_records(attacked_of(store.read())).rows)


def test_markdown_and_latex_hold_no_markup() -> None:
    assert markdown_cell("a|b\n<b>&") == "a&#124;b &lt;b&gt;&amp;"
    assert latex_cell("[1pt] a_b\n\n50% \\input{x} <|>^~") == (
        r"{[}1pt] a\_b  50\% \textbackslash{}input\{x\} \textless{}\textbar{}\textgreater{}"
        r"\textasciicircum{}\textasciitilde{}"
    )


def test_study_errors_are_study_errors() -> None:
    with pytest.raises(StudyError, match="line 3: can't be read"):
        parse_study(STUDY + "a: &a [*a]", "s", "s")
