"""What was measured, sample by sample, its store on disk, and metrics over it."""

from shiftproof.evidence.evidence import Evidence
from shiftproof.evidence.measurement import Column, Measurement, seen_note, worst_seen
from shiftproof.evidence.store import EvidenceStore, slug

__all__ = ["Column", "Evidence", "EvidenceStore", "Measurement", "seen_note", "slug", "worst_seen"]
