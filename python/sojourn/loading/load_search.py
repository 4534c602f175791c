"""Capacity search against a real server: runs the engine at loads and judges each run by thresholds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from sojourn import interrupts
from sojourn.failure import CouldNotRun
from sojourn.loading import folder, metrics
from sojourn.loading.record import AnyStep, Saturation, SearchRecord
from sojourn.loading.result import LoadResult
from sojourn.loading.run import option, plays_streams, seed_of, with_option
from sojourn.loading.saturation import Setting
from sojourn.loading.saturation import find as saturation_of
from sojourn.loading.search import GROWTH, Found, OutOfTime, Plan, Trial, search
from sojourn.loading.stream_metrics import require_of_streams
from sojourn.loading.threshold import Threshold
from sojourn.results.run_folder import RunFolder
from sojourn.text import format

ERROR_RATE_MAX = "error_rate<1%"
"""The error threshold added unless you give one."""
LAG_SHARE = 0.1
"""The generator may send 1 % of its requests late by this share of the tightest time limit."""
LAG_SECONDS_MIN = 0.010
"""The engine's default limit, which applies to searches with short time limits."""
LOADS = {"--rate": "requests/s", "--clients": "clients"}
"""Engine options that a search can vary, with the unit of the load."""

Runner = Callable[[Sequence[str]], LoadResult]
"""Runs the engine with the given options."""


class LoadSearch:
    """A search for the largest `--rate` or `--clients` that satisfies all thresholds."""

    def __init__(
        self,
        options: Sequence[str],
        thresholds: Sequence[Threshold],
        runner: Runner,
        *,
        budget_seconds: float,
        precision: float,
        output: RunFolder | None = None,
        line_bits_per_second: float | None = None,
        growth: float = GROWTH,
        told: Callable[[Trial, Found], None] = lambda trial, found: None,
    ) -> None:
        varied = [name for name in LOADS if option(options, name) is not None]
        if len(varied) != 1:
            raise CouldNotRun("a search varies the rate or the clients", "give --rate or --clients to start from")
        plays = plays_streams(options)
        if plays:
            require_of_streams([threshold.metric for threshold in thresholds])
        elif not any(threshold.metric.name.startswith("error") for threshold in thresholds):
            thresholds = [*thresholds, Threshold.parse(ERROR_RATE_MAX)]
        self.name, self.thresholds = varied[0], thresholds
        self.unit = "streams" if plays else LOADS[varied[0]]
        self._options = [*options] if plays else _with_lag_limit(options, thresholds)
        self._runner, self._told, self._output = runner, told, output
        start = _start(self.name, option(options, self.name) or "")
        self._plan = Plan(start, precision, whole=self.name == "--clients", growth=growth)
        self._deadline = time.monotonic() + budget_seconds
        self._longest = 0.0
        self._line_bits_per_second = line_bits_per_second
        self._points: dict[float, list[AnyStep]] = {}
        self._cores: int | None = None
        self._runs = 0

    def run(self) -> Found:
        """Searches until the result is precise enough, the time is up, or the user interrupts."""
        found = search(self._measure, self._plan, self._keep)
        self._write(found)
        return found

    def _measure(self, load: float) -> Trial:
        # Between two runs there was no program that would have heard it.
        interrupts.raise_unheard()
        began = time.monotonic()
        if began + self._longest > self._deadline:
            raise OutOfTime
        result = self._runner(_at(self._options, self.name, load, self._runs))
        self._longest = max(self._longest, time.monotonic() - began)
        if result.record.interrupted:
            raise KeyboardInterrupt
        self._runs += 1
        if result.limited_because is None:
            self._points.setdefault(load, []).extend(result.record.steps)
            self._cores = result.record.probe.cores if result.record.probe else self._cores
        if self._output is not None:
            folder.write_point(self._output, self._runs, result)
        values = {each.metric.name: each.metric.of_run(result) for each in self.thresholds}
        # A server that stopped responding has failed the load; that run is not void.
        passed = result.complete and all(each.holds(values[each.metric.name]) for each in self.thresholds)
        void = result.limited_because if result.complete else None
        if lost := result.lost_machines:
            void = f"{', '.join(lost)} generated no load to the end"
        also = "throughput" if result.is_streams else "rps"
        values[also] = metrics.find(also).of_run(result)
        return Trial(load, passed and void is None, void, values)

    def _keep(self, found: Found) -> None:
        self._write(found)
        self._told(found.trials[-1], found)

    def _write(self, found: Found) -> None:
        if self._output is not None:
            self._output.write_json(folder.SEARCH, self.record(found).as_json())

    def record(self, found: Found) -> SearchRecord:
        """The search so far, with its options."""
        saturation = self.saturation()
        return SearchRecord.model_validate(
            {
                "varied": self.name.removeprefix("--"),
                "unit": self.unit,
                "options": [*self._options],
                "thresholds": [str(each) for each in self.thresholds],
                "conditions": [
                    {"metric": each.metric.name, "operator": each.operator, "limit": each.limit}
                    for each in self.thresholds
                ],
                **found.as_json(),
                **({"saturation": saturation} if saturation else {}),
            }
        )

    def saturation(self) -> Saturation | None:
        """The first saturated resource, over all runs in which the generator was not the limit."""
        points = [(load, f"{format.number(load, 4)} {self.unit}", steps) for load, steps in self._points.items()]
        return saturation_of(points, Setting(self._cores, self._line_bits_per_second))


def _with_lag_limit(options: Sequence[str], thresholds: Sequence[Threshold]) -> list[str]:
    """Adds a lag limit for the generator that follows the target, unless the options contain one.

    If responses may take 300 ms, requests sent 20 ms late do not invalidate a run.
    """
    times = [each.limit for each in thresholds if each.metric.quantity == "time" and each.operator.startswith("<")]
    if not times or option(options, "--lag-limit") is not None:
        return [*options]
    return with_option(options, "--lag-limit", f"{max(LAG_SECONDS_MIN, LAG_SHARE * min(times)):.6g}s")


def _at(options: Sequence[str], name: str, load: float, run: int) -> list[str]:
    """The options at another load, with a different seed in every run."""
    return with_option(with_option(options, name, f"{load:.10g}"), "--seed", str(seed_of(options) + run))


def _start(name: str, text: str) -> float:
    number = text.strip().removesuffix("/s")
    try:
        start = float(number)
    except ValueError:
        raise CouldNotRun(f"{text!r} is not a load to start from", f"{name} 100") from None
    if not 0 < start < math.inf:
        raise CouldNotRun(f"{name} {text} is not a load", f"{name} 100")
    return start
