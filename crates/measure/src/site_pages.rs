//! Counts and drops the page-cache pages of a site's files.
//!
//! `cachestat` (Linux 6.5) reports a file without mapping it, and also recently evicted pages; older kernels use
//! `mincore`. The kernel answers correctly only to a file's owner and to processes that may write it; for others
//! `mincore` reports every page as resident. Such files are refused.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::ptr;

use rustix::fs::{Access, Advice, AtFlags, CWD, accessat, fadvise, syncfs};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::param::page_size;
use rustix::process::geteuid;

use crate::descriptors;

/// Files kept open at most, so that checking again costs one call each; others are opened every time.
const OPEN_FILES_MAX: usize = 4096;

/// The system call's number, the same on every architecture.
const CACHESTAT: libc::c_long = 451;

/// Pages per call of `mincore`.
const PAGES_MAX: usize = 4096;

/// The regular files below a folder.
#[derive(Debug)]
pub struct SitePages {
    files: Vec<SiteFile>,
    bytes: u64,
    has_cachestat: bool,
}

#[derive(Debug)]
struct SiteFile {
    path: PathBuf,
    open: Option<File>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Residency {
    pub resident_bytes: u64,
    /// Pages evicted so recently that more memory would have kept them; `None` without `cachestat`.
    pub recently_evicted_bytes: Option<u64>,
}

/// The kernel's `struct cachestat`.
#[repr(C)]
#[derive(Default)]
struct CacheStat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

impl SitePages {
    /// The regular files below `root` at this moment.
    ///
    /// # Errors
    /// If a folder cannot be read, or the kernel would not tell the truth about a file.
    pub fn of(root: &Path) -> io::Result<SitePages> {
        let mut site = SitePages { files: Vec::new(), bytes: 0, has_cachestat: true };
        site.add_below(root)?;
        if let Some(first) = site.files.first() {
            site.has_cachestat = first.with(|open| Ok(cachestat(open).is_ok()))?;
        }
        Ok(site)
    }

    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// The total size of the files.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes dirty pages to disk and drops all that no process has mapped.
    pub fn drop_pages(&self) -> io::Result<()> {
        // Syncs the whole file system at once: syncing single files makes the disk flush its cache for each, even for
        // clean ones.
        if let Some(first) = self.files.first() {
            first.with(|open| Ok(syncfs(open)?))?;
        }
        self.files.iter().try_for_each(|file| file.with(|open| Ok(fadvise(open, 0, None, Advice::DontNeed)?)))
    }

    pub fn measure(&self) -> io::Result<Residency> {
        let page = page_size() as u64;
        let mut found =
            Residency { recently_evicted_bytes: self.has_cachestat.then_some(0), ..Default::default() };
        for file in &self.files {
            let (cached, evicted) = file.with(|open| {
                if self.has_cachestat {
                    let stat = cachestat(open)?;
                    return Ok((stat.cached, stat.recently_evicted));
                }
                Ok((resident_pages(open)?, 0))
            })?;
            found.resident_bytes += cached * page;
            found.recently_evicted_bytes = found.recently_evicted_bytes.map(|bytes| bytes + evicted * page);
        }
        Ok(found)
    }

    fn add_below(&mut self, folder: &Path) -> io::Result<()> {
        for entry in fs::read_dir(folder).map_err(|error| named(folder, &error))? {
            let entry = entry?;
            // Links are not followed: their targets may be outside of the site, or already counted.
            let kind = entry.file_type()?;
            if kind.is_dir() {
                self.add_below(&entry.path())?;
            } else if kind.is_file() {
                self.add(entry.path())?;
            }
        }
        Ok(())
    }

    fn add(&mut self, path: PathBuf) -> io::Result<()> {
        let file = File::open(&path).map_err(|error| named(&path, &error))?;
        self.bytes += file.metadata().map_err(|error| named(&path, &error))?.len();
        may_be_asked_about(&path, &file)?;
        let is_kept = self.files.len() < descriptors::kept_files_max(OPEN_FILES_MAX);
        self.files.push(SiteFile { path, open: is_kept.then_some(file) });
        Ok(())
    }
}

impl SiteFile {
    fn with<T>(&self, act: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
        let outcome = match &self.open {
            Some(file) => act(file),
            None => File::open(&self.path).and_then(|file| act(&file)),
        };
        outcome.map_err(|error| named(&self.path, &error))
    }
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn may_be_asked_about(path: &Path, file: &File) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let is_owner = file.metadata().map_err(|error| named(path, &error))?.uid() == geteuid().as_raw();
    if is_owner || accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_ok() {
        return Ok(());
    }
    let message = format!(
        "{} belongs to another user: the kernel reports residency only to users who may write the file",
        path.display()
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
}

fn cachestat(file: &File) -> io::Result<CacheStat> {
    // Length 0 means to the end.
    let range = [0u64, 0];
    let mut stat = CacheStat::default();
    // SAFETY: range and result have the kernel's layout and live until the call returns.
    match unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), range.as_ptr(), &raw mut stat, 0) } {
        0 => Ok(stat),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Resident pages of the file, by `mincore` on a mapping without access.
fn resident_pages(file: &File) -> io::Result<u64> {
    let (length, window) = (file.metadata()?.len(), (PAGES_MAX * page_size()) as u64);
    let (mut at, mut count) = (0, 0);
    let mut pages = [0u8; PAGES_MAX];
    while at < length {
        let size = (length - at).min(window) as usize;
        // SAFETY: a new private mapping without read or write access.
        unsafe {
            let mapping = mmap(ptr::null_mut(), size, ProtFlags::empty(), MapFlags::SHARED, file, at)?;
            let asked = libc::mincore(mapping, size, pages.as_mut_ptr());
            let outcome = if asked == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
            munmap(mapping, size)?;
            outcome?;
        }
        count += pages[..size.div_ceil(page_size())].iter().filter(|&&page| page & 1 == 1).count() as u64;
        at += size as u64;
    }
    Ok(count)
}

/// Drops the page cache of the whole machine, which slows all its processes down.
///
/// # Errors
/// If the process is not root.
pub fn drop_all() -> io::Result<()> {
    rustix::fs::sync();
    fs::write("/proc/sys/vm/drop_caches", "1").map_err(|error| {
        let why = if geteuid().is_root() { error.to_string() } else { Errno::PERM.to_string() };
        io::Error::new(error.kind(), format!("cannot drop the machine's page cache: {why}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sojourn_testing::until;

    #[test]
    fn dropped_pages_are_not_resident_and_read_ones_are() {
        // Not on a file system that lives in memory.
        let root = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        fs::create_dir(root.path().join("inner")).unwrap();
        for name in ["one", "inner/two"] {
            fs::write(root.path().join(name), vec![7; 100_000]).unwrap();
        }
        let mut site = SitePages::of(root.path()).unwrap();
        assert_eq!((site.files(), site.bytes()), (2, 200_000));
        let page = page_size() as u64;
        let whole = 2 * 100_000u64.div_ceil(page) * page;
        for has_cachestat in [site.has_cachestat, false] {
            site.has_cachestat = has_cachestat;
            assert_eq!(site.measure().unwrap().resident_bytes, whole);
            // Pages being written at that moment stay until the next call.
            until("their pages are dropped (are they on a disk?)", || {
                site.drop_pages().unwrap();
                (site.measure().unwrap().resident_bytes == 0).then_some(())
            });
            fs::read(root.path().join("one")).unwrap();
            assert_eq!(site.measure().unwrap().resident_bytes, whole / 2);
            fs::read(root.path().join("inner/two")).unwrap();
        }
    }
}
