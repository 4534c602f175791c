//! Partial content: one range, or several as parts of one body (RFC 9110, 14 and 15.3.7).

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use sojourn_content::{CHUNK_BYTES, Document, FileRange};
use sojourn_http::range::ByteRange;
use sojourn_http::request::Request;
use sojourn_http::{Status, head};
use sojourn_http_cache::fields::append_line;

use super::Http1;
use super::answer::Step;
use super::stream::{Part, Stream};
use crate::connection::Context;

impl Http1 {
    /// 416, with the size there is.
    pub(super) fn no_such_range(
        &mut self,
        request: &Request<'_>,
        size: u64,
        context: &mut Context<'_>,
    ) -> Step {
        self.begin(Status::RangeNotSatisfiable, Some(request), context);
        head::unsatisfied_range(&mut self.output, size);
        self.end_page(request, Status::RangeNotSatisfiable, context)
    }

    /// 206 with `ranges` of `document`, whose `body` may be at hand.
    pub(super) fn partial(
        &mut self,
        request: &Request<'_>,
        document: &Arc<Document>,
        body: Option<Arc<[u8]>>,
        ranges: &[ByteRange],
        context: &mut Context<'_>,
    ) -> Step {
        let is_small = document.size <= context.send_path.in_memory_bytes_max().min(CHUNK_BYTES);
        if !is_small {
            return self.stream_parts(request, document, ranges, context);
        }
        let Some(body) = body.or_else(|| context.caches.chunk(document, 0).cloned()) else {
            return Step::Load(FileRange::whole(document));
        };
        let parts = self.begin_partial(request, document, ranges, context);
        let head_length = self.output.len();
        for Part { preamble, range } in parts {
            self.output.extend_from_slice(&preamble);
            if let Some(ByteRange { first, last }) = range {
                self.output.extend_from_slice(&body[first as usize..=last as usize]);
            }
        }
        let length = self.output.len() - head_length;
        self.answered(request, Status::PartialContent, length, context)
    }

    fn stream_parts(
        &mut self,
        request: &Request<'_>,
        document: &Arc<Document>,
        ranges: &[ByteRange],
        context: &mut Context<'_>,
    ) -> Step {
        let mut parts = self.begin_partial(request, document, ranges, context);
        let line = self.open_line(Some(request), Status::PartialContent.code(), context);
        self.take_leave(request);
        let first = parts.remove(0);
        self.output.extend_from_slice(&first.preamble);
        let stream = Stream::parts(Arc::clone(document), ranges[0], parts, first.preamble.len(), line);
        Step::Stream { consumed: request.head_len, stream: Box::new(stream) }
    }

    /// Puts the head into the output; what follows it is returned.
    fn begin_partial(
        &mut self,
        request: &Request<'_>,
        document: &Document,
        ranges: &[ByteRange],
        context: &mut Context<'_>,
    ) -> Vec<Part> {
        self.begin(Status::PartialContent, Some(request), context);
        let (parts, boundary) = parts_of(Some(document.media_type.as_bytes()), document.size, ranges);
        let head = &mut self.output;
        head::content_length(head, parts.iter().map(Part::length).sum());
        match boundary {
            None => {
                document.append_description(head);
                head::content_range(head, ranges[0], document.size);
            }
            Some(boundary) => append_boundary(head, &boundary),
        }
        head::validator_fields(head, &document.entity_tag, document.modified);
        document.append_terms(head);
        head::end(head);
        parts
    }
}

impl Part {
    /// All of a body of `length` bytes.
    pub(super) fn whole(length: u64) -> Part {
        let range = length.checked_sub(1).map(|last| ByteRange { first: 0, last });
        Part { preamble: Vec::new(), range }
    }

    /// Bytes.
    pub(super) fn length(&self) -> u64 {
        self.preamble.len() as u64 + self.range.map_or(0, ByteRange::length)
    }
}

/// The body of a 206 with `ranges` of what has `size` bytes, and the boundary if it is of several parts.
pub(super) fn parts_of(
    media_type: Option<&[u8]>,
    size: u64,
    ranges: &[ByteRange],
) -> (Vec<Part>, Option<String>) {
    if let [range] = ranges {
        return (vec![Part { preamble: Vec::new(), range: Some(*range) }], None);
    }
    // Not to be guessed, so that no content can hold it.
    let boundary = format!("{:016x}", RandomState::new().hash_one(size));
    (multipart(media_type, size, ranges, &boundary), Some(boundary))
}

/// The media type of a multipart body.
pub(super) fn append_boundary(head: &mut Vec<u8>, boundary: &str) {
    head::field(head, "Content-Type", &format!("multipart/byteranges; boundary={boundary}"));
}

/// The parts of a multipart body, the closing boundary as the last (RFC 2046, 5.1.1).
fn multipart(media_type: Option<&[u8]>, size: u64, ranges: &[ByteRange], boundary: &str) -> Vec<Part> {
    let opening = |range: &ByteRange| {
        let mut preamble = format!("\r\n--{boundary}\r\n").into_bytes();
        media_type.iter().for_each(|media_type| append_line(&mut preamble, b"Content-Type", &[media_type]));
        head::content_range(&mut preamble, *range, size);
        head::end(&mut preamble);
        Part { preamble, range: Some(*range) }
    };
    let closing = Part { preamble: format!("\r\n--{boundary}--\r\n").into_bytes(), range: None };
    ranges.iter().map(opening).chain([closing]).collect()
}
