//! The table of counters: what each is called in results, its unit, where it comes from, what it means.

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

/// One counter.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Counter {
    /// Its key in results.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// How it is to be read.
    pub kind: Kind,
    /// What it takes to have it.
    pub tier: Tier,
    /// Where it is read.
    pub source: &'static str,
    /// What it tells, in a sentence.
    pub meaning: &'static str,
}

/// How values of a counter are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// It only grows: the difference of two readings is what was used between them.
    Total,
    /// As it is at the moment.
    Level,
    /// Computed from others over a span.
    Derived,
}

/// What it takes to have a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
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
