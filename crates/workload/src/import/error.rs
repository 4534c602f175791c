//! Why a log cannot be imported, and what to do about it.

use std::io;

use thiserror::Error;

use super::report::{MalformedLine, Skipped};

/// What ends an import.
#[derive(Debug, Error)]
pub enum ImportError {
    /// Reading or decompressing failed.
    #[error("the log cannot be read beyond line {line}: {source}")]
    Read {
        /// The last line that was read.
        line: u64,
        /// The failure.
        source: io::Error,
    },
    /// There is no line.
    #[error("the log is empty")]
    Empty,
    /// There is no line in a format that is known.
    #[error("none of the log's {lines} lines is in Common or Combined Log Format; line {} is not: {}: {:?}", first.line, first.message, first.text)]
    NotALog {
        /// How many there are.
        lines: u64,
        /// The first of them.
        first: MalformedLine,
    },
    /// There are requests, but none that can be replayed.
    #[error("none of the log's {requests} requests is for a static document: {skipped}")]
    NoStaticRequest {
        /// How many there are.
        requests: u64,
        /// Why not.
        skipped: Skipped,
    },
    /// A limit is exceeded.
    #[error("more than {limit} {what} by line {line} of the log")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// The limit.
        limit: usize,
        /// Where it was exceeded.
        line: u64,
    },
    /// The caller stopped it.
    #[error("the import was stopped")]
    Stopped,
}

impl ImportError {
    /// The likely cure.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            ImportError::Read { source, .. } => match source.kind() {
                io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
                    Some(
                        "the compressed file is cut off or damaged; fetch it again, or decompress what there is (zcat, zstdcat) and import that",
                    )
                }
                _ => None,
            },
            ImportError::Empty => {
                Some("give a log that holds requests; rotated logs are often empty, try the one before it")
            }
            ImportError::NotALog { .. } => Some(
                "log in the `combined` format (nginx: access_log PATH combined; Apache: CustomLog PATH combined), or convert the log",
            ),
            ImportError::NoStaticRequest { .. } => {
                Some("give a log with successful GET requests without a query, and with their sizes")
            }
            ImportError::TooMany { .. } => {
                Some("import a part of the log, such as one day (head, split, grep)")
            }
            ImportError::Stopped => None,
        }
    }
}
