"""Files that are there whole or not at all."""

import errno
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from shiftproof.errors import ShiftproofError, StorageError, UsageError
from shiftproof.execution.nesting import DEEPEST, is_too_deep

__all__ = ["check_writable", "only_one", "parse_json", "read_json", "write_atomically", "write_json"]


def write_atomically(path: Path, content: bytes) -> None:
    """Write `content` beside `path` and rename: a reader or a crash sees the old file or the new one, never a part."""
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        temporary = Path(name)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files private; a result is as readable as the user's umask says
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except OSError as error:
        raise StorageError(_storage_sentence(path, error)) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON, atomically."""
    write_atomically(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())


def read_json(path: Path, error: type[ShiftproofError]) -> dict[str, Any]:
    """Read a JSON object; a file that is missing or is not one raises `error` with a sentence."""
    try:
        value = parse_json(path.read_text())
    except FileNotFoundError as cause:
        raise error(f"there is no file {path}") from cause
    except (OSError, ValueError) as cause:
        raise error(f"{path} is not readable as JSON: {cause}") from cause
    if not isinstance(value, dict):
        raise error(f"{path} should hold a JSON object, not {type(value).__name__}")
    return value


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text; a ValueError if it is none, or nests deeper than anything that we write."""
    try:
        value = json.loads(text)
    except RecursionError:
        value = None
        too_deep = True
    else:
        too_deep = is_too_deep(value)
    if too_deep:
        raise ValueError(f"its lists and mappings lie in each other more than {DEEPEST} levels deep")
    return value


def check_writable(folder: Path) -> None:
    """Fail now, not after an hour of work, if files can't be written below `folder`; leaves nothing behind."""
    made: list[Path] = []
    try:
        missing = [p for p in (folder, *folder.parents) if not p.exists()]
        for path in reversed(missing):
            path.mkdir()
            made.append(path)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise StorageError(_storage_sentence(folder, error)) from error
    finally:
        for path in reversed(made):
            path.rmdir()


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Let one process at a time work in `folder`; the claim ends with the process, however it ends."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise UsageError(f"another process is at work in {folder}; wait for it, or choose another --out") from error
    finally:
        os.close(handle)


def _storage_sentence(path: Path, error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk is full: {path} was not written. Free some space and run the same command again."
    return f"can't write {path}: {error.strerror or error}. Choose another folder."


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
