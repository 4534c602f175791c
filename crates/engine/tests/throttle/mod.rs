//! A slow disk: a control group whose processes read at most so many bytes per second from one block device.
//!
//! Needs root, and version 1 (`blkio`) or version 2 (`io`) of control groups. Other processes do not notice, and
//! dropping it leaves nothing behind, also after a failure.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A control group that throttles. Dropping it moves its processes out and removes it.
pub struct Throttle {
    group: PathBuf,
}

/// How long processes that are ending may take to leave the group.
const PATIENCE: Duration = Duration::from_secs(5);

impl Throttle {
    /// A group for reading `bytes_per_second` from the device under `directory`, or the reason why there is none.
    pub fn new(name: &str, directory: &Path, bytes_per_second: u64) -> Result<Throttle, String> {
        let device = device_under(directory)?;
        let (parent, file, rule) = if Path::new("/sys/fs/cgroup/blkio/cgroup.procs").exists() {
            ("/sys/fs/cgroup/blkio", "blkio.throttle.read_bps_device", format!("{device} {bytes_per_second}"))
        } else {
            ("/sys/fs/cgroup", "io.max", format!("{device} rbps={bytes_per_second}"))
        };
        let group = Path::new(parent).join(format!("sojourn-test-{}-{name}", std::process::id()));
        fs::create_dir(&group).map_err(|error| format!("no control group {}: {error}", group.display()))?;
        let throttle = Throttle { group };
        let file = throttle.group.join(file);
        fs::write(&file, rule).map_err(|error| {
            format!(
                "{}: {error}; with version 2, write +io to cgroup.subtree_control of the root",
                file.display()
            )
        })?;
        Ok(throttle)
    }

    /// A command that runs `program` inside.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("sh");
        let script = "echo $$ > \"$0\" && exec \"$@\"";
        command.args(["-c", script]).arg(self.group.join("cgroup.procs")).arg(program);
        command
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        let outside = self.group.parent().expect("a group has a parent").join("cgroup.procs");
        let begun = Instant::now();
        while let Err(error) = fs::remove_dir(&self.group) {
            for process in fs::read_to_string(self.group.join("cgroup.procs")).unwrap_or_default().lines() {
                // One that has ended meanwhile is out already.
                let _ = fs::write(&outside, process);
            }
            if begun.elapsed() > PATIENCE {
                eprintln!("{} remains: {error}", self.group.display());
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// `MAJOR:MINOR` of the whole disk that holds `directory`: rules about a partition have no effect.
fn device_under(directory: &Path) -> Result<String, String> {
    let fault = |error: io::Error| format!("{}: {error}", directory.display());
    let number = fs::metadata(directory).map_err(fault)?.dev();
    let device = format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
    let entry = fs::canonicalize(format!("/sys/dev/block/{device}"))
        .map_err(|_| format!("{} is on device {device}, which is no disk", directory.display()))?;
    let disk = if entry.join("partition").exists() { entry.parent().unwrap_or(&entry) } else { &entry };
    fs::read_to_string(disk.join("dev")).map(|text| text.trim().to_owned()).map_err(fault)
}
