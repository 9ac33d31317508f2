"""Files, journal, workers, progress."""

import errno
import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from shiftproof.errors import ModelError, ShiftproofError, StorageError, UsageError
from shiftproof.execution import (
    Compute,
    Journal,
    check_writable,
    only_one,
    progress_bar,
    read_json,
    run_shards,
    write_atomically,
    write_json,
)


def test_a_script_without_a_guard_is_told_so(tmp_path: Path) -> None:
    """However short its work looks to the processes that run it again."""
    script = tmp_path / "script.py"
    script.write_text(
        "from shiftproof.execution import Compute, always_in_workers, run_shards\n"
        "def task(shard):\n    yield shard\n"
        "with always_in_workers():\n    print(list(run_shards(task, [0, 1, 2], Compute('cpu', workers=2))))\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "put what it does under if __name__ == '__main__':" in done.stderr.splitlines()[-1]


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "result.json"
    write_json(path, {"a": 1})
    write_json(path, {"a": 2})
    assert json.loads(path.read_text()) == {"a": 2}
    assert [p.name for p in path.parent.iterdir()] == ["result.json"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    path = tmp_path / "result.json"
    write_atomically(path, b"old")

    def full(_: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="the disk is full"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == ["result.json"]


def test_an_unwritable_place_is_found_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="can't write"):
        check_writable(tmp_path / "file" / "below")
    check_writable(tmp_path / "a" / "b")
    assert not (tmp_path / "a").exists()


def test_one_process_at_a_time_works_in_a_folder(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from shiftproof.execution import only_one\n"
        "with only_one(Path(sys.argv[1])): print('in', flush=True); sys.stdin.read()\n"
    )
    folder = tmp_path / "run"
    other = subprocess.Popen(
        [sys.executable, "-c", script, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "in\n"
    with pytest.raises(UsageError, match="another process is at work"), only_one(folder):
        pass
    other.kill()
    other.communicate()
    with only_one(folder):
        assert list(folder.iterdir()) == []


def test_json_that_is_not_an_object_is_refused(tmp_path: Path) -> None:
    for name, text in {"list": "[1]", "cut": '{"a":', "text": "hello"}.items():
        (tmp_path / name).write_text(text)
        with pytest.raises(ModelError):
            read_json(tmp_path / name, ModelError)
    with pytest.raises(ModelError, match="there is no file"):
        read_json(tmp_path / "none", ModelError)


def test_a_journal_keeps_what_was_done_and_cuts_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "probe.journal"
    with Journal(path, {"model": "m"}) as journal:
        journal.append("0", [1, 2])
        journal.append("1", [3])
    whole = path.read_bytes()
    for cut in range(1, 12):
        path.write_bytes(whole[:-cut])
        with Journal(path, {"model": "m"}) as journal:
            assert journal.done == {"0": [1, 2]}
            journal.append("1", [3])
        assert path.read_bytes() == whole


def test_a_journal_with_a_flipped_byte_is_read_up_to_it(tmp_path: Path) -> None:
    path = tmp_path / "probe.journal"
    with Journal(path, {}) as journal:
        for key in "abc":
            journal.append(key, key)
    content = path.read_bytes()
    place = content.index(b'"b"')
    path.write_bytes(content[:place] + b'"x"' + content[place + 3 :])
    with Journal(path, {}) as journal:
        assert journal.done == {"a": "a"}


def test_a_journal_of_another_question_is_discarded(tmp_path: Path) -> None:
    with Journal(tmp_path / "j", {"seed": 0}) as journal:
        journal.append("0", 1)
    with Journal(tmp_path / "j", {"seed": 1}) as journal:
        assert journal.done == {}


def square(shard: int) -> Iterator[tuple[int, int]]:
    yield shard * shard, torch.get_num_threads()


def numbers(shard: int) -> Iterator[int | None]:
    yield from (0, 1, 2, None)


def letters(shard: int) -> Iterator[str]:
    yield from "abc"[: shard + 1]


def broken(shard: int) -> Iterator[int]:
    yield shard
    if shard == 3:
        raise ModelError("shard 3 is bad")


def dying(shard: int) -> Iterator[int]:
    if shard:
        os._exit(9)
    yield shard


@pytest.mark.parametrize("workers", [1, 2])
def test_every_shard_is_run_once_on_one_thread(workers: int) -> None:
    torch.set_num_threads(2)
    results = dict(run_shards(square, range(7), Compute(workers=workers), worth=0.0))
    assert results == {shard: (shard * shard, 1) for shard in range(7)}
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("workers", [1, 2])
def test_parts_of_a_shard_come_in_order(workers: int) -> None:
    assert [part for _, part in run_shards(numbers, [0], Compute(workers=workers))] == [0, 1, 2, None]
    parts = list(run_shards(letters, range(3), Compute(workers=workers), worth=0.0, seconds=1.0))
    for shard in range(3):
        assert "".join(part for owner, part in parts if owner == shard) == "abc"[: shard + 1]


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_in_a_shard_arrives(workers: int) -> None:
    with pytest.raises(ModelError, match="shard 3 is bad"):
        list(run_shards(broken, range(5), Compute(workers=workers), worth=0.0))


def test_a_dead_worker_is_reported() -> None:
    with pytest.raises(ShiftproofError, match="a worker process died"):
        list(run_shards(dying, range(3), Compute(workers=2), worth=0.0))


def test_what_can_not_be_sent_runs_in_process() -> None:
    here = os.getpid()
    assert {pid for _, pid in run_shards(lambda _: [os.getpid()], range(3), Compute(workers=2), worth=0.0)} == {here}


def test_workers_are_gone_when_their_work_is_no_longer_wanted() -> None:
    parts = run_shards(letters, range(3), Compute(workers=2), worth=0.0, seconds=1.0)
    next(parts)
    parts.close()
    assert not multiprocessing.active_children()


def test_progress_writes_plain_lines_to_a_log(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with progress_bar("a moment", 10, "lines") as bar:
        bar.advance(10)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("shiftproof.execution.progress._Lines.MOMENT_SECONDS", 0.0)
    with progress_bar("training", 10, "lines") as bar:
        for _ in range(10):
            bar.advance(note="loss 0.5")
    assert "training: 10/10" in capsys.readouterr().err
    with progress_bar("training", 10, "auto") as bar:
        bar.advance()
    assert capsys.readouterr().err == ""


def test_keeping_freed_memory_spares_page_faults() -> None:
    # in a process of its own, because the setting can't be taken back
    script = (
        "import resource, sys, torch\n"
        "from shiftproof.execution import keep_freed_memory\n"
        "kept = sys.argv[1] == 'kept' and keep_freed_memory()\n"
        "for _ in range(3): torch.ones(25_000_000)\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "for _ in range(10): torch.ones(25_000_000)\n"
        "print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)\n"
    )
    found = {}
    for mode in ("kept", "given back"):
        done = subprocess.run([sys.executable, "-c", script, mode], capture_output=True, text=True, check=True)
        kept, faults = done.stdout.split()
        found[mode] = int(faults)
        if mode == "kept" and kept != "True":
            pytest.skip("this C library has no such setting")
    assert found["kept"] < 0.5 * found["given back"]
