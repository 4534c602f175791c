//! The body of a response while it arrives: removes its coding and finds its end.

use sojourn_http::chunked::Chunked;
use sojourn_http::upstream;

use crate::connection::{Buffer, SharedBuffer, Sharing};
use crate::handler::reverse_proxy::FlowBytes;

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

    /// Takes the body's bytes from `input`, which has no records any more, and calls `append` with the decoded ones.
    pub fn read(&mut self, input: &mut Buffer, sharing: Sharing, append: impl FnOnce(FlowBytes)) -> Progress {
        let arrived = input.unread().len();
        let (count, progress) = match self {
            Body::Length(missing) => {
                let count = (*missing).min(arrived as u64) as usize;
                *missing -= count as u64;
                (count, if *missing == 0 { Progress::Complete } else { Progress::More })
            }
            Body::Chunked(chunked) => {
                let mut data = Vec::new();
                let Ok(count) = chunked.decode(input.unread(), |part| data.extend_from_slice(part)) else {
                    return Progress::Malformed;
                };
                input.consume(count);
                if !data.is_empty() {
                    append(FlowBytes::Buffer(SharedBuffer::from(data)));
                }
                return if chunked.is_done() { Progress::Complete } else { Progress::More };
            }
            Body::UntilClose | Body::Records(None) => (arrived, Progress::More),
            Body::Records(Some(missing)) => {
                let Some(left) = missing.checked_sub(arrived as u64) else { return Progress::Malformed };
                *missing = left;
                (arrived, Progress::More)
            }
            Body::NoRecords => {
                input.consume(arrived);
                return Progress::More;
            }
        };
        if count > 0 {
            append(FlowBytes::take(input, count, sharing));
        }
        progress
    }
}
