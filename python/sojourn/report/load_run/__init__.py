"""The report of a load run: one page, drawn from the run's folder alone."""

from sojourn.report.load_run.page import write_report

__all__ = ["write_report"]
