"""The section of a report that calculates: controls, and the models as WebAssembly, compressed and in base64.

The page stays one file that loads nothing. Without script, or from an installation without the WebAssembly file, the
section says so, and everything else on the page is complete.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.resources import files

from sojourn.planning.counts import neighbours
from sojourn.planning.evaluation import PREFERENCE
from sojourn.planning.system_document import SystemDocument
from sojourn.planning.target import LOSS_MAX_DEFAULT
from sojourn.queueing import JOBS_MAX
from sojourn.report.markup import Markup, as_json, element, script
from sojourn.report.what_if.controls import Control, controls

IDENTIFIER = "what-if"
MODELS = "models.wasm"
"""The package file that scripts/wasm builds."""
MISSING = (
    "This report has no calculator, because this installation of Sojourn was built without it: its compiler cannot "
    "build WebAssembly. Everything else on the page is complete."
)
WITHOUT_SCRIPT = (
    "The calculator needs script, which is not running here. Everything else on this page is complete without it; "
    "sojourn predict, simulate and plan answer the same questions for the system file on a command line."
)


@dataclass(frozen=True)
class MeasuredPoint:
    """Response times that were measured at a load, in seconds; None where not measured."""

    load: float
    mean: float | None
    p95: float | None
    p99: float | None


@dataclass(frozen=True)
class Measured:
    """Measured figures by one parameter of the load."""

    path: str
    """The parameter that the load of the points is in."""
    points: Sequence[MeasuredPoint]


@dataclass(frozen=True)
class Aim:
    """The target that the calculator begins with."""

    statistic: str
    seconds: float
    of: str | None = None
    """A class; None for all together."""
    loss_max: float | None = None
    """The largest allowed share of refused jobs; None for the default of a target."""


@dataclass(frozen=True)
class Limit:
    """A limit of the total rate that the system file does not have: beyond it the calculator refuses, and says why."""

    what: str
    """The resource, as in `disk of app`."""
    per_second: float


@dataclass(frozen=True)
class Question:
    """What a report already knows beside its system file."""

    measured: Measured | None = None
    aim: Aim | None = None
    growth_percent_per_month: float | None = None
    start: str | None = None
    """The date when the growth starts; None for the day on which the page is read."""
    prices: Mapping[str, float] | None = None
    """By the path of a parameter, for one unit of it."""
    seed: int = 1
    limit: Limit | None = None
    note: str | None = None
    """What the reader must know of the system file, in sentences."""
    names: Mapping[str, str] = field(default_factory=dict)
    """How classes are called, where the system file has other names for them."""


def without_calculator(because: str) -> Markup:
    """The section of a report that has a reason not to calculate."""
    return element("section", element("h2", "What if"), element("p", because, class_="missing"), id=IDENTIFIER)


def what_if(document: SystemDocument, question: Question | None = None) -> Markup:
    """The section for a system file."""
    title = element("h2", "What if")
    asked = question or Question()
    models = files("sojourn.report.what_if").joinpath(MODELS)
    if not models.is_file():
        return without_calculator(MISSING)
    encoded = base64.b64encode(gzip.compress(models.read_bytes(), mtime=0)).decode("ascii")
    return element(
        "section",
        title,
        element("p", asked.note) if asked.note else None,
        element("p", WITHOUT_SCRIPT, class_="missing", id="what-if-without-script"),
        element("div", id="what-if-calculator", hidden=True),
        _data("what-if-data", "application/json", as_json(_given(document, asked))),
        _data("what-if-wasm", "text/plain", encoded),
        _data("what-if-models", "text/javascript", _script("models.js")),
        _data("what-if-drawing", "text/javascript", script("drawing.js")),
        _data("what-if-script", "text/javascript", _script("what_if.js")),
        id=IDENTIFIER,
    )


def _given(document: SystemDocument, question: Question) -> dict[str, object]:
    return {
        "system": document.text,
        "name": document.system.name,
        "controls": [_control(document, each, question.names) for each in controls(document)],
        "classes": [each.name for each in document.system.classes],
        "stations": [each.name for each in document.system.stations if not each.is_delay],
        "preference": PREFERENCE,
        "loss_max": _loss_max(document, question),
        "jobs_max": JOBS_MAX,
        **asdict(question),
    }


def _loss_max(document: SystemDocument, question: Question) -> float | None:
    if not document.system.is_lossy:
        return None
    asked = question.aim.loss_max if question.aim else None
    return LOSS_MAX_DEFAULT if asked is None else asked


def _control(document: SystemDocument, each: Control, names: Mapping[str, str]) -> dict[str, object]:
    shown = each.parameter
    smaller, larger = neighbours(document, shown)
    label = shown.label
    if shown.path.startswith("class.") and (name := shown.path.split(".")[1]) in names:
        label = label.replace(f" {name}", f" {names[name]}")
    return {
        "path": shown.path,
        "label": label,
        "group": each.group,
        "kind": shown.kind,
        "unit": shown.unit,
        "present": shown.present,
        "low": each.low,
        "high": each.high,
        "smaller": smaller,
        "larger": larger,
    }


def _script(name: str) -> str:
    return files("sojourn.report.what_if").joinpath(name).read_text()


def _data(identifier: str, kind: str, content: str) -> Markup:
    # The content of a script element is not escaped: neither base64, nor `as_json`, nor our own script ends it.
    return element("script", Markup(content), id=identifier, type=kind)
