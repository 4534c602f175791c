//! Resolves the URIs of a playlist to paths on its own server.

use crate::{
    http::reference::{self, Place},
    rtsp::description::is_name,
};

/// A document on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    pub host: String,
    /// The path and query, with a leading slash.
    pub path: String,
}

impl Location {
    /// Resolves a URI found in this document; the error says why it is not followed.
    pub fn join(&self, uri: &str) -> Result<String, &'static str> {
        let uri = uri.split('#').next().unwrap_or_default();
        if uri.is_empty() || !is_name(uri) {
            return Err("the playlist contains an invalid URI");
        }
        match reference::resolve(uri, "http", &self.host, &self.path) {
            Place::Here(path) => Ok(path),
            Place::Elsewhere => Err("the playlist refers to another server, which is not supported"),
        }
    }
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
