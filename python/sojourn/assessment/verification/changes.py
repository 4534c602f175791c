"""The table of changes that can be made here to verify predictions, by the names of `--verify`.

A change says why it cannot be made, predicts its effect, and arranges how the server is started and reached. A
prediction may first need a measurement of another baseline (`Baselines`), but never of the changed system itself.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, Protocol

from sojourn import systems
from sojourn.assessment.model import Station
from sojourn.assessment.summary import DemandFit, Knee, Step
from sojourn.assessment.verification import predictions
from sojourn.assessment.verification.assessed import Assessed
from sojourn.assessment.verification.predictions import Expectation, scaled
from sojourn.failure import CouldNotRun
from sojourn.machine.confinement import Confinement, processors_unlimited_because
from sojourn.results.records import Interval
from sojourn.systems import Launch, Server
from sojourn.systems.server import EVERYWHERE, LOOPBACK
from sojourn.text import format

LINE_SHARE = 0.25
"""The slower line carries this share of the server's capacity, so that the line is clearly the bottleneck."""
LINE_BITS_PER_SECOND_MAX = 100e6
"""The fastest emulated line: the link copies every packet, and would take too much of a core beside a server and a
generator.
"""
LINE_QUEUE_SECONDS = 0.1
"""The longest queue of the line in seconds: packets are seldom lost, and the first byte arrives in time."""
QUEUE_PACKETS_MIN = 50
PACKET_BYTES = 1500
WORKERS_SHARE = 0.5
"""The fewer workers can hold this share of the capacity."""
WORKERS_MAX = 2000
KEEP_A_CONNECTION = ("mp", "mt", "helper")
"""Architectures whose workers hold a connection until it ends."""
TUN = Path("/dev/net/tun")


@dataclass(frozen=True)
class Arrangement:
    """How to start and reach a changed system."""

    server: Server
    launch: Launch
    link: tuple[str, ...] = ()

    @property
    def processors(self) -> float | None:
        """The server's share of its processor; None without a limit."""
        return self.launch.confinement.processors if self.launch.confinement else None


class LightLoads(NamedTuple):
    """Another server under the log's own mix."""

    steps: Sequence[Step]
    slower: float
    """How much longer the assessed server took meanwhile than in the assessment, as a factor of CPU time."""


class Baselines(Protocol):
    """Measures the starting point of a prediction, where the assessment lacks it."""

    def climb(self, arrangement: Arrangement, name: str, capacity: float) -> Knee:
        """Measures the knee of another arrangement, given a first estimate."""
        ...

    def demand(self, arrangement: Arrangement, name: str) -> DemandFit:
        """Measures the service demand of another server."""
        ...

    def light_loads(self, arrangement: Arrangement, name: str, rates: Sequence[float]) -> LightLoads:
        """Measures another server under the log's own mix at low rates, in requests/s."""
        ...


class Change(Protocol):
    """A kind of change to an assessed system."""

    @property
    def says(self) -> str:
        """Describes the change."""
        ...

    def inapplicable(self, assessed: Assessed) -> str | None:
        """The reason why it does not apply to this server; None if it does."""
        ...

    def unavailable(self, assessed: Assessed) -> str | None:
        """The reason why it cannot be made here; None if it can."""
        ...

    def arrangement(self, assessed: Assessed) -> Arrangement:
        """How to start and reach the changed system."""
        ...

    def expectation(self, assessed: Assessed, baselines: Baselines) -> Expectation:
        """The predicted effect."""
        ...


@dataclass(frozen=True)
class Processor:
    """Another share of the processor, from the whole one or from a confined baseline."""

    processors: float
    baseline: float = 1.0

    @property
    def says(self) -> str:
        if self.baseline == 1.0:
            return f"{self.processors:g} of the server's processor instead of the whole"
        return f"{self.processors:g} of the server's processor instead of {self.baseline:g}"

    def inapplicable(self, assessed: Assessed) -> str | None:
        return None

    def unavailable(self, assessed: Assessed) -> str | None:
        if not assessed.cores.pinned:
            return "server and generator have no cores of their own"
        if not assessed.is_local:
            return "the server was not started here"
        return processors_unlimited_because()

    def arrangement(self, assessed: Assessed) -> Arrangement:
        return _confined(assessed, self.processors)

    def expectation(self, assessed: Assessed, baselines: Baselines) -> Expectation:
        if self.baseline == 1.0:
            had = assessed.processor_fraction
            capacity = scaled(self.processors / had * assessed.capacity, assessed.capacity_range)
            basis = (
                f"{self.processors:g} of a processor instead of the {had:.2f} that the server had at its capacity; "
                "demands as fitted, under a quota"
            )
            return self._share(assessed, assessed.station, capacity, basis)
        first = self.baseline * assessed.capacity
        knee = baselines.climb(_confined(assessed, self.baseline), f"processor-{self.baseline:g}", first)
        if knee.requests_per_second <= 0:
            raise CouldNotRun(f"with {self.baseline:g} of its processor the server keeps up with no load")
        growth = self.processors / self.baseline
        capacity = Interval(estimate=growth * knee.requests_per_second, low=growth * knee.low, high=growth * knee.high)
        demands = assessed.station.demands
        factor = self.baseline / knee.requests_per_second / float(demands.mean())
        station = replace(assessed.station, demands=factor * demands, capacity=1 / (factor * float(demands.mean())))
        basis = (
            f"{growth:g} times the {format.rate(knee.requests_per_second)} measured with {self.baseline:g} of the "
            "processor: a second whole one is the generator's here"
        )
        return self._share(assessed, station, capacity, basis)

    def _share(self, assessed: Assessed, station: Station, capacity: Interval, basis: str) -> Expectation:
        return predictions.processor_share(
            station, assessed.sessions, assessed.light, self.processors, capacity, assessed.seed, basis
        )


@dataclass(frozen=True)
class Helpers:
    """Twice as many disk helpers, or a single one."""

    more: bool

    @property
    def says(self) -> str:
        return "twice the helpers" if self.more else "one helper instead of several"

    def inapplicable(self, assessed: Assessed) -> str | None:
        if assessed.helpers is None:
            return "the server has no helpers"
        return "the server has one helper" if self._count(assessed) == assessed.helpers else None

    def unavailable(self, assessed: Assessed) -> str | None:
        return None

    def arrangement(self, assessed: Assessed) -> Arrangement:
        return Arrangement(assessed.server, replace(assessed.launch, helpers=self._count(assessed)))

    def expectation(self, assessed: Assessed, baselines: Baselines) -> Expectation:
        assert assessed.helpers is not None
        count, capacity = self._count(assessed), assessed.capacity
        basis = "the helpers did too little to be a limit: nothing changes"
        if assessed.helper_limit is not None:
            limit = assessed.helper_limit * count / assessed.helpers
            capacity = min(capacity, limit)
            basis = f"{count} helpers would be busy at {format.rate(limit)}; the processor at {format.rate(capacity)}"
        return predictions.same_processor(
            assessed.station,
            assessed.sessions,
            scaled(capacity, assessed.capacity_range),
            assessed.seed,
            basis,
            is_assessed_server=True,
        )

    def _count(self, assessed: Assessed) -> int:
        assert assessed.helpers is not None
        return 2 * assessed.helpers if self.more else 1


@dataclass(frozen=True)
class FewerWorkers:
    """So few workers that they are the limit, not the processor."""

    says = "so few workers that they can hold only half of the load"

    def inapplicable(self, assessed: Assessed) -> str | None:
        if assessed.server.has_architectures and assessed.launch.architecture in KEEP_A_CONNECTION:
            return None
        return f"workers have a connection until it ends with --architecture {', '.join(KEEP_A_CONNECTION)} only"

    def unavailable(self, assessed: Assessed) -> str | None:
        count = self._count(assessed)
        return None if count <= WORKERS_MAX else f"it would be {count:,} workers"

    def arrangement(self, assessed: Assessed) -> Arrangement:
        options = (*assessed.launch.options, "--workers", str(self._count(assessed)))
        return Arrangement(assessed.server, replace(assessed.launch, options=options))

    def expectation(self, assessed: Assessed, baselines: Baselines) -> Expectation:
        count = self._count(assessed)
        capacity = min(assessed.capacity, count / _held_seconds(assessed))
        basis = f"{count} workers, each with a session for {format.seconds(_held_seconds(assessed))} per request"
        return predictions.few_workers(
            assessed.station,
            assessed.sessions,
            count,
            scaled(capacity, assessed.capacity_range),
            assessed.seed,
            basis,
        )

    def _count(self, assessed: Assessed) -> int:
        return max(1, math.ceil(WORKERS_SHARE * assessed.capacity * _held_seconds(assessed)))


def _held_seconds(assessed: Assessed) -> float:
    trace = assessed.sessions.trace
    thinking = trace.mean_session_duration_seconds / trace.mean_requests_per_session * assessed.sessions.think_scale
    return thinking + float(assessed.station.demands.mean())


@dataclass(frozen=True)
class SlowLine:
    """An emulated access line that is the bottleneck."""

    says = "an access line that carries less than the server"

    def inapplicable(self, assessed: Assessed) -> str | None:
        return None

    def unavailable(self, assessed: Assessed) -> str | None:
        if not assessed.server.builds_site or not assessed.server.has_architectures:
            return "behind a link only our own server can be reached: others listen on the loopback"
        if os.geteuid() != 0:
            return "the link makes network namespaces, which needs root"
        return None if TUN.exists() else f"the link needs {TUN}"

    def arrangement(self, assessed: Assessed) -> Arrangement:
        rate = self._bits_per_second(assessed)
        packets = max(QUEUE_PACKETS_MIN, math.ceil(rate * LINE_QUEUE_SECONDS / 8 / PACKET_BYTES))
        # Beside the polling generator it would be late; the server has little work behind such a line.
        core = [] if assessed.cores.server is None else ["--core", str(assessed.cores.server)]
        link = ("--rate", f"{rate:.0f}bit/s", "--queue", str(packets), *core)
        return Arrangement(assessed.server, replace(assessed.launch, address=EVERYWHERE), link)

    def expectation(self, assessed: Assessed, baselines: Baselines) -> Expectation:
        rate = self._bits_per_second(assessed)
        basis = f"a line of {format.bandwidth(rate)}, with the log's transfers as packets"
        return predictions.slower_line(assessed.station, assessed.mix, rate, assessed.seed, basis)

    def _bits_per_second(self, assessed: Assessed) -> float:
        bytes_mean = float(predictions.bytes_on_the_line(assessed.mix).mean())
        rate = min(LINE_BITS_PER_SECOND_MAX, LINE_SHARE * assessed.capacity * 8 * bytes_mean)
        # Rounded to two digits, as one would order a line.
        unit = 10.0 ** (math.floor(math.log10(rate)) - 1)
        return math.floor(rate / unit) * unit


@dataclass(frozen=True)
class OtherServer:
    """Another server on the same site, predicted by its own service demands."""

    name: str

    @property
    def says(self) -> str:
        return f"{self.name} instead"

    def inapplicable(self, assessed: Assessed) -> str | None:
        return "it is the server that was assessed" if assessed.server.name == self.name else None

    def unavailable(self, assessed: Assessed) -> str | None:
        if not assessed.is_local:
            return "the server was not started here"
        if assessed.launch.address != LOOPBACK and not systems.find(self.name).has_architectures:
            return f"{self.name} listens on the loopback, which the machines that generate the load do not reach"
        return None

    def arrangement(self, assessed: Assessed) -> Arrangement:
        return Arrangement(systems.find(self.name), replace(assessed.launch, architecture=OUR_ARCHITECTURE))

    def expectation(self, assessed: Assessed, baselines: Baselines) -> Expectation:
        own = baselines.demand(self.arrangement(assessed), self.name)
        # A first estimate, assuming that its mix costs as much more than single documents as on the assessed server.
        about = assessed.capacity * float(assessed.mix.demands(assessed.demand_fit).mean())
        rates = [fraction * about / float(assessed.mix.demands(own).mean()) for fraction in LIGHT_FRACTIONS]
        light = baselines.light_loads(self.arrangement(assessed), self.name, rates)
        # As it would have been in the assessment: capacities are compared with that one's.
        station = predictions.other_server(assessed, own, light.steps).slowed(1 / light.slower)
        factor, (low, high) = station.calibration, assessed.capacity_range
        capacity = scaled(station.capacity, (low * factor.estimate / factor.high, high * factor.estimate / factor.low))
        if capacity.high > CAPACITIES_APART_MAX * capacity.low:
            said = f"{format.rate(capacity.low)} to {format.rate(capacity.high)}"
            raise CouldNotRun(
                f"its light loads tell its capacity too roughly: {said}", "verify on a machine with less other work"
            )
        basis = (
            f"g(x) = {own.fixed_seconds.estimate * 1e6:.2f} us + {own.seconds_per_byte.estimate * 1e9:.3f} ns/B x, "
            f"its own; the mix costs {factor.estimate:.2f} times its documents, measured up to {format.rate(rates[-1])}"
        )
        return predictions.same_processor(
            station, assessed.sessions, capacity, assessed.seed, basis, is_assessed_server=False
        )


LIGHT_FRACTIONS = (0.15, 0.3, 0.4)
"""Light loads as fractions of another server's first capacity estimate, below the compared loads."""
CAPACITIES_APART_MAX = 3.0
"""The ends of a capacity's interval may be this far apart, as a factor; beyond it nothing is predicted."""
OUR_ARCHITECTURE = "amped"
"""The architecture of our server where it is the other one."""


def _confined(assessed: Assessed, processors: float) -> Arrangement:
    confinement = Confinement(assessed.launch.root, processors=processors, drop_pages="none")
    return Arrangement(assessed.server, replace(assessed.launch, confinement=confinement))


CHANGES: Mapping[str, Change] = {
    "half-processor": Processor(0.5),
    "quarter-processor": Processor(0.25),
    "twice-processor": Processor(0.5, baseline=0.25),
    "more-helpers": Helpers(more=True),
    "one-helper": Helpers(more=False),
    "fewer-workers": FewerWorkers(),
    "slow-line": SlowLine(),
    "nginx": OtherServer("nginx"),
    "apache2": OtherServer("apache2"),
    "sojourn": OtherServer("sojourn"),
}
