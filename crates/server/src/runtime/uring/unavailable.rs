//! Why there is no ring to be had, and what to do about it.

use std::io;

/// What the system administrator allows.
const DISABLED: &str = "/proc/sys/kernel/io_uring_disabled";

/// io_uring cannot be used here.
#[derive(Debug, thiserror::Error)]
#[error("io_uring is not available: {error}\nhint: {}; try --architecture amped", hint(error))]
pub struct Unavailable {
    error: io::Error,
}

impl Unavailable {
    /// Because of what the kernel said.
    pub fn new(error: io::Error) -> Unavailable {
        Unavailable { error }
    }
}

fn hint(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => forbidden(),
        Some(libc::ENOSYS | libc::EINVAL | libc::EOPNOTSUPP) => "it needs Linux 5.19 or later".into(),
        Some(libc::ENOMEM) => "raise the limit on locked memory (ulimit -l)".into(),
        Some(libc::EMFILE | libc::ENFILE) => "raise the limit on open files (ulimit -n)".into(),
        _ => "this system does not let it be used".into(),
    }
}

fn forbidden() -> String {
    match std::fs::read_to_string(DISABLED).unwrap_or_default().trim() {
        setting @ ("1" | "2") => format!("the kernel forbids it (kernel.io_uring_disabled = {setting})"),
        _ => "a sandbox or container forbids it".into(),
    }
}
