"""Run shards of work and survive: workers, a journal, atomic files, progress. Knows nothing of what it runs."""

from shiftproof.execution.arguments import as_list, as_path, check_count, check_progress, check_running, check_text
from shiftproof.execution.bf16 import bf16_problem, require_bf16
from shiftproof.execution.compute import HERE, Backend, Compute, Precision, TrainingPrecision, find_device
from shiftproof.execution.files import check_writable, only_one, parse_json, read_json, write_atomically, write_json
from shiftproof.execution.journal import Journal
from shiftproof.execution.memory import keep_freed_memory, machine_memory
from shiftproof.execution.progress import (
    Mode,
    Progress,
    current_progress,
    duration,
    parse_duration,
    progress_bar,
    showing_progress,
)
from shiftproof.execution.shards import ready, run_shards, slots
from shiftproof.execution.signals import terminate_as_interrupt
from shiftproof.execution.workers import always_in_workers, pickled, single_threaded

__all__ = [
    "HERE",
    "Backend",
    "Compute",
    "Journal",
    "Mode",
    "Precision",
    "Progress",
    "TrainingPrecision",
    "always_in_workers",
    "as_list",
    "as_path",
    "bf16_problem",
    "check_count",
    "check_progress",
    "check_running",
    "check_text",
    "check_writable",
    "current_progress",
    "duration",
    "find_device",
    "keep_freed_memory",
    "machine_memory",
    "only_one",
    "parse_duration",
    "parse_json",
    "pickled",
    "progress_bar",
    "read_json",
    "ready",
    "require_bf16",
    "run_shards",
    "showing_progress",
    "single_threaded",
    "slots",
    "terminate_as_interrupt",
    "write_atomically",
    "write_json",
]
