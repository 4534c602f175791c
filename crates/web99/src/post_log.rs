//! The log of what was posted: records of one length, numbered in their order, by all processes that have it open.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use rustix::fs::{FlockOperation, flock};
use sojourn_workload::web99::page::{RECORD_BYTES, record};
use sojourn_workload::web99::requests::{FileName, Visitor};

#[derive(Debug)]
pub struct PostLog {
    /// Threads of this process; processes lock the file itself.
    file: Mutex<File>,
}

impl PostLog {
    /// Opens the log, or makes an empty one.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn open(path: &Path) -> io::Result<PostLog> {
        let file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        Ok(PostLog { file: Mutex::new(file) })
    }

    /// Appends a record.
    ///
    /// # Errors
    /// If it cannot be written whole; then it is not there.
    pub fn append(&self, file: FileName, client: u32, visitor: Visitor) -> io::Result<()> {
        let second = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
        self.locked(|log| {
            let length = log.metadata()?.len();
            let number = length / RECORD_BYTES as u64 + 1;
            let text = record(number, second, process::id(), file, client, visitor);
            log.write_all(text.as_bytes()).or_else(|error| log.set_len(length).and(Err(error)))
        })
    }

    /// All records.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn records(&self) -> io::Result<Vec<u8>> {
        self.locked(|log| {
            let mut records = Vec::new();
            log.seek(SeekFrom::Start(0))?;
            log.read_to_end(&mut records)?;
            Ok(records)
        })
    }

    /// Removes all records.
    ///
    /// # Errors
    /// If they cannot be removed.
    pub fn reset(&self) -> io::Result<()> {
        self.locked(|log| log.set_len(0))
    }

    fn locked<T>(&self, act: impl FnOnce(&mut File) -> io::Result<T>) -> io::Result<T> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        flock(&*file, FlockOperation::LockExclusive)?;
        let outcome = act(&mut file);
        flock(&*file, FlockOperation::Unlock)?;
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_numbered_whoever_writes_them() {
        let path = tempfile::NamedTempFile::new().unwrap();
        let logs = [PostLog::open(path.path()).unwrap(), PostLog::open(path.path()).unwrap()];
        let visitor = Visitor { user: 10_000, last: 0 };
        std::thread::scope(|scope| {
            for log in [&logs[0], &logs[0], &logs[1]] {
                scope.spawn(move || {
                    for client in 0..50 {
                        log.append(FileName { directory: 0, class: 0, file: 0 }, client, visitor).unwrap();
                    }
                });
            }
        });
        let text = String::from_utf8(logs[0].records().unwrap()).unwrap();
        let numbers: Vec<usize> =
            text.lines().map(|line| line.split_whitespace().next().unwrap().parse().unwrap()).collect();
        assert_eq!(numbers, (1..=150).collect::<Vec<_>>());
        logs[1].reset().unwrap();
        assert!(logs[0].records().unwrap().is_empty());
    }
}
