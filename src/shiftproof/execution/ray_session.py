"""Start or join a Ray cluster: on loopback, with a token, and with the same software on every node."""

from __future__ import annotations

import atexit
import logging
import os
import secrets
import shutil
import socket
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from shiftproof.errors import ShiftproofError, UsageError
from shiftproof.execution.compute import Compute

__all__ = ["open_session"]

ANSWER_SECONDS = 5.0
"""How long an address may take to answer."""
CLIENT_PORT = 10001
MODE, TOKEN, TOKEN_PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
_LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""With 0, Ray's servers listen on the loopback address and nowhere else, as they do on a Mac."""
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "RAY_DEDUP_LOGS": "0"}
_QUIET |= {"RAY_IGNORE_UNHANDLED_ERRORS": "1"}
_NO_TOKEN = (
    f"the Ray cluster {{address}} does not accept this process's token: put the cluster's own into ~/.ray/auth_token, "
    f"or name its file in {TOKEN_PATH}; if it is not yours, RAY_ADDRESS=local starts one of your own"
)


def open_session(compute: Compute) -> None:
    """Connect this process to the cluster that `compute` names, unless it is connected already; nodes are checked."""
    if "ray" in sys.modules and sys.modules["ray"].is_initialized():
        _check_nodes(sys.modules["ray"])
        return
    os.environ |= {name: value for name, value in _QUIET.items() if name not in os.environ}
    address, started = _address_of(str(compute.cluster)), None
    # a cluster without a token runs whatever anybody on its network sends
    os.environ.setdefault(MODE, "token")
    if address is None:
        started = _prepare_start()
    import ray

    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": False}
    if address is None:
        options |= {"address": "local", "num_cpus": compute.workers, "include_dashboard": False}
        options |= {"_node_ip_address": "127.0.0.1", "_temp_dir": str(started)}
    else:
        options["address"] = address
    with tempfile.TemporaryFile() as heard:
        try:
            with _listening(heard):
                ray.init(**options)
            _be_quiet(ray)
        except Exception as error:
            heard.seek(0)
            raise _in_a_sentence(error, address, heard.read().decode(errors="replace")) from error
    _check_nodes(ray)


def _be_quiet(ray: Any) -> None:
    """Keep Ray from printing that a worker or a node is lost: it is replaced, and stdout is for results."""
    worker: Any = getattr(getattr(ray, "_private", None), "worker", None)
    if hasattr(worker, "print_to_stdstream"):
        worker.print_to_stdstream = lambda *_, **__: None


def _address_of(cluster: str) -> str | None:
    """Where the cluster is that is joined; None if one is started here."""
    if cluster != "ray":
        host, _, port = cluster.removeprefix("ray://").rstrip("/").partition(":")
        if not host or (port and not port.isdecimal()):
            raise UsageError(f"the cluster is {cluster!r}; it should be ray://HOST or ray://HOST:PORT")
        _check_answers(host, int(port or CLIENT_PORT), cluster)
        return f"ray://{host}:{port or CLIENT_PORT}"
    named = os.environ.get("RAY_ADDRESS")
    if named in (None, "", "local"):
        return _running_here() if named != "local" else None
    if named != "auto":
        host, _, port = str(named).removeprefix("ray://").rpartition(":")
        if host and port.isdecimal():
            _check_answers(host, int(port), f"{named} (RAY_ADDRESS)")
    return named


def _running_here() -> str | None:
    """The cluster that `ray start` has made this machine a part of, if it answers."""
    note = Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()) / "ray" / "ray_current_cluster"
    try:
        host, _, port = note.read_text().strip().rpartition(":")
        with socket.create_connection((host, int(port)), ANSWER_SECONDS):
            return f"{host}:{port}"
    except (OSError, ValueError):
        return None


def _check_answers(host: str, port: int, name: str) -> None:
    try:
        with socket.create_connection((host, port), ANSWER_SECONDS):
            pass
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(
            f"nobody answers at {name}, port {port} ({reason}); start a cluster there with: ray start --head, or give "
            "--cluster ray for one on this machine"
        ) from error


def _prepare_start() -> Path:
    """A folder for a cluster of this process alone, with a token of its own unless there is one; gone at the end."""
    # short: Ray puts sockets below it, whose paths may have a hundred characters
    folder = Path(tempfile.mkdtemp(prefix="shiftproof-", dir=None if len(tempfile.gettempdir()) < 24 else "/tmp"))
    if "ray" not in sys.modules:
        os.environ.setdefault(_LOOPBACK, "0")
    own = Path.home() / ".ray" / "auth_token"
    if not (os.environ.get(TOKEN) or os.environ.get(TOKEN_PATH) or own.is_file()):
        path = folder / "token"
        path.touch(mode=0o600)
        path.write_text(secrets.token_hex(32))
        os.environ[TOKEN_PATH] = str(path)

    def end() -> None:
        import ray

        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    return folder


def _in_a_sentence(error: Exception, address: str | None, heard: str) -> ShiftproofError:
    """What went wrong with a connection; `heard` is what Ray wrote to stderr meanwhile."""
    name, text = type(error).__name__, str(error)
    if name == "AuthenticationError" or "uthenticat" in text + heard or "AuthToken" in text + heard:
        return UsageError(_NO_TOKEN.format(address=address or "of this machine"))
    first = next((line.strip() for line in text.splitlines() if line.strip()), name)
    if address is None:
        return ShiftproofError(f"a Ray cluster can't be started here: {name}: {first}")
    return UsageError(f"can't join the Ray cluster at {address}: {name}: {first}")


def _check_nodes(ray: Any) -> None:
    """Refuse a cluster whose nodes would not compute what this process does."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On

    from shiftproof.execution.ray_worker import describe_node

    ask = ray.remote(num_cpus=0)(describe_node)
    nodes = [node for node in ray.nodes() if node["Alive"]]
    try:
        found = ray.get([ask.options(scheduling_strategy=On(node["NodeID"], soft=False)).remote() for node in nodes])
    except ray.exceptions.RayTaskError as error:
        raise UsageError(
            f"a node of the cluster can't run shiftproof ({type(error.cause).__name__}: {error.cause}); install the "
            "same version on every node"
        ) from error
    except ray.exceptions.RayError as error:
        raise ShiftproofError(f"a node of the cluster does not answer: {type(error).__name__}") from error
    here = describe_node()
    for there in found:
        for package in ("shiftproof", "torch", "numpy"):
            if there[package] != here[package]:
                differs = f"another {package} ({there[package]}) than this process ({here[package]})"
                raise UsageError(
                    f"the node {there['host']} has {differs}: they could round differently; install the same version "
                    "on every node"
                )
    if len(processors := sorted({there["processor"] for there in found} | {here["processor"]})) > 1:
        warnings.warn(
            f"processors of the cluster differ ({', '.join(processors)}): where two classes tie, a vote may depend on "
            "the node that counts it",
            stacklevel=2,
        )


@contextmanager
def _listening(file: IO[bytes]) -> Iterator[None]:
    """Keep what Ray's native code writes to stderr inside the block: it says there why a connection is refused."""
    sys.stderr.flush()
    before = os.dup(2)
    try:
        os.dup2(file.fileno(), 2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        os.dup2(before, 2)
        os.close(before)
