"""The calculator in reports: the models as WebAssembly answer as the native ones do, and a person can ask them."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from benchmarks.models.oracles.models import all_models
from browser import Page, chromium
from conftest import CHROMIUM, REPOSITORY, run
from sojourn import queueing
from sojourn.applications import system_file
from sojourn.applications.diagnosis import CoreGroup
from sojourn.applications.network import Network, Serial
from sojourn.applications.summary import ApplicationSummary, Model, StepFigures
from sojourn.planning.prediction import predicted
from sojourn.planning.system_document import SystemDocument
from sojourn.report.application.page import page as application_page
from sojourn.report.plan.prediction_page import page as prediction_page
from sojourn.report.what_if import section
from sojourn.report.what_if.controls import controls
from sojourn.results.records import Interval

SYSTEMS = REPOSITORY / "studies" / "systems"
MODELS = files("sojourn.report.what_if").joinpath(section.MODELS)
NODE = shutil.which("node")
TOLERANCE = 1e-9
"""Relative: the two use different libraries for logarithms and exponentials, which differ in the last digits."""
TOLERANCE_SIMULATION = 0.01
"""Half of the half-width that simulations go to. Both draw the same jobs, but a last digit may change the order of two
events, and then all that follows.
"""
TOLERANCE_PERCENTILE = 1e-4
"""The relative error at which the search for a percentile ends: a last digit may end it a step earlier."""

built = pytest.mark.skipif(not MODELS.is_file(), reason="this compiler cannot build WebAssembly: see scripts/wasm")
in_node = pytest.mark.skipif(NODE is None, reason="no node in PATH")
in_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium in PATH")

ASK = """
const { readFileSync } = require("fs");
const [models, wasm] = process.argv.slice(1).map((path) => readFileSync(path));
const Models = (0, eval)(models + ";Models");
Models.load(wasm).then((loaded) => {
  const answers = JSON.parse(readFileSync(0, "utf8")).map((request) => {
    try { return { ok: loaded.ask(request) }; } catch (error) { return { error: error.message }; }
  });
  process.stdout.write(JSON.stringify(answers));
});
"""


def ask(*requests: dict[str, Any]) -> list[dict[str, Any]]:
    """The answers of the WebAssembly in node, through the same script as in a page."""
    assert NODE is not None
    script = files("sojourn.report.what_if").joinpath("models.js")
    command = [NODE, "-e", ASK, str(script), str(MODELS)]
    done = subprocess.run(command, input=json.dumps(requests), capture_output=True, text=True, timeout=300, check=True)
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return answers


def differences(native: Any, other: Any, place: str = "") -> Iterator[str]:
    """The places where two results differ by more than the tolerance."""
    if isinstance(native, dict) and isinstance(other, dict) and list(native) == list(other):
        for key, value in native.items():
            yield from differences(value, other[key], f"{place}.{key}")
    elif isinstance(native, list) and isinstance(other, list) and len(native) == len(other):
        for index, (a, b) in enumerate(zip(native, other, strict=True)):
            yield from differences(a, b, f"{place}[{index}]")
    elif isinstance(native, float) and isinstance(other, int | float):
        tolerance = TOLERANCE_PERCENTILE if re.search(r"\.p\d+$|error$", place) else TOLERANCE
        if not math.isclose(native, other, rel_tol=tolerance, abs_tol=1e-12):
            yield f"{place}: {native} is not {other}"
    elif native != other:
        yield f"{place}: {native} is not {other}"


ORACLES = [model for model in all_models() if not model.slow]
TEXTS = {path.stem: path.read_text() for path in sorted(SYSTEMS.glob("*.toml"))}


@built
@in_node
@pytest.mark.parametrize("name", TEXTS)
def test_webassembly_and_native_agree_on_the_systems(name: str) -> None:
    request = {"do": "predict", "system": TEXTS[name], "variants": [[]], "percentiles": True}
    native = queueing.predict(queueing.System(TEXTS[name]))
    assert list(differences(native, ask(request)[0]["ok"][0]["ok"])) == []


@built
@in_node
@pytest.mark.parametrize("name", ["public-site", "isp-with-proxy", "application-workers"])
def test_webassembly_and_native_simulate_alike(name: str) -> None:
    plan = {"seed": 3, "half_width": 0.05, "jobs_max": 200_000, "targets": ["mean"]}
    answer = ask({"do": "simulate", "system": TEXTS[name], **plan})[0]["ok"]
    native = queueing.simulate(queueing.System(TEXTS[name]), half_width=0.05, jobs_max=200_000, seed=3)
    times, other = native["response_time_seconds"], answer["response_time_seconds"]
    # The same jobs: closer than two runs with other random numbers, whose intervals only overlap.
    assert abs(times["mean"] - other["mean"]) <= other["mean_half_width"] / 2
    assert times["p95"] == pytest.approx(other["p95"], rel=0.02)
    assert (native["seed"], native["stop"]) == (answer["seed"], answer["stop"])


@built
@in_node
@pytest.mark.parametrize("name", TEXTS)
def test_every_control_changes_the_file_as_set_does(name: str) -> None:
    document = SystemDocument.read(SYSTEMS / f"{name}.toml")
    settings = [each.parameter.setting(each.parameter.present * 0.5) for each in controls(document)]
    settings = [each for each in settings if not each.endswith(".servers=0")]
    assert settings
    answers = ask(*({"do": "write", "system": document.text, "settings": [each]} for each in settings))
    assert [each["ok"] for each in answers] == [document.set(each).text for each in settings]


@pytest.mark.parametrize("name", TEXTS)
def test_every_control_is_a_number_of_the_file(name: str) -> None:
    document = SystemDocument.read(SYSTEMS / f"{name}.toml")
    found = controls(document)
    assert {each.group for each in found} >= {"Load", "Resources"}
    for each in found:
        assert each.low <= each.parameter.present <= each.high
        # A control that changes nothing would be a lie.
        changed = document.set(each.parameter.setting(each.parameter.present * (0.9 if each.high == 1 else 2)))
        assert queueing.predict(changed.system, percentiles=False) != queueing.predict(
            document.system, percentiles=False
        )


def page_of(document: SystemDocument) -> str:
    return prediction_page(predicted(document), document)


def test_without_the_webassembly_the_report_is_whole_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(section, "MODELS", "not-built.wasm")
    content = page_of(SystemDocument.read(SYSTEMS / "application-workers.toml"))
    assert "This report has no calculator" in content
    assert 'id="table-response-times"' in content
    assert "what-if-wasm" not in content


def test_a_name_cannot_leave_its_place_in_the_page(tmp_path: Path) -> None:
    path = tmp_path / "system.toml"
    name = "</script><script>window.broken = 1</script>"
    path.write_text(TEXTS["application-workers"].replace('"application workers"', json.dumps(name)))
    assert name not in page_of(SystemDocument.read(path))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with chromium(tmp_path_factory.mktemp("profile")) as page:
        page.resize(1280, 900)
        yield page


def opened(browser: Page, folder: Path, fragment: str = "") -> None:
    """Opens a folder's report and waits for everything, the simulation included."""
    browser.complaints.clear()
    browser.requested.clear()
    browser.open((folder / "report.html").as_uri() + fragment)
    settled(browser)


def settled(browser: Page) -> None:
    browser.wait("document.getElementById('what-if-calculator').dataset.state === 'done'")


def fill(browser: Page, identifier: str, text: str) -> None:
    """Types into an input as a person does: what was there is selected and replaced."""
    browser.evaluate(
        f"(() => {{ const input = document.getElementById({json.dumps(identifier)}); input.focus(); "
        "input.select(); })()"
    )
    browser.type(text)
    browser.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def choose(browser: Page, identifier: str, value: str) -> None:
    browser.evaluate(
        f"(() => {{ const chosen = document.getElementById({json.dumps(identifier)}); "
        f"chosen.value = {json.dumps(value)}; chosen.dispatchEvent(new Event('input', {{ bubbles: true }})); }})()"
    )
    browser.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def answer(browser: Page) -> str:
    return str(browser.evaluate("document.getElementById('what-if-answer').innerText"))


def figures(browser: Page, which: str = "times") -> dict[str, float]:
    found: dict[str, float] = json.loads(
        browser.evaluate(f"document.getElementById('what-if-calculator').dataset.{which}")
    )
    return found


IN_PAGE = """(async () => {
  const encoded = document.getElementById("what-if-wasm").textContent.trim();
  const packed = Uint8Array.from(atob(encoded), (each) => each.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const loaded = await Models.load(new Uint8Array(await new Response(unpacked).arrayBuffer()));
  return JSON.stringify(REQUESTS.map((request) => loaded.ask(request)));
})()"""


@built
@in_chromium
@pytest.mark.slow
def test_the_page_and_the_native_models_agree_on_the_oracle_suite(browser: Page, tmp_path: Path) -> None:
    opened(browser, predict_report("application-workers", tmp_path / "run"))
    requests = [{"do": "predict", "system": each.text, "variants": [[]], "percentiles": True} for each in ORACLES]
    answers = json.loads(browser.evaluate(IN_PAGE.replace("REQUESTS", json.dumps(requests))))
    found = {}
    for model, answered in zip(ORACLES, answers, strict=True):
        native = queueing.predict(queueing.System(model.text))
        found[model.name] = list(differences(native, answered[0]["ok"]))
    assert {name: each for name, each in found.items() if each} == {}


def predict_report(system: str, folder: Path) -> Path:
    done = run("predict", SYSTEMS / f"{system}.toml", "--output", folder)
    assert done.returncode == 0, done.stderr
    return folder


def json_of(*arguments: str | Path) -> dict[str, Any]:
    done = run(*arguments, "--format", "json")
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@built
@in_chromium
@pytest.mark.slow
def test_how_many_cores_for_500_requests_with_a_p95_below_300_ms(browser: Page, tmp_path: Path) -> None:
    opened(browser, predict_report("application-workers", tmp_path / "run"))
    fill(browser, "what-if-class.visitors.rate", "500")
    choose(browser, "what-if-against", "station.workers.servers")
    fill(browser, "what-if-limit", "300")
    settled(browser)
    said = re.search(r"needs servers of workers of at least (\d+)\.", answer(browser))
    assert said, answer(browser)
    site = SYSTEMS / "application-workers.toml"
    plan = json_of("plan", site, "--target", "p95 < 300ms at 500 req/s", "--output", tmp_path / "plan")
    lever = next(each for each in plan["levers"] if each["parameter"] == "station.workers.servers")
    assert int(said[1]) == lever["needed"]
    fill(browser, "what-if-station.workers.servers", said[1])
    settled(browser)
    settings = ("--set", "class.visitors.rate=500/s", "--set", f"station.workers.servers={said[1]}")
    native = json_of("predict", site, *settings)["response_time_seconds"]
    for key in ("mean", "p95", "p99"):
        assert figures(browser)[key] == pytest.approx(native[key], rel=TOLERANCE_PERCENTILE)
    assert figures(browser)["p95"] < 0.3
    simulated = json_of("simulate", site, *settings)["response_time_seconds"]
    assert figures(browser, "simulated")["mean"] == pytest.approx(simulated["mean"], rel=TOLERANCE_SIMULATION)
    assert browser.complaints == []


@built
@in_chromium
@pytest.mark.slow
def test_counts_that_bound_each_other_are_asked_within_their_bounds(browser: Page, tmp_path: Path) -> None:
    document = SystemDocument(
        "stations.web = { discipline = 'lps', servers = 4, r = 8, demand = { law = 'exponential', mean = '10ms' } }\n"
        "classes.visitors = { rate = '300/s', route = ['web'] }"
    )
    (tmp_path / "report.html").write_text(page_of(document))
    opened(browser, tmp_path)

    def asked(against: str, milliseconds: str) -> str:
        choose(browser, "what-if-against", against)
        fill(browser, "what-if-limit", milliseconds)
        settled(browser)
        return answer(browser)

    def ends(path: str) -> list[str]:
        slider = f"document.querySelector('[data-slider=\"{path}\"]')"
        return [str(browser.evaluate(f"{slider}.{end}")) for end in ("min", "max")]

    choose(browser, "what-if-statistic", "mean")
    # M/M/4 takes 15 ms, M/M/5 11 ms.
    assert "needs servers of web of at least 5." in asked("station.web.servers", "12")
    assert "not met with any servers of web from 1 to 8." in asked("station.web.servers", "1")
    assert "not met with any helpers r of web from 4 to " in asked("station.web.r", "1")
    assert (ends("station.web.servers"), ends("station.web.r")[0]) == (["1", "8"], "4")
    fill(browser, "what-if-station.web.r", "6")
    assert "not met with any servers of web from 1 to 6." in asked("station.web.servers", "1")
    assert ends("station.web.servers") == ["1", "6"]
    assert browser.complaints == []


@built
@in_chromium
@pytest.mark.slow
def test_what_if_70_percent_of_hits_came_from_the_cache(browser: Page, tmp_path: Path) -> None:
    opened(browser, predict_report("isp-with-proxy", tmp_path / "run"))
    path = browser.evaluate("document.querySelector('[data-value$=probability]').dataset.value")
    fill(browser, f"what-if-{path}", "70")
    settled(browser)
    settings = ("--set", f"{path}=0.7")
    site = SYSTEMS / "isp-with-proxy.toml"
    native = json_of("predict", site, *settings)
    assert figures(browser)["mean"] == pytest.approx(native["response_time_seconds"]["mean"], rel=TOLERANCE)
    simulated = json_of("simulate", site, *settings)["response_time_seconds"]
    assert figures(browser, "simulated")["mean"] == pytest.approx(simulated["mean"], rel=TOLERANCE_SIMULATION)
    # The state is in the address: opened again, it is the same question.
    asked, before = browser.evaluate("location.hash"), figures(browser)
    opened(browser, tmp_path / "run", asked)
    assert figures(browser) == before
    assert browser.complaints == []


@built
@in_chromium
@pytest.mark.slow
def test_when_we_run_out_at_8_percent_a_month(browser: Page, tmp_path: Path) -> None:
    arguments = ("--target", "p95 < 1s", "--growth", "8%/month", "--from", "2026-11-26")
    plan = json_of("plan", SYSTEMS / "public-site.toml", *arguments, "--output", tmp_path / "run")["growth"]
    opened(browser, tmp_path / "run")
    said = re.search(r"missed on (\S+) .* is full on (\S+) ", answer(browser))
    assert said, answer(browser)
    assert said[2] == plan["saturated_on"]
    # Both accept a simulated p95 of at most 2 % below the target; 8 % of the traffic are a month.
    assert abs(days(said[1]) - days(plan["target_missed_on"])) <= 30 * 2 / 8
    assert "simulated: " in answer(browser)
    assert browser.evaluate("document.getElementById('what-if-growth').value") == "8"


def days(text: str) -> int:
    return date.fromisoformat(text).toordinal()


@built
@in_chromium
@pytest.mark.slow
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (400, False), (400, True)])
def test_the_page_works_at_every_width(browser: Page, tmp_path: Path, width: int, dark: bool) -> None:
    browser.resize(width, 900, dark=dark)
    opened(browser, predict_report("application-workers", tmp_path / "run"))
    try:
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        # Less than 50 on an idle machine: a test is not alone.
        assert 0 < float(browser.evaluate("document.getElementById('what-if-calculator').dataset.redrawMs")) < 250
        assert browser.evaluate("document.querySelectorAll('#what-if-times path.line').length") >= 3
        assert "NaN" not in browser.evaluate("document.getElementById('what-if-calculator').innerHTML")
        # One file: nothing but itself and what it made was asked for.
        assert {each.partition(":")[0] for each in browser.requested} <= {"file", "blob", "data", "about"}
        assert [each for each in browser.requested if each.startswith("file")] == [
            (tmp_path / "run/report.html").as_uri()
        ]
        assert browser.complaints == []
    finally:
        browser.resize(1280, 900)


@built
@in_chromium
@pytest.mark.slow
def test_the_page_is_used_by_keyboard_and_has_names_for_everything(browser: Page, tmp_path: Path) -> None:
    opened(browser, predict_report("application-workers", tmp_path / "run"))
    before = figures(browser)["mean"]
    browser.evaluate("document.querySelector('[data-slider=\"station.workers.servers\"]').focus()")
    browser.press("ArrowRight")
    browser.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    settled(browser)
    assert browser.evaluate("location.hash") == "#what-if?set=station.workers.servers%3D5"
    assert figures(browser)["mean"] < before
    heard = browser.evaluate("document.getElementById('what-if-live').textContent")
    assert "With servers of workers 5" in heard
    browser.press("Tab")
    assert browser.evaluate("document.activeElement.dataset.value") == "station.workers.servers"
    tree = browser.send("Accessibility.getFullAXTree")["nodes"]
    roles = {"slider", "spinbutton", "combobox", "button", "image"}
    named = [(node["role"]["value"], node.get("name", {}).get("value")) for node in tree if not node["ignored"]]
    assert [role for role, name in named if role in roles and not name] == []
    # Whoever hears a name alone knows which control it is.
    inputs = [each for each in named if each[0] in ("slider", "spinbutton")]
    assert len(inputs) == len(set(inputs))
    assert ("spinbutton", "servers of workers, price per unit") in named
    assert ("slider", "servers of workers, slider") in named
    assert ("spinbutton", "Servers of workers") in named
    assert ("table", "Figures") in named


@built
@in_chromium
@pytest.mark.slow
def test_the_system_file_is_given(browser: Page, tmp_path: Path) -> None:
    folder = predict_report("application-workers", tmp_path / "run")
    opened(browser, folder, "#what-if?set=station.workers.servers%3D7")
    browser.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    browser.evaluate("document.getElementById('what-if-save').click()")
    browser.wait("document.getElementById('what-if-said').textContent.startsWith('Saved')")
    path = tmp_path / "application-workers-what-if.toml"
    browser.evaluate("new Promise((done) => setTimeout(done, 500))")
    document = SystemDocument.read(path)
    assert document.system.stations[0].servers == 7
    assert "--set station.workers.servers=7" in document.text


@built
@in_chromium
@pytest.mark.slow
def test_without_script_the_page_says_so(browser: Page, tmp_path: Path) -> None:
    folder = predict_report("application-workers", tmp_path / "run")
    browser.send("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.send("Page.navigate", url=(folder / "report.html").as_uri())
        browser.send("DOM.enable")
        text, deadline = "", time.monotonic() + 30
        # The page may still be loading, which takes its document away.
        while "calculator" not in text and time.monotonic() < deadline:
            with suppress(AssertionError):
                root = browser.send("DOM.getDocument")["root"]["nodeId"]
                seen = browser.send("DOM.querySelector", nodeId=root, selector="#what-if-without-script")
                text = browser.send("DOM.getOuterHTML", nodeId=seen["nodeId"])["outerHTML"]
        assert "The calculator needs script" in text
        assert "hidden" not in text
    finally:
        browser.send("Emulation.setScriptExecutionDisabled", value=False)


def assessed_application() -> ApplicationSummary:
    """An application with a lock, which its system file does not have."""
    shares = {"GET /<page>": 0.75, "GET /search": 0.25}
    page, search = shares
    demands = {(page, "web"): 0.001, (page, "app"): 0.004, (search, "web"): 0.001, (search, "app"): 0.008}
    network = Network(
        endpoints=(page, search),
        tiers=("web", "app"),
        groups=(CoreGroup(("web", "app"), 2),),
        demands=demands,
        waits={page: 0.02, search: 0.002},
        processes={"web": 1, "app": 2},
        serial=Serial("lock", "app", 0.004),
    )
    model = Model(
        places=[], processes={"web": 1, "app": 2}, waits_seconds={},
        system_file=system_file.for_solvers(network, shares),
        limits_requests_per_second=network.limits(shares), held_out=[], errors={"mean": 0.1},
        errors_beyond_chance={"mean": Interval(estimate=0.1, low=0.0, high=0.12)}, believed=True,
    )  # fmt: skip
    return ApplicationSummary(
        sojourn_version="0", started_at="2026-11-25T10:00:00", complete=True, log_name="a.log",
        target="http://127.0.0.1:8000", log_requests=10, covered_fraction=1.0, peak_requests_per_second=50.0,
        required_requests_per_second=None, endpoints=[], left_out=[], tiers=[], abandoned_fraction=0.0, model=model,
    )  # fmt: skip


def test_a_model_that_the_measurements_contradict_does_not_calculate() -> None:
    summary = assessed_application()
    assert summary.model is not None
    own = {"mean": Interval(estimate=0.3, low=0.2, high=0.4)}
    summary.model = summary.model.model_copy(update={"errors_beyond_chance": own, "believed": False})
    content = application_page(summary)
    assert "There is no calculator" in content
    assert "what-if-wasm" not in content


@built
@in_chromium
@pytest.mark.slow
def test_an_application_is_asked_up_to_the_limit_that_its_file_lacks(browser: Page, tmp_path: Path) -> None:
    summary = assessed_application()
    assert summary.model is not None
    limit = summary.model.limits_requests_per_second["lock of app"]
    (tmp_path / "report.html").write_text(application_page(summary))
    (tmp_path / "model.toml").write_text(summary.model.system_file)
    opened(browser, tmp_path)
    assert browser.evaluate("document.querySelector('[data-slider=\"class.e0.rate\"]').getAttribute('aria-label')") == (
        "rate of GET /<page>, slider"
    )
    fill(browser, "what-if-traffic", "4")
    choose(browser, "what-if-of", "e0")
    fill(browser, "what-if-growth", "8")
    settled(browser)
    native = json_of("predict", tmp_path / "model.toml", "--set", "traffic=200")["solvers"]["open"]["answer"]
    times = native["classes"]["e0"]["response_time_seconds"]
    assert figures(browser)["mean"] == pytest.approx(times["mean"], rel=TOLERANCE)
    # Percentiles of cores that are shared come from the simulation.
    assert times["p95"] is None
    assert figures(browser, "simulated")["p95"] > times["mean"]
    assert "lock of app is full on" in answer(browser)
    fill(browser, "what-if-traffic", f"{1.1 * limit / 50:.4g}")
    settled(browser)
    assert f"Lock of app can take {limit:.4g} requests/s" in answer(browser)
    assert figures(browser) is None
    assert figures(browser, "simulated") is None
    assert browser.complaints == []


@built
@in_chromium
@pytest.mark.slow
def test_measured_points_stay_and_what_is_beyond_them_is_said_to_be(browser: Page, tmp_path: Path) -> None:
    summary = assessed_application()
    summary.steps = [
        StepFigures(
            kind="climb", offered_requests_per_second=rate, requests_per_second=rate, failed_fraction=0.0,
            response_time_mean_seconds=mean, response_time_p95_seconds=3 * mean, in_system=rate * mean, endpoints=[],
            tiers={},
        )
        for rate, mean in ((50.0, 0.03), (75.0, 0.032), (100.0, 0.035))
    ]  # fmt: skip
    (tmp_path / "report.html").write_text(application_page(summary))
    opened(browser, tmp_path)
    plot = "document.getElementById('what-if-times').innerHTML"
    assert "Within what was measured." in answer(browser)
    assert "mean, measured" in browser.evaluate(plot)
    fill(browser, "what-if-traffic", "3")
    settled(browser)
    assert "Extrapolated: measured from × 1 to × 2." in answer(browser)
    assert "mean, measured" in browser.evaluate(plot)
    fill(browser, "what-if-traffic", "1.5")
    settled(browser)
    assert "Within what was measured." in answer(browser)
