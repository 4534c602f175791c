//! The root of a site, and how paths are resolved below it.
//!
//! The kernel resolves (`openat2`), so that neither `..` nor a symbolic link leads where it must not, however files
//! are moved meanwhile. Kernels and sandboxes without `openat2` get a walk, component by component, that follows no
//! links at all; where all links are followed, nothing needs watching and `openat` does. Nothing here allocates:
//! helper processes call it.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Stat, open, openat, openat2, statat};
use rustix::io::Errno;

use crate::rules::Links;

/// Tries when `openat2` reports a race with a rename (`EAGAIN`).
const RACES_MAX: usize = 8;

/// Without `NONBLOCK` opening a FIFO would wait for its writer; it has no effect on regular files.
pub const READING: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC).union(OFlags::NOCTTY);

/// Flags for stat without opening.
pub const LOOKING: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// The longest name of a file: longer ones need not be tried, which would allocate.
const NAME_BYTES_MAX: usize = 255;

/// Lookups that may wait for the disk, and lookups that may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockingMode {
    /// It may wait.
    Disk,
    /// Only names that the kernel has cached; otherwise the result is `EAGAIN`.
    Memory,
}

#[derive(Debug)]
pub struct Root {
    fd: OwnedFd,
    links: Links,
    kernel_resolves: bool,
}

impl Root {
    /// Opens the directory at `path`.
    pub fn open(path: &Path, links: Links) -> io::Result<Root> {
        let fd = open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        // Listing is not needed to serve, but searching is: find out now, not at the first request.
        statat(&fd, ".", AtFlags::empty())?;
        rustix::fs::accessat(&fd, ".", rustix::fs::Access::EXEC_OK, AtFlags::EACCESS)?;
        let kernel_resolves = openat2(&fd, ".", LOOKING, Mode::empty(), ResolveFlags::BENEATH).is_ok();
        Ok(Root { fd, links, kernel_resolves })
    }

    /// Opens `path` below it.
    pub fn open_below(&self, path: &CStr, flags: OFlags, mode: BlockingMode) -> Result<OwnedFd, Errno> {
        match (self.kernel_resolves, mode, self.links) {
            (true, BlockingMode::Disk, _) => self.resolve(path, flags),
            (true, BlockingMode::Memory, _) => {
                let resolution = self.resolution() | ResolveFlags::CACHED;
                let opened = openat2(&self.fd, path, flags, Mode::empty(), resolution);
                // INVAL: before Linux 5.12. In all these cases another attempt will tell.
                opened.map_err(
                    |error| if matches!(error, Errno::INTR | Errno::INVAL) { Errno::AGAIN } else { error },
                )
            }
            (false, BlockingMode::Memory, _) => Err(Errno::AGAIN),
            (false, BlockingMode::Disk, Links::Any) => openat(&self.fd, path, flags, Mode::empty()),
            (false, BlockingMode::Disk, Links::Inside | Links::None) => self.walk(path.to_bytes(), flags),
        }
    }

    /// The state of `path`. Only for comparison, never served: it follows links wherever they lead.
    pub fn look_at(&self, path: &[u8]) -> Result<Stat, Errno> {
        statat(&self.fd, path, AtFlags::empty())
    }

    /// The same root as on a system without `openat2`.
    #[cfg(test)]
    pub fn without_openat2(self) -> Root {
        Root { kernel_resolves: false, ..self }
    }

    fn resolution(&self) -> ResolveFlags {
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        match self.links {
            Links::Inside => beneath,
            Links::None => beneath | ResolveFlags::NO_SYMLINKS,
            Links::Any => ResolveFlags::NO_MAGICLINKS,
        }
    }

    fn resolve(&self, path: &CStr, flags: OFlags) -> Result<OwnedFd, Errno> {
        for _ in 0..RACES_MAX {
            match openat2(&self.fd, path, flags, Mode::empty(), self.resolution()) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                outcome => return outcome,
            }
        }
        Err(Errno::AGAIN)
    }

    fn walk(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let (parents, name) = match path.iter().rposition(|byte| *byte == b'/') {
            // The root itself, or a directory by its trailing slash.
            Some(slash) if slash + 1 == path.len() => (&path[..slash], b".".as_slice()),
            Some(slash) => (&path[..slash], &path[slash + 1..]),
            None => (&path[..0], path),
        };
        let mut parent: Option<OwnedFd> = None;
        for step in parents.split(|byte| *byte == b'/').filter(|step| !step.is_empty()) {
            if step.len() > NAME_BYTES_MAX {
                return Err(Errno::NAMETOOLONG);
            }
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            parent = Some(openat(parent.as_ref().unwrap_or(&self.fd), step, flags, Mode::empty())?);
        }
        if name.len() > NAME_BYTES_MAX {
            return Err(Errno::NAMETOOLONG);
        }
        openat(parent.as_ref().unwrap_or(&self.fd), name, flags | OFlags::NOFOLLOW, Mode::empty())
    }
}

impl AsFd for Root {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
