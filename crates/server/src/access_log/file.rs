//! The log's file: appends whole lines, reopens after rotation, never blocks in vain.
//!
//! The directory may belong to a user that is trusted less than the one who opens the file: a link there could lead
//! to any file of that one's, so links are refused.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use crate::counters::scoreboard::Scoreboard;

/// Requests and addresses are nobody's business but the user's and the group's.
const MODE: u32 = 0o640;

/// An open log file, and where it is opened anew.
#[derive(Debug)]
pub struct LogFile {
    file: File,
    /// Its path, and the scoreboard on which all processes see that it is to be opened again.
    source: (PathBuf, Scoreboard),
    reopening: u64,
}

impl LogFile {
    /// Opens `path` for appending; it is opened again when [asked for](Scoreboard::request_reopening) on `scoreboard`.
    pub fn open(path: &Path, scoreboard: &Scoreboard) -> io::Result<LogFile> {
        let reopening = scoreboard.reopenings();
        let file = open(path)?;
        Ok(LogFile { file, source: (path.to_owned(), scoreboard.clone()), reopening })
    }

    /// Gives the file to a user who is to open it again later, unless it is theirs or no file.
    pub fn give_to(&self, user: u32, group: u32) -> io::Result<()> {
        let metadata = self.file.metadata()?;
        if metadata.is_file() && metadata.uid() != user {
            fchown(&self.file, Some(user), Some(group))?;
        }
        Ok(())
    }

    /// Opens the file again if that was asked for since. If it cannot be opened, the old one serves on.
    pub fn follow(&mut self) {
        let (path, scoreboard) = &self.source;
        let asked = scoreboard.reopenings();
        if asked == self.reopening {
            return;
        }
        // Once for each request: a file that cannot be opened is not tried with every line.
        self.reopening = asked;
        match open(path) {
            Ok(file) => {
                self.file = file;
                scoreboard.take_torn_log();
            }
            Err(error) => say(&format!(
                "warning: cannot open the access log {} again: {error}: going on with the old file\n\
                 hint: the server's user must be able to create it, or let logrotate `create` it\n",
                path.display()
            )),
        }
    }

    /// Appends whole lines, in one write unless the disk is full: lines of several processes do not mix. Returns how
    /// many were lost.
    pub fn append(&mut self, lines: &[u8]) -> u64 {
        if lines.is_empty() {
            return 0;
        }
        self.follow();
        // By whichever process: the file is one.
        let (_, scoreboard) = &self.source;
        if scoreboard.take_torn_log() && self.file.write_all(b"\n").is_err() {
            scoreboard.tear_log();
            return lost(lines);
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
            scoreboard.tear_log();
        }
        lost(rest)
    }
}

fn lost(lines: &[u8]) -> u64 {
    lines.iter().filter(|byte| **byte == b'\n').count() as u64
}

fn open(path: &Path) -> io::Result<File> {
    // The system's own links, as /dev/stdout, lead where this process may write anyway.
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

/// Not by `eprintln`, whose lock another thread may have held when this process was forked.
fn say(text: &str) {
    let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
}
