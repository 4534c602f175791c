//! The options of a forward proxy, which is closed unless they open it.

use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use sojourn_server::UpstreamLimits;
use sojourn_server::handler::destination::{
    LOOPBACK, Network, NetworkError, PORTS, Ports, PortsError, Resolver, Rules, TUNNEL_PORTS,
};

use crate::serve::options::values::duration;

/// Clients, destinations and limits of a forward proxy.
#[derive(clap::Args)]
#[command(next_help_heading = "Forward proxy")]
pub struct ForwardOptions {
    /// Be a forward proxy: requests name the destination, http://HOST[:PORT]/… and https://… by absolute targets,
    /// anything else by tunnels (CONNECT)
    #[arg(long, conflicts_with = "upstream")]
    pub forward: bool,
    /// Clients to serve; repeatable [default: this host, 127.0.0.0/8 and ::1]
    #[arg(long, value_name = "NETWORK", value_parser = network, requires = "forward")]
    pub client: Vec<Network>,
    /// Non-public addresses that may be connected to (loopback, private, link-local, multicast and others); repeatable
    /// [default: none]
    #[arg(long, value_name = "NETWORK", value_parser = network, requires = "forward")]
    pub allow_address: Vec<Network>,
    /// Ports for requests; repeatable [default: 80, 443 and 1024-65535]
    #[arg(long, value_name = "PORT[-PORT]", value_parser = ports, requires = "forward")]
    pub allow_port: Vec<Ports>,
    /// Ports for tunnels; repeatable [default: 443]
    #[arg(long, value_name = "PORT[-PORT]", value_parser = ports, requires = "forward")]
    pub allow_tunnel_port: Vec<Ports>,
    /// Timeout for DNS lookups
    #[arg(long, default_value = "5s", value_name = "TIME", value_parser = duration)]
    pub lookup_timeout: Duration,
}

impl ForwardOptions {
    /// Adds the limits of a forward proxy.
    pub fn limits(&self, limits: UpstreamLimits) -> UpstreamLimits {
        UpstreamLimits { lookup: self.lookup_timeout, ..limits }
    }

    /// The rules, for a forward proxy; `tls` is the configuration for origins.
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
