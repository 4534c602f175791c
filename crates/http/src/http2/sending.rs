//! What a connection sends: heads from the text of HTTP/1, DATA as far as the windows allow, resets.

use std::sync::LazyLock;

use memchr::memchr;
use memchr::memmem::Finder;

use super::connection::{Connection, Role};
use super::fields::{checked_fields, for_each_field, lines};
use super::frame::{self, FrameHead, HEAD_BYTES, append};
use super::head_cache::HeadCache;
use super::hpack::Encoder;
use super::priority::Priority;
use super::streams::{Closed, Stream};
use super::{ErrorCode, WINDOW_BYTES_MAX};
use crate::token::{all_graphic, decimal, is_token};

/// Larger frames are not sent, even if the peer would receive them: other streams wait meanwhile.
const SENT_FRAME_BYTES_MAX: usize = 64 * 1024;

/// The end of a head; to search for it is cheaper once that is prepared.
static EMPTY_LINE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\r\n\r\n"));

/// Date is looked for in so many lines: Server precedes it.
const DATE_LINE_MAX: usize = 2;

/// The head of a response that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentHead {
    pub status: u16,
    /// The length from Content-Length.
    pub content_length: Option<u64>,
    /// The length of the text, including the empty line.
    pub text_bytes: usize,
    /// There is no body.
    pub is_end: bool,
}

impl SentHead {
    pub fn is_interim(self) -> bool {
        self.status < 200
    }
}

impl Connection {
    /// Bytes to send. DATA is appended here, behind the header that [`Connection::data_head`] returns.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Bytes to send, without memory to replace them.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// The number of streams that are alive.
    pub fn stream_count(&self) -> usize {
        self.streams.live().len()
    }

    pub fn is_live(&self, stream: u32) -> bool {
        self.streams.get(stream).is_some()
    }

    /// How many more streams the server allows.
    pub fn stream_room(&self) -> usize {
        (self.peer.streams_max as usize).saturating_sub(self.streams.live().len())
    }

    pub fn priority(&self, stream: u32) -> Option<Priority> {
        self.streams.get(stream).and_then(|stream| stream.priority)
    }

    /// How many bytes of a body may be sent now.
    pub fn room(&self, stream: u32) -> usize {
        self.stream_window(stream).min(self.connection_window())
    }

    /// The stream's own window.
    pub fn stream_window(&self, stream: u32) -> usize {
        self.streams.get(stream).map_or(0, |stream| stream.send_window.max(0) as usize)
    }

    /// The window over all streams.
    pub fn connection_window(&self) -> usize {
        self.send_window.max(0) as usize
    }

    /// The most bytes of a body in one frame.
    pub fn frame_bytes_max(&self) -> usize {
        self.peer.frame_bytes_max.min(SENT_FRAME_BYTES_MAX)
    }

    /// The header of a DATA frame with the next `length` bytes of a body, within [`room`](Connection::room) and
    /// [`frame_bytes_max`](Connection::frame_bytes_max).
    pub fn data_head(&mut self, stream: u32, length: usize, is_end: bool) -> [u8; HEAD_BYTES] {
        debug_assert!(length <= self.room(stream) || length == 0, "more than the windows allow");
        self.send_window -= length as i64;
        if let Some(stream) = self.streams.get_mut(stream) {
            stream.send_window -= length as i64;
            stream.is_sent |= is_end;
        }
        let flags = if is_end { frame::END_STREAM } else { 0 };
        FrameHead { length, kind: frame::DATA, flags, stream }.bytes()
    }

    pub fn reset(&mut self, stream: u32, code: ErrorCode) {
        if self.is_live(stream) {
            self.streams.end(stream, Closed::Rejected);
            append(&mut self.output, frame::RST_STREAM, 0, stream, &code.0.to_be_bytes());
        }
    }

    /// Ends a stream after the end of this side's message. What the peer still sends is unwanted (RFC 9113, 8.1).
    pub fn finish(&mut self, stream: u32) {
        match self.streams.get(stream) {
            Some(Stream { is_received: true, is_sent: true, .. }) => {
                self.streams.end(stream, Closed::Complete)
            }
            Some(Stream { is_sent: false, .. }) => self.reset(stream, ErrorCode::CANCEL),
            _ => self.reset(stream, ErrorCode::NO_ERROR),
        }
    }

    /// Sends the head of a response, which begins `text` in the form of HTTP/1. A response without a body ends the
    /// stream. `None` if it is malformed, or framed in a way that HTTP/2 lacks.
    pub fn send_response(
        &mut self,
        stream: u32,
        text: &[u8],
        is_bodiless: bool,
        heads: &mut HeadCache,
    ) -> Option<SentHead> {
        let text_bytes = EMPTY_LINE.find(text)? + 4;
        let lines = text.strip_prefix(b"HTTP/1.1 ")?;
        let status = decimal(lines.get(..3)?).filter(|status| *status >= 100)? as u16;
        let fields = &text[memchr(b'\n', text)? + 1..text_bytes - 2];
        let (dated, lasting) = split_behind_date(fields);
        // What is encoded must be sent, because it changes the table: everything is checked first.
        let (mut content_length, mut sections) = (None, [None; 2]);
        for (section, place) in [dated, lasting].into_iter().zip(&mut sections) {
            *place = heads.find(section);
            let length = match *place {
                Some(place) => heads.section(place).content_length,
                None => checked_fields(section)?,
            };
            content_length = length.or(content_length);
        }
        let start = self.begin_head();
        let name: &[u8] = b":status";
        self.encoder.field(&mut self.output, name, &lines[..3]);
        for (section, place) in [dated, lasting].into_iter().zip(sections) {
            match place {
                Some(place) => self.encoder.prepared(&mut self.output, &heads.section(place).fields),
                None => append_fields(&mut self.encoder, &mut self.output, section),
            }
        }
        let is_end =
            status >= 200 && (is_bodiless || matches!(status, 204 | 304) || content_length == Some(0));
        self.end_head(start, stream, is_end);
        Some(SentHead { status, content_length, text_bytes, is_end })
    }

    /// Makes a request whose head is the start of `text`, in the form of HTTP/1. Returns the stream and the length of
    /// the head. `None` if the text is no request, or identifiers are used up.
    pub fn send_request(&mut self, text: &[u8], scheme: &str) -> Option<(u32, usize)> {
        let text_bytes = EMPTY_LINE.find(text)? + 4;
        let line_end = memchr(b'\r', text)?;
        let mut words = text[..line_end].split(|byte| *byte == b' ');
        let (method, target, _version) = (words.next()?, words.next()?, words.next()?);
        let fields = text.get(line_end + 2..text_bytes - 2).unwrap_or_default();
        let (_, host) = lines(fields).flatten().find(|(name, _)| name.eq_ignore_ascii_case(b"host"))?;
        checked_fields(fields)?;
        let is_sound = !method.is_empty()
            && !target.is_empty()
            && method.iter().copied().all(is_token)
            && all_graphic(target)
            && all_graphic(host);
        let id = match self.streams.last() {
            0 => 1,
            last => last + 2,
        };
        if self.role != Role::Client || !is_sound || id > WINDOW_BYTES_MAX {
            return None;
        }
        let start = self.begin_head();
        let pseudo: [(&[u8], &[u8]); 4] = [
            (b":method", method),
            (b":scheme", scheme.as_bytes()),
            (b":authority", host),
            (b":path", target),
        ];
        for (name, value) in pseudo {
            self.encoder.field(&mut self.output, name, value);
        }
        append_fields(&mut self.encoder, &mut self.output, fields);
        let is_end = text_bytes == text.len();
        self.streams.begin(id, self.peer.stream_window, self.limits.stream_window).is_sent = is_end;
        self.end_head(start, id, is_end);
        Some((id, text_bytes))
    }

    /// Makes room for a frame's header and starts a field block behind it.
    fn begin_head(&mut self) -> usize {
        let start = self.output.len();
        self.output.extend_from_slice(&[0; HEAD_BYTES]);
        self.encoder.begin(&mut self.output);
        start
    }

    /// Ends the block that began at `start`.
    fn end_head(&mut self, start: usize, stream: u32, is_end: bool) {
        let end_stream = if is_end { frame::END_STREAM } else { 0 };
        if let Some(stream) = self.streams.get_mut(stream) {
            stream.is_sent |= is_end;
        }
        let length = self.output.len() - start - HEAD_BYTES;
        let length_max = self.peer.frame_bytes_max;
        if length <= length_max {
            let flags = frame::END_HEADERS | end_stream;
            let head = FrameHead { length, kind: frame::HEADERS, flags, stream }.bytes();
            self.output[start..start + HEAD_BYTES].copy_from_slice(&head);
            return;
        }
        let block = self.output.split_off(start + HEAD_BYTES);
        self.output.truncate(start);
        let mut parts = block.chunks(length_max).peekable();
        let (mut kind, mut flags) = (frame::HEADERS, end_stream);
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                flags |= frame::END_HEADERS;
            }
            append(&mut self.output, kind, flags, stream, part);
            (kind, flags) = (frame::CONTINUATION, 0);
        }
    }
}

/// Encodes the fields of HTTP/1 in `section`, which have been checked.
fn append_fields(encoder: &mut Encoder, block: &mut Vec<u8>, section: &[u8]) {
    for_each_field(section, |name, value| encoder.field(block, name, value));
}

/// The lines up to Date, and those behind it, which come again in other responses. Date is looked for where our heads
/// have it.
fn split_behind_date(section: &[u8]) -> (&[u8], &[u8]) {
    let mut end = 0;
    for _ in 0..DATE_LINE_MAX {
        let line = &section[end..];
        let Some(length) = memchr(b'\n', line) else { break };
        end += length + 1;
        if line.get(..5).is_some_and(|name| name.eq_ignore_ascii_case(b"date:")) {
            return section.split_at(end);
        }
    }
    (&[], section)
}
