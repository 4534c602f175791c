//! What can be asked for: the bytes of each document's request, prepared once, and the size to expect.
//!
//! Requests lie one after another in a single block of memory, so that sending allocates nothing.

use sojourn_workload::trace::{Trace, site_path};

use crate::{
    Connections, Pick, Target,
    filelist::{self, FilelistError},
};

/// The most bytes that all requests together may take.
const REQUEST_BYTES_MAX: usize = u32::MAX as usize;

/// The version of HTTP to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0, which closes unless asked to keep the connection.
    Http10,
    /// HTTP/1.1.
    Http11,
}

/// Documents with their requests.
#[derive(Clone, Debug)]
pub struct Catalogue {
    requests: Vec<u8>,
    /// Where each request ends; it begins where the one before it ends.
    ends: Vec<u32>,
    /// `UNKNOWN` until the first answer tells.
    sizes: Vec<u64>,
    suffix: String,
}

const UNKNOWN: u64 = u64::MAX;

impl Catalogue {
    /// The target's own path, of unknown size: the first answer tells it, and later ones must agree.
    pub fn single(target: &Target, version: Version, connections: Connections) -> Catalogue {
        let mut catalogue = Catalogue::empty(target, version, connections);
        catalogue.add(&target.path, None);
        catalogue
    }

    /// The documents of a WebStone file list below the target's path, and how to pick them.
    pub fn mix(
        target: &Target,
        version: Version,
        connections: Connections,
        list: &str,
    ) -> Result<(Catalogue, Pick), FilelistError> {
        let entries = filelist::parse(list)?;
        let mut catalogue = Catalogue::empty(target, version, connections);
        for entry in &entries {
            catalogue.add(&format!("{}{}", target.base_path(), entry.path), entry.size_bytes);
        }
        Ok((catalogue, Pick::Weighted(entries.iter().map(|entry| entry.weight).collect())))
    }

    /// The documents of a trace, laid out below the target's path as a built site has them.
    pub fn trace(target: &Target, version: Version, connections: Connections, trace: &Trace) -> Catalogue {
        let mut catalogue = Catalogue::empty(target, version, connections);
        for (index, document) in trace.documents.iter().enumerate() {
            let path = site_path(index as u32, document.size_bytes);
            catalogue.add(&format!("{}{path}", target.base_path()), Some(document.size_bytes));
        }
        catalogue
    }

    /// The request of a document.
    pub fn request(&self, document: u32) -> &[u8] {
        let index = document as usize;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.requests[start as usize..self.ends[index] as usize]
    }

    /// Whether a body of this size is the document's; the first one asked about an unknown size is believed.
    pub fn agrees(&mut self, document: u32, size_bytes: u64) -> bool {
        let size = &mut self.sizes[document as usize];
        if *size == UNKNOWN {
            *size = size_bytes;
        }
        *size == size_bytes
    }

    fn empty(target: &Target, version: Version, connections: Connections) -> Catalogue {
        let (protocol, connection) = match (version, connections) {
            (Version::Http10, Connections::Close) => ("1.0", ""),
            (Version::Http10, _) => ("1.0", "Connection: keep-alive\r\n"),
            (Version::Http11, Connections::Close) => ("1.1", "Connection: close\r\n"),
            (Version::Http11, _) => ("1.1", ""),
        };
        let agent = concat!("sojourn/", env!("CARGO_PKG_VERSION"));
        let suffix =
            format!(" HTTP/{protocol}\r\nHost: {}\r\nUser-Agent: {agent}\r\n{connection}\r\n", target.host);
        Catalogue { requests: Vec::new(), ends: Vec::new(), sizes: Vec::new(), suffix }
    }

    fn add(&mut self, path: &str, size_bytes: Option<u64>) {
        self.requests.extend_from_slice(b"GET ");
        self.requests.extend_from_slice(path.as_bytes());
        self.requests.extend_from_slice(self.suffix.as_bytes());
        assert!(
            self.requests.len() <= REQUEST_BYTES_MAX,
            "a trace of that many documents is refused earlier"
        );
        self.ends.push(self.requests.len() as u32);
        self.sizes.push(size_bytes.unwrap_or(UNKNOWN));
    }
}

#[cfg(test)]
mod tests {
    use sojourn_workload::trace::Document;

    use super::*;

    fn target() -> Target {
        Target::resolve("http://127.0.0.1:81/base/").unwrap()
    }

    #[test]
    fn requests_of_a_trace() {
        let document = |size_bytes| Document { name: "/x".into(), size_bytes };
        let trace = Trace { documents: vec![document(5), document(7)], ..Trace::default() };
        let catalogue = Catalogue::trace(&target(), Version::Http11, Connections::Close, &trace);
        let expected = "GET /base/000/000001-7 HTTP/1.1\r\nHost: 127.0.0.1:81\r\nUser-Agent: sojourn/0.1.0\r\n\
                        Connection: close\r\n\r\n";
        assert_eq!(String::from_utf8_lossy(catalogue.request(1)), expected);
        assert!(catalogue.request(0).starts_with(b"GET /base/000/000000-5 "));
    }

    #[test]
    fn an_unknown_size_is_learned_once() {
        let mut catalogue = Catalogue::single(&target(), Version::Http10, Connections::KeepAlive);
        assert!(catalogue.request(0).starts_with(b"GET /base/ HTTP/1.0\r\n"));
        assert!(catalogue.agrees(0, 42));
        assert!(catalogue.agrees(0, 42));
        assert!(!catalogue.agrees(0, 43));
    }
}
