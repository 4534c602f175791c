//! Mount points of control groups, the version of each controller, and the syntax of each limit.

use std::fs;
use std::path::{Path, PathBuf};

use super::DiskLimit;

/// Prefix of the groups created here.
pub const PREFIX: &str = "sojourn-";

/// The period of a CPU limit, and the smallest quota that the kernel accepts.
///
/// A group that has used its quota waits for the rest of the period, so the period must not be long. It must not be
/// short either, because each wait costs cache contents: with 10 ms a request took a quarter more CPU time than with 50
/// ms, and varied more.
const PROCESSOR_PERIOD_MICROSECONDS: f64 = 50_000.0;
const PROCESSOR_QUOTA_MIN_MICROSECONDS: f64 = 1_000.0;

/// The control group hierarchies below one mount point.
#[derive(Clone, Debug)]
pub struct Hierarchies {
    mount: PathBuf,
}

/// The folder for the groups of one controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupParent {
    pub controller: &'static str,
    pub parent: PathBuf,
    pub is_unified: bool,
}

impl Hierarchies {
    pub fn here() -> Hierarchies {
        Hierarchies::at(Path::new("/sys/fs/cgroup"))
    }

    pub fn at(mount: &Path) -> Hierarchies {
        Hierarchies { mount: mount.to_owned() }
    }

    /// `io` in version 2, `blkio` in version 1.
    pub fn disk_controller(&self) -> &'static str {
        if self.is_version_1("blkio") { "blkio" } else { "io" }
    }

    /// The folder for groups of this controller.
    ///
    /// # Errors
    /// If the machine lacks the controller.
    pub fn place(&self, controller: &'static str) -> Result<GroupParent, String> {
        if self.is_version_1(controller) {
            let parent = self.mount.join(controller);
            return Ok(GroupParent { controller, parent, is_unified: false });
        }
        // Beside hierarchies of version 1, version 2 is mounted in a folder of its own.
        let candidates = [self.mount.clone(), self.mount.join("unified")];
        let parent = candidates.into_iter().find(|root| has(&root.join("cgroup.controllers"), controller));
        parent.map(|parent| GroupParent { controller, parent, is_unified: true }).ok_or_else(|| {
            format!(
                "{} has no controller {controller} in either version of control groups",
                self.mount.display()
            )
        })
    }

    fn is_version_1(&self, controller: &str) -> bool {
        self.mount.join(controller).join("cgroup.procs").exists()
    }
}

impl GroupParent {
    /// The files and values that limit a group to `bytes` of memory without swap.
    pub fn memory_rules(&self, bytes: u64) -> [(&'static str, String); 2] {
        if self.is_unified {
            [("memory.max", bytes.to_string()), ("memory.swap.max", "0".to_owned())]
        } else {
            [("memory.limit_in_bytes", bytes.to_string()), ("memory.memsw.limit_in_bytes", bytes.to_string())]
        }
    }

    /// The files and values that limit how fast a group reads from a disk.
    pub fn disk_rules(&self, limit: &DiskLimit) -> Vec<(&'static str, String)> {
        let files = if self.is_unified {
            [("io.max", " rbps="), ("io.max", " riops=")]
        } else {
            [("blkio.throttle.read_bps_device", " "), ("blkio.throttle.read_iops_device", " ")]
        };
        let rates = [limit.bytes_per_second, limit.reads_per_second];
        let rules = files.into_iter().zip(rates).filter_map(|((file, key), rate)| Some((file, key, rate?)));
        rules.map(|(file, key, rate)| (file, format!("{}{key}{rate}", limit.disk))).collect()
    }

    /// The files and values that limit a group's CPU time; 1 is one processor.
    ///
    /// # Errors
    /// If that is less than the kernel can grant.
    pub fn processor_rules(&self, processors: f64) -> Result<Vec<(&'static str, String)>, String> {
        let (period, quota) = (PROCESSOR_PERIOD_MICROSECONDS, processors * PROCESSOR_PERIOD_MICROSECONDS);
        if quota < PROCESSOR_QUOTA_MIN_MICROSECONDS {
            let least = PROCESSOR_QUOTA_MIN_MICROSECONDS / period;
            return Err(format!(
                "{processors} of a processor is below the minimum\nhint: use at least {least}"
            ));
        }
        Ok(if self.is_unified {
            vec![("cpu.max", format!("{quota:.0} {period}"))]
        } else {
            vec![("cpu.cfs_period_us", period.to_string()), ("cpu.cfs_quota_us", format!("{quota:.0}"))]
        })
    }

    /// The file that delegates the controller to child groups, if the parent has not done that yet.
    pub fn delegation(&self) -> Result<Option<(PathBuf, String)>, String> {
        if !self.is_unified {
            return Ok(None);
        }
        let file = self.parent.join("cgroup.subtree_control");
        if !file.exists() {
            return Err(format!("{} does not exist: this is not a control group", file.display()));
        }
        Ok((!has(&file, self.controller)).then(|| (file, self.controller.to_owned())))
    }
}

pub fn is_swap_limit(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name == "memory.swap.max" || name == "memory.memsw.limit_in_bytes")
}

/// Returns true if groups of ours remain beside the file; they would lose their limits.
pub fn has_our_groups(file: &Path) -> bool {
    let beside = file.parent().map(fs::read_dir);
    let Some(Ok(entries)) = beside else { return false };
    entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX))
}

fn has(file: &Path, word: &str) -> bool {
    fs::read_to_string(file).is_ok_and(|text| text.split_whitespace().any(|each| each == word))
}
