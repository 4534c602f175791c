//! Resolves the URIs of a playlist to paths on its own server, by RFC 3986 as far as playlists need it.

use crate::rtsp::description::is_name;

const SCHEME: &str = "http://";

/// A document on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    pub host: String,
    /// The path and query, with a leading slash.
    pub path: String,
}

impl Location {
    /// Resolves a URI found in this document; an error says why it is not followed.
    pub fn join(&self, uri: &str) -> Result<String, &'static str> {
        let uri = uri.split('#').next().unwrap_or_default();
        if uri.is_empty() || !is_name(uri) {
            return Err("a URI of a playlist cannot stand in a request");
        }
        if let Some(rest) = uri.strip_prefix(SCHEME).or_else(|| uri.strip_prefix("//")) {
            let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
            return match host == self.host {
                true if path.starts_with('/') => Ok(path.to_owned()),
                true => Ok(format!("/{path}")),
                false => Err("a playlist leads to another server, which is not followed"),
            };
        }
        if has_scheme(uri) {
            return Err("a playlist leads to something else than http://, which is not followed");
        }
        if uri.starts_with('/') {
            return Ok(uri.to_owned());
        }
        let own = self.path.split('?').next().unwrap_or_default();
        if uri.starts_with('?') {
            return Ok(format!("{own}{uri}"));
        }
        let folder = own.rfind('/').map_or("/", |end| &own[..=end]);
        Ok(without_dots(&format!("{folder}{uri}")))
    }
}

/// Returns true if a name of a scheme and a colon stand first (RFC 3986, 3.1).
fn has_scheme(uri: &str) -> bool {
    let first = uri.split('/').next().unwrap_or_default();
    first.split_once(':').is_some_and(|(name, _)| {
        name.starts_with(|letter: char| letter.is_ascii_alphabetic())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+.-".contains(&byte))
    })
}

/// The path without `.` and `..` (RFC 3986, 5.2.4); a query stays as it is.
fn without_dots(path: &str) -> String {
    let (path, query) = path.split_at(path.find('?').unwrap_or(path.len()));
    let mut kept: Vec<&str> = Vec::new();
    let last = path.rsplit('/').next().unwrap_or_default();
    for part in path.split('/').skip(1) {
        match part {
            "." => {}
            ".." => drop(kept.pop()),
            part => kept.push(part),
        }
    }
    if matches!(last, "." | "..") {
        kept.push("");
    }
    format!("/{}{query}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_followed_on_the_same_server() {
        let location = Location { host: "a:81".into(), path: "/films/x/index.m3u8?token=1/2".into() };
        for (uri, path) in [
            ("0.ts", "/films/x/0.ts"),
            ("low/0.ts?n=../1", "/films/x/low/0.ts?n=../1"),
            ("../y/./0.ts", "/films/y/0.ts"),
            ("../../../0.ts", "/0.ts"),
            ("..", "/films/"),
            ("/0.ts", "/0.ts"),
            ("?token=2", "/films/x/index.m3u8?token=2"),
            ("http://a:81/z", "/z"),
            ("http://a:81", "/"),
            ("//a:81/z?q#top", "/z?q"),
        ] {
            assert_eq!(location.join(uri).as_deref(), Ok(path), "{uri}");
        }
        for refused in
            ["", "#x", "http://b/0.ts", "//a/0.ts", "https://a:81/0.ts", "data:video/mp4,x", "a b", "ü"]
        {
            assert!(location.join(refused).is_err(), "{refused}");
        }
    }
}
