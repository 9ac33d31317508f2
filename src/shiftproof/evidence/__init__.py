"""The per-sample record of what was measured, its store, and metrics over it."""

from shiftproof.evidence.record import SCHEMA, Evidence
from shiftproof.evidence.store import EvidenceStore, slug

__all__ = ["SCHEMA", "Evidence", "EvidenceStore", "slug"]
