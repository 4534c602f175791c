//! `capacity` or `queue`, and `when_full`: the most jobs at a station, and the fate of those that find it full.

use super::distribution;
use super::reader::{Reader, Value};
use super::{LIMIT_MAX, ParsedStation, SystemFileError};
use crate::distribution::RandomVariable;
use crate::system::{Capacity, Class, Retry, Source, Visit, WhenFull};

/// The largest retry count in a system file.
const RETRIES_MAX: u32 = 1_000;

/// `capacity = K`, or `queue = K − in_service` at a station with a limited number of places in service.
pub(super) fn parse(
    table: &Reader<'_>,
    in_service: Option<u32>,
) -> Result<Option<Capacity>, SystemFileError> {
    let when_full = table.optional("when_full");
    let jobs = match (table.optional("capacity"), table.optional("queue"), in_service) {
        (Some(_), Some(queue), _) => return Err(queue.error("give either `capacity` or `queue`, not both")),
        (Some(capacity), None, in_service) => {
            let jobs = capacity.count(1, LIMIT_MAX)?;
            if let Some(places) = in_service.filter(|places| jobs < *places) {
                return Err(capacity.error(format!(
                    "a `capacity` of {jobs} would leave some of the {places} places in service empty forever"
                )));
            }
            jobs
        }
        (None, Some(queue), Some(places)) => places + queue.count(0, LIMIT_MAX)?,
        (None, Some(queue), None) => {
            return Err(queue
                .error("`queue` belongs to `fifo` and `lps` stations, where jobs wait: write `capacity`"));
        }
        (None, None, _) => {
            return match when_full {
                Some(value) => {
                    Err(value.error("`when_full` needs a `capacity` or a `queue`: without, it is never full"))
                }
                None => Ok(None),
            };
        }
    };
    let when_full = when_full.map_or(Ok(WhenFull::Refuse), |value| self::when_full(&value))?;
    Ok(Some(Capacity { jobs, when_full }))
}

/// `"refuse"` · `"block"` · `{ retry = "1s", backoff = 2, retries = 6 }`.
fn when_full(value: &Value<'_>) -> Result<WhenFull, SystemFileError> {
    if value.is_text() {
        return Ok(match value.choice(&["refuse", "block"])? {
            0 => WhenFull::Refuse,
            _ => WhenFull::Block,
        });
    }
    let table = value.table()?;
    let retry = table.required("retry")?;
    let after = distribution::time(&retry)?;
    if after.mean() <= 0.0 {
        return Err(retry.error("`retry` must take some time"));
    }
    let backoff = table.optional("backoff").map_or(Ok(1.0), |value| {
        let factor = value.number()?;
        let message = format!("`backoff` must be at least 1, not {factor}");
        if factor >= 1.0 { Ok(factor) } else { Err(value.error(message)) }
    })?;
    let retries_max = table.optional("retries").map(|value| value.count(0, RETRIES_MAX)).transpose()?;
    table.finish()?;
    Ok(WhenFull::Retry(Retry { after, backoff, retries_max }))
}

/// Refuses a visit to a blocking station where no earlier station could be blocked, or where the job also holds a place
/// elsewhere.
pub(super) fn check_visit(
    visit: &Visit,
    previous: Option<&Visit>,
    stations: &[ParsedStation],
    place: &Value<'_>,
) -> Result<(), SystemFileError> {
    let model = &stations[visit.station].model;
    if !model.blocks() {
        return Ok(());
    }
    let Some(previous) = previous else {
        return Err(place.error(format!(
            "`{}` blocks when it is full, but nothing comes before it on this route: let it refuse or retry",
            model.name
        )));
    };
    if !visit.holds.is_empty() || !previous.holds.is_empty() {
        return Err(place
            .error(format!("`{}` blocks when it is full: a job cannot hold a place besides", model.name)));
    }
    let before = &stations[previous.station].model;
    if before.has_places() || before.capacity.is_some() {
        return Ok(());
    }
    Err(place.error(format!(
        "`{}` blocks when it is full, but `{}` before it has no limited places: it would block nothing",
        model.name, before.name
    )))
}

/// Refuses blocking that could deadlock, and users that would retry in zero time.
pub(super) fn check_class(
    class: &Class,
    stations: &[ParsedStation],
    table: &Reader<'_>,
) -> Result<(), SystemFileError> {
    let turned_away = class.visits().any(|(_, visit)| stations[visit.station].model.is_lossy());
    match &class.source {
        Source::Closed { think_time, .. } if turned_away && think_time.mean() + class.latency <= 0.0 => {
            Err(table.error("users that are turned away would retry immediately: give them a `think_time`"))
        }
        _ => Ok(()),
    }
}

/// Refuses a cycle of stations where each blocks the one before, or is waited for while a place at the one before is
/// held: it could deadlock.
pub(super) fn check_circles(classes: &[Class], stations: &[ParsedStation]) -> Result<(), SystemFileError> {
    let count = stations.len();
    let mut reaches = vec![false; count * count];
    for route in classes.iter().flat_map(|class| &class.routes) {
        for pair in route.visits.windows(2).filter(|pair| stations[pair[1].station].model.blocks()) {
            reaches[pair[0].station * count + pair[1].station] = true;
        }
        for visit in &route.visits {
            if stations[visit.station].model.has_places() {
                visit.holds.iter().for_each(|held| reaches[held * count + visit.station] = true);
            }
        }
    }
    for middle in 0..count {
        for from in (0..count).filter(|from| reaches[from * count + middle]).collect::<Vec<_>>() {
            (0..count).for_each(|to| reaches[from * count + to] |= reaches[middle * count + to]);
        }
    }
    match (0..count).find(|station| reaches[station * count + station]) {
        Some(station) => {
            let model = &stations[station].model;
            let message =
                format!("a job at `{}` could wait for itself through other stations, forever", model.name);
            Err(SystemFileError { line: model.line, message })
        }
        None => Ok(()),
    }
}
