"""What fills evidence: probes look at a model on a domain, sample by sample."""

from shiftproof.probes.probe import PROBES, Probe, run_probe

__all__ = ["PROBES", "Probe", "run_probe"]
