//! What processes use, whoever they are: every source that the machine offers, read together.
//!
//! Each source is tried once, at the start; one that is refused keeps its reason, so that a column that is empty
//! says why. A [`Sample`] holds a reading per counter, in the order of [`Probe::counters`]. Totals only ever grow;
//! what was used in a span is a difference of two samples.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::counters::{self, Counter};
use crate::{Nanos, Reading, clock};

mod cgroup;
mod cores;
mod listener;
mod namespace;
mod perf;
mod pressure;
mod processes;

pub use listener::listening_on;

/// What is watched.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// These processes and their descendants.
    pub pids: Vec<u32>,
    /// A control group: a folder of the hierarchy, of version 1 or 2.
    pub cgroup: Option<PathBuf>,
    /// The port whose accept queue is looked at.
    pub port: Option<u16>,
    /// The core whose time is looked at; all together by default.
    pub core: Option<usize>,
}

/// Several counters from one place.
trait Source {
    /// The names of its counters.
    fn names(&self) -> &'static [&'static str];

    /// Their values now, in that order.
    fn read(&mut self) -> Vec<Reading<f64>>;
}

/// All sources of a target.
pub struct Probe {
    sources: Vec<Box<dyn Source>>,
    columns: Vec<Column>,
}

/// A counter of a probe.
#[derive(Clone, Debug)]
pub struct Column {
    /// The row of the table.
    pub counter: &'static Counter,
    /// Why it has no values, if its source was refused.
    pub refused: Option<String>,
}

/// Every counter at one moment.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Seconds since 1970, so that files of several machines can be merged.
    pub unix_seconds: f64,
    /// On the clock that never steps.
    pub time: Nanos,
    /// A reading per column that was not refused.
    pub readings: Vec<Reading<f64>>,
}

impl Probe {
    /// Tries every source.
    pub fn new(target: &Target) -> Probe {
        let mut probe = Probe { sources: Vec::new(), columns: Vec::new() };
        let namespace = namespace::Namespace::of(target.pids.first().copied());
        if target.pids.is_empty() {
            probe.refuse(processes::NAMES, "no process was named");
        } else {
            probe.add(processes::Processes::new(&target.pids));
        }
        probe.try_add(cgroup::NAMES, cgroup::Cgroup::open(target));
        for (names, events) in perf::open(target) {
            probe.try_add(names, events);
        }
        probe.add(cores::Cores::new(target.core));
        probe.try_add(pressure::NAMES, pressure::Pressure::open());
        probe.try_add(namespace::NAMES, namespace.clone());
        let listener = namespace.and_then(|namespace| listener::Listener::open(namespace, target.port));
        probe.try_add(listener::NAMES, listener);
        probe
    }

    /// The counters, those without values included.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Reads all sources.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_is_a_row_of_the_table_and_has_values_or_a_reason() {
        let target = Target { pids: vec![std::process::id()], ..Target::default() };
        let mut probe = Probe::new(&target);
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
        let probe = Probe::new(&Target::default());
        let column = probe.columns().iter().find(|column| column.counter.name == "resident_bytes").unwrap();
        assert_eq!(column.refused.as_deref(), Some("no process was named"));
    }
}
