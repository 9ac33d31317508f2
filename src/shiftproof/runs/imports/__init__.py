"""Others' results as runs: logs of certificates, robust flags and accuracies that somebody has published."""

from shiftproof.runs.imports.folder import import_results

__all__ = ["import_results"]
