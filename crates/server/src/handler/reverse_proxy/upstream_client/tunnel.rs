//! Tunnels (CONNECT and upgrades): pass bytes between a client and an origin unchanged.
//!
//! A tunnel has a connection on each side, and a [`Channel`] in each direction. That holds the side that fills it back when it
//! is full (backpressure), and wakes the other one.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use crate::counters::scoreboard::network;
use crate::handler::reverse_proxy::End;
use crate::handler::reverse_proxy::flow::Network;

/// The most bytes buffered in one direction.
pub(super) const CHANNEL_BYTES_MAX: usize = 64 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    ToOrigin,
    ToClient,
}

impl Direction {
    pub fn opposite(self) -> Direction {
        match self {
            Direction::ToOrigin => Direction::ToClient,
            Direction::ToClient => Direction::ToOrigin,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The origin is being looked up or connected to.
    Opening,
    Open,
    /// Closed for this reason.
    Closed(End),
    /// One of its connections has ended: the others must end, too.
    Broken,
}

/// A tunnel between a client and an origin, with the bytes in transit.
#[derive(Debug)]
pub struct Tunnel {
    /// Whose it is.
    pub(super) owner: Network,
    /// The port of the origin that it connects to.
    pub(super) port: u16,
    pub(super) stage: Stage,
    /// Addresses of the origin not tried yet.
    pub(super) addresses: VecDeque<IpAddr>,
    /// The client that waits until it is open.
    pub(super) client: Option<u64>,
    pub(super) out: Channel,
    pub(super) back: Channel,
    pub(super) moved: Duration,
    /// The number of connections and lookups that refer to it.
    pub(super) holders: u32,
}

/// One direction of a tunnel.
#[derive(Debug, Default)]
pub(super) struct Channel {
    pub(super) bytes: Vec<u8>,
    pub(super) is_ended: bool,
    /// The end was passed on to the receiving side; nothing more is sent.
    pub(super) is_shut: bool,
    pub(super) receiver: Option<u64>,
    pub(super) sender: Option<u64>,
    pub(super) moved_bytes: u64,
}

impl Tunnel {
    /// A tunnel for the client at `peer`.
    pub(super) fn new(peer: IpAddr, stage: Stage, now: Duration) -> Tunnel {
        Tunnel {
            owner: network(peer),
            port: 0,
            stage,
            addresses: VecDeque::new(),
            client: None,
            out: Channel::default(),
            back: Channel::default(),
            moved: now,
            // The client's connection, and the lookup of the origin or the connection to it.
            holders: 2,
        }
    }

    pub(super) fn channel(&mut self, direction: Direction) -> &mut Channel {
        match direction {
            Direction::ToOrigin => &mut self.out,
            Direction::ToClient => &mut self.back,
        }
    }

    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Returns true if it is no longer needed.
    pub fn is_over(&self) -> bool {
        match self.stage {
            Stage::Opening => false,
            Stage::Open => self.out.is_shut && self.back.is_shut,
            Stage::Closed(_) | Stage::Broken => true,
        }
    }

    /// Returns true if receiving for `direction` makes sense now.
    pub fn can_receive(&mut self, direction: Direction) -> bool {
        let channel = self.channel(direction);
        !channel.is_ended && channel.bytes.len() < CHANNEL_BYTES_MAX
    }

    /// Returns true if `direction` has bytes to send.
    pub fn has_bytes(&mut self, direction: Direction) -> bool {
        !self.channel(direction).bytes.is_empty()
    }

    /// Returns true if `direction` has ended and all its bytes were taken.
    pub fn is_drained(&mut self, direction: Direction) -> bool {
        let channel = self.channel(direction);
        channel.is_ended && channel.bytes.is_empty()
    }

    /// Returns true if the end of `direction` was passed on.
    pub fn is_shut(&mut self, direction: Direction) -> bool {
        self.channel(direction).is_shut
    }

    /// Bytes received for `direction` so far.
    pub fn moved_bytes(&mut self, direction: Direction) -> u64 {
        self.channel(direction).moved_bytes
    }
}
