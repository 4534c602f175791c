//! The table of perf events: the event, user or kernel part, and the privilege it needs.

use std::io;

use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Hardware, Raw, Software};
use perf_event::{Builder, Counter};

use super::tracepoint;
use crate::counters::Tier;

#[derive(Clone, Copy)]
pub struct Event {
    pub names: &'static [&'static str],
    pub kind: Kind,
    mode: Mode,
    pub unit: f64,
}

#[derive(Clone, Copy)]
pub enum Kind {
    Software(Software),
    Hardware(Hardware),
    Cache(CacheId),
    /// The second-level cache, which has no portable name.
    SecondLevel,
    /// `subsystem/name`, counted when the watched threads hit it.
    Tracepoint(&'static str),
    /// A tracepoint of the whole machine: a disk request may complete in an interrupt on any thread.
    MachineTracepoint(&'static str),
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

/// Every event, grouped by tier.
pub const EVENTS: &[Event] = &[
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
    event(&["trace_sched_switches"], Kind::Tracepoint("sched/sched_switch"), Mode::Both),
    event(&["trace_user_page_faults"], Kind::Tracepoint("exceptions/page_fault_user"), Mode::Both),
    event(&["trace_block_requests_issued"], Kind::Tracepoint("block/block_rq_issue"), Mode::Both),
    event(
        &["trace_block_requests_completed"],
        Kind::MachineTracepoint("block/block_rq_complete"),
        Mode::Both,
    ),
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

impl Event {
    pub fn tier(&self) -> Tier {
        match self.kind {
            Kind::Software(_) => Tier::Software,
            Kind::Tracepoint(_) | Kind::MachineTracepoint(_) => Tier::Tracepoint,
            Kind::Hardware(_) | Kind::Cache(_) | Kind::SecondLevel => Tier::Processor,
        }
    }

    /// Counts the event in a thread and in threads that it starts later.
    pub fn of_thread(&self, thread: u32) -> io::Result<Counter> {
        self.builder()?.observe_pid(thread.cast_signed()).any_cpu().inherit(true).enabled(true).build()
    }

    /// Counts everything that runs on a core.
    pub fn of_core(&self, core: usize) -> io::Result<Counter> {
        self.builder()?.any_pid().one_cpu(core).enabled(true).build()
    }

    fn builder(&self) -> io::Result<Builder<'static>> {
        let mut builder = match self.kind {
            Kind::Software(which) => Builder::new(which),
            Kind::Hardware(which) => Builder::new(which),
            Kind::Cache(which) => {
                Builder::new(Cache { which, operation: CacheOp::READ, result: CacheResult::MISS })
            }
            Kind::SecondLevel => Builder::new(second_level()?),
            Kind::Tracepoint(name) | Kind::MachineTracepoint(name) => Builder::new(tracepoint::find(name)?),
        };
        builder.exclude_user(self.mode == Mode::Kernel).exclude_kernel(self.mode == Mode::User);
        Ok(builder)
    }

    /// Why it cannot be opened, with the likely cure.
    pub fn reason(&self, error: &io::Error) -> String {
        let of_the_processor = self.tier() == Tier::Processor;
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENODEV | libc::ENXIO | libc::EOPNOTSUPP) if of_the_processor => {
                "the kernel offers no such hardware counter (a virtual machine without a PMU?)".to_owned()
            }
            Some(libc::EACCES | libc::EPERM) => {
                format!(
                    "{error}: kernel.perf_event_paranoid or a container forbids it; CAP_PERFMON allows it"
                )
            }
            Some(libc::EMFILE) => format!("{error}: raise the limit on open files"),
            Some(libc::EINVAL) if of_the_processor => "this processor has no such counter".to_owned(),
            _ => error.to_string(),
        }
    }
}

/// The event for second-level cache misses by processor family, from the vendors' manuals: Intel L2_RQSTS.MISS, AMD
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters;

    #[test]
    fn reasons_name_a_cure() {
        let refused = |kind, code| {
            let event = event(&["cycles_user"], kind, Mode::Both);
            event.reason(&io::Error::from_raw_os_error(code))
        };
        assert!(refused(Kind::Hardware(Hardware::CPU_CYCLES), libc::ENOENT).contains("PMU"));
        assert!(refused(Kind::Software(Software::TASK_CLOCK), libc::EACCES).contains("CAP_PERFMON"));
        assert!(refused(Kind::Tracepoint("sched/sched_switch"), libc::EACCES).contains("CAP_PERFMON"));
        assert!(refused(Kind::Software(Software::TASK_CLOCK), libc::EMFILE).contains("open files"));
    }

    #[test]
    fn every_event_has_the_tier_of_its_row() {
        for event in EVENTS {
            assert!(
                event.names.iter().all(|name| counters::find(name).tier == event.tier()),
                "{:?}",
                event.names
            );
        }
    }
}
