//! Decides whether the generator rather than the server was the limit: exhausted resources, CPU time, lateness, and
//! time that others took from its core.

use sojourn_measure::Nanos;

use crate::{http::cause::Cause, statistics::step::Errors};

/// Above this utilisation the generator has no reserve to be on time.
const GENERATOR_BUSY_MAX: f64 = 0.95;
/// In a closed loop a saturated generator slows down, so the threshold is lower.
const GENERATOR_BUSY_CLOSED_MAX: f64 = 0.90;
/// If the measurement started later than this share of the measured part, the rest is not representative.
const BEGUN_LATE_FRACTION_MAX: f64 = 0.5;
/// From this share on, time that others took from the generator's core explains its lateness.
const CORE_WAIT_WORTH_A_WORD: f64 = 0.02;
/// Above this share, the hypervisor's steal affects every figure.
const CORE_STEAL_MAX: f64 = 0.10;

pub struct GeneratorEvidence<'a> {
    /// Its CPU time over wall time.
    pub cpu_fraction: f64,
    pub send_lag_p99_seconds: Option<f64>,
    /// The limit of lateness.
    pub send_lag_p99_max: Nanos,
    /// How much later than planned the measurement started.
    pub begun_late: Nanos,
    pub measured: Nanos,
    /// The share of the time in which it waited for its core.
    pub core_wait_fraction: Option<f64>,
    /// The share of its core that the hypervisor took.
    pub core_steal_fraction: Option<f64>,
    /// True if the server is known to be saturated.
    pub server_saturated: bool,
    /// True for a closed loop.
    pub closed: bool,
    pub errors: &'a Errors,
}

impl GeneratorEvidence<'_> {
    /// Why the generator rather than the server was the limit; empty if it was not.
    pub fn reasons(&self) -> Vec<String> {
        [self.ran_out(), self.late_start(), self.busy(), self.late_sends(), self.stolen()]
            .into_iter()
            .flatten()
            .collect()
    }

    fn ran_out(&self) -> Option<String> {
        let causes = [
            (Cause::Descriptors, "ran out of descriptors: raise the limit (ulimit -n)"),
            (
                Cause::Addresses,
                "ran out of local ports: keep connections alive, lower the connection rate, or connect from \
                 more addresses (--source)",
            ),
        ];
        let (cause, what) = causes.into_iter().find(|(cause, _)| self.errors.of(*cause) > 0)?;
        Some(format!("the generator {what}; {} requests failed because of it", self.errors.of(cause)))
    }

    /// A generator without its core measures nothing meanwhile, so the start of the measurement is compared with the
    /// plan.
    fn late_start(&self) -> Option<String> {
        let (late, measured) = (self.begun_late.seconds(), self.measured.seconds());
        let limited = late > BEGUN_LATE_FRACTION_MAX * measured;
        limited.then(|| {
            format!(
                "the generator did not get its core: it started to measure {} ms late, in a measurement of {} ms",
                milliseconds(late),
                milliseconds(measured)
            )
        })
    }

    fn busy(&self) -> Option<String> {
        let busy_max = if self.closed { GENERATOR_BUSY_CLOSED_MAX } else { GENERATOR_BUSY_MAX };
        let limited = self.cpu_fraction > busy_max && !(self.closed && self.server_saturated);
        limited.then(|| format!("the generator's thread used {:.0} % of a core", self.cpu_fraction * 100.0))
    }

    fn late_sends(&self) -> Option<String> {
        let lag = self.send_lag_p99_seconds.filter(|&lag| lag > self.send_lag_p99_max.seconds())?;
        if self.server_saturated {
            return None;
        }
        let late = format!(
            "1 % of requests were sent more than {} ms late; the limit is {} ms",
            milliseconds(lag),
            milliseconds(self.send_lag_p99_max.seconds())
        );
        Some(match self.core_wait_fraction.filter(|&waited| waited > CORE_WAIT_WORTH_A_WORD) {
            Some(waited) => {
                format!(
                    "{late}; other programs held the generator's core for {:.0} % of the time",
                    waited * 100.0
                )
            }
            None => late,
        })
    }

    fn stolen(&self) -> Option<String> {
        let stolen = self.core_steal_fraction.filter(|&stolen| stolen > CORE_STEAL_MAX)?;
        Some(format!("the hypervisor took {:.0} % of the generator's core", stolen * 100.0))
    }
}

/// Formats milliseconds, without decimals if it is long.
fn milliseconds(seconds: f64) -> String {
    let milliseconds = seconds * 1e3;
    if milliseconds >= 1.0 { format!("{milliseconds:.0}") } else { format!("{milliseconds:.3}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_the_limit() {
        let none = Errors::default();
        let evidence = |cpu_fraction, lag, server_saturated, closed| GeneratorEvidence {
            cpu_fraction,
            send_lag_p99_seconds: lag,
            send_lag_p99_max: Nanos(10_000_000),
            begun_late: Nanos(40_000_000),
            measured: Nanos(200_000_000),
            core_wait_fraction: Some(0.3),
            core_steal_fraction: Some(0.01),
            server_saturated,
            closed,
            errors: &none,
        };
        let reasons = |evidence: GeneratorEvidence<'_>| evidence.reasons().join("; ");
        assert_eq!(reasons(evidence(0.5, Some(0.001), true, true)), "");
        assert_eq!(reasons(evidence(0.99, None, true, true)), "");
        assert!(reasons(evidence(0.92, None, false, true)).contains("92 %"));
        assert!(reasons(evidence(0.96, None, true, false)).contains("96 %"));
        let late = reasons(evidence(0.3, Some(0.02), false, false));
        assert!(late.contains("20 ms late") && late.contains("30 %"), "{late}");
        assert_eq!(reasons(evidence(0.3, Some(0.02), true, false)), "");
        let kept_off =
            reasons(GeneratorEvidence { begun_late: Nanos(199_800_000), ..evidence(0.0, None, false, true) });
        assert!(kept_off.contains("200 ms late, in a measurement of 200 ms"), "{kept_off}");
        let mut errors = Errors::default();
        errors.count(Cause::Addresses, Nanos(1));
        let stolen = GeneratorEvidence {
            errors: &errors,
            core_steal_fraction: Some(0.5),
            ..evidence(0.99, Some(0.02), false, false)
        };
        let all = stolen.reasons();
        assert_eq!(all.len(), 4, "{all:?}");
        assert!(all[0].contains("ports") && all[3].contains("50 %"), "{all:?}");
    }
}
