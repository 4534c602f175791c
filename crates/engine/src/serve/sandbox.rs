//! Determines what each server still needs once it has started, for its sandbox.

use std::path::{Path, PathBuf};

use anyhow::bail;
use sojourn_content::Links;
use sojourn_server::connection::Address;
use sojourn_server::handler::reverse_proxy::Proxy;
use sojourn_server::sandbox::{Connections, Needs, RESOLVER, enter};

use super::options::Options;
use super::options::process::ProcessOptions;
use super::options::route::Target;
use super::origin::{add_bucket, url_of};

impl ProcessOptions {
    /// Enters the sandbox with all threads and processes started from now on; reports parts that this system lacks.
    pub fn enter_sandbox(&self, needs: &Needs) -> anyhow::Result<()> {
        if self.sandbox == "off" {
            return Ok(());
        }
        let missing = enter(needs);
        let Some(first) = missing.first() else { return Ok(()) };
        if self.sandbox == "required" {
            bail!(
                "the sandbox cannot restrict {first}\nhint: with --sandbox on, the server starts without that part"
            );
        }
        for part in missing {
            eprintln!("warning: the sandbox cannot restrict {part}");
        }
        Ok(())
    }
}

impl Options {
    /// The needs of a site; `proxy` provides its routes' upstreams.
    ///
    /// # Errors
    /// If a remote origin is not configured completely.
    pub fn needs(&self, proxy: Option<&Proxy>) -> anyhow::Result<Needs> {
        let roots = [(&self.root, self.content.rules())].into_iter();
        let hosts =
            self.hosts.host.iter().map(|host| (&host.root, host.content.clone().or(&self.content).rules()));
        let local = roots.chain(hosts).filter(|(root, _)| url_of(root).is_none());
        let read = local.map(|(root, rules)| match rules.links {
            // Symbolic links may lead anywhere.
            Links::Any => "/".into(),
            Links::Inside | Links::None => root.clone(),
        });
        let mut needs = Needs { read: read.collect(), ..Needs::default() };
        needs.append.extend(place_of(self.log.access_log.as_deref()));
        if let Some(proxy) = proxy {
            add_upstreams(proxy, &mut needs);
        }
        let upstreams = self.routes.route.iter().filter_map(|route| match &route.target {
            Target::Upstreams(urls, _) => Some(urls),
            _ => None,
        });
        for location in upstreams.flatten().filter_map(|url| url.bucket.as_ref()) {
            add_bucket(location, &self.upstreams.s3, &mut needs)?;
        }
        self.add_origins(&mut needs)?;
        Ok(needs)
    }
}

/// The directory of a log, in which log rotation creates the file anew. Of a log in `/dev`, the device or file that it is, if
/// that has a name: nothing is created there.
pub fn place_of(log: Option<&Path>) -> Option<PathBuf> {
    let log = log?;
    if log.starts_with("/dev") && !log.starts_with("/dev/shm") {
        return log.canonicalize().ok();
    }
    let parent = log.parent()?;
    Some(if parent.as_os_str().is_empty() { ".".into() } else { parent.to_owned() })
}

/// Adds connections to the upstreams, including name lookups.
pub fn add_upstreams(proxy: &Proxy, needs: &mut Needs) {
    let mut ports: Vec<u16> = Vec::new();
    for upstream in &proxy.upstreams {
        let addresses = upstream.presence.addresses();
        ports.extend(addresses.iter().filter_map(|address| match address {
            Address::Internet(address) => Some(address.port()),
            Address::Unix(_) => None,
        }));
    }
    if proxy.upstreams.iter().any(|upstream| upstream.is_named()) {
        needs.read.extend(RESOLVER.iter().map(PathBuf::from));
    }
    ports.sort_unstable();
    ports.dedup();
    needs.connections = Connections::To(ports);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_in_dev_needs_no_other_device() {
        let place = |log: &str| place_of(Some(Path::new(log)));
        assert_eq!(place("/dev/null"), Some("/dev/null".into()));
        assert_eq!(place("/dev/none"), None);
        assert_eq!(place("/dev/shm/access.log"), Some("/dev/shm".into()));
        assert_eq!(place("/var/log/access.log"), Some("/var/log".into()));
        assert_eq!(place("access.log"), Some(".".into()));
    }
}
