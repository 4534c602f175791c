//! The cache directory: creates and opens the files of objects without touching any others.
//!
//! An object is the file `ab/ab…`: its name is the key's hash in 32 hexadecimal digits, in a directory named after the
//! first two. It is written below `temporary/` under a lock and renamed when complete, so a file with an object's name
//! was once complete. Other files are left alone, and links are not followed.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{io, process};

use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

const TEMPORARY: &str = "temporary";
/// Locked by the process that owns the directory.
const LOCK: &str = "lock";
const BLOCK_BYTES: u64 = 512;

/// How often creating a temporary file is tried; a starting process may remove one before it is locked.
const TEMPORARY_ATTEMPTS_MAX: usize = 8;

/// The number of directories over which objects are spread.
pub const FANOUT: u32 = 256;

#[derive(Debug)]
pub struct Directory {
    root: OwnedFd,
    lock: OwnedFd,
    temporaries: AtomicU64,
}

/// A file being written, removed on drop unless it was published.
#[derive(Debug)]
pub struct Temporary {
    directory: Arc<Directory>,
    name: Option<String>,
}

impl Directory {
    /// Opens `path`, creating it with access for its owner only.
    pub fn open(path: &Path) -> io::Result<Directory> {
        if let Err(error) = std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700)
            .recursive(true)
            .create(path)
        {
            return Err(io::Error::new(error.kind(), format!("{}: {error}", path.display())));
        }
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let root = rustix::fs::open(path, flags, Mode::empty())?;
        for name in (0..FANOUT).map(fanout).chain([TEMPORARY.to_owned()]) {
            match rustix::fs::mkdirat(&root, &name, Mode::RWXU) {
                Ok(()) => continue,
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            let found = rustix::fs::statat(&root, &name, AtFlags::SYMLINK_NOFOLLOW)?;
            if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
                let message = format!("{}/{name} exists and is not a directory", path.display());
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
            }
        }
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let lock = rustix::fs::openat(&root, LOCK, flags, Mode::RUSR | Mode::WUSR)?;
        Ok(Directory { root, lock, temporaries: AtomicU64::new(0) })
    }

    /// Tries to lock the directory for this process until it ends; true if that succeeded.
    pub fn lock(&self) -> bool {
        rustix::fs::flock(&self.lock, FlockOperation::NonBlockingLockExclusive).is_ok()
    }

    pub fn open_object(&self, hash: u128, is_to_write: bool) -> Result<File, Errno> {
        let access = if is_to_write { OFlags::RDWR } else { OFlags::RDONLY };
        // NONBLOCK: opening must not wait for someone's FIFO of that name.
        let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = rustix::fs::openat(&self.root, name(hash), flags, Mode::empty())?;
        let found = rustix::fs::fstat(&file)?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => Ok(file.into()),
            _ => Err(Errno::NOENT),
        }
    }

    /// A new locked file. A process that is just starting may take it for abandoned and remove it before it is locked;
    /// then another is created.
    pub fn temporary(self: &Arc<Self>) -> Result<(Temporary, File), Errno> {
        for _ in 1..TEMPORARY_ATTEMPTS_MAX {
            match self.try_temporary() {
                Ok(None) | Err(Errno::WOULDBLOCK) => {}
                Ok(Some(made)) => return Ok(made),
                Err(error) => return Err(error),
            }
        }
        self.try_temporary()?.ok_or(Errno::NOENT)
    }

    /// A new locked file; `None` if it was removed before it was locked.
    fn try_temporary(self: &Arc<Self>) -> Result<Option<(Temporary, File)>, Errno> {
        let number = self.temporaries.fetch_add(1, Ordering::Relaxed);
        let name = format!("{TEMPORARY}/{}-{number}", process::id());
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDWR;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = match rustix::fs::openat(&self.root, &name, flags, mode) {
            // Left by an earlier process with the same ID.
            Err(Errno::EXIST) => {
                rustix::fs::unlinkat(&self.root, &name, AtFlags::empty())?;
                rustix::fs::openat(&self.root, &name, flags, mode)?
            }
            outcome => outcome?,
        };
        let temporary = Temporary { directory: Arc::clone(self), name: Some(name) };
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let has_name = rustix::fs::fstat(&file)?.st_nlink > 0;
        Ok(has_name.then(|| (temporary, file.into())))
    }

    pub fn remove(&self, hash: u128) -> Result<(), Errno> {
        rustix::fs::unlinkat(&self.root, name(hash), AtFlags::empty())
    }

    /// The objects in directory `number`: hash, allocated bytes, time of the last change.
    pub fn list(&self, number: u32) -> Result<Vec<(u128, u64, i64)>, Errno> {
        let mut objects = Vec::new();
        for (name, found) in self.entries(&fanout(number))? {
            if let Some(hash) = parse(&name).filter(|hash| (hash >> 120) as u32 == number) {
                objects.push((hash, allocated(&found), found.st_mtime));
            }
        }
        Ok(objects)
    }

    /// Removes the files of writers that have ended; returns how many.
    pub fn clear_temporaries(&self) -> Result<u64, Errno> {
        let mut cleared = 0;
        for (name, _) in self.entries(TEMPORARY)? {
            let path = format!("{TEMPORARY}/{name}");
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
            let Ok(file) = rustix::fs::openat(&self.root, &path, flags, Mode::empty()) else { continue };
            let is_ours =
                name.split_once('-').is_some_and(|(pid, number)| is_number(pid) && is_number(number));
            if is_ours && rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                cleared += u64::from(rustix::fs::unlinkat(&self.root, &path, AtFlags::empty()).is_ok());
            }
        }
        Ok(cleared)
    }

    fn entries(&self, directory: &str) -> Result<Vec<(String, rustix::fs::Stat)>, Errno> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY | OFlags::NOFOLLOW;
        let opened = rustix::fs::openat(&self.root, directory, flags, Mode::empty())?;
        let mut entries = Vec::new();
        for entry in Dir::read_from(&opened)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            let Ok(found) = rustix::fs::statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            if FileType::from_raw_mode(found.st_mode) == FileType::RegularFile {
                entries.push((name.to_owned(), found));
            }
        }
        Ok(entries)
    }
}

impl Temporary {
    /// Renames the complete file to the object's name, replacing an older one.
    pub fn publish(mut self, hash: u128) -> Result<(), Errno> {
        let root = &self.directory.root;
        rustix::fs::renameat(root, self.name.as_deref().unwrap_or_default(), root, name(hash))?;
        self.name = None;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = rustix::fs::unlinkat(&self.directory.root, name, AtFlags::empty());
        }
    }
}

pub fn allocated_bytes(file: &File) -> Result<u64, Errno> {
    rustix::fs::fstat(file).map(|found| allocated(&found))
}

fn allocated(found: &rustix::fs::Stat) -> u64 {
    found.st_blocks as u64 * BLOCK_BYTES
}

fn fanout(number: u32) -> String {
    format!("{number:02x}")
}

fn name(hash: u128) -> String {
    format!("{:02x}/{hash:032x}", hash >> 120)
}

fn parse(name: &str) -> Option<u128> {
    let is_ours = name.len() == 32 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_ours.then(|| u128::from_str_radix(name, 16).ok()).flatten()
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
