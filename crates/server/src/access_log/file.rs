//! The log file: appends whole lines and reopens after rotation.
//!
//! The directory may belong to a user who is less trusted than the one who opens the file; a link there could point to
//! any of that user's files, so links are refused.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use crate::counters::scoreboard::Scoreboard;
use crate::stderr;

/// Requests and addresses are private to the user and group.
const MODE: u32 = 0o640;

/// An open log file, with the path for reopening it.
#[derive(Debug)]
pub struct LogFile {
    file: File,
    /// Its path, and the scoreboard that tells all processes to reopen it.
    source: (PathBuf, Scoreboard),
    reopening: u64,
}

impl LogFile {
    /// Opens `path` for appending; it is reopened when that is [requested](Scoreboard::request_reopening) on
    /// `scoreboard`.
    pub fn open(path: &Path, scoreboard: &Scoreboard) -> io::Result<LogFile> {
        let reopening = scoreboard.reopenings();
        let file = open(path)?;
        Ok(LogFile { file, source: (path.to_owned(), scoreboard.clone()), reopening })
    }

    /// Gives the file to a user who will reopen it later, unless they own it or it is not a regular file.
    pub fn chown_to(&self, user: u32, group: u32) -> io::Result<()> {
        let metadata = self.file.metadata()?;
        if metadata.is_file() && metadata.uid() != user {
            fchown(&self.file, Some(user), Some(group))?;
        }
        Ok(())
    }

    /// Reopens the file if that was requested. If it cannot be opened, logging continues into the old one.
    pub fn reopen_if_requested(&mut self) {
        let (path, scoreboard) = &self.source;
        let requested = scoreboard.reopenings();
        if requested == self.reopening {
            return;
        }
        // One attempt per request, not one per line.
        self.reopening = requested;
        match open(path) {
            Ok(file) => {
                self.file = file;
                scoreboard.take_log_incomplete();
            }
            Err(error) => stderr::write(&format!(
                "warning: cannot reopen the access log {}: {error}: continuing with the old file\n\
                 hint: the server's user must be able to create it, or let logrotate `create` it\n",
                path.display()
            )),
        }
    }

    /// Appends whole lines in one write, so lines of several processes do not mix (unless the disk is full). Returns
    /// the number of lines lost.
    pub fn append(&mut self, lines: &[u8]) -> u64 {
        if lines.is_empty() {
            return 0;
        }
        self.reopen_if_requested();
        // An incomplete line may come from any process, because they share the file.
        let (_, scoreboard) = &self.source;
        if scoreboard.take_log_incomplete() && self.file.write_all(b"\n").is_err() {
            scoreboard.mark_log_incomplete();
            return count(lines);
        }
        let mut rest = lines;
        while !rest.is_empty() {
            match self.file.write(rest) {
                Ok(count) if count > 0 => rest = &rest[count..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => break,
            }
        }
        let is_whole = rest.len() == lines.len() || lines[lines.len() - rest.len() - 1] == b'\n';
        if !is_whole {
            scoreboard.mark_log_incomplete();
        }
        count(rest)
    }
}

pub(super) fn count(lines: &[u8]) -> u64 {
    lines.iter().filter(|byte| **byte == b'\n').count() as u64
}

fn open(path: &Path) -> io::Result<File> {
    // The system's own links, such as /dev/stdout, lead to what this process may write anyway.
    let may_follow = path.starts_with("/dev");
    let flags = libc::O_NOCTTY | if may_follow { 0 } else { libc::O_NOFOLLOW };
    let opened = OpenOptions::new().append(true).create(true).mode(MODE).custom_flags(flags).open(path);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => io::Error::other("it is a symbolic link, which could lead to any file"),
        _ => error,
    })?;
    let metadata = file.metadata()?;
    if metadata.is_file() && metadata.nlink() > 1 && !may_follow {
        return Err(io::Error::other("it has other names (hard links), so it could be any file"));
    }
    Ok(file)
}
