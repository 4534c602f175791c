//! Remote places of content: URLs of HTTP servers and buckets become origins and upstreams.

use std::path::Path;

use anyhow::{Context, anyhow, bail, ensure};
use sojourn_content::Rules;
use sojourn_content::remote::client::Client;
use sojourn_content::remote::{HttpStore, Remote};
use sojourn_s3::Location;
use sojourn_server::sandbox::Needs;

use super::options::Options;
use super::options::bucket::{Bucket, add_server};
use super::options::content::ContentOptions;
use super::options::origin::S3Options;

/// The scheme of a bucket's URL.
const S3: &str = "s3://";

/// The URL in `root`, if it is one and no directory.
pub fn url_of(root: &Path) -> Option<&str> {
    let text = root.to_str()?;
    [S3, "http://", "https://"].iter().any(|scheme| text.starts_with(scheme)).then_some(text)
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
    use sojourn_server::sandbox::Connections;

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
