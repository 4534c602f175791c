//! Groups a log's requests into sessions, and spreads them within the seconds that the log gives.
//!
//! Seed IBM RC22629, 3.3: a request within 15 s of the same client's prior one belongs to its session. Most
//! logs know seconds only, so the first request of a session lies anywhere in its second, as does a single
//! follow-up; several follow-ups in one second are a burst, at one moment of that second. A log that knows
//! fractions of a second is spread within its finer steps in the same way.
//!
//! A client is its address alone. The paper means the peer of a connection; the user agent, which only
//! Combined logs have, would make sessions depend on the format and tear a browser and its plug-ins
//! apart. Many users behind one proxy address therefore look like one long session.

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::trace::{Request, Session};

/// The gap of the paper: 15 s.
pub const SESSION_GAP_NS: u64 = 15_000_000_000;

/// A request of the log before it is in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The start of the step of the log's clock that the request falls into, in nanoseconds since 1970.
    pub time_ns: i64,
    /// Whose request it is.
    pub client: u32,
    /// What it asks for.
    pub document: u32,
}

/// A session as a range of rows.
struct Range {
    start_ns: i64,
    first: u32,
    count: u32,
}

/// Sessions in order of their start, their requests, and when the first one was, in nanoseconds since
/// 1970. Rows of one client and moment keep the order they come in; else they may come in any order. Each
/// request began within `resolution_ns` of its row's time.
pub fn group(
    mut rows: Vec<Row>,
    gap_ns: u64,
    resolution_ns: i64,
    random: &mut Xoshiro256PlusPlus,
) -> (Vec<Session>, Vec<Request>, i64) {
    rows.sort_by_key(|row| (row.client, row.time_ns));
    let mut ranges = Vec::new();
    let mut first = 0;
    while first < rows.len() {
        let count = session_length(&rows[first..], gap_ns);
        spread(&mut rows[first..first + count], resolution_ns, random);
        ranges.push(Range { start_ns: rows[first].time_ns, first: first as u32, count: count as u32 });
        first += count;
    }
    ranges.sort_unstable_by_key(|range| (range.start_ns, range.first));
    let origin_ns = ranges.first().map_or(0, |range| range.start_ns);
    let (sessions, requests) = lay_out(&rows, &ranges, origin_ns);
    (sessions, requests, origin_ns)
}

/// How many of the rows, sorted by client and time, belong to the session that the first one begins.
fn session_length(rows: &[Row], gap_ns: u64) -> usize {
    let follows = |pair: &[Row]| {
        pair[0].client == pair[1].client && (pair[1].time_ns - pair[0].time_ns) as u64 <= gap_ns
    };
    1 + rows.windows(2).take_while(|pair| follows(pair)).count()
}

/// Moves one session's rows to moments within their steps of the clock, in order.
fn spread(session: &mut [Row], resolution_ns: i64, random: &mut Xoshiro256PlusPlus) {
    let mut moment = |from_ns: i64, step_ns: i64| random.random_range(from_ns..step_ns + resolution_ns);
    let mut before_ns = moment(session[0].time_ns, session[0].time_ns);
    session[0].time_ns = before_ns;
    for follow_ups in session[1..].chunk_by_mut(|a, b| a.time_ns == b.time_ns) {
        let step_ns = follow_ups[0].time_ns;
        // Steps may overlap where a duration led back from a stamp of whole seconds.
        before_ns = moment(step_ns.max(before_ns), step_ns);
        follow_ups.iter_mut().for_each(|row| row.time_ns = before_ns);
    }
}

fn lay_out(rows: &[Row], ranges: &[Range], origin_ns: i64) -> (Vec<Session>, Vec<Request>) {
    let mut sessions = Vec::with_capacity(ranges.len());
    let mut requests = Vec::with_capacity(rows.len());
    for &Range { start_ns, first, count } in ranges {
        let start = (start_ns - origin_ns) as u64;
        sessions.push(Session { start_ns: start, first: requests.len() as u32, count });
        let session = &rows[first as usize..(first + count) as usize];
        let request =
            |row: &Row| Request { offset_ns: (row.time_ns - start_ns) as u64, document: row.document };
        requests.extend(session.iter().map(request));
    }
    (sessions, requests)
}
