//! The phase-type demand of a station, which the exact solutions need.

use super::flow::Flow;
use crate::distribution::Distribution;
use crate::exact_lps::PhaseType;
use crate::system::Demand;

/// The phase-type demand common to all visits to a station.
pub(super) fn phase_type(flow: &Flow<'_>, station: usize) -> Result<PhaseType, String> {
    let name = flow.system.stations[station].place();
    let distribution =
        common_distribution(flow, station)?.ok_or_else(|| format!("no class visits {name}"))?;
    PhaseType::of(distribution)
        .ok_or_else(|| format!("the demand at {name} is not exponential, Erlang or hyper-exponential"))
}

/// The common demand distribution of all visits to a station; `None` without visits.
fn common_distribution<'s>(flow: &Flow<'s>, station: usize) -> Result<Option<&'s Distribution>, String> {
    let name = flow.system.stations[station].place();
    let mut found = None;
    for (_, visit) in flow.system.classes.iter().flat_map(|class| class.visits()) {
        if visit.station != station {
            continue;
        }
        let Demand::Independent(distribution) = &visit.demand else {
            return Err(format!("the demand at {name} depends on the document size"));
        };
        if found.is_some_and(|other| other != distribution) {
            return Err(format!("visits to {name} have different demands"));
        }
        found = Some(distribution);
    }
    Ok(found)
}
