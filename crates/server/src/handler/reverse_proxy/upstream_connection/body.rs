//! The body of an answer as it arrives: without its coding, and where it ends.

use std::sync::Arc;

use sojourn_http::chunked::Chunked;
use sojourn_http::upstream;

use crate::connection::Buffer;

#[derive(Debug)]
pub enum Body {
    /// So many bytes are missing.
    Length(u64),
    Chunked(Box<Chunked>),
    UntilClose,
    /// The end is told beside the body, by a record. So many bytes are missing, if the length was announced.
    Records(Option<u64>),
    /// The same, but there is no body whatever comes.
    NoRecords,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    More,
    Complete,
    /// It is not in the coding that the head announces.
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

    /// At the start of a body whose end is told by a record.
    pub fn by_records(framing: upstream::Body) -> Body {
        match framing {
            upstream::Body::None => Body::NoRecords,
            upstream::Body::Length(length) => Body::Records(Some(length)),
            upstream::Body::Chunked | upstream::Body::UntilClose => Body::Records(None),
        }
    }

    /// Returns true if the body may end here, as a record says.
    pub fn may_end(&self) -> bool {
        matches!(self, Body::Records(None | Some(0)) | Body::NoRecords)
    }

    /// Returns true if the connection's end is the body's.
    pub fn ends_with_connection(&self) -> bool {
        matches!(self, Body::UntilClose)
    }

    /// Takes a part of a body whose end is told by a record. Returns false if that is longer than was announced.
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

    /// Takes what `input` has of the body and gives `append` the bytes proper.
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
            // What came with the head; the rest goes by without the input.
            Body::Records(_) | Body::NoRecords => {
                let fits = bytes.is_empty() || self.append_record(bytes, append);
                (bytes.len(), if fits { Progress::More } else { Progress::Malformed })
            }
        };
        input.consume(count);
        progress
    }
}
