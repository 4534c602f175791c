"""Finds disturbances before a measurement: other processes, the hypervisor, thermal throttling, quotas.

The cores are observed for two seconds while none of our programs runs. Load found then will recur: a server that gets
four fifths of its core is measured as four fifths of a server. The findings are printed as sentences before the first
stage.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from pathlib import Path

from sojourn.machine.cores import Cores
from sojourn.machine.samples import TICK_SECONDS, Sample, governor, sample, siblings
from sojourn.results.records import Record

OTHER_WORK_FRACTION_MAX = 0.05
"""An idle machine's own work stays well below this; more shows in every response time."""
STOLEN_FRACTION_MAX = 0.02
FREQUENCY_CHANGE_MAX = 0.1
"""A frequency change above this makes service demands depend on the time of measurement."""
TOP_PROCESSES_MAX = 3
TOP_FRACTION_MIN = 0.01
"""Processes below this share of a core are not listed."""
SPARE = "spare"
"""The role of the core that a server started here would have: one that runs already may be anywhere."""


class Work(Record):
    """A process that used CPU time of a core."""

    name: str
    pid: int
    fraction: float
    """Share of one core, used by the process's threads that last ran on it."""


class CoreDisturbance(Record):
    """The activity of one core while nothing was measured."""

    core: int
    role: str
    """`server`, `generator`, `server and generator` where they share a core, or `spare` if the server runs already."""
    other_work_fraction: float | None
    """The share used by processes and interrupts."""
    interrupt_fraction: float | None
    steal_fraction: float | None
    sibling_work_fraction: float | None
    """The busiest sibling hardware thread of the same physical core; None without a sibling."""
    governor: str | None
    """The kernel's frequency governor."""
    frequency_hertz: list[float] | None
    """At the start and at the end."""
    heat_throttles: int | None
    """Thermal throttling events during the observation."""
    top: list[Work]
    """The processes that used most, in descending order."""


class Disturbance(Record):
    """The expected disturbance of a measurement on these cores."""

    seconds: float
    cores: list[CoreDisturbance]
    quota_cores: float | None
    """The CPU quota of the control group in cores; None without a quota."""
    throttled_seconds: float | None
    """How long the quota throttled the group."""
    unavailable: dict[str, str]
    """The reason for each missing figure."""
    sentences: list[str]
    """The disturbances in words, worst first."""
    is_quiet: bool
    """Set if every available figure is within its limit."""


def measure(cores: Cores, seconds: float = 2.0, *, starts_server: bool = True) -> Disturbance:
    """Observes both cores while this process sleeps; `starts_server` is false for a server that runs already."""
    roles = _roles(cores, starts_server=starts_server)
    before = sample(roles, beginning=True)
    started = time.monotonic()
    time.sleep(seconds)
    elapsed = time.monotonic() - started
    return between(before, sample(roles, beginning=False), roles, elapsed)


def between(
    before: Sample, after: Sample, roles: dict[int, str], seconds: float, root: Path = Path("/")
) -> Disturbance:
    """Computes the disturbance between two samples of the cores in `roles`."""
    unavailable: dict[str, str] = {}
    seen = [_core(core, roles, before, after, seconds, root) for core in roles]
    if any(each.other_work_fraction is None for each in seen):
        unavailable["other_work_fraction"] = "/proc/stat lacks the core, or did not advance"
        unavailable["steal_fraction"] = unavailable["other_work_fraction"]
    if any(each.frequency_hertz is None for each in seen):
        unavailable["frequency_hertz"] = "the kernel does not report it (no cpufreq: usual in virtual machines)"
    if any(each.heat_throttles is None for each in seen):
        unavailable["heat_throttles"] = (
            "the kernel does not count them (no thermal_throttle: usual in virtual machines)"
        )
    throttled = None
    if before.quota is None or after.quota is None:
        unavailable["quota_cores"] = "no control group limits processor time"
        unavailable["throttled_seconds"] = unavailable["quota_cores"]
    else:
        throttled = max(0.0, after.quota.throttled_seconds - before.quota.throttled_seconds)
    disturbance = Disturbance(
        seconds=seconds,
        cores=seen,
        quota_cores=None if after.quota is None else after.quota.cores,
        throttled_seconds=throttled,
        unavailable=unavailable,
        sentences=[],
        is_quiet=True,
    )
    disturbing = _disturbing(disturbance, share_core=_share_core(roles, root))
    sentences = disturbing + _remarks(disturbance)
    return disturbance.model_copy(update={"sentences": sentences, "is_quiet": not disturbing and not _unseen(seen)})


def _roles(cores: Cores, *, starts_server: bool) -> dict[int, str]:
    if cores.server is not None and cores.generator is not None:
        return {cores.server: "server" if starts_server else SPARE, cores.generator: "generator"}
    return dict.fromkeys(sorted(os.sched_getaffinity(0)), "server and generator" if starts_server else "generator")


def _core(
    core: int, roles: dict[int, str], before: Sample, after: Sample, seconds: float, root: Path
) -> CoreDisturbance:
    work = _work(core, before, after)
    span = after.cores[core] - before.cores[core] if work is not None else None
    others = [other for other in siblings(core, root) if other not in roles]
    beside = [found for other in others if (found := _work(other, before, after)) is not None]
    frequency = [each.frequency_hertz[core] for each in (before, after) if core in each.frequency_hertz]
    heat = [each.heat_throttles[core] for each in (before, after) if core in each.heat_throttles]
    return CoreDisturbance(
        core=core,
        role=roles[core],
        other_work_fraction=work,
        interrupt_fraction=None if span is None else span.interrupts / span.total,
        steal_fraction=None if span is None else span.stolen / span.total,
        sibling_work_fraction=max(beside, default=None),
        governor=governor(core, root),
        frequency_hertz=frequency if len(frequency) == 2 else None,
        heat_throttles=heat[1] - heat[0] if len(heat) == 2 else None,
        top=_top(core, before, after, seconds),
    )


def _work(core: int, before: Sample, after: Sample) -> float | None:
    if core not in before.cores or core not in after.cores:
        return None
    span = after.cores[core] - before.cores[core]
    return span.busy / span.total if span.total > 0 else None


def _top(core: int, before: Sample, after: Sample, seconds: float) -> list[Work]:
    ticks: defaultdict[int, int] = defaultdict(int)
    names = {}
    for number, thread in after.threads.items():
        if thread.core != core:
            continue
        earlier = before.threads.get(number)
        known = earlier is not None and earlier.started == thread.started
        ticks[thread.pid] += thread.ticks - (earlier.ticks if earlier is not None and known else 0)
        # A process is named after its first thread.
        if number == thread.pid or thread.pid not in names:
            names[thread.pid] = thread.name
    used = {pid: count * TICK_SECONDS / seconds for pid, count in ticks.items()}
    named = sorted((pid for pid in used if used[pid] >= TOP_FRACTION_MIN), key=lambda pid: -used[pid])
    # Ticks are sampled, so a sum may exceed the elapsed time: cap it.
    return [Work(name=names[pid], pid=pid, fraction=min(1.0, used[pid])) for pid in named[:TOP_PROCESSES_MAX]]


def _unseen(cores: list[CoreDisturbance]) -> bool:
    """Returns true if for some core it is unknown whether others use it."""
    return any(each.other_work_fraction is None for each in cores)


def _share_core(roles: dict[int, str], root: Path) -> bool:
    """Returns true if server and generator have hardware threads of the same physical core."""
    servers = [core for core, role in roles.items() if role == "server"]
    return any(roles.get(other) == "generator" for core in servers for other in siblings(core, root))


def _disturbing(found: Disturbance, *, share_core: bool) -> list[str]:
    """One sentence per exceeded limit."""
    said: list[tuple[float, str]] = []
    for each in found.cores:
        where = f"core {each.core}"
        work, stolen, beside = each.other_work_fraction, each.steal_fraction, each.sibling_work_fraction
        if work is not None and work > OTHER_WORK_FRACTION_MAX:
            said.append((work, f"Other work takes {_percent(work)} of {where}{_named(each)}: {_outcome(each)}."))
        if stolen is not None and stolen > STOLEN_FRACTION_MAX:
            said.append((stolen, f"The hypervisor takes {_percent(stolen)} of {where}: {_outcome(each)}."))
        if beside is not None and beside > OTHER_WORK_FRACTION_MAX:
            thread = f"Another hardware thread of {where}'s physical core"
            said.append((beside / 2, f"{thread} is {_percent(beside)} busy and slows it: {_outcome(each)}."))
        if each.heat_throttles:
            said.append((1.0, f"The processor slowed {where} down because of heat {each.heat_throttles} times."))
    if share_core:
        # As another hardware thread that is always busy.
        said.append((0.5, "Server and generator share a physical core: answers will be lower bounds."))
    needed = sum(each.role != SPARE for each in found.cores)
    if found.quota_cores is not None and found.quota_cores < needed:
        allowed = f"A control group allows {found.quota_cores:.2g} cores' time, and {needed} are needed"
        said.append((1.0, f"{allowed}: answers will be lower bounds."))
    if found.throttled_seconds:
        said.append((1.0, f"A control group's limit held us back for {found.throttled_seconds:.2g} s."))
    return [sentence for _, sentence in sorted(said, key=lambda each: -each[0])]


def _remarks(found: Disturbance) -> list[str]:
    """Observations that are worth knowing but no reason to wait."""
    said = []
    if _unseen(found.cores):
        why = found.unavailable["other_work_fraction"]
        said.append(f"Other work on the cores is unknown: {why}.")
    for each in found.cores:
        low, high = (min(each.frequency_hertz), max(each.frequency_hertz)) if each.frequency_hertz else (0.0, 0.0)
        if high - low > FREQUENCY_CHANGE_MAX * high:
            by = f" (governor {each.governor})" if each.governor else ""
            said.append(
                f"The frequency of core {each.core} moves{by}, {low / 1e9:.2g} to {high / 1e9:.2g} GHz: "
                "service demands depend on the load."
            )
    return said


def _outcome(core: CoreDisturbance) -> str:
    if core.role == "generator":
        return "the generator will be late, and measured response times too long"
    if core.role == SPARE:
        return "a server on this machine may get less of it"
    return "answers will be lower bounds"


def _named(core: CoreDisturbance) -> str:
    if core.top:
        return " (" + "; ".join(f"{work.name}, pid {work.pid}" for work in core.top) + ")"
    interrupts, work = core.interrupt_fraction or 0.0, core.other_work_fraction or 0.0
    return " (interrupts)" if interrupts > work / 2 else " (short-lived processes)"


def _percent(fraction: float) -> str:
    return f"{fraction * 100:.0f} %"
