//! Selects and renames entries of a log by time, status, method, path, host and client.
//!
//! Every criterion is a list; an empty one accepts everything, and an entry must match all of them. Patterns are globs
//! (`*` any text, `?` one byte), or regular expressions after a tilde. Renaming happens after selection.

use crate::limits::MAP_BYTES_MAX;
use std::borrow::Cow;
use std::ops::RangeInclusive;

use regex::bytes::{Regex, RegexBuilder};
use thiserror::Error;

use super::entry::Entry;
use super::time::{self, NS_PER_SECOND};

/// The size limit of a compiled pattern.
const PATTERN_BYTES_MAX: usize = 1 << 20;

#[derive(Clone, Debug, Default)]
pub struct Selection {
    pub statuses: Vec<RangeInclusive<u16>>,
    pub methods: Vec<String>,
    pub paths: Vec<Pattern>,
    pub hosts: Vec<Pattern>,
    pub clients: Vec<Pattern>,
    pub from: Option<Bound>,
    pub to: Option<Bound>,
    /// Prefixes of targets with their replacements; the first match applies.
    pub path_map: Vec<(String, String)>,
    /// Hosts with their replacements; `*` matches every host.
    pub host_map: Vec<(String, String)>,
}

/// A glob or a regular expression.
#[derive(Clone, Debug)]
pub struct Pattern(Regex);

/// A point in time, in the log's own time zone unless one was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    ns: i64,
    has_zone: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SelectionError {
    #[error("{0:?} is not a status like 200, 4xx or 500-504")]
    Status(String),
    #[error("{pattern:?} is not a pattern: {why}")]
    Pattern { pattern: String, why: String },
    #[error("{0:?} is not a time like 2026-11-21T10:00:00, 2026-11-21 or 2026-11-21T10:00:00+01:00")]
    Time(String),
    #[error("{0:?} is not OLD=NEW, in printable characters and at most {MAP_BYTES_MAX} bytes")]
    Map(String),
}

impl Selection {
    pub fn selects(&self, entry: &Entry<'_>) -> bool {
        let any = |patterns: &[Pattern], text: &[u8]| {
            patterns.is_empty() || patterns.iter().any(|pattern| pattern.0.is_match(text))
        };
        let status = &entry.status;
        (self.statuses.is_empty() || self.statuses.iter().any(|range| range.contains(status)))
            && (self.methods.is_empty()
                || self.methods.iter().any(|method| method.as_bytes() == &*entry.method))
            && self.from.is_none_or(|from| from.is_reached(entry))
            && self.to.is_none_or(|to| !to.is_reached(entry))
            && any(&self.paths, &entry.target)
            && any(&self.hosts, &entry.host)
            && any(&self.clients, &entry.client)
    }

    /// Applies the path and host mappings to an entry.
    pub fn rename(&self, entry: &mut Entry<'_>) {
        let fits = |(old, _): &&(String, String)| entry.target.starts_with(old.as_bytes());
        if let Some((old, new)) = self.path_map.iter().find(fits) {
            entry.target = Cow::Owned([new.as_bytes(), &entry.target[old.len()..]].concat());
        }
        let fits = |(old, _): &&(String, String)| old == "*" || old.as_bytes() == &*entry.host;
        if let Some((_, new)) = self.host_map.iter().find(fits) {
            entry.host = Cow::Owned(new.clone().into_bytes());
        }
    }
}

/// Parses `200`, `4xx` or `500-504`.
pub fn statuses(text: &str) -> Result<RangeInclusive<u16>, SelectionError> {
    let refused = || SelectionError::Status(text.to_owned());
    let number = |text: &str| super::entry::status(text.as_bytes()).ok_or_else(refused);
    match (text.strip_suffix("xx"), text.split_once('-')) {
        (Some(class), _) => {
            let hundred = number(&format!("{class}00"))?;
            Ok(hundred..=hundred + 99)
        }
        (None, Some((low, high))) => Ok(number(low)?..=number(high)?),
        (None, None) => number(text).map(|status| status..=status),
    }
}

/// Parses `OLD=NEW`.
pub fn map(text: &str) -> Result<(String, String), SelectionError> {
    let sound = text.len() <= MAP_BYTES_MAX && !text.contains(char::is_control);
    let parts = text.split_once('=').filter(|_| sound).ok_or_else(|| SelectionError::Map(text.to_owned()))?;
    Ok((parts.0.to_owned(), parts.1.to_owned()))
}

impl Pattern {
    /// Parses a pattern such as `/img/*` or `~\.(gif|png)$`.
    pub fn new(text: &str) -> Result<Self, SelectionError> {
        let expression = match text.strip_prefix('~') {
            Some(expression) => expression.to_owned(),
            None => format!("^{}$", regex::escape(text).replace(r"\*", ".*").replace(r"\?", ".")),
        };
        // Logs are bytes, so a dot must match any byte.
        let built = RegexBuilder::new(&expression)
            .unicode(false)
            .dot_matches_new_line(true)
            .size_limit(PATTERN_BYTES_MAX)
            .build();
        built.map(Pattern).map_err(|error| {
            let why = error.to_string();
            let why = why.lines().last().unwrap_or_default().to_owned();
            SelectionError::Pattern { pattern: text.to_owned(), why }
        })
    }
}

impl Bound {
    /// Parses an ISO 8601 date, with optional time of day and zone.
    pub fn new(text: &str) -> Result<Self, SelectionError> {
        let whole = if text.len() == 10 { format!("{text}T00:00:00") } else { text.to_owned() };
        let parsed = time::iso_8601(whole.as_bytes()).and_then(|(civil, fraction, zone)| {
            let seconds = civil.unix_seconds(zone.unwrap_or(0))?;
            Some(Bound { ns: seconds * NS_PER_SECOND + fraction.ns, has_zone: zone.is_some() })
        });
        parsed.ok_or_else(|| SelectionError::Time(text.to_owned()))
    }

    fn is_reached(&self, entry: &Entry<'_>) -> bool {
        let offset_ns = i64::from(entry.utc_offset_seconds) * NS_PER_SECOND;
        let entry_ns = if self.has_zone { entry.unix_ns } else { entry.unix_ns + offset_ns };
        entry_ns >= self.ns
    }
}

#[cfg(test)]
mod tests {
    use super::super::clf;
    use super::*;

    const LINE: &[u8] =
        br#"10.0.0.7 - - [10/Oct/2000:13:55:36 -0700] "GET http://old.test/img/a.gif?x HTTP/1.0" 404 5"#;

    fn selects(change: impl FnOnce(&mut Selection)) -> bool {
        let mut selection = Selection::default();
        change(&mut selection);
        selection.selects(&clf::parse(LINE).unwrap())
    }

    #[test]
    fn every_criterion_can_refuse() {
        assert!(selects(|_| {}));
        let check = |text: &str, expected| {
            let range = statuses(text).unwrap();
            assert_eq!(selects(|selection| selection.statuses = vec![range]), expected, "{text}");
        };
        check("404", true);
        check("4xx", true);
        check("400-403", false);
        check("2xx", false);
        assert!(selects(|selection| selection.methods = vec!["POST".into(), "GET".into()]));
        assert!(!selects(|selection| selection.methods = vec!["POST".into()]));
        let check = |text: &str, expected| {
            let pattern = Pattern::new(text).unwrap();
            assert_eq!(selects(|selection| selection.paths = vec![pattern]), expected, "{text}");
        };
        check("/img/*", true);
        check("/img/?.gif*", true);
        check("/img", false);
        check(r"~\.(gif|png)", true);
        check(r"~^a", false);
        assert!(selects(|selection| selection.hosts = vec![Pattern::new("*.test").unwrap()]));
        assert!(!selects(|selection| selection.clients = vec![Pattern::new("10.0.1.*").unwrap()]));
    }

    #[test]
    fn windows_are_of_the_logs_own_clock_unless_they_have_a_zone() {
        let check = |text: &str, expected: bool| {
            let from = Bound::new(text).unwrap();
            assert_eq!(selects(|selection| selection.from = Some(from)), expected, "from {text}");
            assert_eq!(selects(|selection| selection.to = Some(from)), !expected, "to {text}");
        };
        check("2000-10-10T13:55:36", true);
        check("2000-10-10T13:55:36.5", false);
        check("2000-10-10", true);
        check("2000-10-10T20:55:36Z", true);
        check("2000-10-10T20:55:37Z", false);
        check("2000-10-10T22:55:36+02:00", true);
    }

    #[test]
    fn paths_and_hosts_are_renamed() {
        let maps = |all: [&str; 2]| all.map(|text| map(text).unwrap()).to_vec();
        let path_map = maps(["/img=/images", "/=/x/"]);
        let host_map = maps(["other=no", "*=new.test"]);
        let selection = Selection { path_map, host_map, ..Selection::default() };
        let mut entry = clf::parse(LINE).unwrap();
        selection.rename(&mut entry);
        assert_eq!((&*entry.target, &*entry.host), (&b"/images/a.gif?x"[..], &b"new.test"[..]));
    }

    #[test]
    fn what_is_no_selection_is_said() {
        assert!(statuses("20").is_err() && statuses("xx").is_err() && statuses("9-").is_err());
        assert!(Pattern::new("~(").unwrap_err().to_string().contains("unclosed"));
        assert!(Bound::new("10:00").is_err() && Bound::new("2000-13-01").is_err());
        assert!(map("/a").is_err());
    }
}
