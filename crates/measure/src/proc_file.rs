//! Reads small files of /proc and /sys; errors name the file.

use std::{
    cell::RefCell,
    collections::HashMap,
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
};

pub(crate) fn read(path: &str) -> io::Result<String> {
    fs::read_to_string(path).map_err(|error| named(path, &error))
}

/// The most files that a thread keeps open.
const KEPT_MAX: usize = 1024;

thread_local! {
    static KEPT: RefCell<HashMap<String, File>> = RefCell::new(HashMap::new());
}

/// Reads a file of at most one page and keeps it open, because opening costs five times as much as reading. For files
/// that are read many times a second for each of hundreds of threads.
pub(crate) fn read_kept(path: &str) -> io::Result<String> {
    KEPT.with_borrow_mut(|kept| {
        if let Some(file) = kept.get(path) {
            match page(file) {
                Ok(text) => return Ok(text),
                // The process has ended, and its ID may have been reused.
                Err(_) => drop(kept.remove(path)),
            }
        }
        let file = File::open(path).map_err(|error| named(path, &error))?;
        let text = page(&file).map_err(|error| named(path, &error))?;
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(path.to_owned(), file);
        Ok(text)
    })
}

fn page(file: &File) -> io::Result<String> {
    let mut bytes = [0; 4096];
    let length = file.read_at(&mut bytes, 0)?;
    String::from_utf8(bytes[..length].to_vec()).map_err(io::Error::other)
}

fn named(path: &str, error: &io::Error) -> io::Error {
    // A process that ends between opening and reading counts as ended.
    let is_gone = error.raw_os_error() == Some(libc::ESRCH);
    let kind = if is_gone { io::ErrorKind::NotFound } else { error.kind() };
    io::Error::new(kind, format!("{path}: {error}"))
}

/// An error for a file that lacks an expected entry.
pub(crate) fn missing_entry(path: &str, what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{path} has no {what}"))
}

#[cfg(test)]
mod tests {
    use std::{process::Command, thread, time::Duration};

    use super::*;

    #[test]
    fn a_file_that_stays_open_is_read_anew_and_one_that_is_gone_is_not_found() {
        let uptime = || read_kept("/proc/uptime").unwrap();
        let before = uptime();
        thread::sleep(Duration::from_millis(30));
        assert_ne!(before, uptime());
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let path = format!("/proc/{0}/task/{0}/schedstat", child.id());
        assert!(read_kept(&path).is_ok());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(read_kept(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
