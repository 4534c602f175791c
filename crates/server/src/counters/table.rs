//! Tables of counters: an enumeration whose members have a key, a kind and a help text, for reports and metrics.
//!
//! The server's counters are one such table ([`Counter`](crate::Counter)); servers in other crates have their own.

/// How a counter behaves and is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterKind {
    /// Never decreases: a Prometheus counter.
    Total,
    /// A time that never decreases: counted in nanoseconds, shown in seconds.
    Seconds,
    /// A momentary value: a Prometheus gauge.
    Gauge,
    /// How often a limit was reached; its key is `limit_hits_` and the limit's name.
    Limit,
}

/// Declares a table: an enumeration, then one line per counter with name, key, [`CounterKind`] and help text.
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

            /// The key in JSON, including its unit.
            pub fn key(self) -> &'static str {
                match self { $($table::$name => $key,)* }
            }

            pub fn kind(self) -> $crate::CounterKind {
                match self { $($table::$name => $crate::CounterKind::$kind,)* }
            }

            /// One line of help for the metrics page and the reference.
            pub fn help(self) -> &'static str {
                match self { $($table::$name => $help,)* }
            }
        }
    };
}
