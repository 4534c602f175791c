"""Reads one node of a `.jsimg` model: a source, a sink, a queue or a delay; refuses all others by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element

from sojourn.jmt import laws
from sojourn.jmt.laws import Law
from sojourn.jmt.outline import DROP_STRATEGIES
from sojourn.jmt.translation import Translation, refused
from sojourn.text.toml import Table

SERVERS = ("Server", "PSServer", "Delay")
UNLIMITED = -1


@dataclass
class Node:
    """A node; fields that do not apply to its kind are None."""

    name: str
    is_sink: bool = False
    arrivals: dict[str, float] | None = None
    """For a source: jobs/s by open class."""
    station: Table | None = None
    """For a station: its table in a system file, without demands."""
    services: dict[str, Law] = field(default_factory=dict)
    routing: dict[str, dict[str, float]] = field(default_factory=dict)
    """Routing by class, where it is not JMT's Random."""

    def service(self, class_name: str) -> Law:
        """The demand of a class."""
        if class_name not in self.services:
            raise refused(f"class {class_name} arrives at {self.name}, which does not serve it")
        return self.services[class_name]


def read_node(element: Element, classes: Sequence[str], translation: Translation) -> Node:
    """Reads a node for these classes."""
    name = str(element.get("name"))
    sections = {str(section.get("className")): section for section in element.findall("section")}
    kinds = tuple(sections)
    if kinds == ("JobSink",):
        return Node(name, is_sink=True)
    if len(kinds) != 3 or kinds[0] not in ("RandomSource", "Queue") or kinds[2] != "Router":
        raise refused(f"node {name} ({', '.join(kinds)})", "only sources, sinks, queues and delays are translated")
    node = Node(name)
    if kinds[0] == "RandomSource":
        node.arrivals = dict(_arrivals(sections["RandomSource"], name))
    else:
        if kinds[1] not in SERVERS:
            raise refused(f"node {name}: a server of kind {kinds[1]}", f"known: {', '.join(SERVERS)}")
        _check_queue(sections["Queue"], name)
        node.station = _station(sections[kinds[1]], name, kinds[1]) | _limit(sections["Queue"], name)
        node.services = dict(_services(sections[kinds[1]], name, translation))
    node.routing = dict(_routing(sections["Router"], name))
    return node


def _station(section: Element, name: str, kind: str) -> Table:
    if kind == "Delay":
        return {"discipline": "is"}
    servers = _integer(section, "maxJobs", 1)
    running = _integer(section, "maxRunning", UNLIMITED)
    for class_name, parameter in _by_class(_parameter(section, "classParallelism")):
        if parameter.findtext("value", "1") != "1":
            raise refused(f"node {name}: class {class_name} takes several servers at once")
    if _parameter(section, "serverNames") is not None:
        raise refused(f"node {name}: servers of different types")
    for class_name, strategy in _by_class(_parameter(section, "PSStrategy")):
        if not str(strategy.get("classPath")).endswith(".EPSStrategy"):
            raise refused(
                f"node {name}: {strategy.get('name')} for class {class_name}", "only equal sharing is supported"
            )
    station: Table = {"discipline": "fifo"}
    if kind == "PSServer":
        station = {"discipline": "lps", "r": running} if running > 0 else {"discipline": "ps"}
    return station | ({"servers": servers} if servers > 1 else {})


def _limit(section: Element, name: str) -> Table:
    """The capacity in a system file, because JMT's size includes the jobs in service."""
    size = _integer(section, "size", UNLIMITED)
    if size <= 0:
        return {}
    found = {value.findtext("value", "") for _class, value in _by_class(_parameter(section, "dropStrategies"))}
    known = [word for word, strategy in DROP_STRATEGIES.items() if found == {strategy}]
    if not known:
        raise refused(
            f"node {name}: a queue of limited size with {' and '.join(sorted(found))}",
            f"supported, the same for all classes: {', '.join(DROP_STRATEGIES.values())}",
        )
    return {"capacity": size, "when_full": known[0]}


def _check_queue(section: Element, name: str) -> None:
    for parameter in section.findall("parameter"):
        path = str(parameter.get("classPath"))
        if ".QueueGetStrategies." in path and not path.endswith(".FCFSstrategy"):
            raise refused(f"node {name}: {parameter.get('name')}", "only first come, first served is supported")
    for class_name, strategy in _by_class(_parameter(section, "QueuePutStrategy")):
        if not str(strategy.get("classPath")).endswith(".TailStrategy"):
            raise refused(f"node {name}: {strategy.get('name')} for class {class_name}")
    for kind in ("Impatience", "retrialDistributions"):
        for class_name, strategy in _by_class(_parameter(section, kind)):
            if strategy.find("subParameter") is not None:
                raise refused(f"node {name}: {kind} of class {class_name}")


def _arrivals(section: Element, name: str) -> Iterator[tuple[str, float]]:
    for class_name, law_class, parameters in _laws(section, name):
        if law_class != "Exponential":
            raise refused(f"source {name}: arrivals of class {class_name} that are not Poisson ({law_class})")
        yield class_name, parameters["lambda"]


def _services(section: Element, name: str, translation: Translation) -> Iterator[tuple[str, Law]]:
    for class_name, law_class, parameters in _laws(section, name):
        found = laws.from_jmt(law_class, parameters)
        shown = f"service of class {class_name} at {name} by {law_class}"
        if found is None:
            raise refused(shown, "known: Exponential, Erlang, Hyperexponential, Deterministic, Lognormal, Gamma")
        law, same = found
        if not same:
            translation.warn(
                f"{shown} is read as a log-normal distribution with its mean and squared coefficient of variation"
            )
        yield class_name, law


def _laws(section: Element, name: str) -> Iterator[tuple[str, str, dict[str, float]]]:
    for class_name, strategy in _by_class(_parameter(section, "ServiceStrategy")):
        kind = str(strategy.get("classPath")).rpartition(".")[2]
        if kind == "ZeroServiceTimeStrategy":
            yield class_name, "DeterministicDistr", {"t": 0.0}
        elif kind not in ("ServiceTimeStrategy", "DisabledServiceTimeStrategy"):
            raise refused(f"node {name}: {kind} for class {class_name}", "only load-independent service is supported")
        else:
            parts = strategy.findall("subParameter")
            # A class that does not visit the station has no distribution.
            if len(parts) == 2:
                values = {
                    str(each.get("name")): _number(each.findtext("value"), name)
                    for each in parts[1].findall("subParameter")
                }
                yield class_name, str(parts[0].get("classPath")).rpartition(".")[2], values


def _routing(section: Element, name: str) -> Iterator[tuple[str, dict[str, float]]]:
    for class_name, strategy in _by_class(_parameter(section, "RoutingStrategy")):
        kind = str(strategy.get("classPath")).rpartition(".")[2]
        if kind == "EmpiricalStrategy":
            shares: dict[str, float] = {}
            for entry in strategy.iterfind("subParameter/subParameter"):
                said = {str(each.get("name")): each.findtext("value") for each in entry.findall("subParameter")}
                target = str(said.get("stationName"))
                shares[target] = shares.get(target, 0.0) + _number(said.get("probability"), name)
            total = sum(shares.values())
            if total <= 0:
                raise refused(f"node {name}: routing of class {class_name} whose probabilities sum to {total:g}")
            yield class_name, {target: share / total for target, share in shares.items() if share > 0}
        elif kind == "DisabledRoutingStrategy":
            yield class_name, {}
        elif kind != "RandomStrategy":
            raise refused(f"node {name}: routing of class {class_name} by {strategy.get('name')}")


def _parameter(section: Element, name: str) -> Element | None:
    return next((each for each in section.findall("parameter") if each.get("name") == name), None)


def _by_class(parameter: Element | None) -> Iterator[tuple[str, Element]]:
    """The value of each class, from alternating names and values."""
    class_name = ""
    for each in parameter if parameter is not None else ():
        if each.tag == "refClass":
            class_name = each.text or ""
        elif each.tag == "subParameter":
            yield class_name, each


def _integer(section: Element, name: str, default: int) -> int:
    parameter = _parameter(section, name)
    text = None if parameter is None else parameter.findtext("value")
    return default if text is None else int(_number(text, name))


def _number(text: str | None, name: str) -> float:
    try:
        return float(text or "")
    except ValueError:
        raise refused(f"{name}: {text!r} is not a number") from None
