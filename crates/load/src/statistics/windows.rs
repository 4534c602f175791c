//! Windows of a tenth of a second: what both cores lost in each, and the latencies of those in which they lost nothing.
//!
//! Other processes and the hypervisor take a core for some milliseconds now and then, and a mean of 100 µs doubles. That
//! is measured here and not fitted: a window is *undisturbed* if neither core lost more than [`LOST_MAX`] in it, nor in
//! the tenth of a second before, whose backlog it would have to serve. A step's figures are then given again over these.
//!
//! A request belongs to the window in which its answer was complete. Windows are chosen by what the cores lost, never
//! by latencies, and a request that takes less than 90 ms has spent all its life in quiet windows. Answers in a window count whenever they were due: would only those count that were due in the
//! step, its first windows would lack the slow ones.

use std::mem;

use sojourn_measure::{Histogram, Nanos, Reading, WindowHistogram};

use crate::{
    plan::{Observe, Waiting},
    statistics::{
        batch_means::Batches,
        core_loss::{CoreWatch, LOST_MAX, Loss, Moment, is_server_ready},
        recorder::Totals,
        report::{CoreLoss, Undisturbed},
        snapshot::Snapshot,
    },
};

/// The cores must have been quiet for so long before a window. Ticks come late after a disturbance and snapshots divide
/// windows, so that the window before may be short: it is time that counts. A little less than a window, for ticks jitter.
const QUIET_BEFORE_MIN: Nanos = Nanos(90_000_000);

/// The latencies of the window under way.
#[derive(Debug, Default)]
pub struct WindowLatencies {
    pub response_time: WindowHistogram,
    pub time_to_first_byte_intended: WindowHistogram,
}

/// The windows of a run.
pub struct Windows {
    watch: CoreWatch,
    begun: Option<Begun>,
    /// How long the cores have lost nothing to speak of, up to the window under way.
    quiet_for: Nanos,
    steps: Vec<StepWindows>,
    /// The step that is being measured.
    step: Option<usize>,
    row: RowLoss,
}

/// The beginning of the window under way.
struct Begun {
    moment: Moment,
    time: Nanos,
    totals: Totals,
    server_cpu: Nanos,
}

/// What cores lost since the last row of the timeline; none where it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RowLoss {
    pub server: Option<Nanos>,
    pub generator: Option<Nanos>,
    pub is_undisturbed: Option<bool>,
}

/// A window that has ended.
struct Ended {
    length: Nanos,
    /// Requests that began in it.
    begun: u64,
    server_cpu: Nanos,
    server: Result<Loss, String>,
    generator: Result<Loss, String>,
}

/// What is known of one step's windows.
#[derive(Debug, Default)]
pub(crate) struct StepWindows {
    windows: u64,
    judged: u64,
    because_unjudged: Option<String>,
    server: LossTotal,
    generator: LossTotal,
    used: u64,
    length: Nanos,
    begun: u64,
    server_cpu: Nanos,
    /// Made when the first window is used: a run may have many steps.
    latencies: Option<Box<[Histogram; 2]>>,
    batches: Batches,
}

#[derive(Debug, Default)]
struct LossTotal {
    known: u64,
    length: Nanos,
    lost: Nanos,
    longest: Nanos,
    resolution: Nanos,
    because_unknown: Option<String>,
}

impl Windows {
    pub fn new(steps: usize, observe: &Observe, waiting: Waiting) -> Windows {
        Windows {
            watch: CoreWatch::new(observe, waiting),
            begun: None,
            quiet_for: Nanos::ZERO,
            steps: (0..steps).map(|_| StepWindows::default()).collect(),
            step: None,
            row: RowLoss::default(),
        }
    }

    /// Ends the window under way and begins the next. A snapshot without processes ends none.
    pub fn end(&mut self, snapshot: &Snapshot, latencies: &mut WindowLatencies) {
        let Some(tree) = &snapshot.processes else { return };
        let begun = Begun {
            moment: self.watch.moment(snapshot, tree),
            time: snapshot.time,
            totals: snapshot.totals,
            server_cpu: tree.cpu(),
        };
        let Some(before) = self.begun.replace(begun) else {
            latencies.clear();
            return;
        };
        let now = self.begun.as_ref().expect("it has just begun");
        let begun_so_far = |totals: &Totals| totals.answered + totals.errors + totals.in_flight.count;
        let ended = Ended {
            length: now.time - before.time,
            begun: begun_so_far(&now.totals).saturating_sub(begun_so_far(&before.totals)),
            server_cpu: now.server_cpu - before.server_cpu,
            server: self.watch.server_loss(&before.moment, &now.moment, || is_server_ready(tree)),
            generator: self.watch.generator_loss(&before.moment, &now.moment),
        };
        self.judge(ended, latencies);
    }

    /// From now on windows belong to this step, or to none.
    pub fn enter(&mut self, step: Option<usize>) {
        self.step = step;
    }

    /// What was lost since the last row was taken.
    pub fn take_row(&mut self) -> RowLoss {
        mem::take(&mut self.row)
    }

    fn judge(&mut self, ended: Ended, latencies: &mut WindowLatencies) {
        let is_quiet = ended.is_quiet();
        let is_undisturbed = is_quiet.map(|is_quiet| is_quiet && self.quiet_for >= QUIET_BEFORE_MIN);
        self.quiet_for = if is_quiet == Some(true) { self.quiet_for + ended.length } else { Nanos::ZERO };
        self.row.add(&ended, is_undisturbed);
        if let Some(step) = self.step {
            self.steps[step].add(ended, is_undisturbed, latencies);
        }
        latencies.clear();
    }

    /// The report on one step's windows.
    pub(crate) fn report(&self, step: usize) -> Reading<Undisturbed> {
        self.steps[step].report(&self.watch)
    }
}

impl Ended {
    /// True if neither core lost more than is allowed; none if what one lost is not known.
    fn is_quiet(&self) -> Option<bool> {
        Some(self.server.as_ref().ok()?.is_small() && self.generator.as_ref().ok()?.is_small())
    }
}

impl WindowLatencies {
    fn clear(&mut self) {
        self.response_time.clear();
        self.time_to_first_byte_intended.clear();
    }
}

impl RowLoss {
    fn add(&mut self, ended: &Ended, is_undisturbed: Option<bool>) {
        let add = |sum: &mut Option<Nanos>, loss: &Result<Loss, String>| {
            if let Ok(loss) = loss {
                *sum = Some(sum.unwrap_or(Nanos::ZERO) + loss.lost);
            }
        };
        add(&mut self.server, &ended.server);
        add(&mut self.generator, &ended.generator);
        if let Some(is_undisturbed) = is_undisturbed {
            self.is_undisturbed = Some(self.is_undisturbed.unwrap_or(true) && is_undisturbed);
        }
    }
}

impl StepWindows {
    fn add(&mut self, ended: Ended, is_undisturbed: Option<bool>, latencies: &mut WindowLatencies) {
        self.windows += 1;
        self.judged += u64::from(is_undisturbed.is_some());
        let because = ended.server.as_ref().err().or(ended.generator.as_ref().err());
        if let Some(because) = because {
            self.because_unjudged = Some(because.clone());
        }
        self.server.add(ended.length, ended.server);
        self.generator.add(ended.length, ended.generator);
        if is_undisturbed != Some(true) {
            return;
        }
        self.used += 1;
        self.length = self.length + ended.length;
        self.begun += ended.begun;
        self.server_cpu = self.server_cpu + ended.server_cpu;
        self.batches.push(latencies.response_time.count(), latencies.response_time.sum());
        let [response_time, first_byte] = &mut **self.latencies.get_or_insert_default();
        latencies.response_time.empty_into(response_time);
        latencies.time_to_first_byte_intended.empty_into(first_byte);
    }

    fn report(&self, watch: &CoreWatch) -> Reading<Undisturbed> {
        if self.judged == 0 {
            let because = self.because_unjudged.as_deref();
            return Reading::unavailable(because.unwrap_or("the step is shorter than a window of 100 ms"));
        }
        let empty = Histogram::default();
        let [response_time, first_byte] = match &self.latencies {
            Some(latencies) => latencies.each_ref(),
            None => [&empty, &empty],
        };
        let (seconds, requests) = (self.length.seconds(), response_time.count());
        let per_second = |count: u64| (seconds > 0.0).then(|| count as f64 / seconds);
        Reading::Value(Undisturbed {
            windows: self.used,
            windows_total: self.windows,
            windows_judged: self.judged,
            seconds,
            requests,
            requests_per_second: per_second(requests),
            requests_begun_per_second: per_second(self.begun),
            response_time_seconds: response_time.summary(),
            response_time_mean_half_width_seconds: self.batches.half_width_seconds(),
            time_to_first_byte_intended_seconds: first_byte.summary(),
            server_cpu_seconds_per_request: (requests > 0)
                .then(|| self.server_cpu.seconds() / requests as f64),
            lost_max_seconds: LOST_MAX.seconds(),
            server_core: self.server.report(watch.server_source()),
            generator_core: self.generator.report(watch.generator_source()),
        })
    }
}

impl LossTotal {
    fn add(&mut self, length: Nanos, loss: Result<Loss, String>) {
        match loss {
            Ok(loss) => {
                self.known += 1;
                self.length = self.length + length;
                self.lost = self.lost + loss.lost;
                self.longest = self.longest.max(loss.lost);
                self.resolution = self.resolution.max(loss.resolution);
            }
            Err(because) => self.because_unknown = Some(because),
        }
    }

    fn report(&self, source: String) -> Reading<CoreLoss> {
        if self.known == 0 {
            return Reading::unavailable(self.because_unknown.as_deref().unwrap_or("no window ended"));
        }
        Reading::Value(CoreLoss {
            lost_fraction: self.lost.seconds() / self.length.seconds(),
            lost_in_a_window_max_seconds: self.longest.seconds(),
            source,
            resolution_seconds: self.resolution.seconds(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn windows(steps: usize) -> Windows {
        Windows::new(steps, &Observe::default(), Waiting::Spin)
    }

    /// Ends a window of 100 ms in which the cores lost so much and these latencies came.
    fn end(windows: &mut Windows, server_us: Option<u64>, generator_us: u64, latencies_ms: &[u64]) {
        end_after(windows, 100, server_us, generator_us, latencies_ms);
    }

    /// The same for a window of another length.
    fn end_after(
        windows: &mut Windows,
        length_ms: u64,
        server_us: Option<u64>,
        generator_us: u64,
        latencies_ms: &[u64],
    ) {
        let loss = |micros| Loss { lost: Nanos(1000 * micros), resolution: Nanos(1) };
        let mut latencies = WindowLatencies::default();
        for &latency in latencies_ms {
            latencies.response_time.record(Nanos(latency * MS));
            latencies.time_to_first_byte_intended.record(Nanos(latency * MS / 2));
        }
        let ended = Ended {
            length: Nanos(length_ms * MS),
            begun: 3,
            server_cpu: Nanos(10 * MS),
            server: server_us.map(loss).ok_or("the server is gone".to_owned()),
            generator: Ok(loss(generator_us)),
        };
        windows.judge(ended, &mut latencies);
        assert_eq!(latencies.response_time.count(), 0, "the next window begins empty");
    }

    fn report(windows: &Windows) -> Undisturbed {
        match windows.report(0) {
            Reading::Value(undisturbed) => undisturbed,
            Reading::Unavailable(why) => panic!("{why}"),
        }
    }

    #[test]
    fn a_disturbance_takes_its_window_and_the_next() {
        let mut windows = windows(1);
        end(&mut windows, Some(0), 0, &[700]);
        windows.enter(Some(0));
        let lost = [(0, 0), (1000, 1000), (1001, 0), (0, 0), (0, 0), (0, 5000), (0, 0), (0, 0)];
        for (number, (server, generator)) in (1..).zip(lost) {
            end(&mut windows, Some(server), generator, &[number, number]);
        }
        windows.enter(None);
        end(&mut windows, Some(0), 0, &[900]);
        let found = report(&windows);
        assert_eq!((found.windows, found.windows_total, found.windows_judged), (4, 8, 8));
        assert_eq!((found.requests, found.requests_per_second), (8, Some(20.0)));
        assert_eq!(found.requests_begun_per_second, Some(30.0));
        // Windows 1, 2, 5 and 8.
        assert!((found.response_time_seconds.mean.unwrap() - 0.004).abs() < 1e-5);
        assert!((found.response_time_seconds.max.unwrap() - 0.008).abs() < 1e-5);
        assert!((found.time_to_first_byte_intended_seconds.mean.unwrap() - 0.002).abs() < 1e-5);
        assert_eq!(found.server_cpu_seconds_per_request, Some(0.005));
        let lost = found.server_core.value().unwrap();
        assert!((lost.lost_fraction - 0.002_001 / 0.8).abs() < 1e-9);
        assert!((found.generator_core.value().unwrap().lost_in_a_window_max_seconds - 0.005).abs() < 1e-9);
    }

    #[test]
    fn a_short_quiet_window_does_not_make_the_next_one_undisturbed() {
        let mut windows = windows(1);
        windows.enter(Some(0));
        let lengths_ms = [(100, 50_000), (1, 0), (40, 0), (60, 0), (100, 0)];
        for (number, (length_ms, lost_us)) in (1..).zip(lengths_ms) {
            end_after(&mut windows, length_ms, Some(lost_us), 0, &[number]);
        }
        // 41 ms were quiet before the fourth, 101 ms before the fifth.
        let found = report(&windows);
        assert_eq!((found.windows, found.windows_total, found.requests), (1, 5, 1));
        assert!((found.response_time_seconds.mean.unwrap() - 0.005).abs() < 1e-5);
    }

    #[test]
    fn the_first_window_of_all_is_not_used_for_nobody_saw_the_one_before() {
        let mut windows = windows(1);
        windows.enter(Some(0));
        end(&mut windows, Some(0), 0, &[1]);
        end(&mut windows, Some(0), 0, &[2]);
        assert_eq!((report(&windows).windows, report(&windows).requests), (1, 1));
    }

    #[test]
    fn a_window_nobody_can_judge_is_neither_quiet_nor_disturbed() {
        let mut windows = windows(2);
        windows.enter(Some(0));
        end(&mut windows, None, 0, &[1]);
        assert_eq!(windows.take_row().is_undisturbed, None);
        assert_eq!(windows.report(0).value().map(|found| found.windows), None);
        let Reading::Unavailable(why) = windows.report(0) else { panic!("nothing was judged") };
        assert_eq!(why, "the server is gone");
        end(&mut windows, Some(0), 0, &[1]);
        end(&mut windows, Some(0), 0, &[1]);
        let found = report(&windows);
        assert_eq!((found.windows, found.windows_total, found.windows_judged), (1, 3, 2));
        let Reading::Unavailable(why) = windows.report(1) else { panic!("it had no window") };
        assert!(why.contains("shorter"), "{why}");
    }

    #[test]
    fn a_step_without_a_quiet_window_has_no_figures_and_says_so() {
        let mut windows = windows(1);
        windows.enter(Some(0));
        (0..20).for_each(|_| end(&mut windows, Some(30_000), 0, &[40]));
        let found = report(&windows);
        assert_eq!((found.windows, found.windows_total, found.requests), (0, 20, 0));
        assert!(found.response_time_seconds.mean.is_none() && found.requests_per_second.is_none());
        assert!((found.server_core.value().unwrap().lost_fraction - 0.3).abs() < 1e-9);
    }

    #[test]
    fn where_only_ticks_are_known_a_tick_is_allowed() {
        let loss = |lost_ms| Loss { lost: Nanos(lost_ms * MS), resolution: Nanos(10 * MS) };
        let is_quiet = |lost_ms| {
            let (server, generator) = (Ok(loss(lost_ms)), Ok(loss(0)));
            let ended =
                Ended { length: Nanos(100 * MS), begun: 0, server_cpu: Nanos::ZERO, server, generator };
            ended.is_quiet()
        };
        assert_eq!((is_quiet(10), is_quiet(20)), (Some(true), Some(false)));
    }

    #[test]
    fn a_row_of_the_timeline_adds_up_the_windows_in_it() {
        let mut windows = windows(1);
        end(&mut windows, Some(100), 200, &[]);
        windows.take_row();
        end(&mut windows, Some(300), 400, &[]);
        end(&mut windows, Some(4000), 0, &[]);
        let expected = RowLoss {
            server: Some(Nanos(4_300_000)),
            generator: Some(Nanos(400_000)),
            is_undisturbed: Some(false),
        };
        assert_eq!(windows.take_row(), expected);
        assert_eq!(windows.take_row(), RowLoss::default());
    }
}
