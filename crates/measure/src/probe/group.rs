//! Groups of sources that can be read or left alone: what is left alone costs nothing.

/// Sources that are read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// The process trees in /proc.
    Processes,
    /// The control group.
    Cgroup,
    /// perf's software events.
    Software,
    /// perf's tracepoints.
    Tracepoints,
    /// The processor's own counters.
    Processor,
    /// The time of the cores.
    Cores,
    /// Pressure stall information.
    Pressure,
    /// The network namespace and the accept queue.
    Network,
    /// What of a site is in memory.
    Site,
}

impl Group {
    /// Every group, in the order in which they are read.
    pub const ALL: [Group; 9] = [
        Group::Processes,
        Group::Cgroup,
        Group::Software,
        Group::Tracepoints,
        Group::Processor,
        Group::Cores,
        Group::Pressure,
        Group::Network,
        Group::Site,
    ];

    /// Its name in options.
    pub fn name(self) -> &'static str {
        match self {
            Group::Processes => "processes",
            Group::Cgroup => "cgroup",
            Group::Software => "software",
            Group::Tracepoints => "tracepoints",
            Group::Processor => "processor",
            Group::Cores => "cores",
            Group::Pressure => "pressure",
            Group::Network => "network",
            Group::Site => "site",
        }
    }
}
