//! Counters of a network namespace: its connections and interfaces.

use super::{Counter, Kind, Tier};

pub const TABLE: &[Counter] = &[
    Counter {
        name: "listen_overflows",
        unit: "1",
        kind: Kind::Total,
        tier: Tier::Kernel,
        source: "/proc/net/netstat ListenOverflows",
        meaning: "Connections that found an accept queue full, in the whole network namespace.",
    },
    Counter {
        name: "listen_drops",
        unit: "1",
        kind: Kind::Total,
        tier: Tier::Kernel,
        source: "/proc/net/netstat ListenDrops",
        meaning: "Connection attempts that a listener dropped, in the whole network namespace.",
    },
    Counter {
        name: "retransmitted_segments",
        unit: "1",
        kind: Kind::Total,
        tier: Tier::Kernel,
        source: "/proc/net/snmp RetransSegs",
        meaning: "TCP segments sent again, in the whole network namespace.",
    },
    Counter {
        name: "network_received_bytes",
        unit: "B",
        kind: Kind::Total,
        tier: Tier::Kernel,
        source: "/proc/PID/net/dev",
        meaning: "Bytes received by all interfaces of the network namespace, loopback included.",
    },
    Counter {
        name: "network_sent_bytes",
        unit: "B",
        kind: Kind::Total,
        tier: Tier::Kernel,
        source: "/proc/PID/net/dev",
        meaning: "Bytes sent by all interfaces of the network namespace, loopback included.",
    },
    Counter {
        name: "accept_queue",
        unit: "1",
        kind: Kind::Level,
        tier: Tier::Kernel,
        source: "sock_diag idiag_rqueue of LISTEN; /proc/PID/net/tcp rx_queue",
        meaning: "Connections that wait to be accepted on the watched port.",
    },
];
