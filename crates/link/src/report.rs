//! The report of a link: its traffic, and its own lateness.

use std::net::Ipv4Addr;

use schemars::JsonSchema;
use serde::Serialize;
use sojourn_measure::Summary;

/// The carrier of a link's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Shaper {
    User,
    /// The kernel, which does not say all that we could.
    Kernel,
}

/// A run of a link.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "LinkReport")]
pub struct Report {
    /// Values that this carrier cannot tell are null.
    pub shaper: Shaper,
    pub server_address: Ipv4Addr,
    /// The first client's; the others follow.
    pub client_address: Ipv4Addr,
    /// Clients, each behind a line of its own.
    pub lines: u32,
    /// Says everything that was random.
    pub seed: Option<u64>,
    pub duration_seconds: f64,
    /// CPU time that it took, the kernel's work for it included.
    pub cpu_seconds: Option<f64>,
    /// True if more than one packet in a hundred, in either direction, was later than the limit: part of the delay was
    /// this machine's, not the line's.
    pub limited: Option<bool>,
    pub lateness_limit_seconds: Option<f64>,
    /// From the clients to the server.
    pub up: DirectionReport,
    /// From the server to the clients.
    pub down: DirectionReport,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "LinkDirection")]
pub struct DirectionReport {
    /// The rate of each line; null is unlimited.
    pub rate_bits_per_second: Option<f64>,
    /// The mean delay of a packet, without what each line adds.
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
    /// Packets that found the queue full or were lost; the kernel's shaper counts a segment that TCP handed
    /// over as one packet.
    pub dropped_packets: u64,
    /// Packets that found the queue full.
    pub overflowed_packets: Option<u64>,
    /// Packets that were lost as they were to be.
    pub lost_packets: Option<u64>,
    /// Packets that were of no client's line, or not IPv4: dropped.
    pub foreign_packets: Option<u64>,
    /// Packets that the kernel did not take at the other end.
    pub refused_packets: Option<u64>,
    /// Packets in transit at the end.
    pub pending_packets: u64,
    /// The most packets of one line that waited or were being sent.
    pub queue_packets_max: Option<usize>,
    /// Delivery time less due time.
    pub lateness_seconds: Option<Summary>,
}
