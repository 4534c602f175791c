"""Serves the page of `sojourn ui`: the editor with its file, the list of runs, their reports, and comparisons.

The page solves by itself, with the models as WebAssembly; this side only reads and writes.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from importlib.resources import files
from pathlib import Path
from string import Template
from types import TracebackType
from urllib.parse import urlencode

from pydantic import BaseModel, ConfigDict, ValidationError

from sojourn import __version__
from sojourn.failure import CouldNotRun
from sojourn.planning.evaluation import PREFERENCE
from sojourn.queueing import JOBS_MAX
from sojourn.report.local_server import HTML, POLICY, Exchange, LocalServer
from sojourn.report.markup import Markup, as_json, element, join, script
from sojourn.report.ui import runs
from sojourn.report.ui.edited_file import Changed, EditedFile
from sojourn.report.what_if.section import MISSING, MODELS

_EDITOR_POLICY = POLICY.replace("script-src", "script-src 'wasm-unsafe-eval'") + "; worker-src blob:"
_RUNS_POLICY = POLICY.replace("form-action 'none'", "form-action 'self'")
_REPORT_POLICY = (
    # A report cannot reach the file that is edited: it runs as a page of nobody.
    "sandbox allow-scripts allow-downloads; default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline' 'wasm-unsafe-eval'; worker-src blob:; img-src data:; frame-ancestors 'none'"
)
_PAGES = {"/": "System", "/runs": "Runs"}
_JSON = "application/json"


class _Save(BaseModel):
    """The body of a request that saves."""

    model_config = ConfigDict(extra="forbid")

    text: str
    version: str
    """The version of the file that the page has read."""
    name: str
    """The name of a new file."""


class EditorPage:
    """The pages of one `sojourn ui`; a context manager.

    Args:
        file: what the editor reads and writes.
        folder: the folder of runs, which need not exist.
        port: 0 for a free one.
    """

    def __init__(self, file: EditedFile, folder: Path, port: int = 0) -> None:
        self._file = file
        self._folder = folder
        self._server = LocalServer(self._answer, port, "the page")

    @property
    def address(self) -> str:
        """The editor's address, with its token."""
        return self._server.address

    def __enter__(self) -> EditorPage:
        self._server.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.__exit__(kind, error, trace)

    def _answer(self, exchange: Exchange) -> None:
        match exchange.command, exchange.place:
            case "GET", "/":
                exchange.send(HTTPStatus.OK, self._editor(exchange.token), HTML, _EDITOR_POLICY)
            case "GET", "/models.wasm":
                models = files("sojourn.report.what_if").joinpath(MODELS)
                if models.is_file():
                    exchange.send(HTTPStatus.OK, models.read_bytes(), "application/wasm")
                else:
                    exchange.send_not_found()
            case "GET", "/file":
                self._send_file(exchange)
            case "PUT", "/file":
                self._save(exchange)
            case "GET", "/runs":
                content = runs.list_page(self._folder, runs.runs_of(self._folder), exchange.token)
                exchange.send(HTTPStatus.OK, _page("/runs", "Runs", content, exchange.token), HTML, _RUNS_POLICY)
            case "GET", "/report":
                report = runs.report_of(self._folder, exchange.field("run"))
                if report is None:
                    exchange.send_not_found()
                else:
                    exchange.send(HTTPStatus.OK, report, HTML, _REPORT_POLICY)
            case "GET", "/compare":
                self._compare(exchange)
            case _:
                exchange.send_not_found()

    def _editor(self, token: str) -> bytes:
        report = files("sojourn.report")
        if not report.joinpath("what_if").joinpath(MODELS).is_file():
            missing = MISSING.replace("This report has no calculator", "There is no editor here")
            return _page("/", "System", element("p", missing, class_="missing"), token)
        now = self._file.read()
        given = {
            "name": self._file.name,
            "is_named": self._file.is_named,
            "text": now.text,
            "version": now.version,
            "preference": PREFERENCE,
            "jobs_max": JOBS_MAX,
        }
        main = Markup(report.joinpath("ui/editor.html").read_text())
        names = ("drawing.js", "what_if/models.js", "ui/canvas.js", "ui/forms.js", "ui/editor.js")
        scripts = [
            element("script", as_json(given), type="application/json", id="given"),
            *(element("script", Markup(script(each)), id=f"script-{Path(each).stem}") for each in names),
        ]
        return _page("/", "System", main, token, scripts)

    def _send_file(self, exchange: Exchange) -> None:
        try:
            now = self._file.read()
        except CouldNotRun as failure:
            _send_json(exchange, HTTPStatus.INTERNAL_SERVER_ERROR, {"said": failure.said})
            return
        _send_json(exchange, HTTPStatus.OK, {"name": self._file.name, "text": now.text, "version": now.version})

    def _save(self, exchange: Exchange) -> None:
        body = exchange.body()
        try:
            wanted = _Save.model_validate_json(body or b"")
        except ValidationError:
            _send_json(exchange, HTTPStatus.BAD_REQUEST, {"said": "the request has no text and version of a file"})
            return
        try:
            done = self._file.save(wanted.text, wanted.version, wanted.name)
        except CouldNotRun as failure:
            _send_json(exchange, HTTPStatus.UNPROCESSABLE_ENTITY, {"said": failure.said})
            return
        if isinstance(done, Changed):
            there = {"name": done.name, "text": done.now.text, "version": done.now.version}
            _send_json(exchange, HTTPStatus.CONFLICT, there)
        else:
            _send_json(exchange, HTTPStatus.OK, {"name": done.name, "version": done.version, "problem": done.problem})

    def _compare(self, exchange: Exchange) -> None:
        try:
            content = runs.comparison_page(self._folder, exchange.field("first"), exchange.field("second"))
            status = HTTPStatus.OK
        except CouldNotRun as failure:
            content = join(element("h1", "Not compared"), element("p", failure.said, class_="notice caution"))
            status = HTTPStatus.UNPROCESSABLE_ENTITY
        exchange.send(status, _page("/runs", "Comparison", content, exchange.token), HTML)


def _send_json(exchange: Exchange, status: HTTPStatus, value: object) -> None:
    exchange.send(status, json.dumps(value).encode(), _JSON)


def _page(place: str, title: str, main: Markup, token: str, scripts: list[Markup] | None = None) -> bytes:
    report = files("sojourn.report")
    links = [
        element("a", name, href=f"{each}?{urlencode({'token': token})}", aria_current="page" if each == place else None)
        for each, name in _PAGES.items()
    ]
    styles = ("plot.css", "report.css", "ui/ui.css")
    return (
        Template(report.joinpath("ui/page.html").read_text())
        .substitute(
            style="".join(report.joinpath(each).read_text() for each in styles),
            title=join(title),
            navigation=join(links),
            main=main,
            version=join(__version__),
            scripts=join(scripts or []),
        )
        .encode()
    )
