//! Counters of whole process trees: the named processes, their descendants, and ended children.
//!
//! A server that forks per connection spends its time in children that live for a millisecond. The kernel adds such a
//! child to its parent's totals once the parent has waited for it. The sum of own and ended children's time over the
//! tree therefore never decreases, and includes everything that was waited for.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::{
    Nanos, Reading, clock,
    process::{Detail, ProcessCounters, children, forgets_children, has_ended},
};

/// The most processes watched at once; beyond that the youngest are left out, and that is reported.
pub const PROCESSES_MAX: usize = 4096;
/// Children are found by a file per thread. For a process with more threads than this that happens at most once in
/// [`CHILDREN_EVERY`].
const THREADS_FEW: u64 = 16;
const CHILDREN_EVERY: Nanos = Nanos(1_000_000_000);

#[derive(Debug)]
pub struct ProcessTree {
    roots: Vec<u32>,
    known: BTreeSet<u32>,
    parents: BTreeMap<u32, u32>,
    /// When the children of processes with many threads were last searched.
    children_found: BTreeMap<u32, Nanos>,
    /// Why the sums are permanently incomplete, if they are.
    forgotten: Option<String>,
}

impl ProcessTree {
    /// Watches these processes and their descendants.
    pub fn new(roots: &[u32]) -> ProcessTree {
        ProcessTree {
            roots: roots.to_vec(),
            known: roots.iter().copied().collect(),
            parents: BTreeMap::new(),
            children_found: BTreeMap::new(),
            forgotten: None,
        }
    }

    /// Reads every process of the trees, after searching for new descendants.
    pub fn sample(&mut self, detail: Detail) -> TreeSample {
        let (mut processes, mut unreadable) = (BTreeMap::new(), None);
        let mut queue: Vec<u32> = self.known.iter().copied().collect();
        while let Some(pid) = queue.pop() {
            let counters = match ProcessCounters::read(pid, detail) {
                Ok(counters) => counters,
                Err(error) => {
                    if has_ended(&error) {
                        self.known.remove(&pid);
                        self.children_found.remove(&pid);
                        self.note_end(pid);
                    } else {
                        unreadable = Some(error.to_string());
                    }
                    continue;
                }
            };
            let threads = counters.threads;
            processes.insert(pid, counters);
            if !self.is_time_for_children(pid, threads) {
                continue;
            }
            for child in children(pid).unwrap_or_default() {
                if self.known.len() < PROCESSES_MAX && self.known.insert(child) {
                    self.parents.insert(child, pid);
                    queue.push(child);
                }
            }
        }
        let ended_roots = self.roots.iter().copied().filter(|root| !self.known.contains(root)).collect();
        TreeSample {
            time: clock::now(),
            processes,
            ended_roots,
            unreadable: self.forgotten.clone().or(unreadable),
        }
    }

    fn is_time_for_children(&mut self, pid: u32, threads: u64) -> bool {
        if threads <= THREADS_FEW {
            return true;
        }
        let now = clock::now();
        let is_time = self.children_found.get(&pid).is_none_or(|&found| now - found >= CHILDREN_EVERY);
        if is_time {
            self.children_found.insert(pid, now);
        }
        is_time
    }

    /// The parent of an ended process keeps its figures if it waits for it; otherwise they are lost.
    fn note_end(&mut self, pid: u32) {
        let Some(parent) = self.parents.remove(&pid) else { return };
        if forgets_children(parent).unwrap_or(false) {
            self.forgotten = Some(format!(
                "process {parent} ignores SIGCHLD, so that the kernel forgets what its ended children used; \
                 perf_task_clock_seconds and a control group have it"
            ));
        }
    }

    /// The first named process that has ended, if any; cheap enough to call often.
    pub fn ended_root(&self) -> Option<u32> {
        self.roots.iter().copied().find(|&root| !is_running(root))
    }
}

/// Returns true for a process that exists and is not a zombie, and if it cannot be read for other reasons, such as a
/// lack of descriptors.
fn is_running(pid: u32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => {
            let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
            !matches!(state, Some('Z' | 'X'))
        }
        Err(error) => !has_ended(&error),
    }
}

/// The counters of the trees at one moment.
#[derive(Clone, Debug)]
pub struct TreeSample {
    pub time: Nanos,
    processes: BTreeMap<u32, ProcessCounters>,
    ended_roots: Vec<u32>,
    unreadable: Option<String>,
}

/// What the trees used between two samples.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
pub struct ProcessUse {
    /// CPU time, user and system.
    pub cpu_seconds: Reading<f64>,
    /// The user share of the CPU time, from ticks.
    pub cpu_user_fraction: Reading<f64>,
    /// Page faults without disk access.
    pub minor_faults: Reading<u64>,
    /// Page faults that waited for a disk.
    pub major_faults: Reading<u64>,
    /// How often threads gave up the core to wait.
    pub voluntary_switches: Reading<u64>,
    /// How often threads were preempted.
    pub involuntary_switches: Reading<u64>,
    /// Resident memory at the end, summed: pages shared by several processes count in each.
    pub resident_bytes: Reading<u64>,
}

impl TreeSample {
    /// CPU time of the trees so far.
    pub fn cpu(&self) -> Nanos {
        self.processes.values().map(|process| process.cpu + process.children_cpu).sum()
    }

    /// CPU time of each process, including its ended children's.
    pub fn each_cpu(&self) -> impl Iterator<Item = (u32, Nanos)> + '_ {
        self.processes.iter().map(|(&pid, process)| (pid, process.cpu + process.children_cpu))
    }

    pub fn pids(&self) -> impl Iterator<Item = u32> + '_ {
        self.processes.keys().copied()
    }

    /// Why the trees' counters are unavailable; an incomplete sum would look complete.
    pub fn unavailable_reason(&self) -> Option<String> {
        let ended = self.ended_roots.first().map(|ended| format!("process {ended} ended"));
        ended.or_else(|| self.unreadable.clone())
    }

    /// The sum of all processes' counters, except `started`, which stays zero.
    pub fn totals(&self) -> ProcessCounters {
        ProcessCounters {
            started: 0,
            cpu: self.processes.values().map(|process| process.cpu).sum(),
            children_cpu: self.processes.values().map(|process| process.children_cpu).sum(),
            user: self.processes.values().map(|process| process.user).sum(),
            system: self.processes.values().map(|process| process.system).sum(),
            minor_faults: self.sum(|process| process.minor_faults),
            major_faults: self.sum(|process| process.major_faults),
            voluntary_switches: self.sum(|process| process.voluntary_switches),
            involuntary_switches: self.sum(|process| process.involuntary_switches),
            resident_bytes: self.sum(|process| process.resident_bytes),
            threads: self.sum(|process| process.threads),
            blocked_threads: self.sum(|process| process.blocked_threads),
        }
    }

    pub fn process_count(&self) -> usize {
        self.processes.len()
    }

    /// What was used since an earlier sample.
    pub fn since(&self, earlier: &TreeSample) -> ProcessUse {
        if let Some(why) = self.unavailable_reason().or_else(|| earlier.unreadable.clone()) {
            return ProcessUse::unavailable(&why);
        }
        let difference =
            |field: fn(&ProcessCounters) -> u64| self.sum(field).saturating_sub(earlier.sum(field));
        let user = difference(|process| process.user.0);
        let ticks = user + difference(|process| process.system.0);
        let switches = |field| match self.ended_since(earlier) {
            0 => Reading::Value(difference(field)),
            count => Reading::unavailable(format!("{count} processes ended, and with them their counts")),
        };
        ProcessUse {
            cpu_seconds: Reading::Value((self.cpu() - earlier.cpu()).seconds()),
            cpu_user_fraction: match ticks {
                0 => Reading::unavailable("less CPU time than the kernel's tick of 10 ms"),
                _ => Reading::Value(user as f64 / ticks as f64),
            },
            minor_faults: Reading::Value(difference(|process| process.minor_faults)),
            major_faults: Reading::Value(difference(|process| process.major_faults)),
            voluntary_switches: switches(|process| process.voluntary_switches),
            involuntary_switches: switches(|process| process.involuntary_switches),
            resident_bytes: Reading::Value(self.sum(|process| process.resident_bytes)),
        }
    }

    fn sum(&self, field: fn(&ProcessCounters) -> u64) -> u64 {
        self.processes.values().map(field).sum()
    }

    fn ended_since(&self, earlier: &TreeSample) -> usize {
        let lives = |pid, started| self.processes.get(pid).is_some_and(|now| now.started == started);
        earlier.processes.iter().filter(|(pid, process)| !lives(pid, process.started)).count()
    }
}

impl ProcessUse {
    /// A result in which every counter is unavailable for this reason.
    pub fn unavailable(why: &str) -> ProcessUse {
        ProcessUse {
            cpu_seconds: Reading::unavailable(why),
            cpu_user_fraction: Reading::unavailable(why),
            minor_faults: Reading::unavailable(why),
            major_faults: Reading::unavailable(why),
            voluntary_switches: Reading::unavailable(why),
            involuntary_switches: Reading::unavailable(why),
            resident_bytes: Reading::unavailable(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    fn spawn(script: &str) -> Child {
        Command::new("sh").args(["-c", script]).spawn().unwrap()
    }

    /// A command that uses half a second of CPU time, then waits to be killed.
    const SPIN: &str = "while :; do read line < /proc/$$/schedstat; [ ${line%% *} -gt 500000000 ] && break; done; \
                        exec sleep 60";

    fn wait_until(mut done: impl FnMut() -> bool) {
        let limit = clock::now() + Nanos::from_seconds(60.0);
        while !done() {
            assert!(clock::now() < limit, "it did not happen within a minute");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    #[test]
    fn a_spinning_child_is_charged_what_it_used() {
        let mut child = spawn(SPIN);
        let mut tree = ProcessTree::new(&[child.id()]);
        let before = tree.sample(Detail::All);
        let comm = format!("/proc/{}/comm", child.id());
        wait_until(|| std::fs::read_to_string(&comm).is_ok_and(|name| name.trim() == "sleep"));
        let used = tree.sample(Detail::All).since(&before);
        child.kill().unwrap();
        child.wait().unwrap();
        let seconds = *used.cpu_seconds.value().unwrap();
        assert!((0.4..0.6).contains(&seconds), "{seconds}");
        assert!(used.voluntary_switches.value().is_some());
    }

    #[test]
    fn descendants_count_while_they_live_and_after() {
        // The subshell is a child; `sleep` keeps the root alive and idle.
        let mut child = spawn("( i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done ); sleep 60; :");
        let mut tree = ProcessTree::new(&[child.id()]);
        let before = tree.sample(Detail::Times);
        let mut seen_two = false;
        wait_until(|| {
            let sample = tree.sample(Detail::Times);
            seen_two |= sample.process_count() == 2;
            let root = sample.processes.get(&child.id()).unwrap();
            root.children_cpu > Nanos::ZERO
        });
        let used = tree.sample(Detail::Times).since(&before);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(seen_two);
        assert!(*used.cpu_seconds.value().unwrap() >= 0.02, "{used:?}");
        assert!(*used.minor_faults.value().unwrap() > 0, "{used:?}");
    }

    #[test]
    fn memory_that_is_touched_shows_as_faults_and_as_resident() {
        // dd fills one buffer of 32 MiB: 8192 pages of 4 KiB.
        let mut child =
            spawn("read go; dd if=/dev/zero of=/dev/null bs=32M count=1 2>/dev/null; sleep 60; :");
        // `read` of the null device ends at once, so sample as early as possible and check only a lower bound.
        let mut tree = ProcessTree::new(&[child.id()]);
        let before = tree.sample(Detail::Times);
        wait_until(|| {
            tree.sample(Detail::Times).since(&before).minor_faults.value().is_some_and(|&n| n >= 8192)
        });
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_root_that_ends_is_noticed() {
        let mut child = spawn("exec sleep 60");
        let mut tree = ProcessTree::new(&[child.id()]);
        let before = tree.sample(Detail::All);
        assert_eq!(tree.ended_root(), None);
        child.kill().unwrap();
        wait_until(|| tree.ended_root().is_some());
        child.wait().unwrap();
        let used = tree.sample(Detail::All).since(&before);
        let Reading::Unavailable(why) = used.cpu_seconds else { panic!("a dead process has no figures") };
        assert!(why.contains("ended"), "{why}");
    }
}
