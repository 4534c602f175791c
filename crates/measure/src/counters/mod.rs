//! The table of counters: names in results, units, sources, meanings.

use schemars::JsonSchema;
use serde::Serialize;

mod events;
mod groups_and_sites;
mod machine;
mod network;
mod processes;

/// Every counter that a result may hold.
const TABLES: [&[Counter]; 5] =
    [processes::TABLE, groups_and_sites::TABLE, events::TABLE, machine::TABLE, network::TABLE];

#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Counter {
    pub name: &'static str,
    pub unit: &'static str,
    /// Total or level.
    pub kind: Kind,
    /// The privilege or hardware that the counter needs.
    pub tier: Tier,
    pub source: &'static str,
    /// One sentence for the user.
    pub meaning: &'static str,
}

/// Totals grow and are used as differences; levels are momentary values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "CounterKind")]
pub enum Kind {
    /// It only grows: the difference of two readings is what was used between them.
    Total,
    /// As it is at the moment.
    Level,
    /// Computed from others over a span.
    Derived,
}

/// The privilege or hardware that a counter needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "CounterTier")]
pub enum Tier {
    /// The kernel's accounting: always there.
    Kernel,
    /// perf events of the kernel: a permission.
    Software,
    /// perf tracepoints: tracefs, which is root's, and a permission.
    Tracepoint,
    /// The processor's own counters: a machine that shows them, and a permission.
    Processor,
}

/// The row of that name.
///
/// # Panics
/// If there is none: names are written in the program, not read.
pub fn find(name: &str) -> &'static Counter {
    let row = TABLES.into_iter().flatten().find(|counter| counter.name == name);
    row.unwrap_or_else(|| panic!("the table of counters has no {name}"))
}
