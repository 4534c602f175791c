//! The table of routes: the first one that matches a path decides.
//!
//! Routes see decoded paths with dot segments removed. Otherwise a request could avoid a route, and the site's rules,
//! by an unusual spelling.

use sojourn_content::HostId;
use sojourn_http::request::Request;
use sojourn_http::{SitePath, Status};

use crate::handler::reverse_proxy::Services;

/// Routes in the order in which they are tried. A path without a route is a file.
#[derive(Debug, Default)]
pub struct Table {
    pub routes: Vec<Route>,
}

/// A pattern and what it does.
#[derive(Clone, Debug)]
pub struct Route {
    pub pattern: Pattern,
    pub action: Action,
}

/// Which paths a route matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// `/path`, or `=/path/`: only this path. Stored without slashes.
    Exact(Box<[u8]>),
    /// `/path/`: everything below. Stored without the first slash, with the last.
    Below(Box<[u8]>),
    /// `*.php`: paths with a segment that has this suffix; the rest is PATH_INFO.
    Suffix(Box<[u8]>),
}

/// Why a pattern is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    #[error(
        "a path starts with a slash, as in /app/ (everything below), /status or =/ (exactly this path), or is a suffix such as *.php"
    )]
    Form,
    #[error("write a path unescaped, without dot segments, double slashes or a query")]
    Normal,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Files,
    /// The service with this number answers.
    Relay(u16),
    Redirect(Redirection),
    Answer {
        status: Status,
        media_type: String,
        body: Vec<u8>,
    },
}

/// A redirect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirection {
    pub status: Status,
    /// A path or URL. If it ends in a slash, the path below [`Pattern::Below`] is appended; so is the query.
    pub target: String,
}

impl Table {
    /// The route of a request for `path`.
    pub fn find(&self, path: &SitePath<'_>) -> Option<&Route> {
        self.routes.iter().find(|route| route.pattern.fits(path.as_bytes()))
    }
}

impl Services for Table {
    fn service_of(&self, request: &Request<'_>) -> Option<HostId> {
        let path = SitePath::decode(request.target).ok()?;
        match self.find(&path)?.action {
            Action::Relay(service) => Some(HostId(service)),
            _ => None,
        }
    }
}

impl Pattern {
    /// Returns true if the pattern matches `path`, which has no leading slash.
    pub fn fits(&self, path: &[u8]) -> bool {
        match self {
            Pattern::Exact(exact) => path == &**exact,
            Pattern::Below(prefix) => path.starts_with(prefix),
            Pattern::Suffix(suffix) => path.split(|byte| *byte == b'/').any(|name| name.ends_with(suffix)),
        }
    }
}

impl std::str::FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Pattern, PatternError> {
        if let Some(suffix) = text.strip_prefix('*') {
            let is_suffix =
                suffix.starts_with('.') && suffix.len() > 1 && !suffix.contains(['/', '*', '?', '%']);
            return if is_suffix {
                Ok(Pattern::Suffix(suffix.as_bytes().into()))
            } else {
                Err(PatternError::Form)
            };
        }
        let (is_exact, text) = text.strip_prefix('=').map_or((false, text), |rest| (true, rest));
        let path = text.strip_prefix('/').ok_or(PatternError::Form)?.as_bytes();
        let is_normal = SitePath::decode(text.as_bytes()).is_ok_and(|normal| normal.as_bytes() == path);
        if !is_normal || path.contains(&b'%') {
            return Err(PatternError::Normal);
        }
        let is_below = !is_exact && (path.is_empty() || path.ends_with(b"/"));
        Ok(if is_below { Pattern::Below(path.into()) } else { Pattern::Exact(path.into()) })
    }
}

impl Redirection {
    /// The Location for a request for `target`, whose path is `path`, by a route with `pattern`.
    pub fn location(&self, pattern: &Pattern, path: &SitePath<'_>, target: &[u8]) -> String {
        let mut location = self.target.clone();
        if let (Pattern::Below(prefix), true) = (pattern, location.ends_with('/')) {
            sojourn_http::path::percent_encode(&path.as_bytes()[prefix.len()..], &mut location);
        }
        let query = target.iter().position(|byte| *byte == b'?').map(|mark| &target[mark..]);
        // A request target is visible ASCII, so it is valid in a field.
        if let Some(query) = query.filter(|_| !location.contains('?')) {
            location.push_str(std::str::from_utf8(query).unwrap_or_default());
        }
        location
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(target: &str) -> SitePath<'_> {
        SitePath::decode(target.as_bytes()).unwrap()
    }

    #[test]
    fn patterns() {
        let fits =
            |pattern: &str, target: &str| pattern.parse::<Pattern>().unwrap().fits(path(target).as_bytes());
        for (pattern, yes, no) in [
            ("/", &["/", "/a/b", "/?x"][..], &[][..]),
            (
                "/app/",
                &["/app/", "/app/x", "/x/../app/y", "/%61pp/", "//app/?q"],
                &["/app", "/ap/", "/apple"],
            ),
            ("=/", &["/", "/?x", "//", "/a/.."], &["/a"]),
            ("/app", &["/app", "/app?x", "/./app"], &["/app/", "/app/x"]),
            ("*.php", &["/a.php", "/a.php/info", "/d/a%2ephp?x"], &["/a.phpx", "/php", "/?a.php"]),
        ] {
            yes.iter().for_each(|target| assert!(fits(pattern, target), "{pattern} {target}"));
            no.iter().for_each(|target| assert!(!fits(pattern, target), "{pattern} {target}"));
        }
        for (text, error) in [
            ("app/", PatternError::Form),
            ("*php", PatternError::Form),
            ("*.", PatternError::Form),
            ("", PatternError::Form),
            ("/a/../b", PatternError::Normal),
            ("/a%20b", PatternError::Normal),
            ("/a?b", PatternError::Normal),
            ("//a", PatternError::Normal),
        ] {
            assert_eq!(text.parse::<Pattern>(), Err(error), "{text}");
        }
    }

    #[test]
    fn where_requests_are_sent() {
        let check = |pattern: &str, to: &str, target: &str, expected: &str| {
            let redirection = Redirection { status: Status::Found, target: to.to_owned() };
            let location = redirection.location(&pattern.parse().unwrap(), &path(target), target.as_bytes());
            assert_eq!(location, expected, "{pattern} {to} {target}");
        };
        check("/old/", "/new/", "/old/a%20b/c?d=e", "/new/a%20b/c?d=e");
        check("/old/", "/new", "/old/a?b", "/new?b");
        check("/old", "https://a.example/", "/old?b", "https://a.example/?b");
        check("/", "/new/?x=y", "/z?b", "/new/?x=y");
        check("/old/", "/", "/old//evil.example/", "/evil.example/");
    }
}
