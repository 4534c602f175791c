"""The cases: systems as files, each with its exact answer if there is one.

They include deterministic and hyper-exponential demand. With exponential demand the mean response time of limited
processor sharing is the same for every r, so it would not show a mistake in r.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

from sojourn import queueing
from sojourn.jmt import jsimg_reader, jsimg_writer

STUDIES = Path(__file__).parents[2] / "studies" / "systems"
MEAN_SECONDS = 0.025675
"""The thesis's mean demand."""
UTILISATION = 0.8
SCV = 10.0
LAWS = {
    "D": f'"{MEAN_SECONDS * 1e3:g}ms"',
    "M": f'{{ law = "exponential", mean = "{MEAN_SECONDS * 1e3:g}ms" }}',
    "H2": f'{{ law = "hyper-exponential", mean = "{MEAN_SECONDS * 1e3:g}ms", scv = {SCV} }}',
}
LIMITS = (1, 4, 16)
THESIS_DEMAND = '{ fixed = "21.55ms", per_byte = "0.4851us/B" }'
THESIS_DOCUMENT = '[document]\nlaw = "log-normal"\nmu = 7.811\nsigma = 1.573\nunit = "B"\n'

Group = Literal["single", "thesis", "network"]


@dataclass(frozen=True)
class Case:
    """A system, and its exact mean response time in seconds if it is known."""

    name: str
    title: str
    group: Group
    text: str
    exact_seconds: float | None
    exact_by: str
    r: int | None = None
    law: str | None = None
    fifo_seconds: float | None = None
    """The mean under first come, first served; None if no program would confuse the two."""


def cases() -> list[Case]:
    """Returns all cases in the order of the page."""
    found = [_station("mm1", "M/M/1", "M", None, fifo=True)]
    found += [_station(f"lps-{law}-{r}", f"M/{law}/1/LPS, r = {r}", law, r) for law in LAWS for r in LIMITS]
    found.append(_station("ps-H2", "M/H2/1/PS", "H2", None))
    found += [_thesis(r) for r in LIMITS]
    return found + _networks()


def _station(name: str, title: str, law: str, r: int | None, *, fifo: bool = False) -> Case:
    discipline = '"fifo"' if fifo else f'"lps"\nr = {r}' if r else '"ps"'
    demand = {
        "D": queueing.deterministic(MEAN_SECONDS),
        "M": queueing.exponential(MEAN_SECONDS),
        "H2": queueing.hyper_exponential(MEAN_SECONDS, SCV),
    }[law]
    rate = UTILISATION / demand.mean
    if law == "D" and r not in (None, 1):
        exact, by = None, ""
    elif r in (None, 1) or law == "M":
        # Eq. 2.2 of the thesis is exact for r = 1 and infinity, and for exponential demand.
        exact, by = queueing.Lps(rate, demand, 1 if fifo else r).mean_response_time, "closed form"
    else:
        assert r is not None
        exact, by = queueing.ExactLps(rate, demand, r).mean_response_time, "matrix-analytic"
    fifo_mean = None if fifo or r == 1 else queueing.Lps(rate, demand, 1).mean_response_time
    return Case(name, title, "single", _one_station(discipline, LAWS[law], rate), exact, by, r, law, fifo_mean)


def _thesis(r: int) -> Case:
    demand = queueing.log_normal(7.811, 1.573).affine(0.4851e-6, 0.02155)
    rate = UTILISATION / demand.mean
    exact = queueing.Lps(rate, demand, 1).mean_response_time if r == 1 else None
    text = THESIS_DOCUMENT + _one_station(f'"lps"\nr = {r}', THESIS_DEMAND, rate)
    title = f"M/log-normal/1/LPS, r = {r}"
    return Case(f"thesis-{r}", title, "thesis", text, exact, "closed form" if exact else "", r, "log-normal")


def _one_station(discipline: str, demand: str, rate: float) -> str:
    return (
        f"[stations.server]\ndiscipline = {discipline}\ndemand = {demand}\n"
        f'[classes.jobs]\nrate = "{rate:.12g}/s"\nroute = ["server"]\n'
    )


def _networks() -> list[Case]:
    closed = (STUDIES / "isp-with-proxy.toml").read_text()
    # If each station draws its own demands, the network has product form, because its ten users never reach r.
    # In a model of JMT each station must draw its own demands, so it answers for that network.
    independent = jsimg_reader.read(
        ElementTree.fromstring(jsimg_writer.write(queueing.System(closed), "").text), ""
    ).text
    answer = queueing.predict(queueing.System(independent))["solvers"]["mva"]["answer"]
    assert answer is not None
    exact = answer["classes"]["members"]["response_time_seconds"]["mean"]
    entire = (STUDIES / "entire-model.toml").read_text()
    return [
        Case("closed", "closed network, demands drawn at each station", "network", independent, exact, "exact MVA"),
        Case("closed-thesis", "closed network of the thesis, one size per document", "network", closed, None, ""),
        Case("entire", "entire model of the thesis, open and closed", "network", entire, None, ""),
    ]
