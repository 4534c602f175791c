//! perf events of processes and whatever they start: software events everywhere, the processor's own counters
//! where the machine shows them.
//!
//! An event is opened for every living thread and inherited by those that come later, ungrouped, because kernels
//! refuse groups that are inherited. When there are more events than counters the kernel takes turns; values are
//! scaled by the time enabled over the time running, and those that ran for less than [`COVERAGE_MIN`] of the time
//! are withheld: a scaled guess looks exactly like a count.

use std::io;

use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Hardware, Raw, Software};
use perf_event::{Builder, Counter};

use super::{Source, Target};
use crate::Reading;
use crate::process;

/// The smallest share of the time in which an event must have been counted.
const COVERAGE_MIN: f64 = 0.9;

/// Threads that events are attached to; each costs a descriptor per event.
const THREADS_MAX: usize = 256;

/// One event: which, and whose part of it.
#[derive(Clone, Copy)]
struct Event {
    names: &'static [&'static str],
    kind: Kind,
    mode: Mode,
    unit: f64,
}

#[derive(Clone, Copy)]
enum Kind {
    Software(Software),
    Hardware(Hardware),
    Cache(CacheId),
    /// The second-level cache has no portable name.
    SecondLevel,
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Both,
    User,
    Kernel,
}

const fn event(names: &'static [&'static str], kind: Kind, mode: Mode) -> Event {
    Event { names, kind, mode, unit: 1.0 }
}

const EVENTS: &[Event] = &[
    Event {
        names: &["perf_task_clock_seconds"],
        kind: Kind::Software(Software::TASK_CLOCK),
        mode: Mode::Both,
        unit: 1e-9,
    },
    event(&["perf_page_faults"], Kind::Software(Software::PAGE_FAULTS), Mode::Both),
    event(&["perf_major_faults"], Kind::Software(Software::PAGE_FAULTS_MAJ), Mode::Both),
    event(&["perf_context_switches"], Kind::Software(Software::CONTEXT_SWITCHES), Mode::Both),
    event(&["perf_migrations"], Kind::Software(Software::CPU_MIGRATIONS), Mode::Both),
    event(&["cycles_user"], Kind::Hardware(Hardware::CPU_CYCLES), Mode::User),
    event(&["cycles_kernel"], Kind::Hardware(Hardware::CPU_CYCLES), Mode::Kernel),
    event(&["instructions_user"], Kind::Hardware(Hardware::INSTRUCTIONS), Mode::User),
    event(&["instructions_kernel"], Kind::Hardware(Hardware::INSTRUCTIONS), Mode::Kernel),
    event(&["l1d_read_misses_user"], Kind::Cache(CacheId::L1D), Mode::User),
    event(&["l1d_read_misses_kernel"], Kind::Cache(CacheId::L1D), Mode::Kernel),
    event(&["l1i_read_misses_user"], Kind::Cache(CacheId::L1I), Mode::User),
    event(&["l1i_read_misses_kernel"], Kind::Cache(CacheId::L1I), Mode::Kernel),
    event(&["l2_misses_user"], Kind::SecondLevel, Mode::User),
    event(&["l2_misses_kernel"], Kind::SecondLevel, Mode::Kernel),
    event(&["llc_read_misses_user"], Kind::Cache(CacheId::LL), Mode::User),
    event(&["llc_read_misses_kernel"], Kind::Cache(CacheId::LL), Mode::Kernel),
    event(&["dtlb_read_misses_user"], Kind::Cache(CacheId::DTLB), Mode::User),
    event(&["dtlb_read_misses_kernel"], Kind::Cache(CacheId::DTLB), Mode::Kernel),
    event(&["branch_misses_user"], Kind::Hardware(Hardware::BRANCH_MISSES), Mode::User),
    event(&["branch_misses_kernel"], Kind::Hardware(Hardware::BRANCH_MISSES), Mode::Kernel),
];

/// Tries each event on the target's threads.
pub fn open(target: &Target) -> Vec<(&'static [&'static str], Reading<Attached>)> {
    let threads = threads(target);
    let attach = |event: &Event| match &threads {
        Ok(threads) => Attached::open(*event, threads),
        Err(why) => Reading::unavailable(why),
    };
    EVENTS.iter().map(|event| (event.names, attach(event))).collect()
}

/// Every living thread of the processes and their descendants.
fn threads(target: &Target) -> Result<Vec<u32>, String> {
    if target.pids.is_empty() {
        return Err("no process was named".to_owned());
    }
    let mut threads = Vec::new();
    let mut queue = target.pids.clone();
    while let Some(pid) = queue.pop() {
        threads.extend(process::threads(pid).map_err(|error| format!("process {pid}: {error}"))?);
        queue.extend(process::children(pid).unwrap_or_default());
        if threads.len() > THREADS_MAX {
            return Err(format!(
                "more than {THREADS_MAX} threads: the events would need too many descriptors"
            ));
        }
    }
    Ok(threads)
}

/// An event that is counted.
pub struct Attached {
    event: Event,
    counters: Vec<Counter>,
}

impl Attached {
    fn open(event: Event, threads: &[u32]) -> Reading<Attached> {
        let mut counters = Vec::new();
        for &thread in threads {
            match counter(event, thread) {
                Ok(counter) => counters.push(counter),
                // It ended since it was listed.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => return Reading::Unavailable(reason(event.kind, &error)),
            }
        }
        Reading::Value(Attached { event, counters })
    }

    fn sum(&mut self) -> Result<f64, String> {
        let mut sum = 0.0;
        for counter in &mut self.counters {
            let data = counter.read_full().map_err(|error| error.to_string())?;
            let enabled = data.time_enabled().unwrap_or_default().as_secs_f64();
            let running = data.time_running().unwrap_or_default().as_secs_f64();
            sum += scaled(data.count() as f64, enabled, running)?;
        }
        Ok(sum * self.event.unit)
    }
}

impl Source for Attached {
    fn names(&self) -> &'static [&'static str] {
        self.event.names
    }

    fn read(&mut self) -> Vec<Reading<f64>> {
        vec![self.sum().into()]
    }
}

/// What the count would be had the event been counted all the time. A thread that never ran has not been counted
/// and has nothing to count.
fn scaled(count: f64, enabled: f64, running: f64) -> Result<f64, String> {
    if enabled == 0.0 {
        return Ok(count);
    }
    let coverage = running / enabled;
    if coverage < COVERAGE_MIN {
        let share = 100.0 * coverage;
        return Err(format!(
            "counted for {share:.0} % of the time: more events than the processor has counters"
        ));
    }
    Ok(count / coverage)
}

fn counter(event: Event, thread: u32) -> io::Result<Counter> {
    let mut builder = match event.kind {
        Kind::Software(which) => Builder::new(which),
        Kind::Hardware(which) => Builder::new(which),
        Kind::Cache(which) => {
            Builder::new(Cache { which, operation: CacheOp::READ, result: CacheResult::MISS })
        }
        Kind::SecondLevel => Builder::new(second_level()?),
    };
    builder.exclude_user(event.mode == Mode::Kernel).exclude_kernel(event.mode == Mode::User);
    builder.observe_pid(thread.cast_signed()).any_cpu().inherit(true).enabled(true).build()
}

/// Misses of the second-level cache by processor family, from the vendors' manuals: Intel L2_RQSTS.MISS, AMD
/// PMCx064 (instruction and data misses of the core's requests), Arm L2D_CACHE_REFILL.
fn second_level() -> io::Result<Raw> {
    if cfg!(target_arch = "aarch64") {
        return Ok(Raw::new(0x17));
    }
    let text = std::fs::read_to_string("/proc/cpuinfo")?;
    let vendor = text.lines().find_map(|line| line.strip_prefix("vendor_id")?.split_once(':'));
    match vendor.map(|(_, name)| name.trim()) {
        Some("GenuineIntel") => Ok(Raw::new(0x3f24)),
        Some("AuthenticAMD") => Ok(Raw::new(0x0964)),
        _ => Err(io::Error::new(io::ErrorKind::Unsupported, "no code is known for this processor family")),
    }
}

/// Why an event cannot be opened, in words that say what could be done.
fn reason(kind: Kind, error: &io::Error) -> String {
    let of_the_processor = !matches!(kind, Kind::Software(_));
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO | libc::EOPNOTSUPP) if of_the_processor => {
            "the kernel shows no such counter of the processor (a virtual machine without a PMU?)".to_owned()
        }
        Some(libc::EACCES | libc::EPERM) => {
            format!("{error}: kernel.perf_event_paranoid or a container forbids it; CAP_PERFMON allows it")
        }
        Some(libc::EMFILE) => format!("{error}: raise the limit on open files"),
        Some(libc::EINVAL) if of_the_processor => "this processor does not count it".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn scaling_is_by_the_time_that_was_counted() {
        assert_eq!(scaled(95.0, 10.0, 9.5), Ok(100.0));
        assert_eq!(scaled(0.0, 0.0, 0.0), Ok(0.0));
        assert!(scaled(50.0, 10.0, 5.0).unwrap_err().contains("50 %"));
    }

    #[test]
    fn reasons_name_a_cure() {
        let refused = |kind, code| reason(kind, &io::Error::from_raw_os_error(code));
        assert!(refused(Kind::Hardware(Hardware::CPU_CYCLES), libc::ENOENT).contains("PMU"));
        assert!(refused(Kind::Software(Software::TASK_CLOCK), libc::EACCES).contains("CAP_PERFMON"));
        assert!(refused(Kind::Software(Software::TASK_CLOCK), libc::EMFILE).contains("open files"));
    }

    #[test]
    fn a_child_that_spins_is_counted_with_its_own_child_that_ends_early() {
        let spin = "read go; ( i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done ); read end";
        let mut child = std::process::Command::new("sh")
            .args(["-c", spin])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let target = Target { pids: vec![child.id()], ..Target::default() };
        let mut opened = open(&target);
        let (names, clock) = &mut opened[0];
        assert_eq!(*names, ["perf_task_clock_seconds"]);
        let Reading::Value(clock) = clock else {
            eprintln!("skipped: {clock:?}");
            child.kill().unwrap();
            child.wait().unwrap();
            return;
        };
        let before = clock.sum().unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(b"go\nend\n").unwrap();
        child.wait().unwrap();
        let used = clock.sum().unwrap() - before;
        assert!(used > 0.02, "{used} s for two hundred thousand turns of a loop");
    }

    impl std::fmt::Debug for Attached {
        fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(formatter, "{:?} on {} threads", self.event.names, self.counters.len())
        }
    }
}
