"""Where the picture of what was done to samples is kept."""

from pathlib import Path

__all__ = ["changes_path"]


def changes_path(folder: Path) -> Path:
    """The picture of a run's noises and corruptions on samples of its domains."""
    return folder / "figures" / "changed-samples.png"
