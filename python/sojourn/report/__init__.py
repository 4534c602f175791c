"""The report of a run: one HTML file that holds everything and asks nothing of the network."""

from sojourn.report.page import write_report

__all__ = ["write_report"]
