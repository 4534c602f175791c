//! Residency tests: is a range in the page cache, so that an event loop can send it without waiting for the disk?
//!
//! One file per test, one table. [`Answer::Unknown`] is treated as missing. Architectures use [`Tester`]: it tests,
//! counts, and trusts a recent answer.
//!
//! `cachestat` (Linux 6.5) is deliberately absent: it counts pages that are still being read. On a disk of 1 MiB/s it
//! reported 1 MiB as resident one second before the last byte had arrived, so a send would have waited for that second.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

mod mincore;
mod never;
mod nowait;
mod tester;

pub use mincore::Mincore;
pub use never::Never;
pub use nowait::Nowait;
pub use tester::{Absent, ResidencyCounts, TRUST, Tester};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Resident, as far as sampled.
    Resident,
    Missing,
    /// The file ends before the range: nothing to wait for.
    Truncated,
    Unknown,
}

/// A residency test, one row of [`ALL`].
pub trait Residency: Sync {
    /// The name on the command line.
    fn name(&self) -> &'static str;

    /// One line of help.
    fn summary(&self) -> &'static str;

    /// Tests whether `length` bytes at `offset` can be sent without waiting for a disk. If they are not `expected` to be
    /// resident, a test that makes the kernel read ahead may take longer, so that it reads a small document at once.
    fn test(&self, file: &dyn AsFd, offset: u64, length: usize, expected: bool) -> Answer;

    /// Reads all of `into` if that needs no waiting.
    fn read_now(&self, file: &dyn AsFd, offset: u64, into: &mut [u8]) -> Answer;

    /// Checks that the test works for `file`.
    fn probe(&self, file: &dyn AsFd) -> Result<(), Cause>;
}

/// Every residency test; the first is the default.
pub const ALL: &[&dyn Residency] = &[&Nowait, &Mincore, &Never];

/// The test called `name` in [`ALL`].
pub fn by_name(name: &str) -> Option<&'static dyn Residency> {
    ALL.iter().copied().find(|residency| residency.name() == name)
}

/// How many files below the root [`probe`] checks.
const PROBED_FILES_MAX: usize = 16;

/// Tries `residency` on some files directly below `root`. If other files behave differently, the answer for them is
/// [`Answer::Unknown`], which costs time but no correctness.
pub fn probe(residency: &dyn Residency, root: &Path) -> Result<(), Unavailable> {
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    // Opening anything else, such as a FIFO, might block.
    let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    for path in files.map(|entry| entry.path()).take(PROBED_FILES_MAX) {
        let Ok(file) = File::open(&path) else { continue };
        residency.probe(&file).map_err(|cause| Unavailable { name: residency.name(), path, cause })?;
    }
    Ok(())
}

/// A residency test that does not work for this site.
#[derive(Debug, thiserror::Error)]
#[error("the residency test {name} cannot tell what is in memory of {}: {cause}", path.display())]
pub struct Unavailable {
    name: &'static str,
    path: PathBuf,
    cause: Cause,
}

impl Unavailable {
    pub fn hint(&self) -> &'static str {
        match self.cause {
            Cause::NotOwner => {
                "use --residency nowait, which works for any user; or run the server as the files' owner"
            }
            Cause::Unsupported(_) => {
                "use --residency none, which sends everything that is not cached through a helper"
            }
        }
    }
}

/// Why a test does not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// `mincore` would report every page as resident.
    #[error(
        "the server neither owns the file nor may write it, so the kernel reports every page as resident"
    )]
    NotOwner,
    /// The kernel or the file system does not support it.
    #[error("{0}")]
    Unsupported(Errno),
}
