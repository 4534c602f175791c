"""`sojourn.queueing` against known values: the module is thin, so each test crosses it once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sojourn import queueing

SYSTEMS = Path(__file__).parents[2] / "studies" / "systems"
SIZES = queueing.log_normal(7.811, 1.573)
DEMAND = SIZES.affine(0.4851e-6, 21.55e-3)
"""The thesis's web server: E[S] = 25.675 ms, E[S²] = 844.20 ms²."""

WITH_DENSITY = [
    queueing.exponential(2.0),
    queueing.erlang(3.0, 4),
    queueing.hyper_exponential(1.0, 10.0),
    queueing.log_normal(0.5, 0.8),
    queueing.pareto(1.2, 1.0, 100.0),
    queueing.exponential(2.0).affine(3.0, 1.0),
    queueing.mixture([(3.0, queueing.exponential(1.0)), (1.0, queueing.erlang(5.0, 3))]),
]


def test_moments_of_the_thesis() -> None:
    assert SIZES.mean == pytest.approx(8_502.9, rel=1e-4)
    assert DEMAND.mean == pytest.approx(25.675e-3, rel=1e-3)
    assert DEMAND.second_moment == pytest.approx(844.20e-6, rel=1e-3)
    assert DEMAND.variance == pytest.approx(DEMAND.second_moment - DEMAND.mean**2)


@pytest.mark.parametrize("law", WITH_DENSITY, ids=repr)
def test_the_density_is_the_slope_of_the_distribution_function(law: queueing.Distribution) -> None:
    x = law.quantile(np.linspace(0.05, 0.95, 19))
    step = 1e-5 * x
    slope = (law.cdf(x + step) - law.cdf(x - step)) / (2 * step)
    np.testing.assert_allclose(law.pdf(x), slope, rtol=1e-3)
    np.testing.assert_allclose(law.cdf(x), np.linspace(0.05, 0.95, 19), rtol=1e-6)
    assert law.pdf([-1.0]) == 0


@pytest.mark.parametrize(
    "law", [*WITH_DENSITY, queueing.deterministic(3.0), queueing.empirical([1, 2], [3, 1])], ids=repr
)
def test_samples_have_the_mean(law: queueing.Distribution) -> None:
    sample = law.sample(200_000, seed=7)
    # Six standard errors: it fails by chance about once in 10⁹ runs.
    assert abs(sample.mean() - law.mean) <= 6 * np.sqrt(law.variance / len(sample)) + 1e-12
    assert np.array_equal(sample, law.sample(200_000, seed=7))


def test_laws_with_atoms_have_no_density() -> None:
    for law in (queueing.deterministic(1.0), queueing.empirical([1.0, 2.0])):
        with pytest.raises(ValueError, match="no density"):
            law.pdf([1.0])


@pytest.mark.parametrize(
    "make",
    [
        lambda: queueing.exponential(-1.0),
        lambda: queueing.hyper_exponential(1.0, 0.5),
        lambda: queueing.mixture([]),
        lambda: queueing.empirical([[1.0, 2.0]]),
        lambda: SIZES.quantile(1.0),
        lambda: queueing.Lps(40.0, DEMAND),
        lambda: queueing.Lps(10.0, DEMAND, r=0),
        lambda: queueing.ExactLps(10.0, DEMAND, 4),
        lambda: queueing.fit_laws([1.0, 2.0]),
        lambda: queueing.simulate_station([1.0, 0.5], [1.0, 1.0]),
    ],
)
def test_what_is_out_of_its_domain_is_refused(make: object) -> None:
    with pytest.raises(ValueError, match=r"\S+ \S+"):
        make()  # type: ignore[operator]


def test_closed_forms_between_fifo_and_ps() -> None:
    rate = 0.8 / DEMAND.mean
    fifo, limited, shared = (queueing.Lps(rate, DEMAND, r) for r in (1, 4, None))
    assert fifo.mean_response_time == pytest.approx(91.44e-3, rel=1e-3)
    assert shared.mean_response_time == pytest.approx(128.4e-3, rel=1e-3)
    assert fifo.mean_response_time < limited.mean_response_time < shared.mean_response_time
    assert fifo.mean_response_time == pytest.approx(fifo.mean_workload + DEMAND.mean)
    assert limited.conditional_mean(DEMAND.mean)[0] == pytest.approx(limited.mean_response_time)
    assert fifo.validity()["exact"]
    assert not limited.validity()["exact"]


def test_exact_lps_of_a_law_and_of_its_moments() -> None:
    rate, law = 0.8 / 25.675e-3, queueing.hyper_exponential(25.675e-3, 10.0)
    station = queueing.ExactLps(rate, law, 4)
    assert station.mean_response_time == pytest.approx(349.65e-3, rel=1e-4)
    assert queueing.ExactLps(rate, (law.mean, 10.0), 4).mean_response_time == pytest.approx(station.mean_response_time)
    quantiles = station.quantile([0.5, 0.95])
    np.testing.assert_allclose(quantiles, [59.9e-3, 1723e-3], rtol=2e-3)
    np.testing.assert_allclose(station.survival(quantiles), [0.5, 0.05], rtol=1e-3)
    high, low = (
        queueing.Lps(rate, law, 4).mean_response_time,
        queueing.Lps(rate, law, 4).heavy_traffic_mean_response_time,
    )
    assert low < station.mean_response_time < high


def test_fits_find_the_law() -> None:
    fits = queueing.fit_laws(SIZES.sample(20_000))
    assert fits[0]["family"] == "log-normal"
    assert fits[0]["parameters"]["mu"] == pytest.approx(7.811, abs=0.05)
    assert all(fit["anderson_darling"] >= fits[0]["anderson_darling"] for fit in fits[1:])
    sample = queueing.hyper_exponential(2.0, 6.0).sample(50_000)
    moments = queueing.fit_moments(sample)
    assert (moments["mean"], moments["scv"]) == pytest.approx(
        (sample.mean(), sample.var() / sample.mean() ** 2), rel=1e-3
    )
    tail = queueing.fit_tail(queueing.pareto(1.5, 1.0, 1e9).sample(50_000))
    assert abs(tail["shape"] - 1.5) < 4 * tail["shape_standard_error"]


def test_a_station_under_poisson_arrivals() -> None:
    result = queueing.simulate_poisson(10.0, [0.08], 1, half_width=0.01, seed=3)
    # M/D/1 at 0.8: the wait is ρ/2(1−ρ) services.
    assert result["response_time_seconds"]["mean"] == pytest.approx(0.08 * 3, rel=0.03)
    responses = queueing.simulate_station(np.arange(3.0), [2.0, 1.0, 1.0], 1)
    np.testing.assert_allclose(responses, [2.0, 2.0, 2.0])


def test_a_system_says_what_it_is() -> None:
    system = queueing.System.from_file(SYSTEMS / "isp-with-proxy.toml")
    assert [station.name for station in system.stations] == ["proxy", "line", "backbone", "web"]
    (members,) = system.classes
    assert (members.users, members.rate_per_second) == (10, None)
    assert [route.probability for route in members.routes] == [0.51, 0.49]
    hit, miss = system.demands("members", [1_000.0, 100_000.0])
    np.testing.assert_allclose(hit[0], [0.01121 + 0.2329e-6 * size for size in (1_000, 100_000)])
    np.testing.assert_allclose(miss[1], 0.195)
    document = system.document("members")
    assert document is not None
    assert document.mean == pytest.approx(8_502.9, rel=1e-4)


def test_a_system_file_error_has_file_line_and_cure(tmp_path: Path) -> None:
    path = tmp_path / "broken.toml"
    path.write_text((SYSTEMS / "public-site.toml").read_text().replace('"web", "line"', '"wbe", "line"'))
    with pytest.raises(queueing.SystemFileError, match="did you mean `web`") as failure:
        queueing.System.from_file(path)
    assert failure.value.path == path
    assert path.read_text().splitlines()[(failure.value.line or 0) - 1].startswith("route")


def test_prediction_and_simulation_agree() -> None:
    system = queueing.System.from_file(SYSTEMS / "public-site.toml")
    answer = queueing.predict(system)["solvers"]["open"]["answer"]
    assert answer is not None
    simulated = queueing.simulate(system, half_width=0.01)
    predicted = answer["classes"]["visitors"]["response_time_seconds"]["mean"]
    assert simulated["response_time_seconds"]["mean"] == pytest.approx(predicted, rel=0.02)


def test_an_interrupted_simulation_keeps_its_estimate() -> None:
    system = queueing.System.from_file(SYSTEMS / "public-site.toml")
    seen: list[int] = []

    def interrupt(jobs: int, jobs_max: int, estimate: float | None, half_width: float | None) -> None:
        seen.append(jobs)
        raise KeyboardInterrupt

    result = queueing.simulate(system, half_width=1e-6, progress=interrupt)
    assert (result["complete"], result["stop"]) == (False, "interrupted")
    assert result["jobs"] == seen[0]
    assert result["response_time_seconds"]["mean"] == pytest.approx(0.283, rel=0.05)


def test_a_failing_callback_is_not_swallowed() -> None:
    def fail(jobs: int, jobs_max: int, estimate: float | None, half_width: float | None) -> None:
        raise RuntimeError("the caller's own")

    with pytest.raises(RuntimeError, match="the caller's own"):
        queueing.simulate(queueing.System.from_file(SYSTEMS / "public-site.toml"), half_width=1e-6, progress=fail)


def test_importing_it_loads_nothing_heavy() -> None:
    program = "import sys, sojourn.queueing; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert not {"scipy", "polars", "pydantic", "rich", "typer"} & set(loaded)


def test_a_simulation_stops_at_a_percentile_and_pools_replications() -> None:
    system = queueing.System.from_file(SYSTEMS / "public-site.toml")
    result = queueing.simulate(system, half_width=0.02, target="p95", replications=3)
    times = result["response_time_seconds"]
    assert (result["converged"], result["replications"]) == (True, 3)
    assert times["p95_half_width"] is not None
    assert times["p95_half_width"] <= 0.02 * (times["p95"] or 0)
    with pytest.raises(ValueError, match="p999"):
        queueing.simulate(system, target="p42")  # type: ignore[arg-type]


def test_a_speed_that_falls_with_the_jobs_overloads_earlier() -> None:
    text = """
        stations.cpu = { discipline = "lps", r = 32, speed = { alpha = 0.1, beta = 0.01 }, demand = "10ms" }
        classes.visitors = { rate = "90/s", route = ["cpu"] }
    """
    assert queueing.System(text).unstable_station() is None
    assert queueing.System(text).stations[0].state_dependent
    assert queueing.System(text.replace("90/s", "400/s")).unstable_station() == "cpu"


def test_the_scalability_law_is_recovered() -> None:
    loads = np.array([1, 2, 4, 8, 16, 32, 64, 128], dtype=float)
    throughputs = 100 * loads / (1 + 0.05 * (loads - 1) + 2e-4 * loads * (loads - 1))
    fit = queueing.fit_usl(loads[1:], throughputs[1:])
    assert fit["gamma"]["estimate"] == pytest.approx(100, rel=1e-3)
    assert fit["peak_load"] == pytest.approx(np.sqrt(0.95 / 2e-4), rel=1e-2)


def test_percentiles_of_open_systems_agree_with_simulation() -> None:
    system = queueing.System.from_file(SYSTEMS / "public-site.toml")
    answer = queueing.predict(system)["solvers"]["open"]["answer"]
    assert answer is not None
    predicted = answer["classes"]["visitors"]["response_time_seconds"]["p95"]
    simulated = queueing.simulate(system, target="p95", half_width=0.01)["response_time_seconds"]["p95"]
    assert predicted == pytest.approx(simulated, rel=0.05)
    means = queueing.predict(system, percentiles=False)["solvers"]["open"]["answer"]
    assert means is not None
    assert means["classes"]["visitors"]["response_time_seconds"]["p95"] is None
