//! What went over the link, and how well the link kept its own word.

use std::net::Ipv4Addr;

use schemars::JsonSchema;
use serde::Serialize;
use sojourn_measure::Summary;

/// Who carries the packets of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Shaper {
    User,
    /// The kernel, which does not say all that we could.
    Kernel,
}

/// A run of a link.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Report {
    /// Who carried its packets. What it does not say is null.
    pub shaper: Shaper,
    pub server_address: Ipv4Addr,
    /// The first client's; the others follow.
    pub client_address: Ipv4Addr,
    /// Clients, each behind a line of its own.
    pub lines: u32,
    /// Says everything that was random.
    pub seed: Option<u64>,
    /// How long it was up.
    pub duration_seconds: f64,
    /// CPU time that it took, the kernel's work for it included.
    pub cpu_seconds: Option<f64>,
    /// Whether more than one packet in a hundred, in either direction, arrived later than the limit: then this
    /// machine, not the line, made part of the delay.
    pub limited: Option<bool>,
    pub lateness_limit_seconds: Option<f64>,
    /// From the clients to the server.
    pub up: Way,
    /// From the server to the clients.
    pub down: Way,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Way {
    /// Of each line; none is unlimited.
    pub rate_bits_per_second: Option<f64>,
    /// Of a packet, without what each line adds.
    pub mean_delay_seconds: f64,
    /// The share of packets that is to be lost.
    pub loss_probability: f64,
    /// Packets that were sent into it.
    pub packets: u64,
    /// Bytes of theirs, IP headers included.
    pub bytes: Option<u64>,
    /// Packets that were handed over at the other end.
    pub delivered_packets: u64,
    pub delivered_bytes: u64,
    /// Packets that found the queue full or were lost; by the kernel's shaper what TCP handed over as one is one.
    pub dropped_packets: u64,
    /// Packets that found the queue full.
    pub overflowed_packets: Option<u64>,
    /// Packets that were lost as they were to be.
    pub lost_packets: Option<u64>,
    /// Packets that were of no client's line, or not IPv4: dropped.
    pub foreign_packets: Option<u64>,
    /// Packets that the kernel did not take at the other end.
    pub refused_packets: Option<u64>,
    /// Packets that were still on their way at the end.
    pub pending_packets: u64,
    /// The most packets of one line that waited or were being sent.
    pub queue_packets_max: Option<usize>,
    /// How much later than due packets were handed over.
    pub lateness_seconds: Option<Summary>,
}
