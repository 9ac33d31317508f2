"""A cluster that a command starts for itself."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import json, os, subprocess
import shiftproof as sp
domain = sp.load_domains("colored-digits")["e=0.9"].subset(range(12))
model = sp.build_model("mlp", domain, width=16, seed=0).eval()
smoothing = sp.certifiers.RandomizedSmoothing(sp.noise.Gaussian(0.25), n=400)
there = sp.certify(model, domain, smoothing, seed=1, workers=2, cluster="ray", progress="off")
here = sp.certify(model, domain, smoothing, seed=1, progress="off")
rows = [line.split() for name in ("tcp", "tcp6") for line in open(f"/proc/net/{name}").readlines()[1:]]
listening = [row[1].split(":")[0] for row in rows if row[3] == "0A" and row[9] in INODES()]
print(json.dumps({"same": bool((there.count == here.count).all()), "listening": listening,
                  "token": os.environ.get("RAY_AUTH_TOKEN_PATH", "")}))
"""
INODES = '''
def INODES():
    """Sockets of the processes of Ray and of this one."""
    found = set()
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            name = open(f"/proc/{pid}/cmdline").read()
            if int(pid) == os.getpid() or os.environ["RAY_AUTH_TOKEN_PATH"].rsplit("/", 1)[0] in name:
                links = (os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd"))
                found |= {link[8:-1] for link in links if link.startswith("socket:[")}
        except OSError:
            pass
    return found
import os
'''
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F"}


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="which addresses are listened on is read from /proc")
def test_it_counts_the_same_votes_on_loopback_with_a_token_and_leaves_nothing(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="ray is not installed: pip install 'shiftproof[distributed]'")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
    environment |= {"HOME": str(tmp_path), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-c", INODES + SCRIPT], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["same"]
    assert said["listening"]
    assert set(said["listening"]) <= LOOPBACK
    assert said["token"]
    assert not Path(said["token"]).parent.exists()
    assert not (tmp_path / ".ray").exists()
