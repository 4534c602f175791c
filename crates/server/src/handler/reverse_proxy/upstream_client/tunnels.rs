//! Opens tunnels (CONNECT and upgrades), connects them to their origins, and passes their bytes on; see [`Tunnel`].

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use sojourn_http::Status;

use super::origins::LookupWaiter;
use super::tunnel::{CHANNEL_BYTES_MAX, Direction, Stage, Tunnel};
use super::tunnel_ends::OriginEnd;
use super::{ATTEMPTS_MAX, UpstreamClient};
use crate::connection::{Address, Destination, Shared};
use crate::counters::scoreboard::network;
use crate::counters::{Counter, Served};
use crate::handler::destination::{Addresses, Origin, Refusal};
use crate::handler::reverse_proxy::{End, TunnelId};

impl UpstreamClient {
    /// Starts a tunnel to `origin` for the client at `peer`, whose connection is handling an event. That connection is
    /// woken when the tunnel is open or has failed.
    ///
    /// # Errors
    /// If the client has too many tunnels.
    pub fn open_tunnel(
        &mut self,
        origin: Origin,
        peer: IpAddr,
        served: &mut Served,
    ) -> Result<TunnelId, Refusal> {
        self.may_open_tunnel(peer)?;
        let tunnel = Tunnel::new(peer, Stage::Opening, self.now);
        let id = self.add_tunnel(Tunnel { client: Some(self.token), port: origin.port, ..tunnel });
        self.seek(&Arc::new(origin), LookupWaiter::Tunnel(id), served);
        Ok(id)
    }

    /// Makes a tunnel of the current connection, to an upstream, and that of the client at `peer`, which joins it later.
    pub fn open_upgraded(&mut self, peer: IpAddr, served: &mut Served) -> TunnelId {
        served.count(Counter::Tunnels);
        self.add_tunnel(Tunnel::new(peer, Stage::Open, self.now))
    }

    /// Adds a tunnel, which counts for its client until it is removed.
    fn add_tunnel(&mut self, tunnel: Tunnel) -> TunnelId {
        *self.origins.tunnel_counts.entry(tunnel.owner).or_default() += 1;
        TunnelId(self.origins.tunnels.insert(tunnel))
    }

    /// Checks the limit of tunnels per client.
    ///
    /// # Errors
    /// If the client at `peer` has too many.
    pub fn may_open_tunnel(&self, peer: IpAddr) -> Result<(), Refusal> {
        let count = self.origins.tunnel_counts.get(&network(peer)).copied().unwrap_or(0);
        if count < self.limits.upstream.tunnels_per_client { Ok(()) } else { Err(Refusal::Tunnels) }
    }

    pub fn tunnel(&mut self, id: TunnelId) -> &mut Tunnel {
        &mut self.origins.tunnels[id.0]
    }

    pub(super) fn has_tunnels(&self) -> bool {
        !self.origins.tunnels.is_empty()
    }

    /// The number of tunnels that can pass bytes.
    pub(in crate::handler) fn tunnels_open(&self) -> usize {
        self.origins.tunnels.iter().filter(|(_, tunnel)| tunnel.stage == Stage::Open).count()
    }

    /// The origin's addresses are known, or the tunnel is refused.
    pub(super) fn connect_tunnel(&mut self, id: TunnelId, permitted: Result<Addresses, Refusal>) {
        match permitted {
            Ok(addresses) => {
                self.origins.tunnels[id.0].addresses =
                    addresses.iter().copied().take(ATTEMPTS_MAX as usize).collect();
                self.try_tunnel(id, End::Failed(Status::BadGateway));
            }
            Err(refusal) => self.close_tunnel(id, End::Refused(refusal)),
        }
        // The connection to the origin holds it now.
        self.release_tunnel(id);
    }

    /// Connects to the next address of the origin; if none is left, closes the tunnel with `end`.
    fn try_tunnel(&mut self, id: TunnelId, end: End) {
        let tunnel = &mut self.origins.tunnels[id.0];
        if tunnel.stage != Stage::Opening {
            return;
        }
        let Some(address) = tunnel.addresses.pop_front() else { return self.close_tunnel(id, end) };
        tunnel.holders += 1;
        let to = Destination::Address(Address::Internet(SocketAddr::new(address, tunnel.port)));
        self.launch(to, Box::new(OriginEnd::new(id)), None);
    }

    fn close_tunnel(&mut self, id: TunnelId, end: End) {
        let tunnel = &mut self.origins.tunnels[id.0];
        if tunnel.stage == Stage::Opening {
            tunnel.stage = Stage::Closed(end);
            self.outbox.wake_all(tunnel.client);
        }
    }

    /// The current connection could not be made.
    pub fn fail_tunnel(&mut self, id: TunnelId, status: Status) {
        self.try_tunnel(id, End::Failed(status));
    }

    /// The current connection has reached the origin; returns true if the tunnel is still awaited.
    pub fn reach_tunnel(&mut self, id: TunnelId, served: &mut Served) -> bool {
        let tunnel = &mut self.origins.tunnels[id.0];
        let is_awaited = tunnel.stage == Stage::Opening;
        if is_awaited {
            (tunnel.stage, tunnel.moved) = (Stage::Open, self.now);
            served.count(Counter::Tunnels);
            self.outbox.wake_all(tunnel.client);
        }
        is_awaited
    }

    /// Records that the current connection receives for `direction`.
    pub fn receive_for(&mut self, id: TunnelId, direction: Direction) {
        self.origins.tunnels[id.0].channel(direction).receiver = Some(self.token);
    }

    /// Records that the current connection sends for `direction`.
    pub fn send_for(&mut self, id: TunnelId, direction: Direction) {
        self.origins.tunnels[id.0].channel(direction).sender = Some(self.token);
    }

    /// Adds bytes received for `direction`.
    pub fn push(&mut self, id: TunnelId, direction: Direction, bytes: &[u8], shared: &mut Shared<'_>) {
        let tunnel = &mut self.origins.tunnels[id.0];
        tunnel.moved = self.now;
        let channel = tunnel.channel(direction);
        if channel.bytes.capacity() == 0 {
            channel.bytes = shared.pool.take();
        }
        channel.bytes.extend_from_slice(bytes);
        channel.moved_bytes += bytes.len() as u64;
        self.outbox.wake_all(channel.sender);
        let counter = match direction {
            Direction::ToOrigin => Counter::TunnelSentBytes,
            Direction::ToClient => Counter::TunnelReceivedBytes,
        };
        shared.served.add(counter, bytes.len() as u64);
    }

    /// Records the end of `direction`.
    pub fn end_direction(&mut self, id: TunnelId, direction: Direction) {
        let channel = self.origins.tunnels[id.0].channel(direction);
        channel.is_ended = true;
        self.outbox.wake_all(channel.sender);
    }

    /// Takes the bytes to send in `direction`, with their memory.
    pub fn take(&mut self, id: TunnelId, direction: Direction) -> Vec<u8> {
        let tunnel = &mut self.origins.tunnels[id.0];
        tunnel.moved = self.now;
        let channel = tunnel.channel(direction);
        if channel.bytes.len() >= CHANNEL_BYTES_MAX {
            self.outbox.wake_all(channel.receiver);
        }
        std::mem::take(&mut channel.bytes)
    }

    /// Records that everything in `direction`, including its end, was sent.
    pub fn shut_direction(&mut self, id: TunnelId, direction: Direction) {
        let tunnel = &mut self.origins.tunnels[id.0];
        tunnel.channel(direction).is_shut = true;
        if tunnel.is_over() {
            self.wake_tunnel(id);
        }
    }

    /// Breaks the tunnel if it has been idle for too long; returns true if it did.
    pub fn ends_idle(&mut self, id: TunnelId) -> bool {
        let tunnel = &self.origins.tunnels[id.0];
        let is_idle = self.now.saturating_sub(tunnel.moved) >= self.limits.upstream.tunnel;
        let ends = is_idle && !tunnel.is_over();
        if ends {
            self.break_tunnel(id);
        }
        ends
    }

    /// One of its connections ended early.
    pub fn break_tunnel(&mut self, id: TunnelId) {
        let tunnel = &mut self.origins.tunnels[id.0];
        if !tunnel.is_over() {
            tunnel.stage = Stage::Broken;
            self.wake_tunnel(id);
        }
    }

    /// The caller no longer refers to it.
    pub fn release_tunnel(&mut self, id: TunnelId) {
        let tunnel = &mut self.origins.tunnels[id.0];
        tunnel.holders -= 1;
        if tunnel.holders == 0 {
            let owner = self.origins.tunnels.remove(id.0).owner;
            let count = self.origins.tunnel_counts.get_mut(&owner).expect("it was counted");
            *count -= 1;
            if *count == 0 {
                self.origins.tunnel_counts.remove(&owner);
            }
        }
    }

    fn wake_tunnel(&mut self, id: TunnelId) {
        let Tunnel { out, back, .. } = &self.origins.tunnels[id.0];
        let tokens = [out.receiver, out.sender, back.receiver, back.sender];
        self.outbox.wake_all(tokens.into_iter().flatten());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::reverse_proxy::Proxy;
    use crate::limits::Limits;

    #[test]
    fn a_network_of_ipv6_is_one_client() {
        let proxy = Proxy {
            upstreams: Vec::new(),
            hosts: Vec::new(),
            forward: None,
            pseudonym: "me".to_owned(),
            cache: None,
        };
        let mut limits = Limits::default();
        limits.upstream.tunnels_per_client = 2;
        let mut upstream_client = UpstreamClient::new(&Arc::new(proxy), &limits).unwrap();
        let peers = ["2001:db8::1", "2001:db8::2", "2001:db8::3"].map(|text| text.parse().unwrap());
        let mut open = |peer| upstream_client.open_upgraded(peer, &mut Served::default());
        let tunnels = [open(peers[0]), open(peers[1])];
        assert_eq!(upstream_client.may_open_tunnel(peers[2]), Err(Refusal::Tunnels));
        for other in ["2001:db8:0:1::1", "192.0.2.1"] {
            assert_eq!(upstream_client.may_open_tunnel(other.parse().unwrap()), Ok(()), "{other}");
        }
        for tunnel in tunnels {
            // The connection on either side.
            upstream_client.release_tunnel(tunnel);
            upstream_client.release_tunnel(tunnel);
        }
        assert_eq!(upstream_client.may_open_tunnel(peers[2]), Ok(()));
        assert!(upstream_client.origins.tunnel_counts.is_empty());
    }
}
