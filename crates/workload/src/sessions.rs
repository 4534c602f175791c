//! Groups a log's requests into sessions, and spreads them within the log's one-second resolution.
//!
//! Seed IBM RC22629, 3.3: a request within 15 s of the same client's prior one belongs to its session. Most
//! logs know seconds only, so the first request of a session lies anywhere in its second, as does a single
//! follow-up; several follow-ups in one second are a burst, at one moment of that second. A log that knows
//! fractions of a second is spread within its finer steps in the same way.
//!
//! A client is its address alone. The paper means the peer of a connection; the user agent, which only
//! Combined logs have, would make sessions depend on the format and tear a browser and its plug-ins
//! apart. Many users behind one proxy address therefore look like one long session.
//!
//! Rows arrive in order of client and time and sessions leave in order of client, so only the current session is held.

use std::ops::Range;

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::sorting::Record;
use crate::trace::Request;

/// The gap of the paper: 15 s.
pub const SESSION_GAP_NS: u64 = 15_000_000_000;

/// A logged request before it belongs to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The start of the step of the log's clock that the request falls into, in nanoseconds since 1970.
    pub time_ns: i64,
    pub client: u32,
    pub document: u32,
}

/// A finished session that is not yet sorted by its start. Its tail is its requests as a trace file has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grouped {
    /// Its start, in nanoseconds since 1970.
    pub start_ns: i64,
    /// Requests, at least one.
    pub count: u32,
    /// Where its tail begins.
    requests_at: usize,
}

#[derive(Clone, Copy, Debug)]
pub struct Grouping {
    /// A longer gap between two requests of a client starts a new session.
    pub gap_ns: u64,
    /// The resolution of the log's clock: each request began within this of its row's time.
    pub resolution_ns: i64,
}

/// Groups rows, which must arrive in order of client and time, and yields one session after the other with its rows.
pub fn group<E>(
    rows: impl Iterator<Item = Result<Row, E>>,
    grouping: Grouping,
    random: &mut Xoshiro256PlusPlus,
    mut take: impl FnMut(Grouped, &[Row]) -> Result<(), E>,
) -> Result<(), E> {
    let mut session: Vec<Row> = Vec::new();
    let mut finish = |session: &mut Vec<Row>| {
        spread(session, grouping.resolution_ns, random);
        let grouped = Grouped { start_ns: session[0].time_ns, count: session.len() as u32, requests_at: 0 };
        let taken = take(grouped, session);
        session.clear();
        taken
    };
    for row in rows {
        let row = row?;
        if session.last().is_some_and(|before| !follows(before, &row, grouping.gap_ns)) {
            finish(&mut session)?;
        }
        session.push(row);
    }
    if session.is_empty() { Ok(()) } else { finish(&mut session) }
}

/// Returns true if `row` continues the session of the row before it.
fn follows(before: &Row, row: &Row, gap_ns: u64) -> bool {
    before.client == row.client && (row.time_ns - before.time_ns) as u64 <= gap_ns
}

/// Spreads one session's rows over random moments within their clock steps, in order.
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

impl Grouped {
    /// Writes its requests, given its rows.
    pub fn encode_requests(&self, rows: &[Row], bytes: &mut Vec<u8>) {
        for row in rows {
            let offset_ns = (row.time_ns - self.start_ns) as u64;
            bytes.extend_from_slice(&Request { offset_ns, document: row.document }.encoded());
        }
    }
}

/// With fewer rows per client, comparisons sort as fast.
const ROWS_PER_CLIENT_MIN: usize = 4;

/// Encodes a row as in memory, little-endian.
impl Record for Row {
    type Key = (u32, i64);

    const ENCODED_BYTES: usize = 16;

    fn key(&self) -> (u32, i64) {
        (self.client, self.time_ns)
    }

    /// Rows come nearly in order of time. Where clients have many, each is counted and put straight to its client's, without
    /// comparing it to others.
    fn sort(rows: &mut [Row]) {
        let clients = rows.iter().map(|row| row.client);
        let (Some(first), Some(last)) = (clients.clone().min(), clients.max()) else { return };
        let count = (last - first) as usize + 1;
        if count > rows.len() / ROWS_PER_CLIENT_MIN {
            return rows.sort_by_key(Row::key);
        }
        // Where the next row of each client goes: behind all rows of clients before it.
        let mut places = vec![0; count + 1];
        for row in &*rows {
            places[(row.client - first) as usize + 1] += 1;
        }
        for client in 1..count {
            places[client] += places[client - 1];
        }
        let unsorted = rows.to_vec();
        for row in unsorted {
            let place = &mut places[(row.client - first) as usize];
            rows[*place] = row;
            *place += 1;
        }
        for rows in rows.chunk_by_mut(|a, b| a.client == b.client) {
            if !rows.is_sorted_by_key(|row| row.time_ns) {
                rows.sort_by_key(|row| row.time_ns);
            }
        }
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        let mut encoded = [0; Self::ENCODED_BYTES];
        encoded[..8].copy_from_slice(&self.time_ns.to_le_bytes());
        encoded[8..12].copy_from_slice(&self.client.to_le_bytes());
        encoded[12..].copy_from_slice(&self.document.to_le_bytes());
        bytes.extend_from_slice(&encoded);
    }

    fn decode(bytes: &[u8]) -> Self {
        Row {
            time_ns: i64::from_le_bytes(array(bytes, 0)),
            client: u32::from_le_bytes(array(bytes, 8)),
            document: u32::from_le_bytes(array(bytes, 12)),
        }
    }
}

/// Sessions sort by start; at equal starts the client with the smaller number comes first, because sorting is stable.
impl Record for Grouped {
    type Key = i64;

    const ENCODED_BYTES: usize = 12;

    fn key(&self) -> i64 {
        self.start_ns
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        let mut encoded = [0; Self::ENCODED_BYTES];
        encoded[..8].copy_from_slice(&self.start_ns.to_le_bytes());
        encoded[8..].copy_from_slice(&self.count.to_le_bytes());
        bytes.extend_from_slice(&encoded);
    }

    fn decode(bytes: &[u8]) -> Self {
        Grouped {
            start_ns: i64::from_le_bytes(array(bytes, 0)),
            count: u32::from_le_bytes(array(bytes, 8)),
            requests_at: 0,
        }
    }

    fn tail(&self) -> Range<usize> {
        self.requests_at..self.requests_at + self.count as usize * Request::ENCODED_BYTES
    }

    fn with_tail_at(self, requests_at: usize) -> Self {
        Grouped { requests_at, ..self }
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the range has this length")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// However many rows each client has, and in whatever order they come.
        #[test]
        fn rows_are_sorted_as_by_comparisons(
            keys in proptest::collection::vec((0_u32..20, -5_i64..5), 0..200), first in prop_oneof![Just(0), Just(u32::MAX - 19)],
        ) {
            let row = |(&(client, time_ns), document)| Row { time_ns, client: first + client, document };
            let mut rows: Vec<Row> = keys.iter().zip(0..).map(row).collect();
            let mut expected = rows.clone();
            Row::sort(&mut rows);
            expected.sort_by_key(Row::key);
            prop_assert_eq!(rows, expected);
        }
    }
}
