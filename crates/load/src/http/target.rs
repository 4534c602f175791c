//! The server under load: an `http://` or `https://` URL, resolved once, so that latencies contain no DNS lookups.

use std::net::{SocketAddr, ToSocketAddrs};

use thiserror::Error;

const HTTP_PORT: u16 = 80;
const HTTPS_PORT: u16 = 443;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub secured: bool,
    pub url: String,
    pub host: String,
    /// The path and query, with a leading slash.
    pub path: String,
    pub address: SocketAddr,
}

/// Why a URL cannot be loaded.
#[derive(Debug, Error)]
pub enum TargetError {
    #[error("{0:?} does not begin with http:// or https://; other schemes are not supported")]
    Scheme(String),
    /// No host, or bytes that are not allowed in a request line.
    #[error("{0:?} is not a URL of the form http://host:port/path")]
    Form(String),
    /// The name has no address.
    #[error("cannot resolve {host:?}: {why}")]
    Resolve { host: String, why: String },
}

impl Target {
    /// Parses a URL and resolves its host; IPv4 is preferred.
    pub fn resolve(url: &str) -> Result<Target, TargetError> {
        let (rest, secured) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
            (Some(rest), _) => (rest, false),
            (None, Some(rest)) => (rest, true),
            (None, None) => return Err(TargetError::Scheme(url.into())),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let clean = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if host.is_empty() || host.contains('@') || !clean(host) || !clean(path) {
            return Err(TargetError::Form(url.into()));
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let address = address(host, if secured { HTTPS_PORT } else { HTTP_PORT })?;
        Ok(Target { secured, url: url.into(), host: host.into(), path, address })
    }

    /// The host without port; an IPv6 address without brackets.
    pub fn host_name(&self) -> &str {
        let name = match self.host.rsplit_once(':') {
            Some((name, port)) if port.parse::<u16>().is_ok() => name,
            _ => &self.host,
        };
        name.trim_start_matches('[').trim_end_matches(']')
    }

    /// The path below which the documents of a mix or trace are: the URL's, without a trailing slash.
    pub fn base_path(&self) -> &str {
        self.path.trim_end_matches('/')
    }
}

pub(crate) fn address(host: &str, usual_port: u16) -> Result<SocketAddr, TargetError> {
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let with_port = if has_port { host.to_owned() } else { format!("{host}:{usual_port}") };
    let failed = |why: String| TargetError::Resolve { host: with_port.clone(), why };
    let addresses: Vec<SocketAddr> =
        with_port.to_socket_addrs().map_err(|error| failed(error.to_string()))?.collect();
    let v4 = addresses.iter().find(|address| address.is_ipv4());
    v4.or(addresses.first()).copied().ok_or_else(|| failed("no address".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let check = |url, host, path, address: &str| {
            let target = Target::resolve(url).unwrap();
            assert_eq!((target.host.as_str(), target.path.as_str()), (host, path), "{url}");
            assert_eq!(target.address, address.parse().unwrap(), "{url}");
        };
        check("http://127.0.0.1:8080/a/b?c", "127.0.0.1:8080", "/a/b?c", "127.0.0.1:8080");
        check("http://127.0.0.1", "127.0.0.1", "/", "127.0.0.1:80");
        check("http://127.0.0.1?x", "127.0.0.1", "/?x", "127.0.0.1:80");
        check("http://[::1]:81/#top", "[::1]:81", "/", "[::1]:81");
        check("https://127.0.0.1/x", "127.0.0.1", "/x", "127.0.0.1:443");
        let name = |url| Target::resolve(url).unwrap().host_name().to_owned();
        assert_eq!(name("https://127.0.0.1:8443/"), "127.0.0.1");
        assert_eq!(
            (name("https://[::1]:81"), name("https://[::1]:443/")),
            ("::1".to_owned(), "::1".to_owned())
        );
    }

    #[test]
    fn refusals() {
        assert!(matches!(Target::resolve("ftp://a/"), Err(TargetError::Scheme(_))));
        assert!(matches!(Target::resolve("http:///a"), Err(TargetError::Form(_))));
        assert!(matches!(Target::resolve("http://127.0.0.1/a b"), Err(TargetError::Form(_))));
        assert!(matches!(Target::resolve("http://no-such-host.invalid/"), Err(TargetError::Resolve { .. })));
    }
}
