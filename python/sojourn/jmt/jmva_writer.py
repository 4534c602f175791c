"""Writes a `.jmva` model: classes, and for every station a mean service time and a mean number of visits per class.

The format has only means, which suffice for exact mean value analysis of product-form stations; for other stations the
writer warns.
"""

from __future__ import annotations

from collections import Counter
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from sojourn.jmt.outline import Jobs, Outline, Station, outline
from sojourn.jmt.translation import Translation, refused
from sojourn.queueing import System

TOLERANCE = "1.0E-7"
SAMPLES_MAX = "10000"


def write(system: System, name: str) -> Translation:
    """Converts the system to XML, with warnings where the meaning changes."""
    translation = Translation()
    laid_out = outline(system, translation)
    for station in laid_out.stations:
        if station.capacity is not None:
            raise refused(f"station {station.name}: its capacity", "write a .jsimg model: JMT simulates finite queues")
    # The format has no distributions beyond their means, so warnings about them do not apply.
    translation.warnings.clear()
    _warn_of_lost_disciplines(laid_out, translation)
    schema = "{http://www.w3.org/2001/XMLSchema-instance}noNamespaceSchemaLocation"
    ElementTree.register_namespace("xsi", "http://www.w3.org/2001/XMLSchema-instance")
    model = Element("model", {schema: "JMTmodel.xsd"})
    SubElement(model, "description").text = name
    parameters = SubElement(model, "parameters")
    classes = SubElement(parameters, "classes", number=str(len(laid_out.classes)))
    for jobs in laid_out.classes:
        if jobs.users is None:
            SubElement(classes, "openclass", name=jobs.name, rate=repr(jobs.rate), priority="0")
        else:
            SubElement(classes, "closedclass", name=jobs.name, population=str(jobs.users), priority="0")
    stations = SubElement(parameters, "stations", number=str(len(laid_out.stations)))
    for station in laid_out.stations:
        _station(stations, station, laid_out)
    references = SubElement(parameters, "ReferenceStation", number=str(len(laid_out.classes)))
    for jobs in laid_out.classes:
        reference = "Arrival Process" if jobs.users is None else jobs.start
        SubElement(references, "Class", name=jobs.name, refStation=reference)
    algorithm = SubElement(model, "algParams")
    SubElement(algorithm, "algType", name="MVA", tolerance=TOLERANCE, maxSamples=SAMPLES_MAX)
    SubElement(algorithm, "compareAlgs", value="false")
    ElementTree.indent(model)
    translation.text = ElementTree.tostring(model, encoding="unicode", xml_declaration=True) + "\n"
    return translation


def _station(stations: Element, station: Station, laid_out: Outline) -> None:
    if station.discipline == "is":
        element = SubElement(stations, "delaystation", name=station.name)
    else:
        element = SubElement(stations, "listation", name=station.name, servers=str(station.servers))
    times, visits = SubElement(element, "servicetimes"), SubElement(element, "visits")
    for jobs in laid_out.classes:
        service = jobs.services.get(station.name)
        mean = service.moments.mean if service else 0.0
        SubElement(times, "servicetime", customerclass=jobs.name).text = repr(mean)
        SubElement(visits, "visit", customerclass=jobs.name).text = repr(_visits(jobs, station.name))


def _visits(jobs: Jobs, station: str) -> float:
    if jobs.users is not None and station == jobs.start:
        return 1.0
    return float(sum(probability * Counter(route)[station] for probability, route in jobs.routes))


def _warn_of_lost_disciplines(laid_out: Outline, translation: Translation) -> None:
    for station in laid_out.stations:
        services = [jobs.services[station.name] for jobs in laid_out.classes if station.name in jobs.services]
        if station.discipline == "lps":
            translation.warn(f"station {station.name}: the limit of {station.r} jobs in service is not in the file")
        if station.discipline == "fifo":
            means = {service.moments.mean for service in services}
            if len(means) > 1 or any(abs(service.moments.scv - 1.0) > 1e-6 for service in services):
                translation.warn(
                    f"station {station.name}: FIFO service other than one exponential law for all classes "
                    "is solved as if it were that"
                )
