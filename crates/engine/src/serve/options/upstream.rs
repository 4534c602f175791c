//! Options of upstreams: trust, timeouts and health checks; and upstreams made from their URLs.

use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use sojourn_cgi::Application;
use sojourn_http::token::is_target;
use sojourn_load::{TlsError, Trust, client_config};
use sojourn_s3::Location;
use sojourn_server::UpstreamLimits;
use sojourn_server::connection::Address;
use sojourn_server::handler::reverse_proxy::{
    Bucket as UpstreamBucket, HealthCheck, Protocol, Scheme, Upstream, UpstreamState, UpstreamUrl,
    UpstreamUrlError,
};
use sojourn_server::tls::UpstreamTls;

use super::bucket::Bucket;
use super::origin::S3Options;
use super::values::{duration, size};

/// What a path that ends in a slash stands for in a bucket.
const INDEX: &[u8] = b"index.html";

/// How many origins' TLS sessions a forward proxy keeps for resumption.
const SESSIONS_REMEMBERED: usize = 256;

/// Certificates, timeouts and health checks of upstreams.
#[derive(clap::Args)]
#[command(next_help_heading = "Upstreams")]
pub struct UpstreamOptions {
    /// Trusted authorities for certificates of upstreams and remote origins [default: the system's]
    #[arg(long, value_name = "FILE", conflicts_with = "upstream_insecure")]
    pub upstream_ca: Option<PathBuf>,
    /// Accept any certificate of an upstream or origin: anyone in between can read and change everything
    #[arg(long)]
    pub upstream_insecure: bool,
    /// Timeout for connecting to an upstream, including the TLS handshake and sending the first part of the request
    #[arg(long, default_value = "5s", value_name = "TIME", value_parser = duration)]
    pub upstream_connect_timeout: Duration,
    /// Timeout for an upstream that accepts no further part of a request
    #[arg(long, default_value = "30s", value_name = "TIME", value_parser = duration)]
    pub upstream_send_timeout: Duration,
    /// Timeout for the head of an upstream's response
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = duration)]
    pub upstream_head_timeout: Duration,
    /// Timeout for a pause within an upstream's response
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = duration)]
    pub upstream_body_timeout: Duration,
    /// Idle timeout of a pooled connection to an upstream
    #[arg(long, default_value = "4s", value_name = "TIME", value_parser = duration)]
    pub upstream_idle_timeout: Duration,
    /// Connections per upstream and loop; a client address may use as many of them as are free
    #[arg(long, default_value_t = 1024, value_name = "N")]
    pub upstream_connections_max: usize,
    /// How long a request may wait for a connection before it is answered 503
    #[arg(long, default_value = "5s", value_name = "TIME", value_parser = duration)]
    pub upstream_queue_timeout: Duration,
    /// Idle connections kept per upstream and loop [default: 64; none to FastCGI applications where processes serve:
    /// mp, helper, fork]
    #[arg(long, value_name = "N")]
    pub upstream_idle_max: Option<usize>,
    /// Failures in a row after which an upstream is down
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub upstream_failures_max: u32,
    /// How long it stays down before it is tried again
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = duration)]
    pub upstream_down_time: Duration,
    /// Buffer the whole body of a request before it takes a connection to an upstream, so that clients that send slowly
    /// hold none
    #[arg(long)]
    pub upstream_request_buffering: bool,
    /// The most bytes of a request body to buffer: with --upstream-request-buffering, and of a chunked one for FastCGI and
    /// CGI, which need the length first; more is answered 413
    #[arg(long, default_value = "1MiB", value_name = "SIZE", value_parser = size)]
    pub upstream_gathered_max: usize,
    /// The most bytes of request bodies that a loop buffers at a time; a request whose body does not fit is answered 503
    #[arg(long, default_value = "64MiB", value_name = "SIZE", value_parser = size)]
    pub upstream_gathered_total: usize,
    /// Idle timeout of a tunnel: a WebSocket or another connection after an upgrade, or a CONNECT
    #[arg(long, default_value = "5m", value_name = "TIME", value_parser = duration)]
    pub tunnel_idle_timeout: Duration,
    /// Tunnels per client and loop; more are answered 503
    #[arg(long, default_value_t = 256, value_name = "N")]
    pub tunnels_per_client: usize,
    /// Check every upstream's health at this path, and use only those that respond 2xx or 3xx [default: no health
    /// checks]
    #[arg(long, value_name = "PATH", value_parser = health_path)]
    pub health_path: Option<String>,
    /// Interval of health checks per upstream
    #[arg(long, default_value = "2s", value_name = "TIME", value_parser = duration)]
    pub health_interval: Duration,
    /// Timeout of a health check's response
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = duration)]
    pub health_timeout: Duration,
    /// Successful checks in a row after which an upstream is up again
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub health_rise: u32,
    /// Failed checks in a row after which it is down
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub health_fall: u32,
    #[command(flatten)]
    pub s3: S3Options,
}

impl UpstreamOptions {
    pub fn limits(&self) -> UpstreamLimits {
        let usual = UpstreamLimits::default();
        UpstreamLimits {
            connect: self.upstream_connect_timeout,
            send: self.upstream_send_timeout,
            head: self.upstream_head_timeout,
            body: self.upstream_body_timeout,
            idle: self.upstream_idle_timeout,
            connections_max: self.upstream_connections_max,
            queue: self.upstream_queue_timeout,
            idle_max: self.upstream_idle_max.unwrap_or(usual.idle_max),
            failures_max: self.upstream_failures_max,
            down: self.upstream_down_time,
            buffers_requests: self.upstream_request_buffering,
            gathered_bytes_max: self.upstream_gathered_max,
            gathered_total_max: self.upstream_gathered_total,
            tunnel: self.tunnel_idle_timeout,
            tunnels_per_client: self.tunnels_per_client,
            ..usual
        }
    }

    /// The health check, if configured.
    pub fn health_check(&self) -> Option<HealthCheck> {
        self.health_path.clone().map(|path| HealthCheck {
            path,
            interval: self.health_interval,
            timeout: self.health_timeout,
            rise: self.health_rise,
            fall: self.health_fall,
        })
    }

    /// Fails if trust is configured but none of `urls` uses TLS.
    pub fn check_trust<'a>(&self, mut urls: impl Iterator<Item = &'a UpstreamUrl>) -> anyhow::Result<()> {
        ensure!(
            !self.trusts_somebody() || urls.any(|url| matches!(url.scheme, Scheme::Https | Scheme::S3)),
            "no upstream uses TLS\nhint: write its URL as https://127.0.0.1:9443"
        );
        Ok(())
    }

    /// The upstreams with their names resolved, and the settings of those that use FastCGI.
    pub fn upstreams<'a>(
        &self,
        urls: impl Iterator<Item = (&'a UpstreamUrl, &'a Arc<Application>)> + Clone,
    ) -> anyhow::Result<Vec<Upstream>> {
        let secure = urls.clone().filter(|(url, _)| url.scheme == Scheme::Https).count();
        let config = if secure > 0 { Some(Arc::new(self.client_config(secure)?)) } else { None };
        urls.map(|(url, application)| {
            let upstream = match &url.bucket {
                None => resolve(url, config.as_ref(), application),
                Some(location) => self.bucket(url, location),
            }?;
            Ok(Upstream { idle_max: self.upstream_idle_max, ..upstream })
        })
        .collect()
    }

    /// The bucket that `url` names, at the endpoint of this environment.
    fn bucket(&self, url: &UpstreamUrl, location: &Location) -> anyhow::Result<Upstream> {
        let bucket = Bucket::find(location, &self.s3)?;
        let endpoint: UpstreamUrl =
            bucket.url.parse().with_context(|| format!("the endpoint {}", bucket.url))?;
        let config = if endpoint.scheme == Scheme::Https { Some(self.client_tls()?) } else { None };
        let path = bucket.path.clone();
        let signer = bucket.signer(&self.s3, || self.client_tls())?;
        let index = INDEX.into();
        let bucket = UpstreamBucket { authority: endpoint.authority.clone(), path, signer, index };
        let upstream = resolve(&endpoint, config.as_ref(), &Arc::default())?;
        let protocol = Protocol::S3(Arc::new(bucket));
        Ok(Upstream { protocol, name: url.name.clone(), weight: url.weight, ..upstream })
    }

    /// TLS for remote origins, and for services that hand out credentials.
    pub fn client_tls(&self) -> anyhow::Result<Arc<ClientConfig>> {
        self.client_config(SESSIONS_REMEMBERED).map(Arc::new)
    }

    /// TLS for the origins of a forward proxy; `None` without authorities.
    pub fn origins_tls(&self) -> anyhow::Result<Option<Arc<ClientConfig>>> {
        match self.client_config(SESSIONS_REMEMBERED) {
            Ok(config) => Ok(Some(Arc::new(config))),
            Err(error) if self.trusts_somebody() => Err(error),
            Err(error) => {
                eprintln!("warning: https URLs work through tunnels only: {error:#}");
                Ok(None)
            }
        }
    }

    fn trusts_somebody(&self) -> bool {
        self.upstream_insecure || self.upstream_ca.is_some()
    }

    fn client_config(&self, remembered: usize) -> anyhow::Result<ClientConfig> {
        let trust = match &self.upstream_ca {
            _ if self.upstream_insecure => Trust::Anything,
            Some(file) => Trust::File(file.clone()),
            None => Trust::System,
        };
        if trust == Trust::Anything {
            eprintln!("warning: --upstream-insecure: the certificates of upstreams are not verified");
        }
        client_config(&trust, remembered).map_err(|error| match error {
            TlsError::Authorities { from, why } => {
                anyhow!("no CA certificates in {from}: {why}\nhint: pass the upstreams' CA with --upstream-ca FILE")
            }
            other => anyhow!(other),
        })
    }
}

/// Resolves `url`; `config` is its TLS configuration, `application` its FastCGI settings.
fn resolve(
    url: &UpstreamUrl,
    config: Option<&Arc<ClientConfig>>,
    application: &Arc<Application>,
) -> anyhow::Result<Upstream> {
    let addresses = addresses(url)?;
    ensure!(
        !addresses.is_empty(),
        "the host of the upstream {} has no address\nhint: check its DNS entry, or give an address",
        url.name
    );
    let tls = match config.filter(|_| url.scheme == Scheme::Https) {
        Some(config) => {
            let name = ServerName::try_from(url.host.clone()).map_err(|_| {
                anyhow!("a certificate cannot cover the upstream name {}\nhint: use a host name", url.host)
            })?;
            Some(UpstreamTls { config: Arc::clone(config), name })
        }
        None => None,
    };
    let protocol = match url.scheme {
        Scheme::Http | Scheme::Https => Protocol::Http,
        Scheme::FastCgi => Protocol::FastCgi(Arc::clone(application)),
        Scheme::S3 => unreachable!("a bucket is resolved at its endpoint"),
    };
    Ok(Upstream {
        name: url.name.clone(),
        protocol,
        authority: url.authority.clone(),
        host: url.host.clone(),
        port: url.port,
        presence: Arc::new(UpstreamState::new(&addresses)),
        occupancy: Arc::default(),
        tls,
        weight: url.weight,
        idle_max: None,
        processes: None,
    })
}

fn addresses(url: &UpstreamUrl) -> anyhow::Result<Vec<Address>> {
    if let Some(socket) = &url.socket {
        return Ok(vec![Address::Unix(socket.as_path().into())]);
    }
    let found = (url.host.as_str(), url.port).to_socket_addrs().map_err(|error| {
        anyhow!("cannot resolve the upstream {}: {error}\nhint: check the name, or give an address", url.name)
    })?;
    Ok(found.map(Address::Internet).collect())
}

/// Parses a path with an optional query, as in a request.
fn health_path(text: &str) -> Result<String, String> {
    if text.starts_with('/') && is_target(text.as_bytes()) {
        Ok(text.to_owned())
    } else {
        Err("write a path such as /health".to_owned())
    }
}

pub fn upstream(text: &str) -> Result<UpstreamUrl, UpstreamUrlError> {
    text.parse()
}
