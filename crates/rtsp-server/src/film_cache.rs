//! A cache of films and their bytes that never waits for a disk.
//!
//! Opening a film, and reading data that is not in memory, are jobs for the content crate's helpers. The helper that
//! opens a film's file also reads its index: [`Catalogue`] is the origin that helpers use.

use std::collections::HashMap;
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sojourn_content::{
    Body, Budgets, Caches, Directory, Document, Done, FileRange, Found, HelperKind, Helpers, HostId, Job,
    LoadError, OpenError, Opened, Opening, Origin, Precompressed, Resource, Rules, Tester, Urgency,
    residency,
};
use sojourn_http::SitePath;

use crate::counters::{Counter, Counts};
use crate::film::Film;
use crate::settings::Settings;
use sojourn_media::mp4::Index;

/// The most jobs waiting for a helper.
const HELPER_QUEUE_MAX: usize = 4096;

/// A film is checked again when it is requested this long after the last check.
const RECHECK_AFTER: Duration = Duration::from_secs(1);

/// How many files that are not films are reported on standard error.
const WARNINGS_MAX: u64 = 100;

/// The token of read-ahead, for which no session waits.
pub const READ_AHEAD_TOKEN: u64 = u64::MAX;

#[derive(Clone, Debug)]
pub struct OpenFilm {
    pub film: Arc<Film>,
    pub document: Arc<Document>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilmError {
    NotFound,
    Forbidden,
    /// Not a film that can be streamed.
    Unsupported,
    /// Out of descriptors, or too many requests are waiting; try again later.
    Busy,
    /// The disk or file system failed.
    Failed,
}

/// The outcome of a job, for the waiting session.
#[derive(Debug)]
pub enum Outcome {
    Film(Result<OpenFilm, FilmError>),
    Chunk(Chunk, Result<Arc<[u8]>, LoadError>),
}

/// Identifies a chunk of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The document's ID.
    pub document: u64,
    pub number: u64,
}

/// The state of requested bytes.
pub enum Bytes {
    Here(Arc<[u8]>),
    Later,
    /// The bytes cannot be read completely.
    Never,
    /// Too many wait: ask again later.
    Busy,
}

pub struct FilmCache {
    catalogue: Arc<Catalogue>,
    helpers: Helpers,
    helper_count: usize,
    caches: Caches,
    tester: Tester,
    films: HashMap<SitePath<'static>, Known>,
    films_max: usize,
    /// The film that each connection waits for, and the previous version.
    openings: HashMap<u64, (SitePath<'static>, Option<OpenFilm>)>,
    /// The chunk that each session waits for. One at a time, because a helper's outcome does not name its chunk.
    loads: HashMap<u64, Load>,
    loaded: Loaded,
    done: Vec<(u64, Done)>,
}

struct Load {
    document: Arc<Document>,
    offset: u64,
    /// When its first bytes are to be sent.
    due: Duration,
}

/// The reads done since the delay was last asked for, and by how much they were late.
#[derive(Default)]
struct Loaded {
    count: u32,
    delay: Duration,
}

struct Known {
    open: OpenFilm,
    checked: Duration,
    used: Duration,
}

impl FilmCache {
    /// The films below `root`.
    ///
    /// # Errors
    /// If it cannot be opened, or helpers cannot be started.
    pub fn open(root: &Path, settings: &Settings) -> io::Result<FilmCache> {
        let rules = Rules { precompressed: Precompressed::Never, indexes: Vec::new(), ..Rules::default() };
        let catalogue = Arc::new(Catalogue::new(Directory::new(root, rules)?));
        let origin: Arc<dyn Origin> = Arc::clone(&catalogue) as _;
        let helpers = Helpers::start(HelperKind::Threads, &origin, settings.helpers, HELPER_QUEUE_MAX)?;
        let budgets = Budgets { body_bytes: settings.body_cache_bytes, ..Budgets::default() };
        Ok(FilmCache {
            catalogue,
            helpers,
            helper_count: settings.helpers,
            caches: Caches::new(&budgets),
            tester: Tester::new(residency::ALL[0], residency::TRUST),
            films: HashMap::new(),
            films_max: settings.films_max,
            openings: HashMap::new(),
            loads: HashMap::new(),
            loaded: Loaded::default(),
            done: Vec::new(),
        })
    }

    /// Readable when jobs are done.
    pub fn completion_fd(&self) -> BorrowedFd<'_> {
        self.helpers.completion_fd()
    }

    /// The film at `path`, if it is known; otherwise its outcome is delivered for `token`.
    pub fn film(
        &mut self,
        path: &SitePath<'_>,
        token: u64,
        now: Duration,
    ) -> Option<Result<OpenFilm, FilmError>> {
        let path = path.clone().into_owned();
        let known = self.films.get_mut(&path);
        if let Some(known) = known.filter(|known| now.saturating_sub(known.checked) < RECHECK_AFTER) {
            known.used = now;
            return Some(Ok(known.open.clone()));
        }
        let resource = Resource { host: HostId::default(), path: path.clone() };
        let before = self.films.get(&path).map(|known| known.open.clone());
        let known = before.as_ref().map(|open| Arc::clone(&open.document));
        let job = Job::Open(Opening { resource, known, body_bytes_max: 0 });
        if self.helpers.submit_at(Urgency::Asked, token, job).is_err() {
            return Some(Err(FilmError::Busy));
        }
        self.openings.insert(token, (path, before));
        None
    }

    /// The chunk of `document` with this number, `due` to be sent; if it is not in memory it is delivered later for
    /// `token`, possibly after one requested earlier.
    pub fn chunk(&mut self, document: &Arc<Document>, number: u64, token: u64, due: Duration) -> Bytes {
        let offset = number * document.chunk_bytes();
        if let Some(chunk) = self.caches.chunk(document, offset) {
            return Bytes::Here(Arc::clone(chunk));
        }
        let range = range(document, offset, true);
        match self.tester.load_now(&range) {
            Ok(Done::Loaded(Ok(Some(chunk)))) => {
                self.caches.insert_chunk(document, offset, &chunk);
                return Bytes::Here(chunk);
            }
            Ok(_) => return Bytes::Never,
            Err(_) => {}
        }
        if !self.loads.contains_key(&token) {
            if self.helpers.submit(token, Job::Load(range)).is_err() {
                return Bytes::Busy;
            }
            let load = Load { document: Arc::clone(document), offset, due };
            self.loads.insert(token, load);
        }
        Bytes::Later
    }

    /// Reads chunks ahead of need that are only on disk; returns how many.
    pub fn look_ahead(
        &mut self,
        document: &Arc<Document>,
        chunks: std::ops::Range<u64>,
        urgency: Urgency,
    ) -> u64 {
        let mut reads = 0;
        for number in chunks {
            let range = range(document, number * document.chunk_bytes(), false);
            let is_absent = range.length > 0 && self.tester.load_now(&range).is_err();
            if is_absent && self.helpers.submit_at(urgency, READ_AHEAD_TOKEN, Job::Load(range)).is_ok() {
                reads += 1;
            }
        }
        reads
    }

    /// Delivers the helpers' outcomes.
    pub fn collect(&mut self, now: Duration, counts: &mut Counts) -> Vec<(u64, Outcome)> {
        let mut done = std::mem::take(&mut self.done);
        self.helpers.collect(&mut done);
        let mut outcomes = Vec::with_capacity(done.len());
        for (token, done) in done.drain(..).filter(|(token, _)| *token != READ_AHEAD_TOKEN) {
            match done {
                Done::Opened(opened) => {
                    let Some((path, before)) = self.openings.remove(&token) else { continue };
                    let film = self.opened(path, before, opened, now);
                    if matches!(film, Err(FilmError::Unsupported)) {
                        counts.count(Counter::FilmsRefused);
                    }
                    outcomes.push((token, Outcome::Film(film)));
                }
                Done::Loaded(loaded) => {
                    let Some(Load { document, offset, due }) = self.loads.remove(&token) else { continue };
                    self.loaded.count += 1;
                    self.loaded.delay += now.saturating_sub(due);
                    let chunk = loaded.and_then(|chunk| chunk.ok_or(LoadError::Failed));
                    if let Ok(chunk) = &chunk {
                        self.caches.insert_chunk(&document, offset, chunk);
                    }
                    let which = Chunk { document: document.id, number: offset / document.chunk_bytes() };
                    outcomes.push((token, Outcome::Chunk(which, chunk)));
                }
            }
        }
        self.done = done;
        outcomes
    }

    /// How late data comes from the disk: the mean of the reads done since the last call, or, if none is, the delay of
    /// the latest so far. Zero if every waiting session has a helper: a disk that spins up is slow, but not shared by
    /// too many.
    pub fn read_delay(&mut self, now: Duration) -> Duration {
        let Loaded { count, delay } = std::mem::take(&mut self.loaded);
        if self.loads.len() <= self.helper_count {
            return Duration::ZERO;
        }
        let first_due = self.loads.values().map(|load| load.due).min().unwrap_or(now);
        delay.checked_div(count).unwrap_or_else(|| now.saturating_sub(first_due))
    }

    /// The number of films whose index is in memory.
    pub fn film_count(&self) -> usize {
        self.films.len()
    }

    fn opened(
        &mut self,
        path: SitePath<'static>,
        before: Option<OpenFilm>,
        opened: Result<Opened, OpenError>,
        now: Duration,
    ) -> Result<OpenFilm, FilmError> {
        let document = match opened {
            Ok(Opened::Document(document, _)) => document,
            Ok(Opened::Directory) | Err(OpenError::NotFound) => return Err(FilmError::NotFound),
            Err(OpenError::Forbidden) => return Err(FilmError::Forbidden),
            Err(OpenError::Busy) => return Err(FilmError::Busy),
            Err(OpenError::Failed(_) | OpenError::Unavailable | OpenError::TimedOut) => {
                return Err(FilmError::Failed);
            }
        };
        if let Some(known) = self.films.get_mut(&path)
            && known.open.document.id == document.id
        {
            (known.checked, known.used) = (now, now);
            return Ok(known.open.clone());
        }
        self.films.remove(&path);
        let open = match before {
            // The same document has been replaced in the cache meanwhile.
            Some(before) if before.document.id == document.id => before,
            _ => {
                let film = self.catalogue.take(document.id).ok_or(FilmError::Unsupported)?;
                OpenFilm { film, document }
            }
        };
        if self.films.len() >= self.films_max {
            self.forget_one();
        }
        self.films.insert(path, Known { open: open.clone(), checked: now, used: now });
        Ok(open)
    }

    /// Drops the least recently requested film.
    fn forget_one(&mut self) {
        let oldest = self.films.iter().min_by_key(|(_, known)| known.used).map(|(path, _)| path.clone());
        if let Some(path) = oldest {
            self.films.remove(&path);
        }
    }
}

/// The chunk at `offset`, cut at the end of the file.
fn range(document: &Arc<Document>, offset: u64, into_memory: bool) -> FileRange {
    let length = document.chunk_bytes().min(document.size.saturating_sub(offset)) as usize;
    FileRange { document: Arc::clone(document), offset, length, into_memory }
}

/// The origin that helpers use: opening a file also reads its index.
struct Catalogue {
    directory: Directory,
    read: Mutex<Read>,
}

/// Indexes read but not collected yet, by document.
#[derive(Default)]
struct Read {
    films: HashMap<u64, Arc<Film>>,
    warnings: u64,
}

impl Catalogue {
    fn new(directory: Directory) -> Catalogue {
        Catalogue { directory, read: Mutex::default() }
    }

    fn take(&self, document: u64) -> Option<Arc<Film>> {
        self.lock().films.remove(&document)
    }

    fn lock(&self) -> MutexGuard<'_, Read> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_index(&self, document: &mut Arc<Document>) {
        let read_at = |offset, into: &mut [u8]| self.directory.read(document, offset, into);
        match Index::read(document.size, read_at) {
            Ok(index) => {
                let film = Arc::new(Film::new(index));
                if let Some(Body::File { chunk_bytes, .. }) = Arc::get_mut(document).map(|it| &mut it.body) {
                    *chunk_bytes = film.chunk_bytes();
                }
                self.lock().films.insert(document.id, film);
            }
            Err(error) => {
                let mut read = self.lock();
                read.warnings += 1;
                if read.warnings <= WARNINGS_MAX {
                    let path = document.file_path.escape_ascii();
                    // `eprintln` panics where nobody reads it any more.
                    let _ = writeln!(io::stderr(), "warning: {path} cannot be streamed: {error}");
                }
            }
        }
    }
}

impl Origin for Catalogue {
    fn open(&self, resource: &Resource<'_>) -> Result<Found, OpenError> {
        let mut found = self.directory.open(resource)?;
        if let Found::Document(document) = &mut found {
            self.read_index(document);
        }
        Ok(found)
    }

    fn is_current(&self, resource: &Resource<'_>, document: &Document) -> bool {
        self.directory.is_current(resource, document)
    }

    fn read(&self, document: &Document, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.directory.read(document, offset, into)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use sojourn_media::mp4::example;

    #[test]
    fn a_delay_is_that_of_sessions_that_queue_for_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("film.mp4"), example::film()).unwrap();
        let settings = Settings { helpers: 1, ..Settings::default() };
        let mut films = FilmCache::open(folder.path(), &settings).unwrap();
        let path = SitePath::decode(b"/film.mp4").unwrap();
        assert!(films.film(&path, 7, Duration::ZERO).is_none());
        let began = Instant::now();
        let open = loop {
            assert!(began.elapsed() < Duration::from_secs(30));
            let mut outcomes = films.collect(Duration::ZERO, &mut Counts::default());
            if let Some((7, Outcome::Film(film))) = outcomes.pop() {
                break film.unwrap();
            }
        };
        let wait = |films: &mut FilmCache, token, due| {
            let load = Load { document: Arc::clone(&open.document), offset: 0, due };
            films.loads.insert(token, load);
        };
        let seconds = Duration::from_secs;
        assert_eq!(films.read_delay(seconds(10)), Duration::ZERO);
        wait(&mut films, 1, seconds(4));
        assert_eq!(films.read_delay(seconds(10)), Duration::ZERO, "it has the helper to itself");
        wait(&mut films, 2, seconds(7));
        assert_eq!(films.read_delay(seconds(10)), seconds(6), "nothing comes");
        films.loaded = Loaded { count: 2, delay: seconds(1) };
        assert_eq!(films.read_delay(seconds(10)), seconds(1) / 2);
        assert_eq!(films.read_delay(seconds(11)), seconds(7), "only what came since");
    }
}
