"""One way from a question to a folder: studies, from YAML or from a verb, the engine that runs them, and runs."""

from shiftproof.runs.audit import audit
from shiftproof.runs.compare import compare
from shiftproof.runs.comparison import Comparison
from shiftproof.runs.engine import run_study
from shiftproof.runs.how_far import Distances, measure_distances
from shiftproof.runs.imports import import_results
from shiftproof.runs.leave_one_out import LeaveOneOut, open_leave_one_out, run_leave_one_out
from shiftproof.runs.model_spec import ModelSpec
from shiftproof.runs.run import Run, open_run
from shiftproof.runs.shift import Shift, shift
from shiftproof.runs.spec import Study
from shiftproof.runs.study_files import find_study, list_studies, parse_study

__all__ = [
    "Comparison",
    "Distances",
    "LeaveOneOut",
    "ModelSpec",
    "Run",
    "Shift",
    "Study",
    "audit",
    "compare",
    "find_study",
    "import_results",
    "list_studies",
    "measure_distances",
    "open_leave_one_out",
    "open_run",
    "parse_study",
    "run_leave_one_out",
    "run_study",
    "shift",
]
