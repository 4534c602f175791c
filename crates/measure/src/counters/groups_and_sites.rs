//! Counters of control groups, and of a site's pages in memory.

use super::{Counter, Kind, Tier};

pub const TABLE: &[Counter] = &[
    Counter {
        name: "cgroup_cpu_seconds",
        unit: "s",
        kind: Kind::Total,
        tier: Tier::Kernel,
        source: "cpu.stat usage_usec; cpuacct.usage",
        meaning: "CPU time of the control group.",
    },
    Counter {
        name: "cgroup_throttled_seconds",
        unit: "s",
        kind: Kind::Total,
        tier: Tier::Kernel,
        source: "cpu.stat throttled_usec; throttled_time",
        meaning: "Time for which the group was kept off the processor by its quota.",
    },
    Counter {
        name: "cgroup_page_faults",
        unit: "1",
        kind: Kind::Total,
        tier: Tier::Kernel,
        source: "memory.stat pgfault",
        meaning: "Page faults of the group, with those that waited for a disk.",
    },
    Counter {
        name: "cgroup_major_faults",
        unit: "1",
        kind: Kind::Total,
        tier: Tier::Kernel,
        source: "memory.stat pgmajfault",
        meaning: "Page faults of the group that waited for a disk.",
    },
    Counter {
        name: "site_resident_bytes",
        unit: "B",
        kind: Kind::Level,
        tier: Tier::Kernel,
        source: "cachestat, or mincore",
        meaning: "Pages of the site's files in the page cache, when last checked.",
    },
    Counter {
        name: "site_resident_fraction",
        unit: "1",
        kind: Kind::Level,
        tier: Tier::Kernel,
        source: "cachestat, or mincore",
        meaning: "The share of the site's bytes that is in the page cache.",
    },
    Counter {
        name: "site_recently_evicted_bytes",
        unit: "B",
        kind: Kind::Level,
        tier: Tier::Kernel,
        source: "cachestat",
        meaning: "Pages of the site that were driven out of memory so recently that more memory would have kept them.",
    },
    Counter {
        name: "cgroup_memory_bytes",
        unit: "B",
        kind: Kind::Level,
        tier: Tier::Kernel,
        source: "memory.current; memory.usage_in_bytes",
        meaning: "Memory charged to the group, page cache included.",
    },
    Counter {
        name: "cgroup_page_cache_bytes",
        unit: "B",
        kind: Kind::Level,
        tier: Tier::Kernel,
        source: "memory.stat file; total_cache",
        meaning: "Page cache charged to the group.",
    },
];
