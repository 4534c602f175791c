//! The head of a request as it goes to an upstream.

use sojourn_http::head;

#[derive(Debug)]
pub enum RequestHead {
    /// Text of HTTP/1.1. The cache needs it to judge the response.
    Http(Vec<u8>),
    /// Records of FastCGI, for requests without a cache.
    Records(Vec<u8>),
}

impl Default for RequestHead {
    fn default() -> RequestHead {
        RequestHead::Http(Vec::new())
    }
}

impl RequestHead {
    /// The text of a head that is not in records.
    pub fn text(&self) -> &[u8] {
        match self {
            RequestHead::Http(text) => text,
            RequestHead::Records(_) => unreachable!("only applications are asked by records"),
        }
    }

    /// Appends the length of a body that has been gathered, and the end of the head.
    pub fn end_with_length(&mut self, length: u64) {
        match self {
            RequestHead::Http(text) => {
                head::content_length(text, length);
                text.extend_from_slice(b"\r\n");
            }
            RequestHead::Records(_) => unreachable!("the length of the body was known"),
        }
    }
}
