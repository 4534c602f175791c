//! One side of a connection: what it receives. What it sends is in `sending`.

use super::fields::{Kind, Section};
use super::frame::{self, FrameHead, append, first_number, number};
use super::hpack::{Decoder, Encoder, TABLE_BYTES};
use super::priority::Priority;
use super::streams::{Closed, State, Streams};
use super::{ErrorCode, FRAME_BYTES_MAX, PREFACE, WINDOW_BYTES, WINDOW_BYTES_MAX};

/// Memory for heads that is kept while there are none.
const KEPT_BYTES_MAX: usize = 1024;

/// Longer field blocks are not compared with the one before.
const REPEATED_BYTES_MAX: usize = 256;

/// Streams that a client starts before the server's SETTINGS: RFC 9113, 6.5.2, recommends to allow as many.
const STREAMS_MAX_UNSAID: u32 = 100;

/// The payload of the PING behind the announcement of an end.
const LAST_PING: [u8; 8] = *b"farewell";

/// The limits that this side sets for its peer.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Streams that are open at once (SETTINGS_MAX_CONCURRENT_STREAMS).
    pub streams_max: u32,
    /// The size of a list of fields (SETTINGS_MAX_HEADER_LIST_SIZE).
    pub field_bytes_max: usize,
    /// The size of a field block over all its frames, and the number of CONTINUATION frames.
    pub block_bytes_max: usize,
    pub continuations_max: usize,
    /// The windows of each stream and of the connection, the latter at least [`WINDOW_BYTES`].
    pub stream_window: u32,
    pub connection_window: u32,
    /// No more frames are read while so much waits to be sent.
    pub output_bytes_max: usize,
}

/// A message of the peer, or a change of a stream or the connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'i> {
    /// The client's preface is complete.
    Begun,
    /// The head of a message, which is in [`Connection::head`] until the next event. From a server this may be an
    /// interim response.
    Head { stream: u32, is_end: bool },
    /// A request whose fields are over the limit: it should be answered 431.
    TooLarge { stream: u32 },
    /// A part of a message's body; it must be [released](Connection::release), or else [discarded](Connection::discard).
    Data { stream: u32, bytes: &'i [u8], is_end: bool },
    /// The peer has reset the stream.
    Reset { stream: u32, code: ErrorCode },
    /// The stream was reset because the peer has violated the protocol.
    Rejected {
        stream: u32,
        code: ErrorCode,
        /// There was no [`Event::Head`] for it.
        is_new: bool,
    },
    /// The peer answers no streams behind this one (GOAWAY).
    Leaving { last: u32, code: ErrorCode },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Client,
    Server,
}

/// One side of a connection.
#[derive(Debug)]
pub struct Connection {
    pub(super) role: Role,
    pub(super) limits: Limits,
    stage: Stage,
    /// The header of a frame, as far as it has arrived.
    head: [u8; frame::HEAD_BYTES],
    head_length: usize,
    /// The current frame, and its payload as far as it is gathered.
    frame: FrameHead,
    gathered: Vec<u8>,
    has_settings: bool,
    /// The peer's first SETTINGS have been applied.
    is_settled: bool,
    /// The field block that continues in the next frame.
    block: Option<Block>,
    section: Section,
    decoder: Decoder,
    latest: Latest,
    pub(super) encoder: Encoder,
    pub(super) streams: Streams,
    pub(super) peer: Peer,
    /// The send window of the connection.
    pub(super) send_window: i64,
    /// The receive window of the connection, and the bytes consumed since it was last enlarged.
    receive_window: i64,
    consumed: u32,
    pub(super) output: Vec<u8>,
    leaving: Leaving,
    is_over: bool,
}

/// The peer's settings, as far as they limit this side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    pub streams_max: u32,
    pub stream_window: u32,
    pub frame_bytes_max: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// So many bytes of the client's preface have arrived.
    Preface(usize),
    /// Between two frames, or within the header of one.
    Head,
    /// The payload of a frame that is handled when it is complete.
    Payload,
    /// The length of the padding of DATA comes first.
    PadLength,
    /// The content of DATA.
    Content {
        left: usize,
        padding: usize,
    },
    Skipping(usize),
}

/// The progress of a graceful end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    No,
    /// GOAWAY without a last stream was sent, and a PING that tells when the client has read it.
    Announced,
    /// No streams behind this one are served.
    Behind(u32),
}

/// The request's block that was decoded last: the section still has its fields. Where the block is empty, none has been.
#[derive(Debug, Default)]
struct Latest {
    block: Vec<u8>,
    table_changes: u64,
    is_valid: bool,
}

#[derive(Debug)]
struct Block {
    stream: u32,
    is_end: bool,
    depends_on_itself: bool,
    bytes: Vec<u8>,
    continuations: usize,
}

/// How a frame's payload is read.
enum Payload {
    Content,
    Skipped,
    Whole,
}

/// The result of a step of reading.
enum Step<'i> {
    On,
    /// More input is needed.
    Wait,
    Event(Event<'i>),
}

impl Connection {
    pub fn server(limits: Limits) -> Connection {
        let mut connection = Connection::new(Role::Server, limits, Stage::Preface(0));
        connection.append_settings();
        connection
    }

    pub fn client(limits: Limits) -> Connection {
        let mut connection = Connection::new(Role::Client, limits, Stage::Head);
        connection.output.extend_from_slice(PREFACE);
        connection.append_settings();
        connection
    }

    fn new(role: Role, limits: Limits, stage: Stage) -> Connection {
        Connection {
            role,
            limits,
            stage,
            head: [0; frame::HEAD_BYTES],
            head_length: 0,
            frame: FrameHead::read([0; frame::HEAD_BYTES]),
            gathered: Vec::new(),
            has_settings: false,
            is_settled: false,
            block: None,
            section: Section::default(),
            decoder: Decoder::new(TABLE_BYTES),
            latest: Latest::default(),
            encoder: Encoder::default(),
            streams: Streams::default(),
            peer: Peer {
                streams_max: STREAMS_MAX_UNSAID,
                stream_window: WINDOW_BYTES,
                frame_bytes_max: FRAME_BYTES_MAX,
            },
            send_window: WINDOW_BYTES.into(),
            receive_window: limits.connection_window.into(),
            consumed: 0,
            output: Vec::new(),
            leaving: Leaving::No,
            is_over: false,
        }
    }

    /// Reads `input` up to the next event, and removes what was read. `None` if it is used up, if too much waits to be
    /// sent, or if the connection is over.
    pub fn next<'i>(&mut self, input: &mut &'i [u8]) -> Option<Event<'i>> {
        loop {
            if self.is_over {
                *input = &[];
                return None;
            }
            if self.output.len() >= self.limits.output_bytes_max {
                return None;
            }
            match self.step(input) {
                Ok(Step::On) => {}
                Ok(Step::Wait) => return None,
                Ok(Step::Event(event)) => return Some(event),
                Err(code) => self.shut_down(code),
            }
        }
    }

    /// The head of the last [`Event::Head`].
    pub fn head(&self) -> &Section {
        &self.section
    }

    /// The body of a message is consumed: the peer may send more of it.
    pub fn release(&mut self, stream: u32, bytes: usize) {
        self.discard(bytes);
        let window = self.limits.stream_window;
        if let Some(stream) = self.streams.get_mut(stream).filter(|stream| !stream.is_received) {
            stream.consumed += bytes as u32;
            if stream.consumed >= window / 2 {
                stream.receive_window += i64::from(stream.consumed);
                let increment = std::mem::take(&mut stream.consumed).to_be_bytes();
                append(&mut self.output, frame::WINDOW_UPDATE, 0, stream.id, &increment);
            }
        }
    }

    /// The peer may send as much again, but not on the same stream.
    pub fn discard(&mut self, bytes: usize) {
        self.consumed += bytes as u32;
        if self.consumed >= self.limits.connection_window / 2 {
            self.receive_window += i64::from(self.consumed);
            let increment = std::mem::take(&mut self.consumed).to_be_bytes();
            append(&mut self.output, frame::WINDOW_UPDATE, 0, 0, &increment);
        }
    }

    /// Returns true once the peer's preface and first SETTINGS could be sent by someone who speaks HTTP/2.
    pub fn is_begun(&self) -> bool {
        !matches!(self.stage, Stage::Preface(_))
    }

    /// Returns true once the peer's SETTINGS have begun: it speaks HTTP/2.
    pub fn has_settings(&self) -> bool {
        self.has_settings
    }

    /// Returns true within the client's preface, or the field block of a new request. Other blocks, other frames and the
    /// header of a frame do not count: a client could send parts of them for ever.
    pub fn is_in_head(&self) -> bool {
        let block = match (self.stage, &self.block) {
            (_, Some(block)) => block.stream,
            (Stage::Payload, None) if self.frame.kind == frame::HEADERS => self.frame.stream,
            (stage, None) => return matches!(stage, Stage::Preface(1..)),
        };
        self.streams.state(block) == State::Idle
    }

    /// Returns true if nothing more is received or started: after an error, or when all streams have ended after
    /// [`Connection::leave`].
    pub fn is_over(&self) -> bool {
        self.is_over || matches!(self.leaving, Leaving::Behind(_)) && self.streams.live().is_empty()
    }

    /// Announces the end: the client starts no more streams; those on their way are served (RFC 9113, 6.8).
    pub fn leave(&mut self) {
        if self.leaving == Leaving::No {
            self.leaving = Leaving::Announced;
            self.append_goaway(WINDOW_BYTES_MAX, ErrorCode::NO_ERROR);
            append(&mut self.output, frame::PING, 0, 0, &LAST_PING);
        }
    }

    /// Ends the connection now.
    pub fn shut_down(&mut self, code: ErrorCode) {
        if !std::mem::replace(&mut self.is_over, true) {
            self.append_goaway(self.last_received(), code);
        }
    }

    /// Gives back memory that is used only while frames are read.
    pub fn trim(&mut self) {
        if self.gathered.is_empty() && self.gathered.capacity() > KEPT_BYTES_MAX {
            self.gathered = Vec::new();
        }
        if self.section.trim(KEPT_BYTES_MAX) {
            self.latest.block.clear();
        }
        self.decoder.trim(KEPT_BYTES_MAX);
    }

    fn last_received(&self) -> u32 {
        match self.role {
            Role::Server => self.streams.last(),
            Role::Client => 0,
        }
    }

    fn append_goaway(&mut self, last: u32, code: ErrorCode) {
        let [last, code] = [last, code.0].map(u32::to_be_bytes);
        append(&mut self.output, frame::GOAWAY, 0, 0, &[last, code].concat());
    }

    /// The first SETTINGS, and the connection's window.
    fn append_settings(&mut self) {
        let Limits { streams_max, field_bytes_max, stream_window, connection_window, .. } = self.limits;
        let mut payload = Vec::new();
        let mut set = |name: u16, value: u32| {
            payload.extend_from_slice(&name.to_be_bytes());
            payload.extend_from_slice(&value.to_be_bytes());
        };
        match self.role {
            Role::Server => {
                set(frame::MAX_CONCURRENT_STREAMS, streams_max);
                set(frame::NO_RFC7540_PRIORITIES, 1);
            }
            Role::Client => set(frame::ENABLE_PUSH, 0),
        }
        if stream_window != WINDOW_BYTES {
            set(frame::INITIAL_WINDOW_SIZE, stream_window);
        }
        set(frame::MAX_HEADER_LIST_SIZE, field_bytes_max as u32);
        append(&mut self.output, frame::SETTINGS, 0, 0, &payload);
        if let Some(more @ 1..) = connection_window.checked_sub(WINDOW_BYTES) {
            append(&mut self.output, frame::WINDOW_UPDATE, 0, 0, &more.to_be_bytes());
        }
    }

    fn step<'i>(&mut self, input: &mut &'i [u8]) -> Result<Step<'i>, ErrorCode> {
        match self.stage {
            Stage::Preface(seen) => {
                let part = take(input, PREFACE.len() - seen);
                check(*part == PREFACE[seen..seen + part.len()], ErrorCode::PROTOCOL_ERROR)?;
                if seen + part.len() < PREFACE.len() {
                    self.stage = Stage::Preface(seen + part.len());
                    return Ok(Step::Wait);
                }
                self.stage = Stage::Head;
                Ok(Step::Event(Event::Begun))
            }
            Stage::Head => {
                if self.head_length == 0
                    && let Some((head, rest)) = input.split_first_chunk()
                {
                    *input = rest;
                    return self.begin_frame(FrameHead::read(*head));
                }
                let part = take(input, frame::HEAD_BYTES - self.head_length);
                self.head[self.head_length..][..part.len()].copy_from_slice(part);
                self.head_length += part.len();
                if self.head_length < frame::HEAD_BYTES {
                    return Ok(Step::Wait);
                }
                self.head_length = 0;
                self.begin_frame(FrameHead::read(self.head))
            }
            Stage::Payload => {
                let length = self.frame.length;
                if self.gathered.is_empty()
                    && let Some((payload, rest)) = input.split_at_checked(length)
                {
                    *input = rest;
                    self.stage = Stage::Head;
                    return self.end_frame(payload);
                }
                self.gathered.extend_from_slice(take(input, length - self.gathered.len()));
                if self.gathered.len() < length {
                    return Ok(Step::Wait);
                }
                self.stage = Stage::Head;
                let mut payload = std::mem::take(&mut self.gathered);
                let step = self.end_frame(&payload);
                payload.clear();
                self.gathered = payload;
                step
            }
            Stage::PadLength => {
                let Some(padding) = input.split_off_first() else { return Ok(Step::Wait) };
                let padding = usize::from(*padding);
                // RFC 9113, 6.1.
                let left = (self.frame.length - 1).checked_sub(padding).ok_or(ErrorCode::PROTOCOL_ERROR)?;
                self.release(self.frame.stream, 1 + padding);
                self.begin_content(left, padding)
            }
            Stage::Content { left, padding } => self.content(input, left, padding),
            Stage::Skipping(left) => {
                let count = take(input, left).len();
                if count < left {
                    self.stage = Stage::Skipping(left - count);
                    return Ok(Step::Wait);
                }
                self.stage = Stage::Head;
                Ok(Step::On)
            }
        }
    }

    fn begin_frame<'i>(&mut self, head: FrameHead) -> Result<Step<'i>, ErrorCode> {
        self.frame = head;
        match self.judge(head)? {
            Payload::Content => self.begin_data(head),
            Payload::Skipped => {
                self.stage = Stage::Skipping(head.length);
                Ok(Step::On)
            }
            Payload::Whole => {
                self.stage = Stage::Payload;
                Ok(Step::On)
            }
        }
    }

    /// Validates a frame's header (RFC 9113, 4.2, 5.1 and 6).
    fn judge(&mut self, head: FrameHead) -> Result<Payload, ErrorCode> {
        let FrameHead { length, kind, flags, stream } = head;
        check(length <= FRAME_BYTES_MAX, ErrorCode::FRAME_SIZE_ERROR)?;
        // RFC 9113, 6.10 and 3.4.
        let is_expected = match &self.block {
            Some(block) => kind == frame::CONTINUATION && stream == block.stream,
            None => {
                kind != frame::CONTINUATION
                    && (self.has_settings || kind == frame::SETTINGS && flags & frame::ACK == 0)
            }
        };
        check(is_expected, ErrorCode::PROTOCOL_ERROR)?;
        self.has_settings = true;
        let is_of_connection = matches!(kind, frame::SETTINGS | frame::PING | frame::GOAWAY);
        let is_of_either = kind == frame::WINDOW_UPDATE || kind > frame::CONTINUATION;
        check(is_of_either || is_of_connection == (stream == 0), ErrorCode::PROTOCOL_ERROR)?;
        let padding = usize::from(head.has(frame::PADDED));
        let is_length = match kind {
            frame::DATA => length >= padding,
            frame::HEADERS => length >= padding + 5 * usize::from(head.has(frame::HAS_PRIORITY)),
            frame::RST_STREAM | frame::WINDOW_UPDATE => length == 4,
            frame::SETTINGS if flags & frame::ACK != 0 => length == 0,
            frame::SETTINGS => length.is_multiple_of(frame::SETTING_BYTES),
            frame::PING => length == 8,
            frame::GOAWAY => length >= 8,
            frame::PRIORITY_UPDATE => length >= 4,
            _ => true,
        };
        check(is_length, ErrorCode::FRAME_SIZE_ERROR)?;
        let state = self.streams.state(stream);
        let needs_stream = matches!(kind, frame::DATA | frame::RST_STREAM)
            || kind == frame::WINDOW_UPDATE && stream != 0
            || kind == frame::HEADERS && self.role == Role::Client;
        check(!needs_stream || state != State::Idle, ErrorCode::PROTOCOL_ERROR)?;
        match (kind, state) {
            (frame::DATA, _) => Ok(Payload::Content),
            (frame::HEADERS, State::Closed(Closed::Reset)) => Err(ErrorCode::STREAM_CLOSED),
            // RFC 9113, 5.1.1: identifiers increase, and a client's are odd.
            (frame::HEADERS, State::Forgotten) if self.role == Role::Server => Err(ErrorCode::PROTOCOL_ERROR),
            (frame::HEADERS, _) if stream.is_multiple_of(2) => Err(ErrorCode::PROTOCOL_ERROR),
            // Never allowed by a client, never sent by one.
            (frame::PUSH_PROMISE, _) => Err(ErrorCode::PROTOCOL_ERROR),
            (frame::PRIORITY_UPDATE, _) if stream != 0 || self.role == Role::Client => {
                Err(ErrorCode::PROTOCOL_ERROR)
            }
            // RFC 9113, 4.1: unknown types are ignored.
            (..=frame::CONTINUATION | frame::PRIORITY_UPDATE, _) => Ok(Payload::Whole),
            _ => Ok(Payload::Skipped),
        }
    }

    /// Starts DATA: all of it counts for the windows, whatever becomes of it.
    fn begin_data<'i>(&mut self, head: FrameHead) -> Result<Step<'i>, ErrorCode> {
        let FrameHead { length, stream: id, .. } = head;
        self.receive_window -= length as i64;
        check(self.receive_window >= 0, ErrorCode::FLOW_CONTROL_ERROR)?;
        let fault = match (self.streams.state(id), self.role) {
            (State::Live(place), _) => {
                let stream = &mut self.streams.live_mut()[place];
                stream.receive_window -= length as i64;
                match () {
                    () if stream.is_received => Some(ErrorCode::STREAM_CLOSED),
                    () if stream.receive_window < 0 => Some(ErrorCode::FLOW_CONTROL_ERROR),
                    () if self.role == Role::Client && !stream.has_head => Some(ErrorCode::PROTOCOL_ERROR),
                    () => None,
                }
            }
            (State::Closed(Closed::Rejected), _) | (State::Forgotten, Role::Client) => {
                self.discard(length);
                self.stage = Stage::Skipping(length);
                return Ok(Step::On);
            }
            // RFC 9113, 5.1.
            _ => return Err(ErrorCode::STREAM_CLOSED),
        };
        if let Some(code) = fault {
            return Ok(self.reject_data(code, length, length));
        }
        if head.has(frame::PADDED) {
            self.stage = Stage::PadLength;
            return Ok(Step::On);
        }
        self.begin_content(length, 0)
    }

    fn begin_content<'i>(&mut self, left: usize, padding: usize) -> Result<Step<'i>, ErrorCode> {
        self.stage = Stage::Content { left, padding };
        if let Some(stream) = self.streams.get_mut(self.frame.stream)
            && let Some(announced) = &mut stream.content_left
        {
            // RFC 9113, 8.1.1.
            match announced.checked_sub(left as u64) {
                Some(rest) => *announced = rest,
                None => return Ok(self.reject_data(ErrorCode::PROTOCOL_ERROR, left, left + padding)),
            }
        }
        Ok(Step::On)
    }

    /// Rejects the stream of a DATA frame, of which `unread` bytes are still to come, `content` of them not released.
    fn reject_data<'i>(&mut self, code: ErrorCode, content: usize, unread: usize) -> Step<'i> {
        self.discard(content);
        self.stage = Stage::Skipping(unread);
        Step::Event(self.reject(self.frame.stream, code))
    }

    fn content<'i>(
        &mut self,
        input: &mut &'i [u8],
        left: usize,
        padding: usize,
    ) -> Result<Step<'i>, ErrorCode> {
        let bytes = take(input, left);
        if bytes.is_empty() && left > 0 {
            return Ok(Step::Wait);
        }
        let left = left - bytes.len();
        self.stage = if left > 0 { Stage::Content { left, padding } } else { Stage::Skipping(padding) };
        let is_end = left == 0 && self.frame.has(frame::END_STREAM);
        let id = self.frame.stream;
        let Some(stream) = self.streams.get_mut(id) else {
            // It was given up meanwhile.
            self.discard(bytes.len());
            return Ok(Step::On);
        };
        stream.is_received |= is_end;
        if is_end && stream.content_left.is_some_and(|left| left > 0) {
            self.discard(bytes.len());
            return Ok(Step::Event(self.reject(id, ErrorCode::PROTOCOL_ERROR)));
        }
        if bytes.is_empty() && !is_end {
            return Ok(Step::On);
        }
        Ok(Step::Event(Event::Data { stream: id, bytes, is_end }))
    }

    /// Handles a frame whose payload is complete.
    fn end_frame<'i>(&mut self, payload: &[u8]) -> Result<Step<'i>, ErrorCode> {
        let head = self.frame;
        match head.kind {
            frame::HEADERS => return self.begin_block(head, payload),
            frame::CONTINUATION => return self.continue_block(head, payload),
            frame::SETTINGS if head.has(frame::ACK) => {}
            frame::SETTINGS => {
                if !std::mem::replace(&mut self.is_settled, true) {
                    // RFC 9113, 6.5.2: no limit unless there is one.
                    self.peer.streams_max = u32::MAX;
                }
                payload.chunks_exact(frame::SETTING_BYTES).try_for_each(|setting| self.apply(setting))?;
                append(&mut self.output, frame::SETTINGS, frame::ACK, 0, &[]);
            }
            frame::PING if head.has(frame::ACK) => {
                if payload == LAST_PING && self.leaving == Leaving::Announced {
                    self.leaving = Leaving::Behind(self.last_received());
                    self.append_goaway(self.last_received(), ErrorCode::NO_ERROR);
                }
            }
            frame::PING => append(&mut self.output, frame::PING, frame::ACK, 0, payload),
            frame::GOAWAY => {
                let last = first_number(payload) & WINDOW_BYTES_MAX;
                return Ok(Step::Event(Event::Leaving {
                    last,
                    code: ErrorCode(first_number(&payload[4..])),
                }));
            }
            frame::WINDOW_UPDATE => {
                return self.enlarge(head.stream, first_number(payload) & WINDOW_BYTES_MAX);
            }
            frame::RST_STREAM => {
                let is_live = self.streams.get(head.stream).is_some();
                self.streams.end(head.stream, Closed::Reset);
                if is_live {
                    let code = ErrorCode(first_number(payload));
                    return Ok(Step::Event(Event::Reset { stream: head.stream, code }));
                }
            }
            frame::PRIORITY => {
                let is_live = self.streams.get(head.stream).is_some();
                let code = match payload.len() {
                    5 if first_number(payload) & WINDOW_BYTES_MAX != head.stream => return Ok(Step::On),
                    // RFC 7540, 5.3.1.
                    5 => ErrorCode::PROTOCOL_ERROR,
                    _ => ErrorCode::FRAME_SIZE_ERROR,
                };
                check(is_live, code)?;
                return Ok(Step::Event(self.reject(head.stream, code)));
            }
            frame::PRIORITY_UPDATE => {
                let stream = first_number(payload) & WINDOW_BYTES_MAX;
                check(stream != 0, ErrorCode::PROTOCOL_ERROR)?;
                // For a stream to come: the request's own field counts.
                if let Some(stream) = self.streams.get_mut(stream) {
                    stream.priority = Some(Priority::parse(&payload[4..]));
                }
            }
            kind => unreachable!("frames of type {kind} are not gathered"),
        }
        Ok(Step::On)
    }

    /// Applies a setting of the peer (RFC 9113, 6.5.2).
    fn apply(&mut self, setting: &[u8]) -> Result<(), ErrorCode> {
        let name = u16::from_be_bytes([setting[0], setting[1]]);
        let value = number([setting[2], setting[3], setting[4], setting[5]]);
        match name {
            frame::HEADER_TABLE_SIZE => self.encoder.allow(value as usize),
            frame::ENABLE_PUSH | frame::ENABLE_CONNECT_PROTOCOL | frame::NO_RFC7540_PRIORITIES => {
                check(value <= 1, ErrorCode::PROTOCOL_ERROR)?;
            }
            frame::MAX_CONCURRENT_STREAMS => self.peer.streams_max = value,
            frame::INITIAL_WINDOW_SIZE => {
                check(value <= WINDOW_BYTES_MAX, ErrorCode::FLOW_CONTROL_ERROR)?;
                let more = i64::from(value) - i64::from(self.peer.stream_window);
                self.peer.stream_window = value;
                for stream in self.streams.live_mut() {
                    stream.send_window += more;
                    // RFC 9113, 6.9.2.
                    check(stream.send_window <= WINDOW_BYTES_MAX.into(), ErrorCode::FLOW_CONTROL_ERROR)?;
                }
            }
            frame::MAX_FRAME_SIZE => {
                check((1 << 14..1 << 24).contains(&value), ErrorCode::PROTOCOL_ERROR)?;
                self.peer.frame_bytes_max = value as usize;
            }
            _ => {}
        }
        Ok(())
    }

    /// Handles WINDOW_UPDATE (RFC 9113, 6.9).
    fn enlarge<'i>(&mut self, id: u32, more: u32) -> Result<Step<'i>, ErrorCode> {
        if id == 0 {
            check(more > 0, ErrorCode::PROTOCOL_ERROR)?;
            self.send_window += i64::from(more);
            check(self.send_window <= WINDOW_BYTES_MAX.into(), ErrorCode::FLOW_CONTROL_ERROR)?;
            return Ok(Step::On);
        }
        let Some(stream) = self.streams.get_mut(id) else { return Ok(Step::On) };
        stream.send_window += i64::from(more);
        let code = match () {
            () if more == 0 => ErrorCode::PROTOCOL_ERROR,
            () if stream.send_window > WINDOW_BYTES_MAX.into() => ErrorCode::FLOW_CONTROL_ERROR,
            () => return Ok(Step::On),
        };
        Ok(Step::Event(self.reject(id, code)))
    }

    /// Starts a field block (RFC 9113, 6.2).
    fn begin_block<'i>(&mut self, head: FrameHead, mut payload: &[u8]) -> Result<Step<'i>, ErrorCode> {
        if head.has(frame::PADDED) {
            let padding = usize::from(payload[0]);
            payload = &payload[1..];
            payload = payload
                .split_at_checked(payload.len().wrapping_sub(padding))
                .ok_or(ErrorCode::PROTOCOL_ERROR)?
                .0;
        }
        let mut depends_on_itself = false;
        if head.has(frame::HAS_PRIORITY) {
            let (priority, fields) = payload.split_at_checked(5).ok_or(ErrorCode::PROTOCOL_ERROR)?;
            depends_on_itself = first_number(priority) & WINDOW_BYTES_MAX == head.stream;
            payload = fields;
        }
        let is_end = head.has(frame::END_STREAM);
        if head.has(frame::END_HEADERS) {
            return self.end_block(head.stream, is_end, depends_on_itself, payload);
        }
        let bytes = payload.to_vec();
        self.block = Some(Block { stream: head.stream, is_end, depends_on_itself, bytes, continuations: 0 });
        Ok(Step::On)
    }

    fn continue_block<'i>(&mut self, head: FrameHead, payload: &[u8]) -> Result<Step<'i>, ErrorCode> {
        let mut block = self.block.take().expect("it was expected");
        block.bytes.extend_from_slice(payload);
        block.continuations += 1;
        let is_bounded = block.bytes.len() <= self.limits.block_bytes_max
            && block.continuations <= self.limits.continuations_max;
        check(is_bounded, ErrorCode::ENHANCE_YOUR_CALM)?;
        if head.has(frame::END_HEADERS) {
            return self.end_block(block.stream, block.is_end, block.depends_on_itself, &block.bytes);
        }
        self.block = Some(block);
        Ok(Step::On)
    }

    /// Decodes a field block, which changes the table even if nobody wants the fields.
    fn end_block<'i>(
        &mut self,
        id: u32,
        is_end: bool,
        depends_on_itself: bool,
        block: &[u8],
    ) -> Result<Step<'i>, ErrorCode> {
        let state = self.streams.state(id);
        let kind = match (state, self.role) {
            (State::Idle, _) => Kind::Request,
            (State::Live(place), Role::Client) if !self.streams.live()[place].has_head => Kind::Response,
            _ => Kind::Trailers,
        };
        let is_valid = self.decode(kind, block)? && !depends_on_itself;
        match state {
            State::Idle => Ok(self.begin_request(id, is_end, is_valid)),
            State::Live(place) if kind == Kind::Response => Ok(self.begin_response(place, is_end, is_valid)),
            State::Live(place) => Ok(self.end_message(place, is_end, is_valid)),
            State::Closed(Closed::Complete) => Err(ErrorCode::STREAM_CLOSED),
            State::Closed(_) | State::Forgotten => Ok(Step::On),
        }
    }

    /// Decodes a block; returns true if its fields are valid. A client that asks for the same again sends the same bytes,
    /// which mean the same unless the table has changed.
    fn decode(&mut self, kind: Kind, block: &[u8]) -> Result<bool, ErrorCode> {
        let Connection { section, decoder, limits, latest, .. } = self;
        let (is_request, table_changes) = (kind == Kind::Request, decoder.table_changes());
        let is_again = latest.block == block && latest.table_changes == table_changes;
        if is_request && is_again && !block.is_empty() {
            return Ok(latest.is_valid);
        }
        latest.block.clear();
        section.begin(kind, limits.field_bytes_max);
        // RFC 9113, 4.3: after an error the tables of both sides differ.
        decoder.read(block, |field| section.take(field)).map_err(|_| ErrorCode::COMPRESSION_ERROR)?;
        let is_valid = section.end();
        if is_request && block.len() <= REPEATED_BYTES_MAX && decoder.table_changes() == table_changes {
            latest.block.extend_from_slice(block);
            (latest.table_changes, latest.is_valid) = (table_changes, is_valid);
        }
        Ok(is_valid)
    }

    fn begin_request<'i>(&mut self, id: u32, is_end: bool, is_valid: bool) -> Step<'i> {
        if matches!(self.leaving, Leaving::Behind(_)) {
            // RFC 9113, 6.8: the client was told.
            self.streams.begin(id, 0, 0);
            self.streams.end(id, Closed::Rejected);
            return Step::On;
        }
        let is_full = self.streams.live().len() >= self.limits.streams_max as usize;
        let stream = self.streams.begin(id, self.peer.stream_window, self.limits.stream_window);
        stream.has_head = true;
        stream.is_received = is_end;
        stream.priority = self.section.priority();
        let length = self.section.content_length();
        stream.content_left = length;
        let code = match () {
            () if is_full => ErrorCode::REFUSED_STREAM,
            () if self.section.is_too_large() => return Step::Event(Event::TooLarge { stream: id }),
            // RFC 9113, 8.1.1.
            () if !is_valid || is_end && length.is_some_and(|length| length > 0) => ErrorCode::PROTOCOL_ERROR,
            () => return Step::Event(Event::Head { stream: id, is_end }),
        };
        let Event::Rejected { stream, code, .. } = self.reject(id, code) else { return Step::On };
        Step::Event(Event::Rejected { stream, code, is_new: true })
    }

    fn begin_response<'i>(&mut self, place: usize, is_end: bool, is_valid: bool) -> Step<'i> {
        let stream = &mut self.streams.live_mut()[place];
        let (id, status) = (stream.id, self.section.status().unwrap_or_default());
        let is_interim = status < 200;
        stream.has_head = !is_interim;
        stream.is_received = is_end;
        // RFC 9113, 8.1: an interim response does not end the stream.
        if !is_valid || self.section.is_too_large() || is_interim && is_end {
            return Step::Event(self.reject(id, ErrorCode::PROTOCOL_ERROR));
        }
        Step::Event(Event::Head { stream: id, is_end })
    }

    /// Handles trailers, whose fields nobody reads: they end the message.
    fn end_message<'i>(&mut self, place: usize, is_end: bool, is_valid: bool) -> Step<'i> {
        let is_too_large = self.section.is_too_large();
        let stream = &mut self.streams.live_mut()[place];
        let (id, was_received) = (stream.id, stream.is_received);
        stream.is_received |= is_end;
        let is_short = stream.content_left.is_some_and(|left| left > 0);
        let code = match () {
            () if was_received => ErrorCode::STREAM_CLOSED,
            () if is_too_large => ErrorCode::ENHANCE_YOUR_CALM,
            // RFC 9113, 8.1: nothing follows trailers.
            () if !is_end || !is_valid || is_short => ErrorCode::PROTOCOL_ERROR,
            () => return Step::Event(Event::Data { stream: id, bytes: &[], is_end: true }),
        };
        Step::Event(self.reject(id, code))
    }

    /// Resets a stream because of the peer's error.
    fn reject<'i>(&mut self, stream: u32, code: ErrorCode) -> Event<'i> {
        self.reset(stream, code);
        Event::Rejected { stream, code, is_new: false }
    }
}

fn check(is_right: bool, code: ErrorCode) -> Result<(), ErrorCode> {
    if is_right { Ok(()) } else { Err(code) }
}

/// Removes up to `count` bytes from the start of `input`.
fn take<'i>(input: &mut &'i [u8], count: usize) -> &'i [u8] {
    let (part, rest) = input.split_at(count.min(input.len()));
    *input = rest;
    part
}
