"""Models of Java Modelling Tools: round trips that keep every answer, and refusals by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from conftest import REPOSITORY
from sojourn import jmt
from sojourn.failure import CouldNotRun
from sojourn.queueing import System, predict

STATIONS = """
[stations.cpu]
discipline = "ps"
[stations.disk]
discipline = "fifo"
servers = 2
demand = { law = "exponential", mean = "30ms" }
[stations.net]
discipline = "is"
demand = "100ms"
"""

MIXED = f"""name = "mixed"
{STATIONS}
[classes.batch]
users = 8
think_time = {{ law = "exponential", mean = "1s" }}
[[classes.batch.routes]]
name = "cached"
probability = 0.3
visits = [{{ station = "cpu", demand = {{ law = "erlang", mean = "20ms", stages = 3 }} }}]
[[classes.batch.routes]]
name = "read"
probability = 0.7
visits = [{{ station = "cpu", demand = {{ law = "erlang", mean = "20ms", stages = 3 }} }}, "disk"]
[classes.web]
rate = "10/s"
latency = "5ms"
route = ["net", {{ station = "cpu", demand = {{ law = "hyper-exponential", mean = "40ms", scv = 4.0 }} }}]
"""

LPS = """
[stations.web]
discipline = "lps"
r = 4
demand = { law = "hyper-exponential", mean = "20ms", scv = 10.0 }
[classes.visitors]
rate = "40/s"
route = ["web"]
"""


def there_and_back(text: str, path: Path) -> System:
    path.write_text(jmt.write(System(text), path).text)
    return System(jmt.read(path).text)


def answers(system: System) -> dict[str, Any]:
    return {
        name: {each: answer["throughput_per_second"] for each, answer in outcome["answer"]["classes"].items()}
        | {
            f"{each} R": answer["response_time_seconds"]["mean"]
            for each, answer in outcome["answer"]["classes"].items()
        }
        for name, outcome in predict(system)["solvers"].items()
        if outcome["answer"]
    }


@pytest.mark.parametrize("text", [MIXED, LPS], ids=["mixed", "lps"])
def test_a_system_that_both_can_say_comes_back_with_the_same_answers(text: str, tmp_path: Path) -> None:
    translation = jmt.write(System(text), tmp_path / "model.jsimg")
    assert translation.warnings == []
    back = there_and_back(text, tmp_path / "model.jsimg")
    expected = answers(System(text))
    assert expected
    for solver, figures in answers(back).items():
        assert figures == pytest.approx(expected[solver], rel=1e-6)
    # A second trip changes nothing any more: what latency became, a delay, stays one.
    assert there_and_back(back.text, tmp_path / "model.jsimg").text == back.text


def test_the_limit_of_lps_is_jmts_max_running_and_servers_its_max_jobs(tmp_path: Path) -> None:
    path = tmp_path / "model.jsimg"
    text = LPS.replace("r = 4", "r = 4\nservers = 2")
    root = ElementTree.fromstring(jmt.write(System(text), path).text)
    section = next(each for each in root.iter("section") if each.get("className") == "PSServer")
    said = {each.get("name"): each.findtext("value") for each in section.findall("parameter")}
    assert (said["maxJobs"], said["maxRunning"]) == ("2", "4")
    station = there_and_back(text, path).stations[0]
    assert (station.discipline, station.r, station.servers) == ("lps", 4, 2)


@pytest.mark.parametrize("name", ["public-site", "isp-with-proxy", "entire-model"])
@pytest.mark.parametrize("suffix", ["jsimg", "jmva"])
def test_the_systems_of_the_thesis_keep_their_means(name: str, suffix: str, tmp_path: Path) -> None:
    text = (REPOSITORY / "studies" / "systems" / f"{name}.toml").read_text()
    path = tmp_path / f"{name}.{suffix}"
    translation = jmt.write(System(text), path)
    lost = "drawn anew" if suffix == "jsimg" else "limit of 16 jobs"
    assert any(lost in warning for warning in translation.warnings)
    expected, got = answers(System(text)), answers(there_and_back(text, path))
    solver = "open" if name == "public-site" else "mva"
    for figure, value in expected[solver].items():
        assert got[solver][figure] == pytest.approx(value, rel=1e-6)


FINITE = """
[stations.front]
discipline = "fifo"
demand = { law = "exponential", mean = "8ms" }
queue = 4
[stations.back]
discipline = "ps"
demand = "5ms"
capacity = 3
when_full = "block"
[classes.web]
rate = "100/s"
route = ["front", "back"]
"""


def test_a_capacity_and_what_becomes_of_those_that_find_it_reached_are_kept(tmp_path: Path) -> None:
    front, back = there_and_back(FINITE, tmp_path / "finite.jsimg").stations
    assert (front.capacity, front.when_full) == (5, "refuse")
    assert (back.capacity, back.when_full) == (3, "block")
    with pytest.raises(CouldNotRun, match="JMT simulates finite queues"):
        jmt.write(System(FINITE), tmp_path / "finite.jmva")


def test_users_that_jmt_loses_for_good_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "blocked.jsimg"
    text = FINITE.replace('rate = "100/s"', 'users = 9\nthink_time = "50ms"').replace("queue = 4\n", "")
    path.write_text(jmt.write(System(text), path).text.replace("BAS blocking", "drop"))
    with pytest.raises(CouldNotRun, match="users that are lost for good when back is full"):
        jmt.read(path)


def test_feedback_becomes_routes(tmp_path: Path) -> None:
    text = f'{STATIONS}[classes.web]\nrate = "5/s"\nroute = ["disk"]\n'
    path = tmp_path / "loop.jsimg"
    root = ElementTree.fromstring(jmt.write(System(text), path).text)
    # Half of the jobs come back to the disk.
    disk = next(node for node in root.iter("node") if node.get("name") == "disk")
    entries = next(each for each in disk.iter("subParameter") if each.get("name") == "EmpiricalEntryArray")
    again = ElementTree.fromstring(ElementTree.tostring(entries[0]))
    again[0][0].text = "disk"
    for entry in (entries[0], again):
        entry[1][0].text = "0.5"
    entries.append(again)
    ElementTree.ElementTree(root).write(path)
    translation = jmt.read(path)
    assert any("paths rarer than" in warning for warning in translation.warnings)
    visits = System(translation.text).classes[0].routes
    assert sum(route.probability * len(route.visits) for route in visits) == pytest.approx(2.0, abs=1e-6)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("Queue", 'className="Queue"', 'className="Storage"'), "node"),
        (("PSServer", 'className="PSServer"', 'className="PollingServer"'), "a server of kind PollingServer"),
        (("EPS", "EPSStrategy", "DPSStrategy"), "DPSStrategy for class"),
        (("FCFS", "FCFSstrategy", "LCFSstrategy"), "LCFSstrategy"),
        (("tail", "TailStrategy", "HeadStrategy"), "HeadStrategy for class"),
        (("size", "<value>-1</value>", "<value>7</value>"), "a queue of limited size with waiting queue"),
        (("law", "random.Erlang", "random.Weibull"), "by Weibull"),
        (("arrivals", "random.Exponential", "random.Erlang"), "that are not Poisson"),
        (("routing", "EmpiricalStrategy", "RoundRobinStrategy"), "routing of class"),
        (("priority", 'name="web" priority="0"', 'name="web" priority="1"'), "different priority"),
        (("region", "<connection ", '<blockingRegion name="r" /><connection '), "a finite capacity region (r)"),
        (("number", "<value>10.0</value>", "<value>ten</value>"), "'ten' is not a number"),
    ],
    ids=lambda change: change[0] if isinstance(change, tuple) else "",
)
def test_what_a_system_file_cannot_say_is_refused_by_name(
    change: tuple[str, str, str], said: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.jsimg"
    text = jmt.write(System(MIXED), path).text
    _, before, after = change
    assert before in text, text
    path.write_text(text.replace(before, after))
    with pytest.raises(CouldNotRun) as refusal:
        jmt.read(path)
    assert said in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            f'{STATIONS}[[classes.a.routes]]\nname = "x"\nprobability = 0.5\nvisits = ["net", "disk"]\n'
            '[[classes.a.routes]]\nname = "y"\nprobability = 0.5\nvisits = ["disk", "net"]\n'
            '[classes.a]\nrate = "1/s"\n',
            "what follows a station depends on the route",
        ),
        (
            f'{STATIONS}[classes.a]\nrate = "1/s"\nroute = ["disk", {{ station = "net", holds = "disk" }}]\n',
            "net while it holds a place at disk",
        ),
        (
            f'{STATIONS}[classes.a]\nrate = "1/s"\nroute = [{{ station = "disk", priority = true }}]\n',
            "jobs that wait at disk ahead of others",
        ),
        (
            f'{STATIONS}[classes.a]\nrate = "1/s"\nroute = ["disk", "net", {{ station = "disk", demand = "1ms" }}]\n',
            "demands at disk that depend on the route",
        ),
        (
            STATIONS.replace("servers = 2", "servers = 2\nqueue = 3")
            + '[classes.a]\nusers = 8\nthink_time = "1s"\nroute = ["disk"]\n',
            "users who begin a new request when it is full",
        ),
        (
            STATIONS.replace("servers = 2", 'queue = 3\nwhen_full = { retry = "1s" }')
            + '[classes.a]\nrate = "9/s"\nroute = ["disk"]\n',
            "clients that retry when it is full",
        ),
    ],
)
def test_what_jmt_cannot_say_is_refused_by_name(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(CouldNotRun, match="no counterpart") as refusal:
        jmt.write(System(text), tmp_path / "model.jsimg")
    assert said in str(refusal.value)


JMVA = """<?xml version="1.0" encoding="UTF-8" standalone="no"?>
<model xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:noNamespaceSchemaLocation="JMTmodel.xsd">
  <parameters>
    <classes number="1"><closedclass name="users" population="4" priority="0"/></classes>
    <stations number="2">
      <delaystation name="think">
        <servicetimes><servicetime customerclass="users">2.0</servicetime></servicetimes>
        <visits><visit customerclass="users">1.0</visit></visits>
      </delaystation>
      <ldstation name="cpu" servers="1">
        <servicetimes><servicetimes customerclass="users">1.0;0.5;0.5;0.5</servicetimes></servicetimes>
        <visits><visit customerclass="users">0.5</visit></visits>
      </ldstation>
    </stations>
    <ReferenceStation number="1"><Class name="users" refStation="think"/></ReferenceStation>
  </parameters>
</model>
"""


def test_a_load_dependent_station_becomes_a_speed(tmp_path: Path) -> None:
    path = tmp_path / "ld.jmva"
    path.write_text(JMVA)
    text = jmt.read(path).text
    assert "speed = [1, 2, 2, 2]" in text
    assert 'think_time = "2s"' in text
    assert 'demand = "500ms"' in text


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("model.jsimg", "<archive>", "is not XML"),
        ("model.jsimg", "<archive/>", "without <sim>"),
        ("model.jmva", "<archive/>", "without <parameters>"),
        ("model.xml", "<archive/>", "not a model of JMT by its name"),
    ],
)
def test_files_that_are_no_models_are_refused(name: str, content: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(CouldNotRun) as refusal:
        jmt.read(path)
    assert said in str(refusal.value)


def jmva(classes: str, stations: dict[str, dict[str, str]], reference: str) -> str:
    """A model of Java Modelling Tools, with the service time of each class at each station, one visit each."""
    names = [element.split('"')[1] for element in classes.split("><")]
    lines = ["<model><parameters><classes>", classes, "</classes><stations>"]
    for tag_and_name, times in stations.items():
        tag, name = tag_and_name.split(" ")
        tags = "servicetimes" if tag == "ldstation" else "servicetime"
        lines.append(f'<{tag} name="{name}" servers="1"><servicetimes>')
        lines += [f'<{tags} customerclass="{each}">{times.get(each, "0.0")}</{tags}>' for each in names]
        lines.append("</servicetimes><visits>")
        lines += [f'<visit customerclass="{each}">{float(each in times)}</visit>' for each in names]
        lines.append(f"</visits></{tag}>")
    lines.append("</stations><ReferenceStation>")
    lines += [f'<Class name="{each}" refStation="{reference}"/>' for each in names]
    return "\n".join([*lines, "</ReferenceStation></parameters></model>"])


OWN_ANSWERS = {
    # Service times at the load-dependent station by number of jobs there.
    "load-dependent-mva": (
        jmva(
            '<closedclass name="c1" population="5"/>',
            {"listation fixed": {"c1": "1.5"}, "ldstation slowing": {"c1": "1.0;1.5;1.9;2.6;3.1"}},
            "fixed",
        ),
        {"c1": (0.4036174845084575, 4.142834344079159 + 8.245132460900095)},
    ),
    "mva": (
        jmva(
            '<closedclass name="c1" population="5"/>'
            '<openclass name="c2" rate="0.05"/><openclass name="c3" rate="0.02"/>',
            {
                "delaystation think": {"c1": "5.0"},
                "listation first": {"c1": "1.0", "c2": "1.1", "c3": "1.1"},
                "listation second": {"c1": "1.6", "c2": "2.1", "c3": "0.5"},
            },
            "think",
        ),
        {
            "c1": (0.4521593872552799, 1.7666931115855333 + 4.291354428577783),
            "c2": (0.05, 2.143780674195994 + 6.977163838117537),
            "c3": (0.02, 2.143780674195994 + 1.6612294852660803),
        },
    ),
}
"""By solver: two models of JMT's own tests, and what its analytical solver answers: throughput and residence times."""


@pytest.mark.parametrize("solver", list(OWN_ANSWERS))
def test_the_answers_are_those_of_jmt_s_own_solver(solver: str, tmp_path: Path) -> None:
    content, expected = OWN_ANSWERS[solver]
    path = tmp_path / "model.jmva"
    path.write_text(content)
    answer = predict(System(jmt.read(path).text))["solvers"][solver]["answer"]
    assert answer is not None
    assert answer["means"] == "exact"
    for name, (throughput, seconds) in expected.items():
        found = answer["classes"][name]
        assert found["throughput_per_second"] == pytest.approx(throughput, rel=1e-9)
        assert found["response_time_seconds"]["mean"] == pytest.approx(seconds, rel=1e-9)
