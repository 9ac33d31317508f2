"""Samples for the gallery of a report, made when a run ends, where models and data are at hand."""

from shiftproof.runs.gallery.write import write_galleries

__all__ = ["write_galleries"]
