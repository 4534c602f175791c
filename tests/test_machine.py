"""Every result says which machine it was measured on, by the same object."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars

from benchmarks.paced_server import paced_server
from conftest import run
from sojourn.engine.results import Machine
from sojourn.machine import environment
from sojourn.probe import files

SETTINGS = (
    *("processor", "caches", "kernel", "virtualised", "frequency_governor", "smt_siblings"),
    *("congestion_control", "read_ahead_bytes", "clock_source", "clock_synchronised"),
)


def machine_in(*arguments: str | Path) -> dict[str, Any]:
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)["machine"]
    return found


def test_every_command_that_measures_says_what_the_machine_is(small_log: Path) -> None:
    here, json_format = environment.machine(), ("--format", "json")
    assert set(SETTINGS) < Machine.model_fields.keys()
    with paced_server(0.0005) as url:
        found = [
            machine_in("load", url, "--clients", "1", "--duration", "200ms", *json_format),
            machine_in(
                "replay",
                small_log,
                url,
                "--scale",
                "500",
                "--think-scale",
                "0.01",
                "--abandoned-limit",
                "100%",
                *json_format,
            ),
            machine_in("probe", *json_format, "--duration", "200ms", "--", "sleep", "60"),
            machine_in(
                "memory", *json_format, "--density", "quick", "--to", "2KiB", "--repetitions", "1", "--measure", "100us"
            ),
        ]
    for each in found:
        assert each["boot_id"] == here.boot_id
        assert each.keys() == here.as_json().keys()


def test_a_recording_carries_what_merging_it_elsewhere_needs(tmp_path: Path) -> None:
    path = tmp_path / "server.parquet"
    done = run("probe", "--duration", "300ms", "--interval", "50ms", "--output", path, "--", "sleep", "60")
    assert done.returncode == 0, done.stderr
    recording = files.read(path)
    assert recording.machine.boot_id == environment.machine().boot_id
    assert recording.clocks.as_json() == {"unix_seconds": "CLOCK_REALTIME", "time_seconds": "CLOCK_MONOTONIC"}
    frame = polars.read_parquet(path)
    assert frame["unix_seconds"].is_sorted()
    assert frame["time_seconds"].is_sorted()


def test_what_is_missing_is_said_in_words() -> None:
    plain = environment.plain(
        Machine.model_validate(
            {
                "kernel": "6.1",
                "boot_id": "a",
                "caches": [{"level": 1, "kind": "Data", "size_bytes": 49152, "line_bytes": 64, "shared_by": "0-1"}],
                "frequency_governor": {"unavailable": "no such file"},
                "read_ahead_bytes": {"vda": 131072},
            }
        )
    )
    assert plain == {
        "kernel": "6.1",
        "caches": ["L1 Data 48K, shared by cores 0-1"],
        "frequency_governor": "unavailable: no such file",
        "read_ahead_bytes": ["vda 131072"],
    }
