"""Two raylets on this machine, and the environment of a process that may use them."""

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@dataclass
class TwoNodes:
    """A running cluster: its environment, where it is, and the processes of its nodes."""

    environment: dict[str, str]
    address: str
    head: int
    second: int


@pytest.fixture(scope="module")
def two_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoNodes]:
    """Shared by the tests of a module; whoever kills a node is the last one to use it."""
    pytest.importorskip("ray", reason="ray is not installed: pip install 'shiftproof[distributed]'")
    pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'shiftproof[distributed]'")
    folder = tmp_path_factory.mktemp("ray")
    token = folder / "token"
    token.write_text(secrets.token_hex(32))
    environment = {
        **os.environ,
        "HOME": str(folder),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "PYTHONWARNINGS": "ignore",
    }
    host = subprocess.Popen(
        [sys.executable, str(HERE / "two_nodes.py")],
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert host.stdin is not None
    assert host.stdout is not None
    try:
        said = json.loads(next(line for line in host.stdout if line.startswith("{")))
        yield TwoNodes({**environment, "RAY_ADDRESS": said["address"]}, said["address"], *said["raylets"])
    finally:
        host.stdin.close()
        host.stdout.close()
        try:
            host.wait(30)
        except subprocess.TimeoutExpired:
            host.kill()
            host.wait()
