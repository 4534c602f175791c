//! Samples what processes use, reading every source that the machine offers.
//!
//! Each source is tried once at the start. A refused source keeps the reason, so an empty column can say why. A
//! [`Sample`] has a reading per counter, in the order of [`Probe::columns`]. Totals only grow; the use in a span is the
//! difference of two samples.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::counters::{self, Counter, Tier};
use crate::{Nanos, Reading, clock};

mod cgroup;
mod cores;
mod group;
mod listener;
mod namespace;
mod perf;
mod pressure;
mod processes;
mod site;

pub use group::Group;
pub use listener::listening_on;

#[derive(Clone, Debug, Default)]
pub struct Target {
    /// These processes and their descendants.
    pub pids: Vec<u32>,
    /// A control group: a folder of the hierarchy, of either version.
    pub cgroup: Option<PathBuf>,
    /// A site's folder, whose pages in memory are counted.
    pub site: Option<PathBuf>,
    /// The port whose accept queue is read.
    pub port: Option<u16>,
    /// The core whose time is read; the sum of all by default.
    pub core: Option<usize>,
}

/// A source that provides several counters.
trait Source {
    fn names(&self) -> &'static [&'static str];

    /// The current values, in the order of the counters.
    fn read(&mut self) -> Vec<Reading<f64>>;
}

/// All sources of a target.
pub struct Probe {
    sources: Vec<Box<dyn Source>>,
    columns: Vec<Column>,
}

/// One counter of a probe.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its row in the table of counters.
    pub counter: &'static Counter,
    /// Why its source was refused and has no values.
    pub refused: Option<String>,
}

/// The counters at one moment.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Seconds since 1970, so that files of several machines can be merged.
    pub unix_seconds: f64,
    /// On the monotonic clock.
    pub time: Nanos,
    /// One reading per column that was not refused.
    pub readings: Vec<Reading<f64>>,
}

impl Probe {
    /// Tries every source of these groups; counters of other groups are unavailable because they were not selected.
    pub fn new(target: &Target, groups: &[Group]) -> Probe {
        let mut probe = Probe { sources: Vec::new(), columns: Vec::new() };
        for group in Group::ALL {
            if groups.contains(&group) {
                probe.try_group(group, target);
            } else {
                probe.refuse(&names(group), "not asked for");
            }
        }
        probe
    }

    fn try_group(&mut self, group: Group, target: &Target) {
        match group {
            Group::Processes if target.pids.is_empty() => {
                self.refuse(processes::NAMES, "no process was named")
            }
            Group::Processes => self.add(processes::Processes::new(&target.pids)),
            Group::Cgroup => self.try_add(cgroup::NAMES, cgroup::Cgroup::open(target)),
            Group::Software => self.try_perf(target, Tier::Software),
            Group::Tracepoints => self.try_perf(target, Tier::Tracepoint),
            Group::Processor => self.try_perf(target, Tier::Processor),
            Group::Cores => self.add(cores::Cores::new(target.core)),
            Group::Site => self.try_add(site::NAMES, site::Site::open(target)),
            Group::Pressure => self.try_add(pressure::NAMES, pressure::Pressure::open()),
            Group::Network => {
                let namespace = namespace::Namespace::of(target.pids.first().copied());
                self.try_add(namespace::NAMES, namespace.clone());
                let listener =
                    namespace.and_then(|namespace| listener::Listener::open(namespace, target.port));
                self.try_add(listener::NAMES, listener);
            }
        }
    }

    fn try_perf(&mut self, target: &Target, tier: Tier) {
        for (names, events) in perf::open(target, tier) {
            self.try_add(names, events);
        }
    }

    /// All counters, including those without values.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    pub fn sample(&mut self) -> Sample {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Sample {
            unix_seconds: unix.as_secs_f64(),
            time: clock::now(),
            readings: self.sources.iter_mut().flat_map(|source| source.read()).collect(),
        }
    }

    fn add(&mut self, source: impl Source + 'static) {
        let column = |name: &&str| Column { counter: counters::find(name), refused: None };
        self.columns.extend(source.names().iter().map(column));
        self.sources.push(Box::new(source));
    }

    fn refuse(&mut self, names: &[&str], why: &str) {
        let column = |name: &&str| Column { counter: counters::find(name), refused: Some(why.to_owned()) };
        self.columns.extend(names.iter().map(column));
    }

    fn try_add(&mut self, names: &[&str], source: Reading<impl Source + 'static>) {
        match source {
            Reading::Value(source) => self.add(source),
            Reading::Unavailable(why) => self.refuse(names, &why),
        }
    }
}

fn names(group: Group) -> Vec<&'static str> {
    match group {
        Group::Processes => processes::NAMES.to_vec(),
        Group::Cgroup => cgroup::NAMES.to_vec(),
        Group::Software => perf::names(Tier::Software),
        Group::Tracepoints => perf::names(Tier::Tracepoint),
        Group::Processor => perf::names(Tier::Processor),
        Group::Cores => cores::NAMES.to_vec(),
        Group::Pressure => pressure::NAMES.to_vec(),
        Group::Site => site::NAMES.to_vec(),
        Group::Network => [namespace::NAMES, listener::NAMES].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_is_a_row_of_the_table_and_has_values_or_a_reason() {
        let target = Target { pids: vec![std::process::id()], ..Target::default() };
        let mut probe = Probe::new(&target, &Group::ALL);
        let sample = probe.sample();
        let given = probe.columns().iter().filter(|column| column.refused.is_none()).count();
        assert_eq!(sample.readings.len(), given);
        let mut names: Vec<_> = probe.columns().iter().map(|column| column.counter.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "a counter is probed twice: {names:?}");
        assert!(names.contains(&"minor_faults") && names.contains(&"cycles_user"));
    }

    #[test]
    fn nothing_named_is_said_and_not_shown_as_zero() {
        let probe = Probe::new(&Target::default(), &Group::ALL);
        let column = probe.columns().iter().find(|column| column.counter.name == "resident_bytes").unwrap();
        assert_eq!(column.refused.as_deref(), Some("no process was named"));
    }

    #[test]
    fn what_is_not_asked_for_is_not_read_and_says_so() {
        let target = Target { pids: vec![std::process::id()], ..Target::default() };
        let all = Probe::new(&target, &Group::ALL);
        let mut probe = Probe::new(&target, &[Group::Cores]);
        assert_eq!(probe.columns().len(), all.columns().len());
        assert_eq!(probe.sample().readings.len(), cores::NAMES.len());
        let other = probe.columns().iter().find(|column| column.counter.name == "accept_queue").unwrap();
        assert_eq!(other.refused.as_deref(), Some("not asked for"));
    }
}
