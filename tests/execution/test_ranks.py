"""Several processes that do one piece of work: none outlives another, and whoever asked is told why."""

import os
import pickle
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rank_tasks

from shiftproof.errors import DataError, ShiftproofError, UsageError
from shiftproof.execution.ranks import ProcessLost, run_ranks

HERE = Path(__file__).parent


def call(task: Callable[..., Any], size: int = 2, hear: Callable[[Any], None] = lambda _: None) -> Any:
    return run_ranks(pickle.dumps(task), size, hear)


def is_gone(pid: int) -> bool:
    """Whether a process has ended, or is only waiting to be forgotten."""
    try:
        return " Z " in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return True


def wait_until(holds: Callable[[], bool], seconds: float = 30.0) -> bool:
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.02)
    return holds()


def test_the_first_process_answers_and_all_are_heard() -> None:
    heard: list[tuple[int, int]] = []
    assert call(rank_tasks.count, 3, heard.append) == "rank 0"
    assert [number for rank, number in heard if rank == 0] == [0, 1, 2]


def test_a_killed_process_ends_the_others_at_once() -> None:
    pids: list[int] = []
    killed = 0.0

    def kill_one(pid: int) -> None:
        nonlocal killed
        pids.append(pid)
        if len(pids) == 3:
            killed = time.monotonic()
            os.kill(pids[1], signal.SIGKILL)

    with pytest.raises(ProcessLost, match="died by SIGKILL"):
        call(rank_tasks.wait_for_ever, 3, kill_one)
    assert time.monotonic() - killed < 10
    assert all(map(is_gone, pids))


def test_what_one_raises_is_raised_and_not_what_follows_from_it(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such sample"):
        call(rank_tasks.Fail(tmp_path, killed=False))


def test_a_killed_process_is_named_though_another_has_complained_of_it(tmp_path: Path) -> None:
    with pytest.raises(ProcessLost) as lost:
        call(rank_tasks.Fail(tmp_path, killed=True))
    assert (lost.value.rank, lost.value.how) == (1, "died by SIGKILL (out of memory?)")


def test_a_process_that_is_ended_puts_away_what_it_has_open(tmp_path: Path) -> None:
    with pytest.raises(ProcessLost):
        call(rank_tasks.PutAway(tmp_path))
    assert (tmp_path / "put away").exists()


SCRIPT = """
import pickle, signal, sys
# a shell's job in the background ignores it
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path.insert(0, {here!r})
import rank_tasks
from shiftproof.errors import ShiftproofError
from shiftproof.execution.ranks import run_ranks
if {condition}:
    try:
        run_ranks(pickle.dumps(rank_tasks.{task}), 2, lambda told: print(told, flush=True))
    except ShiftproofError as error:
        print(type(error).__name__, error)
"""


def script(tmp_path: Path, task: str, guarded: bool = True) -> subprocess.Popen[str]:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.format(here=str(HERE), task=task, condition="__name__ == '__main__'" if guarded else "True"))
    return subprocess.Popen(
        [sys.executable, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def test_a_script_that_is_run_again_by_its_processes_is_told_so(tmp_path: Path) -> None:
    out, err = script(tmp_path, "count", guarded=False).communicate(timeout=60)
    assert out.startswith("UsageError each of several processes runs the script again")
    assert "if __name__ == '__main__':" in out
    assert "Traceback" not in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_processes_end_with_the_one_that_has_started_them(number: signal.Signals, tmp_path: Path) -> None:
    process = script(tmp_path, "wait_for_ever")
    assert process.stdout is not None
    pids = [int(process.stdout.readline()) for _ in range(2)]
    # as a terminal does it, to the whole group
    (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
    process.communicate(timeout=60)
    assert wait_until(lambda: all(map(is_gone, pids)))


def test_what_can_not_be_loaded_elsewhere_gets_a_sentence() -> None:
    module = types.ModuleType("nowhere")
    vars(module)["Task"] = type("Task", (), {"__module__": "nowhere"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "nowhere", module)
        with pytest.raises(UsageError, match="can't be loaded there .No module named 'nowhere'.: define its classes"):
            call(module.Task())


def test_a_worker_process_starts_none() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("multiprocessing.process._current_process._config", {"daemon": True})
        with pytest.raises(UsageError, match="one of --workers and --processes"):
            call(rank_tasks.count)


def test_a_lost_process_is_no_error_of_the_users() -> None:
    assert not issubclass(ProcessLost, ShiftproofError)
