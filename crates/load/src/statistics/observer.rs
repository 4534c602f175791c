//! Observes server and generator from the clients' own thread, because a separate thread would disturb either core at
//! arbitrary moments.

use std::{mem, time::SystemTime};

use sojourn_measure::{
    Nanos, ProcessTree, Reading, TreeSample, clock,
    core_time::CoreTime,
    process::{Detail, thread_core_wait},
    tcp::TcpCounters,
};

use crate::{
    plan::{Observe, Waiting, schedule::Step},
    statistics::{
        recorder::Recorder,
        snapshot::Snapshot,
        timeline::{Row, Timeline},
        windows::{RowLoss, Windows},
    },
};

/// The largest share of the generator's time for reading processes; beyond that, ticks are skipped.
const COST_FRACTION_MAX: f64 = 0.01;

pub struct Observer {
    processes: Option<ProcessTree>,
    core: Option<usize>,
    own_core: Option<usize>,
    timeline: Option<Timeline>,
    /// The windows of the steps, if processes are observed.
    windows: Option<Windows>,
    is_polling: bool,
    /// Before this time, processes are not read for the timeline.
    processes_after: Nanos,
}

impl Observer {
    /// Observes what the plan names.
    pub fn new(
        observe: &Observe,
        waiting: Waiting,
        steps: usize,
        origin: Nanos,
        started_at: SystemTime,
    ) -> Observer {
        Observer {
            processes: (!observe.pids.is_empty()).then(|| ProcessTree::new(&observe.pids)),
            core: observe.core,
            own_core: observe.own_core,
            timeline: observe.timeline.then(|| Timeline::new(origin, started_at)),
            windows: keeps_windows(observe).then(|| Windows::new(steps, observe, waiting)),
            is_polling: waiting == Waiting::Spin,
            processes_after: Nanos::ZERO,
        }
    }

    /// Reads everything, at the start of a step's measured part (`Some`) or at its end.
    pub fn snapshot(&mut self, recorder: &mut Recorder, entered: Option<usize>) -> Snapshot {
        let processes = self.processes.as_mut().map(|tree| tree.sample(Detail::All));
        let snapshot =
            Snapshot { processes, tcp: TcpCounters::read().into(), ..self.light_snapshot(recorder) };
        self.end_window(&snapshot, recorder);
        if let Some(windows) = &mut self.windows {
            windows.enter(entered);
        }
        snapshot
    }

    /// Reads only what costs almost nothing.
    pub fn light_snapshot(&self, recorder: &Recorder) -> Snapshot {
        let totals = recorder.totals;
        Snapshot {
            time: clock::now(),
            totals,
            generator_cpu: clock::thread_cpu() - totals.idle,
            generator_wait: thread_core_wait().into(),
            processes: None,
            server_core: self.core.map(|core| CoreTime::read(Some(core)).into()),
            own_core: CoreTime::read(self.own_core).into(),
            tcp: Reading::unavailable("not read during a step"),
        }
    }

    fn end_window(&mut self, snapshot: &Snapshot, recorder: &mut Recorder) {
        if let (Some(windows), Some(latencies)) = (&mut self.windows, &mut recorder.window) {
            windows.end(snapshot, latencies);
        }
    }

    /// Ends a window and adds a row to the timeline.
    pub fn tick(
        &mut self,
        recorder: &mut Recorder,
        step: Option<(usize, &Step)>,
        first_byte_p95_seconds: Option<f64>,
    ) {
        if self.timeline.is_none() && self.windows.is_none() {
            return;
        }
        let before = clock::now();
        let processes = match &mut self.processes {
            Some(tree) if before >= self.processes_after => Some(tree.sample(Detail::Times)),
            _ => None,
        };
        let server_cpu = processes.as_ref().map(TreeSample::cpu);
        let snapshot = Snapshot { processes, ..self.light_snapshot(recorder) };
        self.end_window(&snapshot, recorder);
        let row = Row {
            snapshot: Snapshot { processes: None, ..snapshot },
            lost: self.windows.as_mut().map_or(RowLoss::default(), Windows::take_row),
            longest_gap: self.is_polling.then(|| mem::take(&mut recorder.longest_gap)),
            step: step.map(|(index, _)| index),
            offered_requests_per_second: step.and_then(|(_, step)| step.offered_requests_per_second),
            server_cpu,
            first_byte_p95_seconds,
        };
        let cost = clock::now() - before;
        self.processes_after = before + Nanos((cost.0 as f64 / COST_FRACTION_MAX) as u64);
        if let Some(timeline) = &mut self.timeline {
            timeline.push(row);
        }
    }

    /// The first observed process that has ended, if any.
    pub fn ended_process(&self) -> Option<u32> {
        self.processes.as_ref().and_then(ProcessTree::ended_root)
    }

    pub fn into_records(mut self) -> (Option<Timeline>, Option<Windows>) {
        let verdicts = self.windows.as_mut().map_or(&[][..], Windows::finish);
        if let Some(timeline) = &mut self.timeline {
            timeline.judge(verdicts);
        }
        (self.timeline, self.windows)
    }
}

/// True if losses of the server's core can be determined, which needs its processes.
pub fn keeps_windows(observe: &Observe) -> bool {
    !observe.pids.is_empty()
}
