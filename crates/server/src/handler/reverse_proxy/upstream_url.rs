//! Parses the URL of an upstream: `https://HOST[:PORT]`, `fcgi://unix:PATH` or `s3://BUCKET`, optionally with its weight.

use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::str::FromStr;

use sojourn_s3::{Location, LocationError};

const HTTP_PORT: u16 = 80;

const HTTPS_PORT: u16 = 443;

/// The default port of PHP-FPM.
const FASTCGI_PORT: u16 = 9000;

/// The Host for a local upstream if the request names none.
const LOCAL_HOST: &str = "localhost";

/// The largest weight.
const WEIGHT_MAX: u32 = 1000;

/// The longest path in a socket address (`sun_path`), without its final zero.
const SOCKET_PATH_BYTES_MAX: usize = 107;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
    FastCgi,
    /// A bucket, whose host depends on the environment.
    S3,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamUrl {
    pub scheme: Scheme,
    /// The URL without its scheme, for messages.
    pub name: String,
    /// The bucket and prefix of an object store; host and port are then unused.
    pub bucket: Option<Location>,
    /// The Unix domain socket of a local upstream; host and port are then unused.
    pub socket: Option<PathBuf>,
    /// Host and port for the Host field.
    pub authority: String,
    /// The host; an address has no brackets.
    pub host: String,
    pub port: u16,
    /// Its weight in load balancing.
    pub weight: u32,
}

/// Why a text is not an upstream's URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamUrlError {
    #[error(
        "write an upstream as http://127.0.0.1:8000, https://app.example, fcgi://unix:/run/php.sock or s3://bucket"
    )]
    Scheme,
    #[error("write a Unix socket as unix:/run/app.sock; TLS does not work over one")]
    Socket,
    #[error(transparent)]
    Bucket(#[from] LocationError),
    #[error("{0}: {1}")]
    Authority(String, String),
    /// There is more than a host and a port.
    #[error("an upstream is a host with an optional port and no path")]
    More,
    #[error("write a weight as weight=3, from 1 to {WEIGHT_MAX}")]
    Weight,
}

impl FromStr for UpstreamUrl {
    type Err = UpstreamUrlError;

    fn from_str(text: &str) -> Result<UpstreamUrl, UpstreamUrlError> {
        let (url, weight) = match text.split_once(',') {
            None => (text, 1),
            Some((url, rest)) => (url, weight(rest).ok_or(UpstreamUrlError::Weight)?),
        };
        if url.starts_with("s3://") {
            return Ok(UpstreamUrl::in_bucket(url.parse()?, weight));
        }
        let (scheme, authority) =
            [("http://", Scheme::Http), ("https://", Scheme::Https), ("fcgi://", Scheme::FastCgi)]
                .into_iter()
                .find_map(|(prefix, scheme)| Some((scheme, url.strip_prefix(prefix)?)))
                .ok_or(UpstreamUrlError::Scheme)?;
        if let Some(path) = authority.strip_prefix("unix:") {
            let is_socket =
                path.starts_with('/') && path.len() <= SOCKET_PATH_BYTES_MAX && scheme != Scheme::Https;
            return is_socket
                .then(|| UpstreamUrl::local(scheme, authority, path, weight))
                .ok_or(UpstreamUrlError::Socket);
        }
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        let no_authority =
            |error: &dyn ToString| UpstreamUrlError::Authority(authority.to_owned(), error.to_string());
        let uri: http::uri::Authority = authority.parse().map_err(|error| no_authority(&error))?;
        if authority.contains('@') || uri.host().is_empty() {
            return Err(UpstreamUrlError::More);
        }
        let address = uri.host().strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        if let Some(Err(error)) = address.map(str::parse::<Ipv6Addr>) {
            return Err(no_authority(&error));
        }
        let port = match uri.port() {
            Some(port) => port.as_str().parse().ok().filter(|port| *port > 0),
            // A colon without a valid port behind it.
            None if authority.len() > uri.host().len() => None,
            None => Some(match scheme {
                Scheme::Http => HTTP_PORT,
                Scheme::Https => HTTPS_PORT,
                Scheme::FastCgi => FASTCGI_PORT,
                Scheme::S3 => unreachable!("a bucket has no authority"),
            }),
        };
        Ok(UpstreamUrl {
            scheme,
            name: authority.to_owned(),
            bucket: None,
            socket: None,
            authority: authority.to_owned(),
            host: address.unwrap_or(uri.host()).to_owned(),
            port: port.ok_or_else(|| no_authority(&"a port is a number from 1 to 65535"))?,
            weight,
        })
    }
}

impl UpstreamUrl {
    fn local(scheme: Scheme, name: &str, path: &str, weight: u32) -> UpstreamUrl {
        UpstreamUrl {
            scheme,
            name: name.to_owned(),
            bucket: None,
            socket: Some(path.into()),
            authority: LOCAL_HOST.to_owned(),
            host: LOCAL_HOST.to_owned(),
            port: 0,
            weight,
        }
    }

    fn in_bucket(location: Location, weight: u32) -> UpstreamUrl {
        UpstreamUrl {
            scheme: Scheme::S3,
            name: format!("{}/{}", location.bucket, location.prefix),
            authority: location.bucket.clone(),
            host: location.bucket.clone(),
            bucket: Some(location),
            socket: None,
            port: 0,
            weight,
        }
    }
}

fn weight(text: &str) -> Option<u32> {
    let weight = text.strip_prefix("weight=")?.parse().ok();
    weight.filter(|weight| (1..=WEIGHT_MAX).contains(weight))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upstreams() {
        let url =
            |text: &str| text.parse().map(|url: UpstreamUrl| (url.authority, url.host, url.port, url.weight));
        let local: UpstreamUrl = "fcgi://unix:/run/php.sock,weight=2".parse().unwrap();
        assert_eq!((local.scheme, local.weight), (Scheme::FastCgi, 2));
        assert_eq!(local.socket.as_deref(), Some("/run/php.sock".as_ref()));
        assert_eq!((&*local.name, &*local.authority), ("unix:/run/php.sock", "localhost"));
        let bucket: UpstreamUrl = "s3://site/p,weight=2".parse().unwrap();
        assert_eq!((bucket.scheme, &*bucket.name, bucket.weight), (Scheme::S3, "site/p/", 2));
        assert_eq!(url("fcgi://a"), Ok(("a".to_owned(), "a".to_owned(), 9000, 1)));
        assert_eq!(url("https://a"), Ok(("a".to_owned(), "a".to_owned(), 443, 1)));
        let expected = |authority: &str, host: &str, port, weight| {
            Ok((authority.to_owned(), host.to_owned(), port, weight))
        };
        assert_eq!(url("http://a.example"), expected("a.example", "a.example", 80, 1));
        assert_eq!(url("http://[::1]:81/,weight=5"), expected("[::1]:81", "::1", 81, 5));
        for bad in [
            "a.example",
            "ftp://a",
            "http://",
            "http://a/b",
            "http://u@a",
            "http://a:",
            "http://a:0",
            "http://a:65536",
            "https://[]",
            "https://[v1.a]",
            "http://a,weight=0",
            "http://a,x=1",
            "http://unix:run/a.sock",
            "https://unix:/run/a.sock",
            "fcgi://",
            "s3://",
        ] {
            assert!(url(bad).is_err(), "{bad}");
        }
    }
}
