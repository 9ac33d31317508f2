"""The report as files: one HTML page that opens offline, tables, figures, and all numbers as JSON."""

from shiftproof.report.page.files import FORMATS, MORE_FORMATS, write_report
from shiftproof.report.page.render import render_page

__all__ = ["FORMATS", "MORE_FORMATS", "render_page", "write_report"]
