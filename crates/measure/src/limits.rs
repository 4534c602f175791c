//! The limit on open descriptors, raised as far as the system lets us.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit on open descriptors to `wanted`, or as near as allowed; answers the limit in force.
///
/// A privileged process may raise the hard limit too, others only reach the hard limit.
pub fn raise_descriptors(wanted: u64) -> u64 {
    let before = getrlimit(Resource::Nofile);
    if before.current.is_some_and(|current| current < wanted) {
        let hard = before.maximum.map_or(wanted, |hard| hard.max(wanted));
        let whole = Rlimit { current: Some(wanted), maximum: before.maximum.map(|_| hard) };
        let part = Rlimit { current: before.maximum.map(|hard| hard.min(wanted)), maximum: before.maximum };
        // Neither may be allowed; the limit that is read back says what came of it.
        let _ = setrlimit(Resource::Nofile, whole).or_else(|_| setrlimit(Resource::Nofile, part));
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_lowers_the_limit() {
        let before = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        assert!(raise_descriptors(1) >= before);
    }
}
