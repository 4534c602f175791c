//! Sequential stopping: the run ends when two looks in a row find the half-width small enough.
//!
//! Each look is a chance to stop because the run happens to look steadier than it is. So the number of jobs grows by
//! 1.4 to 2 times between looks, and one look is not enough: with a single one, nominal 95 % confidence intervals of
//! very variable demand covered 90 %.

use super::result::Stop;
use super::{Plan, Progress};

/// The callback is called after every so many jobs.
const PROGRESS_JOBS: u64 = 1 << 17;
/// Consecutive looks at which the half-width must be small enough.
const LOOKS_IN_A_ROW: u32 = 2;

/// A simulation that can be continued and examined.
pub(super) trait Simulation {
    /// Runs until `jobs` jobs have finished in total. Returns false when there is nothing more to simulate.
    fn finish_jobs(&mut self, jobs: u64) -> bool;
    /// The current estimate of the plan's target.
    fn look(&self) -> Look;
}

/// An estimate during the run.
#[derive(Clone, Copy)]
pub(super) struct Look {
    /// In seconds.
    pub(super) value: f64,
    /// The half-width as a fraction of the estimate; infinite when unknown.
    pub(super) relative_half_width: f64,
    /// True if the batches are long enough to trust the half-width.
    pub(super) settled: bool,
}

/// Runs until the plan is fulfilled or `go_on` returns false; with `whole`, to the end of a trace.
pub(super) fn until_stop(
    simulation: &mut dyn Simulation,
    plan: &Plan,
    whole: bool,
    go_on: &mut dyn FnMut(&Progress) -> bool,
) -> Stop {
    let mut look_at = if whole { u64::MAX } else { plan.jobs_min.clamp(1, plan.jobs_max) };
    let (mut ask_at, mut seen, mut passed) = (PROGRESS_JOBS, None::<Look>, 0);
    loop {
        let until = look_at.min(ask_at).min(plan.jobs_max);
        if !simulation.finish_jobs(until) {
            return Stop::TraceEnd;
        }
        if until == look_at {
            let look = simulation.look();
            let reached = look.settled && look.relative_half_width <= plan.relative_half_width;
            passed = if reached { passed + 1 } else { 0 };
            if passed == LOOKS_IN_A_ROW {
                return Stop::HalfWidth;
            }
            look_at = plan.next_look(until, look.relative_half_width);
            seen = Some(look);
        }
        if until >= plan.jobs_max {
            return Stop::JobsMax;
        }
        if until == ask_at {
            ask_at += PROGRESS_JOBS;
            let progress = Progress {
                jobs: until,
                jobs_max: plan.jobs_max,
                estimate_seconds: seen.map(|look| look.value),
                relative_half_width: seen.map(|look| look.relative_half_width),
            };
            if !go_on(&progress) {
                return Stop::Interrupted;
            }
        }
    }
}

impl Plan {
    /// The number of jobs at which to look again, given the half-width now.
    fn next_look(&self, jobs: u64, relative_half_width: f64) -> u64 {
        // The half-width falls as 1/√n.
        let needed = (relative_half_width / self.relative_half_width).powi(2) * 1.05;
        let factor = if needed.is_finite() { needed.clamp(1.4, 2.0) } else { 2.0 };
        ((jobs as f64 * factor) as u64).min(self.jobs_max).max(jobs + 1)
    }
}
