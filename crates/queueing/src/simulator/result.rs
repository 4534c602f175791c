//! Results of a simulation. Serialised keys carry their units; tables keep the order of the system file.

use serde::Serialize;

use crate::named::Named;

/// Mean and percentiles in seconds; half-widths are of 95 % confidence intervals.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ResponseTime {
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
    /// Half-widths are `None` when the run is too short to tell.
    pub mean_half_width: Option<f64>,
    pub p50_half_width: Option<f64>,
    pub p90_half_width: Option<f64>,
    pub p95_half_width: Option<f64>,
    pub p99_half_width: Option<f64>,
    pub p999_half_width: Option<f64>,
}

/// A figure that can end a simulation: the mean response time or a percentile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Target {
    #[default]
    Mean,
    P50,
    P90,
    P95,
    P99,
    P999,
}

impl Target {
    /// Every target with its key in results.
    pub const ALL: [(&'static str, Self); 6] = [
        ("mean", Self::Mean),
        ("p50", Self::P50),
        ("p90", Self::P90),
        ("p95", Self::P95),
        ("p99", Self::P99),
        ("p999", Self::P999),
    ];

    /// The probability of a percentile; `None` for the mean.
    pub(super) fn quantile(self) -> Option<f64> {
        match self {
            Self::Mean => None,
            Self::P50 => Some(0.5),
            Self::P90 => Some(0.9),
            Self::P95 => Some(0.95),
            Self::P99 => Some(0.99),
            Self::P999 => Some(0.999),
        }
    }

    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, target)| *target)
    }
}

impl ResponseTime {
    /// An estimate in seconds with its half-width.
    pub fn target(&self, target: Target) -> (f64, Option<f64>) {
        match target {
            Target::Mean => (self.mean, self.mean_half_width),
            Target::P50 => (self.p50, self.p50_half_width),
            Target::P90 => (self.p90, self.p90_half_width),
            Target::P95 => (self.p95, self.p95_half_width),
            Target::P99 => (self.p99, self.p99_half_width),
            Target::P999 => (self.p999, self.p999_half_width),
        }
    }

    /// The half-width of an estimate as a fraction of it.
    pub fn relative_half_width(&self, target: Target) -> Option<f64> {
        let (value, half_width) = self.target(target);
        half_width.map(|half_width| half_width / value.abs().max(f64::MIN_POSITIVE))
    }
}

/// The convergence of one figure of the response time over all classes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// Set if the run had to continue until this figure converged.
    pub asked_for: bool,
    /// Set if its interval can be trusted and is as narrow as the plan wants.
    pub converged: bool,
    /// Half-width of its 95 % interval as a fraction of it.
    pub relative_half_width: Option<f64>,
    /// Why it has not converged, and the remedy.
    pub reason: Option<String>,
}

/// The reason why a simulation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// Every requested figure has converged.
    HalfWidth,
    /// `jobs_max` jobs finished first.
    JobsMax,
    TraceEnd,
    /// The callback returned false.
    Interrupted,
}

/// The result of one open station under Poisson arrivals.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StationRun {
    /// Unset when interrupted: the estimates then rest on fewer jobs.
    pub complete: bool,
    /// Set if every requested figure has converged.
    pub converged: bool,
    /// By the keys of `response_time_seconds`.
    pub figures: Named<Figure>,
    pub stop: Stop,
    pub seed: u64,
    /// The number of replications. All figures below combine them.
    pub replications: u32,
    pub jobs: u64,
    /// Jobs left out of the estimates as warm-up.
    pub warm_up_jobs: u64,
    pub simulated_seconds: f64,
    /// Response time of a job, waiting included.
    pub response_time_seconds: ResponseTime,
    pub throughput_per_second: f64,
    /// Work done as a fraction of capacity: c servers, or the peak of v(n).
    pub utilisation: f64,
    pub utilisation_half_width: Option<f64>,
    /// λ `E[S]` / capacity: `utilisation` must approach it.
    pub utilisation_expected: f64,
    /// Mean jobs present.
    pub queue_mean: f64,
    pub queue_mean_half_width: Option<f64>,
    /// Relative error of Little's law over the whole run: (jobs present − throughput × response time) / jobs present.
    pub little_relative_error: f64,
    /// Mean work found by arrivals, over the whole run; `None` unless one server works at a constant speed.
    pub workload_seconds: Option<f64>,
    /// λ `E[S²]` / 2(1−ρ), exact for every work-conserving discipline.
    pub workload_expected_seconds: Option<f64>,
    /// The factor by which the workload control variate reduced the variance of the mean.
    pub variance_reduction: f64,
    /// Correlation of the means of neighbouring sections; near 0 when they are long enough.
    pub lag_one: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SystemResult {
    /// Unset when interrupted: the estimates then rest on fewer jobs.
    pub complete: bool,
    /// Set if every requested figure has converged.
    pub converged: bool,
    /// By the keys of `response_time_seconds`.
    pub figures: Named<Figure>,
    pub stop: Stop,
    pub seed: u64,
    /// The number of replications. All figures below combine them.
    pub replications: u32,
    pub jobs: u64,
    /// Jobs left out of the estimates as warm-up.
    pub warm_up_jobs: u64,
    pub simulated_seconds: f64,
    /// Response time over all classes.
    pub response_time_seconds: ResponseTime,
    /// Jobs finished per second, without lost jobs.
    pub throughput_per_second: f64,
    /// Half the width of its 95 % interval; `None` when the run is too short to tell.
    pub throughput_half_width_per_second: Option<f64>,
    pub loss: Loss,
    /// Correlation of the means of neighbouring sections; near 0 when they are long enough.
    pub lag_one: f64,
    /// Relative error of Little's law: (jobs in the system − throughput × response time) / jobs in the system.
    pub little_relative_error: f64,
    pub classes: Named<ClassResult>,
    pub stations: Named<StationResult>,
    /// The station with the highest utilisation, if any is limited.
    pub bottleneck: Option<String>,
}

impl SystemResult {
    /// The limited station with the highest utilisation.
    pub(super) fn busiest(stations: &Named<StationResult>) -> Option<String> {
        let limited = stations.0.iter().filter_map(|(name, station)| Some((name, station.utilisation?)));
        limited.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(name, _)| name.clone())
    }
}

/// Jobs lost for good because a station was full.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Loss {
    pub jobs: u64,
    /// Jobs finished or lost, per second.
    pub offered_per_second: f64,
    /// The share of the offered jobs that is lost.
    pub probability: f64,
    /// Half-width of the 95 % interval of `probability`; `None` where nothing can be lost, or the run is too short to
    /// tell.
    pub probability_half_width: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClassResult {
    pub jobs: u64,
    /// Jobs finished per second, without lost jobs.
    pub throughput_per_second: f64,
    /// Half the width of its 95 % interval; `None` when the run is too short to tell.
    pub throughput_half_width_per_second: Option<f64>,
    pub loss: Loss,
    /// From entering the first station to leaving the last, including the class's latency and excluding think time.
    pub response_time_seconds: ResponseTime,
    pub routes: Named<RouteResult>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RouteResult {
    pub jobs: u64,
    /// The response time of jobs on this route, defined as [`ClassResult::response_time_seconds`].
    pub response_time_seconds: ResponseTime,
}

/// A station of a system after the warm-up; half-widths are of 95 % confidence intervals.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StationResult {
    /// Work done as a fraction of capacity, c servers or the peak of v(n); `None` at an infinite server.
    pub utilisation: Option<f64>,
    /// Half-widths are `None` when the run is too short to tell.
    pub utilisation_half_width: Option<f64>,
    /// throughput × mean demand / capacity: `utilisation` must approach it; `None` at an infinite server.
    pub utilisation_expected: Option<f64>,
    /// Visits finished per second.
    pub throughput_per_second: f64,
    pub throughput_half_width_per_second: Option<f64>,
    /// Mean jobs present.
    pub queue_mean: f64,
    pub queue_mean_half_width: Option<f64>,
    /// Mean time per visit, including waiting and being blocked afterwards, from the arrival that found room.
    pub residence_time_seconds: f64,
    pub residence_time_half_width_seconds: Option<f64>,
    /// The mean demand per visit that the run drew.
    pub demand_seconds: f64,
    /// The share of arrivals, retries included, that find the station full; `None` without a capacity.
    pub full_probability: Option<f64>,
    pub full_probability_half_width: Option<f64>,
}
