//! An object store: as much of S3 as reading objects needs, with every signature checked, and with the faults that a
//! test wants.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sojourn_s3::{Credentials, EMPTY_BODY, Scope, Signed, authorization};

use crate::upstream::{Peer, Upstream};

/// The access key that the store knows, and its secret.
pub const KEY: (&str, &str) = ("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");

pub const REGION: &str = "eu-test-1";

/// When every object was modified, until it is replaced.
const MODIFIED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

/// What the store does with requests for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Never answers.
    Hangs,
    /// Answers with this status.
    Fails(u16),
    /// Closes the connection after this many bytes of a body.
    Cuts(usize),
    /// Waits before each answer.
    Waits(Duration),
    /// Refuses every signature.
    RefusesSignatures,
    /// Sends the whole object whatever range was asked for.
    IgnoresRanges,
    /// Sends no validators and heeds no conditions.
    IgnoresConditions,
    /// Has a new version of the object for each request.
    Changes,
}

pub struct ObjectStore {
    upstream: Upstream,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// By path, as requested: percent-encoded, with the bucket.
    objects: Mutex<HashMap<String, Object>>,
    faults: Mutex<HashMap<String, Fault>>,
    is_signed: bool,
    sent_bytes: AtomicU64,
}

#[derive(Clone)]
struct Object {
    bytes: Arc<[u8]>,
    entity_tag: String,
    /// Further field lines.
    fields: String,
}

impl ObjectStore {
    /// A store that wants signatures.
    pub fn start() -> ObjectStore {
        ObjectStore::with(State { is_signed: true, ..State::default() })
    }

    /// One that ignores them.
    pub fn public() -> ObjectStore {
        ObjectStore::with(State::default())
    }

    fn with(state: State) -> ObjectStore {
        let state = Arc::new(state);
        let own = Arc::clone(&state);
        let upstream = Upstream::start(move |peer| while own.serve(peer).is_some() {});
        ObjectStore { upstream, state }
    }

    /// `http://ADDRESS`.
    pub fn url(&self) -> String {
        format!("http://{}", self.upstream.address)
    }

    pub fn address(&self) -> std::net::SocketAddr {
        self.upstream.address
    }

    /// Puts an object at `path`, which is percent-encoded and begins with the bucket, with these field lines.
    pub fn put(&self, path: &str, bytes: impl Into<Vec<u8>>, fields: &str) {
        let object =
            Object { bytes: bytes.into().into(), entity_tag: new_entity_tag(), fields: fields.to_owned() };
        self.state.objects.lock().unwrap().insert(path.to_owned(), object);
    }

    pub fn remove(&self, path: &str) {
        self.state.objects.lock().unwrap().remove(path);
    }

    /// From now on the store does this with requests for the object at `path`; with `None`, no more.
    pub fn set_fault(&self, path: &str, fault: Option<Fault>) {
        let mut faults = self.state.faults.lock().unwrap();
        match fault {
            Some(fault) => faults.insert(path.to_owned(), fault),
            None => faults.remove(path),
        };
    }

    pub fn connections(&self) -> usize {
        self.upstream.connections()
    }

    /// The heads of all requests.
    pub fn heads(&self) -> Vec<String> {
        self.upstream.heads()
    }

    /// Bytes of bodies sent.
    pub fn sent_bytes(&self) -> u64 {
        self.state.sent_bytes.load(Ordering::Relaxed)
    }
}

impl State {
    /// Answers one request; `None` at the end of the connection.
    fn serve(&self, peer: &mut Peer) -> Option<()> {
        let head = peer.head()?;
        let mut words = head.split(' ');
        let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
        let path = target.split('?').next()?;
        let fault = self.faults.lock().unwrap().get(path).copied();
        match fault {
            Some(Fault::Hangs) => {
                peer.is_closed();
                return None;
            }
            Some(Fault::Fails(status)) => {
                return self.error(peer, status, "InternalError");
            }
            Some(Fault::Waits(time)) => std::thread::sleep(time),
            _ => {}
        }
        if self.is_signed && (fault == Some(Fault::RefusesSignatures) || !is_signature_right(&head)) {
            let is_known = head.contains(&format!("Credential={}/", KEY.0));
            let code = if is_known { "SignatureDoesNotMatch" } else { "InvalidAccessKeyId" };
            // Stores repeat what they have made of the request.
            let body = format!(
                "<Error><Code>{code}</Code><Message>as scripted</Message>\
                <AWSAccessKeyId>{}</AWSAccessKeyId><CanonicalRequest>{head}</CanonicalRequest></Error>",
                KEY.0
            );
            return self.error_body(peer, 403, &body);
        }
        let Some(mut object) = self.objects.lock().unwrap().get(path).cloned() else {
            return self.error(peer, 404, "NoSuchKey");
        };
        if fault == Some(Fault::Changes) {
            object.entity_tag = new_entity_tag();
        }
        let is_plain = fault == Some(Fault::IgnoresConditions);
        let (tag, size) = (&object.entity_tag, object.bytes.len());
        if !is_plain {
            if field(&head, "if-match").is_some_and(|wanted| wanted != *tag) {
                return self.error(peer, 412, "PreconditionFailed");
            }
            if field(&head, "if-none-match").is_some_and(|known| known == *tag) {
                peer.send(format!("HTTP/1.1 304 Not Modified\r\nETag: {tag}\r\n\r\n").as_bytes());
                return Some(());
            }
        }
        let validators =
            if is_plain { String::new() } else { format!("ETag: {tag}\r\nLast-Modified: {MODIFIED}\r\n") };
        let fields = validators + &object.fields;
        let wanted = field(&head, "range").filter(|_| fault != Some(Fault::IgnoresRanges));
        let range = wanted.as_deref().and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
        let (status, first, end) = match range {
            None => ("200 OK".to_owned(), 0, size),
            Some((first, last)) => {
                let first: usize = first.parse().ok()?;
                if first >= size {
                    return self.error(peer, 416, "InvalidRange");
                }
                let end = last.parse::<usize>().map_or(size, |last| size.min(last + 1));
                (
                    format!("206 Partial Content\r\nContent-Range: bytes {first}-{}/{size}", end - 1),
                    first,
                    end,
                )
            }
        };
        let length = end - first;
        peer.send(format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{fields}\r\n").as_bytes());
        if method == "HEAD" {
            return Some(());
        }
        let body = &object.bytes[first..end];
        if let Some(Fault::Cuts(after)) =
            fault.filter(|fault| matches!(fault, Fault::Cuts(after) if *after < length))
        {
            peer.send(&body[..after]);
            return None;
        }
        // Counted as it is sent, so that what the other side refuses is not.
        for part in body.chunks(64 << 10) {
            if !peer.try_send(part) {
                return None;
            }
            self.sent_bytes.fetch_add(part.len() as u64, Ordering::Relaxed);
        }
        Some(())
    }

    fn error(&self, peer: &mut Peer, status: u16, code: &str) -> Option<()> {
        let body = format!(
            "<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>as scripted</Message></Error>"
        );
        self.error_body(peer, status, &body)
    }

    fn error_body(&self, peer: &mut Peer, status: u16, body: &str) -> Option<()> {
        let length = body.len();
        peer.send(format!("HTTP/1.1 {status} X\r\nContent-Type: application/xml\r\nContent-Length: {length}\r\n\r\n{body}").as_bytes());
        Some(())
    }
}

/// An entity tag that no version had before.
fn new_entity_tag() -> String {
    static VERSION: AtomicU64 = AtomicU64::new(1);
    format!("\"v{}\"", VERSION.fetch_add(1, Ordering::Relaxed))
}

/// The value of a field, without regard to case.
fn field(head: &str, name: &str) -> Option<String> {
    let lines = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    lines.filter(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().to_owned()).next()
}

/// Signs what was received and compares.
fn is_signature_right(head: &str) -> bool {
    let Some(claimed) = field(head, "authorization") else { return false };
    let Some((_, names)) = claimed.split_once("SignedHeaders=") else { return false };
    let names: Vec<&str> = names.split(',').next().unwrap_or_default().split(';').collect();
    let values: Vec<(&str, String)> =
        names.iter().filter_map(|name| Some((*name, field(head, name)?))).collect();
    let fields: Vec<(&str, &str)> = values.iter().map(|(name, value)| (*name, &**value)).collect();
    let mut words = head.split(' ');
    let (Some(method), Some(target), Some(date)) = (words.next(), words.next(), field(head, "x-amz-date"))
    else {
        return false;
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let token = field(head, "x-amz-security-token");
    let Ok(credentials) = Credentials::new(KEY.0, KEY.1, token.as_deref()) else { return false };
    let request = Signed { method, path, query, fields: &fields, payload_hash: EMPTY_BODY };
    let must_be_signed = |line: &str| {
        let name = line.split(':').next().unwrap_or_default().to_ascii_lowercase();
        name == "host" || name.starts_with("x-amz-")
    };
    let are_signed = head.lines().skip(1).filter(|line| must_be_signed(line)).all(|line| {
        let name = line.split(':').next().unwrap_or_default().to_ascii_lowercase();
        names.contains(&&*name)
    });
    date.len() == 16
        && are_signed
        && fields.len() == names.len()
        && authorization(&request, &date, Scope { region: REGION, service: "s3" }, &credentials) == claimed
}
