//! Counters of a control group: all its processes, including ended ones. Both versions give the same counters.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Source, Target};
use crate::Reading;

pub const NAMES: &[&str] = &[
    "cgroup_cpu_seconds",
    "cgroup_throttled_seconds",
    "cgroup_memory_bytes",
    "cgroup_page_cache_bytes",
    "cgroup_page_faults",
    "cgroup_major_faults",
];

/// The usual mount point.
const MOUNT: &str = "/sys/fs/cgroup";

/// The folders of a group: one in version 2, one per controller in version 1.
pub struct Cgroup {
    cpu: PathBuf,
    throttling: PathBuf,
    memory: PathBuf,
    unified: bool,
}

impl Cgroup {
    /// Opens the named group. A process's own group is not used, because it may contain a whole session.
    pub fn open(target: &Target) -> Reading<Cgroup> {
        let unnamed = || Reading::unavailable("no control group was named");
        target.cgroup.as_deref().map_or_else(unnamed, Cgroup::at)
    }

    fn at(folder: &Path) -> Reading<Cgroup> {
        if folder.join("cgroup.controllers").exists() {
            let folder = folder.to_owned();
            return Reading::Value(Cgroup {
                cpu: folder.clone(),
                throttling: folder.clone(),
                memory: folder,
                unified: true,
            });
        }
        // Version 1: the same path exists below each controller.
        let Some(path) = path_in_hierarchy(folder) else {
            return Reading::unavailable(format!(
                "{} is not a control group below {MOUNT}",
                folder.display()
            ));
        };
        let below = |controller: &str| Path::new(MOUNT).join(controller).join(&path);
        let group = Cgroup {
            cpu: below("cpuacct"),
            throttling: below("cpu"),
            memory: below("memory"),
            unified: false,
        };
        if group.cpu.is_dir() || group.memory.is_dir() {
            Reading::Value(group)
        } else {
            Reading::unavailable(format!("{} is not a control group", folder.display()))
        }
    }
}

impl Source for Cgroup {
    fn names(&self) -> &'static [&'static str] {
        NAMES
    }

    fn read(&mut self) -> Vec<Reading<f64>> {
        let places: [(&Path, &str, &str, f64); 6] = if self.unified {
            [
                (&self.cpu, "cpu.stat", "usage_usec", 1e-6),
                (&self.throttling, "cpu.stat", "throttled_usec", 1e-6),
                (&self.memory, "memory.current", "", 1.0),
                (&self.memory, "memory.stat", "file", 1.0),
                (&self.memory, "memory.stat", "pgfault", 1.0),
                (&self.memory, "memory.stat", "pgmajfault", 1.0),
            ]
        } else {
            [
                (&self.cpu, "cpuacct.usage", "", 1e-9),
                (&self.throttling, "cpu.stat", "throttled_time", 1e-9),
                (&self.memory, "memory.usage_in_bytes", "", 1.0),
                (&self.memory, "memory.stat", "total_cache", 1.0),
                (&self.memory, "memory.stat", "total_pgfault", 1.0),
                (&self.memory, "memory.stat", "total_pgmajfault", 1.0),
            ]
        };
        let mut files = BTreeMap::new();
        let read = |(folder, name, key, unit): (&Path, &str, &str, f64)| {
            // Each file is read once: for memory.stat the kernel has to sum over all processors.
            let path = folder.join(name);
            let text = files.entry(path.clone()).or_insert_with(|| fs::read_to_string(&path));
            let found = match text {
                Ok(text) => value(text, key).ok_or_else(|| format!("has no {}", key_or_number(key))),
                Err(error) => Err(error.to_string()),
            };
            found.map(|value| value * unit).map_err(|why| self.reason(&path, &why))
        };
        places.map(read).map(Reading::from).into()
    }
}

impl Cgroup {
    /// A group of version 2 has only the files of controllers that were delegated to it.
    fn reason(&self, path: &Path, why: &str) -> String {
        let controller = path.file_name().and_then(|name| name.to_str()?.split('.').next());
        match controller {
            Some(controller) if self.unified => format!(
                "{}: {why}: the group has no {controller} controller (+{controller} in cgroup.subtree_control above it \
                 gives it one, unless version 1 has that)",
                path.display()
            ),
            _ => format!("{}: {why}", path.display()),
        }
    }
}

fn key_or_number(key: &str) -> &str {
    if key.is_empty() { "number" } else { key }
}

/// The path below the controller's folder.
fn path_in_hierarchy(folder: &Path) -> Option<PathBuf> {
    let inside = folder.strip_prefix(MOUNT).ok()?;
    let mut parts = inside.components();
    parts.next()?;
    Some(parts.as_path().to_owned()).filter(|path| path.components().next().is_some())
}

/// The number after `key` on its line, or without a key the file's only number.
fn value(text: &str, key: &str) -> Option<f64> {
    if key.is_empty() {
        return text.trim().parse().ok();
    }
    let number = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))?;
    number.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_one_has_the_same_path_below_each_controller() {
        let path = |folder: &str| path_in_hierarchy(Path::new(folder));
        assert_eq!(path("/sys/fs/cgroup/memory/web/1"), Some("web/1".into()));
        assert_eq!(path("/sys/fs/cgroup/memory"), None);
        assert_eq!(path("/sys/fs/other/web"), None);
    }

    #[test]
    fn reads_the_files_of_version_two() {
        let group = tempfile::tempdir().unwrap();
        let write = |name, text: &str| fs::write(group.path().join(name), text).unwrap();
        write("cgroup.controllers", "cpu memory\n");
        write("cpu.stat", "usage_usec 1500000\nuser_usec 1\nthrottled_usec 250000\n");
        write("memory.current", "4096\n");
        write("memory.stat", "anon 1\nfile 8192\nfile_mapped 3\npgfault 10\npgmajfault 2\n");
        let target = Target { cgroup: Some(group.path().to_owned()), ..Target::default() };
        let Reading::Value(mut source) = Cgroup::open(&target) else { panic!("a group was named") };
        let values: Vec<_> = source.read().iter().map(|reading| *reading.value().unwrap()).collect();
        assert_eq!(values, [1.5, 0.25, 4096.0, 8192.0, 10.0, 2.0]);
    }

    #[test]
    fn a_controller_that_a_group_does_not_have_is_named_with_its_cure() {
        let group = tempfile::tempdir().unwrap();
        fs::write(group.path().join("cgroup.controllers"), "\n").unwrap();
        fs::write(group.path().join("cpu.stat"), "usage_usec 1500000\nuser_usec 1\n").unwrap();
        let Reading::Value(mut source) = Cgroup::at(group.path()) else { panic!("it is a group") };
        let mut readings = source.read().into_iter();
        assert_eq!(readings.next(), Some(Reading::Value(1.5)));
        for (reading, controller) in readings.zip(["cpu", "memory", "memory", "memory", "memory"]) {
            let Reading::Unavailable(why) = reading else { panic!("{controller} is not there") };
            assert!(why.contains(&format!("no {controller} controller")), "{why}");
        }
    }

    #[test]
    fn what_is_no_group_is_refused() {
        let target = Target { cgroup: Some("/tmp".into()), ..Target::default() };
        assert!(matches!(Cgroup::open(&target), Reading::Unavailable(_)));
    }
}
