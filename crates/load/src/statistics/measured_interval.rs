//! The difference of two snapshots: counts, rates and means.

use sojourn_measure::{Nanos, ProcessUse, Reading, core_time::CoreTime, tcp::TcpCounters};

use crate::statistics::{
    report::{ServerUse, TcpTrouble},
    snapshot::{Level, Snapshot, Totals},
};

/// The difference of two snapshots.
pub struct MeasuredInterval<'a> {
    from: &'a Snapshot,
    to: &'a Snapshot,
}

impl<'a> MeasuredInterval<'a> {
    /// The span between two snapshots.
    pub fn between(from: &'a Snapshot, to: &'a Snapshot) -> MeasuredInterval<'a> {
        MeasuredInterval { from, to }
    }

    pub fn seconds(&self) -> f64 {
        (self.to.time - self.from.time).seconds()
    }

    pub fn answered(&self) -> u64 {
        self.to.totals.answered - self.from.totals.answered
    }

    pub fn requests_per_second(&self) -> Option<f64> {
        (self.seconds() > 0.0).then(|| self.answered() as f64 / self.seconds())
    }

    /// The mean number of requests in flight.
    pub fn in_flight_mean(&self) -> Option<f64> {
        self.level_mean(|totals| &totals.in_flight)
    }

    pub fn connections_open_mean(&self) -> Option<f64> {
        self.level_mean(|totals| &totals.connections_open)
    }

    /// The generator's CPU time over wall time.
    pub fn generator_cpu_fraction(&self) -> Option<f64> {
        let used = self.to.generator_cpu - self.from.generator_cpu;
        (self.seconds() > 0.0).then(|| used.seconds() / self.seconds())
    }

    pub fn generator_wait(&self) -> Reading<Nanos> {
        self.from.generator_wait.clone().zip(self.to.generator_wait.clone()).map(|(from, to)| to - from)
    }

    pub fn growth(&self, total: impl Fn(&Snapshot) -> u64) -> u64 {
        total(self.to) - total(self.from)
    }

    fn level_mean(&self, level: impl Fn(&Totals) -> &Level) -> Option<f64> {
        let (from, to) = (level(&self.from.totals), level(&self.to.totals));
        let integral = || to.integral_seconds(self.to.time, from, self.from.time);
        (self.seconds() > 0.0).then(|| integral() / self.seconds())
    }

    pub fn start(&self) -> Nanos {
        self.from.time
    }

    pub fn core(&self, core: impl Fn(&Snapshot) -> Reading<CoreTime>) -> Reading<CoreTime> {
        core(self.from).zip(core(self.to)).map(|(from, to)| to - from)
    }

    /// The server's use, if its processes or its core are observed.
    pub fn server_use(&self) -> Option<ServerUse> {
        if self.to.processes.is_none() && self.to.server_core.is_none() {
            return None;
        }
        let processes = match (&self.from.processes, &self.to.processes) {
            (Some(from), Some(to)) => to.since(from),
            _ => ProcessUse::unavailable("no process is observed (--observe-pid)"),
        };
        let unobserved = || Reading::unavailable("no core is observed (--observe-core)");
        let core = self.core(|snapshot| snapshot.server_core.clone().unwrap_or_else(unobserved));
        let fraction = |of: fn(&CoreTime) -> Option<f64>| {
            let fraction = core.clone().map(|core| of(&core));
            fraction
                .and_then(|fraction| fraction.ok_or("the span is shorter than the kernel's tick of 10 ms"))
        };
        let answered = self.answered();
        let per_request = processes.cpu_seconds.clone().and_then(|seconds| match answered {
            0 => Err("no request was answered"),
            _ => Ok(seconds / answered as f64),
        });
        Some(ServerUse {
            cpu_fraction: processes.cpu_seconds.clone().map(|seconds| seconds / self.seconds()),
            cpu_seconds_per_request: per_request,
            core_busy_fraction: fraction(CoreTime::busy_fraction),
            core_steal_fraction: fraction(CoreTime::steal_fraction),
            core_softirq_fraction: fraction(CoreTime::softirq_fraction),
            cpu_seconds: processes.cpu_seconds,
            cpu_user_fraction: processes.cpu_user_fraction,
            major_faults: processes.major_faults,
            minor_faults: processes.minor_faults,
            voluntary_switches: processes.voluntary_switches,
            involuntary_switches: processes.involuntary_switches,
            resident_bytes: processes.resident_bytes,
        })
    }

    /// TCP counters that explain odd latencies.
    pub fn tcp_trouble(&self) -> TcpTrouble {
        let span = self.from.tcp.clone().zip(self.to.tcp.clone()).map(|(from, to)| to - from);
        let counter = |of: fn(&TcpCounters) -> u64| span.clone().map(|counters| of(&counters));
        TcpTrouble {
            listen_overflows: counter(|counters| counters.listen_overflows),
            listen_drops: counter(|counters| counters.listen_drops),
            retransmitted_segments: counter(|counters| counters.retransmitted_segments),
        }
    }
}
