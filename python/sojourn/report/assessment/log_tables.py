"""Tables of the imported log: Table 1 of its characteristics, and the import's counts."""

from __future__ import annotations

from sojourn.report.assessment.run import Run
from sojourn.report.markup import Markup
from sojourn.report.tables import absent, grid, pairs
from sojourn.text import format
from sojourn.workload.characteristics import Characteristics, LogImport, visible
from sojourn.workload.coverage import Coverage, RequestClass

PATHS_SHOWN_MAX = 3
PATH_SHOWN_MAX = 48

CLASSES = {
    "query": "with a query",
    "method": "other methods",
    "after_post": "results of forms",
    "user_dependent": "differ by user",
    "varying_size": "sizes keep changing",
    "partial": "ranges",
    "without_size": "no size in the log",
    "of_unknown_size": "no size known",
}
"""Descriptions of request classes whose names say too little."""


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
        *((f"Log: {name}", said) for name, said in log.logs()),
        ("Lines", format.count(log.figure("lines"))),
        ("Requests kept", format.count(log.figure("requests"))),
        ("Malformed lines", format.count(log.figure("malformed"))),
        *_if_any("Not selected", log.figure("not_selected")),
        *_if_any("Failed, kept and marked", log.figure("failed_requests")),
        *coverage_figures(log.coverage()),
        ("Not modified or HEAD, sized by name", format.count(log.figure("by_name_requests"))),
        ("Lines out of order", format.count(log.figure("out_of_order_lines"))),
        ("Clients", format.count(log.figure("clients"))),
        ("Sessions", format.count(log.figure("sessions"))),
    ]


def coverage_figures(found: Coverage | None) -> list[tuple[str, str]]:
    """The share of the log that a static copy of the site can answer, and the classes of the rest."""
    if found is None:
        return []
    covered = f"{_share(found.requests_fraction)} of the requests"
    if found.bytes_fraction is not None:
        covered += f", {_share(found.bytes_fraction)} of the bytes"
    rows = [("A static copy stands for", covered)]
    if found.peak_requests_per_second_all is not None:
        rate = format.rate(found.peak_requests_per_second_all)
        rows.append(("All requests, busiest minute", f"{rate}, {_share(found.peak_requests_fraction)} covered"))
    rows.extend((f"Dynamic: {_words(each)}", _counted(each)) for each in found.dynamic)
    rows.extend((f"Left out: {_words(each)}", _counted(each)) for each in found.left_out)
    return rows


def _share(fraction: float | None) -> str:
    # Rounded to a tenth, because 99.6 % is not all.
    return format.NOT_MEASURED if fraction is None else f"{100 * fraction:.1f} %"


def _words(requests: RequestClass) -> str:
    return CLASSES.get(requests.name, requests.name.replace("_", " "))


def _counted(requests: RequestClass) -> str:
    paths = [f"{shortened(each.path)} {format.count(each.count)}" for each in requests.top_paths[:PATHS_SHOWN_MAX]]
    counted = f"{format.count(requests.count)} ({_share(requests.share)})"
    return f"{counted}: {', '.join(paths)}" if paths else counted


def shortened(path: str) -> str:
    """Shortens a path to leave room for others, and escapes terminal control characters."""
    said = visible(path)
    return said if len(said) <= PATH_SHOWN_MAX else f"{said[: PATH_SHOWN_MAX - 1]}…"


def _if_any(name: str, count: float | None) -> list[tuple[str, str]]:
    return [(name, format.count(count))] if count else []


def malformed_lines(run: Run) -> Markup | None:
    """The first malformed lines, unchanged."""
    first = run.log_import.malformed_examples()
    return grid("table-malformed", "First malformed lines", [("Line", "Why", "Text")], first) if first else None
