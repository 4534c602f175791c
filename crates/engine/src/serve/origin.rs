//! Remote places of content: URLs of HTTP servers and buckets become origins and upstreams.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow, bail, ensure};
use rustls::ClientConfig;
use sojourn_content::Rules;
use sojourn_content::remote::client::Client;
use sojourn_content::remote::{HttpStore, Provider, Remote, SharedFiles, Signer};
use sojourn_s3::{Addressing, Location, Settings, Source};
use sojourn_server::sandbox::{Connections, Needs, RESOLVER};

use super::options::Options;
use super::options::content::ContentOptions;
use super::options::origin::S3Options;

/// The scheme of a bucket's URL.
const S3: &str = "s3://";

/// A bucket as this environment reaches it.
pub struct Bucket {
    /// The scheme and authority of its endpoint.
    pub url: String,
    /// What precedes a key in a path, percent-encoded, with both slashes.
    pub path: String,
    pub settings: Settings,
    files: SharedFiles,
}

/// The URL in `root`, if it is one and no directory.
pub fn url_of(root: &Path) -> Option<&str> {
    let text = root.to_str()?;
    [S3, "http://", "https://"].iter().any(|scheme| text.starts_with(scheme)).then_some(text)
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
    fn add_needs(&self, needs: &mut Needs) {
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

/// The service that hands out credentials.
fn service_url(source: &Source) -> Option<&str> {
    match source {
        Source::Environment(_) | Source::Profile(_) => None,
        Source::WebIdentity { endpoint, .. } | Source::Instance { endpoint } => Some(endpoint),
        Source::Container { url, .. } => Some(url),
    }
}

/// Adds connections to the server of `url`, and lookups of its name.
fn add_server(url: &str, needs: &mut Needs) {
    let port = port_of(url);
    needs.read.extend(RESOLVER.iter().map(PathBuf::from));
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

/// Adds what requests to the bucket of `location` need of the sandbox.
pub fn add_bucket(location: &Location, options: &S3Options, needs: &mut Needs) -> anyhow::Result<()> {
    Bucket::find(location, options)?.add_needs(needs);
    Ok(())
}

impl Options {
    /// The roots of all hosts.
    pub fn roots(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(&*self.root).chain(self.hosts.host.iter().map(|host| &*host.root))
    }

    /// The origin at `url`.
    pub fn remote(&self, url: &str, content: &ContentOptions) -> anyhow::Result<Remote> {
        let rules: Rules = content.rules();
        ensure!(
            !rules.lists,
            "{url} cannot be listed\nhint: leave out --listing; only local directories have listings"
        );
        ensure!(
            content.precompressed.as_deref() != Some("always"),
            "{url} has no compressed copies\nhint: leave out --precompressed; store objects with a Content-Encoding instead"
        );
        let tls = || self.upstreams.client_tls();
        let client = |url: &str| {
            let config = if url.starts_with("https://") { Some(tls()?) } else { None };
            let idle_max = self.organisation.helpers.max(16) as usize;
            Client::new(url, config.as_ref(), self.origin.timeouts(), idle_max).map_err(|why| anyhow!(why))
        };
        let store = if url.starts_with(S3) {
            let location: Location = url.parse()?;
            let options = &self.upstreams.s3;
            let bucket = Bucket::find(&location, options)?;
            let (client, path) = (client(&bucket.url)?, bucket.path.clone());
            HttpStore::new(client, path, bucket.signer(options, tls)?)
        } else {
            let (origin, path) = split(url)?;
            HttpStore::new(client(origin)?, path, None)
        };
        let complain = |line: &str| sojourn_server::stderr::write(&format!("{line}\n"));
        Ok(Remote::new(Box::new(store), rules, self.origin.limits()?, complain))
    }

    /// Adds what remote roots need of the sandbox.
    pub fn add_origins(&self, needs: &mut Needs) -> anyhow::Result<()> {
        for url in self.roots().filter_map(url_of) {
            if url.starts_with(S3) {
                add_bucket(&url.parse()?, &self.upstreams.s3, needs)?;
            } else {
                add_server(url, needs);
            }
        }
        Ok(())
    }
}

/// The scheme and authority of an http URL, and its path with a slash at both ends.
fn split(url: &str) -> anyhow::Result<(&str, String)> {
    let after_scheme = url.find("://").context("a URL has a scheme")? + 3;
    let end = url[after_scheme..].find('/').map_or(url.len(), |at| after_scheme + at);
    let path = &url[end..];
    if path.contains(['?', '#']) || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        bail!(
            "{url} is no URL of a directory\nhint: leave out the query, and percent-encode what is not ASCII"
        );
    }
    let slash = if path.ends_with('/') { "" } else { "/" };
    Ok((&url[..end], format!("{path}{slash}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        assert_eq!(url_of(Path::new("s3://site")), Some("s3://site"));
        assert_eq!(url_of(Path::new("public")), None);
        let parts = |url| split(url).map(|(origin, path)| format!("{origin} {path}")).ok();
        assert_eq!(parts("http://h:1").as_deref(), Some("http://h:1 /"));
        assert_eq!(parts("https://h/a%20b").as_deref(), Some("https://h /a%20b/"));
        assert_eq!(parts("http://h/?a"), None);
    }

    #[test]
    fn ports_of_servers() {
        let mut needs = Needs::default();
        for url in ["http://a", "https://b/x:9", "https://[::1]", "https://c:8443/", "http://d:80"] {
            add_server(url, &mut needs);
        }
        assert_eq!(needs.connections, Connections::To(vec![80, 443, 8443]));
    }
}
