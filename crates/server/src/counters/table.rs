//! Tables of counters: an enumeration whose every member has a key, a kind and a help text, for reports and metrics.
//!
//! The counters of a server are one such table ([`Counter`](crate::Counter)); servers in other crates have
//! their own.

/// Counters that only grow, and others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterKind {
    /// Only grows: a counter of Prometheus.
    Total,
    /// A time that only grows: counted in nanoseconds, shown in seconds.
    Seconds,
    /// What is so now, up or down: a gauge of Prometheus.
    Gauge,
    /// How often a limit was reached; named `limit_hits_` and the limit.
    Limit,
}

/// Declares a table: an enumeration, then a line per counter of its name, key, [`CounterKind`] and help text.
#[macro_export]
macro_rules! counter_table {
    ($(#[$about:meta])* pub enum $table:ident; $($name:ident $key:literal $kind:ident $help:literal)*) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum $table { $(#[doc = $help] $name,)* }

        impl $table {
            /// Every counter, in the order of the report.
            pub const ALL: &[$table] = &[$($table::$name),*];

            /// The key in JSON, with its unit.
            pub fn key(self) -> &'static str {
                match self { $($table::$name => $key,)* }
            }

            /// Total, time, gauge or limit.
            pub fn kind(self) -> $crate::CounterKind {
                match self { $($table::$name => $crate::CounterKind::$kind,)* }
            }

            /// One line for the metrics page and the reference.
            pub fn help(self) -> &'static str {
                match self { $($table::$name => $help,)* }
            }
        }
    };
}
