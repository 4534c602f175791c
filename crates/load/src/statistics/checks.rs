//! The run's checks of itself: was the step in steady state, did Little's law hold, did the server fail? For the
//! generator as the limit, see `generator_limit`.

use schemars::JsonSchema;
use serde::Serialize;
use sojourn_measure::{Nanos, Reading};

use crate::{
    plan::mix::MixCheck,
    statistics::{
        measured_interval::MeasuredInterval,
        report::{ServerUse, StepReport},
        snapshot::StepMarks,
        step::StepRecord,
    },
};

/// A server core this busy has nothing left to give.
const CORE_SATURATED: f64 = 0.95;
/// It is the server that keeps its core busy when its processes use this much of it.
const SERVER_SHARE_MIN: f64 = 0.85;
/// A mix as far from its weights as this is chance in one run of ten thousand.
const MIX_P_VALUE_MIN: f64 = 1e-4;
/// Little's law holds better than this in a steady step with this many answers or more.
const LITTLE_ERROR_MAX: f64 = 0.05;
const LITTLE_REQUESTS_MIN: u64 = 1000;
/// Throughput below this share of the offered rate has left it behind, chance set aside.
const FOLLOWS_FRACTION_MIN: f64 = 0.8;
/// The share of requests that may miss the target when it is a 95th percentile.
const MISSED_FRACTION_MAX: f64 = 0.05;
/// Halves of a steady step differ by less than this, chance set aside.
const HALVES_DIFFER_MAX: f64 = 0.10;
/// Requests under way may pile up by this share of the throughput before a step counts as unsteady.
const PILE_UP_FRACTION_MAX: f64 = 0.02;

/// Both halves of a step.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SteadyEvidence {
    /// Good answers per second in the first half.
    pub requests_per_second_first_half: f64,
    pub requests_per_second_second_half: f64,
    /// Requests under way on average in the first half.
    pub in_flight_first_half: f64,
    pub in_flight_second_half: f64,
}

impl SteadyEvidence {
    /// Compares the halves of a step, if its marks are all there.
    pub fn of(marks: &StepMarks) -> Option<SteadyEvidence> {
        let (from, middle, end) = (marks.from.as_ref()?, marks.middle.as_ref()?, marks.end.as_ref()?);
        let (first, second) =
            (MeasuredInterval::between(from, middle), MeasuredInterval::between(middle, end));
        Some(SteadyEvidence {
            requests_per_second_first_half: first.requests_per_second()?,
            requests_per_second_second_half: second.requests_per_second()?,
            in_flight_first_half: first.in_flight_mean()?,
            in_flight_second_half: second.in_flight_mean()?,
        })
    }

    /// Returns true if the step was steady: the halves agree in throughput, and requests do not pile up.
    pub fn is_steady(&self, step_seconds: f64) -> bool {
        let (first, second) = (self.requests_per_second_first_half, self.requests_per_second_second_half);
        let mean = (first + second) / 2.0;
        // Counts come in bursts of a session: twice the spread of independent ones, three deviations.
        let chance = 3.0 * 2.0 * (2.0 * mean / (step_seconds / 2.0)).sqrt();
        let agrees = (first - second).abs() <= (HALVES_DIFFER_MAX * mean).max(chance);
        // The mean moves from the first half's centre to the second's in half a step.
        let pile_up_per_second =
            (self.in_flight_second_half - self.in_flight_first_half) / (step_seconds / 2.0);
        let few = self.in_flight_second_half <= 1.5 * self.in_flight_first_half + 2.0;
        agrees && (few || pile_up_per_second <= PILE_UP_FRACTION_MAX * mean)
    }
}

/// Little's law for a closed loop: N = X (R + Z). A large error is a bug of the generator, or clients that
/// spent their time on failures.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Little {
    /// N, the clients there are.
    pub clients: u32,
    /// X (R + Z), the clients accounted for.
    pub accounted: f64,
    /// How far they are apart.
    pub relative_error: f64,
}

impl Little {
    /// Checks a step of a closed loop.
    pub fn of(clients: u32, requests_per_second: f64, response_seconds: f64, think_seconds: f64) -> Little {
        let accounted = requests_per_second * (response_seconds + think_seconds);
        Little { clients, accounted, relative_error: accounted / f64::from(clients) - 1.0 }
    }
}

/// Little's law for requests in progress, with any arrivals: L = X W. Both sides are measured separately: the left one
/// is an integral over time, the right one counts answers.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LittleInFlight {
    /// L, requests under way on average.
    pub in_flight_mean: f64,
    /// X W, requests accounted for: good answers per second times their mean time since they were sent.
    pub accounted: f64,
    /// How far they are apart. Requests that fail, pile up or outlive the step are not accounted for.
    pub relative_error: Option<f64>,
}

impl LittleInFlight {
    pub fn of(in_flight_mean: f64, requests_per_second: f64, response_seconds: f64) -> LittleInFlight {
        let accounted = requests_per_second * response_seconds;
        let relative_error = (in_flight_mean > 0.0).then(|| accounted / in_flight_mean - 1.0);
        LittleInFlight { in_flight_mean, accounted, relative_error }
    }
}

/// Returns true if the server is at its limit: its core is, and where its processes are observed, by their doing.
pub fn is_saturated(server: &ServerUse) -> bool {
    let at_least = |reading: &Reading<f64>, least| reading.value().is_some_and(|&value| value >= least);
    let observed = server.cpu_fraction.value().is_some();
    at_least(&server.core_busy_fraction, CORE_SATURATED)
        && (!observed || at_least(&server.cpu_fraction, SERVER_SHARE_MIN))
}

/// Why the server failed a step, if it did. `overdue` are its requests that have waited longer than the
/// target for an answer; they are not in the record yet.
pub fn failing(record: &StepRecord, marks: &StepMarks, overdue: u64, target_p95: Nanos) -> Option<String> {
    let late = record.time_to_first_byte_intended.count_above(target_p95);
    let missed = late + overdue + record.errors.total();
    let seen = record.answered + overdue + record.errors.total();
    if seen > 0 && missed as f64 > MISSED_FRACTION_MAX * seen as f64 {
        let target_ms = target_p95.seconds() * 1e3;
        return Some(format!("{missed} of {seen} requests failed or waited longer than {target_ms:.0} ms"));
    }
    let achieved =
        MeasuredInterval::between(marks.from.as_ref()?, marks.end.as_ref()?).requests_per_second()?;
    let offered = record.begun as f64 / (marks.end.as_ref()?.time - marks.from.as_ref()?.time).seconds();
    let left_behind = achieved < FOLLOWS_FRACTION_MIN * offered;
    left_behind.then(|| format!("{achieved:.0} requests/s were answered of {offered:.0} asked"))
}

/// Doubts that do not void the results.
pub fn warnings(steps: &[StepReport], skipped: u64, mix: Option<&MixCheck>) -> Vec<String> {
    let mut warnings = Vec::new();
    if skipped > 0 {
        warnings.push(format!(
            "{skipped} arrivals were skipped: as many as allowed were under way, and so less load was made than \
             asked for"
        ));
    }
    if let Some(mix) = mix.filter(|mix| mix.p_value < MIX_P_VALUE_MIN) {
        warnings.push(format!(
            "what was asked for does not fit its weights: chi-square {:.1} with {} degrees of freedom, p = {:.2e}",
            mix.chi_square, mix.degrees_of_freedom, mix.p_value
        ));
    }
    let overflows: u64 = steps.iter().filter_map(|step| step.tcp.listen_overflows.value()).sum();
    if overflows > 0 {
        warnings.push(format!(
            "a listen queue on this machine overflowed {overflows} times: each costs a client a second or more"
        ));
    }
    let unaccounted = |step: &StepReport| {
        let error = step.little_in_flight.as_ref()?.relative_error?;
        let counts = step.steady && step.figures.errors == 0 && step.figures.requests >= LITTLE_REQUESTS_MIN;
        (counts && error.abs() > LITTLE_ERROR_MAX).then_some(error)
    };
    if let Some(error) = steps.iter().filter_map(unaccounted).max_by(|a, b| a.abs().total_cmp(&b.abs())) {
        warnings.push(format!(
            "Little's law is off by {:.0} %: requests under way and latencies do not fit together",
            error * 100.0
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn halves(throughput: [f64; 2], in_flight: [f64; 2]) -> SteadyEvidence {
        SteadyEvidence {
            requests_per_second_first_half: throughput[0],
            requests_per_second_second_half: throughput[1],
            in_flight_first_half: in_flight[0],
            in_flight_second_half: in_flight[1],
        }
    }

    #[test]
    fn piling_up_is_not_steady() {
        assert!(halves([1000.0, 1020.0], [5.0, 6.0]).is_steady(4.0));
        assert!(!halves([1000.0, 1010.0], [50.0, 450.0]).is_steady(4.0));
        assert!(!halves([10_000.0, 5_000.0], [5.0, 5.0]).is_steady(4.0));
        assert!(halves([2.0, 4.0], [0.1, 0.2]).is_steady(4.0), "few requests differ by chance");
    }

    #[test]
    fn little() {
        assert!(Little::of(10, 100.0, 0.02, 0.08).relative_error.abs() < 1e-9);
        assert!((Little::of(10, 50.0, 0.02, 0.08).relative_error + 0.5).abs() < 1e-9);
        assert!(LittleInFlight::of(2.0, 100.0, 0.02).relative_error.unwrap().abs() < 1e-9);
        assert!(LittleInFlight::of(0.0, 0.0, 0.0).relative_error.is_none());
    }
}
