//! The cookies of one virtual user (RFC 6265).
//!
//! A run loads one host, so cookies of other hosts are refused and no list of public suffixes is needed. That list
//! makes the available cookie crates heavier than this whole module.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::http::cookie_date;

/// The most cookies per user; the oldest is dropped for another.
pub const COOKIES_MAX: usize = 180;
/// A longer `Set-Cookie` is ignored, as by browsers.
pub const COOKIE_BYTES_MAX: usize = 4096;

/// The server's properties that cookies depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CookieHost {
    /// Its host name in lower case, without a port.
    name: String,
    /// True for TLS and for this machine, as in browsers.
    is_secure: bool,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(transparent)]
pub struct CookieJar {
    /// Oldest first.
    cookies: Vec<Cookie>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Cookie {
    name: String,
    value: String,
    path: String,
    is_secure: bool,
    /// When it expires; `None` for a session cookie.
    expires: Option<SystemTime>,
}

/// The attributes of a cookie that matter here.
#[derive(Default)]
struct Attributes<'a> {
    path: Option<&'a str>,
    domain: Option<&'a str>,
    is_secure: bool,
    max_age: Option<i64>,
    expires: Option<SystemTime>,
}

impl CookieHost {
    /// The host of a Host field.
    pub fn new(host: &str, is_tls: bool) -> CookieHost {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        };
        let name = name.to_ascii_lowercase();
        let is_local = name == "localhost" || name.ends_with(".localhost") || name.starts_with("127.");
        CookieHost { is_secure: is_tls || is_local || name == "[::1]", name }
    }

    /// RFC 6265, 5.1.3: the host equals the domain or is below it; an IP address is below nothing.
    fn matches(&self, domain: &str) -> bool {
        let domain = domain.trim_start_matches('.').to_ascii_lowercase();
        let is_address = self.name.starts_with('[') || self.name.parse::<std::net::Ipv4Addr>().is_ok();
        let below = self.name.strip_suffix(&domain).is_some_and(|sub| sub.ends_with('.'));
        self.name == domain || (below && !is_address && domain.contains('.'))
    }
}

impl CookieJar {
    /// Stores the cookie of a `Set-Cookie` field in the response to a request for `path`.
    pub fn set(&mut self, field: &[u8], host: &CookieHost, path: &str, now: SystemTime) {
        let Some(field) = std::str::from_utf8(field).ok().filter(|field| is_acceptable(field)) else {
            return;
        };
        let (pair, attributes) = field.split_once(';').unwrap_or((field, ""));
        let Some((name, value)) = pair.split_once('=') else { return };
        let (name, value) = (name.trim(), value.trim());
        let found = Attributes::parse(attributes);
        let is_foreign = found.domain.is_some_and(|domain| !domain.is_empty() && !host.matches(domain));
        if name.is_empty() || is_foreign || (found.is_secure && !host.is_secure) {
            return;
        }
        let path = match found.path {
            Some(path) if path.starts_with('/') => path,
            _ => default_path(path),
        };
        // RFC 6265bis, 4.1.3: prefixes of names.
        let is_hosts = name.starts_with("__Host-");
        let breaks_promise = (name.starts_with("__Secure-") || is_hosts) && !found.is_secure
            || is_hosts && (path != "/" || found.domain.is_some_and(|domain| !domain.is_empty()));
        if breaks_promise {
            return;
        }
        self.cookies.retain(|cookie| cookie.name != name || cookie.path != path);
        let expires = match found.max_age {
            Some(seconds) if seconds <= 0 => Some(UNIX_EPOCH),
            // Beyond the clock's range: never expires.
            Some(seconds) => now.checked_add(Duration::from_secs(seconds as u64)),
            None => found.expires,
        };
        if expires.is_some_and(|expires| expires <= now) {
            return;
        }
        if self.cookies.len() >= COOKIES_MAX {
            self.cookies.remove(0);
        }
        self.cookies.push(Cookie {
            name: name.to_owned(),
            value: value.to_owned(),
            path: path.to_owned(),
            is_secure: found.is_secure,
            expires,
        });
    }

    /// Writes the `Cookie` field of a request for `path`, if any cookie matches.
    pub fn write(&self, output: &mut Vec<u8>, host: &CookieHost, path: &str, now: SystemTime) {
        let mut fitting: Vec<&Cookie> =
            self.cookies.iter().filter(|cookie| cookie.is_for(host, path, now)).collect();
        // RFC 6265, 5.4: longer paths first, then older cookies; the sort is stable.
        fitting.sort_by_key(|cookie| std::cmp::Reverse(cookie.path.len()));
        for (number, cookie) in fitting.iter().enumerate() {
            output.extend_from_slice(if number == 0 { b"Cookie: " } else { b"; " });
            output.extend_from_slice(cookie.name.as_bytes());
            output.push(b'=');
            output.extend_from_slice(cookie.value.as_bytes());
        }
        if !fitting.is_empty() {
            output.extend_from_slice(b"\r\n");
        }
    }

    /// The value of a cookie, whatever its path.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.cookies.iter().rev().find(|cookie| cookie.name == name).map(|cookie| cookie.value.as_str())
    }
}

impl Cookie {
    fn is_for(&self, host: &CookieHost, path: &str, now: SystemTime) -> bool {
        let path = path.split('?').next().unwrap_or_default();
        // RFC 6265, 5.1.4.
        let is_below = path
            .strip_prefix(&self.path)
            .is_some_and(|rest| rest.is_empty() || self.path.ends_with('/') || rest.starts_with('/'));
        is_below && (host.is_secure || !self.is_secure) && self.expires.is_none_or(|expires| expires > now)
    }
}

impl<'a> Attributes<'a> {
    fn parse(text: &'a str) -> Attributes<'a> {
        let mut found = Attributes::default();
        for attribute in text.split(';') {
            let (name, value) = attribute.split_once('=').unwrap_or((attribute, ""));
            let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
            match name.as_str() {
                "path" => found.path = Some(value),
                "domain" => found.domain = Some(value),
                "secure" => found.is_secure = true,
                "max-age" => found.max_age = max_age(value).or(found.max_age),
                "expires" => found.expires = cookie_date::parse(value).or(found.expires),
                _ => {}
            }
        }
        found
    }
}

/// RFC 6265, 5.2.2: digits with an optional minus; numbers that are too large become the largest.
fn max_age(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(if text.starts_with('-') { 0 } else { i64::MAX }))
}

/// RFC 6265, 5.1.4: the directory of the requested path.
fn default_path(path: &str) -> &str {
    let path = path.split('?').next().unwrap_or_default();
    match path.rfind('/') {
        Some(end) if end > 0 => &path[..end],
        _ => "/",
    }
}

/// Control characters would end the field in which the cookie is sent back.
fn is_acceptable(field: &str) -> bool {
    field.len() <= COOKIE_BYTES_MAX && !field.bytes().any(|byte| byte < b' ' && byte != b'\t' || byte == 0x7f)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1_700_000_000);

    fn sent(set: &[&str], host: &CookieHost, set_at: &str, asked: &str, later: u64) -> String {
        let (mut jar, now) = (CookieJar::default(), UNIX_EPOCH + NOW);
        set.iter().for_each(|field| jar.set(field.as_bytes(), host, set_at, now));
        let mut output = Vec::new();
        jar.write(&mut output, host, asked, now + Duration::from_secs(later));
        String::from_utf8(output).unwrap().trim_start_matches("Cookie: ").trim_end().to_owned()
    }

    fn check(set: &[&str], asked: &str, expected: &str) {
        let host = CookieHost::new("shop.test:8080", false);
        assert_eq!(sent(set, &host, "/a/b", asked, 10), expected, "{set:?}");
    }

    #[test]
    fn names_values_and_later_ones() {
        check(&["s=1"], "/a/x", "s=1");
        check(&[" s = 1 ; HttpOnly; SameSite=Lax", "t=\"x y\"; Path=/"], "/a", "s=1; t=\"x y\"");
        check(&["s=1", "s=2"], "/a", "s=2");
        check(&["s=a=b"], "/a", "s=a=b");
        check(&["s", "=1", "", ";"], "/a", "");
        check(&["s=1", "s=; Max-Age=0"], "/a", "");
        check(&["s=1\r\nX: y", "t=\u{1}"], "/a", "");
    }

    #[test]
    fn paths() {
        check(&["s=1"], "/", "");
        check(&["s=1; Path=/x"], "/x/y?z", "s=1");
        check(&["s=1; Path=/x"], "/xy", "");
        check(&["s=1; Path=/x/"], "/x/y", "s=1");
        check(&["s=1; Path=nonsense"], "/a/c", "s=1");
        check(&["s=1; Path=/", "t=2; Path=/a"], "/a", "t=2; s=1");
        check(&["s=1; Path=/", "s=2; Path=/a"], "/a", "s=2; s=1");
    }

    #[test]
    fn lifetimes() {
        check(&["s=1; Max-Age=11"], "/a", "s=1");
        check(&["s=1; Max-Age=10"], "/a", "");
        check(&["s=1; Max-Age=-1"], "/a", "");
        check(&["s=1; Max-Age=99999999999999999999"], "/a", "s=1");
        check(&["s=1; Max-Age=x"], "/a", "s=1");
        check(&["s=1; Expires=Wed, 21 Oct 2015 07:28:00 GMT"], "/a", "");
        check(&["s=1; Expires=Wed, 21-Oct-2099 07:28:00 GMT"], "/a", "s=1");
        check(&["s=1; Expires=Wed, 21 Oct 2015 07:28:00 GMT; Max-Age=60"], "/a", "s=1");
    }

    #[test]
    fn domains_and_safety() {
        check(&["s=1; Domain=shop.test"], "/a", "s=1");
        check(&["s=1; Domain=.SHOP.test"], "/a", "s=1");
        check(&["s=1; Domain=op.test", "t=1; Domain=test", "u=1; Domain=other.test"], "/a", "");
        check(&["s=1; Secure", "__Secure-s=1", "__Host-s=1; Secure; Path=/"], "/a", "");
        let local = CookieHost::new("127.0.0.1:80", false);
        assert_eq!(sent(&["s=1; Secure"], &local, "/", "/", 0), "s=1");
        assert_eq!(sent(&["s=1; Domain=0.0.1"], &local, "/", "/", 0), "");
        let sub = CookieHost::new("www.shop.test", true);
        assert_eq!(
            sent(&["s=1; Domain=shop.test", "__Host-t=2; Secure; Path=/"], &sub, "/", "/", 0),
            "s=1; __Host-t=2"
        );
        assert_eq!(sent(&["__Host-t=2; Secure; Path=/a"], &sub, "/a", "/a", 0), "");
    }

    #[test]
    fn a_server_that_sets_ever_more_cookies_does_not_fill_the_memory() {
        let (mut jar, host) = (CookieJar::default(), CookieHost::new("a.test", false));
        for number in 0..10 * COOKIES_MAX {
            jar.set(format!("c{number}=1").as_bytes(), &host, "/", UNIX_EPOCH + NOW);
        }
        jar.set(format!("long={}", "x".repeat(COOKIE_BYTES_MAX)).as_bytes(), &host, "/", UNIX_EPOCH + NOW);
        assert_eq!(
            (jar.cookies.len(), jar.value("long"), jar.value("c1799")),
            (COOKIES_MAX, None, Some("1"))
        );
    }
}
