//! The body of a response while it arrives: removes its coding and finds its end.

use std::sync::Arc;

use sojourn_http::chunked::Chunked;
use sojourn_http::upstream;

use crate::connection::Buffer;

#[derive(Debug)]
pub enum Body {
    /// The number of bytes still to come.
    Length(u64),
    Chunked(Box<Chunked>),
    UntilClose,
    /// A record marks the end. The number of bytes still to come, if the length was announced.
    Records(Option<u64>),
    /// A record marks the end, and there must be no body.
    NoRecords,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    More,
    Complete,
    /// It violates the coding that the head announces.
    Malformed,
}

impl Body {
    pub fn new(framing: upstream::Body) -> Body {
        match framing {
            upstream::Body::None => Body::Length(0),
            upstream::Body::Length(length) => Body::Length(length),
            upstream::Body::Chunked => Body::Chunked(Box::default()),
            upstream::Body::UntilClose => Body::UntilClose,
        }
    }

    /// The start of a body whose end is marked by a record.
    pub fn by_records(framing: upstream::Body) -> Body {
        match framing {
            upstream::Body::None => Body::NoRecords,
            upstream::Body::Length(length) => Body::Records(Some(length)),
            upstream::Body::Chunked | upstream::Body::UntilClose => Body::Records(None),
        }
    }

    /// Returns true if the body may end here with a record.
    pub fn may_end(&self) -> bool {
        matches!(self, Body::Records(None | Some(0)) | Body::NoRecords)
    }

    /// Returns true if the end of the connection ends the body.
    pub fn ends_with_connection(&self) -> bool {
        matches!(self, Body::UntilClose)
    }

    /// Takes a part of a body whose end is marked by a record. False if it exceeds the announced length.
    pub fn append_record(&mut self, part: &[u8], append: impl FnOnce(Arc<[u8]>)) -> bool {
        match self {
            Body::Records(missing) => {
                let left = missing.map(|missing| missing.checked_sub(part.len() as u64));
                if left == Some(None) {
                    return false;
                }
                *missing = left.flatten();
                append(Arc::from(part));
                true
            }
            Body::NoRecords => true,
            Body::Length(_) | Body::Chunked(_) | Body::UntilClose => unreachable!("it has no records"),
        }
    }

    /// Takes the body's bytes from `input` and calls `append` with the decoded ones.
    pub fn read(&mut self, input: &mut Buffer, append: impl FnOnce(Arc<[u8]>)) -> Progress {
        let bytes = input.unread();
        let (count, progress) = match self {
            Body::Length(missing) => {
                let count = (*missing).min(bytes.len() as u64) as usize;
                *missing -= count as u64;
                if count > 0 {
                    append(Arc::from(&bytes[..count]));
                }
                (count, if *missing == 0 { Progress::Complete } else { Progress::More })
            }
            Body::Chunked(chunked) => {
                let mut data = Vec::new();
                let Ok(count) = chunked.decode(bytes, |part| data.extend_from_slice(part)) else {
                    return Progress::Malformed;
                };
                if !data.is_empty() {
                    append(Arc::from(data));
                }
                (count, if chunked.is_done() { Progress::Complete } else { Progress::More })
            }
            Body::UntilClose => {
                if !bytes.is_empty() {
                    append(Arc::from(bytes));
                }
                (bytes.len(), Progress::More)
            }
            // Only bytes that arrived with the head; the rest does not pass through `input`.
            Body::Records(_) | Body::NoRecords => {
                let fits = bytes.is_empty() || self.append_record(bytes, append);
                (bytes.len(), if fits { Progress::More } else { Progress::Malformed })
            }
        };
        input.consume(count);
        progress
    }
}
