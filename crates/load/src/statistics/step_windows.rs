//! The windows of one step: kept until the usual losses of its cores are known, then judged together.

use sojourn_measure::{Histogram, Nanos, Reading, WindowCounts};

use crate::statistics::{
    batch_means::Batches,
    core_loss::{CoreWatch, LOST_MAX, Loss},
    report::{CoreLoss, Undisturbed},
};

/// A core that always loses more than 10 % of a window is shared with other work. At 1 GB/s the network's kernel
/// threads alone take 8 % of the generator's core.
const USUAL_MAX: Nanos = Nanos(10_000_000);
/// The quietest quarter of the windows defines the usual loss.
const QUIETEST: usize = 4;
/// The most windows judged together: half a minute, and some megabytes.
const UNDECIDED_MAX: usize = 300;

/// What is known about one step's windows.
#[derive(Debug, Default)]
pub(crate) struct StepWindows {
    undecided: Vec<Window>,
    windows: u64,
    judged: u64,
    because_unjudged: Option<String>,
    server: LossTotal,
    generator: LossTotal,
    used: u64,
    length: Nanos,
    begun: u64,
    server_cpu: Nanos,
    /// Allocated with the first window used, because a run may have many steps.
    latencies: Option<Box<[Histogram; 2]>>,
    batches: Batches,
}

#[derive(Debug)]
pub(crate) struct Window {
    pub ended: Ended,
    /// The losses in the window, and the worst shortly before it; `None` if either is unknown.
    pub lost: Option<(Lost, Lost)>,
    /// The timeline row in which it ends.
    pub row: Option<usize>,
    pub response_time: WindowCounts,
    pub time_to_first_byte_intended: WindowCounts,
}

#[derive(Debug)]
pub(crate) struct Ended {
    pub length: Nanos,
    /// Requests started in it.
    pub begun: u64,
    pub server_cpu: Nanos,
    pub server: Result<Loss, String>,
    pub generator: Result<Loss, String>,
}

/// The losses of both cores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lost {
    server: Loss,
    generator: Loss,
}

#[derive(Debug, Default)]
struct LossTotal {
    known: u64,
    length: Nanos,
    lost: Nanos,
    longest: Nanos,
    usual: Nanos,
    resolution: Nanos,
    unavailable_reason: Option<String>,
}

impl StepWindows {
    pub fn add(&mut self, window: Window, verdicts: &mut Vec<Option<bool>>) {
        self.windows += 1;
        self.server.add(window.ended.length, &window.ended.server);
        self.generator.add(window.ended.length, &window.ended.generator);
        let because = window.ended.server.as_ref().err().or(window.ended.generator.as_ref().err());
        if let Some(because) = because {
            self.because_unjudged = Some(because.clone());
        }
        self.judged += u64::from(because.is_none());
        self.undecided.push(window);
        if self.undecided.len() >= UNDECIDED_MAX {
            self.decide(verdicts);
        }
    }

    /// Judges the windows kept so far and uses the undisturbed ones.
    pub fn decide(&mut self, verdicts: &mut Vec<Option<bool>>) {
        let windows = std::mem::take(&mut self.undecided);
        let usual = |loss: fn(&Ended) -> &Result<Loss, String>| {
            usual(windows.iter().filter_map(|window| Some(loss(&window.ended).as_ref().ok()?.lost)).collect())
        };
        (self.server.usual, self.generator.usual) =
            (usual(|ended| &ended.server), usual(|ended| &ended.generator));
        for window in windows {
            let is_quiet = |lost: Lost| {
                lost.server.is_small(self.server.usual) && lost.generator.is_small(self.generator.usual)
            };
            // For the very first window, what came before is unknown.
            let is_known = window.ended.lost().is_some();
            let is_undisturbed =
                window.lost.is_some_and(|(in_it, before)| is_quiet(in_it) && is_quiet(before));
            if let (Some(row), true) = (window.row, is_known) {
                verdicts.resize(verdicts.len().max(row + 1), None);
                verdicts[row] = Some(verdicts[row].unwrap_or(true) && is_undisturbed);
            }
            if is_undisturbed {
                self.add_window(&window);
            }
        }
    }

    fn add_window(&mut self, window: &Window) {
        self.used += 1;
        self.length = self.length + window.ended.length;
        self.begun += window.ended.begun;
        self.server_cpu = self.server_cpu + window.ended.server_cpu;
        self.batches.push(window.response_time.count(), window.response_time.sum());
        let [response_time, first_byte] = &mut **self.latencies.get_or_insert_default();
        window.response_time.add_to(response_time);
        window.time_to_first_byte_intended.add_to(first_byte);
    }

    pub fn report(&self, watch: &CoreWatch) -> Reading<Undisturbed> {
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

/// The highest loss among the quietest windows.
fn usual(mut lost: Vec<Nanos>) -> Nanos {
    lost.sort_unstable();
    let place = lost.len().saturating_sub(1) / QUIETEST;
    lost.get(place).copied().unwrap_or(Nanos::ZERO).min(USUAL_MAX)
}

impl Ended {
    /// `None` if the loss of one core is unknown.
    pub fn lost(&self) -> Option<Lost> {
        Some(Lost { server: *self.server.as_ref().ok()?, generator: *self.generator.as_ref().ok()? })
    }
}

impl Lost {
    /// The larger loss per core.
    pub fn max(self, other: Lost) -> Lost {
        Lost { server: self.server.max(other.server), generator: self.generator.max(other.generator) }
    }
}

impl LossTotal {
    fn add(&mut self, length: Nanos, loss: &Result<Loss, String>) {
        match loss {
            Ok(loss) => {
                self.known += 1;
                self.length = self.length + length;
                self.lost = self.lost + loss.lost;
                self.longest = self.longest.max(loss.lost);
                self.resolution = self.resolution.max(loss.resolution);
            }
            Err(because) => self.unavailable_reason = Some(because.clone()),
        }
    }

    fn report(&self, source: String) -> Reading<CoreLoss> {
        if self.known == 0 {
            return Reading::unavailable(self.unavailable_reason.as_deref().unwrap_or("no window ended"));
        }
        Reading::Value(CoreLoss {
            lost_fraction: self.lost.seconds() / self.length.seconds(),
            lost_in_a_window_max_seconds: self.longest.seconds(),
            usual_in_a_window_seconds: self.usual.seconds(),
            source,
            resolution_seconds: self.resolution.seconds(),
        })
    }
}
