//! The table of counters: what each is called in results, its unit, where it comes from, what it means.

/// One counter.
#[derive(Clone, Copy, Debug)]
pub struct Counter {
    /// Its key in results.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Where it is read.
    pub source: &'static str,
    /// What it tells, in a sentence.
    pub meaning: &'static str,
}

/// Every counter that a result may hold.
pub const ALL: &[Counter] = &[
    Counter {
        name: "cpu_seconds",
        unit: "s",
        source: "/proc/PID/task/*/schedstat, /proc/PID/stat",
        meaning: "CPU time of the observed processes, their descendants and ended children.",
    },
    Counter {
        name: "cpu_user_fraction",
        unit: "1",
        source: "/proc/PID/stat utime, stime",
        meaning: "Share of that CPU time in user code, from ticks of 10 ms.",
    },
    Counter {
        name: "cpu_fraction",
        unit: "cores",
        source: "cpu_seconds over wall time",
        meaning: "Cores kept busy; above 1 when several work at once.",
    },
    Counter {
        name: "cpu_seconds_per_request",
        unit: "s",
        source: "cpu_seconds over responses",
        meaning: "CPU time per response completed in the same span: the service demand at the processor.",
    },
    Counter {
        name: "core_wait_fraction",
        unit: "1",
        source: "/proc/thread-self/schedstat",
        meaning: "Share of the time that the generator's thread was ready to run and others held its core.",
    },
    Counter {
        name: "core_busy_fraction",
        unit: "1",
        source: "/proc/stat",
        meaning: "Share of the core's time, less steal, in user, system and interrupt work, whoever it was for.",
    },
    Counter {
        name: "core_steal_fraction",
        unit: "1",
        source: "/proc/stat",
        meaning: "Share of the core's time that the hypervisor gave to others.",
    },
    Counter {
        name: "core_softirq_fraction",
        unit: "1",
        source: "/proc/stat",
        meaning: "Share of the core's time in deferred interrupt work, mostly network receive.",
    },
    Counter {
        name: "minor_faults",
        unit: "1",
        source: "/proc/PID/stat minflt, cminflt",
        meaning: "Page faults served from memory.",
    },
    Counter {
        name: "major_faults",
        unit: "1",
        source: "/proc/PID/stat majflt, cmajflt",
        meaning: "Page faults that waited for a disk.",
    },
    Counter {
        name: "voluntary_switches",
        unit: "1",
        source: "/proc/PID/task/*/status",
        meaning: "Times a thread gave up its core to wait.",
    },
    Counter {
        name: "involuntary_switches",
        unit: "1",
        source: "/proc/PID/task/*/status",
        meaning: "Times a thread lost its core to another.",
    },
    Counter {
        name: "resident_bytes",
        unit: "B",
        source: "/proc/PID/stat rss",
        meaning: "Memory in use, summed over processes, so that shared pages count in each.",
    },
    Counter {
        name: "listen_overflows",
        unit: "1",
        source: "/proc/net/netstat ListenOverflows",
        meaning: "Connections that found an accept queue full, in the whole network namespace.",
    },
    Counter {
        name: "listen_drops",
        unit: "1",
        source: "/proc/net/netstat ListenDrops",
        meaning: "Connection attempts that a listener dropped, in the whole network namespace.",
    },
    Counter {
        name: "retransmitted_segments",
        unit: "1",
        source: "/proc/net/snmp RetransSegs",
        meaning: "TCP segments sent again, in the whole network namespace.",
    },
];
