//! How long tasks have run on one core, from the most precise source that the kernel offers.
//!
//! The difference between this and the observed processes' CPU time is what other processes used. Sources, the most
//! precise first:
//! 1. `cpuacct.usage_percpu` of the root control group (version 1): nanoseconds, on the same clock as a process's own
//!    CPU time, without idling and interrupts that the kernel accounts apart.
//! 2. `/proc/schedstat`: nanoseconds; kernels that account interrupts apart leave them in.
//! 3. `/proc/stat`: all time less idling and what the hypervisor took, which is exact over long spans and read in ticks
//!    of 10 ms. Its busy columns are sampled at the tick and useless for windows of 100 ms.
//!
//! The tracepoint `sched_stat_runtime` counts the same, but costs the observed core time at every context switch.

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::{Nanos, clock, core_time::CoreTime, proc_file, process::TICK};

#[derive(Debug)]
pub struct CoreUse {
    core: usize,
    source: Source,
}

#[derive(Debug)]
enum Source {
    ControlGroup(PathBuf),
    Schedstat(PathBuf),
    Stat,
}

impl CoreUse {
    /// The most precise source for this core.
    ///
    /// # Errors
    /// If the machine has no such core.
    pub fn of(core: usize) -> io::Result<CoreUse> {
        CoreUse::below(Path::new("/"), core)
    }

    fn below(root: &Path, core: usize) -> io::Result<CoreUse> {
        let groups =
            ["cpuacct", "cpu,cpuacct", "cpuacct,cpu"].map(|name| root.join("sys/fs/cgroup").join(name));
        // Only the root group has a release agent; a container's group does not see what runs outside of it.
        let whole = groups.into_iter().find(|group| group.join("release_agent").exists());
        let finest = whole.map(|group| Source::ControlGroup(group.join("cpuacct.usage_percpu")));
        let candidates = finest.into_iter().chain([Source::Schedstat(root.join("proc/schedstat"))]);
        let found = candidates.map(|source| CoreUse { core, source }).find(|found| found.read().is_ok());
        let found = found.unwrap_or(CoreUse { core, source: Source::Stat });
        found.read().map(|_| found)
    }

    /// The time so far; subtract an earlier reading for a span.
    pub fn read(&self) -> io::Result<Nanos> {
        match &self.source {
            Source::ControlGroup(path) => {
                let text = proc_file::read(&path.to_string_lossy())?;
                let mut cores = text.split_ascii_whitespace();
                parsed(cores.nth(self.core), path, self.core)
            }
            Source::Schedstat(path) => {
                let text = proc_file::read(&path.to_string_lossy())?;
                let name = format!("cpu{}", self.core);
                // Documentation/scheduler/sched-stats: the seventh number is the time spent running tasks.
                let line = text.lines().find(|line| line.split(' ').next() == Some(&name));
                parsed(line.and_then(|line| line.split_ascii_whitespace().nth(7)), path, self.core)
            }
            Source::Stat => {
                let time = CoreTime::read(Some(self.core))?;
                Ok(clock::now() - Nanos((time.idle + time.iowait + time.steal) * TICK.0))
            }
        }
    }

    /// The precision of spans.
    pub fn resolution(&self) -> Nanos {
        match self.source {
            Source::ControlGroup(_) | Source::Schedstat(_) => Nanos(1),
            Source::Stat => TICK,
        }
    }

    /// The file that is read.
    pub fn source(&self) -> &'static str {
        match self.source {
            Source::ControlGroup(_) => "cpuacct.usage_percpu",
            Source::Schedstat(_) => "/proc/schedstat",
            Source::Stat => "/proc/stat",
        }
    }
}

fn parsed(field: Option<&str>, path: &Path, core: usize) -> io::Result<Nanos> {
    let nanos = field.and_then(|field| field.parse().ok());
    nanos.map(Nanos).ok_or_else(|| proc_file::missing_entry(&path.to_string_lossy(), &format!("core {core}")))
}

#[cfg(test)]
mod tests {
    use std::{env, fs, process};

    use super::*;
    use crate::affinity;

    fn written(test: &str, files: &[(&str, &str)]) -> PathBuf {
        let root = env::temp_dir().join(format!("sojourn-core-use-{test}-{}", process::id()));
        for (name, text) in files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn the_finest_source_is_taken() {
        let schedstat =
            ("proc/schedstat", "version 15\ncpu0 0 0 0 0 0 0 11 22 33\ncpu1 0 0 0 0 0 0 44 55 66\n");
        let percpu = ("sys/fs/cgroup/cpu,cpuacct/cpuacct.usage_percpu", "77 88 \n");
        let agent = ("sys/fs/cgroup/cpu,cpuacct/release_agent", "");
        let check = |test, files: &[(&str, &str)], source, nanos| {
            let root = written(test, files);
            let found = CoreUse::below(&root, 1).unwrap();
            assert_eq!((found.source(), found.read().unwrap()), (source, Nanos(nanos)));
            fs::remove_dir_all(root).unwrap();
        };
        check("all", &[schedstat, percpu, agent], "cpuacct.usage_percpu", 88);
        check("container", &[schedstat, percpu], "/proc/schedstat", 44);
    }

    #[test]
    fn a_spinning_thread_uses_its_core() {
        let core = affinity::allowed_cores().unwrap()[0];
        let found = CoreUse::of(core).unwrap();
        let stat = CoreUse { core, source: Source::Stat };
        let (before, before_stat) = (found.read().unwrap(), stat.read().unwrap());
        let spun = std::thread::spawn(move || {
            affinity::pin_to(core).unwrap();
            while clock::thread_cpu() < Nanos(200_000_000) {}
        });
        spun.join().unwrap();
        let (used, used_stat) = (found.read().unwrap() - before, stat.read().unwrap() - before_stat);
        let least = Nanos(200_000_000) - found.resolution() - found.resolution();
        assert!(used >= least, "{used:?} by {}", found.source());
        assert!(used_stat >= Nanos(180_000_000), "{used_stat:?} by ticks");
    }

    #[test]
    fn a_core_that_does_not_exist_is_an_error() {
        assert!(CoreUse::of(4096).is_err());
    }
}
