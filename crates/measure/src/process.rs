//! Counters of one process from /proc/PID: CPU time, faults, switches, memory.
//!
//! CPU time comes in two precisions. `schedstat` of each thread is exact to the nanosecond but forgets
//! threads that ended; `stat` remembers them but counts ticks of 10 ms. The larger of the two is the
//! process's own time. Switches are known per living thread only.

use std::{fs, io};

use crate::{Nanos, proc_file};

/// `stat` counts user and system time in these (`USER_HZ`, 100 on every architecture Linux runs on).
pub const TICK: Nanos = Nanos(10_000_000);

/// What one process has used so far, its threads together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessCounters {
    /// When it started, in ticks since boot: tells a reused number from the same process.
    pub started: u64,
    /// CPU time of its own threads, living and ended.
    pub cpu: Nanos,
    /// CPU time of children that ended and were waited for, in whole ticks.
    pub children_cpu: Nanos,
    /// The user share, own and of ended children, in whole ticks.
    pub user: Nanos,
    /// The system share, own and of ended children, in whole ticks.
    pub system: Nanos,
    /// Page faults that needed no disk, own and of ended children.
    pub minor_faults: u64,
    /// Page faults that waited for a disk, own and of ended children.
    pub major_faults: u64,
    /// Times its threads gave up the core to wait.
    pub voluntary_switches: u64,
    /// Times the core was taken from its threads.
    pub involuntary_switches: u64,
    /// Memory in use.
    pub resident_bytes: u64,
    /// Living threads.
    pub threads: u64,
}

/// How much of a process to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// CPU time, faults, memory: cheap enough for ten times a second.
    Times,
    /// Switches too, which costs another file per thread.
    All,
}

impl ProcessCounters {
    /// Reads the counters of one process.
    pub fn read(pid: u32, detail: Detail) -> io::Result<ProcessCounters> {
        let path = format!("/proc/{pid}/stat");
        let text = proc_file::read(&path)?;
        let mut counters = parse_stat(&text).ok_or_else(|| proc_file::lacks(&path, "process times"))?;
        let ticks = counters.cpu;
        let mut precise = Nanos::ZERO;
        for thread in threads(pid)? {
            // A thread that ends between listing and reading is in `stat` already.
            precise = precise + thread_cpu(pid, thread).unwrap_or_default();
            if detail == Detail::All {
                let (voluntary, involuntary) = thread_switches(pid, thread).unwrap_or_default();
                counters.voluntary_switches += voluntary;
                counters.involuntary_switches += involuntary;
            }
        }
        // Each of the two tick counts is cut off, so only a larger gap means threads that ended.
        counters.cpu = if ticks > precise + TICK { ticks } else { precise };
        Ok(counters)
    }
}

/// How long the calling thread has been ready to run while its core was taken by others.
pub fn thread_core_wait() -> io::Result<Nanos> {
    const PATH: &str = "/proc/thread-self/schedstat";
    let text = proc_file::read(PATH)?;
    let wait = text.split(' ').nth(1).and_then(|wait| wait.parse().ok());
    wait.map(Nanos).ok_or_else(|| proc_file::lacks(PATH, "waiting time"))
}

/// When a process that still lives started, in ticks since boot: with its number it says who it is.
pub fn started(pid: u32) -> Option<u64> {
    let text = proc_file::read(&format!("/proc/{pid}/stat")).ok()?;
    // One that has ended and is yet to be waited for does nothing any more.
    let is_over = text.rsplit_once(')')?.1.trim_start().starts_with(['Z', 'X']);
    if is_over { None } else { parse_stat(&text).map(|counters| counters.started) }
}

/// The children that one process has now.
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

/// Whether a process ignores SIGCHLD (or inherited that): its ended children are then forgotten, time and all.
pub fn forgets_children(pid: u32) -> io::Result<bool> {
    let path = format!("/proc/{pid}/status");
    let text = proc_file::read(&path)?;
    let mask = text.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let mask = mask.ok_or_else(|| proc_file::lacks(&path, "SigIgn"))?;
    Ok(mask & (1 << (libc::SIGCHLD - 1)) != 0)
}

/// The living threads of one process.
pub fn threads(pid: u32) -> io::Result<Vec<u32>> {
    let entries = fs::read_dir(format!("/proc/{pid}/task"))?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
}

/// proc(5): the name in parentheses may itself hold spaces and parentheses, so count from the last one.
fn parse_stat(text: &str) -> Option<ProcessCounters> {
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    // Field 3 of proc(5), the state, is fields[0].
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
    })
}

/// How long a thread has been on a core, if it still lives: the first number of `schedstat`, in nanoseconds.
pub fn thread_cpu(pid: u32, thread: u32) -> Option<Nanos> {
    let text = proc_file::read(&format!("/proc/{pid}/task/{thread}/schedstat")).ok()?;
    Some(Nanos(text.split(' ').next()?.parse().ok()?))
}

/// Whether a thread waits and cannot be woken by a signal, which nearly always means for a disk.
pub fn is_blocked(pid: u32, thread: u32) -> bool {
    let text = proc_file::read(&format!("/proc/{pid}/task/{thread}/stat")).unwrap_or_default();
    text.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('D'))
}

fn thread_switches(pid: u32, thread: u32) -> Option<(u64, u64)> {
    let text = proc_file::read(&format!("/proc/{pid}/task/{thread}/status")).ok()?;
    let find = |key: &str| text.lines().find_map(|line| line.strip_prefix(key))?.trim().parse().ok();
    Some((find("voluntary_ctxt_switches:")?, find("nonvoluntary_ctxt_switches:")?))
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
    fn waiting_for_a_core_never_goes_back() {
        let before = thread_core_wait().unwrap();
        assert!(thread_core_wait().unwrap() >= before);
    }

    #[test]
    fn a_process_that_does_not_exist_is_an_error() {
        assert!(ProcessCounters::read(u32::MAX, Detail::Times).is_err());
    }
}
