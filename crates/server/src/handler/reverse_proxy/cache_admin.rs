//! Cache operations on the admin listener: purging, inspection, counters.

use std::io;
use std::sync::atomic::Ordering;
use std::time::UNIX_EPOCH;

use http::Uri;
use serde_json::{Value, json};
use sojourn_cache_store::{Key, Lookup, Object, ObjectInfo, StoredRanges};
use sojourn_http::Status;
use sojourn_http::head::field_lines;
use sojourn_http::request::{Method, Request, Scheme};
use sojourn_http_cache::Spelling;
use sojourn_http_cache::{Metadata, Target};

use super::Cache;
use super::purged_tags::is_tag;
use crate::counters::{Counter, Served};

impl Cache {
    /// Adds the cache's counters to the table.
    pub fn report(&self, served: &mut Served) {
        use Counter as C;
        let memory = self.store.memory_counts();
        let disk = self.store.disk_counts().unwrap_or_default();
        let counts = [
            (C::CacheMemoryBytes, memory.bytes),
            (C::CacheMemoryObjects, memory.objects),
            (C::CacheMemoryEvictions, memory.evictions),
            (C::CacheMemoryRefused, memory.refused),
            (C::CacheDiskBytes, disk.bytes),
            (C::CacheDiskObjects, disk.objects),
            (C::CacheDiskIndexed, u64::from(disk.is_indexed)),
            (C::CacheDiskWritten, disk.written),
            (C::CacheDiskEvictions, disk.evictions),
            (C::CacheDiskRefused, disk.refused),
            (C::CacheDiskWriteFailures, disk.write_failures),
            (C::CacheDiskReadFailures, disk.read_failures),
            (C::CacheDiskDamaged, disk.damaged),
            (C::CacheDiskJobs, disk.jobs),
            (C::CachePurges, self.purged.load(Ordering::Relaxed)),
        ];
        for (counter, count) in counts {
            served.set(counter, count);
        }
    }

    /// Removes the object at `key` and its variants; true if there was one.
    pub fn purge(&self, key: &Key<'_>) -> bool {
        self.purged.fetch_add(1, Ordering::Relaxed);
        self.store.purge(key)
    }

    /// Purges everything that has one of these `tags` and was stored until `now`. After a disk error the purge is lost
    /// when this process ends.
    ///
    /// # Errors
    /// If a tag is invalid.
    pub fn purge_tags(&self, tags: &[&[u8]], now: i64) -> Result<io::Result<()>, String> {
        if tags.is_empty() || !tags.iter().all(|tag| is_tag(tag)) {
            return Err("a surrogate key is a word of at most 1024 bytes, without commas".to_owned());
        }
        self.purged.fetch_add(tags.len() as u64, Ordering::Relaxed);
        Ok(tags.iter().map(|tag| self.purges.purge(tag, now)).fold(Ok(()), Result::and))
    }

    /// Returns true if a tag of this object was purged after it was stored.
    pub fn is_purged(&self, stored: &Metadata<'_>) -> bool {
        self.purges.is_purged(stored)
    }

    /// Describes the object at `key`; waits for the disk.
    pub fn inspect(&self, key: &Key<'_>) -> Option<ObjectInfo> {
        self.store.inspect(key)
    }

    /// Describes the stored parts of an incomplete object at `key`.
    pub fn inspect_parts(&self, key: &Key<'_>) -> Option<ObjectInfo> {
        let object = self.store.inspect_parts(key)?;
        let body_bytes = object.length();
        Some(ObjectInfo { object, body_bytes, is_in_memory: true, is_on_disk: false })
    }

    pub(super) fn forget_if_purged(&self, object: &Object) -> bool {
        let is_purged = self.purges.has_any()
            && Metadata::read(object.metadata()).is_ok_and(|stored| self.is_purged(&stored));
        if is_purged {
            self.store.purge_object(object);
        }
        is_purged
    }
}

/// The response to `request`, if it is about the cache.
pub fn operate(request: &Request<'_>, cache: &Cache) -> Option<(Status, Value)> {
    let method = request.line.split(|byte| *byte == b' ').next().unwrap_or_default();
    let (path, query) = match request.target.iter().position(|byte| *byte == b'?') {
        Some(at) => (&request.target[..at], &request.target[at + 1..]),
        None => (request.target, &b""[..]),
    };
    let is_to_forget = method == b"PURGE" || (method == b"POST" && path == b"/purge");
    if is_to_forget && request.field("origin").is_some() {
        // A web page in a browser sent this; operators do not use one.
        return Some((Status::Forbidden, json!({ "error": "not allowed from web pages" })));
    }
    let is_about_cache = is_to_forget || path == b"/cache/object";
    if is_about_cache && cache.is_private() {
        let problem = "each process has its own cache, which only its own clients reach";
        return Some((Status::NotImplemented, json!({ "error": problem })));
    }
    let outcome = match (method, path) {
        (b"PURGE", _) => url_of(request).map(|url| purge(cache, &url)),
        (b"POST", b"/purge") => match query.strip_prefix(b"key=") {
            Some(tags) => purge_tags(cache, &decoded(tags)),
            None => url_in(query).map(|url| purge(cache, &url)),
        },
        _ if request.method == Method::Get && path == b"/cache/object" => {
            url_in(query).map(|url| inspect(cache, &url))
        }
        _ => return None,
    };
    Some(outcome.unwrap_or_else(|problem| (Status::BadRequest, json!({ "error": problem }))))
}

/// The URL in the request's target.
fn url_of(request: &Request<'_>) -> Result<Vec<u8>, String> {
    match (request.scheme, request.host) {
        (Some(scheme), Some(host)) => {
            let scheme: &[u8] = if scheme == Scheme::Https { b"https://" } else { b"http://" };
            Ok([scheme, host, request.target].concat())
        }
        _ => Err("PURGE needs a whole URL as its target: curl -x http://ADMIN -X PURGE URL".to_owned()),
    }
}

/// The URL in a query: everything after `url=`, plain or percent-encoded.
fn url_in(query: &[u8]) -> Result<Vec<u8>, String> {
    let url = query.strip_prefix(b"url=").ok_or("the query must be url=URL")?;
    let is_plain = url.starts_with(b"http://") || url.starts_with(b"https://");
    Ok(if is_plain { url.to_vec() } else { decoded(url) })
}

fn key_of(url: &[u8], spelling: Spelling) -> Result<Vec<u8>, String> {
    let uri = Uri::try_from(url).map_err(|error| format!("{}: {error}", String::from_utf8_lossy(url)))?;
    match (uri.scheme_str(), uri.authority()) {
        (Some(scheme @ ("http" | "https")), Some(host)) => {
            let target = uri.path_and_query().map_or("/", |target| target.as_str());
            let host = host.as_str().as_bytes();
            Ok(Target { scheme, host, target: target.as_bytes(), spelling }.key())
        }
        _ => Err("write a URL such as http://www.example.org/path?query".to_owned()),
    }
}

/// Removes the objects of a URL with all variants.
fn purge(cache: &Cache, url: &[u8]) -> (Status, Value) {
    match key_of(url, cache.policy.spelling()) {
        Ok(key) => {
            let was_there = cache.purge(&Key::new(&key));
            (Status::Ok, json!({ "url": String::from_utf8_lossy(&key), "was_stored": was_there }))
        }
        Err(problem) => (Status::BadRequest, json!({ "error": problem })),
    }
}

fn purge_tags(cache: &Cache, tags: &[u8]) -> Result<(Status, Value), String> {
    let tags: Vec<&[u8]> = tags.split(|byte| *byte == b' ').filter(|tag| !tag.is_empty()).collect();
    if let Err(error) = cache.purge_tags(&tags, now())? {
        let problem = format!("it lasts only until the next start, because it cannot be saved: {error}");
        return Ok((Status::InternalServerError, json!({ "error": problem })));
    }
    let tags: Vec<_> = tags.into_iter().map(String::from_utf8_lossy).collect();
    Ok((Status::Ok, json!({ "keys": tags })))
}

/// Describes the objects of a URL.
fn inspect(cache: &Cache, url: &[u8]) -> (Status, Value) {
    let key = match key_of(url, cache.policy.spelling()) {
        Ok(key) => key,
        Err(problem) => return (Status::BadRequest, json!({ "error": problem })),
    };
    let primary = Key::new(&key);
    let stored = match cache.inspect(&primary) {
        None => Vec::new(),
        Some(inspected) => match Lookup::of(inspected.object.clone()) {
            Lookup::Varies(variants) => {
                variants.keys(&primary).filter_map(|key| cache.inspect(&key)).collect()
            }
            _ => vec![inspected],
        },
    };
    let parts = cache.inspect_parts(&primary);
    let variants: Vec<Value> =
        stored.iter().chain(&parts).filter_map(|stored| describe(cache, stored)).collect();
    let status = if variants.is_empty() { Status::NotFound } else { Status::Ok };
    (status, json!({ "url": String::from_utf8_lossy(&key), "variants": variants }))
}

fn describe(
    cache: &Cache,
    ObjectInfo { object, body_bytes, is_in_memory, is_on_disk }: &ObjectInfo,
) -> Option<Value> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let stored = Metadata::read(object.metadata()).ok()?;
    let fields: Vec<_> = field_lines(stored.fields).map(|(name, value)| (text(name), text(value))).collect();
    let parts = object.stored_ranges().map(|held| {
        let ends = held.ranges().iter().map(|part| [part.first, part.last]);
        ends.collect::<Vec<_>>()
    });
    Some(json!({
        "status": stored.status,
        "fields": fields,
        "body_bytes": body_bytes,
        "parts": parts,
        "whole_bytes": object.stored_ranges().map_or(*body_bytes, StoredRanges::whole_bytes),
        "is_in_memory": is_in_memory,
        "is_on_disk": is_on_disk,
        "is_purged": cache.is_purged(&stored),
        "stored_seconds": stored.response_time,
        "age_seconds": stored.age(now()),
        "fresh_seconds_left": stored.freshness(now()),
        "lifetime_is_guessed": stored.is_heuristic,
        "entity_tag": text(stored.entity_tag),
        "varies_by": stored.vary,
        "secondary_key": text(stored.secondary_key),
    }))
}

fn now() -> i64 {
    UNIX_EPOCH.elapsed().unwrap_or_default().as_secs() as i64
}

/// Percent-decodes `text`; `+` is a space.
fn decoded(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| str::from_utf8(digits).ok());
        let escaped =
            digits.filter(|_| *first == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(escaped.unwrap_or(if *first == b'+' { b' ' } else { *first }));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_in_queries() {
        let url = |query: &str| url_in(query.as_bytes()).map(|url| String::from_utf8(url).unwrap());
        assert_eq!(url("url=http://h/a%20b?c=d&e").unwrap(), "http://h/a%20b?c=d&e");
        assert_eq!(url("url=http%3A%2F%2Fh%2Fa%2520b%3Fc").unwrap(), "http://h/a%20b?c");
        assert!(url("uri=http://h/").is_err());
        assert_eq!(decoded(b"a+b%2C%zz%"), b"a b,%zz%");
    }

    #[test]
    fn keys_are_those_of_requests() {
        let key = |url: &str| {
            key_of(url.as_bytes(), Spelling::Normalised).map(|key| String::from_utf8(key).unwrap())
        };
        assert_eq!(key("http://H:80/a%7eb?X").unwrap(), "http://h/a~b?X");
        assert_eq!(key("https://h").unwrap(), "https://h/");
        assert!(key("ftp://h/").is_err() && key("/a").is_err() && key("http://h/ x").is_err());
    }
}
