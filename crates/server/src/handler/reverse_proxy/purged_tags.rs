//! Purging by tag, where a response's tags are in `Surrogate-Key` or `Cache-Tag`.
//!
//! The store has no index of tags, because most objects are on disk and have not been read since the start. Instead,
//! purged tags are recorded with the time of the purge. An object older than a purge of one of its tags is not used,
//! and is removed at its next lookup. Lookups pay nothing until something is purged, and a file preserves the record
//! over restarts.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sojourn_http::head::field_lines;
use sojourn_http_cache::Metadata;

/// The most tags remembered. Beyond that the older half is dropped, and every tagged object stored before then counts
/// as purged.
const TAGS_MAX: usize = 65_536;

const TAG_BYTES_MAX: usize = 1024;

/// The file's name in the cache directory.
const FILE: &str = "purged";

/// The response fields with tags.
const TAG_FIELDS: [&[u8]; 2] = [b"surrogate-key", b"cache-tag"];

#[derive(Debug, Default)]
pub struct PurgedTags {
    has_any: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// When each tag was last purged, in seconds since 1970.
    moments: HashMap<Box<[u8]>, i64>,
    /// Every tagged object stored until then is purged.
    all_until: i64,
    path: Option<PathBuf>,
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
        for line in bytes.split_inclusive(|byte| *byte == b'\n').filter_map(|line| line.strip_suffix(b"\n")) {
            state.read(line);
        }
        state.rewrite()?;
        let has_any = AtomicBool::new(state.has_any());
        Ok(PurgedTags { has_any, state: Mutex::new(state) })
    }

    /// Purges what has `tag` and was stored until `now`; recorded on disk when this returns.
    pub fn purge(&self, tag: &[u8], now: i64) -> io::Result<()> {
        let mut state = self.lock();
        state.moments.insert(tag.into(), now);
        self.has_any.store(true, Ordering::Release);
        if state.moments.len() > TAGS_MAX {
            state.forget_half();
            return state.rewrite();
        }
        let Some(path) = &state.path else { return Ok(()) };
        let mut file = File::options().append(true).create(true).open(path)?;
        file.write_all(&line(now, tag))?;
        file.sync_data()
    }

    pub fn has_any(&self) -> bool {
        self.has_any.load(Ordering::Acquire)
    }

    /// Returns true if the object with this metadata was purged.
    pub fn is_purged(&self, stored: &Metadata<'_>) -> bool {
        let came = stored.response_time;
        let mut tags = tags(stored.fields).peekable();
        tags.peek().is_some() && {
            let state = self.lock();
            came <= state.all_until || tags.any(|tag| state.moments.get(tag).is_some_and(|at| came <= *at))
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn has_any(&self) -> bool {
        self.all_until > 0 || !self.moments.is_empty()
    }

    /// Applies a line of the file; invalid lines are skipped.
    fn read(&mut self, line: &[u8]) {
        let Some(space) = line.iter().position(|byte| *byte == b' ') else { return };
        let (moment, tag) = (str::from_utf8(&line[..space]).unwrap_or_default().parse(), &line[space + 1..]);
        match moment {
            Ok(moment) if tag.is_empty() => self.all_until = self.all_until.max(moment),
            Ok(moment) => drop(self.moments.insert(tag.into(), moment)),
            Err(_) => {}
        }
    }

    fn forget_half(&mut self) {
        let mut moments: Vec<i64> = self.moments.values().copied().collect();
        moments.sort_unstable();
        self.all_until = self.all_until.max(moments[moments.len() / 2]);
        self.moments.retain(|_, moment| *moment > self.all_until);
    }

    /// Rewrites the file with each tag once.
    fn rewrite(&self) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let mut bytes = if self.all_until > 0 { line(self.all_until, b"") } else { Vec::new() };
        self.moments.iter().for_each(|(tag, moment)| bytes.extend(line(*moment, tag)));
        let new = path.with_extension("new");
        let mut file = File::create(&new)?;
        file.write_all(&bytes)?;
        file.sync_data()?;
        fs::rename(new, path)
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

    fn covers(purges: &PurgedTags, fields: &str, response_time: i64) -> bool {
        let stored = Metadata {
            status: 200,
            response_time,
            lifetime: 60,
            fields: fields.as_bytes(),
            ..Metadata::default()
        };
        purges.is_purged(&stored)
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
        state.moments.extend((0..TAGS_MAX as i64).map(|at| (at.to_string().as_bytes().into(), at)));
        let purges = PurgedTags { has_any: AtomicBool::new(true), state: Mutex::new(state) };
        purges.purge(b"last", 1_000_000).unwrap();
        for purges in [&purges, &PurgedTags::open(directory.path()).unwrap()] {
            assert!(purges.lock().moments.len() <= TAGS_MAX / 2 + 1);
            assert!(covers(purges, "Cache-Tag: 7\r\n", 7) && covers(purges, "Cache-Tag: never\r\n", 7));
            assert!(covers(purges, "Cache-Tag: last\r\n", 1_000_000));
            assert!(!covers(purges, "Cache-Tag: never\r\n", 1_000_000) && !covers(purges, "X: last\r\n", 7));
        }
    }
}
