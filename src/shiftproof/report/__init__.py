"""From evidence to what people read: a list of sections, each with words, tables and charts, and one HTML page."""

from shiftproof.report.accuracy import AccuracyTable, accuracy_table
from shiftproof.report.page import write_report
from shiftproof.report.report import Report
from shiftproof.report.section import SECTIONS, Section
from shiftproof.report.sections.findings import certificate_findings, shift_findings
from shiftproof.report.tables import Cell, Heading, Row, Table

__all__ = [
    "SECTIONS",
    "AccuracyTable",
    "Cell",
    "Heading",
    "Report",
    "Row",
    "Section",
    "Table",
    "accuracy_table",
    "certificate_findings",
    "shift_findings",
    "write_report",
]
