"""Stores each climb of an assessment in the run's folder as it ends, and derives the results of all.

A climb raises the load in steps: some explore where the knee is, the others repeat the steps around it.
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
    """The climbs so far in order."""

    def __init__(
        self,
        folder: RunFolder,
        effort: rising_load.Effort,
        processors: float | None = None,
        unjudged_because: str | None = None,
    ) -> None:
        """Begins without climbs.

        Args:
            folder: for the results.
            effort: of the climbs.
            processors: the server's share of its processor; None without a limit.
            unjudged_because: why no window is left out as disturbed; None to leave some out.
        """
        self.folder = folder
        self.processors = processors
        self.unjudged_because = unjudged_because
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
        """Takes the probe's recording of the climb that ends next."""
        self._recording = recording

    def keep(self, result: RequestsRecord, climb: str) -> None:
        """Takes the engine's result of a climb, complete or not, and writes all results so far."""
        self._probed_cores = result.probe.cores if result.probe else self._probed_cores
        recording, self._recording = self._recording, None
        if recording is not None:
            files.write(self.folder.path / "latency" / f"{climb}.probe.parquet", recording)
        if result.histograms is not None:
            self.folder.write_text(f"latency/{climb}.hlog", result.histograms)
        if result.timeline is not None:
            self._timeline += _timeline_rows(result.timeline, climb, recording)
            self.folder.write_table("timeline.parquet", self._timeline)
        found = steps.of_climb(result, self.effort, self.unjudged_because)
        self._steps[climb] = steps.saturated_by_share(found, self.processors) if self.processors else found
        self.rows += [steps.row(step, climb) for step in self._steps[climb]]
        self.folder.write_table("points.parquet", self.rows)

    def repetitions(self) -> list[list[ClimbStep]]:
        """The climbs used for the answer; one that was cut short says nothing about the load it did not reach."""
        climbs = self._whole()
        repeated: dict[str, list[ClimbStep]] = {}
        for name, found in climbs.items():
            repetition = rising_load.repetition_of(name)
            if repetition is not None:
                repeated[repetition] = repeated.get(repetition, []) + found
        # Each exploring climb continues where the previous one ended, so together they form one.
        explored = [step for name, found in climbs.items() if name.startswith("explore") for step in found]
        return list(repeated.values()) or [explored]

    def levels(self) -> list[list[ClimbStep]]:
        """The repetitions of each step of the staircase, including repeated single steps."""
        found = steps.levels(self.repetitions())
        for name, climb in self._whole().items():
            if name.startswith(rising_load.AGAIN):
                for level in found:
                    rate = rising_load.offered(level[0])
                    level += (step for step in climb if step.requests and rising_load.offered(step) == rate)
        return found

    def measured(self) -> dict[float, list[ClimbStep]]:
        """The same by offered requests/s."""
        return {rising_load.offered(level[0]): level for level in self.levels()}

    def _whole(self) -> dict[str, list[ClimbStep]]:
        """All climbs; of interrupted ones the completed steps."""
        return {
            name: rising_load.whole(found, self.effort) if name.endswith(rising_load.CUT_SHORT) else found
            for name, found in self._steps.items()
        }

    def saturation(self, helpers: Helpers | None) -> Saturation | None:
        """The resource that saturated first, over the repeated climbs."""
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
