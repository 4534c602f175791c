//! Counters of one process from /proc/PID: CPU time, faults, switches, memory.
//!
//! CPU time is the process's own clock, exact to the nanosecond, including ended threads; `stat` divides it into user
//! and system time in ticks of 10 ms. Context switches are known for living threads only.

use std::{fs, io};

use crate::{Nanos, proc_file};

/// The unit of `stat`'s user and system time (`USER_HZ`, 100 on every Linux architecture).
pub const TICK: Nanos = Nanos(10_000_000);

/// With more threads than this, reading each takes milliseconds.
pub const THREADS_MANY: u64 = 64;

/// What one process has used so far, all threads together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessCounters {
    /// Start time in ticks since boot; detects a reused process ID.
    pub started: u64,
    /// CPU time of its own threads, living and ended.
    pub cpu: Nanos,
    /// CPU time of ended children that it waited for, in whole ticks.
    pub children_cpu: Nanos,
    /// The user part of both, in whole ticks.
    pub user: Nanos,
    /// The system part of both, in whole ticks.
    pub system: Nanos,
    /// Page faults without disk access, its own and those of ended children.
    pub minor_faults: u64,
    /// Page faults that waited for a disk, its own and those of ended children.
    pub major_faults: u64,
    /// How often its threads gave up the core to wait.
    pub voluntary_switches: u64,
    /// How often its threads were preempted.
    pub involuntary_switches: u64,
    pub resident_bytes: u64,
    pub threads: u64,
    /// Threads in uninterruptible sleep, nearly always waiting for a disk.
    pub blocked_threads: u64,
}

/// How much to read about a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// CPU time, faults and memory: cheap enough for ten times a second.
    Times,
    /// Also context switches and blocked threads, which needs a file per thread.
    All,
}

impl ProcessCounters {
    pub fn read(pid: u32, detail: Detail) -> io::Result<ProcessCounters> {
        let path = format!("/proc/{pid}/stat");
        let text = proc_file::read(&path)?;
        let mut counters =
            parse_stat(&text).ok_or_else(|| proc_file::missing_entry(&path, "process times"))?;
        // If the process has ended meanwhile, `stat`'s time is used.
        counters.cpu = cpu(pid).unwrap_or(counters.cpu);
        if detail == Detail::All {
            for thread in threads(pid)? {
                counters.add(&ThreadCounters::read(pid, thread).unwrap_or_default());
            }
        }
        Ok(counters)
    }

    fn add(&mut self, thread: &ThreadCounters) {
        self.voluntary_switches += thread.voluntary_switches;
        self.involuntary_switches += thread.involuntary_switches;
        self.blocked_threads += u64::from(thread.is_blocked);
    }
}

/// Sums of values that only the files of single threads have.
#[derive(Default)]
struct ThreadCounters {
    is_blocked: bool,
    voluntary_switches: u64,
    involuntary_switches: u64,
}

impl ThreadCounters {
    fn read(pid: u32, thread: u32) -> Option<ThreadCounters> {
        ThreadCounters::parse(&proc_file::read(&format!("/proc/{pid}/task/{thread}/status")).ok()?)
    }

    fn parse(status: &str) -> Option<ThreadCounters> {
        let find = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        Some(ThreadCounters {
            is_blocked: find("State:")?.starts_with('D'),
            voluntary_switches: find("voluntary_ctxt_switches:")?.parse().ok()?,
            involuntary_switches: find("nonvoluntary_ctxt_switches:")?.parse().ok()?,
        })
    }
}

fn cpu(pid: u32) -> io::Result<Nanos> {
    let (mut clock, mut time) = (0, libc::timespec { tv_sec: 0, tv_nsec: 0 });
    // SAFETY: both calls write to their arguments and keep no reference.
    let failed = unsafe {
        let error = libc::clock_getcpuclockid(pid.cast_signed(), &raw mut clock);
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
        libc::clock_gettime(clock, &raw mut time) != 0
    };
    if failed {
        return Err(io::Error::last_os_error());
    }
    Ok(Nanos(time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()))
}

/// How long the calling thread was runnable while other tasks ran on its core.
pub fn thread_core_wait() -> io::Result<Nanos> {
    core_wait("/proc/thread-self/schedstat")
}

/// The same for every living thread of a process, by thread ID. Includes the few microseconds of waking up on an idle
/// core.
pub fn core_waits(pid: u32) -> io::Result<Vec<(u32, Nanos)>> {
    let mut waits = Vec::new();
    for thread in threads(pid)? {
        match core_wait(&format!("/proc/{pid}/task/{thread}/schedstat")) {
            Ok(wait) => waits.push((thread, wait)),
            Err(error) if has_ended(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(waits)
}

/// Returns true if a thread of the process runs, or waits for a core now; that wait is not counted before it ends.
pub fn is_ready(pid: u32) -> io::Result<bool> {
    let state = |thread| proc_file::read(&format!("/proc/{pid}/task/{thread}/stat")).ok();
    let is_ready = |text: &String| text.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('R'));
    Ok(threads(pid)?.into_iter().filter_map(state).any(|text| is_ready(&text)))
}

fn core_wait(path: &str) -> io::Result<Nanos> {
    let text = proc_file::read_kept(path)?;
    let wait = text.split(' ').nth(1).and_then(|wait| wait.parse().ok());
    wait.map(Nanos).ok_or_else(|| proc_file::missing_entry(path, "waiting time"))
}

/// Returns true if an error of reading /proc/PID means that the process or thread has ended.
pub fn has_ended(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

/// The start time of a living process in ticks since boot, which together with its ID identifies it.
pub fn started(pid: u32) -> Option<u64> {
    let text = proc_file::read(&format!("/proc/{pid}/stat")).ok()?;
    // A zombie counts as ended.
    let is_over = text.rsplit_once(')')?.1.trim_start().starts_with(['Z', 'X']);
    if is_over { None } else { parse_stat(&text).map(|counters| counters.started) }
}

/// The parent of a living process.
pub fn parent(pid: u32) -> Option<u32> {
    let text = proc_file::read(&format!("/proc/{pid}/stat")).ok()?;
    // After the name in parentheses, which may contain any: the state and the parent.
    text.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

pub fn children(pid: u32) -> io::Result<Vec<u32>> {
    let mut all = Vec::new();
    for thread in threads(pid)? {
        let path = format!("/proc/{pid}/task/{thread}/children");
        let text = match proc_file::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        all.extend(text.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
    }
    Ok(all)
}

/// Returns true if the process ignores SIGCHLD: the kernel then discards the CPU time of its ended children.
pub fn forgets_children(pid: u32) -> io::Result<bool> {
    let path = format!("/proc/{pid}/status");
    let text = proc_file::read(&path)?;
    let mask = text.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let mask = mask.ok_or_else(|| proc_file::missing_entry(&path, "SigIgn"))?;
    Ok(mask & (1 << (libc::SIGCHLD - 1)) != 0)
}

pub fn threads(pid: u32) -> io::Result<Vec<u32>> {
    let entries = proc_file::with_descriptors(|| fs::read_dir(format!("/proc/{pid}/task")))?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
}

/// proc(5): the name in parentheses may contain spaces and parentheses, so search the last one.
fn parse_stat(text: &str) -> Option<ProcessCounters> {
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    // proc(5) numbers fields from 1; the state, number 3, is fields[0].
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let ticks = |number| Some(Nanos(field(number)? * TICK.0));
    let (user, system, children_user, children_system) = (ticks(14)?, ticks(15)?, ticks(16)?, ticks(17)?);
    Some(ProcessCounters {
        started: field(22)?,
        cpu: user + system,
        children_cpu: children_user + children_system,
        user: user + children_user,
        system: system + children_system,
        minor_faults: field(10)? + field(11)?,
        major_faults: field(12)? + field(13)?,
        voluntary_switches: 0,
        involuntary_switches: 0,
        resident_bytes: field(24)? * rustix::param::page_size() as u64,
        threads: field(20)?,
        blocked_threads: 0,
    })
}

/// CPU time of a living thread and its waiting time for a core: the first two numbers of `schedstat`, in nanoseconds.
pub fn thread_run(pid: u32, thread: u32) -> Option<(Nanos, Nanos)> {
    let text = proc_file::read_kept(&format!("/proc/{pid}/task/{thread}/schedstat")).ok()?;
    let mut numbers = text.split(' ').map(|number| number.parse().map(Nanos));
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_shift_the_fields() {
        let rest = "S 1 2 3 4 5 6 100 20 3 1 50 25 4 1 20 0 7 0 9999 1000000 10";
        let counters = parse_stat(&format!("42 (a) (b c) {rest}")).unwrap();
        assert_eq!((counters.minor_faults, counters.major_faults), (120, 4));
        assert_eq!((counters.user, counters.system), (Nanos(540_000_000), Nanos(260_000_000)));
        assert_eq!((counters.threads, counters.started), (7, 9999));
    }

    #[test]
    fn the_time_of_threads_that_ended_is_not_lost() {
        let used = std::thread::spawn(|| {
            while crate::clock::thread_cpu() < Nanos(50_000_000) {
                std::hint::black_box(0);
            }
            cpu(std::process::id()).unwrap()
        });
        let used = used.join().unwrap();
        let counters = ProcessCounters::read(std::process::id(), Detail::Times).unwrap();
        assert!(counters.cpu >= used && used >= Nanos(50_000_000), "{counters:?} after {used:?}");
    }

    #[test]
    fn a_thread_that_waits_for_a_disk_is_blocked() {
        let status = |state| {
            format!(
                "Name:\tD\nState:\t{state}\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t3\n"
            )
        };
        let blocked = ThreadCounters::parse(&status("D (disk sleep)")).unwrap();
        assert!(blocked.is_blocked && (blocked.voluntary_switches, blocked.involuntary_switches) == (7, 3));
        assert!(!ThreadCounters::parse(&status("S (sleeping)")).unwrap().is_blocked);
    }

    #[test]
    fn waiting_for_a_core_never_goes_back() {
        let before = thread_core_wait().unwrap();
        assert!(thread_core_wait().unwrap() >= before);
        assert!(is_ready(std::process::id()).unwrap(), "it runs this test");
        let waits = core_waits(std::process::id()).unwrap();
        let own = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        let found = waits.iter().find(|(thread, _)| *thread == own);
        assert!(found.is_some_and(|(_, wait)| *wait >= before));
    }

    #[test]
    fn a_process_that_does_not_exist_is_an_error() {
        assert!(ProcessCounters::read(u32::MAX, Detail::Times).is_err());
    }
}
