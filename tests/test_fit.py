"""`sojourn fit` on tables that were made up, and what the commands after it make of its files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

from conftest import run
from example_run import example_summary, write_example
from sojourn import _native
from sojourn.calibration.fit import Options
from sojourn.calibration.kinds import fit_table
from sojourn.calibration.tables import Table
from sojourn.queueing import System


def fitted(*arguments: str | Path) -> dict[str, Any]:
    done = run("fit", *arguments, "--format", "json")
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    assert result["held_out"], "an error on held-out points belongs to every fit"
    return result


def simulated(text: str, path: Path) -> dict[str, Any]:
    path.write_text(text)
    done = run("simulate", path, "--half-width", "0.05", "--format", "json")
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.fixture(scope="module")
def requests() -> polars.DataFrame:
    """Two classes at an LPS-4 station at 80 % load."""
    random = np.random.default_rng(2)
    classes = random.choice(["page", "image"], 4000, p=[0.3, 0.7])
    demands = random.exponential(np.where(classes == "page", 0.02, 0.005))
    accepted = np.cumsum(random.exponential(demands.mean() / 0.8, len(demands)))
    ended = accepted + _native.simulate_station(accepted, demands, 4)
    return polars.DataFrame({"accepted_at_seconds": accepted, "ended_at_seconds": ended, "class": classes})


@pytest.mark.parametrize("suffix", ["csv", "json", "parquet"])
def test_times_of_requests_give_r_and_a_demand_per_class(
    requests: polars.DataFrame, tmp_path: Path, suffix: str
) -> None:
    table = tmp_path / f"requests.{suffix}"
    getattr(requests, f"write_{suffix}")(table)
    result = fitted(table)
    assert result["kind"] == "requests"
    assert result["estimates"]["r"] == 4
    assert result["estimates"]["demand_seconds"]["page"]["estimate"] == pytest.approx(0.02, rel=0.1)
    assert result["estimates"]["demand_seconds"]["image"]["estimate"] == pytest.approx(0.005, rel=0.1)
    again = simulated(result["system_file"], tmp_path / "system.toml")
    measured = (requests["ended_at_seconds"] - requests["accepted_at_seconds"]).mean()
    assert again["response_time_seconds"]["mean"] == pytest.approx(measured, rel=0.3)


@pytest.mark.parametrize("law", ["constant", "shifted", "pareto", "two-branches", "erlang"])
def test_every_law_of_demands_is_written_so_that_it_is_read(law: str, tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    count = 1500
    demands = {
        "constant": np.full(count, 0.01),
        "shifted": 0.02 + random.lognormal(-6, 1.5, count),
        "pareto": 0.001 / (1 - 0.99 * random.random(count)) ** 0.6,
        "two-branches": random.exponential(np.where(random.random(count) < 0.9, 0.005, 0.05)),
        "erlang": random.gamma(6, 0.002, count),
    }[law]
    accepted = np.cumsum(random.exponential(demands.mean() / 0.5, count))
    table = tmp_path / "requests.parquet"
    ended = accepted + _native.simulate_station(accepted, demands, 3)
    polars.DataFrame({"accepted_at_seconds": accepted, "ended_at_seconds": ended}).write_parquet(table)
    system = System(fit_table(Table.read(table), Options()).system_text())
    assert system.stations[0].r == 3
    visit = system.classes[0].routes[0].visits[0]
    assert visit.demand_mean_seconds == pytest.approx(demands.mean(), rel=0.1)


def test_hits_and_misses_of_a_proxy_become_routes(tmp_path: Path) -> None:
    sizes = np.repeat([500, 5_000, 50_000, 500_000], 2)
    rows = [
        {"size_bytes": int(size), "demand_seconds": fixed + 2e-9 * size, "outcome": outcome}
        for outcome, fixed in (("hit", 1e-3), ("miss", 5e-3))
        for size in sizes
    ]
    table = tmp_path / "proxy.csv"
    polars.DataFrame(rows).write_csv(table)
    refused = run("fit", table)
    assert refused.returncode == 2
    assert "--hit-ratio" in refused.stderr
    result = fitted(table, "--hit-ratio", "0.4", "--rate", "100")
    miss = result["estimates"]["service_demand miss"]
    assert miss["fixed_seconds"]["estimate"] == pytest.approx(5e-3, rel=0.01)
    again = simulated(result["system_file"], tmp_path / "system.toml")
    expected = 0.4 * 1e-3 + 0.6 * 5e-3 + 2e-9 * sizes.mean()
    assert again["stations"]["server"]["utilisation"] == pytest.approx(100 * expected, rel=0.05)


def test_intervals_give_demands_by_the_utilisation_law(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    rates = random.uniform(10, 100, (30, 2))
    table = tmp_path / "intervals.csv"
    polars.DataFrame(
        {
            "utilisation": (rates @ [2e-3, 5e-3] + 0.02) * random.normal(1, 0.01, 30),
            "requests_per_second.static": rates[:, 0],
            "requests_per_second.dynamic": rates[:, 1],
        }
    ).write_csv(table)
    output = tmp_path / "fitted.toml"
    done = run("fit", table, "--output", output)
    assert done.returncode == 0, done.stderr
    assert "error on held-out points, utilisation" in done.stdout
    text = output.read_text()
    assert "# error on held-out points" in text
    again = simulated(text, output)
    assert set(again["classes"]) == {"static", "dynamic", "background"}
    assert again["stations"]["server"]["utilisation"] == pytest.approx(rates.mean(0) @ [2e-3, 5e-3] + 0.02, rel=0.05)


def test_scaling_becomes_the_speed_of_a_station(tmp_path: Path) -> None:
    clients = np.array([1.0, 2, 4, 8, 16, 32, 64])
    truth = 40 * clients / (1 + 0.03 * (clients - 1) + 0.002 * clients * (clients - 1))
    table = tmp_path / "scaling.csv"
    polars.DataFrame({"clients": clients, "requests_per_second": truth}).write_csv(table)
    result = fitted(table)
    assert result["estimates"]["peak_clients"] == pytest.approx(np.sqrt(0.97 / 0.002), rel=0.01)
    # Sixty-four users who never think see the throughput that was measured with as many clients.
    again = simulated(result["system_file"], tmp_path / "system.toml")
    assert again["classes"]["clients"]["throughput_per_second"] == pytest.approx(truth[-1], rel=0.05)


@pytest.mark.parametrize(
    ("header", "row", "said"),
    [
        ("a,b", "1,2", "columns by kind"),
        ("utilisation,requests_per_second", "1.2,3", "above 1"),
        ("size_bytes,demand_seconds", "0,3", "size_bytes must be above 0, but row 1 has 0"),
        ("size_bytes,demand_seconds", "x,3", "column size_bytes is not of numbers"),
        ("size_bytes,demand_seconds", "5,3", "one document size"),
        ("clients,requests_per_second", "5,3", "too few for the scalability law"),
        ("accepted_at_seconds,ended_at_seconds", "5,6", "1 requests: between"),
    ],
)
def test_bad_tables_are_refused_with_what_and_where(tmp_path: Path, header: str, row: str, said: str) -> None:
    table = tmp_path / "bad.csv"
    table.write_text(f"{header}\n{row}\n")
    done = run("fit", table)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert said in done.stderr


def test_what_is_neither_run_nor_table_is_refused(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "nowhere.csv", tmp_path / "notes.txt"):
        done = run("fit", place)
        assert done.returncode == 2
        assert str(place) in done.stderr


@pytest.fixture
def assessed(tmp_path: Path, small_log: Path) -> Path:
    path = tmp_path / "run"
    write_example(path)
    _native.import_log(str(small_log)).save(str(path / "trace.sojourn"))
    return path


def test_runs_are_fitted_together(assessed: Path, tmp_path: Path) -> None:
    result = fitted(assessed, assessed)
    assert result["kind"] == "runs"
    summary = example_summary()
    assert summary.demand_fit is not None
    assert result["estimates"]["basis"] == "cpu"
    assert result["points"] > 2 * len(summary.demand_points)
    assert [error["quantity"] for error in result["held_out"]] == ["demand", "response_time_mean", "response_time_p95"]
    again = simulated(result["system_file"], tmp_path / "system.toml")
    assert again["stations"]["server"]["utilisation"] == pytest.approx(0.5, abs=0.1)


def test_runs_of_different_servers_are_refused(assessed: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    write_example(other, settings=example_summary().settings.model_copy(update={"server": "nginx"}))
    done = run("fit", assessed, other)
    assert done.returncode == 2
    assert "different servers" in done.stderr
