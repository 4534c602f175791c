//! Collects request durations, overall and by path, and sorts them externally where memory is too small.
//!
//! Each duration is pushed twice, once for all requests and once for its path, so that one sort gives every
//! distribution exactly. Paths beyond the limit count only in the overall figures.

use std::cmp::Reverse;
use std::io;
use std::iter::Peekable;

use hashbrown::HashMap;

use super::coverage::Counter;
use super::judged::{EntryTexts, Judged};
use super::names;
use crate::request_times::{Distribution, PATHS_MAX, PathTimes, RequestTimes, Times};
use crate::sorting::{Record, Records, Sorter, Spill};

/// The number that stands for all paths; real paths have smaller numbers.
const ALL: u32 = u32::MAX;

pub struct Durations {
    sorter: Sorter<Time>,
    totals: HashMap<(u32, Kind), Total>,
}

#[derive(Clone, Copy, Default)]
struct Total {
    count: u64,
    sum_ns: u128,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Kind {
    Request,
    Upstream,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Time {
    path: u32,
    kind: Kind,
    ns: u64,
}

impl Durations {
    /// `threads` is the number of threads that sort beside the caller's.
    pub fn new(threads: usize) -> Self {
        Durations { sorter: Sorter::new(threads), totals: HashMap::new() }
    }

    pub fn count(
        &mut self,
        entry: &Judged,
        texts: &impl EntryTexts,
        paths: &mut Counter,
        path: &mut Option<u32>,
        spill: &mut Option<Spill<'_>>,
    ) -> io::Result<()> {
        let times = [(Kind::Request, entry.duration_ns), (Kind::Upstream, entry.upstream_ns)];
        if times.iter().all(|(_, ns)| ns.is_none()) {
            return Ok(());
        }
        let path = paths.path(texts, path);
        for (kind, ns) in times {
            let Some(ns) = ns else { continue };
            for path in [Some(ALL), path].into_iter().flatten() {
                let ns = ns as u64;
                let total = self.totals.entry((path, kind)).or_default();
                total.count += 1;
                total.sum_ns += u128::from(ns);
                self.sorter.push(Time { path, kind, ns }, spill)?;
            }
        }
        Ok(())
    }

    /// Computes the distributions; `None` if the log has no durations.
    pub fn finish(self, paths: &Counter, spill: &mut Option<Spill<'_>>) -> io::Result<Option<RequestTimes>> {
        if self.totals.is_empty() {
            return Ok(None);
        }
        let longest = longest(&self.totals);
        let mut sorted = self.sorter.finish(spill)?.records().peekable();
        let mut found: HashMap<u32, Times> = HashMap::new();
        while let Some(first) = sorted.peek() {
            let (path, kind) = match first {
                Ok(time) => (time.path, time.kind),
                Err(_) => return Err(sorted.next().and_then(Result::err).expect("it was there")),
            };
            let total = self.totals[&(path, kind)];
            let group = Group { sorted: &mut sorted, left: total.count };
            let distribution = Distribution::of_sorted(total.count, total.sum_ns, group)?;
            let times = found.entry(path).or_default();
            match kind {
                Kind::Request => times.request_time_seconds = Some(distribution),
                Kind::Upstream => times.upstream_time_seconds = Some(distribution),
            }
            if path != ALL && !longest.contains(&path) {
                found.remove(&path);
            }
        }
        let of_path = |path: &u32| {
            let (target, host) = names::split(paths.path_name(*path));
            PathTimes {
                path: names::spelled(target),
                host: String::from_utf8_lossy(host).into_owned(),
                times: found[path],
            }
        };
        Ok(Some(RequestTimes { all: found[&ALL], paths: longest.iter().map(of_path).collect() }))
    }
}

/// The paths with the largest total duration; of upstream times where the log has no other.
fn longest(totals: &HashMap<(u32, Kind), Total>) -> Vec<u32> {
    let kind = if totals.contains_key(&(ALL, Kind::Request)) { Kind::Request } else { Kind::Upstream };
    let of_kind = totals.iter().filter(|((path, other), _)| *path != ALL && *other == kind);
    let mut paths: Vec<_> = of_kind.map(|((path, _), total)| (Reverse(total.sum_ns), *path)).collect();
    paths.sort_unstable();
    paths.truncate(PATHS_MAX);
    paths.into_iter().map(|(_, path)| path).collect()
}

/// The next group of durations.
struct Group<'s> {
    sorted: &'s mut Peekable<Records<Time>>,
    left: u64,
}

impl Iterator for Group<'_> {
    type Item = io::Result<u64>;

    fn next(&mut self) -> Option<io::Result<u64>> {
        self.left = self.left.checked_sub(1)?;
        self.sorted.next().map(|time| time.map(|time| time.ns))
    }
}

impl Record for Time {
    type Key = (u32, Kind, u64);

    const ENCODED_BYTES: usize = 13;

    fn key(&self) -> Self::Key {
        (self.path, self.kind, self.ns)
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.path.to_le_bytes());
        bytes.push(u8::from(self.kind == Kind::Upstream));
        bytes.extend_from_slice(&self.ns.to_le_bytes());
    }

    fn decode(bytes: &[u8]) -> Self {
        let (path, rest) = bytes.split_at(4);
        Time {
            path: u32::from_le_bytes(path.try_into().expect("four bytes")),
            kind: if rest[0] == 0 { Kind::Request } else { Kind::Upstream },
            ns: u64::from_le_bytes(rest[1..].try_into().expect("eight bytes")),
        }
    }
}
