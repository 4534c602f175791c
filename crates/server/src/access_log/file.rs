//! The log's file: appends whole lines, reopens after rotation, never blocks in vain.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::counters::scoreboard::Scoreboard;

/// An open log file, and where it is opened anew.
#[derive(Debug)]
pub struct LogFile {
    file: File,
    /// Its path, and the scoreboard on which all processes see that it is to be opened again.
    source: Option<(PathBuf, Scoreboard)>,
    /// The reopening that this file is of.
    reopening: u64,
    /// The last line in the file lacks its end.
    is_torn: bool,
}

impl LogFile {
    /// Opens `path` for appending; it is opened again when [asked for](Scoreboard::request_reopening) on `scoreboard`.
    pub fn open(path: &Path, scoreboard: &Scoreboard) -> io::Result<LogFile> {
        let reopening = scoreboard.reopenings();
        let file = open(path)?;
        Ok(LogFile { file, source: Some((path.to_owned(), scoreboard.clone())), reopening, is_torn: false })
    }

    /// Opens the file again if that was asked for since. If it cannot be opened, the old one serves on.
    pub fn follow(&mut self) {
        let Some((path, scoreboard)) = &self.source else { return };
        let asked = scoreboard.reopenings();
        if asked == self.reopening {
            return;
        }
        // Once for each request: a file that cannot be opened is not tried with every line.
        self.reopening = asked;
        match open(path) {
            Ok(file) => (self.file, self.is_torn) = (file, false),
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
        if self.is_torn && self.file.write_all(b"\n").is_ok() {
            self.is_torn = false;
        }
        let mut rest = lines;
        while !rest.is_empty() && !self.is_torn {
            match self.file.write(rest) {
                Ok(count) if count > 0 => rest = &rest[count..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => break,
            }
        }
        let is_whole = rest.len() == lines.len() || lines[lines.len() - rest.len() - 1] == b'\n';
        self.is_torn |= !is_whole;
        rest.iter().filter(|byte| **byte == b'\n').count() as u64
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

/// Not by `eprintln`, whose lock another thread may have held when this process was forked.
fn say(text: &str) {
    let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
}
