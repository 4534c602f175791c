"""Writes a `.jsimg` model: nodes of three sections each, connections, and the usual measures.

Processor sharing with at most r jobs is JMT's PSServer with `maxRunning` r; `maxJobs` is the number of servers.
"""

from __future__ import annotations

from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from sojourn.jmt.chain import END, Chain
from sojourn.jmt.laws import JmtLaw
from sojourn.jmt.outline import Jobs, Outline, Station, outline
from sojourn.jmt.translation import Translation
from sojourn.queueing import System

STRATEGIES = "jmt.engine.NetStrategies"
CONFIDENCE_ALPHA, PRECISION = "0.05", "0.03"
STATION_SPACING = 140

# The order of arguments in the constructor of a section.
SECTION = {"fifo": "Server", "ps": "PSServer", "lps": "PSServer", "is": "Delay"}


def write(system: System, name: str) -> Translation:
    """Converts the system to XML, with warnings where the meaning changes."""
    translation = Translation()
    laid_out = outline(system, translation)
    chains = [each.chain() for each in laid_out.classes]
    schema = "{http://www.w3.org/2001/XMLSchema-instance}noNamespaceSchemaLocation"
    ElementTree.register_namespace("xsi", "http://www.w3.org/2001/XMLSchema-instance")
    archive = Element("archive", {"name": f"{name}.jsimg", schema: "Archive.xsd"})
    simulation = SubElement(archive, "sim", {"name": f"{name}.jsimg", schema: "SIMmodeldefinition.xsd"})
    for each in laid_out.classes:
        _user_class(simulation, each)
    is_open = any(each.rate is not None for each in laid_out.classes)
    if is_open:
        _source(simulation, laid_out, chains)
        SubElement(SubElement(simulation, "node", name=laid_out.sink), "section", className="JobSink")
    for station in laid_out.stations:
        _station(simulation, station, laid_out, chains)
    _measures(simulation, laid_out)
    for here, following in sorted(_links(laid_out, chains)):
        SubElement(simulation, "connection", source=here, target=following)
    _preload(simulation, laid_out)
    _picture(archive, laid_out, is_open)
    ElementTree.indent(archive)
    translation.text = ElementTree.tostring(archive, encoding="unicode", xml_declaration=True) + "\n"
    return translation


def _user_class(simulation: Element, jobs: Jobs) -> None:
    kind = {"type": "open"} if jobs.users is None else {"type": "closed", "customers": str(jobs.users)}
    SubElement(simulation, "userClass", {"name": jobs.name, "priority": "0", "referenceSource": jobs.start, **kind})


def _source(simulation: Element, laid_out: Outline, chains: list[Chain]) -> None:
    node = SubElement(simulation, "node", name=laid_out.source)
    arrivals = _array(
        SubElement(node, "section", className="RandomSource"), f"{STRATEGIES}.ServiceStrategy", "ServiceStrategy"
    )
    for jobs in laid_out.classes:
        SubElement(arrivals, "refClass").text = jobs.name
        _service_time(
            arrivals, None if jobs.rate is None else JmtLaw("Exponential", "Exponential", (("lambda", jobs.rate),))
        )
    SubElement(node, "section", className="ServiceTunnel")
    _router(node, laid_out.source, laid_out, chains)


def _station(simulation: Element, station: Station, laid_out: Outline, chains: list[Chain]) -> None:
    node = SubElement(simulation, "node", name=station.name)
    _queue(SubElement(node, "section", className="Queue"), station, laid_out)
    section = SubElement(node, "section", className=SECTION[station.discipline])
    if station.discipline != "is":
        _integer(section, "maxJobs", station.servers)
        if section.get("className") == "PSServer":
            _integer(section, "maxRunning", station.r or -1)
        visits = _array(section, "java.lang.Integer", "numberOfVisits")
        for jobs in laid_out.classes:
            SubElement(visits, "refClass").text = jobs.name
            _value(SubElement(visits, "subParameter", classPath="java.lang.Integer", name="numberOfVisits"), 1)
    services = _array(section, f"{STRATEGIES}.ServiceStrategy", "ServiceStrategy")
    for jobs in laid_out.classes:
        SubElement(services, "refClass").text = jobs.name
        service = jobs.services.get(station.name)
        if service is None:
            path = f"{STRATEGIES}.ServiceStrategies.DisabledServiceTimeStrategy"
            SubElement(services, "subParameter", classPath=path, name="DisabledServiceTimeStrategy")
        else:
            _service_time(services, service.law)
    if section.get("className") == "PSServer":
        _sharing(section, laid_out)
    _router(node, station.name, laid_out, chains)


def _queue(section: Element, station: Station, laid_out: Outline) -> None:
    # JMT counts the jobs in service, too.
    _integer(section, "size", station.capacity or -1)
    drops = _array(section, "java.lang.String", "dropStrategies")
    for jobs in laid_out.classes:
        SubElement(drops, "refClass").text = jobs.name
        _value(
            SubElement(drops, "subParameter", classPath="java.lang.String", name="dropStrategy"), station.drop_strategy
        )
    path = f"{STRATEGIES}.QueueGetStrategies.FCFSstrategy"
    SubElement(section, "parameter", classPath=path, name="FCFSstrategy")
    puts = _array(section, f"{STRATEGIES}.QueuePutStrategy", "QueuePutStrategy")
    for jobs in laid_out.classes:
        SubElement(puts, "refClass").text = jobs.name
        path = f"{STRATEGIES}.QueuePutStrategies.TailStrategy"
        SubElement(puts, "subParameter", classPath=path, name="TailStrategy")


def _sharing(section: Element, laid_out: Outline) -> None:
    shares = _array(section, f"{STRATEGIES}.PSStrategy", "PSStrategy")
    for jobs in laid_out.classes:
        SubElement(shares, "refClass").text = jobs.name
        SubElement(shares, "subParameter", classPath=f"{STRATEGIES}.PSStrategies.EPSStrategy", name="EPSStrategy")
    weights = _array(section, "java.lang.Double", "serviceWeights")
    for jobs in laid_out.classes:
        SubElement(weights, "refClass").text = jobs.name
        _value(SubElement(weights, "subParameter", classPath="java.lang.Double", name="serviceWeight"), 1.0)


def _service_time(parent: Element, law: JmtLaw | None) -> None:
    kind = "ZeroServiceTimeStrategy" if law and law.parameters == (("t", 0.0),) else "ServiceTimeStrategy"
    strategy = SubElement(parent, "subParameter", classPath=f"{STRATEGIES}.ServiceStrategies.{kind}", name=kind)
    if law is None:
        SubElement(strategy, "value").text = "null"
    elif kind == "ServiceTimeStrategy":
        SubElement(strategy, "subParameter", classPath=f"jmt.engine.random.{law.java_class}", name=law.name)
        path = f"jmt.engine.random.{law.java_class}Par"
        parameters = SubElement(strategy, "subParameter", classPath=path, name="distrPar")
        for name, value in law.parameters:
            java = "java.lang.Long" if isinstance(value, int) else "java.lang.Double"
            _value(SubElement(parameters, "subParameter", classPath=java, name=name), value)


def _router(node: Element, here: str, laid_out: Outline, chains: list[Chain]) -> None:
    section = SubElement(node, "section", className="Router")
    routing = _array(section, f"{STRATEGIES}.RoutingStrategy", "RoutingStrategy")
    for jobs, chain in zip(laid_out.classes, chains, strict=True):
        SubElement(routing, "refClass").text = jobs.name
        onward = chain.get(here)
        kind, name = ("EmpiricalStrategy", "Probabilities") if onward else ("DisabledRoutingStrategy", "Disabled")
        strategy = SubElement(routing, "subParameter", classPath=f"{STRATEGIES}.RoutingStrategies.{kind}", name=name)
        if onward:
            entries = _array(strategy, "jmt.engine.random.EmpiricalEntry", "EmpiricalEntryArray", "subParameter")
            for station, probability in onward.items():
                path = "jmt.engine.random.EmpiricalEntry"
                entry = SubElement(entries, "subParameter", classPath=path, name="EmpiricalEntry")
                target = _end(jobs, laid_out) if station is END else station
                _value(SubElement(entry, "subParameter", classPath="java.lang.String", name="stationName"), target)
                _value(SubElement(entry, "subParameter", classPath="java.lang.Double", name="probability"), probability)


def _links(laid_out: Outline, chains: list[Chain]) -> set[tuple[str, str]]:
    return {
        (here, _end(jobs, laid_out) if station is END else station)
        for jobs, chain in zip(laid_out.classes, chains, strict=True)
        for here, onward in chain.items()
        for station in onward
    }


def _end(jobs: Jobs, laid_out: Outline) -> str:
    return laid_out.sink if jobs.users is None else jobs.start


def _measures(simulation: Element, laid_out: Outline) -> None:
    asked = [
        ("", jobs.name, kind) for jobs in laid_out.classes for kind in ("System Response Time", "System Throughput")
    ]
    asked += [(each.name, "", kind) for each in laid_out.stations for kind in ("Utilization", "Response Time")]
    for station, jobs, kind in asked:
        SubElement(
            simulation,
            "measure",
            alpha=CONFIDENCE_ALPHA,
            name=f"{station or jobs}_{kind}",
            nodeType="station" if station else "",
            precision=PRECISION,
            referenceNode=station,
            referenceUserClass=jobs,
            type=kind,
            verbose="false",
        )


def _preload(simulation: Element, laid_out: Outline) -> None:
    closed = [jobs for jobs in laid_out.classes if jobs.users is not None]
    if closed:
        preload = SubElement(simulation, "preload")
        for start in dict.fromkeys(jobs.start for jobs in closed):
            populations = SubElement(preload, "stationPopulations", stationName=start)
            for jobs in closed:
                if jobs.start == start:
                    SubElement(populations, "classPopulation", population=str(jobs.users), refClass=jobs.name)


def _picture(archive: Element, laid_out: Outline, is_open: bool) -> None:
    # JMT's editor needs a position for every node.
    model = SubElement(archive, "jmodel")
    for jobs in laid_out.classes:
        SubElement(model, "userClass", name=jobs.name, color="#FF0000FF")
    names = [station.name for station in laid_out.stations]
    for index, name in enumerate([laid_out.source, *names, laid_out.sink] if is_open else names):
        station = SubElement(model, "station", name=name)
        SubElement(station, "position", rotate="false", x=str(60 + STATION_SPACING * index), y="120")


def _array(parent: Element, class_path: str, name: str, tag: str = "parameter") -> Element:
    return SubElement(parent, tag, array="true", classPath=class_path, name=name)


def _integer(parent: Element, name: str, value: int) -> None:
    _value(SubElement(parent, "parameter", classPath="java.lang.Integer", name=name), value)


def _value(parent: Element, value: float | str) -> None:
    SubElement(parent, "value").text = repr(value) if isinstance(value, float) else str(value)
