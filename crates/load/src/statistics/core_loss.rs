//! How much time other work took from the server's and the generator's core in a window, the cause of most odd
//! latencies.
//!
//! **The server's core.** Two upper bounds are known, and the smaller one is used:
//! - how long the server's threads were ready to run and waited (`/proc/PID/task/TID/schedstat`). Waiting for each other
//!   and the microseconds of waking up are in it, so that it is too long for many threads and many wake-ups;
//! - how long others ran on the core: all tasks' time on it less the server's own. Where the server had nothing to do
//!   meanwhile nobody waited, so that it is too long for an idle server.
//!
//! To ask each of hundreds of threads would disturb what is measured: of such a server the second bound is taken.
//!
//! Waiting is counted when it ends. So where others ran and nobody seems to have waited, a server that is ready to run at
//! the window's end counts as having waited for all of it.
//!
//! **The generator's core.** A generator that polls never gives its core up: all time that its thread did not get was
//! taken. The gaps between polls also show what the kernel takes for the thread's own time. One that sleeps has the same
//! two bounds as the server.
//!
//! What the hypervisor took (steal) comes on top; it is known in ticks of 10 ms.

use std::collections::BTreeMap;

use sojourn_measure::{
    Nanos, Reading, TreeSample,
    core_time::CoreTime,
    core_use::CoreUse,
    process::{THREADS_MANY, TICK, core_waits, is_ready},
};

use crate::{
    plan::{Observe, Waiting},
    statistics::snapshot::Snapshot,
};

/// A window in which a core lost this much more than usual was disturbed; if the loss is only known in ticks, one tick
/// is allowed. One per cent of a window changes a mean of 100 µs by some microseconds.
pub const LOST_MAX: Nanos = Nanos(1_000_000);

/// What a core lost in a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loss {
    pub lost: Nanos,
    pub resolution: Nanos,
}

/// The sources of the readings.
pub struct CoreWatch {
    server_core: Reading<CoreUse>,
    generator_core: Reading<CoreUse>,
    is_polling: bool,
    /// True if the generator is pinned, so that the hypervisor's steal from its core is known.
    is_pinned: bool,
    /// True once the server has had too many threads to read each.
    has_many_threads: bool,
}

/// All readings at one moment; losses are differences between two.
pub struct Moment {
    server: Result<ServerMoment, String>,
    generator: GeneratorMoment,
}

#[derive(Debug)]
struct ServerMoment {
    cpu: Nanos,
    /// CPU time of ended children, in ticks.
    children_cpu: Nanos,
    /// By process and thread; `None` with too many threads.
    waits: Option<BTreeMap<(u32, u32), Nanos>>,
    core_use: Option<Nanos>,
    stolen: Option<u64>,
}

#[derive(Debug)]
struct GeneratorMoment {
    time: Nanos,
    /// Including polling.
    cpu: Nanos,
    waited: Option<Nanos>,
    core_use: Option<Nanos>,
    stolen: Option<u64>,
    gaps: Nanos,
}

impl CoreWatch {
    pub fn new(observe: &Observe, waiting: Waiting) -> CoreWatch {
        let found = |core: Option<usize>| match core {
            Some(core) => CoreUse::of(core).into(),
            None => Reading::unavailable("not pinned to a core"),
        };
        CoreWatch {
            server_core: found(observe.core),
            generator_core: found(observe.own_core),
            is_polling: waiting == Waiting::Spin,
            is_pinned: observe.own_core.is_some(),
            has_many_threads: false,
        }
    }

    /// Reads what a snapshot lacks. `gaps` are the event loop's so far.
    pub fn moment(&mut self, snapshot: &Snapshot, tree: &TreeSample) -> Moment {
        let read = |core: &Reading<CoreUse>| core.value().and_then(|core| core.read().ok());
        let core_use = read(&self.server_core);
        let totals = tree.totals();
        let is_crowd = totals.threads > THREADS_MANY && core_use.is_some();
        self.has_many_threads |= is_crowd;
        let stolen = |time: &Reading<CoreTime>| time.value().map(|time| time.steal);
        let waits = if is_crowd { Ok(None) } else { waits(tree).map(Some) };
        let server = match (waits, tree.unavailable_reason()) {
            (_, Some(why)) | (Err(why), _) => Err(why),
            (Ok(waits), None) => Ok(ServerMoment {
                cpu: tree.cpu(),
                children_cpu: totals.children_cpu,
                waits,
                core_use,
                stolen: snapshot.server_core.as_ref().and_then(stolen),
            }),
        };
        let generator = GeneratorMoment {
            time: snapshot.time,
            cpu: snapshot.generator_cpu + snapshot.totals.idle,
            waited: snapshot.generator_wait.value().copied(),
            core_use: read(&self.generator_core),
            stolen: self.is_pinned.then(|| stolen(&snapshot.own_core)).flatten(),
            gaps: snapshot.totals.gaps,
        };
        Moment { server, generator }
    }

    /// What the server's core lost between two moments. `is_ready` says whether the server is ready to run at the
    /// second.
    pub fn server_loss(
        &self,
        before: &Moment,
        after: &Moment,
        is_ready: impl FnOnce() -> bool,
    ) -> Result<Loss, String> {
        let (before, after) = (before.server.as_ref()?, after.server.as_ref()?);
        let resolution = self.server_core.value().map(CoreUse::resolution);
        let others = span(before.core_use, after.core_use).zip(resolution).map(|(used, resolution)| {
            // The CPU time of ended children is known in ticks.
            let is_coarse = after.children_cpu != before.children_cpu;
            Loss {
                lost: used - (after.cpu - before.cpu),
                resolution: if is_coarse { resolution.max(TICK) } else { resolution },
            }
        });
        let waited = after.waited_since(before);
        let smaller = match (smaller(waited, others), others) {
            (Some(least), Some(others))
                if least.is_small(Nanos::ZERO) && !others.is_small(Nanos::ZERO) && is_ready() =>
            {
                Some(others)
            }
            (least, _) => least,
        };
        let because = "the server's threads changed, and the use of its core is unknown";
        Ok(smaller.ok_or(because)?.with_steal(before.stolen, after.stolen))
    }

    /// What the generator's core lost between two moments.
    pub fn generator_loss(&self, before: &Moment, after: &Moment) -> Result<Loss, String> {
        let (before, after) = (&before.generator, &after.generator);
        let cpu = after.cpu - before.cpu;
        if self.is_polling {
            let taken = ((after.time - before.time) - cpu).max(after.gaps - before.gaps);
            return Ok(Loss { lost: taken, resolution: Nanos(1) });
        }
        let resolution = self.generator_core.value().map(CoreUse::resolution);
        let others = span(before.core_use, after.core_use).zip(resolution);
        let others = others.map(|(used, resolution)| Loss { lost: used - cpu, resolution });
        let smaller = smaller(span(before.waited, after.waited), others);
        let because = "the kernel does not report how long the generator waited for its core";
        Ok(smaller.ok_or(because)?.with_steal(before.stolen, after.stolen))
    }

    pub fn server_source(&self) -> String {
        let steal = if self.server_core.value().is_some() { ", and steal" } else { "" };
        match self.server_core.value() {
            Some(core) if self.has_many_threads => format!("others' time ({}){steal}", core.source()),
            _ => format!("{}{steal}", self.bounds(&self.server_core)),
        }
    }

    pub fn generator_source(&self) -> String {
        if self.is_polling {
            return "wall time less CPU time of the polling thread, and gaps between its polls".to_owned();
        }
        format!("{}{}", self.bounds(&self.generator_core), if self.is_pinned { ", and steal" } else { "" })
    }

    fn bounds(&self, core: &Reading<CoreUse>) -> String {
        match core {
            Reading::Value(core) => format!("the smaller of run delay and others' time ({})", core.source()),
            Reading::Unavailable(why) => format!("run delay alone: the core's use is unknown ({why})"),
        }
    }
}

impl ServerMoment {
    /// How long the threads have waited since; `None` with too many threads, or if threads have ended and their waiting
    /// is lost.
    fn waited_since(&self, before: &ServerMoment) -> Option<Nanos> {
        let (earlier, now) = (before.waits.as_ref()?, self.waits.as_ref()?);
        let all_live = earlier.keys().all(|thread| now.contains_key(thread));
        let known = all_live && self.children_cpu == before.children_cpu;
        let since = |(thread, wait): (&(u32, u32), &Nanos)| {
            *wait - earlier.get(thread).copied().unwrap_or(Nanos::ZERO)
        };
        known.then(|| now.iter().map(since).sum())
    }
}

impl Loss {
    /// True if the loss is at most the usual one plus the limit.
    pub fn is_small(&self, usual: Nanos) -> bool {
        self.lost <= (usual + LOST_MAX).max(self.resolution)
    }

    pub fn max(self, other: Loss) -> Loss {
        Loss { lost: self.lost.max(other.lost), resolution: self.resolution.max(other.resolution) }
    }

    fn with_steal(self, before: Option<u64>, after: Option<u64>) -> Loss {
        let ticks = before.zip(after).map_or(0, |(before, after)| after.saturating_sub(before));
        Loss { lost: self.lost + Nanos(ticks * TICK.0), ..self }
    }
}

fn smaller(waited: Option<Nanos>, others: Option<Loss>) -> Option<Loss> {
    let waited = waited.map(|lost| Loss { lost, resolution: Nanos(1) });
    match (waited, others) {
        (Some(waited), Some(others)) => Some(if waited.lost <= others.lost { waited } else { others }),
        (waited, others) => waited.or(others),
    }
}

fn span(before: Option<Nanos>, after: Option<Nanos>) -> Option<Nanos> {
    Some(after? - before?)
}

/// True if a thread of the server runs or waits for a core now.
pub fn is_server_ready(tree: &TreeSample) -> bool {
    tree.pids().any(|pid| is_ready(pid).unwrap_or(false))
}

fn waits(tree: &TreeSample) -> Result<BTreeMap<(u32, u32), Nanos>, String> {
    let mut all = BTreeMap::new();
    for pid in tree.pids() {
        match core_waits(pid) {
            Ok(waits) => all.extend(waits.into_iter().map(|(thread, wait)| ((pid, thread), wait))),
            // It ended since; that is noticed when the threads are compared.
            Err(error) if sojourn_measure::process::has_ended(&error) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn server(cpu_ms: u64, core_ms: Option<u64>, waits_ms: &[(u32, u64)]) -> ServerMoment {
        ServerMoment {
            cpu: Nanos(cpu_ms * MS),
            children_cpu: Nanos::ZERO,
            waits: Some(waits_ms.iter().map(|&(thread, wait)| ((1, thread), Nanos(wait * MS))).collect()),
            core_use: core_ms.map(|used| Nanos(used * MS)),
            stolen: Some(5),
        }
    }

    fn generator(time_ms: u64, cpu_ms: u64, waited_ms: u64, gaps_ms: u64) -> GeneratorMoment {
        GeneratorMoment {
            time: Nanos(time_ms * MS),
            cpu: Nanos(cpu_ms * MS),
            waited: Some(Nanos(waited_ms * MS)),
            core_use: None,
            stolen: None,
            gaps: Nanos(gaps_ms * MS),
        }
    }

    fn moment(server: ServerMoment) -> Moment {
        Moment { server: Ok(server), generator: generator(0, 0, 0, 0) }
    }

    fn watch(is_polling: bool) -> CoreWatch {
        let core = sojourn_measure::affinity::allowed_cores().unwrap()[0];
        let unknown = || Reading::unavailable("not pinned to a core");
        CoreWatch {
            server_core: CoreUse::of(core).into(),
            generator_core: unknown(),
            is_polling,
            is_pinned: false,
            has_many_threads: false,
        }
    }

    fn server_lost_ms(before: ServerMoment, after: ServerMoment) -> Option<u64> {
        let loss = watch(true).server_loss(&moment(before), &moment(after), || false).ok()?;
        Some(loss.lost.0 / MS)
    }

    #[test]
    fn the_server_lost_no_more_than_others_took_and_no_more_than_it_waited() {
        let check = |cpu, core: Option<u64>, waits: &[(u32, u64)], expected| {
            let found =
                server_lost_ms(server(0, core.map(|_| 0), &[(1, 0), (2, 0)]), server(cpu, core, waits));
            assert_eq!(found, expected, "{cpu} {core:?} {waits:?}");
        };
        check(60, Some(60), &[(1, 0), (2, 0)], Some(0));
        check(60, Some(90), &[(1, 28), (2, 0)], Some(28));
        // Helpers that wait for each other are not disturbed.
        check(90, Some(91), &[(1, 40), (2, 50)], Some(1));
        // Other work during idle time disturbs nobody.
        check(10, Some(60), &[(1, 0), (2, 0)], Some(0));
        check(60, None, &[(1, 20), (2, 5)], Some(25));
        // An ended thread's waiting is lost.
        check(60, Some(90), &[(2, 0)], Some(30));
        check(60, None, &[(2, 0)], None);
        // With hundreds of threads, none is read.
        let crowd = |cpu_ms, core_ms| ServerMoment { waits: None, ..server(cpu_ms, Some(core_ms), &[]) };
        assert_eq!(server_lost_ms(crowd(0, 0), crowd(60, 71)), Some(11));
    }

    #[test]
    fn a_wait_that_goes_on_is_not_taken_for_none() {
        let lost_ms = |core_ms, waited_ms, is_ready: bool| {
            let (before, after) =
                (server(0, Some(0), &[(1, 0)]), server(20, Some(core_ms), &[(1, waited_ms)]));
            let loss = watch(true).server_loss(&moment(before), &moment(after), || is_ready);
            loss.unwrap().lost.0 / MS
        };
        assert_eq!((lost_ms(80, 0, true), lost_ms(80, 0, false)), (60, 0));
        assert_eq!(lost_ms(80, 20, true), 20, "it did wait, and others' time may be others' alone");
        assert_eq!(lost_ms(21, 0, true), 0, "too little to ask");
    }

    #[test]
    fn what_ended_children_used_is_known_in_ticks_only() {
        let ended = ServerMoment { children_cpu: TICK, ..server(50, Some(62), &[(1, 0)]) };
        let loss = watch(true).server_loss(&moment(server(0, Some(0), &[(1, 0)])), &moment(ended), || false);
        let loss = loss.unwrap();
        assert_eq!(loss, Loss { lost: Nanos(12 * MS), resolution: TICK });
    }

    #[test]
    fn the_hypervisors_share_is_added() {
        let stolen = ServerMoment { stolen: Some(7), ..server(60, Some(61), &[(1, 9)]) };
        assert_eq!(server_lost_ms(server(0, Some(0), &[(1, 0)]), stolen), Some(21));
    }

    #[test]
    fn a_server_that_cannot_be_read_has_no_loss_rather_than_none() {
        let gone = Moment { server: Err("process 7 ended".to_owned()), generator: generator(0, 0, 0, 0) };
        let found = watch(true).server_loss(&moment(server(0, None, &[])), &gone, || true);
        assert_eq!(found, Err("process 7 ended".to_owned()));
    }

    #[test]
    fn a_polling_generator_lost_what_it_did_not_get_and_a_sleeping_one_what_it_waited() {
        let check = |is_polling, after: GeneratorMoment, expected_ms| {
            let begin = Moment { server: Err(String::new()), generator: generator(0, 0, 0, 0) };
            let end = Moment { server: Err(String::new()), generator: after };
            let loss = watch(is_polling).generator_loss(&begin, &end).unwrap();
            assert_eq!(loss.lost, Nanos(expected_ms * MS));
        };
        check(true, generator(100, 100, 0, 0), 0);
        check(true, generator(100, 88, 11, 0), 12);
        check(true, generator(100, 100, 0, 9), 9);
        check(false, generator(100, 5, 3, 0), 3);
    }
}
