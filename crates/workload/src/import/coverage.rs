//! Coverage: which requests of a log a static copy of its site can answer, and the classes of the others.
//!
//! A request has one [`Class`]. Its line alone decides most. Whether a path is *dynamic* although its requests look
//! static (its responses change in size, differ between clients, or show the result of a form) is known only at the
//! end, from counts by name ([`Behaviour`]). Counts are also kept by minute, because capacity planning needs the
//! busiest one.
//!
//! Paths beyond [`PATHS_MAX`] are counted by class alone.

use std::cmp::Reverse;

use hashbrown::HashMap;
use serde::Serialize;

use super::class::{CLASSES, Class};
use super::interner::Interner;
use super::judged::{EntryTexts, Judged, Name};
use super::names;
use super::time::{self, NS_PER_SECOND};

/// The most paths counted separately.
pub const PATHS_MAX: usize = 1 << 16;

/// The longest path counted separately.
const PATH_BYTES_MAX: usize = 1024;

/// The number of paths listed per class.
pub const TOP_PATHS_MAX: usize = 10;

const NS_PER_MINUTE: i64 = 60 * NS_PER_SECOND;

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Coverage {
    /// All selected requests of the log.
    pub requests: u64,
    /// The bytes sent in response.
    pub bytes: u64,
    pub covered_requests: u64,
    pub covered_bytes: u64,
    /// The request rate of the busiest minute; the average, if the log is shorter than a minute.
    pub peak_requests_per_second: f64,
    pub busiest_minute: BusiestMinute,
    /// Dynamic classes, which no static copy can answer, most frequent first.
    pub dynamic: Vec<ClassCount>,
    /// Static requests without a complete response.
    pub left_out: Vec<ClassCount>,
}

/// The clock minute with the most requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BusiestMinute {
    /// Its start in the log's time zone, in ISO 8601.
    pub begins: String,
    pub requests: u64,
    pub bytes: u64,
    pub covered_requests: u64,
    pub covered_bytes: u64,
    pub dynamic_requests: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassCount {
    pub class: Class,
    pub requests: u64,
    pub bytes: u64,
    /// The paths with the most requests, without their queries, prefixed with the host where the log records it.
    pub top_paths: Vec<PathCount>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PathCount {
    pub path: String,
    pub requests: u64,
}

impl Coverage {
    pub fn dynamic_requests(&self) -> u64 {
        self.dynamic.iter().map(|class| class.requests).sum()
    }
}

/// Counts requests by class, by path and by minute.
#[derive(Default)]
pub struct Counter {
    requests: [u64; CLASSES],
    bytes: [u64; CLASSES],
    paths: Interner,
    by_path: HashMap<(Class, u32), u64>,
    minutes: HashMap<i64, Minute>,
    /// The minute of the latest line, not yet added to the others.
    current: (i64, Minute),
    /// The times of the first and last request.
    window_ns: Option<(i64, i64)>,
    /// Target and host of the current line.
    name: Vec<u8>,
}

#[derive(Clone, Copy, Default)]
struct Minute {
    requests: u32,
    covered: u32,
    dynamic: u32,
    bytes: u64,
    covered_bytes: u64,
}

impl Counter {
    /// `path` is the number of the entry's path, if it is known.
    pub fn count(&mut self, class: Class, entry: &Judged, texts: &impl EntryTexts, path: &mut Option<u32>) {
        let bytes = entry.size_bytes.unwrap_or(0);
        self.requests[class as usize] += 1;
        self.bytes[class as usize] = self.bytes[class as usize].saturating_add(bytes);
        let (first_ns, last_ns) = self.window_ns.unwrap_or((entry.unix_ns, entry.unix_ns));
        self.window_ns = Some((first_ns.min(entry.unix_ns), last_ns.max(entry.unix_ns)));
        let minute = self.minute(entry.unix_ns);
        minute.requests = minute.requests.saturating_add(1);
        minute.bytes = minute.bytes.saturating_add(bytes);
        if class == Class::Covered {
            minute.covered = minute.covered.saturating_add(1);
            minute.covered_bytes = minute.covered_bytes.saturating_add(bytes);
            return;
        }
        minute.dynamic = minute.dynamic.saturating_add(u32::from(class.is_dynamic()));
        if let Some(path) = self.path(texts, path) {
            *self.by_path.entry((class, path)).or_default() += 1;
        }
    }

    /// Looks up a minute. Lines come nearly in order, so most belong to the minute of the previous line.
    fn minute(&mut self, unix_ns: i64) -> &mut Minute {
        let minute = unix_ns.div_euclid(NS_PER_MINUTE);
        if self.current.0 != minute {
            self.store_minute();
            self.current = (minute, self.minutes.get(&minute).copied().unwrap_or_default());
        }
        &mut self.current.1
    }

    fn store_minute(&mut self) {
        if self.current.1.requests > 0 {
            self.minutes.insert(self.current.0, self.current.1);
        }
    }

    /// The number of a path without its query; `None` for a path beyond the limit.
    pub fn path(&mut self, texts: &impl EntryTexts, known: &mut Option<u32>) -> Option<u32> {
        if known.is_none() {
            *known = self.look_up(texts.name());
        }
        *known
    }

    fn look_up(&mut self, Name { target, host, .. }: Name<'_>) -> Option<u32> {
        let end = memchr::memchr(b'?', target).unwrap_or(target.len());
        let name = names::join(&mut self.name, &target[..end], host);
        if name.len() > PATH_BYTES_MAX {
            return None;
        }
        if self.paths.len() < PATHS_MAX { self.paths.number(name) } else { self.paths.known(name) }
    }

    /// Target and host of a path, joined.
    pub fn path_name(&self, path: u32) -> &[u8] {
        self.paths.name(path)
    }

    /// Moves a covered request to the class that its name turned out to have.
    pub fn reclassify(&mut self, unix_ns: i64, class: Class, bytes: u64) {
        let minute = self.minute(unix_ns);
        minute.covered = minute.covered.saturating_sub(1);
        minute.covered_bytes = minute.covered_bytes.saturating_sub(bytes);
        minute.dynamic += u32::from(class.is_dynamic());
    }

    /// Finishes the counts; `names` lists those whose class differs from what their requests look like.
    pub fn finish(mut self, names: &[ByName], utc_offset_seconds: i32) -> Coverage {
        self.store_minute();
        let mut tops: HashMap<Class, Vec<PathCount>> = HashMap::new();
        for (&(class, path), &requests) in &self.by_path {
            let path = spelled(self.paths.name(path));
            tops.entry(class).or_default().push(PathCount { path, requests });
        }
        for name in names {
            self.reclassify_covered(name);
            let path = spelled(&name.name);
            tops.entry(name.class).or_default().push(PathCount { path, requests: name.requests });
        }
        let mut classes: Vec<ClassCount> = Vec::new();
        for class in Class::NOT_COVERED.into_iter().filter(|class| self.requests[*class as usize] > 0) {
            let mut top_paths = tops.remove(&class).unwrap_or_default();
            top_paths.sort_unstable_by(|a, b| b.requests.cmp(&a.requests).then_with(|| a.path.cmp(&b.path)));
            top_paths.truncate(TOP_PATHS_MAX);
            let (requests, bytes) = (self.requests[class as usize], self.bytes[class as usize]);
            classes.push(ClassCount { class, requests, bytes, top_paths });
        }
        classes.sort_by_key(|class| Reverse(class.requests));
        let (dynamic, left_out) = classes.into_iter().partition(|class| class.class.is_dynamic());
        let requests = self.requests.iter().sum();
        let busiest = self.minutes.iter().max_by_key(|(begin, minute)| (minute.requests, Reverse(**begin)));
        let (begin, most) = busiest.map_or((0, Minute::default()), |(begin, minute)| (*begin, *minute));
        let (first_ns, last_ns) = self.window_ns.unwrap_or_default();
        let span_seconds = (last_ns - first_ns) as f64 / NS_PER_SECOND as f64;
        let average = requests as f64 / span_seconds.max(1.0);
        Coverage {
            requests,
            bytes: self.bytes.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes)),
            covered_requests: self.requests[Class::Covered as usize],
            covered_bytes: self.bytes[Class::Covered as usize],
            peak_requests_per_second: if span_seconds < 60.0 {
                average
            } else {
                f64::from(most.requests) / 60.0
            },
            busiest_minute: BusiestMinute {
                begins: time::written(begin * NS_PER_MINUTE, utc_offset_seconds),
                requests: most.requests.into(),
                bytes: most.bytes,
                covered_requests: most.covered.into(),
                covered_bytes: most.covered_bytes,
                dynamic_requests: most.dynamic.into(),
            },
            dynamic,
            left_out,
        }
    }
}

impl Counter {
    fn reclassify_covered(&mut self, name: &ByName) {
        let (covered, class) = (Class::Covered as usize, name.class as usize);
        self.requests[covered] -= name.requests;
        self.requests[class] += name.requests;
        self.bytes[covered] = self.bytes[covered].saturating_sub(name.bytes);
        self.bytes[class] = self.bytes[class].saturating_add(name.bytes);
    }
}

/// The requests of a name whose class was corrected.
pub struct ByName {
    pub name: Vec<u8>,
    pub class: Class,
    pub requests: u64,
    pub bytes: u64,
}

fn spelled(name: &[u8]) -> String {
    let (target, host) = names::split(name);
    format!("{}{}", String::from_utf8_lossy(host), names::spelled(target))
}
