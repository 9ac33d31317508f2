"""YAML studies: what to train, on what, what to measure; and the runner that does it."""

from shiftproof.studies.audit import audit
from shiftproof.studies.files import find_study, list_studies, parse_study
from shiftproof.studies.run import Run, open_run
from shiftproof.studies.runner import run_study
from shiftproof.studies.schema import Choice, ModelSpec, Study

__all__ = [
    "Choice",
    "ModelSpec",
    "Run",
    "Study",
    "audit",
    "find_study",
    "list_studies",
    "open_run",
    "parse_study",
    "run_study",
]
