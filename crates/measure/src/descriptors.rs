//! The limit of open descriptors of this process, and how many of them may save opening files again.

use rustix::process::{Resource, getrlimit};

/// The limit in force.
pub(crate) fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// How many files may stay open only to save opening them again: at most `wanted`, and a quarter of the limit, because
/// the rest of the program needs descriptors, too.
pub(crate) fn kept_files_max(wanted: usize) -> usize {
    usize::try_from(limit() / 4).map_or(wanted, |most| most.min(wanted))
}
