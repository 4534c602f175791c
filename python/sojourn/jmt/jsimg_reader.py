"""Reads a `.jsimg` model into a system file; `jsimg_node` reads its nodes.

Classes become classes, queues and delays stations, and the routing probabilities routes. A closed class whose
reference station is a delay thinks there; with another reference station it does not think.
"""

from __future__ import annotations

from collections.abc import Mapping
from xml.etree.ElementTree import Element

from sojourn.jmt.chain import END, Route, routes_of
from sojourn.jmt.jsimg_node import Node, read_node
from sojourn.jmt.laws import Law
from sojourn.jmt.translation import Translation, refused
from sojourn.queueing import system_file
from sojourn.text.toml import Table

COMMENT = "Read from a model of Java Modelling Tools by sojourn import-jmt."
UNKNOWN = {"blockingRegion": "a finite capacity region"}


def read(root: Element, name: str) -> Translation:
    """Converts the model to a system file, with warnings where the meaning changes."""
    translation = Translation()
    simulation = root if root.tag == "sim" else root.find("sim")
    if simulation is None:
        raise refused(f"<{root.tag}> without <sim>", "give a simulation model: Save as .jsimg")
    for tag, what in UNKNOWN.items():
        for element in simulation.iter(tag):
            raise refused(f"{what} ({element.get('name', 'unnamed')})")
    classes = simulation.findall("userClass")
    if len({each.get("priority", "0") for each in classes}) > 1:
        raise refused("classes of different priority")
    links: dict[str, list[str]] = {}
    for link in simulation.findall("connection"):
        links.setdefault(str(link.get("source")), []).append(str(link.get("target")))
    names = [str(each.get("name")) for each in classes]
    nodes = {node.name: node for node in (read_node(each, names, translation) for each in simulation.findall("node"))}
    if _begins_elsewhere(simulation, classes):
        translation.warn("the initial placement of jobs (preload) is left out: its effect does not last")
    described = {str(each.get("name")): _class(each, nodes, links, translation) for each in classes}
    used = {visit["station"] for each in described.values() for route in each["routes"] for visit in route["visits"]}
    stations = {node.name: node.station for node in nodes.values() if node.station and node.name in used}
    _check_lost_users(stations, described)
    _say_once(stations, described)
    translation.text = system_file.write({"name": name, "stations": stations, "classes": described}, COMMENT)
    return translation


def _class(
    element: Element, nodes: Mapping[str, Node], links: Mapping[str, list[str]], translation: Translation
) -> Table:
    name = str(element.get("name"))
    reference = nodes.get(str(element.get("referenceSource")))
    if reference is None:
        raise refused(f"class {name}: its jobs come from {element.get('referenceSource')!r}, which is not a station")
    is_open = element.get("type") == "open"

    def onward(here: str) -> dict[str | None, float]:
        said = nodes[here].routing.get(name)
        if said is None:
            # JMT's Random never sends a closed class to a sink.
            targets = [each for each in links.get(here, []) if is_open or not nodes[each].is_sink]
            said = {target: 1.0 / len(targets) for target in targets}
        ended: dict[str | None, float] = {}
        for target, share in said.items():
            if target not in nodes:
                raise refused(f"class {name}: {here} sends jobs to {target!r}, which is not a station")
            ends = nodes[target].is_sink if is_open else target == reference.name
            key = END if ends else target
            ended[key] = ended.get(key, 0.0) + share
        if not ended:
            raise refused(f"class {name}: its jobs cannot leave {here}")
        return ended

    if is_open:
        if reference.arrivals is None or name not in reference.arrivals:
            raise refused(f"class {name}: open jobs that do not come from a source ({reference.name})")
        source: Table = {"rate": system_file.rate(reference.arrivals[name])}
        routes = routes_of(onward(reference.name), onward, name, translation)
    else:
        source = {"users": int(str(element.get("customers")))}
        if reference.station is not None and reference.station["discipline"] == "is":
            source["think_time"] = reference.service(name)
            routes = routes_of(onward(reference.name), onward, name, translation)
        else:
            source["think_time"] = "0s"
            routes = routes_of({reference.name: 1.0}, onward, name, translation)
    return source | {"routes": [_route(index, route, name, nodes) for index, route in enumerate(routes)]}


def _check_lost_users(stations: Mapping[str, Table], classes: Mapping[str, Table]) -> None:
    lossy = {name for name, station in stations.items() if station.get("when_full") == "refuse"}
    for name, each in classes.items():
        met = [visit["station"] for route in each["routes"] for visit in route["visits"] if visit["station"] in lossy]
        if "users" in each and met:
            raise refused(f"class {name}: users that are lost for good when {met[0]} is full")


def _begins_elsewhere(simulation: Element, classes: list[Element]) -> bool:
    references = {each.get("name"): each.get("referenceSource") for each in classes}
    return any(
        references.get(population.get("refClass")) != station.get("stationName")
        for station in simulation.iterfind("preload/stationPopulations")
        for population in station.iterfind("classPopulation")
        if population.get("population") != "0"
    )


def _route(index: int, route: Route, class_name: str, nodes: Mapping[str, Node]) -> Table:
    probability, stations = route
    visits = [{"station": station, "demand": nodes[station].service(class_name)} for station in stations]
    return {"name": f"route {index + 1}", "probability": probability, "visits": visits}


def _say_once(stations: Mapping[str, Table], classes: Mapping[str, Table]) -> None:
    """Moves a demand that all visits share to its station, and a single route to `route`."""
    demands: dict[str, list[Law]] = {}
    for each in classes.values():
        for route in each["routes"]:
            for visit in route["visits"]:
                demands.setdefault(visit["station"], []).append(visit["demand"])
    shared = {name: said[0] for name, said in demands.items() if all(each == said[0] for each in said)}
    for name, demand in shared.items():
        stations[name]["demand"] = demand
    for each in classes.values():
        for route in each["routes"]:
            route["visits"] = [visit["station"] if visit["station"] in shared else visit for visit in route["visits"]]
        if len(each["routes"]) == 1:
            each["route"] = each.pop("routes")[0]["visits"]
