"""What the climbs of an assessment measured: kept in the run's folder as each ends, and what follows from all.

A climb goes up in steps of load: some explore where the knee is, the others repeat what was found.
"""

from __future__ import annotations

import polars

from sojourn.assessment import rising_load, steps
from sojourn.assessment.resources import Helpers
from sojourn.assessment.steps import ClimbStep
from sojourn.engine.results import Timeline
from sojourn.loading.record import RequestsRecord, Saturation
from sojourn.loading.saturation import Setting, find
from sojourn.probe import files
from sojourn.probe.merging import merge
from sojourn.probe.recording import Recording
from sojourn.results.run_folder import RunFolder
from sojourn.text import format


class Climbs:
    """The climbs so far, in their order."""

    def __init__(self, folder: RunFolder, effort: rising_load.Effort, processors: float | None = None) -> None:
        """`processors` is what the server may use of its processor's time; None: all."""
        self.folder = folder
        self.processors = processors
        self.effort = effort
        self.rows: list[steps.Row] = []
        """Every step of every climb."""
        self._steps: dict[str, list[ClimbStep]] = {}
        self._timeline: list[dict[str, object]] = []
        self._recording: Recording | None = None
        self._probed_cores: int | None = None

    def __len__(self) -> int:
        return len(self._steps)

    def recorded(self, recording: Recording) -> None:
        """Takes what the probe saw of the server during the climb that ends next."""
        self._recording = recording

    def keep(self, result: RequestsRecord, climb: str) -> None:
        """Takes what the generator says of a climb, whole or cut short, and writes all that is known by now."""
        self._probed_cores = result.probe.cores if result.probe else self._probed_cores
        recording, self._recording = self._recording, None
        if recording is not None:
            files.write(self.folder.path / "latency" / f"{climb}.probe.parquet", recording)
        if result.histograms is not None:
            self.folder.write_text(f"latency/{climb}.hlog", result.histograms)
        if result.timeline is not None:
            self._timeline += _timeline_rows(result.timeline, climb, recording)
            self.folder.write_table("timeline.parquet", self._timeline)
        found = steps.of_climb(result, self.effort)
        self._steps[climb] = steps.saturated_by_share(found, self.processors) if self.processors else found
        self.rows += [steps.row(step, climb) for step in self._steps[climb]]
        self.folder.write_table("points.parquet", self.rows)

    def repetitions(self) -> list[list[ClimbStep]]:
        """The climbs that the answer comes from: what was cut short says nothing of the load it would have come to."""
        climbs = self._whole()
        repeated: dict[str, list[ClimbStep]] = {}
        for name, found in climbs.items():
            repetition = rising_load.repetition_of(name)
            if repetition is not None:
                repeated[repetition] = repeated.get(repetition, []) + found
        # Every exploring climb goes on where the one before it ended: together they are one.
        explored = [step for name, found in climbs.items() if name.startswith("explore") for step in found]
        return list(repeated.values()) or [explored]

    def levels(self) -> list[list[ClimbStep]]:
        """By step of the staircase, its repetitions, and what was measured of it again."""
        found = steps.levels(self.repetitions())
        for name, climb in self._whole().items():
            if name.startswith(rising_load.AGAIN):
                for level in found:
                    rate = rising_load.offered(level[0])
                    level += (step for step in climb if step.requests and rising_load.offered(step) == rate)
        return found

    def _whole(self) -> dict[str, list[ClimbStep]]:
        """All climbs, of those that were cut short what came to its end."""
        return {
            name: rising_load.whole(found, self.effort) if name.endswith(rising_load.CUT_SHORT) else found
            for name, found in self._steps.items()
        }

    def saturation(self, helpers: Helpers | None) -> Saturation | None:
        """Which resource was full first, over the climbs that were repeated."""
        points: dict[float, list[ClimbStep]] = {}
        for step in (step for repetition in self.repetitions() for step in repetition):
            points.setdefault(rising_load.offered(step), []).append(step)
        setting = Setting(
            cores=self.processors or self._probed_cores,
            helpers=helpers.count if helpers else None,
            helper_seconds_per_request=helpers.busy_seconds_per_request if helpers else None,
        )
        return find(
            [(rate, f"{format.number(rate, 4)}/s", steps) for rate, steps in points.items()],
            setting,
        )


def _timeline_rows(timeline: Timeline, climb: str, recording: Recording | None) -> list[dict[str, object]]:
    rows = polars.DataFrame(timeline.columns.as_json(), infer_schema_length=None)
    if recording is not None and rows.height:
        rows = merge(rows, recording).fill_nan(None)
    return [{"climb": climb} | row for row in rows.to_dicts()]
