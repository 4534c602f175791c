//! The run's checks of itself: steady state, Little's law, and whether the server exceeded a limit. For the generator's
//! limit see `generator_limit`.

use sojourn_measure::Reading;

use crate::{
    plan::mix::MixCheck,
    statistics::{
        measured_interval::MeasuredInterval,
        report::{Little, LittleInFlight, ServerUse, SteadyEvidence, StepLimit, StepReport},
        snapshot::StepSnapshots,
    },
};

/// From this utilisation on, a core counts as saturated.
const CORE_SATURATED: f64 = 0.95;
/// The server itself saturates its core if its processes use at least this much of it.
const SERVER_SHARE_MIN: f64 = 0.85;
/// A mix that deviates this much from its weights is chance in one run of ten thousand.
const MIX_P_VALUE_MIN: f64 = 1e-4;
/// In a steady step with enough responses, Little's law holds better than this.
const LITTLE_ERROR_MAX: f64 = 0.05;
const LITTLE_REQUESTS_MIN: u64 = 1000;
/// Throughput follows the offered rate if it reaches at least this share of it, apart from chance.
const FOLLOWS_FRACTION_MIN: f64 = 0.97;
/// Counts come in bursts of a session: twice the variance of independent ones; two deviations are chance.
const CHANCE_DEVIATIONS: f64 = 2.0;
/// A larger share of errors puts a step beyond the server's capacity.
const ERRORS_FRACTION_MAX: f64 = 0.001;
/// The share of requests that may miss a target for the 95th percentile.
const MISSED_FRACTION_MAX: f64 = 0.05;
/// The halves of a steady step differ by less than this, apart from chance.
const HALVES_DIFFER_MAX: f64 = 0.10;
/// The growth of requests in flight, as a share of the throughput, above which a step is unsteady.
const PILE_UP_FRACTION_MAX: f64 = 0.02;

impl SteadyEvidence {
    /// Compares the halves of a step, if it has all snapshots.
    pub fn of(snapshots: &StepSnapshots) -> Option<SteadyEvidence> {
        let (from, middle, end) =
            (snapshots.from.as_ref()?, snapshots.middle.as_ref()?, snapshots.end.as_ref()?);
        let (first, second) =
            (MeasuredInterval::between(from, middle), MeasuredInterval::between(middle, end));
        Some(SteadyEvidence {
            requests_per_second_first_half: first.requests_per_second()?,
            requests_per_second_second_half: second.requests_per_second()?,
            in_flight_first_half: first.in_flight_mean()?,
            in_flight_second_half: second.in_flight_mean()?,
        })
    }

    /// Returns true if the step was in steady state: the halves agree in throughput, and requests do not pile up.
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

impl Little {
    pub fn of(clients: u32, requests_per_second: f64, response_seconds: f64, think_seconds: f64) -> Little {
        let accounted = requests_per_second * (response_seconds + think_seconds);
        Little { clients, accounted, relative_error: accounted / f64::from(clients) - 1.0 }
    }
}

impl LittleInFlight {
    pub fn of(in_flight_mean: f64, requests_per_second: f64, response_seconds: f64) -> LittleInFlight {
        let accounted = requests_per_second * response_seconds;
        let relative_error = (in_flight_mean > 0.0).then(|| accounted / in_flight_mean - 1.0);
        LittleInFlight { in_flight_mean, accounted, relative_error }
    }
}

/// Returns true if the server is saturated: its core is, and if its processes are observed, they cause it.
pub fn is_saturated(server: &ServerUse) -> bool {
    let at_least = |reading: &Reading<f64>, least| reading.value().is_some_and(|&value| value >= least);
    let observed = server.cpu_fraction.value().is_some();
    at_least(&server.core_busy_fraction, CORE_SATURATED)
        && (!observed || at_least(&server.cpu_fraction, SERVER_SHARE_MIN))
}

/// The figures by which a step is judged, of its measured part.
#[derive(Debug)]
pub struct StepEvidence {
    pub offered_requests_per_second: Option<f64>,
    pub seconds: f64,
    /// Good responses completed in it.
    pub answered: u64,
    /// Requests due in it that got a good response.
    pub requests: u64,
    /// Those of them whose first byte was later than the target.
    pub late: u64,
    /// Requests due in it that were never answered, or have already waited longer than the target.
    pub overdue: u64,
    pub errors: u64,
    /// True if the generator was the limit and the server was not saturated.
    pub generator_limited: bool,
}

impl StepEvidence {
    /// Why the step exceeds the server's capacity; `None` if it does not.
    pub fn limit(&self) -> Option<StepLimit> {
        let limit = if self.has_many_errors() {
            StepLimit::Errors
        } else if !self.follows() {
            StepLimit::Throughput
        } else if self.misses_the_target() {
            StepLimit::TimeToFirstByte
        } else {
            return None;
        };
        Some(if self.generator_limited { StepLimit::Generator } else { limit })
    }

    /// The limit as a sentence with its figures.
    pub fn describe(&self, limit: StepLimit) -> String {
        let (seen, missed) = (self.attempts(), self.late + self.overdue + self.errors);
        match limit {
            StepLimit::Errors => format!("{} of {seen} requests failed", self.errors),
            StepLimit::Throughput => format!(
                "{:.0} requests/s were answered of {:.0} offered",
                self.answered as f64 / self.seconds,
                self.offered_requests_per_second.unwrap_or_default()
            ),
            StepLimit::TimeToFirstByte => {
                format!("{missed} of {seen} requests failed or waited longer than the target")
            }
            StepLimit::Generator => "the generator was the limit".to_owned(),
        }
    }

    fn attempts(&self) -> u64 {
        self.requests + self.overdue + self.errors
    }

    fn has_many_errors(&self) -> bool {
        self.errors as f64 > ERRORS_FRACTION_MAX * self.attempts() as f64
    }

    fn follows(&self) -> bool {
        let Some(rate) = self.offered_requests_per_second else { return true };
        let offered = rate * self.seconds;
        let chance = CHANCE_DEVIATIONS * (2.0 * offered).sqrt();
        self.answered as f64 >= FOLLOWS_FRACTION_MIN * offered - chance
    }

    fn misses_the_target(&self) -> bool {
        let seen = self.attempts();
        let missed = self.late + self.overdue + self.errors;
        seen == 0 || missed as f64 > MISSED_FRACTION_MAX * seen as f64
    }
}

/// Warnings that do not invalidate the results.
pub fn warnings(steps: &[StepReport], skipped: u64, mix: Option<&MixCheck>) -> Vec<String> {
    let mut warnings = Vec::new();
    if skipped > 0 {
        warnings.push(format!(
            "{skipped} arrivals were skipped because the limit of requests in flight was reached, so there was less load than \
             asked for"
        ));
    }
    if let Some(mix) = mix.filter(|mix| mix.p_value < MIX_P_VALUE_MIN) {
        warnings.push(format!(
            "the requests drawn do not match the weights of the mix: chi-square {:.1} with {} degrees of freedom, p = {:.2e}",
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
            "Little's law is off by {:.0} %: requests in flight and latencies are inconsistent",
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

    /// A second at 10,000 requests/s within every limit.
    const WITHIN: StepEvidence = StepEvidence {
        offered_requests_per_second: Some(10_000.0),
        seconds: 1.0,
        answered: 9900,
        requests: 10_000,
        late: 400,
        overdue: 0,
        errors: 10,
        generator_limited: false,
    };

    #[test]
    fn the_rule_of_saturation() {
        for (evidence, expected) in [
            (WITHIN, None),
            (StepEvidence { errors: 11, ..WITHIN }, Some(StepLimit::Errors)),
            (StepEvidence { answered: 9300, ..WITHIN }, Some(StepLimit::Throughput)),
            (StepEvidence { late: 600, ..WITHIN }, Some(StepLimit::TimeToFirstByte)),
            (StepEvidence { overdue: 200, ..WITHIN }, Some(StepLimit::TimeToFirstByte)),
            (StepEvidence { answered: 9300, generator_limited: true, ..WITHIN }, Some(StepLimit::Generator)),
            (StepEvidence { generator_limited: true, ..WITHIN }, None),
            (StepEvidence { offered_requests_per_second: None, answered: 1, ..WITHIN }, None),
        ] {
            assert_eq!(evidence.limit(), expected, "{evidence:?}");
        }
    }

    #[test]
    fn few_requests_fall_short_by_chance() {
        let slow = StepEvidence {
            offered_requests_per_second: Some(100.0),
            answered: 75,
            requests: 75,
            late: 0,
            errors: 0,
            ..WITHIN
        };
        assert_eq!(slow.limit(), None);
        assert_eq!(StepEvidence { answered: 60, ..slow }.limit(), Some(StepLimit::Throughput));
        let nothing = StepEvidence { answered: 0, requests: 0, ..slow };
        assert_eq!(nothing.limit(), Some(StepLimit::Throughput));
    }

    #[test]
    fn little() {
        assert!(Little::of(10, 100.0, 0.02, 0.08).relative_error.abs() < 1e-9);
        assert!((Little::of(10, 50.0, 0.02, 0.08).relative_error + 0.5).abs() < 1e-9);
        assert!(LittleInFlight::of(2.0, 100.0, 0.02).relative_error.unwrap().abs() < 1e-9);
        assert!(LittleInFlight::of(0.0, 0.0, 0.0).relative_error.is_none());
    }
}
