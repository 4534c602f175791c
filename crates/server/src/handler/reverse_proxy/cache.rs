//! Connects the caching rules with the store: answers a request from the cache, or prepares the request to an upstream.
//! For upstream responses see [`super::upstream_response`].

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::Poll;
use std::time::Duration;

use sojourn_cache_store::{
    Charge, DiskSettings, InsertOutcome, Key, Lookup, Object, Settings, Store, Variants,
};
use sojourn_http::condition::Conditions;
use sojourn_http::request::{Body, Method, Request};
use sojourn_http_cache::fields::Section;
use sojourn_http_cache::{
    Allowance, Forwarded, Metadata, Need, Policy, RequestDirectives, Target, Use, invalidated,
};

use super::cache_lookup::Kept;
use super::cache_miss::Generation;
use super::fetch_range::{answers, fetch_range, is_for_part};
use super::hit_for_miss::HitForMiss;
use super::purged_tags::PurgedTags;
use super::{CacheLookup, CacheMiss, Coalescing, DiskThreads, FetchRange, ForcedHits};
use crate::access_log::Outcome;

/// If no stored variant matches, at most so many are offered to the upstream for revalidation.
const VARIANTS_ASKED_ABOUT_MAX: usize = 8;

/// Longer entity tags are not offered.
const ENTITY_TAG_BYTES_ASKED_ABOUT_MAX: usize = 256;

/// A proxy's cache; all loops of a process share it.
#[derive(Clone, Debug)]
pub struct Cache {
    pub(super) store: Store,
    pub(super) policy: Policy,
    pub(super) purges: Arc<PurgedTags>,
    /// The number of URLs and keys purged by operators.
    pub(super) purged: Arc<AtomicU64>,
    pub(super) hit_for_miss: Arc<HitForMiss>,
    forced: Option<Arc<ForcedHits>>,
    is_private: bool,
}

/// The cache's decision about a request.
#[derive(Debug)]
pub enum Verdict {
    /// Answer with this object. If there is a miss too, revalidate it in the background.
    Hit(Arc<Object>, Option<CacheMiss>),
    /// Ask an upstream; the response may be stored.
    Fill(CacheMiss),
    /// Ask an upstream for this client only, with the reason for Cache-Status.
    Pass(Option<Forwarded>),
    /// Look again once the disk lookup has finished.
    Wait,
    /// 504: the client accepts only a cached response, and there is none.
    GatewayTimeout,
}

impl Verdict {
    /// The term for the access log; depends on whether the object was on disk.
    pub fn outcome(&self, was_on_disk: bool) -> Outcome {
        match self {
            Verdict::Hit(..) if was_on_disk => Outcome::DiskHit,
            Verdict::Hit(..) => Outcome::MemoryHit,
            Verdict::Fill(miss) if miss.why == Forwarded::Request => Outcome::ClientRefreshMiss,
            Verdict::Fill(_) | Verdict::Pass(_) | Verdict::GatewayTimeout => Outcome::Miss,
            Verdict::Wait => Outcome::Own,
        }
    }
}

impl Cache {
    /// An empty cache in memory.
    pub fn new(settings: Settings, policy: Policy) -> Cache {
        Cache::over(Store::new(settings), policy, PurgedTags::default())
    }

    /// A cache in memory and on disk, with what an earlier process stored on disk.
    pub fn open(settings: Settings, disk: DiskSettings, policy: Policy) -> io::Result<Cache> {
        let directory = disk.path.clone();
        let store = Store::open(settings, disk)?;
        Ok(Cache::over(store, policy, PurgedTags::open(&directory)?))
    }

    fn over(store: Store, policy: Policy, purges: PurgedTags) -> Cache {
        Cache {
            store,
            policy,
            purges: Arc::new(purges),
            purged: Arc::default(),
            hit_for_miss: Arc::default(),
            forced: None,
            is_private: false,
        }
    }

    /// Starts `count` disk threads. A request waits for them at most `timeout` and then continues without the disk.
    pub fn start_disk_threads(&self, count: usize, timeout: Duration) -> io::Result<DiskThreads> {
        DiskThreads::start(&self.store, count, timeout)
    }

    /// The same cache, but hits and misses are drawn at random, for experiments.
    pub fn with_forced_hits(self, forced: ForcedHits) -> Cache {
        Cache { forced: Some(Arc::new(forced)), ..self }
    }

    /// The same cache, but separate for every child process. The parent must not touch it, because children forked
    /// later would find it in use.
    pub fn private(self) -> Cache {
        Cache { is_private: true, ..self }
    }

    /// Returns true if every child process has its own.
    pub fn is_private(&self) -> bool {
        self.is_private
    }

    /// The same cache, as a surrogate: it belongs to the origin and obeys Surrogate-Control.
    pub fn as_surrogate(self) -> Cache {
        Cache { policy: Policy { is_surrogate: true, ..self.policy }, ..self }
    }

    pub fn is_surrogate(&self) -> bool {
        self.policy.is_surrogate
    }

    /// Returns true if a random draw rather than the rules decides about `request`.
    pub fn is_forced_hit(&self, request: &Request<'_>) -> bool {
        self.forced.is_some() && is_plain(request)
    }

    /// Decides about `request`, received by `scheme` for `host`, at `now` in seconds since 1970. `search` is the
    /// request's own lookup.
    pub fn look_up(
        &self,
        request: &Request<'_>,
        scheme: &str,
        host: &[u8],
        now: i64,
        search: &mut CacheLookup,
    ) -> Verdict {
        if !matches!(request.method, Method::Get | Method::Head) {
            return Verdict::Pass(Some(Forwarded::Method));
        }
        if request.body != Body::Length(0) {
            return Verdict::Pass(Some(Forwarded::Bypass));
        }
        let text = Target { scheme, host, target: request.target, spelling: self.policy.spelling() }.key();
        let key = Key::new(&text);
        let directives = RequestDirectives::read(request.fields);
        let Poll::Ready(mut kept) = search.find(&self.store, &key, request) else { return Verdict::Wait };
        kept.object = kept.object.filter(|object| !self.forget_if_purged(object));
        if let Some(forced) = self.forced.as_ref().filter(|_| is_plain(request)) {
            return self.drawn(forced.draw(), &key, request, directives, kept);
        }
        let parts = if kept.object.is_none() { self.parts_for(&key, request) } else { None };
        if let Some(parts) = parts.as_ref().filter(|parts| answers(parts, request, &directives, now)) {
            return Verdict::Hit(Arc::clone(parts), None);
        }
        let stored = kept.object.as_ref().and_then(|object| Metadata::read(object.metadata()).ok());
        let used = sojourn_http_cache::lookup(&directives, stored.as_ref(), now);
        let why = match used {
            Use::GatewayTimeout => return Verdict::GatewayTimeout,
            Use::Forward => return Verdict::Pass(Some(Forwarded::Bypass)),
            Use::Miss if parts.is_some() => Forwarded::Partial,
            Use::Miss if kept.variants.is_some() => Forwarded::VaryMiss,
            Use::Miss => Forwarded::UriMiss,
            Use::Revalidate(Need::Client) => Forwarded::Request,
            Use::Fresh | Use::Stale { .. } | Use::Revalidate(Need::Stale | Need::NoCache) => Forwarded::Stale,
        };
        let has_validator = stored.as_ref().is_some_and(Metadata::has_validator);
        let miss = || {
            let miss = self.miss(&key, request, directives, why, &kept, has_validator);
            CacheMiss { may_join: miss.may_join && !self.hit_for_miss.holds(&key, now), ..miss }
        };
        match (used, &kept.object) {
            (Use::Fresh | Use::Stale { allowed_by: Allowance::Client }, Some(object)) => {
                Verdict::Hit(Arc::clone(object), None)
            }
            (Use::Stale { .. }, Some(object)) if request.method == Method::Get => {
                Verdict::Hit(Arc::clone(object), Some(miss()))
            }
            // A HEAD brings no body that could replace the stored one, so it is forwarded if the client permits that.
            (Use::Stale { .. }, Some(object)) if directives.only_if_cached => {
                Verdict::Hit(Arc::clone(object), None)
            }
            (Use::Miss, None) if is_plain(request) || is_for_part(request) => {
                let fetch_range = fetch_range(parts.as_ref(), request, &directives, now);
                Verdict::Fill(CacheMiss { fetch_range, ..miss() })
            }
            _ if may_fill(request, kept.object.is_some(), has_validator) => Verdict::Fill(miss()),
            _ => Verdict::Pass(Some(why)),
        }
    }

    /// Decides which request fetches the object; others are coalesced with it.
    pub fn claim(&self, miss: &CacheMiss) -> Coalescing {
        if let Some(busy_object) = &miss.busy_object {
            return Coalescing::Follow(Arc::clone(busy_object));
        }
        match self.store.begin(&miss.key, miss.known.as_ref()) {
            InsertOutcome::Insert(fill) => Coalescing::Lead(fill),
            InsertOutcome::Busy(busy_object) => Coalescing::Follow(busy_object),
            InsertOutcome::Hit(_) => Coalescing::Alone,
        }
    }

    /// The forced decision (`--force-hit-ratio`) about a request for which `kept` is stored.
    fn drawn(
        &self,
        is_hit: bool,
        key: &Key<'_>,
        request: &Request<'_>,
        directives: RequestDirectives,
        kept: Kept,
    ) -> Verdict {
        match kept.object.clone() {
            Some(object) if is_hit => Verdict::Hit(object, None),
            object => {
                let why = if object.is_some() { Forwarded::Bypass } else { Forwarded::UriMiss };
                let known = Kept { object, ..Kept::default() };
                // Every miss makes a request of its own for the whole object.
                let miss = self.miss(key, request, directives, why, &known, false);
                Verdict::Fill(CacheMiss { may_join: false, ..miss })
            }
        }
    }

    fn miss(
        &self,
        key: &Key<'_>,
        request: &Request<'_>,
        directives: RequestDirectives,
        why: Forwarded,
        kept: &Kept,
        has_validator: bool,
    ) -> CacheMiss {
        let is_get = request.method == Method::Get;
        let is_for_anybody = directives == RequestDirectives::default();
        let about = match (&kept.object, &kept.variants) {
            _ if !is_get => Vec::new(),
            (Some(object), _) if has_validator => vec![Arc::clone(object)],
            (None, Some(variants)) => self.tagged(key, variants),
            _ => Vec::new(),
        };
        CacheMiss {
            key: key.clone().into_owned(),
            generation: self.generation(key),
            may_join: is_get
                && is_for_anybody
                && request.range.is_none()
                && request.field("authorization").is_none(),
            why,
            fetch_range: FetchRange::Whole,
            directives,
            known: kept.object.clone(),
            busy_object: kept.busy_object.clone(),
            variants: kept.variants.clone(),
            about,
        }
    }

    /// The purges so far, for a request that is about to be sent.
    pub(super) fn generation(&self, key: &Key<'_>) -> Generation {
        Generation { key: self.store.generation(key), tags: self.purges.count() }
    }

    /// Invalidates what a successful request with `method` may have changed.
    pub fn invalidate(&self, method: &[u8], target: &Target<'_>, status: u16, received: &[u8]) {
        for text in invalidated(method, target, status, Section(received)) {
            self.store.purge(&Key::new(&text));
        }
    }

    /// The best form of the object for sending; its body must be in memory.
    pub fn for_sending(&self, object: &Arc<Object>) -> Arc<Object> {
        self.store.for_sending(object)
    }

    /// A charge on the memory budget for bytes in transit, with the store.
    pub(super) fn charge(&self) -> (Store, Charge) {
        (self.store.clone(), self.store.charge())
    }

    /// The object at `key`, if it is in memory; revalidation of variants does not wait for the disk.
    pub(super) fn held(&self, key: &Key<'_>) -> Option<Arc<Object>> {
        match self.store.lookup_in_memory(key) {
            Lookup::Hit(object) => Some(object),
            _ => None,
        }
    }

    /// The latest variants that have usable entity tags.
    fn tagged(&self, key: &Key<'_>, variants: &Variants) -> Vec<Arc<Object>> {
        let is_tagged = |object: &Arc<Object>| {
            let stored = Metadata::read(object.metadata());
            let is_usable = |length| (1..=ENTITY_TAG_BYTES_ASKED_ABOUT_MAX).contains(&length);
            stored.is_ok_and(|it| is_usable(it.entity_tag.len()) && !self.purges.is_purged(&it))
        };
        let latest = variants.keys(key).take(VARIANTS_ASKED_ABOUT_MAX);
        latest.filter_map(|key| self.held(&key)).filter(is_tagged).collect()
    }
}

/// Returns true for an unconditional request for the whole object.
fn is_plain(request: &Request<'_>) -> bool {
    request.method == Method::Get
        && request.body == Body::Length(0)
        && request.range.is_none()
        && request.conditions == Conditions::default()
}

/// Returns true if the whole object may be requested in order to store it.
fn may_fill(request: &Request<'_>, is_stored: bool, has_validator: bool) -> bool {
    // A request with range or conditions is forwarded for this client only, unless a stored response exists by which it
    // can be judged.
    let is_judged_here = is_stored && (request.range.is_none() || has_validator);
    match request.method {
        Method::Get => is_plain(request) || is_judged_here,
        // It is forwarded unchanged, but its response may update the stored one.
        _ => is_stored,
    }
}
