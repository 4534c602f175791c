//! Import errors; each message suggests a fix.

use std::io;

use thiserror::Error;

use super::format::FORMAT_NAMES;
use super::report::{MalformedLine, NotALog, Skipped};
use super::time;

#[derive(Debug, Error)]
pub enum ImportError {
    #[error("the log cannot be read beyond line {line}: {source}")]
    Read {
        /// The number of the last line read.
        line: u64,
        source: io::Error,
    },
    #[error("the log is empty")]
    Empty,
    /// One of several logs cannot be read.
    #[error("{log}: {source}")]
    In { log: String, source: Box<ImportError> },
    #[error("none of the {} files is a log; {}: {}", files.len(), files[0].name, files[0].why)]
    NoLogs { files: Vec<NotALog> },
    /// No line matches the format.
    #[error("none of the log's {lines} lines is in {}; line {} is not: {}: {:?}", wanted(format.as_deref()), first.line, first.message, first.text)]
    NotALog {
        lines: u64,
        /// The requested format; `None` if all were tried.
        format: Option<String>,
        first: MalformedLine,
    },
    #[error("none of the log's {entries} entries is selected; the log is from {first} to {last}")]
    NothingSelected { entries: u64, first: String, last: String },
    /// The log has requests, but none that can be replayed.
    #[error("none of the log's {requests} requests is for a static document: {skipped}")]
    NoStaticRequest { requests: u64, skipped: Skipped },
    #[error("more than {limit} {what} by line {line} of the log")]
    TooMany { what: &'static str, limit: usize, line: u64 },
    /// Reading or writing temporary storage failed.
    #[error("the temporary file of the import failed: {0}")]
    Scratch(#[source] io::Error),
    /// The trace could not be written.
    #[error("the trace cannot be written: {0}")]
    Write(#[source] io::Error),
    #[error("the import was stopped")]
    Stopped,
}

fn wanted(format: Option<&str>) -> String {
    let known = || format!("a known format ({})", FORMAT_NAMES.join(", "));
    format.map_or_else(known, |format| format!("the format {format:?}"))
}

const UTF_16: &str = "the log is text in UTF-16: convert it (iconv -f UTF-16 -t UTF-8 LOG | sojourn trace -)";

/// Returns true if the line looks like UTF-16: every other byte of Latin text is zero.
fn is_utf_16(first: &MalformedLine) -> bool {
    first.text.contains('\0') && first.text.trim_matches('\0').len() > 1
}

impl ImportError {
    /// The error for a log from the first to the last of these times, none of whose entries is selected.
    pub(super) fn nothing_selected(
        entries: u64,
        (first_ns, last_ns): (i64, i64),
        utc_offset_seconds: i32,
    ) -> ImportError {
        let written = |unix_ns| time::written(unix_ns, utc_offset_seconds);
        ImportError::NothingSelected { entries, first: written(first_ns), last: written(last_ns) }
    }

    pub fn hint(&self) -> Option<&'static str> {
        match self {
            ImportError::Read { source, .. } => match source.kind() {
                io::ErrorKind::OutOfMemory => {
                    Some("decompress it, and import that (xzcat LOG | sojourn trace -)")
                }
                io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
                    Some(
                        "the compressed file is truncated or damaged; fetch it again, or decompress what there is (zcat, bzcat, xzcat, zstdcat) and import that",
                    )
                }
                _ => None,
            },
            ImportError::NotALog { first, .. } if is_utf_16(first) => Some(UTF_16),
            ImportError::In { source, .. } => match &**source {
                ImportError::NotALog { first, .. } if is_utf_16(first) => Some(UTF_16),
                ImportError::NotALog { .. } => Some(
                    "leave the file out, or give its folder: files there that are not logs are skipped and reported",
                ),
                other => other.hint(),
            },
            ImportError::NoLogs { .. } => {
                Some("give access logs, or a folder that has some; or name their format: --log-format")
            }
            ImportError::Empty => {
                Some("give a log that holds requests; rotated logs are often empty, try the one before it")
            }
            ImportError::NotALog { format: None, .. } => Some(
                "name the format: --log-format with the server's own LogFormat or log_format string in single quotes, or one of common, combined, vhost_combined, squid, w3c, json, alb, haproxy, envoy, s3",
            ),
            ImportError::NotALog { format: Some(_), .. } => {
                Some("compare the format with the line above, or leave out --log-format to detect it")
            }
            ImportError::NothingSelected { .. } => {
                Some("widen the selection: --from, --to, --status, --method, --path, --host, --client")
            }
            ImportError::NoStaticRequest { skipped, .. } if skipped.without_size > 0 => Some(
                "the log has no sizes: let the server log them (IIS: sc-bytes), or assume one for all with --assume-size 20kB",
            ),
            ImportError::NoStaticRequest { .. } => {
                Some("give a log with successful GET requests without a query, and with their sizes")
            }
            ImportError::TooMany { .. } => {
                Some("import a part of the log, such as one day (head, split, grep)")
            }
            ImportError::Scratch(_) | ImportError::Write(_) => Some(
                "an import takes up to 50 bytes of disk a request: free some, or name another folder with TMPDIR or --output",
            ),
            ImportError::Stopped => None,
        }
    }
}
