//! Films as HLS: an origin that adds playlists and segments to the films of another.
//!
//! `film.mp4/index.m3u8` is generated from `film.mp4` on request. The result is a document in memory, with entity tags,
//! ranges and caching like any other. An existing file with such a name takes precedence.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::io::Errno;
use sojourn_content::{
    Directory, Document, Extract, Found, HostId, Identity, Lru, MemoryBudget, MemoryFile, OpenError, Origin,
    OriginCounts, Resource, Source, Weight,
};
use sojourn_http::media::{EXTENSION_BYTES_MAX, extension};

use sojourn_media::hls::{Film, Part, Segment};
use sojourn_media::mp4::Index;

use crate::stderr;

/// Extensions of files that may be films.
const EXTENSIONS: [&[u8]; 4] = [b"mp4", b"m4v", b"m4a", b"mov"];

/// The memory budget for film indexes.
const INDEX_BYTES_MAX: usize = 64 << 20;

/// The memory budget for generated parts per process. Above it, clients are asked to retry later.
const PARTS_BYTES_MAX: u64 = 256 << 20;

/// How many parts in use are tracked: more than fit into [`PARTS_BYTES_MAX`] at 64 KiB.
const PARTS_MAX: usize = 4096;

/// The overhead of an index in the cache.
const ENTRY_BYTES: usize = 256;

/// Bytes of a file copied at a time. Of a remote film, a chunk is.
const COPY_BYTES: usize = 256 << 10;

/// Must change when a new version of this program generates different bytes from the same film.
const FORMAT: &str = "hls2";

/// A site's films, as files and as HLS.
pub struct Films {
    files: Arc<dyn Origin>,
    /// By host number, whether its films are offered as HLS.
    offered: Vec<bool>,
    /// Indexes of films by version, including films that were refused.
    known: Mutex<Lru<Identity, Option<Arc<Film>>>>,
    /// Parts in use: concurrent requests share a generated part.
    parts: Mutex<Lru<(HostId, Identity, Part), Weak<Document>>>,
    memory: MemoryBudget,
}

impl Films {
    /// Serves `files`, and their films as HLS for the hosts in `offered`.
    pub fn new(files: Arc<dyn Origin>, offered: Vec<bool>) -> Films {
        Films::within(PARTS_BYTES_MAX, files, offered)
    }

    /// The same, with a budget of `parts_bytes_max` for generated parts.
    fn within(parts_bytes_max: u64, files: Arc<dyn Origin>, offered: Vec<bool>) -> Films {
        let budget = Weight { bytes: INDEX_BYTES_MAX, count: usize::MAX };
        let parts = Weight { bytes: usize::MAX, count: PARTS_MAX };
        Films {
            files,
            offered,
            known: Mutex::new(Lru::new(budget)),
            parts: Mutex::new(Lru::new(parts)),
            memory: MemoryBudget::new(parts_bytes_max),
        }
    }

    /// The film and the part of it that `resource` names.
    fn asked<'a>(&self, resource: &'a Resource<'_>) -> Option<(Resource<'a>, Part)> {
        if !self.offered[usize::from(resource.host.0)] {
            return None;
        }
        let (film, name) = resource.path.split_last()?;
        let part = Part::named(std::str::from_utf8(name).ok()?)?;
        let mut buffer = [0; EXTENSION_BYTES_MAX];
        let is_film = extension(film.as_bytes(), &mut buffer).is_some_and(|it| EXTENSIONS.contains(&it));
        is_film.then_some((Resource { host: resource.host, path: film }, part))
    }

    fn make(&self, resource: &Resource<'_>, part: Part) -> Result<Found, OpenError> {
        let file = match self.files.open(resource)? {
            Found::Document(file) | Found::Loaded(file, _) if file.source == Source::File => file,
            _ => return Err(OpenError::NotFound),
        };
        let key = (resource.host, file.identity, part);
        if let Some(document) = lock(&self.parts).get(&key).and_then(|document| document.upgrade())
            && document.file_path == file.file_path
        {
            return Ok(Found::Document(document));
        }
        let document = self.extract(resource, &file, part)?;
        lock(&self.parts).insert(key, Arc::downgrade(&document), Weight { bytes: 0, count: 1 });
        Ok(Found::Document(document))
    }

    fn extract(
        &self,
        resource: &Resource<'_>,
        file: &Document,
        part: Part,
    ) -> Result<Arc<Document>, OpenError> {
        let film = self.film(file).ok_or(OpenError::NotFound)?;
        let segment = match part {
            Part::Playlist => Segment { head: film.playlist().into_bytes(), ranges: Vec::new() },
            Part::Initialisation => Segment { head: film.initialisation(), ranges: Vec::new() },
            Part::Segment(number) => film.segment(number).ok_or(OpenError::NotFound)?,
        };
        let share = self.memory.take(segment.size()).ok_or(OpenError::Busy)?;
        let mut content = MemoryFile::new("hls").map_err(failure)?;
        content.append(&segment.head).map_err(failure)?;
        self.copy(file, &segment.ranges, &mut content)?;
        let (name, tag) = (part.name(), format!("{FORMAT}-{}", part.name()));
        let extract = Extract { content, share, name: &name, tag: &tag, media_type: part.media_type() };
        self.files.extract(resource, file, extract)
    }

    /// The film in `file`; `None` if it is refused, which is logged the first time.
    fn film(&self, file: &Document) -> Option<Arc<Film>> {
        if let Some(film) = lock(&self.known).get(&file.identity) {
            return film.clone();
        }
        let film = match self.read_film(file) {
            Ok(film) => Some(Arc::new(film)),
            Err(reason) => {
                stderr::write(&format!("not served as HLS: {}: {reason}\n", file.file_path.escape_ascii()));
                None
            }
        };
        let bytes = ENTRY_BYTES + film.as_ref().map_or(0, |film| film.memory_bytes());
        lock(&self.known).insert(file.identity, film.clone(), Weight { bytes, count: 1 });
        film
    }

    fn read_film(&self, file: &Document) -> Result<Film, String> {
        let mut reader = Reader::new(&*self.files, file);
        let index = Index::read(file.size, |offset, into| reader.read(offset, into));
        Film::new(index.map_err(|error| error.to_string())?).map_err(|error| error.to_string())
    }

    fn copy(
        &self,
        file: &Document,
        ranges: &[Range<u64>],
        content: &mut MemoryFile,
    ) -> Result<(), OpenError> {
        let mut buffer = vec![0; COPY_BYTES];
        let mut reader = Reader::new(&*self.files, file);
        for range in ranges {
            let mut offset = range.start;
            while offset < range.end {
                let wanted = COPY_BYTES.min((range.end - offset) as usize);
                let count = reader.read(offset, &mut buffer[..wanted]).map_err(|error| unreadable(&error))?;
                if count < wanted {
                    // The film was truncated after its index was read.
                    return Err(OpenError::NotFound);
                }
                content.append(&buffer[..count]).map_err(failure)?;
                offset += count as u64;
            }
        }
        Ok(())
    }
}

impl Origin for Films {
    fn open(&self, resource: &Resource<'_>) -> Result<Found, OpenError> {
        match (self.files.open(resource), self.asked(resource)) {
            (Err(OpenError::NotFound), Some((film, part))) => self.make(&film, part),
            (found, _) => found,
        }
    }

    fn open_now(&self, resource: &Resource<'_>) -> Option<Result<Found, OpenError>> {
        match self.asked(resource) {
            // Reading a film may need the disk.
            Some(_) => None,
            None => self.files.open_now(resource),
        }
    }

    fn directories(&self) -> &[Directory] {
        self.files.directories()
    }

    fn is_current(&self, resource: &Resource<'_>, document: &Document) -> bool {
        self.files.is_current(resource, document)
    }

    fn read(&self, document: &Document, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.files.read(document, offset, into)
    }

    fn counts(&self) -> Option<OriginCounts> {
        self.files.counts()
    }
}

/// Reads a film: of a remote one whole chunks, as each exchange costs a round trip.
struct Reader<'a> {
    origin: &'a dyn Origin,
    film: &'a Document,
    chunk: Vec<u8>,
    chunk_offset: u64,
}

impl<'a> Reader<'a> {
    fn new(origin: &'a dyn Origin, film: &'a Document) -> Reader<'a> {
        Reader { origin, film, chunk: Vec::new(), chunk_offset: 0 }
    }

    fn read(&mut self, mut offset: u64, into: &mut [u8]) -> io::Result<usize> {
        if self.film.file().is_some() {
            return self.origin.read(self.film, offset, into);
        }
        let mut filled = 0;
        while filled < into.len() && offset < self.film.size {
            let start = offset - offset % self.film.chunk_bytes();
            if self.chunk.is_empty() || start != self.chunk_offset {
                self.chunk.resize(self.film.chunk_bytes().min(self.film.size - start) as usize, 0);
                let count = self.origin.read(self.film, start, &mut self.chunk)?;
                self.chunk.truncate(count);
                self.chunk_offset = start;
            }
            let rest = self.chunk.get((offset - start) as usize..).unwrap_or_default();
            let count = rest.len().min(into.len() - filled);
            if count == 0 {
                break;
            }
            into[filled..filled + count].copy_from_slice(&rest[..count]);
            (filled, offset) = (filled + count, offset + count as u64);
        }
        Ok(filled)
    }
}

fn unreadable(error: &io::Error) -> OpenError {
    match error.kind() {
        io::ErrorKind::TimedOut => OpenError::TimedOut,
        io::ErrorKind::ConnectionAborted => OpenError::Unavailable,
        _ => OpenError::Failed(error.raw_os_error().unwrap_or(0)),
    }
}

/// Ignores poisoning: a cache is usable after a panic.
fn lock<T>(cache: &Mutex<T>) -> MutexGuard<'_, T> {
    cache.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failure(error: Errno) -> OpenError {
    match error {
        Errno::MFILE | Errno::NFILE | Errno::NOMEM => OpenError::Busy,
        other => OpenError::Failed(other.raw_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use sojourn_content::Rules;
    use sojourn_http::SitePath;
    use sojourn_media::mp4::example;

    use super::*;

    const SECONDS: u8 = 26;

    fn film() -> (Vec<u8>, Film) {
        let bytes = example::film_of_seconds(SECONDS);
        let film = Film::new(example::read(&bytes).unwrap()).unwrap();
        (bytes, film)
    }

    fn content(film: &[u8], segment: &Segment) -> Vec<u8> {
        let mut bytes = segment.head.clone();
        segment.ranges.iter().for_each(|range| bytes.extend(&film[range.start as usize..range.end as usize]));
        bytes
    }

    fn resource(target: &str) -> Resource<'static> {
        Resource { host: HostId::default(), path: SitePath::decode(target.as_bytes()).unwrap().into_owned() }
    }

    /// The bytes and the entity tag at `target`.
    fn served(films: &Films, target: &str) -> Result<(Vec<u8>, String), OpenError> {
        let Found::Document(document) = films.open(&resource(target))? else {
            panic!("{target} is a directory")
        };
        assert!(films.is_current(&resource(target), &document));
        let mut bytes = vec![0; document.size as usize];
        assert_eq!(films.read(&document, 0, &mut bytes).unwrap(), bytes.len());
        Ok((bytes, document.entity_tag.to_string()))
    }

    #[test]
    fn a_site_has_its_films_as_hls() {
        let (bytes, film) = film();
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("of 100%.mp4")).unwrap();
        fs::write(root.path().join("a 100%.mp4"), &bytes).unwrap();
        fs::write(root.path().join("of 100%.mp4/index.m3u8"), "mine").unwrap();
        fs::write(root.path().join("no.mp4"), "nonsense").unwrap();
        fs::write(root.path().join("film.txt"), &bytes).unwrap();
        let files = || Arc::new(Directory::new(root.path(), Rules::default()).unwrap());
        let films = Films::new(files(), vec![true]);
        let [playlist, initialisation, segment] = ["index.m3u8", "init.mp4", "1.m4s"]
            .map(|part| served(&films, &format!("/a%20100%25.mp4/{part}")).unwrap());
        assert_eq!(playlist.0, film.playlist().as_bytes());
        assert_eq!(initialisation.0, film.initialisation());
        assert_eq!(segment.0, content(&bytes, &film.segment(1).unwrap()));
        assert!(playlist.1 != initialisation.1 && initialisation.1 != segment.1);
        // Generated again it is the same, including its tag.
        assert_eq!(served(&Films::new(files(), vec![true]), "/a%20100%25.mp4/1.m4s"), Ok(segment));
        assert_eq!(served(&films, "/of%20100%25.mp4/index.m3u8").unwrap().0, b"mine");
        for absent in
            ["/a%20100%25.mp4/5.m4s", "/no.mp4/index.m3u8", "/film.txt/index.m3u8", "/none.mp4/init.mp4"]
        {
            assert_eq!(served(&films, absent), Err(OpenError::NotFound), "{absent}");
        }
        let without = Films::new(files(), vec![false]);
        assert_eq!(served(&without, "/a%20100%25.mp4/index.m3u8"), Err(OpenError::NotFound));
    }

    #[test]
    fn parts_go_when_their_film_does() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("film.mp4");
        fs::write(&path, example::film()).unwrap();
        let files = Arc::new(Directory::new(root.path(), Rules::default()).unwrap());
        let films = Films::new(files, vec![true]);
        let playlist = resource("/film.mp4/index.m3u8");
        let Ok(Found::Document(document)) = films.open(&playlist) else { panic!("a playlist") };
        assert!(films.is_current(&playlist, &document) && document.memory_bytes() > 0);
        fs::write(&path, example::film_of_seconds(SECONDS)).unwrap();
        assert!(!films.is_current(&playlist, &document));
        fs::remove_file(&path).unwrap();
        assert!(!films.is_current(&playlist, &document));
    }

    #[test]
    fn parts_are_made_once_for_all_who_have_them_and_within_a_budget() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("film.mp4"), example::film_of_seconds(SECONDS)).unwrap();
        let files = Arc::new(Directory::new(root.path(), Rules::default()).unwrap());
        let films = Films::within(30_000, files, vec![true]);
        let open = |number: u32| match films.open(&resource(&format!("/film.mp4/{number}.m4s"))) {
            Ok(Found::Document(document) | Found::Loaded(document, _)) => Ok(document),
            Ok(Found::Directory) => panic!("a directory"),
            Err(error) => Err(error),
        };
        let first = open(0).unwrap();
        assert!(first.size > 15_000 && first.size < 30_000);
        assert_eq!(open(0).unwrap().id, first.id);
        assert_eq!(open(1).unwrap_err(), OpenError::Busy);
        let id = first.id;
        drop(first);
        drop(open(1).unwrap());
        assert_ne!(open(0).unwrap().id, id, "nobody had it any more");
    }
}
