"""Two runs side by side: which of their measurements pair, by how much they differ, which samples changed."""

from shiftproof.report.comparison.gate import judge_relative
from shiftproof.report.comparison.lines import Line, lines_of
from shiftproof.report.comparison.pairing import Paired, pair_evidence
from shiftproof.report.comparison.report import comparison_report
from shiftproof.report.comparison.settings import differing_keys
from shiftproof.report.comparison.tables import ModelPair

__all__ = [
    "Line",
    "ModelPair",
    "Paired",
    "comparison_report",
    "differing_keys",
    "judge_relative",
    "lines_of",
    "pair_evidence",
]
