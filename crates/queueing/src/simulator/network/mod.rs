//! Simulates a whole system: open, closed and traced classes over any stations. Each job draws its document size once.
//!
//! Each station schedules only its own next completion, so the next event is the least of a short list. Statistics are
//! kept per route, per class and over all.

mod replication_groups;
mod report;
mod run;
mod shape;

use super::replications::Replications;
use super::sequential::run_until_stop;
use super::trace::validate_trace;
use super::warm_up::JobsMin;
use super::{Plan, Progress, SimulationError, SystemResult, refuse_overload};
use crate::system::{Class, Source, System};
use report::Report;
use run::Run;
use shape::Shape;

pub use replication_groups::{ReplicationGroup, group_count, simulate_in_groups};

/// Observed arrivals of an open class, in place of Poisson arrivals at its rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trace<'t> {
    /// The class whose arrivals the trace replaces.
    pub class: &'t str,
    /// Arrival times in seconds, not decreasing.
    pub times: &'t [f64],
    /// Document sizes in bytes, one per arrival.
    pub sizes: &'t [f64],
}

/// Simulates `system` until every figure of the plan has converged, the traces end, or `should_continue` returns false.
///
/// The plan's half-widths are those of the response time over all classes. With a trace the run takes all of it and drops
/// no warm-up: the answer is what the log's clients would have seen.
///
/// # Errors
/// [`SimulationError`] when a station is unstable, the plan is impossible or a trace does not fit.
pub fn simulate_system(
    system: &System,
    plan: &Plan,
    traces: &[Trace<'_>],
    should_continue: &mut dyn FnMut(&Progress) -> bool,
) -> Result<SystemResult, SimulationError> {
    plan.validate()?;
    for trace in traces {
        validate_trace(trace.times, trace.sizes, "sizes")?;
        let fits = |class: &&Class| class.name == trace.class && matches!(class.source, Source::Open { .. });
        system
            .classes
            .iter()
            .find(fits)
            .ok_or_else(|| SimulationError::TraceClass(trace.class.to_owned()))?;
    }
    // A finite trace cannot overload a station for ever; a Poisson stream can.
    if traces.is_empty() {
        refuse_unstable(system)?;
    }
    let whole = !traces.is_empty();
    let jobs_min = if whole { JobsMin::default() } else { JobsMin::of(system) };
    let shape = Shape::of(system);
    let mut replications =
        Replications::new(plan, shape.recorders, |seed| Run::new(system, &shape, seed, traces));
    let report = Report { system, plan, shape: &shape, cut: !whole, jobs_min };
    let estimates = |replications: &Replications<Run<'_>>| report.estimates(replications).1;
    let stop = run_until_stop(&mut replications, plan, jobs_min.all(), whole, &estimates, should_continue);
    Ok(report.result(&replications, stop))
}

/// Refuses a system whose open classes alone overload a station, even with all losses elsewhere.
pub(crate) fn refuse_unstable(system: &System) -> Result<(), SimulationError> {
    for (station, work) in system.stations.iter().zip(system.open_work_certain()) {
        if !station.is_delay() && !station.is_lossy() && work > 0.0 {
            let (name, saturation) = (format!("station {}", station.name), station.service().saturation());
            refuse_overload(&name, Some(station.line), work, saturation)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
