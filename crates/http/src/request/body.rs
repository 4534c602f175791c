//! The body of a request: how it is framed, and where it ends.
//!
//! A server must find the end even of a body that it does not need, because the next request begins there.

use super::RequestError;
use crate::chunked::Chunked;

/// The body that follows a request head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// This many bytes, often zero.
    Length(u64),
    Chunked,
}

impl Body {
    /// The length, if the head announces one.
    pub fn length(self) -> Option<u64> {
        match self {
            Body::Length(length) => Some(length),
            Body::Chunked => None,
        }
    }
}

#[derive(Clone, Debug)]
pub struct BodyReader {
    framing: Framing,
    wire_bytes: u64,
}

#[derive(Clone, Debug)]
enum Framing {
    /// The number of bytes still to come.
    Length(u64),
    Chunked(Chunked),
}

impl BodyReader {
    pub fn new(body: Body) -> BodyReader {
        let framing = match body {
            Body::Length(length) => Framing::Length(length),
            Body::Chunked => Framing::Chunked(Chunked::default()),
        };
        BodyReader { framing, wire_bytes: 0 }
    }

    /// Reads `bytes`, calls `data` with the decoded body, and returns how many bytes belonged to the body, its coding
    /// included. Fewer than given means that the body ended.
    pub fn read(&mut self, bytes: &[u8], mut data: impl FnMut(&[u8])) -> Result<usize, RequestError> {
        let count = match &mut self.framing {
            Framing::Length(missing) => {
                let count = (*missing).min(bytes.len() as u64) as usize;
                data(&bytes[..count]);
                *missing -= count as u64;
                count
            }
            Framing::Chunked(chunked) => chunked.decode(bytes, data).map_err(|_| RequestError::Body)?,
        };
        self.wire_bytes = self.wire_bytes.saturating_add(count as u64);
        Ok(count)
    }

    pub fn is_done(&self) -> bool {
        match &self.framing {
            Framing::Length(missing) => *missing == 0,
            Framing::Chunked(chunked) => chunked.is_done(),
        }
    }

    /// Bytes consumed so far, chunk coding included.
    pub fn wire_bytes(&self) -> u64 {
        self.wire_bytes
    }
}
