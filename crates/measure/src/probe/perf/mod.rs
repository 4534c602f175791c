//! perf events of processes and their descendants: software events everywhere, tracepoints where tracefs is readable,
//! hardware counters where the machine exposes them.
//!
//! An event is opened for every living thread and inherited by later ones, ungrouped, because kernels refuse inherited
//! groups. With more events than counters the kernel multiplexes: values are scaled by enabled time over running time,
//! and withheld if the event ran for less than [`COVERAGE_MIN`] of the time, because an extrapolation looks like a
//! count.

use perf_event::Counter;

use self::event::{EVENTS, Event, Kind};
use super::{Source, Target};
use crate::counters::Tier;
use crate::{Reading, affinity, process};

mod event;
mod tracepoint;

/// The smallest share of the time in which an event must have been counted.
const COVERAGE_MIN: f64 = 0.9;

/// The most threads that events are attached to; each costs a descriptor per event.
const THREADS_MAX: usize = 256;

/// The names of a tier's counters, and their source if it is available.
pub type Opened = (&'static [&'static str], Reading<Attached>);

/// Tries each event of a tier on the target's threads.
pub fn open(target: &Target, tier: Tier) -> Vec<Opened> {
    let threads = threads(target);
    let attach = |event: &Event| match (&event.kind, &threads) {
        (Kind::MachineTracepoint(_), _) => Attached::to_cores(*event),
        (_, Ok(threads)) => Attached::to_threads(*event, threads),
        (_, Err(why)) => Reading::unavailable(why),
    };
    EVENTS.iter().filter(|event| event.tier() == tier).map(|event| (event.names, attach(event))).collect()
}

pub fn names(tier: Tier) -> Vec<&'static str> {
    EVENTS.iter().filter(|event| event.tier() == tier).flat_map(|event| event.names).copied().collect()
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
                "more than {THREADS_MAX} threads: the events would need too many file descriptors"
            ));
        }
    }
    Ok(threads)
}

/// An event being counted.
pub struct Attached {
    event: Event,
    counters: Vec<Counter>,
}

impl Attached {
    fn to_threads(event: Event, threads: &[u32]) -> Reading<Attached> {
        let mut counters = Vec::new();
        for &thread in threads {
            match event.of_thread(thread) {
                Ok(counter) => counters.push(counter),
                // The thread has ended since it was listed.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => return Reading::Unavailable(event.reason(&error)),
            }
        }
        Reading::Value(Attached { event, counters })
    }

    fn to_cores(event: Event) -> Reading<Attached> {
        let cores = Reading::from(affinity::online_cores());
        cores.and_then(|cores| {
            let counters: Result<_, _> = cores.iter().map(|&core| event.of_core(core)).collect();
            counters.map(|counters| Attached { event, counters }).map_err(|error| event.reason(&error))
        })
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

/// The count extrapolated to the whole time. The event of a thread that never ran counts nothing and is not scaled.
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
    fn a_child_that_spins_is_counted_with_its_own_child_that_ends_early() {
        let spin = "read go; ( i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done ); read end";
        let mut child = std::process::Command::new("sh")
            .args(["-c", spin])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let target = Target { pids: vec![child.id()], ..Target::default() };
        let mut opened = open(&target, Tier::Software);
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
