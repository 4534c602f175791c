//! A film to play: an `rtsp://` URL, or the `http://` URL of a playlist, resolved once, so that no time contains DNS
//! lookups.

use std::net::SocketAddr;

use sojourn_http::path::percent_decode;
use thiserror::Error;

use crate::{
    hls::location::Location,
    http::target::{Target, TargetError, address},
    rtsp::authentication::Credentials,
};

const RTSP_PORT: u16 = 554;
const SCHEME: &str = "rtsp://";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Film {
    /// The URL, without user and password.
    pub url: String,
    pub address: SocketAddr,
    /// The user and password in the URL, if any.
    pub credentials: Option<Credentials>,
    /// The location of its playlist, for HLS.
    pub(crate) playlist: Option<Location>,
}

/// Why a URL is no film's.
#[derive(Debug, Error)]
pub enum FilmError {
    /// Unknown scheme, no host, or characters that a request cannot contain.
    #[error("{0:?} is not a URL of the form rtsp://host:port/path or http://host:port/path.m3u8")]
    Form(String),
    #[error(
        "{0:?} begins with https://; HLS is played over http:// only\nhint: load the server without TLS before it"
    )]
    Secured(String),
    /// The name has no address.
    #[error(transparent)]
    Target(#[from] TargetError),
}

impl Film {
    /// Parses a URL and resolves its host.
    pub fn resolve(url: &str) -> Result<Film, FilmError> {
        let refused = || FilmError::Form(url.to_owned());
        if url.starts_with("http://") || url.starts_with("https://") {
            return Film::by_hls(url);
        }
        let rest = url.strip_prefix(SCHEME).ok_or_else(refused)?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (user, host) =
            authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
        if host.is_empty() || !url.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"') {
            return Err(refused());
        }
        let credentials = user.map(|user| credentials(user).ok_or_else(refused)).transpose()?;
        let (url, address) = (format!("{SCHEME}{host}{path}"), address(host, RTSP_PORT)?);
        Ok(Film { url, address, credentials, playlist: None })
    }

    fn by_hls(url: &str) -> Result<Film, FilmError> {
        let target = Target::resolve(url)?;
        if target.secured {
            return Err(FilmError::Secured(url.to_owned()));
        }
        let Target { url, host, path, address, .. } = target;
        Ok(Film { url, address, credentials: None, playlist: Some(Location { host, path }) })
    }

    pub fn is_hls(&self) -> bool {
        self.playlist.is_some()
    }
}

/// The user and password before a host, percent-decoded.
fn credentials(text: &str) -> Option<Credentials> {
    let (user, password) = text.split_once(':').unwrap_or((text, ""));
    let decoded = |text: &str| String::from_utf8(percent_decode(text.as_bytes()).ok()?).ok();
    let (user, password) = (decoded(user)?, decoded(password)?);
    // The name is sent in a quoted field.
    let is_plain = !user.chars().any(|letter| letter.is_control() || letter == '"' || letter == '\\');
    is_plain.then_some(Credentials { user, password })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let film = Film::resolve("rtsp://anna:secret@127.0.0.1:8554/films/a.mp4?x=1").unwrap();
        assert_eq!(film.url, "rtsp://127.0.0.1:8554/films/a.mp4?x=1");
        assert_eq!(film.address, "127.0.0.1:8554".parse().unwrap());
        assert_eq!(film.credentials, Some(Credentials { user: "anna".into(), password: "secret".into() }));
        let escaped = Film::resolve("rtsp://an%3ana:two%20w%40rds@127.0.0.1").unwrap().credentials;
        assert_eq!(escaped, Some(Credentials { user: "an:na".into(), password: "two w@rds".into() }));
        assert_eq!(Film::resolve("rtsp://127.0.0.1").unwrap().address.port(), RTSP_PORT);
        let film = Film::resolve("http://127.0.0.1:8080/a/index.m3u8?x=1").unwrap();
        let location = Location { host: "127.0.0.1:8080".into(), path: "/a/index.m3u8?x=1".into() };
        assert_eq!((film.is_hls(), film.playlist), (true, Some(location)));
        assert!(matches!(Film::resolve("https://127.0.0.1/x"), Err(FilmError::Secured(_))));
        for refused in [
            "ftp://127.0.0.1/",
            "rtsp://",
            "rtsp:///film",
            "rtsp://127.0.0.1/a b",
            "rtsp://\"@127.0.0.1/",
            "rtsp://%22@127.0.0.1/",
            "rtsp://%0a@127.0.0.1/",
            "rtsp://%@127.0.0.1/",
        ] {
            assert!(matches!(Film::resolve(refused), Err(FilmError::Form(_))), "{refused}");
        }
    }
}
