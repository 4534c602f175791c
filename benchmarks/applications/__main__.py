"""`benchmarks/applications/bench`: runs an assessment per case, and writes a table of what each found."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from string import Template
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks import command_line, machine
from benchmarks.applications import other_generators
from benchmarks.applications.cases import CASES, FOREIGN, VERIFIED, Case, ForeignCase, Verified
from benchmarks.applications.foreign import running
from benchmarks.kept_answers import Asked, asked_for, is_answer_to, mark
from sojourn.applications import fitting
from sojourn.applications.summary import SUMMARY, ApplicationSummary, Model
from sojourn.failure import CouldNotRun
from sojourn.report.application.terminal import MET
from sojourn.results.records import Interval

NAME = "applications-benchmark"
SHOP = machine.ROOT / "examples" / "shop" / "shop"
SOJOURN = Path(sys.executable).parent / "sojourn"
TRAFFIC = ("--users", "24")
"""Few clients, so that a case takes a minute and a half: the hunt is for tier and cause."""
ENDPOINTS = ("static=GET /static/*", "search=GET /search*", "product=GET /products/*", "pages=GET /*")
PEERS = machine.ROOT / "target" / "application-peers"
NAMES = [each.name for each in (*CASES, *FOREIGN, *VERIFIED)]
FOREIGN_LOG_SECONDS = 15.0
TOOLS = "tools.md"
OTHERS_MAX = 1.0
"""Cores. If other programs used more, the assessment found their bottleneck; such a case is not counted."""
talk = Console(stderr=True)


def _bench(
    cases: Annotated[str, typer.Option(help=f"Comma-separated, * allowed: {', '.join(NAMES)}.")] = "*",
    effort: Annotated[str, typer.Option(help="Of each assessment: quick, normal, thorough.")] = "quick",
    traffic_seconds: Annotated[float, typer.Option(help="How long users make the log.")] = 60.0,
    venv: Annotated[Path, typer.Option(help="Where the shop's libraries are.")] = machine.ROOT / "build" / "shop-venv",
    output: Annotated[Path, typer.Option(help="The runs' folder.")] = machine.ROOT / "runs" / NAME,
    docs: Annotated[Path | None, typer.Option(help="Also put the page here.")] = None,
    tools: Annotated[
        bool, typer.Option("--tools", help="Measure the shop by sojourn load, k6 and Locust, too; the page keeps it.")
    ] = False,
    demo: Annotated[bool, typer.Option("--demo", help="Assess the shop as it is, and print the answer.")] = False,
) -> None:
    """Assess applications with known bottlenecks, the example shop and foreign ones, and count the right answers.

    A case with a complete run of this effort and revision in the output folder is not measured again.

    Example: benchmarks/applications/bench --cases 'lock,db-*'
    """
    patterns = [pattern.strip() for pattern in cases.split(",")]
    chosen = {name for name in NAMES if any(fnmatch(name, pattern) for pattern in patterns)}
    output.mkdir(parents=True, exist_ok=True)
    asked = asked_for(effort)
    missing = [case for case in CASES if case.name in chosen and _kept(output / case.name, asked) is None]
    changed = [each for each in VERIFIED if each.name in chosen and _kept(output / each.name, asked) is None]
    if missing or changed or demo or tools:
        with _shop(venv) as folder:
            log = _log(folder, traffic_seconds)
            if demo:
                objectives = ("--slo", "p95 < 500ms", "--slo", "errors < 1%")
                sys.exit(_assessed(folder, log, output / "demo", effort, *objectives))
            if tools:
                measured = other_generators.measure(_status(folder)["url"], other_generators.PATHS, PEERS)
                (output / TOOLS).write_text(other_generators.table(measured))
            for case in missing:
                _hunted(case, folder, log, output / case.name, effort)
            for each in changed:
                _verified(each, folder, log, output / each.name, effort)
    for foreign in FOREIGN:
        if foreign.name in chosen and _kept(output / foreign.name, asked) is None:
            _hunted_foreign(foreign, output / foreign.name, effort)
    answers = {name: found for name in chosen if (found := _kept(output / name, asked)) is not None}
    rows = [_row(case, answers.get(case.name)) for case in (*CASES, *FOREIGN) if case.name in chosen]
    for row in rows:
        print(" | ".join(row))
    kept = output / TOOLS
    said = kept.read_text() if kept.exists() else "not measured: `--tools`"
    changes = [row for each in VERIFIED if each.name in answers for row in _changes(each, answers[each.name])]
    models = {case.name: answers[case.name].model for case in (*CASES, *FOREIGN) if case.name in answers}
    page = _page(rows, changes, effort, said, {name: model for name, model in models.items() if model is not None})
    for where in (output, docs):
        if where is not None:
            (where / f"{NAME}.md").write_text(page)


@contextmanager
def _shop(venv: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="shop-") as name:
        # As root we run PostgreSQL as another user, which must reach the folder.
        folder = Path(name)
        folder.chmod(0o755)
        _run("start", folder, "--venv", str(venv))
        try:
            yield folder
        finally:
            _run("stop", folder)


def _log(folder: Path, seconds: float) -> Path:
    _run("traffic", folder, *TRAFFIC, "--seconds", f"{seconds:g}")
    # A copy, because the server also logs the assessment's load.
    return Path(shutil.copy(folder / "access.log", folder / "traffic.log"))


def _hunted(case: Case, folder: Path, log: Path, run: Path, effort: str) -> None:
    _run("restart", folder, *_set(case.knobs))
    _assessed(folder, log, run, effort, *(word for each in ENDPOINTS for word in ("--endpoint", each)))


def _hunted_foreign(case: ForeignCase, run: Path, effort: str) -> None:
    with tempfile.TemporaryDirectory(prefix="foreign-") as name:
        # As root we run its processes as another user.
        folder = Path(name)
        folder.chmod(0o755)
        try:
            with running.started(folder, case.starting(PEERS), case.paths, FOREIGN_LOG_SECONDS) as foreign:
                shutil.rmtree(run, ignore_errors=True)
                words = [str(SOJOURN), "assess", str(foreign.log), "--target", foreign.url, "--effort", effort]
                words += [word for tier, port in foreign.tiers.items() for word in ("--tier", f"{tier}=port:{port}")]
                subprocess.run([*words, "--output", str(run)], check=False)
                mark(run, asked_for(effort))
        except CouldNotRun as failure:
            talk.print(f"{case.name} is left out: {failure.said}", highlight=False)


def _assessed(folder: Path, log: Path, run: Path, effort: str, *more: str) -> int:
    shutil.rmtree(run, ignore_errors=True)
    tiers = _status(folder)["tiers"]
    port = {name: tiers[name]["port"] for name in ("nginx", "application", "database")}
    words = [str(SOJOURN), "assess", str(log), "--target", f"http://127.0.0.1:{port['nginx']}", "--effort", effort]
    for name, part in (("web", "nginx"), ("app", "application"), ("db", "database")):
        words += ["--tier", f"{name}=port:{port[part]}"]
    words += ["--postgresql", _status(folder)["database"], "--output", str(run)]
    words += ["--prometheus", f"http://127.0.0.1:{port['application']}/metrics", *more]
    code = subprocess.run(words, check=False).returncode
    mark(run, asked_for(effort))
    return code


def _kept(run: Path, asked: Asked) -> ApplicationSummary | None:
    """Returns the complete answer of a run that was asked for the same; what ended early is no answer."""
    try:
        found = ApplicationSummary.model_validate_json((run / SUMMARY).read_text())
    except (OSError, ValueError):
        return None
    return found if found.complete and is_answer_to(asked, run) else None


def _row(case: Case | ForeignCase, found: ApplicationSummary | None) -> list[str]:
    expected = " or ".join(f"{tier}: {cause}" for tier, cause in case.right)
    if found is None or found.bottleneck is None:
        return [case.name, expected, "nothing", "no", "", "", ""]
    cause = found.bottleneck
    said = f"{cause.tier or '-'}: {cause.cause}"
    verdict = "yes" if (cause.tier, cause.cause) in case.right else "unknown" if cause.cause == "unknown" else "WRONG"
    taken = _others(found)
    if taken is not None and taken > OTHERS_MAX:
        verdict = f"{verdict}, disturbed"
    knee = found.knee.requests_per_second.estimate if found.knee else 0.0
    return [case.name, expected, said, verdict, f"{knee:,.0f}", "" if taken is None else f"{taken:.2f}", cause.because]


def _errors(name: str, model: Model) -> list[str]:
    row = [name, f"{model.judged.get('mean', 0)}"]
    for what in ("mean", "p95"):
        error, chance = model.errors.get(what), model.errors_by_chance.get(what)
        own = model.errors_beyond_chance.get(what)
        if error is None or chance is None or own is None:
            row += ["", "", "", ""]
        else:
            row += [f"{error:.0%}", _range(chance), _range(own), MET[model.meets(what)]]
    return row


def _range(interval: Interval) -> str:
    return f"{interval.low:.0%} to {interval.high:.0%}"


def _verified(each: Verified, folder: Path, log: Path, run: Path, effort: str) -> None:
    def restart(knobs: Sequence[str]) -> str:
        return shlex.join([str(SHOP), "restart", "--folder", str(folder), *_set(knobs)])

    _run("restart", folder, *_set(each.knobs))
    words = ["--restore", restart(each.knobs)]
    for setting, knobs in each.changes:
        words += ["--change", setting if knobs is None else f"{setting}: {restart(knobs)}"]
    _assessed(folder, log, run, effort, *(word for one in ENDPOINTS for word in ("--endpoint", one)), *words)


def _changes(each: Verified, found: ApplicationSummary) -> Iterator[list[str]]:
    knee = found.knee.requests_per_second.estimate if found.knee else 0.0
    for change in found.verification:
        beside_others = change.predicted_beside_others
        yield [
            f"`{' '.join(each.knobs) or 'as it is'}`: {knee:,.0f}",
            f"`{change.setting}`",
            f"{change.predicted.estimate:,.0f}" if change.predicted else change.not_predicted_because or "",
            f"{change.measured.estimate:,.0f}" if change.measured else change.not_measured_because or "",
            f"{change.error:+.0%}" if change.error is not None else "",
            f"{change.others_cores:.2f}" if change.others_cores is not None else "as before",
            f"{beside_others.estimate:,.0f}" if beside_others else "",
            f"{change.error_beside_others:+.0%}" if change.error_beside_others is not None else "",
        ]


def _set(knobs: Sequence[str]) -> list[str]:
    return [word for knob in knobs for word in ("--set", knob)]


def _page(
    rows: Sequence[Sequence[str]],
    changes: Sequence[Sequence[str]],
    effort: str,
    tools: str,
    models: Mapping[str, Model],
) -> str:
    right = sum(row[3] == "yes" for row in rows)
    wrong = sum(row[3] == "WRONG" for row in rows)
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    template = (Path(__file__).parent / "page.md.template").read_text()
    disturbed = sum("disturbed" in row[3] for row in rows)
    throughputs = [model.errors["throughput"] for model in models.values() if "throughput" in model.errors]
    return Template(template).substitute(
        throughput=f"{min(throughputs):.1%} to {max(throughputs):.1%}" if throughputs else "nothing that was measured",
        errors="\n".join("| " + " | ".join(_errors(name, model)) + " |" for name, model in models.items()),
        disturbed=disturbed,
        tools=tools,
        changes="\n".join("| " + " | ".join(row) + " |" for row in changes),
        rate=f"{other_generators.RATE:g}",
        seconds=f"{other_generators.SECONDS:g}",
        repetitions=other_generators.REPETITIONS,
        table=table,
        right=right,
        wrong=wrong,
        count=len(rows) - disturbed,
        effort=effort,
        knobs=_knobs([row[0] for row in rows]),
    )


def _others(found: ApplicationSummary) -> float | None:
    """Returns the cores that other programs used beyond the knee."""
    top = [step for step in found.steps if step.kind == "overload"]
    return fitting.others(top[-1], found.tiers) if top else None


def _knobs(named: Sequence[str]) -> str:
    rows = [f"| {case.name} | `{' '.join(case.knobs)}` |" for case in CASES if case.name in named]
    return "\n".join([*rows, *(f"| {case.name} | {case.meaning} |" for case in FOREIGN if case.name in named)])


def _status(folder: Path) -> dict[str, Any]:
    return json.loads(_run("status", folder, "--json"))  # type: ignore[no-any-return]


def _run(command: str, folder: Path, *more: str) -> str:
    done = subprocess.run(
        [str(SHOP), command, "--folder", str(folder), *more], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise CouldNotRun(done.stderr.strip().removeprefix("error: "), "make peers installs nginx and PostgreSQL")
    return done.stdout


if __name__ == "__main__":
    command_line.run(_bench)
