//! Purging by tag, where a response's tags are in `Surrogate-Key` or `Cache-Tag`.
//!
//! The store has no index of tags, because most objects are on disk and have not been read since the start. Instead,
//! purged tags are recorded with the time of the purge. An object older than a purge of one of its tags is not used,
//! and is removed at its next lookup. Lookups pay nothing until something is purged, and a file preserves the record
//! over restarts. Purges are also numbered: what was requested before a purge is not stored, however late it arrives.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sojourn_http::head::field_lines;
use sojourn_http_cache::Metadata;

/// The most tags remembered. Beyond that the older half is dropped, and every tagged object stored before then counts
/// as purged.
const TAGS_MAX: usize = 65_536;

const TAG_BYTES_MAX: usize = 1024;

/// The file is rewritten when it has so many lines more than twice the number of its tags.
const LINES_SPARE: usize = 1024;

/// The file's name in the cache directory.
const FILE: &str = "purged";

/// The response fields with tags.
const TAG_FIELDS: [&[u8]; 2] = [b"surrogate-key", b"cache-tag"];

#[derive(Debug, Default)]
pub struct PurgedTags {
    has_any: AtomicBool,
    /// The number of purges since the start.
    count: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// When each tag was last purged.
    moments: HashMap<Box<[u8]>, Moment>,
    /// Every tagged object stored until then is purged.
    all_until: Moment,
    path: Option<PathBuf>,
    /// The number of lines in the file.
    lines: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Moment {
    /// In seconds since 1970.
    at: i64,
    /// The number of the purge, counted from 1; 0 if it was before the start.
    number: u64,
}

impl PurgedTags {
    /// Loads the purges recorded in `directory`, where new ones are recorded too.
    pub fn open(directory: &Path) -> io::Result<PurgedTags> {
        let path = directory.join(FILE);
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            outcome => outcome?,
        };
        let mut state = State { path: Some(path), ..State::default() };
        // An incomplete line was being written when the server was killed; that purge was never confirmed.
        let lines = bytes.split_inclusive(|byte| *byte == b'\n').filter_map(|line| line.strip_suffix(b"\n"));
        for (index, line) in lines.enumerate() {
            state.read(line, index == 0);
        }
        state.rewrite()?;
        let has_any = AtomicBool::new(state.has_any());
        Ok(PurgedTags { has_any, state: Mutex::new(state), ..PurgedTags::default() })
    }

    /// Purges what has `tag` and was stored until `now`; recorded on disk when this returns.
    pub fn purge(&self, tag: &[u8], now: i64) -> io::Result<()> {
        let mut state = self.lock();
        let number = self.count.fetch_add(1, Ordering::AcqRel) + 1;
        state.moments.insert(tag.into(), Moment { at: now, number });
        self.has_any.store(true, Ordering::Release);
        if state.moments.len() > TAGS_MAX {
            state.forget_half(number);
            return state.rewrite();
        }
        let is_long = state.lines > 2 * state.moments.len() + LINES_SPARE;
        if is_long && state.rewrite().is_ok() {
            return Ok(());
        }
        state.append(now, tag)
    }

    /// The number of purges so far.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    pub fn has_any(&self) -> bool {
        self.has_any.load(Ordering::Acquire)
    }

    /// Returns true if the object with this metadata was purged.
    pub fn is_purged(&self, stored: &Metadata<'_>) -> bool {
        self.is_covered(stored, |purge| stored.response_time <= purge.at)
    }

    /// Returns true if the object with this metadata was purged after the first `count` purges.
    pub fn is_purged_since(&self, stored: &Metadata<'_>, count: u64) -> bool {
        self.count() > count && self.is_covered(stored, |purge| purge.number > count)
    }

    /// Returns true if one of the object's tags has such a purge.
    fn is_covered(&self, stored: &Metadata<'_>, is_such: impl Fn(&Moment) -> bool) -> bool {
        let mut tags = tags(stored.fields).peekable();
        tags.peek().is_some() && {
            let state = self.lock();
            is_such(&state.all_until) || tags.any(|tag| state.moments.get(tag).is_some_and(&is_such))
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn has_any(&self) -> bool {
        self.all_until.at > 0 || !self.moments.is_empty()
    }

    /// Applies a line of the file; invalid lines are skipped.
    fn read(&mut self, line: &[u8], is_first: bool) {
        let Some(space) = line.iter().position(|byte| *byte == b' ') else { return };
        let (moment, tag) = (str::from_utf8(&line[..space]).unwrap_or_default().parse(), &line[space + 1..]);
        match moment {
            Ok(at) if !tag.is_empty() => drop(self.moments.insert(tag.into(), Moment { at, number: 0 })),
            // Elsewhere the tag is missing, because the disk was full.
            Ok(at) if is_first => self.all_until.at = at,
            Ok(_) | Err(_) => {}
        }
    }

    /// Called with the number of the latest purge.
    fn forget_half(&mut self, number: u64) {
        let mut moments: Vec<i64> = self.moments.values().map(|moment| moment.at).collect();
        moments.sort_unstable();
        self.all_until = Moment { at: self.all_until.at.max(moments[moments.len() / 2]), number };
        self.moments.retain(|_, moment| moment.at > self.all_until.at);
    }

    fn append(&mut self, moment: i64, tag: &[u8]) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        self.lines += 1;
        // If the disk was full, the last line has no end.
        let mut bytes = vec![b'\n'];
        bytes.extend(line(moment, tag));
        let mut file = File::options().append(true).create(true).open(path)?;
        file.write_all(&bytes)?;
        file.sync_data()
    }

    /// Rewrites the file with each tag once.
    fn rewrite(&mut self) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let mut bytes = if self.all_until.at > 0 { line(self.all_until.at, b"") } else { Vec::new() };
        self.moments.iter().for_each(|(tag, moment)| bytes.extend(line(moment.at, tag)));
        let new = path.with_extension("new");
        let mut file = File::create(&new)?;
        file.write_all(&bytes)?;
        file.sync_data()?;
        fs::rename(new, path)?;
        self.lines = self.moments.len();
        Ok(())
    }
}

/// Returns true if `tag` can occur in a response.
pub fn is_tag(tag: &[u8]) -> bool {
    (1..=TAG_BYTES_MAX).contains(&tag.len()) && tag.iter().all(|byte| *byte > b' ' && *byte != b',')
}

/// The tags in the fields, separated by spaces or commas.
fn tags(fields: &[u8]) -> impl Iterator<Item = &[u8]> {
    field_lines(fields)
        .filter(|(name, _)| TAG_FIELDS.iter().any(|tagging| name.eq_ignore_ascii_case(tagging)))
        .flat_map(|(_, value)| value.split(|byte| matches!(byte, b' ' | b'\t' | b',')))
        .filter(|tag| !tag.is_empty())
}

fn line(moment: i64, tag: &[u8]) -> Vec<u8> {
    [moment.to_string().as_bytes(), b" ", tag, b"\n"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(fields: &str, response_time: i64) -> Metadata<'_> {
        Metadata {
            status: 200,
            response_time,
            lifetime: 60,
            fields: fields.as_bytes(),
            ..Metadata::default()
        }
    }

    fn covers(purges: &PurgedTags, fields: &str, response_time: i64) -> bool {
        purges.is_purged(&stored(fields, response_time))
    }

    #[test]
    fn what_came_before_is_covered() {
        let purges = PurgedTags::default();
        assert!(!covers(&purges, "Surrogate-Key: a b\r\n", 10));
        purges.purge(b"b", 10).unwrap();
        assert!(covers(&purges, "Surrogate-Key: a b\r\n", 10));
        assert!(covers(&purges, "X: y\r\ncache-tag: a,b , c\r\n", 9));
        assert!(!covers(&purges, "Surrogate-Key: a b\r\n", 11));
        assert!(!covers(&purges, "Surrogate-Key: bb B\r\nX: b\r\n", 1));
    }

    /// However late the response arrives.
    #[test]
    fn what_was_requested_before_is_covered() {
        let purges = PurgedTags::default();
        let is_purged_since = |fields, count| purges.is_purged_since(&stored(fields, 1000), count);
        purges.purge(b"a", 10).unwrap();
        let count = purges.count();
        assert!(!is_purged_since("Cache-Tag: a b\r\n", count));
        purges.purge(b"b", 10).unwrap();
        assert!(is_purged_since("Cache-Tag: a b\r\n", count) && !is_purged_since("Cache-Tag: a\r\n", count));
        assert!(is_purged_since("Cache-Tag: a\r\n", 0) && !is_purged_since("X: a\r\n", 0));
        assert!(!is_purged_since("Cache-Tag: a b\r\n", purges.count()));
    }

    /// On a full disk a part of a line may have been written.
    #[test]
    fn what_follows_a_torn_line_is_remembered() {
        for torn in ["3", "30", "30 ", "30 artic", "30 article-7"] {
            let directory = tempfile::tempdir().unwrap();
            let purges = PurgedTags::open(directory.path()).unwrap();
            purges.purge(b"a", 10).unwrap();
            let mut file = File::options().append(true).open(directory.path().join(FILE)).unwrap();
            file.write_all(torn.as_bytes()).unwrap();
            purges.purge(b"article-7", 40).unwrap();
            let purges = PurgedTags::open(directory.path()).unwrap();
            assert!(covers(&purges, "Cache-Tag: article-7\r\n", 40), "{torn}");
            assert!(covers(&purges, "Cache-Tag: a\r\n", 10), "{torn}");
            assert!(!covers(&purges, "Cache-Tag: b\r\n", 1), "{torn}");
        }
    }

    #[test]
    fn the_file_has_few_lines_more_than_tags() {
        let directory = tempfile::tempdir().unwrap();
        let purges = PurgedTags::open(directory.path()).unwrap();
        let bytes = || fs::read(directory.path().join(FILE)).unwrap();
        purges.purge(b"a", 10).unwrap();
        purges.purge(b"a", 20).unwrap();
        assert_eq!(bytes(), b"\n10 a\n\n20 a\n");
        assert_eq!(purges.lock().lines, 2);
        purges.lock().lines = LINES_SPARE + 3;
        purges.purge(b"a", 30).unwrap();
        assert_eq!(bytes(), b"30 a\n");
        purges.purge(b"b", 40).unwrap();
        assert_eq!(bytes(), b"30 a\n\n40 b\n");
    }

    #[test]
    fn it_survives_a_restart_and_torn_lines_do_not() {
        let directory = tempfile::tempdir().unwrap();
        let purges = PurgedTags::open(directory.path()).unwrap();
        purges.purge(b"a", 10).unwrap();
        purges.purge(b"a", 20).unwrap();
        let path = directory.path().join(FILE);
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"nonsense\n30 x").unwrap();
        let purges = PurgedTags::open(directory.path()).unwrap();
        assert!(covers(&purges, "Cache-Tag: a\r\n", 20) && !covers(&purges, "Cache-Tag: a\r\n", 21));
        assert!(!covers(&purges, "Cache-Tag: x\r\n", 1));
        assert_eq!(fs::read(&path).unwrap(), b"20 a\n");
    }

    #[test]
    fn too_many_tags_cover_more_and_never_less() {
        let directory = tempfile::tempdir().unwrap();
        let mut state = State { path: Some(directory.path().join(FILE)), ..State::default() };
        let moment = |at| Moment { at, number: 0 };
        state.moments.extend((0..TAGS_MAX as i64).map(|at| (at.to_string().as_bytes().into(), moment(at))));
        let purges =
            PurgedTags { has_any: AtomicBool::new(true), state: Mutex::new(state), ..PurgedTags::default() };
        assert!(!purges.is_purged_since(&stored("Cache-Tag: never\r\n", 1_000_000), 0));
        purges.purge(b"last", 1_000_000).unwrap();
        assert!(purges.is_purged_since(&stored("Cache-Tag: never\r\n", 1_000_000), 0));
        for purges in [&purges, &PurgedTags::open(directory.path()).unwrap()] {
            assert!(purges.lock().moments.len() <= TAGS_MAX / 2 + 1);
            assert!(covers(purges, "Cache-Tag: 7\r\n", 7) && covers(purges, "Cache-Tag: never\r\n", 7));
            assert!(covers(purges, "Cache-Tag: last\r\n", 1_000_000));
            assert!(!covers(purges, "Cache-Tag: never\r\n", 1_000_000) && !covers(purges, "X: last\r\n", 7));
        }
    }
}
