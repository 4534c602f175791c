//! Remote places of content: URLs of HTTP servers and buckets become origins and upstreams.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail, ensure};
use sojourn_content::remote::client::Client;
use sojourn_content::remote::nfs::{Export, NfsStore, Trusted};
use sojourn_content::remote::{HttpStore, Remote, Store};
use sojourn_content::{Links, Rules};
use sojourn_s3::Location;
use sojourn_server::sandbox::{Connections, Needs, RESOLVER};

use super::options::Options;
use super::options::bucket::{Bucket, add_port, add_server};
use super::options::content::ContentOptions;
use super::options::origin::S3Options;

/// The schemes of a bucket's and an export's URL.
const S3: &str = "s3://";
const NFS: &str = "nfs://";

/// The URL in `root`, if it is one and no directory.
pub fn url_of(root: &Path) -> Option<&str> {
    let text = root.to_str()?;
    [S3, NFS, "http://", "https://"].iter().any(|scheme| text.starts_with(scheme)).then_some(text)
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
        let store: Box<dyn Store> = if url.starts_with(NFS) {
            ensure!(
                rules.links != Links::Any,
                "symbolic links cannot leave {url}\nhint: leave out --symlinks any; links inside an export are followed"
            );
            let idle_max = self.organisation.helpers.max(16) as usize;
            let follows_links = rules.links != Links::None;
            let trusted =
                Trusted { min: self.origin.origin_attributes_min, max: self.origin.origin_attributes_max };
            Box::new(NfsStore::new(export(url)?, self.origin.timeouts(), idle_max, follows_links, trusted))
        } else if url.starts_with(S3) {
            let location: Location = url.parse()?;
            let options = &self.upstreams.s3;
            let bucket = Bucket::find(&location, options)?;
            let (client, path) = (client(&bucket.url)?, bucket.path.clone());
            Box::new(HttpStore::new(client, path, bucket.signer(options, tls)?))
        } else {
            let (origin, path) = split(url)?;
            Box::new(HttpStore::new(client(origin)?, path, None))
        };
        let complain = |line: &str| sojourn_server::stderr::write(&format!("{line}\n"));
        Ok(Remote::new(store, rules, self.origin.limits()?, complain))
    }

    /// Adds what remote roots need of the sandbox.
    pub fn add_origins(&self, needs: &mut Needs) -> anyhow::Result<()> {
        for url in self.roots().filter_map(url_of) {
            if url.starts_with(NFS) {
                match export(url)? {
                    Export { nfs_port: Some(nfs), mount_port: Some(mount), .. } => {
                        [nfs, mount].into_iter().for_each(|port| add_port(port, needs));
                    }
                    // The port mapper names them.
                    _ => needs.connections = Connections::Any,
                }
                needs.read.extend(RESOLVER.iter().map(PathBuf::from));
            } else if url.starts_with(S3) {
                add_bucket(&url.parse()?, &self.upstreams.s3, needs)?;
            } else {
                add_server(url, needs);
            }
        }
        Ok(())
    }
}

/// Parses `nfs://HOST[:PORT]/PATH[?mountport=N&uid=N&gid=N]`, whose parameters are those of libnfs. With a port, both
/// services are there unless `mountport` names another.
fn export(url: &str) -> anyhow::Result<Export> {
    let bad = || {
        anyhow!("{url} is no export\nhint: write it as nfs://HOST/PATH, or nfs://HOST:PORT/PATH?mountport=N")
    };
    let rest = url.strip_prefix(NFS).ok_or_else(bad)?;
    let (place, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = place.split_once('/').ok_or_else(bad)?;
    let after_address = authority.rfind(']').map_or(0, |end| end + 1);
    let (host, port) = match authority[after_address..].split_once(':') {
        None => (authority, None),
        Some((name, port)) => {
            (&authority[..after_address + name.len()], Some(port.parse().map_err(|_| bad())?))
        }
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() {
        return Err(bad());
    }
    let mut export = Export {
        host: host.to_owned(),
        path: format!("/{path}"),
        nfs_port: port,
        mount_port: port,
        uid: None,
        gid: None,
    };
    for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').ok_or_else(bad)?;
        match name {
            "nfsport" => export.nfs_port = Some(value.parse().map_err(|_| bad())?),
            "mountport" => export.mount_port = Some(value.parse().map_err(|_| bad())?),
            "uid" => export.uid = Some(value.parse().map_err(|_| bad())?),
            "gid" => export.gid = Some(value.parse().map_err(|_| bad())?),
            "version" if value == "3" => {}
            _ => return Err(bad()),
        }
    }
    Ok(export)
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
    fn exports() {
        let parts = |url| {
            export(url).map(|export| (export.host, export.path, export.nfs_port, export.mount_port)).ok()
        };
        let expected =
            |host: &str, path: &str, nfs, mount| Some((host.to_owned(), path.to_owned(), nfs, mount));
        assert_eq!(parts("nfs://h/srv/www"), expected("h", "/srv/www", None, None));
        assert_eq!(parts("nfs://[::1]:2049/x"), expected("::1", "/x", Some(2049), Some(2049)));
        assert_eq!(parts("nfs://h:1/?mountport=2"), expected("h", "/", Some(1), Some(2)));
        assert_eq!(
            export("nfs://h/x?uid=7&gid=8").map(|export| (export.uid, export.gid)).ok(),
            Some((Some(7), Some(8)))
        );
        for bad in ["nfs://h", "nfs:///x", "nfs://h:x/", "nfs://h/x?uid=a", "nfs://h/x?version=4"] {
            assert_eq!(parts(bad), None, "{bad}");
        }
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
