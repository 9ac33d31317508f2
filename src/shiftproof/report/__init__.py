"""From evidence to what people read: tables, a chart, sample images, one HTML page."""

from shiftproof.report.findings import certificate_findings, shift_findings
from shiftproof.report.page import Report, write_report
from shiftproof.report.tables import Table, accuracy_table

__all__ = ["Report", "Table", "accuracy_table", "certificate_findings", "shift_findings", "write_report"]
