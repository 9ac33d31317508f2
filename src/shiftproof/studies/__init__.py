"""YAML studies: what to train, on what, what to measure; and the runner that does it."""

from shiftproof.studies.files import find_study, list_studies, parse_study
from shiftproof.studies.run import Run, open_run, run_study
from shiftproof.studies.schema import Choice, ModelSpec, Study

__all__ = ["Choice", "ModelSpec", "Run", "Study", "find_study", "list_studies", "open_run", "parse_study", "run_study"]
