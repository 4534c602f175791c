"""The reports of load runs and of searches: a page each, drawn from the folder alone."""

from sojourn.report.load_run import search
from sojourn.report.load_run.writing import write_report

__all__ = ["search", "write_report"]
