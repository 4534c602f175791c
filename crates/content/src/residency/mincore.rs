//! `mincore` on a mapping, as Flash tested (USENIX ATC 1999, 5.7).
//!
//! The kernel tells the truth only to a file's owner and to processes that may write it. For others every page counts
//! as resident (`can_do_mincore` in mm/mincore.c), which would make AMPED wait like SPED. So the test is refused at
//! start for them, and answers "unknown" later. The mapping allows no access, so truncating the file cannot cause
//! SIGBUS.

use std::os::fd::{AsFd, AsRawFd};
use std::{io, ptr};

use rustix::fs::fstat;
use rustix::io::{Errno, pread};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::param::page_size;
use rustix::process::geteuid;

use super::{Answer, Cause, Residency};

/// Pages per call.
const PAGES_MAX: usize = 1024;

pub struct Mincore;

impl Residency for Mincore {
    fn name(&self) -> &'static str {
        "mincore"
    }

    fn summary(&self) -> &'static str {
        "mincore on a mapping, as Flash did; only for files that the server owns or may write"
    }

    fn test(&self, file: &dyn AsFd, offset: u64, length: usize, _expected: bool) -> Answer {
        if self.probe(file).is_err() {
            return Answer::Unknown;
        }
        let page = page_size() as u64;
        let (mut at, end) = (offset / page * page, offset + length as u64);
        while at < end {
            let window = (end - at).min(page * PAGES_MAX as u64);
            match is_resident(file, at, window as usize) {
                Ok(true) => at += window,
                Ok(false) if fstat(file).is_ok_and(|stat| (stat.st_size as u64) < end) => {
                    return Answer::Truncated;
                }
                Ok(false) => return Answer::Missing,
                Err(_) => return Answer::Unknown,
            }
        }
        Answer::Resident
    }

    fn read_now(&self, file: &dyn AsFd, offset: u64, into: &mut [u8]) -> Answer {
        match self.test(file, offset, into.len(), true) {
            Answer::Resident if pread(file, &mut *into, offset) == Ok(into.len()) => Answer::Resident,
            Answer::Resident => Answer::Truncated,
            other => other,
        }
    }

    fn probe(&self, file: &dyn AsFd) -> Result<(), Cause> {
        let owner = fstat(file).map_err(Cause::Unsupported)?.st_uid;
        if owner == geteuid().as_raw() || may_write(file) { Ok(()) } else { Err(Cause::NotOwner) }
    }
}

/// Returns true if all pages of `length` bytes at `offset` are in memory. The range must begin at a page and have at
/// most [`PAGES_MAX`] pages.
fn is_resident(file: &dyn AsFd, offset: u64, length: usize) -> Result<bool, Errno> {
    let mut pages = [0u8; PAGES_MAX];
    let count = length.div_ceil(page_size());
    debug_assert!(count <= PAGES_MAX, "the window has room for its pages");
    // SAFETY: a new private mapping without read or write access.
    unsafe {
        let mapping = mmap(ptr::null_mut(), length, ProtFlags::empty(), MapFlags::SHARED, file, offset)?;
        let asked = libc::mincore(mapping, length, pages.as_mut_ptr());
        let outcome = if asked == 0 { Ok(()) } else { Err(last_error()) };
        munmap(mapping, length)?;
        outcome?;
    }
    Ok(pages[..count].iter().all(|page| page & 1 == 1))
}

/// The kernel's own condition for telling the truth to a process that does not own the file.
fn may_write(file: &dyn AsFd) -> bool {
    let flags = libc::AT_EMPTY_PATH | libc::AT_EACCESS;
    // SAFETY: the path is an empty string that ends in a zero.
    unsafe { libc::faccessat(file.as_fd().as_raw_fd(), c"".as_ptr(), libc::W_OK, flags) == 0 }
}

fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::PermissionsExt;

    use rustix::process::Uid;
    use rustix::thread::set_thread_res_uid;
    use sojourn_testing::drop_pages;

    fn file() -> File {
        let (mut file, path) = tempfile::NamedTempFile::new().unwrap().into_parts();
        io::Write::write_all(&mut file, &[7; 200_000]).unwrap();
        File::open(path).unwrap()
    }

    #[test]
    fn pages_that_were_dropped_are_missing() {
        let file = file();
        assert_eq!(Mincore.test(&file, 0, 200_000, true), Answer::Resident);
        let mut bytes = [0; 1000];
        assert_eq!(Mincore.read_now(&file, 199_000, &mut bytes), Answer::Resident);
        assert_eq!(bytes, [7; 1000]);
        assert_eq!(Mincore.test(&file, 199_000, 20_000, true), Answer::Truncated);
        drop_pages(&file);
        assert_eq!(Mincore.test(&file, 0, 200_000, true), Answer::Missing);
        assert_eq!(Mincore.read_now(&file, 0, &mut bytes), Answer::Missing);
    }

    #[test]
    fn nothing_is_believed_about_the_files_of_others() {
        if !geteuid().is_root() {
            eprintln!("skipped: becoming somebody else needs root");
            return;
        }
        let file = file();
        file.set_permissions(std::fs::Permissions::from_mode(0o644)).unwrap();
        drop_pages(&file);
        let stranger = move || {
            let nobody = Uid::from_raw(65534);
            set_thread_res_uid(nobody, nobody, nobody).unwrap();
            assert_eq!(
                is_resident(&file, 0, 200_000),
                Ok(true),
                "the kernel tells strangers the truth by now"
            );
            assert_eq!(Mincore.probe(&file), Err(Cause::NotOwner));
            assert_eq!(Mincore.test(&file, 0, 200_000, true), Answer::Unknown);
        };
        std::thread::spawn(stranger).join().unwrap();
    }
}
