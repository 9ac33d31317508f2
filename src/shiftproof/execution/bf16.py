"""Whether this machine computes in bfloat16, found out by a child process, because a wrong answer ends the process.

Some virtual machines announce AMX and do not allow it: torch's bf16 then raises "could not create a primitive", or the
process dies by SIGILL, without a word.
"""

from __future__ import annotations

import os
import subprocess
import sys

from shiftproof.errors import UsageError
from shiftproof.execution.signals import describe_exit

__all__ = ["bf16_problem", "require_bf16"]

SETTING, REPAIR = "ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16"
"""What keeps torch's library for networks from using AMX."""
TIMEOUT_SECONDS = 300
_ANSWER = "SHIFTPROOF_BF16_WORKS"
"""Environment variable that tells processes started from here what the trial has shown: the setting it holds for."""

TRIAL = """
import contextlib
with contextlib.suppress(ImportError):  # a child that is expected to die leaves no core file
    import resource
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
import torch
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 64, 64))
inputs = torch.rand(32, 16, 8, 8)
expected = model(inputs)
with torch.autocast("cpu", torch.bfloat16):
    logits = model(inputs).float()
logits.square().sum().backward()
with torch.inference_mode():
    whole = model.to(torch.bfloat16)(inputs.to(torch.bfloat16)).float()
for found in (logits, whole):
    if not torch.allclose(found, expected, atol=0.1 * float(expected.abs().max())):
        raise SystemExit("its results are far from those in f32")
"""
"""A convolution and a dense layer in bfloat16, forward and backward, compared with f32."""

_problems: dict[str, str | None] = {}


def bf16_problem() -> str | None:
    """Why this machine can't compute in bfloat16, as a sentence that says what to set; None if it can.

    The first call takes a few seconds, for a child process that tries; later ones, and those in processes that are
    started from this one, know.
    """
    setting = os.environ.get(SETTING, "")
    if setting not in _problems:
        if os.environ.get(_ANSWER) == f"with {setting}":
            return None
        _problems[setting] = _try_here(setting)
        if _problems[setting] is None:
            os.environ[_ANSWER] = f"with {setting}"
    return _problems[setting]


def require_bf16() -> None:
    """Refuse to compute in bfloat16 where that fails or ends the process."""
    problem = bf16_problem()
    if problem is not None:
        raise UsageError(problem)


def _try_here(setting: str) -> str | None:
    failure = _failure_of_trial({})
    if failure is None:
        return None
    sentence = f"bfloat16 does not work on this machine: a trial of it in a child process {failure}"
    if setting != REPAIR and _failure_of_trial({SETTING: REPAIR}) is None:
        return f"{sentence}. With {SETTING}={REPAIR} in the environment it works: set that, or use precision f32"
    return f"{sentence}, with {SETTING}={REPAIR} in the environment too. Use precision f32"


def _failure_of_trial(settings: dict[str, str]) -> str | None:
    """What became of the trial, for a sentence; None if it went well."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", TRIAL],
            env={**os.environ, **settings},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"did not end in {TIMEOUT_SECONDS} seconds"
    except OSError as error:
        return f"could not be started ({error})"
    if done.returncode == 0:
        return None
    said = done.stderr.strip().splitlines()
    return describe_exit(done.returncode) if done.returncode < 0 or not said else f"failed: {said[-1].strip()}"
