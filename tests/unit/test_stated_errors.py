"""What the labels of approximations say of their errors, held against simulation of laws drawn at random.

The ranges came from a sweep over other cases (docs/models.md); these were not among them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from benchmarks.models import labels
from sojourn import queueing
from sojourn.queueing import Distribution
from sojourn.queueing.results import SolverAnswer

JOBS = 400_000
CASES = 8
CASES_SLOW = 24
NETWORK_CASES = 3
LARGEST_SCV = 25.0


def laws(seed: int, count: int) -> list[tuple[Distribution, str, float, int]]:
    """Laws with their text in a system file, a utilisation and r or the servers."""
    random = np.random.default_rng(seed)
    found: list[tuple[Distribution, str, float, int]] = []
    while len(found) < count:
        kind = random.integers(4)
        if kind == 0:
            scv = float(np.exp(random.uniform(np.log(0.1), np.log(LARGEST_SCV))))
            sigma = float(np.sqrt(np.log1p(scv)))
            law = queueing.log_normal(-(sigma**2) / 2, sigma)
            text = f'{{ law = "log-normal", mean = "1s", scv = {scv!r} }}'
        elif kind == 1:
            shape, largest = float(random.uniform(1.1, 3.0)), float(np.exp(random.uniform(np.log(3), np.log(1000))))
            law = queueing.pareto(shape, 1, largest)
            text = f'{{ law = "pareto", shape = {shape!r}, min = "1s", max = "{largest!r}s" }}'
        elif kind == 2:
            scv = float(random.uniform(1.2, LARGEST_SCV))
            law = queueing.hyper_exponential(1, scv)
            text = f'{{ law = "hyper-exponential", mean = "1s", scv = {scv!r} }}'
        else:
            large, share = float(np.exp(random.uniform(np.log(2), np.log(40)))), float(random.uniform(0.01, 0.5))
            law = queueing.empirical([1, large], [1 - share, share])
            text = f'{{ law = "empirical", values = ["1s", "{large!r}s"], weights = [{1 - share!r}, {share!r}] }}'
        if law.scv <= LARGEST_SCV:
            found.append((law, text, float(random.uniform(0.3, 0.9)), int(random.choice([2, 3, 4, 8, 16]))))
    return found


def simulated(law: Distribution, rho: float, r: int, servers: int) -> tuple[float, float]:
    """The mean response time and what chance may make of it, as a fraction."""
    jobs = JOBS if law.scv < 4 else 4 * JOBS
    rate = rho * servers / law.mean
    found = queueing.simulate_poisson(rate, law, r, servers=servers, jobs_min=jobs, jobs_max=jobs, seed=11)
    mean = found["response_time_seconds"]["mean"]
    # A half-width of 95 % would fail by chance too often, and heavy tails hide some of their variance.
    return mean, 2.5 * (found["response_time_seconds"].get("mean_half_width") or 0.0) / mean


def answered(station: str, rate: float) -> SolverAnswer:
    text = f'[stations.a]\n{station}\n[classes.c]\nrate = "{rate!r}/s"\nroute = ["a"]\n'
    answer = queueing.predict(queueing.System(text), percentiles=False)["solvers"]["open"]["answer"]
    assert answer is not None
    return answer


def check(station: str, law: Distribution, rho: float, r: int, servers: int) -> None:
    answer = answered(station, float(rho * servers / law.mean))
    if answer["means"] == "exact":
        return
    low, high = labels.of_mean(answer["means"]) or (0.0, 0.0)
    mean, chance = simulated(law, rho, r, servers)
    error = answer["classes"]["c"]["response_time_seconds"]["mean"] / mean - 1
    assert low - chance <= error <= high + chance, f"{station} rho {rho}: {error:+.3f}, said {answer['means']}"


@pytest.mark.parametrize("count", [CASES, pytest.param(CASES_SLOW, marks=pytest.mark.slow)])
def test_eq_2_2_is_within_what_its_label_says(count: int) -> None:
    for law, text, rho, r in laws(count, count):
        check(f'discipline = "lps"\nr = {r}\ndemand = {text}', law, rho, r, 1)


@pytest.mark.parametrize("count", [CASES, pytest.param(CASES_SLOW, marks=pytest.mark.slow)])
def test_allen_cunneen_is_within_what_its_label_says(count: int) -> None:
    for law, text, rho, servers in laws(count + 1, count):
        check(f'discipline = "fifo"\nservers = {servers}\ndemand = {text}', law, rho, servers, servers)


def test_the_bound_of_eq_2_2_holds_for_rare_and_huge_demands() -> None:
    """One demand in ten thousand is 200 times the others: C² is 3.7, and most laws with it behave far better."""
    law = queueing.empirical([1, 200], [0.9999, 0.0001])
    equation = queueing.Lps(0.5 / law.mean, law, 2)
    validity = equation.validity()
    mean, _ = simulated(law, 0.5, 2, 1)
    error = equation.mean_response_time / mean - 1
    assert error > (validity["relative_error_found"] or 0)
    assert error < validity["relative_error_max"]


# Networks: each draw is a system file whose answer carries the label in question.

UTILISATIONS = 0.3, 0.9
NETWORK_JOBS = 1_000_000
CHANCE = 2.5
"""An error may exceed the range by this many half-widths of the simulation's 95 % interval."""


def uniform(random: np.random.Generator, low: float, high: float) -> float:
    return float(random.uniform(low, high))


def any_scale(random: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(random.uniform(np.log(low), np.log(high))))


def law(random: np.random.Generator, mean: float, phases: bool = False) -> str:
    """A demand with this mean in a system file; with `phases` a phase-type one."""
    kind = random.choice(["exponential", "erlang", "hyper", "constant", "any", "any", "any"])
    if kind == "exponential":
        return f'{{ law = "exponential", mean = "{mean!r}s" }}'
    if kind == "erlang":
        return f'{{ law = "erlang", mean = "{mean!r}s", stages = {random.choice([2, 3, 5])} }}'
    if phases or kind == "hyper":
        scv = any_scale(random, 1.2, LARGEST_SCV)
        return f'{{ law = "hyper-exponential", mean = "{mean!r}s", scv = {scv!r} }}'
    if kind == "constant":
        return f'"{mean!r}s"'
    found, text, _, _ = laws(int(random.integers(1 << 30)), 1)[0]
    return text.removesuffix(" }") + f", scale = {float(mean / found.mean)!r} }}"


def station(name: str, discipline: str, demand: str, **more: object) -> str:
    lines = [f"[stations.{name}]", f'discipline = "{discipline}"', f"demand = {demand}"]
    return "\n".join(lines + [f"{key} = {value}" for key, value in more.items()]) + "\n"


def visitors(*route: str, rate: float = 1.0) -> str:
    return f'[classes.c]\nrate = "{rate!r}/s"\nroute = {list(route)}\n'


def members(random: np.random.Generator, *route: str) -> str:
    users, think = round(any_scale(random, 2, 50)), any_scale(random, 0.3, 30) * len(route)
    return (
        f"[classes.c]\nusers = {users}\nroute = {list(route)}\n"
        f'think_time = {{ law = "exponential", mean = "{think!r}s" }}\n'
    )


def last(random: np.random.Generator, arrivals: float) -> str:
    """Station b, which is solved exactly under Poisson arrivals at this rate."""
    rho, kind = uniform(random, *UTILISATIONS), random.choice(["fifo", "ps", "several", "lps"])
    if kind == "several":
        servers = int(random.choice([1, 2, 4, 8, 16]))
        demand = f'{{ law = "exponential", mean = "{rho * servers / arrivals!r}s" }}'
        return station("b", "fifo", demand, servers=servers)
    if kind == "lps":
        return station("b", "lps", law(random, rho / arrivals, phases=True), r=random.choice([2, 4, 8]))
    return station("b", str(kind), law(random, rho / arrivals))


def behind_irregular(random: np.random.Generator) -> str:
    """One or two FIFO or LPS stations before b, and sometimes a delay; some jobs pass them twice."""
    names = ["a", "c"][: int(random.choice([1, 2]))]
    text = ""
    for name in names:
        rho = uniform(random, *UTILISATIONS)
        servers = int(random.choice([1, 1, 2, 4, 8, 16]))
        if random.integers(4) == 0:
            text += station(name, "lps", law(random, rho), r=random.choice([2, 4, 8, 16]))
        else:
            text += station(name, "fifo", law(random, rho * servers), servers=servers)
    if random.integers(5) == 0:
        names.append("d")
        text += station("d", "is", law(random, any_scale(random, 0.1, 10)))
    route = [*names, "b"]
    text += last(random, 1.0)
    return text + (visitors(*route, *route, rate=0.5) if random.integers(6) == 0 else visitors(*route))


def by_size(random: np.random.Generator) -> str:
    """Two or three stations whose demand is that of the document's size."""
    names = ["a", "b", "d"][: int(random.choice([2, 3]))]
    sigma = float(np.sqrt(np.log1p(any_scale(random, 0.3, 20))))
    text = f'document = {{ law = "log-normal", mu = {9.21 - sigma**2 / 2!r}, sigma = {sigma!r}, unit = "B" }}\n'
    for name in names:
        half = uniform(random, *UTILISATIONS) / 2
        demand = f'{{ fixed = "{half!r}s", per_byte = "{100 * half!r}us/B" }}'
        text += station(name, str(random.choice(["fifo", "ps"])), demand)
    return text + visitors(*names)


def behind_full(random: np.random.Generator) -> str:
    """A station that turns jobs away before b."""
    while True:
        rho, room, kind = (
            uniform(random, 0.3, 1.5),
            int(any_scale(random, 1, 40)),
            random.choice(["fifo", "lps", "ps", "is"]),
        )
        servers = int(random.choice([1, 1, 2, 4, 8, 16])) if kind in ("fifo", "is") else 1
        demand = law(random, rho * servers, phases=kind in ("fifo", "lps"))
        more: dict[str, object] = {"fifo": {"servers": servers}, "lps": {"r": 4}}.get(str(kind), {})
        places = {
            "fifo": servers + room,
            "lps": 4 + room,
            "ps": room,
            "is": max(1, int(servers * uniform(random, 0.7, 2))),
        }
        full = station("a", str(kind), demand, capacity=places[str(kind)], **more)
        alone = answer_of(full + visitors("a"))
        if alone is not None and (loss := alone["classes"]["c"]["loss"]["probability"]) < 0.95:
            return full + last(random, 1 - loss) + visitors("a", "b")


def limit_at_speed(random: np.random.Generator) -> str:
    r, alpha, beta = int(random.choice([2, 3, 4, 8, 16, 32])), uniform(random, 0, 0.3), any_scale(random, 1e-5, 1e-2)
    speed = r / (1 + alpha * (r - 1) + beta * r * (r - 1))
    text = station("b", "lps", law(random, 1.0), r=r, speed=f"{{ alpha = {alpha!r}, beta = {beta!r} }}")
    return text + visitors("b", rate=uniform(random, *UTILISATIONS) * speed)


def limit_at_servers(random: np.random.Generator) -> str:
    servers = int(random.choice([2, 3, 4, 8, 16]))
    text = station("b", "lps", law(random, 1.0), r=servers * int(random.choice([1, 2, 4])), servers=servers)
    return text + visitors("b", rate=uniform(random, *UTILISATIONS) * servers)


def with_limits(random: np.random.Generator) -> str:
    """Users at one to three stations, some FIFO or LPS."""
    names, text = ["a", "b", "d"][: int(random.integers(1, 4))], ""
    for name in names:
        kind = str(random.choice(["fifo", "lps", "ps"] if name != "a" else ["fifo", "lps"]))
        limit = {"r": random.choice([2, 4, 8, 16])} if kind == "lps" else {}
        text += station(name, kind, law(random, any_scale(random, 0.2, 1)), **limit)
    return text + members(random, *names)


def thesis_method(random: np.random.Generator) -> str:
    """Users at one LPS station, and up to two PS stations."""
    names = ["a", "b", "d"][: int(random.integers(1, 4))]
    text = station("a", "lps", law(random, 1.0), r=random.choice([1, 2, 4, 8, 16]))
    for name in names[1:]:
        text += station(name, "ps", f'"{any_scale(random, 0.2, 2)!r}s"')
    return text + members(random, *names)


def several_servers(random: np.random.Generator) -> str:
    names, text = ["a", "b", "d"][: int(random.integers(1, 4))], ""
    for name in names:
        servers = int(random.choice([2, 3, 4, 8, 16]))
        demand = any_scale(random, 0.2, 1) * (servers if random.integers(2) else 1)
        text += station(name, "ps", f'"{demand!r}s"', servers=servers)
    return text + members(random, *names)


def shared_by_classes(random: np.random.Generator) -> str:
    """One to three closed classes at one to five PS stations."""
    names = ["a", "b", "d", "e", "f"][: int(random.integers(1, 6))]
    classes = int(random.integers(1, 4))
    text = "".join(station(name, "ps", '"1s"') for name in names)
    for each in range(classes):
        visits = ", ".join(f'{{ station = "{name}", demand = "{any_scale(random, 0.1, 1)!r}s" }}' for name in names)
        users = round(any_scale(random, 1, [50, 30, 15][classes - 1]))
        think = any_scale(random, 0.1, 60) if random.integers(2) else 0.001
        text += f'[classes.c{each}]\nusers = {users}\nthink_time = "{think!r}s"\nroute = [{visits}]\n'
    return text


def answer_of(text: str, solver: str | None = None, percentiles: bool = False) -> SolverAnswer | None:
    """The answer of a solver, or of the first of the open ones that has one."""
    solvers = queueing.predict(queueing.System(text), percentiles=percentiles)["solvers"]
    found = [solvers[each]["answer"] for each in ([solver] if solver else ["exact-lps", "open"])]
    return next((each for each in found if each is not None), None)


def run(text: str) -> queueing.Simulation:
    return queueing.simulate(
        queueing.System(text), half_width=1e-9, jobs_min=NETWORK_JOBS, jobs_max=NETWORK_JOBS, seed=11
    )


def hold(said: str, allowed: labels.Range | None, error: float, half_width: float | None, text: str) -> None:
    """An interval that the run is too short for is no evidence."""
    if allowed is not None and half_width is not None:
        chance = CHANCE * half_width
        assert allowed[0] - chance <= error <= allowed[1] + chance, f"{error:+.3f}, said {said}: {text}"


def hold_station(text: str, label: str) -> bool:
    """Checks the mean time at b; false if its answer has another label."""
    answer = answer_of(text)
    if answer is None or label not in answer["means"]:
        return False
    found = run(text)["stations"]["b"]
    mean, half_width = found["residence_time_seconds"], found["residence_time_half_width_seconds"]
    error = answer["stations"]["b"]["residence_time_seconds"] / mean - 1
    hold(answer["means"], labels.of_mean(answer["means"], "b"), error, half_width and half_width / mean, text)
    return True


def hold_percentiles(text: str, label: str) -> bool:
    answer = answer_of(text, percentiles=True)
    if answer is None or label not in answer["percentiles"]:
        return False
    said, found = answer["percentiles"], run(text)["classes"]["c"]["response_time_seconds"]
    for figure in ("p50", "p90", "p95", "p99", "p999"):
        true, half_width = found[figure], found[f"{figure}_half_width"]  # type: ignore[literal-required]
        error = answer["classes"]["c"]["response_time_seconds"][figure] / true - 1  # type: ignore[literal-required]
        hold(said, labels.of_percentile(said, figure), error, half_width and half_width / true, f"{figure} of {text}")
    return True


def hold_users(solver: str) -> Callable[[str, str], bool]:
    """Checks response time and throughput of users against the simulation."""

    def holds(text: str, label: str) -> bool:
        answer = answer_of(text, solver)
        if answer is None or label not in answer["means"]:
            return False
        said, own, found = answer["means"], answer["classes"]["c"], run(text)["classes"]["c"]
        mean, half_width = found["response_time_seconds"]["mean"], found["response_time_seconds"]["mean_half_width"]
        error = own["response_time_seconds"]["mean"] / mean - 1
        hold(said, labels.of_mean(said), error, half_width and half_width / mean, text)
        rate, half_width = found["throughput_per_second"], found["throughput_half_width_per_second"]
        error = own["throughput_per_second"] / rate - 1
        hold(said, labels.of_throughput(said), error, half_width and half_width / rate, text)
        return True

    return holds


def hold_to_exact(solver: str, exact: str) -> Callable[[str, str], bool]:
    """Checks response times and throughputs against an exact solver."""

    def holds(text: str, label: str) -> bool:
        answer, truth = answer_of(text, solver), answer_of(text, exact)
        if answer is None or truth is None or label not in answer["means"]:
            return False
        assert truth["means"] == "exact"
        for name, own in answer["classes"].items():
            true, said = truth["classes"][name], answer["means"]
            error = own["response_time_seconds"]["mean"] / true["response_time_seconds"]["mean"] - 1
            hold(said, labels.of_mean(said), error, 0.0, text)
            hold(
                said,
                labels.of_throughput(said),
                own["throughput_per_second"] / true["throughput_per_second"] - 1,
                0.0,
                text,
            )
        return True

    return holds


Draw = Callable[[np.random.Generator], str]
Hold = Callable[[str, str], bool]
NETWORKS: dict[str, tuple[Draw, str, Hold]] = {
    "departures": (behind_irregular, "b: arrivals by their dispersion", hold_station),
    "accepted": (behind_full, "b: accepted jobs taken as Poisson", hold_station),
    "percentiles": (behind_irregular, "stations independent", hold_percentiles),
    "percentiles by size": (by_size, "stations independent", hold_percentiles),
    "percentiles of accepted": (behind_full, "stations independent", hold_percentiles),
    "limit at a speed": (limit_at_speed, "Eq. 2.2 carried over to a speed", hold_station),
    "limit at several servers": (limit_at_servers, "Eq. 2.2 carried over to several servers", hold_station),
    "without a limit": (with_limits, "taken as PS without a limit", hold_users("mva")),
    "fixed point": (thesis_method, "Eq. 2.2 at the throughput", hold_users("fixed-point")),
    "Seidmann": (several_servers, "(Seidmann)", hold_to_exact("mva", "load-dependent-mva")),
    "Bard-Schweitzer": (shared_by_classes, "Bard-Schweitzer", hold_to_exact("amva", "mva")),
}


@pytest.mark.parametrize("name", list(NETWORKS))
@pytest.mark.parametrize("count", [NETWORK_CASES, pytest.param(CASES_SLOW, marks=pytest.mark.slow)])
def test_networks_are_within_what_their_labels_say(name: str, count: int) -> None:
    draw, label, holds = NETWORKS[name]
    random, held = np.random.default_rng(count), 0
    for _ in range(10 * count):
        held += holds(draw(random), label)
        if held == count:
            return
    pytest.fail(f"only {held} of {10 * count} systems had the label")
