//! What a simulation reports. Serialised keys carry their units; tables keep the order of the system file.

use serde::ser::{Serialize, SerializeMap, Serializer};

/// A table by name that keeps its order.
#[derive(Debug, Clone, PartialEq)]
pub struct Named<T>(pub Vec<(String, T)>);

impl<T> Named<T> {
    /// The entry of this name.
    pub fn find(&self, name: &str) -> Option<&T> {
        self.0.iter().find(|entry| entry.0 == name).map(|entry| &entry.1)
    }
}

impl<T: Serialize> Serialize for Named<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// Mean and percentiles in seconds; half-widths are of 95 % confidence intervals.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct ResponseTime {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Largest seen.
    pub max: f64,
    /// Of the mean; `None` when the run is too short to tell.
    pub mean_half_width: Option<f64>,
    /// Of the median.
    pub p50_half_width: Option<f64>,
    /// Of the 90th percentile.
    pub p90_half_width: Option<f64>,
    /// Of the 95th percentile.
    pub p95_half_width: Option<f64>,
    /// Of the 99th percentile.
    pub p99_half_width: Option<f64>,
    /// Of the 99.9th percentile.
    pub p999_half_width: Option<f64>,
}

/// The figure of a response time whose half-width ends a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Target {
    /// The mean.
    #[default]
    Mean,
    /// The median.
    P50,
    /// The 90th percentile.
    P90,
    /// The 95th percentile.
    P95,
    /// The 99th percentile.
    P99,
    /// The 99.9th percentile.
    P999,
}

impl Target {
    /// Every target with its name in results.
    pub const ALL: [(&'static str, Self); 6] = [
        ("mean", Self::Mean),
        ("p50", Self::P50),
        ("p90", Self::P90),
        ("p95", Self::P95),
        ("p99", Self::P99),
        ("p999", Self::P999),
    ];

    /// The target of this name.
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

/// Why a simulation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// The half-width asked for was reached.
    HalfWidth,
    /// The most jobs allowed were simulated first.
    JobsMax,
    /// The trace ended.
    TraceEnd,
    /// The caller asked.
    Interrupted,
}

/// One open station under Poisson arrivals.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct StationRun {
    /// False when interrupted: an estimate all the same.
    pub complete: bool,
    /// Whether the half-width asked for was reached and can be believed.
    pub converged: bool,
    /// Why it ended.
    pub stop: Stop,
    /// The seed.
    pub seed: u64,
    /// Independent replications that were pooled; sums and averages below are over all of them.
    pub replications: u32,
    /// Jobs finished.
    pub jobs: u64,
    /// Of these, left out as warm-up.
    pub warm_up_jobs: u64,
    /// The simulated time.
    pub simulated_seconds: f64,
    /// Of a job, waiting included.
    pub response_time_seconds: ResponseTime,
    /// Jobs finished per second.
    pub throughput_per_second: f64,
    /// Work done as a fraction of capacity: c servers, or the peak of v(n).
    pub utilisation: f64,
    /// λ `E[S]` / capacity, which the above must approach.
    pub utilisation_expected: f64,
    /// Mean jobs present.
    pub queue_mean: f64,
    /// (jobs present − throughput × response time) / jobs present, over the whole run: Little's law.
    pub little_relative_error: f64,
    /// Mean work found by arrivals, over the whole run; `None` unless one server works at a constant speed.
    pub workload_seconds: Option<f64>,
    /// λ `E[S²]` / 2(1−ρ), exact for every work-conserving discipline.
    pub workload_expected_seconds: Option<f64>,
    /// By what factor the workload control variate cut the variance of the mean.
    pub variance_reduction: f64,
    /// Correlation of neighbouring batch means; near 0 when the batches are long enough.
    pub lag_one: f64,
}

/// A whole system.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct SystemResult {
    /// False when interrupted: an estimate all the same.
    pub complete: bool,
    /// Whether the half-width asked for was reached and can be believed.
    pub converged: bool,
    /// Why it ended.
    pub stop: Stop,
    /// The seed.
    pub seed: u64,
    /// Independent replications that were pooled; sums and averages below are over all of them.
    pub replications: u32,
    /// Jobs finished.
    pub jobs: u64,
    /// Of these, left out as warm-up.
    pub warm_up_jobs: u64,
    /// The simulated time.
    pub simulated_seconds: f64,
    /// Of all classes together.
    pub response_time_seconds: ResponseTime,
    /// Jobs finished per second, all classes.
    pub throughput_per_second: f64,
    /// Correlation of neighbouring batch means; near 0 when the batches are long enough.
    pub lag_one: f64,
    /// (jobs in the system − throughput × response time) / jobs in the system: Little's law.
    pub little_relative_error: f64,
    /// By class.
    pub classes: Named<ClassResult>,
    /// By station.
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

/// A class of a system.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct ClassResult {
    /// Jobs finished.
    pub jobs: u64,
    /// Jobs finished per second.
    pub throughput_per_second: f64,
    /// From entering the first station to leaving the last, with the class's latency; think time excluded.
    pub response_time_seconds: ResponseTime,
    /// By route.
    pub routes: Named<RouteResult>,
}

/// A route of a class.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct RouteResult {
    /// Jobs finished.
    pub jobs: u64,
    /// As for the class.
    pub response_time_seconds: ResponseTime,
}

/// A station of a system, over the whole run.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct StationResult {
    /// Work done as a fraction of capacity, c servers or the peak of v(n); `None` at an infinite server.
    pub utilisation: Option<f64>,
    /// throughput × mean demand / capacity, which the above must approach; `None` at an infinite server.
    pub utilisation_expected: Option<f64>,
    /// Visits finished per second.
    pub throughput_per_second: f64,
    /// Mean jobs present.
    pub queue_mean: f64,
    /// Mean time per visit, waiting included.
    pub residence_time_seconds: f64,
    /// Mean demand per visit, as drawn.
    pub demand_seconds: f64,
}
