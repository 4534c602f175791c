//! Parses one response incrementally. Pure: knows no socket and no clock.
//!
//! It parses only the head. If the body's length is known, the caller may discard bytes in the kernel and only report
//! how many ([`ResponseReader::discarded`]), which makes large bodies cheap to receive.

use ring::digest::{Context, SHA256};
use sojourn_http::chunked::Chunked;
use sojourn_http::response::{self, Head, Parsed};

use crate::http::cause::Cause;

/// The SHA-256 of a body.
pub type Digest = [u8; 32];

#[derive(Default)]
pub struct ResponseReader {
    state: State,
    /// The head so far, if it arrives in pieces.
    partial: Vec<u8>,
    /// True if there is no body whatever the head says.
    bodiless: bool,
    /// The hash of the body so far, if bodies are verified.
    content: Option<Context>,
    kept: Option<Vec<u8>>,
    /// Longer bodies are refused rather than kept.
    kept_bytes_max: usize,
    kept_head: Option<Vec<u8>>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Head,
    Sized(Head, Body),
    Chunked(Head, Chunked),
    UntilClose(Head, Body),
}

#[derive(Clone, Copy, Debug, Default)]
struct Body {
    received: u64,
    expected: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    More,
    Complete(Response),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    pub body_bytes: u64,
    /// True if the server keeps the connection open.
    pub keep_alive: bool,
}

impl ResponseReader {
    /// A reader that hashes bodies if `digests`.
    pub fn new(digests: bool) -> ResponseReader {
        ResponseReader { content: digests.then(|| Context::new(&SHA256)), ..ResponseReader::default() }
    }

    /// A reader that can keep bodies of at most `bytes_max`, as [`ResponseReader::reset_keeping`] requests.
    pub fn keeping(bytes_max: usize) -> ResponseReader {
        ResponseReader { kept_bytes_max: bytes_max, ..ResponseReader::default() }
    }

    /// Prepares for the next response, and keeps its body if `keeps`.
    pub fn reset_keeping(&mut self, keeps: bool) {
        self.reset(false);
        self.kept = keeps.then(Vec::new);
    }

    /// Prepares for the next response, whose head is kept, and whose body is kept if `keeps`.
    pub fn reset_keeping_head(&mut self, bodiless: bool, keeps: bool) {
        self.reset(bodiless);
        self.kept = keeps.then(Vec::new);
        self.kept_head = Some(Vec::new());
    }

    pub fn take_kept_head(&mut self) -> Vec<u8> {
        self.kept_head.take().unwrap_or_default()
    }

    pub fn take_kept(&mut self) -> Vec<u8> {
        self.kept.take().unwrap_or_default()
    }

    /// Prepares for the next response; `bodiless` for one to HEAD.
    pub fn reset(&mut self, bodiless: bool) {
        self.state = State::Head;
        self.partial.clear();
        self.bodiless = bodiless;
        if self.content.is_some() {
            self.content = Some(Context::new(&SHA256));
        }
    }

    /// Consumes bytes; returns how many belong to this response, fewer than given only if it is complete. After an
    /// error the connection is unusable.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(usize, Progress), Cause> {
        match &mut self.state {
            State::Head if self.partial.is_empty() => self.head(bytes),
            State::Head => {
                let mut whole = std::mem::take(&mut self.partial);
                let before = whole.len();
                whole.extend_from_slice(bytes);
                self.head(&whole).map(|(used, progress)| (used - before, progress))
            }
            _ => self.body(bytes),
        }
    }

    /// The digest of the body so far, if bodies are hashed.
    pub fn digest(&self) -> Option<Digest> {
        self.content.clone()?.finish().as_ref().try_into().ok()
    }

    /// The remaining bytes of the body, if they are known and not needed.
    pub fn discardable(&self) -> Option<u64> {
        match &self.state {
            State::Sized(_, body) if self.content.is_none() && self.kept.is_none() => {
                Some(body.expected - body.received)
            }
            _ => None,
        }
    }

    /// Records that body bytes were received and discarded, at most [`ResponseReader::discardable`].
    pub fn discarded(&mut self, bytes: u64) -> Progress {
        let State::Sized(head, body) = &mut self.state else {
            unreachable!("only a body of known length is discarded");
        };
        body.received += bytes;
        debug_assert!(body.received <= body.expected);
        sized_progress(head, body)
    }

    /// Returns true once any byte of the response has been received.
    pub fn has_begun(&self) -> bool {
        !matches!(self.state, State::Head) || !self.partial.is_empty()
    }

    /// The server closed the connection: that completes some bodies and truncates others.
    pub fn end(&self) -> Result<Response, Cause> {
        match &self.state {
            State::UntilClose(head, body) => {
                Ok(Response { status: head.status, body_bytes: body.received, keep_alive: false })
            }
            _ => Err(Cause::ClosedEarly),
        }
    }

    fn head(&mut self, bytes: &[u8]) -> Result<(usize, Progress), Cause> {
        let mut at = 0;
        loop {
            match response::parse(&bytes[at..]) {
                Err(_) => return Err(Cause::BadResponse),
                Ok(Parsed::Partial) => {
                    self.partial.extend_from_slice(&bytes[at..]);
                    return Ok((bytes.len(), Progress::More));
                }
                // RFC 9110, 15.2: interim responses precede the final one.
                Ok(Parsed::Complete(head)) if head.status < 200 => at += head.head_len,
                Ok(Parsed::Complete(head)) => {
                    if let Some(kept) = &mut self.kept_head {
                        kept.extend_from_slice(&bytes[at..at + head.head_len]);
                    }
                    self.state = framing(head, self.bodiless);
                    at += head.head_len;
                    return self.body(&bytes[at..]).map(|(used, progress)| (at + used, progress));
                }
            }
        }
    }

    fn body(&mut self, bytes: &[u8]) -> Result<(usize, Progress), Cause> {
        let available = bytes.len() as u64;
        let mut look = |data: &[u8]| {
            if let Some(content) = &mut self.content {
                content.update(data);
            }
            if let Some(kept) = &mut self.kept {
                // One byte too many shows that it is too long.
                let room = (self.kept_bytes_max + 1).saturating_sub(kept.len());
                kept.extend_from_slice(&data[..data.len().min(room)]);
            }
        };
        let taken = match &mut self.state {
            State::Head => unreachable!("the head is in"),
            State::Sized(head, body) => {
                let used = available.min(body.expected - body.received);
                body.received += used;
                look(&bytes[..used as usize]);
                Ok((used as usize, sized_progress(head, body)))
            }
            State::Chunked(head, chunked) => {
                let used = chunked.decode(bytes, look).map_err(|_| Cause::BadResponse)?;
                let (status, keep_alive) = (head.status, head.keep_alive);
                let response = Response { status, body_bytes: chunked.body_bytes(), keep_alive };
                Ok((used, if chunked.is_done() { Progress::Complete(response) } else { Progress::More }))
            }
            State::UntilClose(_, body) => {
                body.received += available;
                look(bytes);
                Ok((bytes.len(), Progress::More))
            }
        };
        let is_too_long = self.kept.as_ref().is_some_and(|kept| kept.len() > self.kept_bytes_max);
        if is_too_long { Err(Cause::BodyTooLong) } else { taken }
    }
}

/// The end of the body, by RFC 9112, 6.3.
fn framing(head: Head, bodiless: bool) -> State {
    match (head.status, head.content_length) {
        _ if bodiless => State::Sized(head, Body::default()),
        (204 | 304, _) => State::Sized(head, Body::default()),
        _ if head.chunked => State::Chunked(head, Chunked::default()),
        (_, Some(expected)) => State::Sized(head, Body { received: 0, expected }),
        (_, None) => State::UntilClose(head, Body::default()),
    }
}

fn sized_progress(head: &Head, body: &Body) -> Progress {
    if body.received < body.expected {
        return Progress::More;
    }
    Progress::Complete(Response {
        status: head.status,
        body_bytes: body.received,
        keep_alive: head.keep_alive,
    })
}

#[cfg(test)]
mod tests;
