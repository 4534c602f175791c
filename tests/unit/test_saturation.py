"""Which resource was full first: by declared limits, the cause before its effect, and no claim without evidence."""

from __future__ import annotations

import pytest

from sojourn.engine.results import ServerUse, TcpTrouble
from sojourn.loading.record import ProbeUse, Saturation, Step
from sojourn.loading.saturation import Setting, find
from sojourn.probe.totals import CounterUse

TWO_CORES = Setting(cores=2)


def step(rate: float, *, user: float = 0.2, **levels: float) -> Step:
    """A probed step of a second; the levels are in the counters' own units."""
    counters = {
        "cpu_seconds": CounterUse(per_second=levels.get("cpu", 0.1), total=levels.get("cpu", 0.1)),
        "busiest_thread_fraction": CounterUse(mean=levels.get("thread", 0.1)),
        "memory_pressure_some_seconds": CounterUse(per_second=levels.get("memory", 0.0)),
        "blocked_threads": CounterUse(mean=levels.get("disk", 0.0)),
        "major_faults": CounterUse(total=levels.get("faults", 0.0)),
        "accept_queue": CounterUse(minimum=levels.get("queue", 0.0)),
        "listen_overflows": CounterUse(total=levels.get("overflows", 0.0)),
    }
    probe = ProbeUse(counters=counters, cpu_user_seconds_per_request=user, cpu_system_seconds_per_request=1 - user)
    return Step.model_construct(
        requests_per_second=rate, duration_seconds=1.0, bytes_per_second=1000 * rate, probe=probe
    )


def found_in(*steps: Step, setting: Setting = TWO_CORES) -> Saturation:
    points = [(each.requests_per_second or 0.0, f"{each.requests_per_second:g}/s", [each]) for each in steps]
    found = find(points, setting)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("levels", "name"),
    [
        ({"cpu": 1.9}, "CPU"),
        ({"thread": 0.95}, "CPU"),
        ({"memory": 0.2}, "memory stalls"),
        ({"faults": 50.0}, "page faults"),
        ({"disk": 1.7}, "disk"),
        ({"queue": 3.0}, "accept queue"),
        ({"overflows": 1.0}, "accept queue"),
    ],
)
def test_each_resource_is_found_where_it_alone_is_full(levels: dict[str, float], name: str) -> None:
    found = found_in(step(100), step(200, **levels))
    assert (found.first, found.at) == (name, "200/s")


def test_the_lowest_load_decides_and_then_the_cause() -> None:
    assert found_in(step(300, cpu=2.0), step(100), step(200, queue=5)).first == "accept queue"
    both = found_in(step(100), step(200, cpu=1.9, queue=5))
    assert both.first == "CPU"
    assert "Also saturated at that load: accept queue" in both.sentence


def test_a_core_that_the_server_filled_with_the_kernels_help_is_full() -> None:
    server = ServerUse(core_busy_fraction=0.97, cpu_fraction=0.86)
    filled = step(200, cpu=0.86, thread=0.86).model_copy(update={"server": server, "server_saturated": True})
    assert found_in(step(100), filled, setting=Setting(cores=1)).first == "CPU"
    others = filled.model_copy(update={"server_saturated": False})
    assert found_in(step(100), others, setting=Setting(cores=1)).first is None


def test_the_processors_time_is_told_apart() -> None:
    assert "80 % in the kernel" in found_in(step(100, cpu=2.0, user=0.2)).sentence
    assert "90 % in user code" in found_in(step(100, cpu=2.0, user=0.9)).sentence


def test_a_line_and_helpers_count_only_where_they_are_known() -> None:
    assert found_in(step(100)).first is None
    assert found_in(step(100), setting=Setting(2, line_bits_per_second=850_000.0)).first == "network"
    busy = Setting(2, helpers=4, helper_seconds_per_request=0.037)
    assert found_in(step(100), setting=busy).first == "helpers"


def test_nothing_full_is_said_and_what_was_not_looked_at_is_named() -> None:
    found = found_in(step(100))
    assert found.first is None
    assert found.sentence.startswith("Not shown")
    assert "network, helpers" in found.sentence
    assert Saturation.model_validate(found.as_json()) == found


def test_a_server_that_nobody_looked_at_has_no_finding() -> None:
    assert (
        find([(1.0, "1/s", [Step.model_construct(requests_per_second=1.0, duration_seconds=1.0)])], Setting()) is None
    )


def test_without_a_probe_the_servers_own_core_tells() -> None:
    observed = ServerUse(core_busy_fraction=0.97, cpu_fraction=0.95, cpu_user_fraction=0.3, major_faults=0)
    seen = Step.model_construct(
        requests_per_second=10.0, duration_seconds=1.0, server=observed, tcp=TcpTrouble(listen_overflows=0)
    )
    found = find([(10.0, "10/s", [seen])], Setting())
    assert found is not None
    assert found.first == "CPU"
    assert "70 % in the kernel" in found.sentence
