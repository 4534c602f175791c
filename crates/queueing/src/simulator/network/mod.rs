//! A whole system: open, closed and traced classes over any stations, a document drawn once per job.
//!
//! Each station schedules only its own next completion and there are few stations, so the next event is the
//! least of a short list. Statistics are kept per route, per class and over all.

mod report;
mod run;

use super::replication::replicate;
use super::sequential::until_stop;
use super::trace::validate_trace;
use super::{Plan, Progress, SimulationError, SystemResult, pool, refuse_overload};
use crate::system::{Class, Source, System};
use run::Run;

/// Arrivals of an open class as they were observed, instead of Poisson at its rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trace<'t> {
    /// The class it drives.
    pub class: &'t str,
    /// Seconds, not decreasing.
    pub times: &'t [f64],
    /// Document sizes in bytes, one per arrival.
    pub sizes: &'t [f64],
}

/// Simulates `system` until the plan is fulfilled, the traces end, or `go_on` answers false.
///
/// The half-width asked for is that of the response time over all classes. With a trace the run takes
/// all of it and cuts no warm-up: what the log saw is the answer.
///
/// # Errors
/// [`SimulationError`] when a station is unstable, the plan is impossible or a trace does not fit.
pub fn simulate_system(
    system: &System,
    plan: &Plan,
    traces: &[Trace<'_>],
    go_on: &mut dyn FnMut(&Progress) -> bool,
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
    // A finite trace cannot grow for ever; a Poisson stream can.
    if traces.is_empty() {
        refuse_unstable(system)?;
    }
    let run = |plan: &Plan, go_on: &mut dyn FnMut(&Progress) -> bool| {
        let mut run = Run::new(system, plan, traces);
        let stop = until_stop(&mut run, plan, !traces.is_empty(), go_on);
        run.result(stop)
    };
    Ok(match plan.replications {
        1 => run(plan, go_on),
        _ => pool::system(&replicate(plan, go_on, &run), plan),
    })
}

/// Refuses when open classes alone overload a station.
pub(crate) fn refuse_unstable(system: &System) -> Result<(), SimulationError> {
    for (station, work) in system.stations.iter().zip(system.open_work()) {
        if station.is_limited() && work > 0.0 {
            let (name, saturation) = (format!("station {}", station.name), station.service().saturation());
            refuse_overload(&name, Some(station.line), work, saturation)?;
        }
    }
    Ok(())
}
