//! The run's doubts about itself: was the step steady, did Little's law hold, was the generator the limit,
//! did the server fail?

use serde::Serialize;
use sojourn_measure::{Nanos, Reading};

use crate::{Cause, ledger::StepRecord, mark::StepMarks, report::ServerUse, span::Span};

/// Above this share of a core the generator has nothing left to be on time with.
const GENERATOR_BUSY_MAX: f64 = 0.95;
/// A closed loop slows down with its generator, so that it shows a little earlier.
const GENERATOR_BUSY_CLOSED_MAX: f64 = 0.90;
/// A generator later than this distorts latencies.
const SEND_LAG_P99_SECONDS_MAX: f64 = 0.010;
/// A server core this busy has nothing left to give.
const CORE_SATURATED: f64 = 0.95;
/// It is the server that keeps its core busy when its processes use this much of it.
const SERVER_SHARE_MIN: f64 = 0.85;
/// From this share on, the time that others held the generator's core explains its lateness.
const CORE_WAIT_WORTH_A_WORD: f64 = 0.02;
/// Throughput below this share of the offered rate has left it behind, chance set aside.
const FOLLOWS_FRACTION_MIN: f64 = 0.8;
/// The share of requests that may miss the target when it is a 95th percentile.
const MISSED_FRACTION_MAX: f64 = 0.05;
/// Halves of a steady step differ by less than this, chance set aside.
const HALVES_DIFFER_MAX: f64 = 0.10;
/// Requests under way may pile up by this share of the throughput before a step counts as unsteady.
const PILE_UP_FRACTION_MAX: f64 = 0.02;

/// Both halves of a step.
#[derive(Clone, Debug, Serialize)]
pub struct SteadyEvidence {
    /// Good answers per second in the first half.
    pub requests_per_second_first_half: f64,
    /// And in the second.
    pub requests_per_second_second_half: f64,
    /// Requests under way on average in the first half.
    pub in_flight_first_half: f64,
    /// And in the second.
    pub in_flight_second_half: f64,
}

impl SteadyEvidence {
    /// Compares the halves of a step, if its marks are all there.
    pub fn of(marks: &StepMarks) -> Option<SteadyEvidence> {
        let (from, middle, end) = (marks.from.as_ref()?, marks.middle.as_ref()?, marks.end.as_ref()?);
        let (first, second) = (Span::between(from, middle), Span::between(middle, end));
        Some(SteadyEvidence {
            requests_per_second_first_half: first.requests_per_second()?,
            requests_per_second_second_half: second.requests_per_second()?,
            in_flight_first_half: first.in_flight_mean()?,
            in_flight_second_half: second.in_flight_mean()?,
        })
    }

    /// Whether the step was steady: the halves agree in throughput, and requests do not pile up.
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
#[derive(Clone, Debug, Serialize)]
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

/// What the generator's part in a result is judged by.
pub struct Suspect<'a> {
    /// Its CPU time over wall time.
    pub cpu_fraction: f64,
    /// How late it was.
    pub send_lag_p99_seconds: Option<f64>,
    /// How long others held its core.
    pub core_wait_fraction: Option<f64>,
    /// Whether the server is known to be at its limit.
    pub server_saturated: bool,
    /// Whether arrivals wait for answers.
    pub closed: bool,
    /// Errors by cause.
    pub errors: &'a [u64; Cause::ALL.len()],
}

impl Suspect<'_> {
    /// Why the generator, not the server, was the limit; `None` when it was not.
    pub fn limited_because(&self) -> Option<String> {
        let ran_out = [
            (Cause::Descriptors, "ran out of descriptors: raise the limit (ulimit -n)"),
            (Cause::Addresses, "ran out of local ports: lower the connection rate or keep connections alive"),
        ];
        if let Some((_, what)) = ran_out.into_iter().find(|(cause, _)| self.errors[*cause as usize] > 0) {
            return Some(format!("the generator {what}"));
        }
        let busy_max = if self.closed { GENERATOR_BUSY_CLOSED_MAX } else { GENERATOR_BUSY_MAX };
        let busy = self.cpu_fraction;
        if busy > busy_max && !(self.closed && self.server_saturated) {
            return Some(format!("the generator's thread used {:.0} % of a core", busy * 100.0));
        }
        if let Some(lag) =
            self.send_lag_p99_seconds.filter(|&lag| lag > SEND_LAG_P99_SECONDS_MAX && !self.server_saturated)
        {
            let late = format!("1 % of requests were sent more than {:.0} ms late", lag * 1e3);
            let waited = self.core_wait_fraction.filter(|&waited| waited > CORE_WAIT_WORTH_A_WORD);
            let held = |waited| {
                format!("{late}; others held the generator's core for {:.0} % of the time", waited * 100.0)
            };
            return Some(waited.map_or(late.clone(), held));
        }
        None
    }
}

/// Whether the server is at its limit: its core is, and where its processes are observed, by their doing.
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
    let missed = late + overdue + record.errors_total();
    let seen = record.answered + overdue + record.errors_total();
    if seen > 0 && missed as f64 > MISSED_FRACTION_MAX * seen as f64 {
        let target_ms = target_p95.seconds() * 1e3;
        return Some(format!("{missed} of {seen} requests failed or waited longer than {target_ms:.0} ms"));
    }
    let achieved = Span::between(marks.from.as_ref()?, marks.end.as_ref()?).requests_per_second()?;
    let offered = record.begun as f64 / (marks.end.as_ref()?.time - marks.from.as_ref()?.time).seconds();
    let left_behind = achieved < FOLLOWS_FRACTION_MIN * offered;
    left_behind.then(|| format!("{achieved:.0} requests/s were answered of {offered:.0} asked"))
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
    fn who_is_the_limit() {
        let none = [0; Cause::ALL.len()];
        let suspect = |cpu_fraction, lag, server_saturated, closed| Suspect {
            cpu_fraction,
            send_lag_p99_seconds: lag,
            core_wait_fraction: Some(0.3),
            server_saturated,
            closed,
            errors: &none,
        };
        assert_eq!(suspect(0.5, Some(0.001), true, true).limited_because(), None);
        assert_eq!(suspect(0.99, None, true, true).limited_because(), None);
        assert!(suspect(0.92, None, false, true).limited_because().is_some());
        assert!(suspect(0.96, None, true, false).limited_because().is_some());
        let late = suspect(0.3, Some(0.02), false, false).limited_because().unwrap();
        assert!(late.contains("20 ms late") && late.contains("30 %"), "{late}");
        assert_eq!(suspect(0.3, Some(0.02), true, false).limited_because(), None);
        let mut errors = none;
        errors[Cause::Addresses as usize] = 1;
        let exhausted = Suspect { errors: &errors, ..suspect(0.1, None, false, false) };
        assert!(exhausted.limited_because().unwrap().contains("ports"));
    }

    #[test]
    fn little() {
        assert!(Little::of(10, 100.0, 0.02, 0.08).relative_error.abs() < 1e-9);
        assert!((Little::of(10, 50.0, 0.02, 0.08).relative_error + 0.5).abs() < 1e-9);
    }
}
