"""The report of a leave-one-out: runs of one study, each with another domain left out of training."""

from shiftproof.report.leave_one_out.report import LeaveOneOutReport, leave_one_out_report

__all__ = ["LeaveOneOutReport", "leave_one_out_report"]
