//! Groups of sources. Sources of a group that is not selected are never read and cost nothing.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// The process trees, from /proc.
    Processes,
    Cgroup,
    Software,
    Tracepoints,
    Processor,
    Cores,
    Pressure,
    /// The network namespace and the accept queue.
    Network,
    Site,
}

impl Group {
    /// Every group, in the order of reading.
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
