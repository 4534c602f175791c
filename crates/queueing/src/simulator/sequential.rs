//! Sequential stopping: the run ends when two checks in a row find every requested figure converged.
//!
//! Each look is a chance to stop because the run happens to look steadier than it is. So the number of jobs grows by
//! 1.4 to 2 times between looks, and one look is not enough: with a single one, nominal 95 % confidence intervals of
//! very variable demand covered 90 %. All replications have the same length at every look, fixed before it: one that
//! stopped by itself, when it looked low, would pull the average down.

use super::estimate::Estimates;
use super::replications::{Advance, Advanced};
use super::result::{Stop, Target};
use super::{Plan, Progress};

/// Consecutive checks that must find the figures converged.
const LOOKS_IN_A_ROW: u32 = 2;
/// The figures reported in every result: their sections must be long enough for an interval, however wide, before the
/// run ends. A control variate makes the mean converge long before them.
const ALWAYS_LONG_ENOUGH: [Target; 3] = [Target::P50, Target::P90, Target::P95];

/// A check of the requested figures at one moment.
#[derive(Clone, Copy)]
struct Look {
    /// The estimate furthest from its goal, in seconds.
    value: f64,
    /// Its half-width as a fraction of it; infinite when unknown.
    relative_half_width: f64,
    reached: bool,
}

/// Runs until every figure of the plan has converged or `should_continue` returns false; with `whole`, to the end of a trace.
/// `jobs_min` applies to each replication.
pub(super) fn run_until_stop<E: Advance>(
    replications: &mut E,
    plan: &Plan,
    jobs_min: u64,
    whole: bool,
    estimates: &dyn Fn(&E) -> Estimates,
    should_continue: &mut dyn FnMut(&Progress) -> bool,
) -> Stop {
    let count = u64::from(plan.replications);
    let jobs_max = plan.jobs_max.div_ceil(count);
    let jobs_min = jobs_min.max(plan.jobs_min.div_ceil(count));
    let mut look_at = if whole { jobs_max } else { jobs_min.clamp(1, jobs_max) };
    let (mut seen, mut passed) = (None::<Look>, 0);
    loop {
        let advanced = replications.advance(look_at, &mut |jobs| {
            should_continue(&Progress {
                jobs,
                jobs_max: plan.jobs_max,
                estimate_seconds: seen.map(|look| look.value),
                relative_half_width: seen.map(|look| look.relative_half_width),
            })
        });
        match advanced {
            Advanced::Ended => return Stop::TraceEnd,
            Advanced::Interrupted => return Stop::Interrupted,
            Advanced::Done if look_at >= jobs_max => return Stop::JobsMax,
            Advanced::Done => {}
        }
        let look = plan.check(&estimates(replications));
        passed = if look.reached { passed + 1 } else { 0 };
        if passed == LOOKS_IN_A_ROW {
            return Stop::HalfWidth;
        }
        look_at = plan.next_look(look_at, jobs_max, look.relative_half_width);
        seen = Some(look);
    }
}

impl Plan {
    fn check(&self, estimates: &Estimates) -> Look {
        let relative = |target: Target| {
            let (value, half_width) = (estimates.figure(target).value, estimates.figure(target).half_width);
            (value, half_width.map_or(f64::INFINITY, |width| width / value.abs().max(f64::MIN_POSITIVE)))
        };
        let asked = self.targets.iter().map(|target| relative(*target));
        let (value, relative_half_width) =
            asked.max_by(|one, other| one.1.total_cmp(&other.1)).unwrap_or((0.0, 0.0));
        let long_enough = ALWAYS_LONG_ENOUGH.iter().all(|target| {
            !estimates.figure(*target).half_width.is_err_and(|unreliable| unreliable.needs_longer_run())
        });
        let reached = long_enough && relative_half_width <= self.relative_half_width;
        Look { value, relative_half_width, reached }
    }

    /// The number of jobs at the next check, given the half-width now.
    fn next_look(&self, jobs: u64, jobs_max: u64, relative_half_width: f64) -> u64 {
        // The half-width falls as 1/√n.
        let needed = (relative_half_width / self.relative_half_width).powi(2) * 1.05;
        let factor = if needed.is_finite() { needed.clamp(1.4, 2.0) } else { 2.0 };
        ((jobs as f64 * factor) as u64).max(jobs + 1).min(jobs_max)
    }
}
