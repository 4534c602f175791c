//! A forward proxy's connections to origins: DNS lookups, address checks, and connection pools per origin.
//!
//! Requests and tunnels of a loop that need the same lookup share it. The result is checked for each of them: a
//! connection is made only to an address that has just been permitted.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use slab::Slab;

use super::UpstreamClient;
use super::lookup::Lookup;
use super::pools::Pool;
use super::tunnel::Tunnel;
use crate::connection::{Address, Destination};
use crate::counters::{Counter, Served};
use crate::handler::destination::{Addresses, Origin, Refusal, Rules};
use crate::handler::reverse_proxy::flow::Network;
use crate::handler::reverse_proxy::{End, FlowId, TunnelId};

/// The state that a forward proxy's loop has beside its [`UpstreamClient`].
#[derive(Debug, Default)]
pub struct OriginConnections {
    pub(super) pools: HashMap<Arc<Origin>, usize>,
    lookups: HashMap<Box<str>, Vec<LookupWaiter>>,
    pub(super) tunnels: Slab<Tunnel>,
    /// The number of tunnels of each client that has some.
    pub(super) tunnel_counts: HashMap<Network, usize>,
}

/// A flow or tunnel that waits for the addresses of its origin.
#[derive(Clone, Copy, Debug)]
pub(super) enum LookupWaiter {
    Flow(FlowId),
    Tunnel(TunnelId),
}

impl UpstreamClient {
    /// Gives the flow a connection to `origin`; an idle one, if there is one and it `may_reuse` it.
    pub(super) fn dispatch_to(
        &mut self,
        origin: &Arc<Origin>,
        id: FlowId,
        may_reuse: bool,
        served: &mut Served,
    ) {
        let pool = self.origins.pools.get(origin).copied();
        if !(may_reuse && pool.is_some_and(|pool| self.reuse(id, pool, served))) {
            self.seek(origin, LookupWaiter::Flow(id), served);
        }
    }

    /// Finds the addresses of `origin` for `seeker`, immediately or after a lookup.
    pub(super) fn seek(&mut self, origin: &Origin, seeker: LookupWaiter, served: &mut Served) {
        let rules = rules(&self.proxy.forward);
        if let Some(addresses) = rules.cached(origin) {
            return self.find(seeker, Ok(&addresses), served);
        }
        if let Some(others) = self.origins.lookups.get_mut(&origin.host) {
            return others.push(seeker);
        }
        let owner = match seeker {
            LookupWaiter::Flow(id) => self.owner_of(id),
            LookupWaiter::Tunnel(id) => self.origins.tunnels[id.0].owner,
        };
        match rules.resolver.begin(&origin.host, owner) {
            Ok(pending) => {
                served.count(Counter::Lookups);
                self.origins.lookups.insert(origin.host.clone(), vec![seeker]);
                let lookup = Lookup::new(origin.host.clone(), pending.outcome);
                self.launch(Destination::Socket(pending.socket), Box::new(lookup), None);
            }
            Err(_) => self.find(seeker, Err(Refusal::Lookups), served),
        }
    }

    /// Handles the outcome of looking up `host`.
    pub fn resolved(&mut self, host: &str, outcome: Result<&Addresses, Refusal>, served: &mut Served) {
        for seeker in self.origins.lookups.remove(host).unwrap_or_default() {
            self.find(seeker, outcome, served);
        }
    }

    fn find(&mut self, seeker: LookupWaiter, outcome: Result<&Addresses, Refusal>, served: &mut Served) {
        let permitted = outcome.and_then(|addresses| rules(&self.proxy.forward).permitted(addresses));
        match seeker {
            LookupWaiter::Flow(id) => self.connect_flow(id, permitted, served),
            LookupWaiter::Tunnel(id) => self.connect_tunnel(id, permitted),
        }
    }

    fn connect_flow(&mut self, id: FlowId, permitted: Result<Addresses, Refusal>, served: &mut Served) {
        let flow = self.flow(id);
        let (addresses, origin) = match (permitted, &flow.origin) {
            // The request has ended.
            _ if flow.end.is_some() => return self.finish(id, End::Abandoned),
            (Err(refusal), _) => return self.finish(id, End::Refused(refusal)),
            (Ok(addresses), Some(origin)) => (addresses, Arc::clone(origin)),
            (Ok(_), None) => unreachable!("only who has an origin seeks it"),
        };
        // After a failure, try the next address.
        let address = addresses[(flow.attempts as usize - 1) % addresses.len()];
        let max = self.limits.upstream.connections_max;
        let pool = self.pool_of(&origin);
        if self.pools[pool].open >= max {
            return self.refuse_saturated(id, served);
        }
        self.connect(id, pool, Address::Internet(SocketAddr::new(address, origin.port)), served);
    }

    /// The pool of an origin to which a connection is about to be made.
    fn pool_of(&mut self, origin: &Arc<Origin>) -> usize {
        let pools = &mut self.pools;
        *self
            .origins
            .pools
            .entry(Arc::clone(origin))
            .or_insert_with(|| pools.insert(Pool { origin: Some(Arc::clone(origin)), ..Pool::default() }))
    }
}

fn rules(rules: &Option<Arc<Rules>>) -> &Rules {
    rules.as_ref().expect("only a forward proxy's requests have origins")
}
