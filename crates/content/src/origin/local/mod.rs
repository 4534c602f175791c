//! A local directory as an origin: maps a path to a file below the root with its compressed copies, or to a listing.
//!
//! `root` resolves names, and `listing` shows directories. Lookups do not allocate, because helper processes do them too.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FileType, OFlags, Stat, fstat};
use rustix::io::{Errno, pread};
use sojourn_http::{Coding, SitePath};

use super::{Found, OpenError, Origin};
use crate::document::{Choice, Document, Extract, Identity, Source};
use crate::resource::Resource;
use crate::rules::Rules;

mod listing;
mod names;
mod root;
#[cfg(test)]
mod tests;

use names::Name;
pub(crate) use names::PATH_BYTES_MAX;
use root::{BlockingMode, READING, Root};

#[derive(Debug)]
pub struct Directory {
    root: Root,
    rules: Rules,
}

enum Target {
    File {
        file: OwnedFd,
        stat: Stat,
        name: Name,
        source: Source,
    },
    /// A directory with its trailing slash and no index file, to be listed.
    Listed {
        directory: OwnedFd,
        name: Name,
    },
    Directory,
}

impl Directory {
    /// Opens `root` under these rules.
    pub fn new(root: &Path, rules: Rules) -> io::Result<Directory> {
        Ok(Directory { root: Root::open(root, rules.links)?, rules })
    }

    pub(crate) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// Returns true unless `path` is hidden.
    pub(crate) fn shows(&self, path: &SitePath<'_>) -> bool {
        self.rules.shows_hidden || !path.is_hidden()
    }

    /// Performs all lookups that opening `path` would, so that the kernel caches them; calls `each` with the files.
    /// Does not allocate.
    pub(crate) fn look_up_all(&self, path: &[u8], mut each: impl FnMut(&OwnedFd, &Stat)) {
        match self.look_up(path, BlockingMode::Disk) {
            Ok(Target::File { file, stat, name, .. }) => {
                each(&file, &stat);
                let looks = self.uses_precompressed(name.as_bytes());
                for coding in Coding::ALL.iter().filter(|_| looks) {
                    let copy =
                        self.open_copy(name.as_bytes(), &Identity::of(&stat), *coding, BlockingMode::Disk);
                    if let Ok(Some((file, _, stat))) = &copy {
                        each(file, stat);
                    }
                }
            }
            Ok(Target::Listed { directory, name }) => {
                let _ = listing::each_entry(&self.root, &self.rules, &directory, &name, |_, _| true);
            }
            Ok(Target::Directory) | Err(_) => {}
        }
    }

    fn look_up(&self, path: &[u8], mode: BlockingMode) -> Result<Target, Errno> {
        if !path.is_empty() && !path.ends_with(b"/") {
            return self.look_up_file(&[path], Source::File, mode);
        }
        for (position, index) in self.rules.indexes.iter().enumerate() {
            match self.look_up_file(&[path, index], Source::Index(position), mode) {
                // A directory called index.html is ignored.
                Ok(Target::Directory) => {}
                Err(error) if refusal(error) == OpenError::NotFound => {}
                outcome => return outcome,
            }
        }
        if !self.rules.lists {
            return Err(Errno::NOENT);
        }
        if mode == BlockingMode::Memory {
            // There is no way to tell whether reading it would wait.
            return Err(Errno::AGAIN);
        }
        let name = Name::of(&[path]).ok_or(Errno::NAMETOOLONG)?;
        let directory = self.root.open_below(name.as_c_str(), READING | OFlags::DIRECTORY, mode)?;
        Ok(Target::Listed { directory, name })
    }

    fn look_up_file(&self, parts: &[&[u8]], source: Source, mode: BlockingMode) -> Result<Target, Errno> {
        let name = Name::of(parts).ok_or(Errno::NAMETOOLONG)?;
        let file = self.root.open_below(name.as_c_str(), READING, mode)?;
        let stat = fstat(&file)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(Target::File { file, stat, name, source }),
            FileType::Directory => Ok(Target::Directory),
            _ => Err(Errno::PERM),
        }
    }

    /// The copy of `original` in `coding` beside the file at `path`, if it is usable.
    fn open_copy(
        &self,
        path: &[u8],
        original: &Identity,
        coding: Coding,
        mode: BlockingMode,
    ) -> Result<Option<(OwnedFd, Name, Stat)>, Errno> {
        let Some(name) = Name::of(&[path, coding.suffix().as_bytes()]) else { return Ok(None) };
        let opened = match self.root.open_below(name.as_c_str(), READING, mode) {
            Err(Errno::AGAIN) if mode == BlockingMode::Memory => return Err(Errno::AGAIN),
            opened => opened,
        };
        // If anything is wrong with the copy, the original is served.
        let Ok(file) = opened else { return Ok(None) };
        let stat = fstat(&file)?;
        Ok(is_copy(&stat, original).then_some((file, name, stat)))
    }

    fn uses_precompressed(&self, path: &[u8]) -> bool {
        self.rules.precompressed.applies_to(self.rules.media_types.bare(path))
    }

    fn find(&self, path: &SitePath<'_>, mode: BlockingMode) -> Result<Found, Errno> {
        if !self.shows(path) {
            return Err(Errno::NOENT);
        }
        match self.look_up(path.as_bytes(), mode)? {
            Target::Directory => Ok(Found::Directory),
            Target::File { file, stat, name, source } => {
                let document = Document { source, ..Document::new(file, name.as_bytes(), &stat) };
                self.with_copies(self.described(document), mode).map(Found::Document)
            }
            Target::Listed { directory, name } => {
                let listed = listing::make(&self.root, &self.rules, &directory, &name, path)?;
                let [page, json] = listed.map(|document| self.described(document));
                let variants = [Arc::new(json)].into();
                Ok(Found::Document(Arc::new(Document { variants, ..page })))
            }
        }
    }

    /// Adds the fields that the rules give.
    fn described(&self, document: Document) -> Document {
        let rules = &self.rules;
        let media_type = match document.source {
            Source::Listing | Source::Extract => document.media_type,
            Source::File | Source::Index(_) => rules.media_types.of(&document.file_path),
        };
        let cache_control = rules.cache_control.of(&document.file_path);
        Document { media_type, cache_control, fields: Arc::clone(&rules.fields), ..document }
    }

    fn with_copies(&self, document: Document, mode: BlockingMode) -> Result<Arc<Document>, Errno> {
        let mut copies = Vec::new();
        if self.uses_precompressed(&document.file_path) {
            for coding in Coding::ALL {
                let copy = self.open_copy(&document.file_path, &document.identity, *coding, mode)?;
                copies.extend(copy.map(|(file, name, stat)| {
                    Arc::new(Document::new(file, name.as_bytes(), &stat).into_copy(&document, *coding))
                }));
            }
        }
        let choice = if copies.is_empty() { Choice::None } else { Choice::AcceptEncoding };
        Ok(Arc::new(Document { choice, variants: copies.into(), ..document }))
    }

    /// Returns true if the compressed copies of `document` are unchanged.
    fn has_current_copies(&self, document: &Document) -> bool {
        let is_there = |coding: &Coding| {
            let path = [&document.file_path, coding.suffix().as_bytes()].concat();
            let stat = self.root.look_at(&path).ok().filter(|stat| is_copy(stat, &document.identity));
            let known = document.variants.iter().find(|copy| copy.coding == Some(*coding));
            stat.map(|stat| Identity::of(&stat)) == known.map(|copy| copy.identity)
        };
        !self.uses_precompressed(&document.file_path) || Coding::ALL.iter().all(is_there)
    }

    /// Returns true if the index file number `position` is still the first one that exists in the directory.
    fn is_first_index(&self, resource: &Resource<'_>, position: usize) -> bool {
        let is_absent = |index: &[u8]| {
            let stat = self.root.look_at(&[resource.path.as_bytes(), index].concat());
            !stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_file())
        };
        self.rules.indexes[..position].iter().all(|index| is_absent(index))
    }
}

impl Origin for Directory {
    fn open(&self, resource: &Resource<'_>) -> Result<Found, OpenError> {
        self.find(&resource.path, BlockingMode::Disk).map_err(refusal)
    }

    fn open_now(&self, resource: &Resource<'_>) -> Option<Result<Found, OpenError>> {
        match self.find(&resource.path, BlockingMode::Memory) {
            Err(Errno::AGAIN) => None,
            found => Some(found.map_err(refusal)),
        }
    }

    fn directories(&self) -> &[Directory] {
        std::slice::from_ref(self)
    }

    fn is_current(&self, resource: &Resource<'_>, document: &Document) -> bool {
        let is_same = || {
            let stat = self.root.look_at(&document.file_path);
            stat.is_ok_and(|stat| Identity::of(&stat) == document.identity)
        };
        match document.source {
            // Any file that it lists may have changed; making it again is cheap.
            Source::Listing => false,
            Source::Extract => is_same(),
            Source::File => is_same() && self.has_current_copies(document),
            Source::Index(position) => {
                is_same() && self.has_current_copies(document) && self.is_first_index(resource, position)
            }
        }
    }

    fn read(&self, document: &Document, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        match document.file() {
            Some(file) => read(file, offset, into),
            None => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn extract(
        &self,
        _resource: &Resource<'_>,
        file: &Document,
        extract: Extract<'_>,
    ) -> Result<Arc<Document>, OpenError> {
        let cache_control = self.rules.cache_control.of(extract.name.as_bytes());
        let document = file.extract(extract).map_err(refusal)?;
        Ok(Arc::new(Document { cache_control, ..self.described(document) }))
    }
}

/// Reads `file` at `offset` until `into` is full or the file ends; returns the number of bytes read.
pub(super) fn read(file: BorrowedFd<'_>, offset: u64, into: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < into.len() {
        match pread(file, &mut into[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(filled)
}

/// Returns true if the file in `stat` is a usable compressed copy of `original`: not older, and not left empty by a
/// failed compressor. Times are compared in whole seconds, because archives and many compressors keep only those.
fn is_copy(stat: &Stat, original: &Identity) -> bool {
    FileType::from_raw_mode(stat.st_mode).is_file()
        && stat.st_size > 0
        && stat.st_mtime >= original.modified_seconds()
}

fn refusal(error: Errno) -> OpenError {
    match error {
        // XDEV: a link or `..` led outside of the root, which must look like a missing file.
        Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::LOOP | Errno::XDEV | Errno::INVAL => {
            OpenError::NotFound
        }
        Errno::ACCESS | Errno::PERM | Errno::NXIO | Errno::NODEV => OpenError::Forbidden,
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN => OpenError::Busy,
        other => OpenError::Failed(other.raw_os_error()),
    }
}
