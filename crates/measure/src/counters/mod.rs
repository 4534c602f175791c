//! The table of counters: their names in results, units, sources and meanings.

use serde::Serialize;

mod events;
mod groups_and_sites;
mod machine;
mod network;
mod processes;

/// Every counter that a result may contain.
const TABLES: [&[Counter]; 5] =
    [processes::TABLE, groups_and_sites::TABLE, events::TABLE, machine::TABLE, network::TABLE];

#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
pub struct Counter {
    pub name: &'static str,
    pub unit: &'static str,
    pub kind: Kind,
    pub tier: Tier,
    pub source: &'static str,
    /// One sentence of help.
    pub meaning: &'static str,
}

/// Totals grow and are used as differences; levels are momentary values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[cfg_attr(debug_assertions, schemars(rename = "CounterKind"))]
pub enum Kind {
    /// Only grows: the difference of two readings is the use between them.
    Total,
    /// The value at this moment.
    Level,
    /// Computed from other counters over a span.
    Derived,
}

/// The privilege or hardware that a counter needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[cfg_attr(debug_assertions, schemars(rename = "CounterTier"))]
pub enum Tier {
    /// Kernel accounting: always available.
    Kernel,
    /// Software events of perf: need a permission.
    Software,
    /// Tracepoints of perf: need tracefs, which belongs to root, and a permission.
    Tracepoint,
    /// Hardware counters: need a machine that exposes them, and a permission.
    Processor,
}

/// The counter called `name`.
///
/// # Panics
/// If there is none: names are written in the program, not read.
pub fn find(name: &str) -> &'static Counter {
    let row = TABLES.into_iter().flatten().find(|counter| counter.name == name);
    row.unwrap_or_else(|| panic!("the table of counters has no {name}"))
}
