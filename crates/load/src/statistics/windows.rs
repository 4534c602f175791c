//! Windows of a tenth of a second: the losses of both cores in each, and the latencies of undisturbed ones.
//!
//! Now and then other processes and the hypervisor take a core for some milliseconds, which can double a mean of 100
//! µs. These losses are measured, not fitted. A window is *undisturbed* if neither core lost more than usual plus
//! [`LOST_MAX`], in it or in the tenth of a second before, whose backlog it would have to serve. A step's figures are
//! also reported over these windows only.
//!
//! The *usual* loss of a core is the highest loss among the quietest quarter of the step's windows: kernel threads that
//! work for the load (network, RCU), and the microseconds of waking up. They occur a hundred times in every window,
//! grow with the load and belong to it, whereas a single interruption of some milliseconds does not. So a step's
//! windows are judged together when it has ended.
//!
//! A request belongs to the window in which its response was complete. Windows are selected by the losses of cores,
//! never by latencies, and a request of less than 90 ms falls entirely into quiet time. Responses count whenever they
//! were due: if only those due in the step counted, its first windows would lack the slow ones.

use std::{collections::VecDeque, mem};

use sojourn_measure::{Nanos, Reading, WindowHistogram};

use crate::{
    plan::{Observe, Waiting},
    statistics::{
        core_loss::{CoreWatch, Loss, Moment, is_server_ready},
        report::Undisturbed,
        snapshot::{Snapshot, Totals},
        step_windows::{Ended, Lost, StepWindows, Window},
    },
};

/// How long the cores must have been quiet before a window. Ticks are late after a disturbance, and snapshots split
/// windows, so the previous window may be short: time counts, not windows. Slightly less than a window, because ticks
/// jitter.
const QUIET_BEFORE_MIN: Nanos = Nanos(90_000_000);

/// The latencies of the current window.
#[derive(Debug, Default)]
pub struct WindowLatencies {
    pub response_time: WindowHistogram,
    pub time_to_first_byte_intended: WindowHistogram,
}

pub struct Windows {
    watch: CoreWatch,
    begun: Option<Begun>,
    /// The windows before the current one, as far back as the cores must have been quiet.
    recent: VecDeque<(Nanos, Option<Lost>)>,
    steps: Vec<StepWindows>,
    /// The step that is being measured.
    step: Option<usize>,
    row: RowLoss,
    rows_taken: usize,
    /// By timeline row: whether all windows of steps that ended in it were undisturbed.
    verdicts: Vec<Option<bool>>,
}

/// The start of the current window.
struct Begun {
    moment: Moment,
    time: Nanos,
    totals: Totals,
    server_cpu: Nanos,
}

/// The losses since the last timeline row; `None` if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RowLoss {
    pub server: Option<Nanos>,
    pub generator: Option<Nanos>,
}

impl Windows {
    pub fn new(steps: usize, observe: &Observe, waiting: Waiting) -> Windows {
        Windows {
            watch: CoreWatch::new(observe, waiting),
            begun: None,
            recent: VecDeque::new(),
            steps: (0..steps).map(|_| StepWindows::default()).collect(),
            step: None,
            row: RowLoss::default(),
            rows_taken: 0,
            verdicts: Vec::new(),
        }
    }

    /// Ends the current window and starts the next. Does nothing for a snapshot without processes.
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
        self.add(ended, latencies);
    }

    /// From now on windows belong to this step, or to none.
    pub fn enter(&mut self, step: Option<usize>) {
        self.decide();
        self.step = step;
    }

    /// The losses since the last row.
    pub fn take_row(&mut self) -> RowLoss {
        self.rows_taken += 1;
        mem::take(&mut self.row)
    }

    /// Judges the remaining windows; returns which timeline rows were undisturbed, `None` outside of steps.
    pub fn finish(&mut self) -> &[Option<bool>] {
        self.decide();
        &self.verdicts
    }

    fn add(&mut self, ended: Ended, latencies: &mut WindowLatencies) {
        let lost = ended.lost();
        self.row.add(&ended);
        if let Some(step) = self.step {
            let window = Window {
                lost: lost.zip(self.lost_before()),
                // The first row of a timeline only marks the start of the next.
                row: self.rows_taken.checked_sub(1),
                response_time: latencies.response_time.take(),
                time_to_first_byte_intended: latencies.time_to_first_byte_intended.take(),
                ended,
            };
            self.recent.push_back((window.ended.length, lost));
            self.steps[step].add(window, &mut self.verdicts);
        } else {
            self.recent.push_back((ended.length, lost));
            latencies.clear();
        }
        while self.recent_length() - self.recent[0].0 >= QUIET_BEFORE_MIN {
            self.recent.pop_front();
        }
    }

    /// The highest loss in a window shortly before; `None` if unknown.
    fn lost_before(&self) -> Option<Lost> {
        if self.recent_length() < QUIET_BEFORE_MIN {
            return None;
        }
        self.recent.iter().map(|(_, lost)| *lost).reduce(|one, other| Some(one?.max(other?)))?
    }

    fn recent_length(&self) -> Nanos {
        self.recent.iter().map(|(length, _)| *length).sum()
    }

    fn decide(&mut self) {
        if let Some(step) = self.step {
            self.steps[step].decide(&mut self.verdicts);
        }
    }

    pub(crate) fn report(&self, step: usize) -> Reading<Undisturbed> {
        self.steps[step].report(&self.watch)
    }
}

impl WindowLatencies {
    fn clear(&mut self) {
        self.response_time.clear();
        self.time_to_first_byte_intended.clear();
    }
}

impl RowLoss {
    fn add(&mut self, ended: &Ended) {
        let add = |sum: &mut Option<Nanos>, loss: &Result<Loss, String>| {
            if let Ok(loss) = loss {
                *sum = Some(sum.unwrap_or(Nanos::ZERO) + loss.lost);
            }
        };
        add(&mut self.server, &ended.server);
        add(&mut self.generator, &ended.generator);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn windows(steps: usize) -> Windows {
        Windows::new(steps, &Observe::default(), Waiting::Spin)
    }

    /// Ends a window of 100 ms with these losses and latencies.
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
            server: server_us.map(loss).ok_or("the server has ended".to_owned()),
            generator: Ok(loss(generator_us)),
        };
        windows.add(ended, &mut latencies);
        assert_eq!(latencies.response_time.take().count(), 0, "the next window begins empty");
    }

    fn report(windows: &mut Windows) -> Undisturbed {
        windows.finish();
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
        let found = report(&mut windows);
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
        // Before the fourth window 41 ms were quiet, before the fifth 101 ms.
        let found = report(&mut windows);
        assert_eq!((found.windows, found.windows_total, found.requests), (1, 5, 1));
        assert!((found.response_time_seconds.mean.unwrap() - 0.005).abs() < 1e-5);
    }

    #[test]
    fn the_first_window_of_all_is_not_used_for_nobody_saw_the_one_before() {
        let mut windows = windows(1);
        windows.enter(Some(0));
        end(&mut windows, Some(0), 0, &[1]);
        end(&mut windows, Some(0), 0, &[2]);
        let found = report(&mut windows);
        assert_eq!((found.windows, found.requests), (1, 1));
        assert_eq!(windows.verdicts, [], "the first row of a timeline is not one");
    }

    #[test]
    fn a_window_nobody_can_judge_is_neither_quiet_nor_disturbed() {
        let mut windows = windows(2);
        windows.enter(Some(0));
        end(&mut windows, None, 0, &[1]);
        assert_eq!(windows.report(0).value().map(|found| found.windows), None);
        let Reading::Unavailable(why) = windows.report(0) else { panic!("nothing was judged") };
        assert_eq!(why, "the server has ended");
        end(&mut windows, Some(0), 0, &[1]);
        end(&mut windows, Some(0), 0, &[1]);
        let found = report(&mut windows);
        assert_eq!((found.windows, found.windows_total, found.windows_judged), (1, 3, 2));
        let Reading::Unavailable(why) = windows.report(1) else { panic!("it had no window") };
        assert!(why.contains("shorter"), "{why}");
    }

    #[test]
    fn a_step_without_a_quiet_window_has_no_figures_and_says_so() {
        let mut windows = windows(1);
        windows.enter(Some(0));
        (0..20).for_each(|_| end(&mut windows, Some(30_000), 0, &[40]));
        let found = report(&mut windows);
        assert_eq!((found.windows, found.windows_total, found.requests), (0, 20, 0));
        assert!(found.response_time_seconds.mean.is_none() && found.requests_per_second.is_none());
        assert!((found.server_core.value().unwrap().lost_fraction - 0.3).abs() < 1e-9);
    }

    #[test]
    fn what_every_window_loses_alike_disturbs_none() {
        let mut windows = windows(1);
        windows.enter(Some(0));
        let lost_us = [3_000, 3_200, 3_100, 9_000, 3_300, 4_200, 3_050, 3_000, 3_100];
        for (number, lost_us) in (1..).zip(lost_us) {
            end(&mut windows, Some(lost_us), lost_us / 2, &[number]);
        }
        // Beyond 3.1 ms and 1 ms there are the fourth, the fifth after it, the sixth, and the seventh after that.
        let found = report(&mut windows);
        assert_eq!((found.windows, found.requests), (4, 4));
        assert!((found.server_core.value().unwrap().usual_in_a_window_seconds - 0.003_05).abs() < 1e-9);
    }

    #[test]
    fn a_core_that_is_shared_all_the_time_is_disturbed() {
        let mut windows = windows(1);
        windows.enter(Some(0));
        (0..9).for_each(|_| end(&mut windows, Some(11_100), 0, &[1]));
        assert_eq!(report(&mut windows).windows, 0);
    }

    #[test]
    fn a_long_step_is_decided_in_parts() {
        let mut windows = windows(1);
        windows.enter(Some(0));
        (0..1000).for_each(|number| end(&mut windows, Some(4_000 * u64::from(number < 500)), 0, &[1]));
        // The first one is not used, nor the first quiet one after the others; the second part had quiet ones, too.
        assert_eq!(report(&mut windows).windows, 299 + 99 + 300 + 100 + 1 - 1);
    }

    #[test]
    fn where_only_ticks_are_known_a_tick_is_allowed() {
        let loss = |lost_ms| Loss { lost: Nanos(lost_ms * MS), resolution: Nanos(10 * MS) };
        assert!(loss(10).is_small(Nanos::ZERO) && !loss(20).is_small(Nanos::ZERO));
    }

    #[test]
    fn rows_of_the_timeline_are_judged_when_their_step_has_ended() {
        let mut windows = windows(1);
        windows.take_row();
        end(&mut windows, Some(0), 0, &[]);
        windows.take_row();
        windows.enter(Some(0));
        for lost_ms in [0, 7, 0, 0] {
            end(&mut windows, Some(1000 * lost_ms), 0, &[1]);
            windows.take_row();
        }
        assert_eq!(windows.finish(), [None, Some(true), Some(false), Some(false), Some(true)]);
    }

    #[test]
    fn a_row_of_the_timeline_adds_up_the_windows_in_it() {
        let mut windows = windows(1);
        end(&mut windows, Some(100), 200, &[]);
        windows.take_row();
        end(&mut windows, Some(300), 400, &[]);
        end(&mut windows, Some(4000), 0, &[]);
        let expected = RowLoss { server: Some(Nanos(4_300_000)), generator: Some(Nanos(400_000)) };
        assert_eq!(windows.take_row(), expected);
        assert_eq!(windows.take_row(), RowLoss::default());
    }
}
