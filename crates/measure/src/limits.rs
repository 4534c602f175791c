//! Limits of this process: its memory, and open descriptors, which can be raised.

use std::fs;
use std::path::Path;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{descriptors, machine};

/// Raises the limit of open descriptors to `wanted`, or as near as allowed; returns the limit in force.
///
/// A privileged process may raise the hard limit too, others only reach the hard limit.
pub fn raise_descriptors(wanted: u64) -> u64 {
    let before = getrlimit(Resource::Nofile);
    if before.current.is_some_and(|current| current < wanted) {
        let hard = before.maximum.map_or(wanted, |hard| hard.max(wanted));
        let whole = Rlimit { current: Some(wanted), maximum: before.maximum.map(|_| hard) };
        let part = Rlimit { current: before.maximum.map(|hard| hard.min(wanted)), maximum: before.maximum };
        // Either may be forbidden; the limit is read back below.
        let _ = setrlimit(Resource::Nofile, whole).or_else(|_| setrlimit(Resource::Nofile, part));
    }
    descriptors::limit()
}

/// The memory that this process may use: the machine's, or less if a control group around it has a limit.
pub fn memory_bytes() -> u64 {
    // If the machine does not tell, there is no limit from it.
    let all = machine::memory_bytes().value().copied().unwrap_or(u64::MAX);
    let membership = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    limit_of_groups(&membership, Path::new("/sys/fs/cgroup")).map_or(all, |limit| limit.min(all))
}

/// The smallest memory limit among the groups in /proc/PID/cgroup and their parents, in either version.
fn limit_of_groups(membership: &str, mount: &Path) -> Option<u64> {
    let groups = membership.lines().filter_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        Some((controllers, path.trim_start_matches('/')))
    });
    let limit = |root: &Path, path: &str, file: &str| {
        let group = root.join(path);
        let around = group.ancestors().take_while(|folder| folder.starts_with(root));
        // Version 2 writes "max" for no limit.
        around.filter_map(|folder| fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok()).min()
    };
    groups
        .filter_map(|(controllers, path)| match controllers {
            // Beside hierarchies of version 1, version 2 is mounted in a folder of its own.
            "" => [mount.to_owned(), mount.join("unified")]
                .iter()
                .filter_map(|root| limit(root, path, "memory.max"))
                .min(),
            _ if controllers.split(',').any(|controller| controller == "memory") => {
                limit(&mount.join("memory"), path, "memory.limit_in_bytes")
            }
            _ => None,
        })
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_around_a_process_counts() {
        let mount = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let file = mount.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        assert_eq!(limit_of_groups("0::/a/b\n", mount.path()), None);
        write("a/b/memory.max", "max\n");
        write("a/memory.max", "1000\n");
        assert_eq!(limit_of_groups("0::/a/b\n", mount.path()), Some(1000));
        write("a/b/memory.max", "900\n");
        assert_eq!(limit_of_groups("0::/a/b\n", mount.path()), Some(900));
        write("memory/c/memory.limit_in_bytes", "800\n");
        write("memory/memory.limit_in_bytes", "9223372036854771712\n");
        let both = "5:cpu,cpuacct:/c\n4:memory:/c\n0::/a/b\n";
        assert_eq!(limit_of_groups(both, mount.path()), Some(800));
        assert_eq!(limit_of_groups("4:memory:/of/the/host\n", mount.path()), Some(9223372036854771712));
        assert_eq!(limit_of_groups("rubbish\n:\n", mount.path()), None);
    }

    #[test]
    fn there_is_memory() {
        assert!(memory_bytes() > 1 << 20);
    }

    #[test]
    fn never_lowers_the_limit() {
        let before = descriptors::limit();
        assert!(raise_descriptors(1) >= before);
    }
}
