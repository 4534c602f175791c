"""What was read: Table 1 of the log and the facts of its import."""

from __future__ import annotations

from sojourn.report.assessment.run import Run
from sojourn.report.markup import Markup
from sojourn.report.tables import absent, grid, pairs
from sojourn.text import format
from sojourn.workload.characteristics import Characteristics, LogImport


def table_one(run: Run) -> Markup:
    """A table of the log's characteristics."""
    title = "The log in figures"
    if not run.summary.characteristics:
        return absent("table-log", title, f"the log was not characterised: {run.because_incomplete}")
    note = (
        "A file is a distinct path and size. Memory: the documents that the log asks for most, until they"
        " cover that share of its requests."
    )
    return pairs("table-log", title, figures(run.characteristics), note)


def import_facts(run: Run) -> Markup:
    """Lines read, set aside and malformed."""
    title = "Import"
    if not run.summary.log_import:
        return absent("table-import", title, f"the log was not read: {run.because_incomplete}")
    return pairs("table-import", title, import_figures(run.log_import))


def figures(log: Characteristics) -> list[tuple[str, str]]:
    """The rows of Table 1 of the diskless-server study (IBM RC22629)."""
    return [
        ("Average rate", format.rate(log.figure("average_requests_per_second"))),
        ("Peak rate, busiest minute", format.rate(log.figure("peak_requests_per_second"))),
        ("Requests per connection", format.number(log.figure("requests_per_connection"))),
        ("Files", format.count(log.figure("files"))),
        ("Total size of the files", format.size(log.figure("files_total_bytes"))),
        ("Requests", format.count(log.figure("requests"))),
        ("Total size of the responses", format.size(log.figure("responses_total_bytes"))),
        *((f"Memory for {share} % of requests", format.size(log.data_bytes_for(share))) for share in (97, 98, 99)),
    ]


def import_figures(log: LogImport) -> list[tuple[str, str]]:
    """Counts of lines imported, set aside and malformed."""
    return [
        ("Format", log.format()),
        ("Lines", format.count(log.figure("lines"))),
        ("Requests kept", format.count(log.figure("requests"))),
        ("Malformed lines", format.count(log.figure("malformed"))),
        *_if_any("Not selected", log.figure("not_selected")),
        *_if_any("Failed, kept and marked", log.figure("failed_requests")),
        *((f"Set aside: {reason}", format.count(value)) for reason, value in log.skipped()),
        ("Not modified or HEAD, sized by name", format.count(log.figure("by_name_requests"))),
        ("Lines out of order", format.count(log.figure("out_of_order_lines"))),
        ("Clients", format.count(log.figure("clients"))),
        ("Sessions", format.count(log.figure("sessions"))),
    ]


def _if_any(name: str, count: float | None) -> list[tuple[str, str]]:
    return [(name, format.count(count))] if count else []


def malformed_lines(run: Run) -> Markup | None:
    """The first malformed lines, as they are."""
    first = run.log_import.malformed_examples()
    return grid("table-malformed", "First malformed lines", [("Line", "Why", "Text")], first) if first else None
