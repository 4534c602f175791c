"""Reads a `.jmva` model into a system file.

The format has only mean service times and numbers of visits, without order, distribution or discipline. Each class
gets one route through all its stations, with visits times service time as a constant demand; queues become processor
sharing, for which only means matter. A closed class thinks at its reference station if that is a delay.
"""

from __future__ import annotations

from collections.abc import Mapping
from xml.etree.ElementTree import Element

from sojourn.jmt.translation import Translation, refused
from sojourn.queueing import system_file
from sojourn.text.toml import Table

COMMENT = "Read from a model of Java Modelling Tools by sojourn import-jmt."
SAME = 1e-9


def read(root: Element, name: str) -> Translation:
    """Converts the model to a system file, with warnings where the meaning changes."""
    translation = Translation()
    parameters = root.find("parameters")
    if root.tag != "model" or parameters is None:
        raise refused(f"<{root.tag}> without <parameters>", "give a model for mean value analysis: Save as .jmva")
    elements = list(parameters.find("stations") or ())
    stations = {str(element.get("name")): _station(element) for element in elements}
    times = {str(element.get("name")): _times(element) for element in elements}
    visits = {str(element.get("name")): _figures(element, "visits") for element in elements}
    if any(station["discipline"] == "ps" for station in stations.values()):
        translation.warn("the format names no disciplines: queues are read as processor sharing")
    classes = {}
    for element in parameters.find("classes") or ():
        class_name = str(element.get("name"))
        if element.get("priority", "0") != "0":
            raise refused(f"class {class_name}: its priority")
        demands = {
            station: visits[station].get(class_name, 0.0) * times[station].get(class_name, 0.0) for station in times
        }
        classes[class_name] = _class(element, demands, stations, _reference(parameters, class_name))
    used = {visit["station"] for each in classes.values() for visit in each["route"]}
    system = {"name": name, "stations": {key: stations[key] for key in stations if key in used}, "classes": classes}
    translation.text = system_file.write(system, COMMENT)
    return translation


def _class(element: Element, demands: Mapping[str, float], stations: Mapping[str, Table], reference: str) -> Table:
    name = str(element.get("name"))
    source: Table
    visited = {station: demand for station, demand in demands.items() if demand > 0}
    if element.tag == "openclass":
        source = {"rate": system_file.rate(_number(element.get("rate"), name))}
    elif element.tag == "closedclass":
        thinks = reference in stations and stations[reference]["discipline"] == "is"
        source = {
            "users": int(_number(element.get("population"), name)),
            "think_time": system_file.time(visited.pop(reference, 0.0) if thinks else 0.0),
        }
    else:
        raise refused(f"class {name} of kind {element.tag}")
    if not visited:
        raise refused(f"class {name}: its jobs have no demand at any station")
    route = [{"station": station, "demand": system_file.time(demand)} for station, demand in visited.items()]
    return source | {"route": route}


def _station(element: Element) -> Table:
    name = element.get("name")
    if element.tag == "delaystation":
        return {"discipline": "is"}
    if element.tag == "listation":
        servers = int(_number(element.get("servers", "1"), str(name)))
        return {"discipline": "ps"} | ({"servers": servers} if servers > 1 else {})
    if element.tag == "ldstation":
        return {"discipline": "ps", "speed": _speeds(element)}
    raise refused(f"station {name} of kind {element.tag}")


def _speeds(element: Element) -> list[float]:
    """v(n) = S(1) / S(n), which must be equal for all classes."""
    tables = [
        [_number(time, str(element.get("name"))) for time in (each.text or "").split(";")]
        for each in element.iterfind("servicetimes/*")
    ]
    speeds = [[times[0] / time for time in times] for times in tables if times and min(times) > 0]
    if not speeds:
        raise refused(f"station {element.get('name')}: no service times")
    if any(len(each) != len(speeds[0]) for each in speeds) or any(
        abs(one - other) > SAME * other for each in speeds for one, other in zip(each, speeds[0], strict=True)
    ):
        raise refused(f"station {element.get('name')}: classes that slow down differently under load")
    return speeds[0]


def _times(element: Element) -> dict[str, float]:
    if element.tag != "ldstation":
        return _figures(element, "servicetimes")
    return {
        str(each.get("customerclass")): _number((each.text or "").split(";")[0], str(element.get("name")))
        for each in element.iterfind("servicetimes/*")
    }


def _figures(element: Element, of: str) -> dict[str, float]:
    return {
        str(each.get("customerclass")): _number(each.text, str(element.get("name")))
        for each in element.iterfind(f"{of}/*")
    }


def _reference(parameters: Element, class_name: str) -> str:
    references = {each.get("name"): each.get("refStation") for each in parameters.iterfind("ReferenceStation/Class")}
    return references.get(class_name) or ""


def _number(text: str | None, name: str) -> float:
    try:
        return float(text or "")
    except ValueError:
        raise refused(f"{name}: {text!r} is not a number") from None
