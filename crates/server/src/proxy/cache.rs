//! What a proxy keeps of answers, and what of that answers a request: the rules and the store brought together.

use std::sync::Arc;

use sojourn_http::request::{Body, Method, Request};
use sojourn_http::upstream::{self, Head};
use sojourn_proxy::rules::fields::Section;
use sojourn_proxy::rules::forward::Via;
use sojourn_proxy::rules::vary::secondary_key;
use sojourn_proxy::rules::{
    self, Answer, Metadata, Moments, Policy, RequestDirectives, Target, Use, invalidated, storable,
};
use sojourn_proxy::store::{Begun, Fill, Found, Key, Object, Settings, Sharing, Started, Store, Vary};

/// The cache of a proxy; all its loops share it.
#[derive(Clone, Debug)]
pub struct Cache {
    store: Store,
    policy: Policy,
}

/// What a cache says to a request.
#[derive(Debug)]
pub enum Verdict {
    /// Answer with this.
    Hit(Arc<Object>),
    /// Ask an upstream; the answer may be kept.
    Fill(Keyed),
    /// Ask an upstream for this client alone.
    Pass,
    /// The client wants an answer from the cache or none, and there is none.
    GatewayTimeout,
}

/// A request whose answer may be kept.
#[derive(Clone, Debug)]
pub struct Keyed {
    /// What it would be found by.
    pub key: Key<'static>,
    /// Whether the answer to another request for the same would do.
    pub may_join: bool,
    directives: RequestDirectives,
    /// What is there and cannot be used as it is.
    known: Option<Arc<Object>>,
}

impl Cache {
    /// An empty cache in memory.
    pub fn new(settings: Settings) -> Cache {
        Cache { store: Store::new(settings), policy: Policy::default() }
    }

    /// What to do with `request`, which came by `scheme` for `host`, at `now` in seconds since 1970.
    pub fn look_up(&self, request: &Request<'_>, scheme: &str, host: &[u8], now: i64) -> Verdict {
        if !matches!(request.method, Method::Get | Method::Head) || request.body != Body::Length(0) {
            return Verdict::Pass;
        }
        let text = Target { scheme, host, target: request.target }.key();
        let key = Key::new(&text);
        let directives = RequestDirectives::read(request.fields);
        let object = self.find(&key, request);
        let stored = object.as_ref().and_then(|object| Metadata::read(object.metadata()).ok());
        match rules::lookup(&directives, stored.as_ref(), now) {
            Use::GatewayTimeout => return Verdict::GatewayTimeout,
            Use::Forward => return Verdict::Pass,
            Use::Fresh | Use::Stale { allowed_by: rules::Allowance::Client } => {
                if let (Some(object), Some(stored)) = (&object, &stored) {
                    return match answer(request, stored, object.length()) {
                        Answer::Whole | Answer::NotModified => Verdict::Hit(Arc::clone(object)),
                        // The upstream sends parts.
                        Answer::Parts(_) | Answer::RangeNotSatisfiable => Verdict::Pass,
                    };
                }
            }
            _ => {}
        }
        // What would bring a part, or nothing but a status, is for this client alone.
        let is_plain = request.method == Method::Get
            && request.range.is_none()
            && request.conditions == Default::default();
        if !is_plain {
            return Verdict::Pass;
        }
        let may_join = directives == RequestDirectives::default() && request.field("authorization").is_none();
        Verdict::Fill(Keyed { key: key.into_owned(), may_join, directives, known: object })
    }

    /// Begins to keep the answer with this head to the request of `keyed`, which went out as `sent`; `None` if it must not
    /// be kept, or somebody else does.
    pub fn begin(
        &self,
        keyed: &Keyed,
        sent: &[u8],
        head: &Head<'_>,
        via: Via<'_>,
        moments: Moments,
    ) -> Option<Fill> {
        // Nobody can tell such a body from a part of it.
        if head.body == upstream::Body::UntilClose {
            return None;
        }
        let fields = sent.iter().position(|byte| *byte == b'\n').map_or(&[][..], |end| &sent[end + 1..]);
        let request = rules::Request {
            method: b"GET",
            fields: Section(fields),
            directives: keyed.directives,
            has_body: false,
        };
        let response = rules::Response { status: head.status, fields: Section(head.fields), moments, via };
        let metadata = storable(&request, &response, &self.policy).ok()?;
        let stored = Metadata::read(&metadata).ok()?;
        let vary = (!stored.vary.is_empty()).then(|| Vary {
            fields: vec![stored.vary.as_bytes().into()],
            secondary: stored.secondary_key.into(),
        });
        let length = match head.body {
            upstream::Body::Length(length) => Some(length),
            upstream::Body::None => Some(0),
            upstream::Body::Chunked | upstream::Body::UntilClose => None,
        };
        if length.is_some_and(|length| length > self.store.settings().memory_object_bytes_max) {
            return None;
        }
        match self.store.begin(&keyed.key, keyed.known.as_ref()) {
            Begun::Fill(mut fill) => {
                fill.start(Started { metadata, length, vary, sharing: Sharing::Stored });
                Some(fill)
            }
            Begun::Filling(_) | Begun::Hit(_) => None,
        }
    }

    /// Forgets what a request with `method` may have changed, now that it was answered.
    pub fn invalidate(&self, method: &[u8], target: &Target<'_>, status: u16, received: &[u8]) {
        for text in invalidated(method, target, status, Section(received)) {
            self.store.purge(&Key::new(&text));
        }
    }

    /// Bytes of the largest body that is kept.
    pub fn object_bytes_max(&self) -> u64 {
        self.store.settings().memory_object_bytes_max
    }

    fn find(&self, key: &Key<'_>, request: &Request<'_>) -> Option<Arc<Object>> {
        match self.store.lookup(key) {
            Found::Hit(object) => Some(object),
            Found::Varies(variants) => {
                let names = variants.fields.first().and_then(|names| std::str::from_utf8(names).ok())?;
                let secondary = secondary_key(names, Section(request.fields));
                match self.store.lookup(&key.variant(&secondary)) {
                    Found::Hit(object) => Some(object),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

/// What of the stored response answers `request`.
pub fn answer(request: &Request<'_>, stored: &Metadata<'_>, length: u64) -> Answer {
    let range = request.range.filter(|_| request.method == Method::Get);
    Answer::of(&request.conditions, range, stored, length)
}

/// Whether an answer that is being kept under `kept` answers `request` too.
pub fn fits(request: &Request<'_>, kept: &Fill) -> bool {
    let filling = kept.filling();
    let Some(started) = filling.started() else { return false };
    started.vary.as_ref().is_none_or(|vary| {
        let names = vary.fields.first().and_then(|names| std::str::from_utf8(names).ok());
        names.is_some_and(|names| secondary_key(names, Section(request.fields)) == *vary.secondary)
    })
}
