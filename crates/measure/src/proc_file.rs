//! Reads small files of /proc and /sys; errors name the file.

use std::{fs, io};

/// The whole text of a file.
pub(crate) fn read(path: &str) -> io::Result<String> {
    fs::read_to_string(path).map_err(|error| {
        // A process that ends between opening and reading is as gone as one that ended before.
        let is_gone = error.raw_os_error() == Some(libc::ESRCH);
        let kind = if is_gone { io::ErrorKind::NotFound } else { error.kind() };
        io::Error::new(kind, format!("{path}: {error}"))
    })
}

/// An error for a file that lacks what it should hold.
pub(crate) fn lacks(path: &str, what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{path} holds no {what}"))
}
