//! The options of a forward proxy. It is closed unless they open it.

use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use sojourn_server::UpstreamLimits;
use sojourn_server::handler::forward_proxy::{
    LOOPBACK, Network, NetworkError, PORTS, Ports, PortsError, Resolver, Rules, TUNNEL_PORTS,
};

use crate::serve::options::values::duration;

/// Whom a forward proxy takes where.
#[derive(clap::Args)]
#[command(next_help_heading = "Forward proxy")]
pub struct ForwardOptions {
    /// Go where requests say: http://HOST[:PORT]/… and https://… by absolute targets, anything else by tunnels (CONNECT)
    #[arg(long, conflicts_with = "upstream")]
    pub forward: bool,
    /// Clients that are served, also several times [default: this host, 127.0.0.0/8 and ::1]
    #[arg(long, value_name = "NETWORK", value_parser = network, requires = "forward")]
    pub client: Vec<Network>,
    /// Addresses to connect to although they are not public (loopback, private, link-local, multicast and the
    /// like), also several times [default: none]
    #[arg(long, value_name = "NETWORK", value_parser = network, requires = "forward")]
    pub allow_address: Vec<Network>,
    /// Ports that requests may go to, also several times [default: 80, 443 and 1024-65535]
    #[arg(long, value_name = "PORT[-PORT]", value_parser = ports, requires = "forward")]
    pub allow_port: Vec<Ports>,
    /// Ports that tunnels may go to, also several times [default: 443]
    #[arg(long, value_name = "PORT[-PORT]", value_parser = ports, requires = "forward")]
    pub allow_tunnel_port: Vec<Ports>,
    /// Timeout for looking up a name
    #[arg(long, default_value = "5s", value_name = "TIME", value_parser = duration)]
    pub lookup_timeout: Duration,
    /// Idle timeout of a tunnel
    #[arg(long, default_value = "5m", value_name = "TIME", value_parser = duration)]
    pub tunnel_idle_timeout: Duration,
    /// Tunnels that one client may have at once, in each loop; more are answered 503
    #[arg(long, default_value_t = 256, value_name = "N")]
    pub tunnels_per_client: usize,
}

impl ForwardOptions {
    /// `limits` with those of a forward proxy.
    pub fn limits(&self, limits: UpstreamLimits) -> UpstreamLimits {
        UpstreamLimits {
            lookup: self.lookup_timeout,
            tunnel: self.tunnel_idle_timeout,
            tunnels_per_client: self.tunnels_per_client,
            ..limits
        }
    }

    /// The rules, if it is to be a forward proxy; `tls` is how it is spoken with origins.
    pub fn rules(
        &self,
        tls: impl FnOnce() -> anyhow::Result<Option<Arc<ClientConfig>>>,
    ) -> anyhow::Result<Option<Arc<Rules>>> {
        let rules = self.forward.then(|| {
            Ok(Arc::new(Rules {
                clients: given(&self.client, &LOOPBACK),
                addresses: self.allow_address.clone(),
                ports: given(&self.allow_port, &PORTS),
                tunnel_ports: given(&self.allow_tunnel_port, &TUNNEL_PORTS),
                resolver: Resolver::default(),
                tls: tls()?,
            }))
        });
        rules.transpose()
    }
}

fn given<T: Clone>(values: &[T], default: &[T]) -> Vec<T> {
    if values.is_empty() { default.to_vec() } else { values.to_vec() }
}

fn network(text: &str) -> Result<Network, NetworkError> {
    text.parse()
}

fn ports(text: &str) -> Result<Ports, PortsError> {
    text.parse()
}
