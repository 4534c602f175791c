//! A flow: one exchange with an upstream, filled by one connection and followed by any number of clients.
//!
//! A body that is stored is held by the store, and readers read it there. Other bytes are kept until every reader
//! has read them; a slow client holds the upstream back once [`HELD_BYTES_MAX`] wait for it (backpressure). Both count
//! against the cache's memory budget; while that is exhausted, fewer bytes may wait.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;
use std::time::Duration;

use http::StatusCode;
use sojourn_cache_store::{BusyObject, Charge, Insertion, Next, PartInsertion, Reader, Slice, Store};
use sojourn_cgi::Client;
use sojourn_content::HostId;
use sojourn_http::upstream::{Body, Head, RequestKind};
use sojourn_http::{Status, head};

use super::{CacheMiss, Changes, Combination, Revalidation};
use crate::connection::{Buffer, Piece, Pool, SharedBuffer, Sharing};
use crate::handler::destination::{Origin, Refusal};

/// How many bytes are buffered for a client before the upstream is held back, and of a request body for an upstream.
pub const HELD_BYTES_MAX: usize = 256 * 1024;

/// The same for a client while the cache's memory budget is exhausted.
const HELD_BYTES_MIN: usize = 64 * 1024;

/// The most readers and parts, and bytes of the request's head, for which the memory of a flow is kept.
const KEPT_CAPACITY_MAX: usize = 16;
const KEPT_HEAD_BYTES_MAX: usize = 4 * 1024;

/// A client's address, or its network.
pub(super) type Network = (bool, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowId(pub(super) usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelId(pub(super) usize);

/// The number of a reader of a flow; the first one started it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowReaderId(u32);

impl FlowReaderId {
    pub fn is_first(self) -> bool {
        self.0 == 0
    }
}

/// A request answered by a flow.
#[derive(Debug)]
pub(super) struct FlowReader {
    pub id: FlowReaderId,
    pub token: u64,
    /// Its reader of a body that is being stored.
    stored: Option<Reader>,
    /// Otherwise the number of the next part, counted from the body's first.
    position: usize,
}

/// What only a cache needs is in memory of its own, if it is large. Flows are reset and used again, because most of what they
/// have is the same for every request without a cache.
#[derive(Debug)]
pub struct Flow {
    pub request: RequestHead,
    /// The request head without conditions, for repeating the request if a 304 matches nothing stored.
    pub unconditional: Option<Vec<u8>>,
    /// The kind of request, which decides whether a response has a body.
    pub asked: RequestKind,
    /// The proxy's virtual host.
    pub host: HostId,
    /// The client's data for CGI variables; `None` if the flow reads from the store.
    pub client: Option<Client>,
    /// True if the request is idempotent and may be repeated.
    pub is_repeatable: bool,
    /// The request's body, if it has one.
    pub upload: Option<Upload>,
    /// The protocols that it asks to switch to.
    pub upgrade: Option<Box<[u8]>>,
    /// The tunnel that a 101 has opened, until its client joins it.
    pub tunnel: Option<TunnelId>,
    /// Heads of interim responses (1xx) that the first reader has not taken yet.
    pub interim: Vec<u8>,
    pub answer: Option<Arc<Answer>>,
    /// The stored response that answers instead.
    pub revalidation: Option<Revalidation>,
    pub end: Option<End>,
    /// How often the request was given to a connection.
    pub attempts: u32,
    /// True if a new connection has failed after the request was sent, without an answer.
    pub was_lost: bool,
    /// The destination, if it is not one of the upstreams.
    pub origin: Option<Arc<Origin>>,
    pub upstream: usize,
    pub began: Duration,
    /// The upstream, and the client to whose share of its connections it counts.
    pub(super) share: Option<(usize, Network)>,
    /// The token of the connection that fills it, once known.
    pub(super) fetch: Option<u64>,
    /// True if a connection fills it, or soon will.
    pub(super) has_fetch: bool,
    /// The cache entry under which the response may be stored.
    pub miss: Option<Box<CacheMiss>>,
    /// The target that an unsafe request may invalidate.
    pub changes: Option<Box<Changes>>,
    /// The insertion for the response, if it may be stored; coalesced requests of other loops wait for it.
    pub claim: Option<Insertion>,
    pub(super) fill: Option<Insertion>,
    pub(super) part: Option<Box<PartInsertion>>,
    pub part_metadata: Option<Box<[u8]>>,
    /// Stored bytes to append after the received ones.
    behind: Vec<Arc<[u8]>>,
    /// The object being stored, even after it is complete.
    pub kept: Option<Arc<BusyObject>>,
    /// Memory does not hold all of it, but the disk may store it, whether clients wait for it or not.
    pub(super) is_for_disk: bool,
    /// The stored pieces that the rest comes from.
    pub(super) source: Option<VecDeque<Stored>>,
    /// All of it is kept for others to follow.
    pub is_shared: bool,
    pub(super) readers: Vec<FlowReader>,
    readers_total: u32,
    parts: VecDeque<FlowBytes>,
    /// The number of parts already dropped.
    parts_dropped: usize,
    held_bytes: usize,
    /// The charge for buffered bytes, if there is a cache.
    pub(super) charge: Option<(Store, Charge)>,
}

/// Bytes of a body, which its readers share.
#[derive(Debug)]
pub enum FlowBytes {
    Slice(Slice),
    /// Where they were received.
    Buffer(SharedBuffer),
}

/// A piece of a body that is already stored.
#[derive(Debug)]
pub enum Stored {
    Bytes(Arc<[u8]>),
    Body(Reader),
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub upstream_status: u16,
    /// The reason phrase; `None` for the usual one of 200.
    pub reason: Option<Box<[u8]>>,
    /// Field lines for clients, without framing.
    pub fields: Vec<u8>,
    /// The framing of the body from the upstream.
    pub body: Body,
    /// The Content-Length, even if there is no body.
    pub content_length: Option<u64>,
}

impl Answer {
    /// An answer in whose memory that of a response can be written.
    pub fn empty() -> Answer {
        Answer {
            status: 0,
            upstream_status: 0,
            reason: None,
            fields: Vec::new(),
            body: Body::None,
            content_length: None,
        }
    }

    /// Sets everything but the fields.
    pub fn begin(&mut self, head: &Head<'_>) {
        (self.status, self.upstream_status) = (head.status, head.status);
        self.reason = (head.status != 200 || head.reason != b"OK").then(|| head.reason.into());
        (self.body, self.content_length) = (head.body, head.content_length);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Complete,
    Truncated,
    /// Without a response; clients get this status.
    Failed(Status),
    /// Without a response, because the origin may not or cannot be reached.
    Refused(Refusal),
    /// Nobody wants it any more.
    Abandoned,
}

impl Default for Flow {
    fn default() -> Flow {
        Flow {
            request: RequestHead::default(),
            unconditional: None,
            asked: RequestKind::Other,
            host: HostId(0),
            client: None,
            is_repeatable: false,
            upload: None,
            upgrade: None,
            tunnel: None,
            interim: Vec::new(),
            answer: None,
            revalidation: None,
            end: None,
            attempts: 0,
            was_lost: false,
            origin: None,
            upstream: 0,
            began: Duration::ZERO,
            share: None,
            fetch: None,
            has_fetch: false,
            miss: None,
            changes: None,
            claim: None,
            fill: None,
            part: None,
            part_metadata: None,
            behind: Vec::new(),
            kept: None,
            is_for_disk: false,
            source: None,
            is_shared: false,
            readers: Vec::new(),
            readers_total: 0,
            parts: VecDeque::new(),
            parts_dropped: 0,
            held_bytes: 0,
            charge: None,
        }
    }
}

impl Flow {
    /// Ends it: as after its creation, but for memory that is worth keeping.
    pub fn reset(&mut self) {
        let (mut readers, mut parts) = (std::mem::take(&mut self.readers), std::mem::take(&mut self.parts));
        let mut head = self.take_head();
        readers.clear();
        parts.clear();
        head.clear();
        let is_small = readers.capacity().max(parts.capacity()) <= KEPT_CAPACITY_MAX
            && head.capacity() <= KEPT_HEAD_BYTES_MAX;
        *self = if is_small {
            Flow { readers, parts, request: RequestHead::Http(head), ..Flow::default() }
        } else {
            Flow::default()
        };
    }

    /// The bytes of the request's head; of a new flow, memory for one.
    pub fn take_head(&mut self) -> Vec<u8> {
        match std::mem::take(&mut self.request) {
            RequestHead::Http(bytes) | RequestHead::Records(bytes) => bytes,
        }
    }

    /// Starts a response that combines received and stored bytes.
    pub fn begin_joined(&mut self, joined: Combination) {
        let Combination { status, fields, length, before, behind, fill, part } = joined;
        self.store(fill);
        self.behind = behind;
        self.keep_part(part);
        let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
        self.answer = Some(Arc::new(Answer {
            status,
            // Only partial responses are combined with stored bytes.
            upstream_status: 206,
            reason: Some(reason.unwrap_or_default().as_bytes().into()),
            fields,
            body: Body::Length(length),
            content_length: Some(length),
        }));
        before.into_iter().for_each(|bytes| self.push(bytes.into()));
    }

    /// Stores the body, if there is an insertion; readers then read it from the store.
    pub(super) fn store(&mut self, fill: Option<Insertion>) {
        self.kept = fill.as_ref().map(|fill| Arc::clone(fill.busy_object()));
        self.fill = fill;
        for reader in &mut self.readers {
            reader.stored = self.kept.as_ref().and_then(BusyObject::reader);
        }
    }

    /// Everything has been received: appends the stored rest.
    pub(super) fn append_held(&mut self) {
        std::mem::take(&mut self.behind).into_iter().for_each(|bytes| self.push(bytes.into()));
    }

    /// Stores the received bytes as a part, if there is an insertion.
    pub fn keep_part(&mut self, part: Option<(PartInsertion, Box<[u8]>)>) {
        (self.part, self.part_metadata) = part.map(|(part, metadata)| (Box::new(part), metadata)).unzip();
    }

    /// Returns true if its readers can continue.
    pub fn can_continue(&self) -> bool {
        self.answer.is_some() || self.revalidation.is_some() || self.end.is_some()
    }

    /// Returns true if there are interim responses for `reader`; only the first reader gets them.
    pub fn has_interim(&self, reader: FlowReaderId) -> bool {
        reader.is_first() && !self.interim.is_empty()
    }

    /// Which received bytes may keep the memory that they are in, if they are perhaps the last. What is stored has memory of
    /// its own.
    pub fn sharing(&self, are_last: bool) -> Sharing {
        match (self.fill.is_some() || self.part.is_some(), are_last) {
            (true, _) => Sharing::Never,
            (false, true) => Sharing::AsLast,
            (false, false) => Sharing::IfFull,
        }
    }

    /// Appends received bytes of the body.
    pub fn append(&mut self, mut bytes: FlowBytes) {
        if let Some(fill) = &mut self.part {
            let own = bytes.into_own();
            fill.append(&own);
            bytes = own.into();
        }
        self.push(bytes);
    }

    fn push(&mut self, bytes: FlowBytes) {
        if self.revalidation.is_some() {
            return;
        }
        if let Some(fill) = &mut self.fill {
            return fill.append(bytes.into_own());
        }
        self.held_bytes += bytes.as_ref().len();
        self.parts.push_back(bytes);
        self.drop_read();
    }

    /// Reads the next stored bytes if all earlier ones were taken; `waker` is called when there are more.
    pub(super) fn pull(&mut self, waker: &Waker) {
        while let Some(source) = self.source.as_mut().filter(|_| self.parts.is_empty() && self.end.is_none())
        {
            let next = match source.front_mut() {
                None => return self.end = Some(End::Complete),
                Some(Stored::Bytes(bytes)) => Next::Bytes(Slice::whole(Arc::clone(bytes))),
                Some(Stored::Body(reader)) => reader.next(waker),
            };
            let is_over = matches!((&next, source.front()), (Next::End, _) | (_, Some(Stored::Bytes(_))));
            if is_over {
                source.pop_front();
            }
            match next {
                Next::Bytes(slice) => self.append(slice.into_bytes().into()),
                Next::Wait => return,
                Next::End => {}
                Next::Truncated => self.end = Some(End::Truncated),
            }
        }
    }

    /// Returns true if the next stored bytes may need a wait.
    pub(super) fn may_wait(&self) -> bool {
        let next = self.source.as_ref().and_then(VecDeque::front);
        matches!(next, Some(Stored::Body(reader)) if reader.may_wait())
    }

    /// Adds a reader, from the start of the body; `None` if that has been dropped.
    pub(super) fn add_reader(&mut self, token: u64) -> Option<FlowReaderId> {
        let stored = match &self.kept {
            Some(kept) => Some(kept.reader()?),
            None if self.parts_dropped > 0 => return None,
            None => None,
        };
        let id = FlowReaderId(self.readers_total);
        self.readers_total += 1;
        self.readers.push(FlowReader { id, token, stored, position: 0 });
        Some(id)
    }

    /// Marks it as started by the cache itself: all readers are coalesced requests.
    pub(super) fn begin_without_client(&mut self) {
        self.readers_total = 1;
    }

    /// Returns true if anyone reads it, or it is stored.
    pub(super) fn is_wanted(&self) -> bool {
        let is_for_disk = || self.is_for_disk && self.fill.as_ref().is_some_and(Insertion::is_wanted);
        !self.readers.is_empty() || self.is_shared || is_for_disk()
    }

    /// Drops parts that every reader has read.
    pub(super) fn drop_read(&mut self) {
        let end = self.parts_dropped + self.parts.len();
        let read = self.readers.iter().map(|reader| reader.position).min().unwrap_or(end);
        while self.parts_dropped < read {
            if self.drop_first().is_none() {
                break;
            }
        }
        if let Some((store, charge)) = &mut self.charge {
            store.set_charge(charge, self.held_bytes);
        }
    }

    fn drop_first(&mut self) -> Option<FlowBytes> {
        let part = self.parts.pop_front()?;
        self.held_bytes -= part.as_ref().len();
        self.parts_dropped += 1;
        Some(part)
    }

    /// Backpressure: returns true if receiving from the upstream must pause until clients have read more.
    pub fn is_full(&self) -> bool {
        let is_exhausted = self.charge.as_ref().is_some_and(|(store, _)| store.is_exhausted());
        self.held_bytes >= if is_exhausted { HELD_BYTES_MIN } else { HELD_BYTES_MAX }
    }

    /// The next bytes for this reader, if they have arrived.
    pub fn take(&mut self, reader: FlowReaderId) -> Option<FlowBytes> {
        let is_alone = self.readers.len() == 1;
        let reader = self.readers.iter_mut().find(|other| other.id == reader)?;
        if let Some(stored) = &mut reader.stored {
            // All readers are woken when more arrives.
            return match stored.next(Waker::noop()) {
                Next::Bytes(slice) => Some(FlowBytes::Slice(slice)),
                Next::Wait | Next::End | Next::Truncated => None,
            };
        }
        let unread = reader.position.checked_sub(self.parts_dropped)?;
        if unread >= self.parts.len() {
            return None;
        }
        reader.position += 1;
        let part = if is_alone && unread == 0 { self.drop_first()? } else { self.parts[unread].share() };
        self.drop_read();
        Some(part)
    }

    /// Takes the body of a response if all of it has arrived, in one piece, and its length was known: it needs no more
    /// than its head. `None` in it if there is no body.
    pub fn take_whole(&mut self, reader: FlowReaderId) -> Option<Option<FlowBytes>> {
        let is_plain = matches!(self.answer.as_ref()?.body, Body::Length(_) | Body::None);
        let is_here = self.end == Some(End::Complete) && self.kept.is_none() && self.source.is_none();
        let is_whole = self.parts_dropped == 0 && self.parts.len() <= 1;
        (is_plain && is_here && is_whole).then(|| self.take(reader))
    }

    /// Returns true if the next bytes for this reader have arrived.
    pub fn has_part(&self, reader: FlowReaderId) -> bool {
        let end = self.parts_dropped + self.parts.len();
        self.readers.iter().any(|other| {
            other.id == reader && other.stored.as_ref().map_or(other.position < end, Reader::is_ready)
        })
    }
}

impl FlowBytes {
    /// Takes the first `count` bytes of `input`, with their memory or as a copy.
    pub fn take(input: &mut Buffer, count: usize, sharing: Sharing) -> FlowBytes {
        if let Some(shared) = input.share(count, sharing) {
            return FlowBytes::Buffer(shared);
        }
        let copy: Arc<[u8]> = input.unread()[..count].into();
        input.consume(count);
        copy.into()
    }

    /// The same bytes for another reader.
    fn share(&mut self) -> FlowBytes {
        match self {
            FlowBytes::Slice(slice) => FlowBytes::Slice(slice.clone()),
            FlowBytes::Buffer(bytes) => FlowBytes::Buffer(bytes.share()),
        }
    }

    /// The bytes in memory that holds nothing else.
    fn into_own(self) -> Arc<[u8]> {
        match self {
            FlowBytes::Slice(slice) => slice.into_bytes(),
            FlowBytes::Buffer(bytes) => bytes.as_ref().into(),
        }
    }

    /// Returns their memory to the pool, if it came from there and nobody else needs it.
    pub fn recycle(self, pool: &mut Pool) {
        if let FlowBytes::Buffer(bytes) = self
            && let Some(memory) = bytes.into_memory()
        {
            pool.put(memory);
        }
    }

    pub fn into_piece(self) -> Piece {
        match self {
            FlowBytes::Slice(slice) => Piece::Memory(slice.into_bytes()),
            FlowBytes::Buffer(bytes) => Piece::Received(bytes),
        }
    }
}

impl AsRef<[u8]> for FlowBytes {
    fn as_ref(&self) -> &[u8] {
        match self {
            FlowBytes::Slice(slice) => slice.as_bytes(),
            FlowBytes::Buffer(bytes) => bytes.as_ref(),
        }
    }
}

impl From<Arc<[u8]>> for FlowBytes {
    fn from(bytes: Arc<[u8]>) -> FlowBytes {
        FlowBytes::Slice(Slice::whole(bytes))
    }
}

/// A request's body on its way to the upstream, already framed.
#[derive(Debug, Default)]
pub struct Upload {
    /// Received bytes that have not been sent yet.
    pub bytes: Vec<u8>,
    pub is_complete: bool,
    /// The upstream has sent 100 Continue, and the client has not been told.
    pub is_asked_for: bool,
    /// The body is buffered completely before the request is sent.
    pub is_gathered: bool,
    /// What it is counted for in the loop's total while it is buffered.
    pub(super) gathered: Option<GatheredBytes>,
}

/// Bytes that are counted in a total as long as this exists.
#[derive(Debug)]
pub(super) struct GatheredBytes {
    total: Arc<AtomicUsize>,
    bytes: usize,
}

impl GatheredBytes {
    pub fn new(total: &Arc<AtomicUsize>) -> GatheredBytes {
        GatheredBytes { total: Arc::clone(total), bytes: 0 }
    }

    /// Counts more bytes; false if the total would exceed `max`.
    pub fn add(&mut self, bytes: usize, max: usize) -> bool {
        // Only the loop's own thread changes it.
        if self.total.load(Ordering::Relaxed).saturating_add(bytes) > max {
            return false;
        }
        self.total.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        true
    }
}

impl Drop for GatheredBytes {
    fn drop(&mut self) {
        self.total.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Upload {
    /// Returns true if there is something to send, or the whole body was.
    pub fn can_continue(&self) -> bool {
        !self.bytes.is_empty() || self.is_complete
    }

    /// Backpressure: returns true if receiving from the client must pause until the upstream has accepted more.
    pub fn is_full(&self) -> bool {
        !self.is_gathered && self.bytes.len() >= HELD_BYTES_MAX
    }
}

/// The head of a request as it goes to an upstream.
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
