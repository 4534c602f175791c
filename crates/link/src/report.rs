//! The report of a link: its traffic, and how late packets were delivered.

use std::net::Ipv4Addr;

use serde::Serialize;
use sojourn_measure::Summary;

/// The implementation that carried the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Shaper {
    User,
    /// The kernel, which reports fewer figures.
    Kernel,
}

/// The result of running a link.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema), schemars(rename = "LinkReport"))]
pub struct Report {
    /// The implementation; figures that it cannot report are null.
    pub shaper: Shaper,
    pub server_address: Ipv4Addr,
    /// The first client's address; the others follow it.
    pub client_address: Ipv4Addr,
    /// The number of clients, each with a line of its own.
    pub lines: u32,
    /// Seed of all random draws.
    pub seed: Option<u64>,
    pub duration_seconds: f64,
    /// CPU time of the link, including the kernel's work for it.
    pub cpu_seconds: Option<f64>,
    /// True if more than one packet in a hundred, in either direction, was later than the limit: part of the delay was
    /// then this machine's, not the line's.
    pub limited: Option<bool>,
    pub lateness_limit_seconds: Option<f64>,
    pub up: DirectionReport,
    pub down: DirectionReport,
}

#[derive(Clone, Debug, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema), schemars(rename = "LinkDirection"))]
pub struct DirectionReport {
    /// The rate of each line; null is unlimited.
    pub rate_bits_per_second: Option<f64>,
    /// The mean delay of a packet, without the extra delay of each line.
    pub mean_delay_seconds: f64,
    /// The configured share of lost packets.
    pub loss_probability: f64,
    pub packets: u64,
    /// Bytes of these packets, IP headers included.
    pub bytes: Option<u64>,
    pub delivered_packets: u64,
    pub delivered_bytes: u64,
    /// Packets that found the queue full or were lost. The kernel's shaper counts a large segment from TCP as one
    /// packet.
    pub dropped_packets: u64,
    pub overflowed_packets: Option<u64>,
    /// Packets lost by the configured loss.
    pub lost_packets: Option<u64>,
    /// Packets that were not IPv4 or belonged to no client: dropped.
    pub foreign_packets: Option<u64>,
    /// Packets that the kernel refused at the receiving end.
    pub refused_packets: Option<u64>,
    /// Packets still in transit at the end.
    pub pending_packets: u64,
    /// The most packets of one line waiting or being sent at a time.
    pub queue_packets_max: Option<usize>,
    /// Delivery time minus due time.
    pub lateness_seconds: Option<Summary>,
}
