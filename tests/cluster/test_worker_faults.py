"""What goes wrong on a node reaches the process that asked as one sentence."""

import errno

import pytest

from shiftproof.errors import DataError, ShiftproofError, StorageError
from shiftproof.execution.ray_worker import _with_place


def _failing(error: Exception) -> Exception:
    try:
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        except OSError as full:
            raise error from full
    except Exception as caught:  # noqa: BLE001  (as the worker catches it)
        return caught


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), _failing(StorageError("can't write the file"))]
)
def test_a_full_disk_is_told_with_the_name_of_the_node(error: Exception) -> None:
    told = _with_place(error)
    assert isinstance(told, StorageError)
    assert "of the cluster can't write: No space left on device" in str(told)


def test_other_faults_arrive_as_they_are() -> None:
    assert str(_with_place(DataError("images differ in size"))) == "images differ in size"
    assert isinstance(_with_place(DataError("x")), DataError)


def test_an_exception_that_can_not_be_sent_arrives_as_its_text() -> None:
    class OddError(Exception):
        def __init__(self, one: object, two: object) -> None:
            super().__init__("odd")

    assert str(_with_place(OddError(1, 2))) == "OddError: odd"
    assert isinstance(_with_place(OddError(1, 2)), ShiftproofError)
