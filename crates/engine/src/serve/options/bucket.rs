//! A bucket by its options and the environment: its endpoint, its signer, and what its requests need of the sandbox.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::anyhow;
use rustls::ClientConfig;
use sojourn_content::remote::{Provider, SharedFiles, Signer};
use sojourn_s3::{Addressing, Location, Settings, Source};
use sojourn_server::handler::reverse_proxy::{Protocol, Upstream};
use sojourn_server::sandbox::{Connections, Needs, RESOLVER};

use super::origin::S3Options;

/// A bucket as this environment reaches it.
pub struct Bucket {
    /// The scheme and authority of its endpoint.
    pub url: String,
    /// What precedes a key in a path, percent-encoded, with both slashes.
    pub path: String,
    pub settings: Settings,
    files: SharedFiles,
}

impl Bucket {
    /// The bucket of `location` by the environment and the shared files.
    pub fn find(location: &Location, options: &S3Options) -> anyhow::Result<Bucket> {
        let variable = |name: &str| std::env::var(name).ok();
        let home = variable("HOME").map(PathBuf::from).unwrap_or_default();
        let file = |name: &str, usual: &str| variable(name).map_or_else(|| home.join(usual), PathBuf::from);
        let files = SharedFiles {
            config: file("AWS_CONFIG_FILE", ".aws/config"),
            credentials: file("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials"),
        };
        // Without signatures no credentials are looked for.
        let unsigned = |name: &str| match name {
            "AWS_ACCESS_KEY_ID" | "AWS_SECRET_ACCESS_KEY" if options.s3_unsigned => {
                Some("unsigned".to_owned())
            }
            name => variable(name),
        };
        let settings = Settings::of(&unsigned, &files.read()).map_err(|error| {
            anyhow!("cannot reach s3://{}: {error}\nhint: docs/origins.md lists the variables and files that are read", location.bucket)
        })?;
        let chosen =
            Addressing::ALL.iter().copied().find(|addressing| addressing.name() == options.s3_addressing);
        let addressing = match chosen.unwrap_or_default() {
            Addressing::Auto => settings.addressing,
            chosen => chosen,
        };
        let (url, path) = location.url(&settings, addressing);
        Ok(Bucket { url, path, settings, files })
    }

    /// Signs requests to it; `None` with `--s3-unsigned`.
    pub fn signer(
        self,
        options: &S3Options,
        tls: impl FnOnce() -> anyhow::Result<Arc<ClientConfig>>,
    ) -> anyhow::Result<Option<Arc<Signer>>> {
        if options.s3_unsigned {
            return Ok(None);
        }
        let needs_tls = service_url(&self.settings.source).is_some_and(|url| url.starts_with("https://"));
        let tls = if needs_tls { Some(tls()?) } else { None };
        let provider = Provider { source: self.settings.source, files: self.files, tls };
        let signer = Signer::new(self.settings.region, provider).map_err(|why| {
            anyhow!("{why}\nhint: give credentials as for other programs (docs/origins.md), or --s3-unsigned for a public bucket")
        })?;
        Ok(Some(Arc::new(signer)))
    }

    /// Adds what its requests need of the sandbox.
    pub fn add_needs(&self, needs: &mut Needs) {
        add_server(&self.url, needs);
        if let Some(url) = service_url(&self.settings.source) {
            add_server(url, needs);
        }
        let files = match &self.settings.source {
            Source::Profile(_) => vec![self.files.config.clone(), self.files.credentials.clone()],
            Source::WebIdentity { token_file, .. } => vec![token_file.into()],
            Source::Container { authorization_file, .. } => {
                authorization_file.iter().map(PathBuf::from).collect()
            }
            Source::Environment(_) | Source::Instance { .. } => Vec::new(),
        };
        // Whoever renews such a file replaces it.
        needs.read.extend(files.iter().filter_map(|file| file.parent().map(Path::to_owned)));
    }
}

/// Lets requests to buckets among `upstreams` wait for credentials, because each process serves one connection at a time.
pub fn let_signers_wait(upstreams: &[Upstream]) {
    for upstream in upstreams {
        if let Protocol::S3(bucket) = &upstream.protocol
            && let Some(signer) = &bucket.signer
        {
            signer.let_wait();
        }
    }
}

/// The service that hands out credentials.
fn service_url(source: &Source) -> Option<&str> {
    match source {
        Source::Environment(_) | Source::Profile(_) => None,
        Source::WebIdentity { endpoint, .. } | Source::Instance { endpoint } => Some(endpoint),
        Source::Container { url, .. } => Some(url),
    }
}

/// Adds connections to the server of `url`, and lookups of its name.
pub fn add_server(url: &str, needs: &mut Needs) {
    needs.read.extend(RESOLVER.iter().map(PathBuf::from));
    add_port(port_of(url), needs);
}

/// Adds connections to this port.
pub fn add_port(port: u16, needs: &mut Needs) {
    needs.connections = match std::mem::take(&mut needs.connections) {
        Connections::Any => Connections::Any,
        Connections::None => Connections::To(vec![port]),
        Connections::To(mut ports) => {
            if !ports.contains(&port) {
                ports.push(port);
            }
            Connections::To(ports)
        }
    };
}

fn port_of(url: &str) -> u16 {
    let (rest, usual) = match url.strip_prefix("https://") {
        Some(rest) => (rest, 443),
        None => (url.strip_prefix("http://").unwrap_or(url), 80),
    };
    let authority = rest.split('/').next().unwrap_or_default();
    let after_address = authority.rfind(']').map_or(0, |end| end + 1);
    let port = authority[after_address..].rsplit_once(':').map(|(_, port)| port.parse().ok());
    port.flatten().unwrap_or(usual)
}
