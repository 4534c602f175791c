"""The verdicts on an assessment as a JUnit XML file, which every CI system shows."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from sojourn.applications.summary import ApplicationSummary

_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def junit(summary: ApplicationSummary) -> str:
    """A test case for each verdict; one that cannot be given is skipped."""
    failed = sum(each.passed is False for each in summary.verdicts)
    unknown = sum(each.passed is None for each in summary.verdicts)
    suite = ElementTree.Element(
        "testsuite",
        name="sojourn assess",
        tests=str(len(summary.verdicts)),
        failures=str(failed),
        errors="0",
        skipped=str(unknown),
        time=f"{summary.duration_seconds:.1f}",
        timestamp=summary.started_at,
    )
    for verdict in summary.verdicts:
        case = ElementTree.SubElement(suite, "testcase", classname=_text(summary.target), name=_text(verdict.name))
        if verdict.passed is None:
            ElementTree.SubElement(case, "skipped", message=_text(verdict.because))
        elif not verdict.passed:
            ElementTree.SubElement(case, "failure", message=_text(verdict.because)).text = _text(verdict.because)
        elif verdict.because:
            ElementTree.SubElement(case, "system-out").text = _text(verdict.because)
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _text(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)
