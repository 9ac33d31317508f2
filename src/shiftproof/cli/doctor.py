"""`shiftproof doctor`."""

from __future__ import annotations

import typer

from shiftproof.cli.options import EXIT_FAILED, AsJson
from shiftproof.cli.show import show_findings, show_json

__all__ = ["command"]


def command(json: AsJson = False) -> None:
    """Check this machine: Python, torch, cores, disk, data. Exit 2 if something needed is broken."""
    from shiftproof.runs.doctor import examine

    findings = examine()
    if json:
        show_json({"findings": [{"level": f.level, "code": f.code, "message": f.message} for f in findings]})
    else:
        show_findings(findings)
    if any(finding.level == "fail" for finding in findings):
        raise typer.Exit(EXIT_FAILED)
