//! Process trees by /proc: the named processes, their descendants, and ended children that were waited for.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;

use super::Source;
use crate::process::{self, Detail, THREADS_MANY};
use crate::{Nanos, ProcessTree, Reading, TreeSample, clock, proc_file};

pub const NAMES: &[&str] = &[
    "cpu_seconds",
    "cpu_user_seconds",
    "cpu_system_seconds",
    "minor_faults",
    "major_faults",
    "voluntary_switches",
    "involuntary_switches",
    "resident_bytes",
    "processes",
    "threads",
    "busiest_thread_fraction",
    "busiest_process_fraction",
    "core_wait_seconds",
    "blocked_threads",
    "descriptors",
    "disk_read_bytes",
    "disk_written_bytes",
    "proportional_bytes",
];

/// The kernel walks all page tables for proportional memory, so it is read less often than the rest.
const PROPORTIONAL_EVERY: Nanos = Nanos(1_000_000_000);

/// How often single threads are read if there are more than [`THREADS_MANY`].
const THREADS_EVERY: Nanos = Nanos(1_000_000_000);

/// How long the busiest process is looked for: in less time, chance makes one the busiest of several.
const BUSIEST_OVER: Nanos = Nanos(1_000_000_000);

/// The least time between readings of whole processes that are kept to compare later ones with.
const LOOKS_EVERY: Nanos = Nanos(50_000_000);

pub struct Processes {
    tree: ProcessTree,
    by_thread: Option<ByThread>,
    proportional: Reading<f64>,
    proportional_time: Option<Nanos>,
    /// Every process ever seen in the trees.
    seen: BTreeSet<u32>,
    /// The last reading of single threads.
    threads: Option<Look>,
    /// Readings of whole processes: the last that is old enough to compare with, and those after it.
    processes: VecDeque<Look>,
    /// The sum of all waits for a core, including those of ended threads.
    core_wait: Nanos,
}

/// The latest values that only single threads have.
#[derive(Clone)]
struct ByThread {
    time: Nanos,
    voluntary_switches: u64,
    involuntary_switches: u64,
    blocked_threads: u64,
    busiest_thread: Reading<f64>,
    core_wait: Reading<f64>,
}

/// The times of each thread or process at one moment.
struct Look {
    time: Nanos,
    used: BTreeMap<u32, Run>,
}

/// The two times of `schedstat`; for a whole process only the first.
#[derive(Clone, Copy, Default)]
struct Run {
    cpu: Nanos,
    core_wait: Nanos,
}

impl Processes {
    /// Watches these processes and their descendants.
    pub fn new(pids: &[u32]) -> Processes {
        let tree = ProcessTree::new(pids);
        let proportional = Reading::unavailable("not read yet");
        Processes {
            tree,
            by_thread: None,
            proportional,
            proportional_time: None,
            seen: BTreeSet::new(),
            threads: None,
            processes: VecDeque::new(),
            core_wait: Nanos::ZERO,
        }
    }

    /// Reads every thread: the busiest one's share of a core, and how long all waited for one. A new thread counts from
    /// its start.
    fn threads(&mut self, pids: &[u32]) -> (Reading<f64>, Reading<f64>) {
        let runs = pids.iter().flat_map(|&pid| {
            let threads = process::threads(pid).unwrap_or_default();
            threads.into_iter().filter_map(move |thread| {
                let (cpu, core_wait) = process::thread_run(pid, thread)?;
                Some((thread, Run { cpu, core_wait }))
            })
        });
        let now = Look { time: clock::now(), used: runs.collect() };
        let before = self.threads.replace(now);
        let now = self.threads.as_ref().expect("just put there");
        if before.is_some() {
            let grown: Nanos = now.grown(before.as_ref(), |run| run.core_wait).sum();
            self.core_wait = self.core_wait + grown;
        }
        (now.busiest(before.as_ref()), Reading::Value(self.core_wait.seconds()))
    }

    /// The share of a core that the busiest process used, over all its threads, in about the last second; in all the time
    /// since the first sample, or since the one before, where that is less or more.
    fn busiest_process(&mut self, sample: &TreeSample) -> Reading<f64> {
        let used = sample.each_cpu().map(|(pid, cpu)| (pid, Run { cpu, ..Run::default() })).collect();
        let now = Look { time: sample.time, used };
        while self.processes.get(1).is_some_and(|next| now.time - next.time >= BUSIEST_OVER) {
            self.processes.pop_front();
        }
        let found = now.busiest(self.processes.front());
        if self.processes.back().is_none_or(|last| now.time - last.time >= LOOKS_EVERY) {
            self.processes.push_back(now);
        }
        found
    }

    fn proportional_bytes(&mut self, pids: &[u32]) -> Reading<f64> {
        let now = clock::now();
        if self.proportional_time.is_none_or(|time| now - time >= PROPORTIONAL_EVERY) {
            self.proportional_time = Some(now);
            self.proportional = sum(pids, |pid| {
                let path = format!("/proc/{pid}/smaps_rollup");
                let text = proc_file::read(&path).map_err(|error| error.to_string())?;
                let found = field(&text, "Pss:").map(|kibibytes| kibibytes * 1024.0);
                found.ok_or_else(|| format!("{path} has no Pss"))
            });
        }
        self.proportional.clone()
    }
}

impl Look {
    /// What each thread or process used since an earlier reading.
    fn grown(&self, before: Option<&Look>, field: fn(&Run) -> Nanos) -> impl Iterator<Item = Nanos> {
        self.used.iter().map(move |(id, run)| {
            let earlier = before.and_then(|look| look.used.get(id)).map_or(Nanos::ZERO, field);
            // A thread ID that was reused starts again.
            Nanos(field(run).0.checked_sub(earlier.0).unwrap_or(field(run).0))
        })
    }

    fn busiest(&self, before: Option<&Look>) -> Reading<f64> {
        let Some(before) = before else { return Reading::unavailable("a share needs two samples") };
        let most = self.grown(Some(before), |run| run.cpu).max().unwrap_or(Nanos::ZERO);
        Reading::Value(most.seconds() / (self.time - before.time).seconds())
    }
}

impl Source for Processes {
    fn names(&self) -> &'static [&'static str] {
        NAMES
    }

    fn read(&mut self) -> Vec<Reading<f64>> {
        let now = clock::now();
        let earlier = self.by_thread.take_if(|seen| now - seen.time < THREADS_EVERY);
        let detail = if earlier.is_some() { Detail::Times } else { Detail::All };
        let sample: TreeSample = self.tree.sample(detail);
        if let Some(why) = sample.unavailable_reason() {
            return NAMES.iter().map(|_| Reading::unavailable(&why)).collect();
        }
        let pids: Vec<u32> = sample.pids().collect();
        let totals = sample.totals();
        let lost = self.seen.iter().filter(|pid| !pids.contains(pid)).count();
        let switches = |value: u64| match lost {
            0 => Reading::Value(value as f64),
            _ => Reading::unavailable(format!("{lost} processes ended, and with them their counts")),
        };
        self.seen.extend(&pids);
        let (read, written) = disk_bytes(&pids);
        let by_thread = earlier.unwrap_or_else(|| {
            let (busiest_thread, core_wait) = self.threads(&pids);
            ByThread {
                time: now,
                voluntary_switches: totals.voluntary_switches,
                involuntary_switches: totals.involuntary_switches,
                blocked_threads: totals.blocked_threads,
                busiest_thread,
                core_wait,
            }
        });
        if totals.threads > THREADS_MANY {
            self.by_thread = Some(by_thread.clone());
        }
        vec![
            Reading::Value(sample.cpu().seconds()),
            Reading::Value(totals.user.seconds()),
            Reading::Value(totals.system.seconds()),
            Reading::Value(totals.minor_faults as f64),
            Reading::Value(totals.major_faults as f64),
            switches(by_thread.voluntary_switches),
            switches(by_thread.involuntary_switches),
            Reading::Value(totals.resident_bytes as f64),
            Reading::Value(pids.len() as f64),
            Reading::Value(totals.threads as f64),
            by_thread.busiest_thread,
            self.busiest_process(&sample),
            by_thread.core_wait,
            Reading::Value(by_thread.blocked_threads as f64),
            descriptors(&pids),
            read,
            written,
            self.proportional_bytes(&pids),
        ]
    }
}

fn descriptors(pids: &[u32]) -> Reading<f64> {
    sum(pids, |pid| {
        let path = format!("/proc/{pid}/fd");
        // Newer kernels give the number of descriptors without listing them.
        match fs::metadata(&path).map(|folder| std::os::unix::fs::MetadataExt::size(&folder)) {
            Ok(0) => fs::read_dir(&path).map(|list| list.count() as f64),
            Ok(count) => Ok(count as f64),
            Err(error) => Err(error),
        }
        .map_err(|error| format!("{path}: {error}"))
    })
}

/// Bytes actually read from and written to a disk.
fn disk_bytes(pids: &[u32]) -> (Reading<f64>, Reading<f64>) {
    let of = |name: &'static str| {
        sum(pids, move |pid| {
            let path = format!("/proc/{pid}/io");
            let text = proc_file::read(&path).map_err(|error| error.to_string())?;
            field(&text, name).ok_or_else(|| format!("{path} has no {name}"))
        })
    };
    (of("read_bytes:"), of("write_bytes:"))
}

/// The sum over processes. A process that has just ended counts nothing; any other failure makes the sum unavailable.
fn sum(pids: &[u32], of: impl Fn(u32) -> Result<f64, String>) -> Reading<f64> {
    let mut total = 0.0;
    for &pid in pids {
        match of(pid) {
            Ok(value) => total += value,
            Err(_) if !fs::exists(format!("/proc/{pid}")).unwrap_or(false) => {}
            Err(why) => return Reading::Unavailable(why),
        }
    }
    Reading::Value(total)
}

fn field(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(readings: &[Reading<f64>], name: &str) -> f64 {
        let place = NAMES.iter().position(|each| *each == name).unwrap();
        *readings[place].value().unwrap_or_else(|| panic!("{name}: {:?}", readings[place]))
    }

    /// One test at a time looks at the threads of this program: one of them starts many.
    static THREADS: std::sync::Mutex<()> = std::sync::Mutex::new(());

    #[test]
    fn our_own_process_has_all_of_them() {
        let mut source = Processes::new(&[std::process::id()]);
        let before = source.read();
        let pages = std::hint::black_box(vec![1_u8; 16 << 20]);
        let file = tempfile::tempfile().unwrap();
        let after = source.read();
        let grown = |name| value(&after, name) - value(&before, name);
        assert!(grown("minor_faults") >= 1.0 && grown("resident_bytes") >= (8 << 20) as f64);
        assert!(value(&after, "descriptors") >= 3.0 && value(&after, "threads") >= 1.0);
        assert!(value(&after, "proportional_bytes") > 0.0 && value(&after, "disk_read_bytes") >= 0.0);
        drop((pages, file));
    }

    #[test]
    fn the_busiest_thread_is_told_from_the_sum_of_all() {
        let _threads = THREADS.lock();
        let mut source = Processes::new(&[std::process::id()]);
        source.read();
        let (until, used) = (clock::now() + Nanos(300_000_000), clock::thread_cpu());
        while clock::now() < until {
            std::hint::black_box(0);
        }
        let own = (clock::thread_cpu() - used).seconds();
        let readings = source.read();
        let (share, process) =
            (value(&readings, "busiest_thread_fraction"), value(&readings, "busiest_process_fraction"));
        assert!(process >= 0.9 * share, "{process} of all threads of one process, {share} of the busiest");
        assert!(value(&readings, "core_wait_seconds") >= 0.0);
        // Other threads of the test program may be busier, and none can use more than one core.
        assert!(share >= 0.5 * own / 0.3 && share <= 1.1, "{share} of a core, {own} s on ours");
    }

    #[test]
    fn of_many_threads_the_last_look_counts_until_it_is_old() {
        let _threads = THREADS.lock();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let ended = std::sync::Arc::new(std::sync::Mutex::new(ended));
        let wait = |_| {
            let ended = std::sync::Arc::clone(&ended);
            std::thread::spawn(move || ended.lock().unwrap().recv().is_err())
        };
        let threads: Vec<_> = (0..THREADS_MANY + 1).map(wait).collect();
        let mut source = Processes::new(&[std::process::id()]);
        let readings = source.read();
        let seen = source.by_thread.clone().expect("there are many threads");
        assert!(seen.voluntary_switches > 0);
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(value(&source.read(), "voluntary_switches"), seen.voluntary_switches as f64);
        assert!(value(&readings, "threads") > THREADS_MANY as f64);
        source.by_thread.as_mut().unwrap().time = Nanos::ZERO;
        assert!(value(&source.read(), "voluntary_switches") > seen.voluntary_switches as f64);
        drop(end);
        assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
    }

    #[test]
    fn the_busiest_process_is_that_of_the_last_second() {
        let mut source = Processes::new(&[std::process::id()]);
        let earlier = |source: &mut Processes, seconds: u64| {
            source.processes.iter_mut().for_each(|look| look.time.0 -= seconds * BUSIEST_OVER.0);
        };
        let whole = |source: &mut Processes| {
            source.read();
            source.processes.iter().map(|look| (clock::now() - look.time).seconds()).collect::<Vec<_>>()
        };
        // The first is compared with until there is another of a second ago.
        assert_eq!(whole(&mut source).len(), 1);
        earlier(&mut source, 2);
        assert_eq!(whole(&mut source).len(), 2);
        earlier(&mut source, 2);
        let ages = whole(&mut source);
        assert!(ages.len() == 2 && ages[0] < 3.0, "{ages:?}");
        // What was used before the last second does not count.
        let used = &mut source.processes[0].used;
        used.values_mut().for_each(|run| run.cpu = Nanos::ZERO);
        let since_start = value(&source.read(), "busiest_process_fraction");
        source.processes.clear();
        source.read();
        earlier(&mut source, 1);
        let last = value(&source.read(), "busiest_process_fraction");
        assert!(last < since_start, "{last} in the last second, {since_start} of all");
    }

    #[test]
    fn a_process_that_ended_has_no_figures() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let mut source = Processes::new(&[child.id()]);
        child.wait().unwrap();
        source.read();
        assert!(matches!(source.read()[0], Reading::Unavailable(_)));
    }
}
