"""The models for the checks of solvers and simulator, each with true values from an independent program.

All times are in seconds. The class is `c` and the station `a`, unless a true value names others.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from statistics import fmean

import numpy as np
from scipy import optimize, stats

from benchmarks.models.oracles import (
    PERCENTILES,
    birth_death,
    lattice,
    product_form,
    published,
    sample_paths,
    small_networks,
    tagged_job,
)
from benchmarks.models.oracles.product_form import Place
from benchmarks.models.oracles.tagged_job import Phases

Truths = Mapping[str, float]
"""By figure: `mean`, `p50` … `p999`, `loss`, `throughput`, `residence STATION`; `mean CLASS` if there are several."""

LATTICE = "compound geometric distribution by FFT"
CHAIN = "global balance of all states, a tagged job followed"
BALANCE = "global balance of all states"
DETAILED = "detailed balance"
ENUMERATION = "product form, all states enumerated"
THEOREM = "theorem"


@dataclass(frozen=True)
class Model:
    """A system and its true values."""

    name: str
    text: str
    source: str
    truths: Callable[[], Truths]
    percentiles_within: float = 1e-5
    """The relative error of the oracle's own percentiles."""
    within: float = 1e-7
    """The relative error of its means; a printed table is rounded."""
    slow: bool = False
    simulated: bool = True


def all_models() -> Iterator[Model]:
    yield from _exponential_stations()
    yield from _fifo()
    yield from _limited_sharing()
    yield from _insensitive()
    yield from _finite()
    yield from _networks()
    yield from _closed()
    yield from _approximated()


def _open(station: str, rate: float, more: str = "", route: str = '["a"]') -> str:
    return f'[stations.a]\n{station}\n{more}[classes.c]\nrate = "{rate!r}/s"\nroute = {route}\n'


def _users(stations: str, users: int, thinking: str, route: str = '["a"]') -> str:
    return f"{stations}\n[classes.c]\nusers = {users}\nthink_time = {thinking}\nroute = {route}\n"


def _law(name: str, mean: float, **more: float) -> str:
    rest = "".join(f", {key} = {value!r}" for key, value in more.items())
    return f'{{ law = "{name}", mean = "{mean!r}s"{rest} }}'


def _exponential(mean: float) -> str:
    return _law("exponential", mean)


def _exponential_stations() -> Iterator[Model]:
    def mm1(rho: float) -> Truths:
        mean, percentiles = birth_death.mm1(rho)
        return {"mean": mean, **percentiles}

    def mmc(rate: float, servers: int, capacity: int) -> Truths:
        loss, mean, percentiles = birth_death.mmck(rate, servers, capacity)
        return {"mean": mean, "loss": loss, **percentiles}

    def unlimited(rate: float, servers: int) -> Truths:
        # 110 jobs are hardly ever present: the probability is about 0.8 to the power of a hundred.
        _, mean, percentiles = birth_death.mmck(rate, servers, 110)
        return {"mean": mean, **percentiles}

    for rho in (0.3, 0.9):
        text = _open(f'discipline = "fifo"\ndemand = {_exponential(1.0)}', rho)
        yield Model(f"M/M/1 FIFO, ρ {rho}", text, THEOREM, partial(mm1, rho))
    # So near saturation that the solver's lattice does not reach 0.1 %, and says so.
    text = _open('discipline = "fifo"\ndemand = { law = "erlang", mean = "1s", stages = 2 }', 0.997)
    yield Model("M/E₂/1 FIFO, ρ 0.997", text, THEOREM, partial(_erlang_2, 0.997), simulated=False)
    text = _open(f'discipline = "fifo"\nservers = 4\ndemand = {_exponential(1.0)}', 3.2)
    yield Model("M/M/4 FIFO, ρ 0.8", text, DETAILED, partial(unlimited, 3.2, 4))
    waiting = published.ERLANG_C_4_SERVERS_3_2
    yield Model("M/M/4 FIFO, ρ 0.8, Erlang's table", text, "printed", lambda: {"mean": 1 + waiting / 0.8}, within=1e-5)
    for rate, servers, capacity in ((2.4, 2, 5), (0.9, 1, 8), (3.0, 3, 3)):
        station = f'discipline = "fifo"\nservers = {servers}\ncapacity = {capacity}\ndemand = {_exponential(1.0)}'
        name = f"M/M/{servers}/{capacity}, {rate} erlangs"
        yield Model(name, _open(station, rate), DETAILED, partial(mmc, rate, servers, capacity))


def _fifo() -> Iterator[Model]:
    """One server in order of arrival, with any distribution of demand."""

    def of(survival: lattice.Survival, mean: float, scv: float, rho: float, step: float) -> Truths:
        found = lattice.percentiles(survival, mean, rho, step * mean)
        return {"mean": lattice.pollaczek_khinchine(rho, mean, scv), **found}

    def add(
        name: str, demand: str, truth: tuple[lattice.Survival, float, float], rho: float, step: float, within: float
    ) -> Model:
        survival, mean, scv = truth
        text = _open(f'discipline = "fifo"\ndemand = {demand}', rho / mean)
        found = partial(of, survival, mean, scv, rho, step)
        return Model(f"M/G/1 FIFO, {name}, ρ {rho}", text, LATTICE, found, percentiles_within=within)

    for scv, rho in ((12.3, 0.897), (6.2, 0.69), (20.0, 0.7)):
        demand = _law("log-normal", 1.0, scv=scv)
        yield add(f"log-normal C² {scv}", demand, (lattice.log_normal_survival(scv), 1.0, scv), rho, 0.02, 2e-3)
    for shape, largest, rho in ((1.95, 428.0, 0.91), (1.5, 1000.0, 0.7)):
        survival, mean = lattice.pareto_survival(shape, largest)
        scv = lattice.pareto_second_moment(shape, largest) / mean**2 - 1
        demand = f'{{ law = "pareto", shape = {shape}, min = "1s", max = "{largest}s" }}'
        yield add(f"Pareto {shape} on [1, {largest:g}]", demand, (survival, mean, scv), rho, 0.02, 2e-3)
    for values, weights in (([1, 2, 5, 20], [50, 30, 15, 5]), ([2, 3, 5, 7], [1, 1, 1, 1])):
        survival, mean = lattice.values_survival(values, weights)
        scv = sum(w * v * v for v, w in zip(values, weights, strict=True)) / sum(weights) / mean**2 - 1
        demand = f'{{ law = "empirical", values = {[f"{v}s" for v in values]}, weights = {weights} }}'.replace("'", '"')
        # The oracle spreads a point mass over its cell.
        yield add(f"the values {values}", demand, (survival, mean, scv), 0.315, 1 / 64 / mean, 1e-2)
    yield add("constant", '"1s"', (*lattice.values_survival([1], [1]), 0.0), 0.8, 1 / 256, 5e-3)
    yield _thesis()


def _thesis() -> Model:
    sizes = stats.lognorm(1.573, scale=np.exp(7.811))
    slope = 0.4851e-3
    mean = 21.55 + slope * float(sizes.mean())

    def survival(t: lattice.Array) -> lattice.Array:
        return np.asarray(np.where(t < 21.55, 1.0, sizes.sf((t - 21.55) / slope)))

    def truths() -> Truths:
        scv = slope**2 * float(sizes.var()) / mean**2
        found = lattice.percentiles(survival, mean, 0.9, 0.01 * mean)
        return {"mean": lattice.pollaczek_khinchine(0.9, mean, scv), **found}

    document = '[document]\nlaw = "log-normal"\nmu = 7.811\nsigma = 1.573\nunit = "B"\n'
    station = 'discipline = "fifo"\ndemand = { fixed = "21.55s", per_byte = "485.1us/B" }'
    text = document + _open(station, 0.9 / mean)
    return Model("the thesis's web server, FIFO, ρ 0.9", text, LATTICE, truths, percentiles_within=2e-3)


def _lps(
    name: str,
    demand: Phases,
    law: str,
    rate: float,
    r: int | None,
    *,
    more: str = "",
    speed: Callable[[int], float] = lambda n: min(n, 1),
    capacity: int | None = None,
    discipline: str = "lps",
    jobs_max: int = 120,
    slow: bool = False,
) -> Model:
    def truths() -> Truths:
        solved = tagged_job.solve(demand, rate, r, speed=speed, capacity=capacity, jobs_max=jobs_max)
        found = {"mean": solved.mean, **solved.percentiles(PERCENTILES)}
        return found | ({"loss": solved.loss} if capacity else {})

    limit = f"r = {r}\n" if r and discipline == "lps" else ""
    finite = f"capacity = {capacity}\n" if capacity else ""
    station = f'discipline = "{discipline}"\n{limit}{finite}{more}demand = {law}'
    return Model(name, _open(station, rate), CHAIN, truths, slow=slow)


def _limited_sharing() -> Iterator[Model]:
    h2 = _law("hyper-exponential", 1.0, scv=4)
    four = tagged_job.h2(1.0, 4.0)
    erlang = '{ law = "erlang", mean = "1.0s", stages = 3 }'
    yield _lps("M/H₂/1/LPS-2, C² 4, ρ 0.5", four, h2, 0.5, 2)
    yield _lps("M/H₂/1/LPS-4, C² 4, ρ 0.6", four, h2, 0.6, 4, jobs_max=160)
    yield _lps("M/E₃/1/LPS-2, ρ 0.6", tagged_job.erlang(1.0, 3), erlang, 0.6, 2, jobs_max=80)
    ten, ten_law = tagged_job.h2(1.0, 10.0), _law("hyper-exponential", 1.0, scv=10)
    yield _lps("M/H₂/1/LPS-4, C² 10, ρ 0.8", ten, ten_law, 0.8, 4, jobs_max=520, slow=True)

    def usl(n: int) -> float:
        n = min(n, 5)
        return n / (1 + 0.1 * (n - 1) + 0.012 * n * (n - 1))

    speed = "speed = { alpha = 0.1, beta = 0.012 }\n"
    yield _lps("M/H₂/LPS-5 at the USL speed, C² 4", four, h2, 1.5, 5, more=speed, speed=usl)
    two = partial(_servers, 2)
    yield _lps("M/H₂/2 servers/LPS-4, C² 4, ρ 0.6", four, h2, 1.2, 4, more="servers = 2\n", speed=two)
    three = partial(_servers, 3)
    yield _lps("M/H₂/3 FIFO, C² 4, ρ 0.6", four, h2, 1.8, 3, more="servers = 3\n", speed=three, discipline="fifo")
    yield _lps("M/H₂/1/LPS-3/8, C² 4, 1.1 erlangs", four, h2, 1.1, 3, capacity=8)
    yield _lps("M/E₃/1/6 FIFO, 0.9 erlangs", tagged_job.erlang(1.0, 3), erlang, 0.9, 1, capacity=6, discipline="fifo")
    yield _lps("M/H₂/1/PS, C² 4, ρ 0.5", four, h2, 0.5, None, discipline="ps", jobs_max=80)
    yield _lps("M/H₂/1/PS, C² 10, ρ 0.9", ten, ten_law, 0.9, None, discipline="ps", jobs_max=260, slow=True)


def _servers(servers: int, n: int) -> float:
    return float(min(n, servers))


def _insensitive() -> Iterator[Model]:
    """Processor sharing and delays, which are insensitive to the distribution of demand."""
    for law, name in (('"1s"', "constant"), (_law("log-normal", 1.0, scv=15), "log-normal C² 15")):
        text = _open(f'discipline = "ps"\ndemand = {law}', 0.8)
        yield Model(f"M/G/1/PS, {name}, ρ 0.8", text, THEOREM, lambda: {"mean": 5.0})

    def finite() -> Truths:
        found = birth_death.probabilities(lambda _: 1.2, lambda _: 1.0, 6)
        loss = found[6]
        return {"mean": sum(n * p for n, p in enumerate(found)) / (1.2 * (1 - loss)), "loss": loss}

    text = _open('discipline = "ps"\ncapacity = 6\ndemand = "1s"', 1.2)
    yield Model("M/D/1/6-PS, 1.2 erlangs", text, DETAILED, finite)

    def curve() -> Truths:
        speeds = [1, 1.8, 2.4, 2.6, 2.3]
        found = birth_death.probabilities(lambda _: 1.8, lambda n: speeds[min(n, 5) - 1], 400)
        return {"mean": sum(n * p for n, p in enumerate(found)) / 1.8}

    text = _open('discipline = "ps"\nspeed = [1, 1.8, 2.4, 2.6, 2.3]\ndemand = "1s"', 1.8)
    yield Model("M/D/PS at a measured speed", text, DETAILED, curve)
    erlang = stats.gamma(4, scale=0.25)
    text = _open('discipline = "is"\ndemand = { law = "erlang", mean = "1s", stages = 4 }', 7.0)
    truth = {"mean": 1.0, **{name: float(erlang.ppf(p)) for name, p in PERCENTILES.items()}}
    yield Model("a delay, Erlang 4", text, THEOREM, lambda: truth)


def _finite() -> Iterator[Model]:
    """Systems that only the simulator solves."""

    def retry() -> Truths:
        mean, _ = small_networks.retrial(0.6, 1.0, 3, 0.5)
        return {"mean": mean, "throughput": 0.6}

    again = f"when_full = {{ retry = {_exponential(2.0)} }}\n"
    text = _open(f'discipline = "fifo"\ncapacity = 3\n{again}demand = {_exponential(1.0)}', 0.6)
    yield Model("M/M/1/3 with retries", text, BALANCE, retry)
    station = f'discipline = "fifo"\ndemand = {_exponential(1.0)}'
    behind = f'[stations.b]\ndiscipline = "fifo"\ncapacity = 2\nwhen_full = "block"\ndemand = {_exponential(0.9)}\n'
    text = _open(station, 0.5, behind, '["a", "b"]')
    yield Model(
        "M/M/1 → ·/M/1/2, blocking", text, BALANCE, lambda: {"mean": small_networks.blocking(0.5, 1, 1 / 0.9, 2)}
    )
    delay = f'[stations.b]\ndiscipline = "is"\ndemand = {_exponential(1.0)}\n'
    text = _open('discipline = "lps"\nr = 4\ndemand = "0s"', 3.2, delay, '["a", { station = "b", holds = "a" }]')
    waiting = published.ERLANG_C_4_SERVERS_3_2
    yield Model("four helpers held through a delay", text, "printed", lambda: {"mean": 1 + waiting / 0.8}, within=1e-5)


def _networks() -> Iterator[Model]:
    station = f'discipline = "fifo"\ndemand = {_exponential(1.0)}'
    behind = f'[stations.b]\ndiscipline = "fifo"\ndemand = {_exponential(0.8)}\n'

    def series() -> Truths:
        """Two M/M/1 in series: the response time is a sum of two independent exponential times (E. Reich, 1957)."""
        one, other = 1 - 0.6, 1 / 0.8 - 0.6

        def beyond(t: float) -> float:
            return (other * float(np.exp(-one * t)) - one * float(np.exp(-other * t))) / (other - one)

        return {
            "mean": 1 / one + 1 / other,
            **{name: birth_death.where(beyond, 1 - p) for name, p in PERCENTILES.items()},
        }

    yield Model("two M/M/1 in series", _open(station, 0.6, behind, '["a", "b"]'), THEOREM, series)
    delay = '[stations.b]\ndiscipline = "is"\ndemand = "2s"\n'

    def delayed() -> Truths:
        mean, found = birth_death.mm1(0.6)
        return {"mean": 2 + mean, **{name: 2 + value for name, value in found.items()}}

    yield Model("a constant delay and M/M/1", _open(station, 0.6, delay, '["b", "a"]'), THEOREM, delayed)
    first = f'discipline = "fifo"\ndemand = {_law("hyper-exponential", 1.0, scv=4)}'

    def irregular() -> Truths:
        ahead, after = small_networks.tandem(tagged_job.h2(1.0, 4.0), 1 / 0.8, 0.6)
        return {"mean": ahead + after, "residence a": ahead, "residence b": after}

    text = _open(first, 0.6, behind, '["a", "b"]')
    yield Model("M/H₂/1 → ·/M/1", text, BALANCE, irregular, within=1e-5)

    def lossy() -> Truths:
        loss, after = small_networks.lossy_tandem(0.9, 3, 1.0, 1 / 0.8)
        return {"loss": loss, "residence b": after}

    text = _open(f"{station}\ncapacity = 3", 0.9, behind, '["a", "b"]')
    yield Model("M/M/1/3 → ·/M/1", text, BALANCE, lossy, within=1e-5)


def _closed() -> Iterator[Model]:
    jain = [Place((2.0,)), Place((3.0,)), Place((1.0,)), Place((4.0,), None)]
    stations = "".join(
        f'[stations.{name}]\ndiscipline = "ps"\ndemand = "{demand}s"\n'
        for name, demand in (("a", 2), ("b", 3), ("d", 1))
    )
    thinking = _exponential(4.0)
    for users, (seconds, throughput) in published.JAIN_TABLE_34_1.items():
        text = _users(stations, users, thinking, '["a", "b", "d"]')
        truth = {"mean": seconds, "throughput": throughput}
        yield Model(
            f"Jain's Table 34.1, {users} users", text, "printed", partial(dict, truth), within=3e-3, simulated=False
        )

    def enumerated(places: list[Place], users: int, think: float) -> Truths:
        (throughput,) = product_form.throughputs(places, [users])
        return {"throughput": throughput, "mean": users / throughput - think}

    text = _users(stations, 7, thinking, '["a", "b", "d"]')
    yield Model("the same, 7 users", text, ENUMERATION, partial(enumerated, jain, 7, 4.0))
    usl = [Place((0.1,), lambda n: n / (1 + 0.1 * (n - 1) + 0.012 * n * (n - 1))), Place((0.5,), None)]
    station = '[stations.a]\ndiscipline = "ps"\nspeed = { alpha = 0.1, beta = 0.012 }\ndemand = "100ms"'
    yield Model(
        "30 users at the USL speed",
        _users(station, 30, _exponential(0.5)),
        ENUMERATION,
        partial(enumerated, usl, 30, 0.5),
    )
    two = [Place((1.0,), lambda n: min(n, 2)), Place((0.4,)), Place((3.0,), None)]
    station = f'[stations.a]\ndiscipline = "fifo"\nservers = 2\ndemand = {_exponential(1.0)}\n'
    station += '[stations.b]\ndiscipline = "ps"\ndemand = "400ms"\n'
    text = _users(station, 9, _exponential(3.0), '["a", "b"]')
    yield Model("9 users, two servers and one", text, ENUMERATION, partial(enumerated, two, 9, 3.0))

    def engset() -> Truths:
        found = birth_death.probabilities(lambda n: (8 - n) / 2, lambda n: min(n, 2), 4)
        carried = sum(p * min(n, 2) for n, p in enumerate(found))
        offered = sum(p * (8 - n) / 2 for n, p in enumerate(found))
        return {"throughput": carried, "loss": 1 - carried / offered}

    station = f'[stations.a]\ndiscipline = "fifo"\nservers = 2\ncapacity = 4\ndemand = {_exponential(1.0)}'
    yield Model("8 users, two servers, capacity 4", _users(station, 8, _exponential(2.0)), DETAILED, engset)
    yield _two_classes()
    yield _beside_open()
    for scv, r in ((10.0, 2), (4.0, 3)):

        def limited(scv: float = scv, r: int = r) -> Truths:
            throughput = small_networks.closed_lps(tagged_job.h2(1.0, scv), r, 8, 3.0)
            return {"throughput": throughput, "mean": 8 / throughput - 3}

        station = f'[stations.a]\ndiscipline = "lps"\nr = {r}\ndemand = {_law("hyper-exponential", 1.0, scv=scv)}'
        yield Model(f"8 users at M/H₂/LPS-{r}, C² {scv:g}", _users(station, 8, _exponential(3.0)), BALANCE, limited)


def _two_classes() -> Model:
    places = [Place((1.0, 0.3)), Place((0.2, 0.9)), Place((2.0, 0.0), None)]

    def truths() -> Truths:
        found = product_form.throughputs(places, [3, 2])
        return {"throughput x": found[0], "throughput y": found[1], "mean x": 3 / found[0] - 2, "mean y": 2 / found[1]}

    def visits(a: float, b: float) -> str:
        return f'[{{ station = "a", demand = "{a}s" }}, {{ station = "b", demand = {_exponential(b)} }}]'

    text = (
        '[stations.a]\ndiscipline = "ps"\n[stations.b]\ndiscipline = "ps"\n'
        f'[classes.x]\nusers = 3\nthink_time = "2s"\nroute = {visits(1.0, 0.2)}\n'
        f'[classes.y]\nusers = 2\nthink_time = "0s"\nroute = {visits(0.3, 0.9)}\n'
    )
    return Model("two closed classes", text, ENUMERATION, truths)


def _beside_open() -> Model:
    def truths() -> Truths:
        visitor, member = small_networks.mixed(0.4, 1.0, 0.5, 3, 2.0)
        return {"mean visitors": visitor, "throughput members": member}

    text = (
        '[stations.a]\ndiscipline = "ps"\n'
        '[classes.visitors]\nrate = "0.4/s"\nroute = [{ station = "a", demand = "1s" }]\n'
        f"[classes.members]\nusers = 3\nthink_time = {_exponential(2.0)}\n"
        f'route = [{{ station = "a", demand = {_exponential(0.5)} }}]\n'
    )
    return Model("an open class beside a closed one", text, BALANCE, truths)


def _erlang_2(rho: float) -> Truths:
    """M/E₂/1 in order of arrival, demands of mean 1: the transform of the response time has two real poles."""
    middle, product = (4 - rho) / 2, 4 * (1 - rho)
    slow = product / (middle + np.sqrt(middle**2 - product))
    fast = product / slow

    def survival(time: float) -> float:
        return float((fast * np.exp(-slow * time) - slow * np.exp(-fast * time)) / (fast - slow))

    def quantile(p: float) -> float:
        return float(optimize.brentq(lambda time: survival(time) - (1 - p), 0.0, 100 / slow, xtol=1e-12, rtol=1e-12))

    return {"mean": 1 / slow + 1 / fast, **{name: quantile(p) for name, p in PERCENTILES.items()}}


def _approximated() -> Iterator[Model]:
    """Distributions without phases, by sample paths in plain Python that are so long that they take minutes."""
    sigma = float(np.sqrt(np.log1p(15)))

    def log_normal(chance: random.Random) -> float:
        return chance.lognormvariate(-(sigma**2) / 2, sigma)

    def paths(run: Callable[..., list[float]], rate: float, limit: int) -> Truths:
        found = [np.array(run(rate, log_normal, limit, 2_000_000, seed)) for seed in range(1, 6)]
        # Ten million jobs are too few for p99.9.
        percentiles = {
            name: fmean(np.quantile(each, p) for each in found) for name, p in PERCENTILES.items() if p < 0.999
        }
        return {"mean": fmean(each.mean() for each in found), **percentiles}

    law = _law("log-normal", 1.0, scv=15)
    text = _open(f'discipline = "fifo"\nservers = 4\ndemand = {law}', 2.8)
    source = "sample paths of ten million jobs"
    found = partial(paths, sample_paths.multi_server, 2.8, 4)
    yield Model(
        "M/log-normal/4 FIFO, C² 15, ρ 0.7", text, source, found, within=0.03, percentiles_within=0.05, slow=True
    )
    text = _open(f'discipline = "lps"\nr = 4\ndemand = {law}', 0.7)
    found = partial(paths, sample_paths.limited_sharing, 0.7, 4)
    yield Model(
        "M/log-normal/1/LPS-4, C² 15, ρ 0.7", text, source, found, within=0.03, percentiles_within=0.05, slow=True
    )
