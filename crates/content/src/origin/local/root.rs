//! Resolves paths below the root of a site.
//!
//! The kernel resolves them (`openat2`), so neither `..` nor a symbolic link can leave the root, even while files are
//! being moved. Without `openat2` (older kernels, sandboxes) paths are walked component by component and no links are
//! followed. If all links may be followed, plain `openat` is used. Nothing here allocates, because helper processes
//! call it.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Stat, open, openat, openat2, statat};
use rustix::io::Errno;

use crate::rules::Links;

/// How often a lookup is retried when `openat2` reports a race with a rename (`EAGAIN`).
const RACES_MAX: usize = 8;

/// `NONBLOCK`: otherwise opening a FIFO would wait for its writer. It has no effect on regular files.
pub const READING: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC).union(OFlags::NOCTTY);

pub const LOOKING: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// The longest file name; longer ones are refused without trying.
const NAME_BYTES_MAX: usize = 255;

/// Whether a lookup may wait for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockingMode {
    Disk,
    /// Use only names cached by the kernel; otherwise the result is `EAGAIN`.
    Memory,
}

#[derive(Debug)]
pub struct Root {
    fd: OwnedFd,
    links: Links,
    kernel_resolves: bool,
}

impl Root {
    pub fn open(path: &Path, links: Links) -> io::Result<Root> {
        let fd = open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        // Check search permission now rather than at the first request; listing the directory is not needed.
        statat(&fd, ".", AtFlags::empty())?;
        rustix::fs::accessat(&fd, ".", rustix::fs::Access::EXEC_OK, AtFlags::EACCESS)?;
        let kernel_resolves = openat2(&fd, ".", LOOKING, Mode::empty(), ResolveFlags::BENEATH).is_ok();
        Ok(Root { fd, links, kernel_resolves })
    }

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

    /// The `stat` of `path`, only for comparisons: it follows all links, so the file must not be served.
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
            // The root itself, or a directory named with a trailing slash.
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
