//! Validates the client's frames before `h2` sees them.
//!
//! `h2` ends a connection with PROTOCOL_ERROR for anything it cannot read. RFC 9113 asks for other codes, and for
//! malformed requests only the stream is reset. So frames and field blocks are validated here, and only valid ones are
//! passed on. Field blocks are decompressed and passed on as literals. A malformed request is passed on as an empty
//! one, whose stream is then reset ([`Faults`]); trailers, which nobody reads, are passed on as the end of the body.
//!
//! Frame boundaries are tracked too: a client may be idle for long, but not within a frame or a field block.

use h2::Reason as Code;

use super::limits::{
    CONTINUATIONS_MAX, FIELD_BLOCK_BYTES_MAX, FIELD_BYTES_MAX, FIELD_TABLE_BYTES, FRAME_BYTES_MAX,
};

mod hpack;
mod huffman;
mod request_fields;
mod streams;

use hpack::{Decoder, Field};
use request_fields::Section;
use streams::{Progress, Streams};

/// A frame header: length, type, flags, stream (RFC 9113, 4.1).
const HEAD_BYTES: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const HAS_PRIORITY: u8 = 0x20;

/// The overhead per field (RFC 9113, 6.5.2).
const FIELD_OVERHEAD_BYTES: usize = 32;

/// `GET /`, from the static table.
const EMPTY_REQUEST: [u8; 3] = [0x82, 0x86, 0x84];

/// The client's preface (RFC 9113, 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Errors in what the client has sent.
#[derive(Debug, Default)]
pub struct Faults {
    pub streams: Vec<(u32, Code)>,
    /// The connection must be ended with this code; later bytes are ignored.
    pub connection: Option<Code>,
}

/// The parser's state.
#[derive(Debug)]
pub struct Frames {
    has_begun: bool,
    has_settings: bool,
    head: [u8; HEAD_BYTES],
    head_length: usize,
    /// The number of payload bytes still to come; at the very start, of preface bytes.
    rest: usize,
    payload: Payload,
    gathered: Vec<u8>,
    /// The field block that continues in the next frame.
    block: Option<Block>,
    streams: Streams,
    decoder: Decoder,
    is_over: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Payload {
    /// Passed on as it arrives.
    Passes,
    Dropped,
    /// Validated when it is complete.
    Gathered,
}

#[derive(Debug)]
struct Block {
    stream: u32,
    ends_stream: bool,
    depends_on_itself: bool,
    bytes: Vec<u8>,
    continuations: usize,
}

#[derive(Clone, Copy, Debug)]
struct Head {
    length: usize,
    kind: u8,
    flags: u8,
    stream: u32,
}

impl Frames {
    pub fn new() -> Frames {
        Frames {
            has_begun: false,
            has_settings: false,
            head: [0; HEAD_BYTES],
            head_length: 0,
            rest: PREFACE.len(),
            payload: Payload::Passes,
            gathered: Vec::new(),
            block: None,
            streams: Streams::default(),
            decoder: Decoder::new(FIELD_TABLE_BYTES as usize),
            is_over: false,
        }
    }

    /// Appends the valid part of `bytes` to `sound`.
    pub fn read(&mut self, bytes: &[u8], sound: &mut Vec<u8>, faults: &mut Faults) {
        if !self.is_over
            && let Err(code) = self.read_all(bytes, sound, faults)
        {
            self.is_over = true;
            faults.connection = Some(code);
        }
    }

    /// Returns true within a frame or a field block.
    pub fn is_partial(&self) -> bool {
        self.has_begun && (self.rest > 0 || self.head_length > 0 || self.block.is_some())
    }

    fn read_all(&mut self, mut bytes: &[u8], sound: &mut Vec<u8>, faults: &mut Faults) -> Result<(), Code> {
        self.has_begun |= !bytes.is_empty();
        while !bytes.is_empty() {
            if self.rest > 0 {
                let count = self.rest.min(bytes.len());
                let (part, after) = bytes.split_at(count);
                (self.rest, bytes) = (self.rest - count, after);
                match self.payload {
                    Payload::Passes => sound.extend_from_slice(part),
                    Payload::Dropped => {}
                    Payload::Gathered => self.gathered.extend_from_slice(part),
                }
                if self.rest == 0 && self.payload == Payload::Gathered {
                    self.end_frame(sound, faults)?;
                }
                continue;
            }
            let count = (HEAD_BYTES - self.head_length).min(bytes.len());
            self.head[self.head_length..][..count].copy_from_slice(&bytes[..count]);
            self.head_length += count;
            bytes = &bytes[count..];
            if self.head_length == HEAD_BYTES {
                self.head_length = 0;
                self.begin_frame(sound, faults)?;
            }
        }
        Ok(())
    }

    fn begin_frame(&mut self, sound: &mut Vec<u8>, faults: &mut Faults) -> Result<(), Code> {
        let head = Head::read(&self.head);
        self.payload = self.judge(head, faults)?;
        self.rest = head.length;
        match self.payload {
            Payload::Passes => sound.extend_from_slice(&self.head),
            Payload::Gathered if head.length == 0 => self.end_frame(sound, faults)?,
            Payload::Dropped | Payload::Gathered => {}
        }
        Ok(())
    }

    /// Validates a frame's header (RFC 9113, 4.2, 5.1 and 6).
    fn judge(&mut self, head: Head, faults: &mut Faults) -> Result<Payload, Code> {
        let Head { length, kind, flags, stream } = head;
        check(length <= FRAME_BYTES_MAX, Code::FRAME_SIZE_ERROR)?;
        // RFC 9113, 6.10 and 3.4.
        let is_expected = match &self.block {
            Some(block) => kind == CONTINUATION && stream == block.stream,
            None => kind != CONTINUATION && (self.has_settings || kind == SETTINGS && flags & ACK == 0),
        };
        check(is_expected, Code::PROTOCOL_ERROR)?;
        self.has_settings = true;
        let progress = self.streams.progress(stream);
        let is_of_connection = matches!(kind, SETTINGS | PING | GOAWAY);
        let is_of_either = kind == WINDOW_UPDATE || kind > CONTINUATION;
        check(is_of_either || is_of_connection == (stream == 0), Code::PROTOCOL_ERROR)?;
        let is_length = match kind {
            DATA => length >= usize::from(flags & PADDED != 0),
            HEADERS => {
                length >= usize::from(flags & PADDED != 0) + 5 * usize::from(flags & HAS_PRIORITY != 0)
            }
            RST_STREAM | WINDOW_UPDATE => length == 4,
            SETTINGS if flags & ACK != 0 => length == 0,
            SETTINGS => length.is_multiple_of(6),
            PING => length == 8,
            GOAWAY => length >= 8,
            _ => true,
        };
        check(is_length, Code::FRAME_SIZE_ERROR)?;
        let needs_stream = matches!(kind, DATA | RST_STREAM) || kind == WINDOW_UPDATE && stream != 0;
        check(!needs_stream || progress != Progress::Idle, Code::PROTOCOL_ERROR)?;
        Ok(match (kind, progress) {
            (DATA, Progress::Ended) => {
                self.reject(stream, Code::STREAM_CLOSED, faults);
                Payload::Dropped
            }
            (DATA | HEADERS, Progress::Reset) => return Err(Code::STREAM_CLOSED),
            (DATA, Progress::Faulty) => Payload::Dropped,
            (DATA, _) => {
                if flags & END_STREAM != 0 {
                    self.streams.set(stream, Progress::Ended);
                }
                Payload::Passes
            }
            // RFC 9113, 5.1.1: identifiers increase, and a client's are odd.
            (HEADERS, Progress::Forgotten) => return Err(Code::PROTOCOL_ERROR),
            (HEADERS, _) if stream.is_multiple_of(2) => return Err(Code::PROTOCOL_ERROR),
            (PUSH_PROMISE, _) => return Err(Code::PROTOCOL_ERROR),
            (HEADERS | CONTINUATION | SETTINGS | WINDOW_UPDATE, _) => Payload::Gathered,
            (RST_STREAM, _) => {
                self.streams.set(stream, Progress::Reset);
                Payload::Passes
            }
            (PRIORITY, _) if length != 5 => match progress {
                Progress::Open | Progress::Ended => {
                    faults.streams.push((stream, Code::FRAME_SIZE_ERROR));
                    Payload::Dropped
                }
                _ => return Err(Code::FRAME_SIZE_ERROR),
            },
            (PRIORITY | PING | GOAWAY, _) => Payload::Passes,
            // RFC 9113, 4.1: unknown types are ignored.
            _ => Payload::Dropped,
        })
    }

    /// Handles a complete gathered payload.
    fn end_frame(&mut self, sound: &mut Vec<u8>, faults: &mut Faults) -> Result<(), Code> {
        let (head, mut payload) = (Head::read(&self.head), std::mem::take(&mut self.gathered));
        match head.kind {
            HEADERS => self.begin_block(head, &payload)?,
            CONTINUATION => {
                let block = self.block.as_mut().expect("it was expected");
                block.bytes.extend_from_slice(&payload);
                block.continuations += 1;
                let is_bounded =
                    block.bytes.len() <= FIELD_BLOCK_BYTES_MAX && block.continuations <= CONTINUATIONS_MAX;
                check(is_bounded, Code::ENHANCE_YOUR_CALM)?;
            }
            WINDOW_UPDATE
                if u32::from_be_bytes([payload[0] & 0x7f, payload[1], payload[2], payload[3]]) == 0 =>
            {
                check(head.stream != 0, Code::PROTOCOL_ERROR)?;
                faults.streams.push((head.stream, Code::PROTOCOL_ERROR));
            }
            _ => {
                if head.kind == SETTINGS {
                    check_settings(&payload)?;
                }
                sound.extend_from_slice(&self.head);
                sound.extend_from_slice(&payload);
            }
        }
        payload.clear();
        self.gathered = payload;
        if matches!(head.kind, HEADERS | CONTINUATION) && head.flags & END_HEADERS != 0 {
            let block = self.block.take().expect("it has begun");
            return self.end_block(&block, sound, faults);
        }
        Ok(())
    }

    /// Starts a field block (RFC 9113, 6.2).
    fn begin_block(&mut self, head: Head, mut payload: &[u8]) -> Result<(), Code> {
        if head.flags & PADDED != 0 {
            let padding = usize::from(payload[0]);
            payload = &payload[1..];
            payload =
                payload.split_at_checked(payload.len().wrapping_sub(padding)).ok_or(Code::PROTOCOL_ERROR)?.0;
        }
        let mut depends_on_itself = false;
        if head.flags & HAS_PRIORITY != 0 {
            let (priority, fields) = payload.split_at_checked(5).ok_or(Code::PROTOCOL_ERROR)?;
            depends_on_itself = stream_of(priority) == head.stream;
            payload = fields;
        }
        let ends_stream = head.flags & END_STREAM != 0;
        let bytes = payload.to_vec();
        self.block =
            Some(Block { stream: head.stream, ends_stream, depends_on_itself, bytes, continuations: 0 });
        Ok(())
    }

    fn end_block(&mut self, block: &Block, sound: &mut Vec<u8>, faults: &mut Faults) -> Result<(), Code> {
        let (mut section, mut fields, mut size) = (Section::default(), Vec::new(), 0_usize);
        let read = self.decoder.read(&block.bytes, |field| {
            size += field.name.len() + field.value.len() + FIELD_OVERHEAD_BYTES;
            if size <= FIELD_BYTES_MAX {
                section.take(&field);
                hpack::append(&mut fields, &field);
            }
        });
        // RFC 9113, 4.3: the tables of both sides now differ.
        read.map_err(|_| Code::COMPRESSION_ERROR)?;
        let (stream, is_too_large) = (block.stream, size > FIELD_BYTES_MAX);
        match self.streams.progress(stream) {
            Progress::Idle => {
                self.streams.begin(stream);
                if block.ends_stream {
                    self.streams.set(stream, Progress::Ended);
                }
                if is_too_large {
                    // Large enough to be answered 431.
                    let value = vec![b'x'; FIELD_BYTES_MAX];
                    fields = EMPTY_REQUEST.to_vec();
                    hpack::append(&mut fields, &Field { name: b"x", value: &value, indexed: None });
                } else if block.depends_on_itself || !section.is_request() {
                    fields = EMPTY_REQUEST.to_vec();
                    faults.streams.push((stream, Code::PROTOCOL_ERROR));
                }
                append_fields(sound, block, &fields);
            }
            // RFC 9113, 8.1: nothing follows trailers.
            Progress::Open if is_too_large => self.reject(stream, Code::ENHANCE_YOUR_CALM, faults),
            Progress::Open if block.ends_stream && section.is_trailers() => {
                self.streams.set(stream, Progress::Ended);
                append_head(sound, Head { length: 0, kind: DATA, flags: END_STREAM, stream });
            }
            Progress::Open => self.reject(stream, Code::PROTOCOL_ERROR, faults),
            Progress::Ended => self.reject(stream, Code::STREAM_CLOSED, faults),
            Progress::Reset | Progress::Faulty | Progress::Forgotten => {}
        }
        Ok(())
    }

    /// Passes on nothing more of this stream.
    fn reject(&mut self, stream: u32, code: Code, faults: &mut Faults) {
        self.streams.set(stream, Progress::Faulty);
        faults.streams.push((stream, code));
    }
}

impl Head {
    fn read(bytes: &[u8; HEAD_BYTES]) -> Head {
        let [high, middle, low, kind, flags, stream @ ..] = bytes;
        let length = usize::from(*high) << 16 | usize::from(*middle) << 8 | usize::from(*low);
        Head { length, kind: *kind, flags: *flags, stream: stream_of(stream) }
    }
}

/// A stream's identifier, without the reserved bit.
fn stream_of(bytes: &[u8]) -> u32 {
    u32::from_be_bytes([bytes[0] & 0x7f, bytes[1], bytes[2], bytes[3]])
}

fn check(is_right: bool, code: Code) -> Result<(), Code> {
    if is_right { Ok(()) } else { Err(code) }
}

/// Validates the payload of SETTINGS (RFC 9113, 6.5.2).
fn check_settings(payload: &[u8]) -> Result<(), Code> {
    for setting in payload.chunks_exact(6) {
        let name = u16::from_be_bytes([setting[0], setting[1]]);
        let value = u32::from_be_bytes([setting[2], setting[3], setting[4], setting[5]]);
        match name {
            // Push; extended CONNECT (RFC 8441, 3).
            2 | 8 => check(value <= 1, Code::PROTOCOL_ERROR)?,
            4 => check(value < 1 << 31, Code::FLOW_CONTROL_ERROR)?,
            5 => check((1 << 14..1 << 24).contains(&value), Code::PROTOCOL_ERROR)?,
            _ => {}
        }
    }
    Ok(())
}

/// Writes a block as a HEADERS frame, and CONTINUATION frames for what does not fit.
fn append_fields(sound: &mut Vec<u8>, block: &Block, fields: &[u8]) {
    let mut parts = fields.chunks(FRAME_BYTES_MAX).peekable();
    let mut kind = HEADERS;
    while let Some(part) = parts.next() {
        let ends_stream = if kind == HEADERS && block.ends_stream { END_STREAM } else { 0 };
        let flags = ends_stream | if parts.peek().is_none() { END_HEADERS } else { 0 };
        append_head(sound, Head { length: part.len(), kind, flags, stream: block.stream });
        sound.extend_from_slice(part);
        kind = CONTINUATION;
    }
}

fn append_head(sound: &mut Vec<u8>, head: Head) {
    sound.extend_from_slice(&(head.length as u32).to_be_bytes()[1..]);
    sound.extend_from_slice(&[head.kind, head.flags]);
    sound.extend_from_slice(&head.stream.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partial_until_the_end_of_each_frame_and_block() {
        let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
        let headers = [0, 0, 2, HEADERS, 1, 0, 0, 0, 1, 0x82, 0x84];
        let continuation = [0, 0, 1, CONTINUATION, END_HEADERS, 0, 0, 0, 1, 0x86];
        let all = [PREFACE, &settings, &headers, &continuation].concat();
        let whole = [PREFACE.len(), PREFACE.len() + settings.len(), all.len()];
        let (mut sound, mut faults) = (Vec::new(), Faults::default());
        let mut frames = Frames::new();
        assert!(!frames.is_partial());
        for (index, byte) in all.iter().enumerate() {
            frames.read(&[*byte], &mut sound, &mut faults);
            assert_eq!(!frames.is_partial(), whole.contains(&(index + 1)), "after {}", index + 1);
        }
        let (mut at_once, mut frames) = (Vec::new(), Frames::new());
        frames.read(&all, &mut at_once, &mut faults);
        assert!(!frames.is_partial() && at_once == sound);
        let joined = [0, 0, 3, HEADERS, 5, 0, 0, 0, 1, 0x82, 0x84, 0x86];
        assert_eq!(sound, [PREFACE, &settings, &joined].concat());
        assert!(faults.streams.is_empty() && faults.connection.is_none());
    }
}
