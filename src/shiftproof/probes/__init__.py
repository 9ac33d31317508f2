"""What fills evidence: probes look at a model on a domain, sample by sample."""

from shiftproof.evidence import Column
from shiftproof.probes.blocks import answers_of, measure_blocks
from shiftproof.probes.costs import block_cost
from shiftproof.probes.probe import PROBES, Probe, Result, run_probe, under_each

__all__ = [
    "PROBES",
    "Column",
    "Probe",
    "Result",
    "answers_of",
    "block_cost",
    "measure_blocks",
    "run_probe",
    "under_each",
]
