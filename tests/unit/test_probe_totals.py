"""What a counter came to between the first and the last sample, or why that is not known."""

from __future__ import annotations

from sojourn.engine.results import Counter, Machine, ProbeClocks, ProbeHeader, ProbeRow, Unavailable
from sojourn.probe.recording import Recording
from sojourn.probe.totals import totals

COUNTER = Counter(name="cpu_seconds", unit="s", kind="total", tier="kernel", source="/proc/PID/stat", meaning="Time.")


def reason(*values: float | Unavailable) -> str | None:
    """Why there is no total of these samples, one a second."""
    header = ProbeHeader.model_construct(
        version="1",
        machine=Machine.model_construct(),
        clocks=ProbeClocks(unix_seconds="", time_seconds=""),
        pids=[1],
        columns=[COUNTER],
        unavailable=[],
    )
    recording = Recording.begin(header)
    for second, value in enumerate(values):
        row = ProbeRow(unix_seconds=second, time_seconds=second, sampling_seconds=0.0, values=[value])
        recording.add(row)
    (found,) = totals(recording)
    return found.unavailable


def test_a_total_that_is_missing_says_why() -> None:
    refused = Unavailable(unavailable="Too many open files")
    assert reason(1.0, 2.0) is None
    assert reason(1.0) == "a difference needs two samples"
    assert reason(1.0, refused, refused) == reason(1.0, 2.0, *[refused] * 3) == "Too many open files"
