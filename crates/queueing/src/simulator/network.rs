//! A whole system: open, closed and traced classes over any stations, a document drawn once per job.
//!
//! Each station schedules only its own next completion and there are few stations, so the next event is the
//! least of a short list. Statistics are kept per route, per class and over all.

use super::estimate::{Estimate, response_time};
use super::recorder::Recorder;
use super::result::{ClassResult, Named, RouteResult, StationResult, Stop, SystemResult};
use super::trace::validate_trace;
use super::{PROGRESS_JOBS, Plan, Progress, SimulationError};
use crate::distribution::Law;
use crate::random::Random;
use crate::station::{Service, Station};
use crate::system::{Class, Demand, Source, System};

/// Arrivals of an open class as they were observed, instead of Poisson at its rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trace<'t> {
    /// The class it drives.
    pub class: &'t str,
    /// Seconds, not decreasing.
    pub times: &'t [f64],
    /// Document sizes in bytes, one per arrival.
    pub sizes: &'t [f64],
}

/// Simulates `system` until the plan is fulfilled, the traces end, or `go_on` answers false.
///
/// The half-width asked for is that of the mean response time over all classes. With a trace the run takes
/// all of it and cuts no warm-up: what the log saw is the answer.
///
/// # Errors
/// [`SimulationError`] when a station is unstable, the plan is impossible or a trace does not fit.
pub fn simulate_system(
    system: &System,
    plan: &Plan,
    traces: &[Trace<'_>],
    go_on: &mut dyn FnMut(&Progress) -> bool,
) -> Result<SystemResult, SimulationError> {
    plan.validate()?;
    for trace in traces {
        validate_trace(trace.times, trace.sizes, "sizes")?;
        let fits = |class: &&Class| class.name == trace.class && matches!(class.source, Source::Open { .. });
        system
            .classes
            .iter()
            .find(fits)
            .ok_or_else(|| SimulationError::TraceClass(trace.class.to_owned()))?;
    }
    // A finite trace cannot grow for ever; a Poisson stream can.
    if traces.is_empty() {
        refuse_unstable(system)?;
    }
    let mut run = Run::new(system, plan, traces);
    let stop = run.until_stop(go_on);
    Ok(run.result(stop))
}

fn refuse_unstable(system: &System) -> Result<(), SimulationError> {
    for (station, utilisation) in system.stations.iter().zip(system.open_utilisations()) {
        if station.is_limited() && utilisation >= 1.0 {
            let station = format!("station {}", station.name);
            return Err(SimulationError::Unstable { station, utilisation });
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Job {
    class: u32,
    route: u32,
    step: u32,
    /// Bytes; 0 for a class without documents.
    size: f64,
    started: f64,
    /// At the station where it is.
    arrived: f64,
}

/// What a class draws from, one stream per purpose.
struct Streams {
    arrivals: Random,
    sizes: Random,
    routes: Random,
    demands: Random,
}

#[derive(Default, Clone, Copy)]
struct Tally {
    visits: u64,
    residence: f64,
    demand: f64,
}

struct Run<'a> {
    system: &'a System,
    plan: &'a Plan,
    traces: Vec<Option<Trace<'a>>>,
    /// Arrivals taken from each trace.
    taken: Vec<usize>,
    streams: Vec<Streams>,
    /// One per station, then one of thinkers per class.
    stations: Vec<Station<u32>>,
    tallies: Vec<Tally>,
    /// Next completion of each station, then next arrival of each class.
    next: Vec<f64>,
    jobs: Vec<Job>,
    free: Vec<u32>,
    /// `recorders[0]` over all; then per class; then per route.
    recorders: Vec<Recorder>,
    /// First route recorder of each class.
    first_route: Vec<usize>,
    finished: u64,
    response_sum: f64,
    now: f64,
    relative_half_width: Option<f64>,
}

impl<'a> Run<'a> {
    fn new(system: &'a System, plan: &'a Plan, traces: &[Trace<'a>]) -> Self {
        let classes = system.classes.len();
        let thinkers = (0..classes).map(|_| Station::new(Service::infinite()));
        let stations: Vec<_> =
            system.stations.iter().map(|model| Station::new(model.service())).chain(thinkers).collect();
        let mut first_route = Vec::with_capacity(classes);
        let mut recorders = 1 + classes;
        for class in &system.classes {
            first_route.push(recorders);
            recorders += class.routes.len();
        }
        let stream = |class: usize, purpose: usize| Random::stream(plan.seed, 4 * class + purpose);
        let streams = (0..classes).map(|class| Streams {
            arrivals: stream(class, 0),
            sizes: stream(class, 1),
            routes: stream(class, 2),
            demands: stream(class, 3),
        });
        let trace_of = |class: &Class| traces.iter().find(|trace| trace.class == class.name).copied();
        let mut run = Self {
            system,
            plan,
            traces: system.classes.iter().map(trace_of).collect(),
            taken: vec![0; classes],
            streams: streams.collect(),
            tallies: vec![Tally::default(); system.stations.len()],
            next: vec![f64::INFINITY; stations.len() + classes],
            stations,
            jobs: Vec::new(),
            free: Vec::new(),
            recorders: vec![Recorder::default(); recorders],
            first_route,
            finished: 0,
            response_sum: 0.0,
            now: 0.0,
            relative_half_width: None,
        };
        (0..classes).for_each(|class| run.begin(class));
        run
    }

    /// The first arrival of an open class; all users of a closed one, thinking.
    fn begin(&mut self, class: usize) {
        match &self.system.classes[class].source {
            Source::Open { .. } => self.schedule_arrival(class),
            Source::Closed { users, .. } => {
                for _ in 0..*users {
                    let job = self.allocate(class);
                    self.think(job);
                }
            }
        }
    }

    fn until_stop(&mut self, go_on: &mut dyn FnMut(&Progress) -> bool) -> Stop {
        let traced = self.traces.iter().any(Option::is_some);
        let mut look_at = self.plan.jobs_min.clamp(1, self.plan.jobs_max);
        let mut ask_at = PROGRESS_JOBS;
        loop {
            let until = if traced { ask_at.min(self.plan.jobs_max) } else { look_at.min(ask_at) };
            if !self.finish_jobs(until) {
                return Stop::TraceEnd;
            }
            if until >= self.plan.jobs_max {
                return Stop::JobsMax;
            }
            if until == look_at && !traced {
                let estimate = Estimate::of(&self.recorders[0], None);
                let relative = estimate.relative_half_width();
                self.relative_half_width = Some(relative);
                if estimate.is_settled() && relative <= self.plan.relative_half_width {
                    return Stop::HalfWidth;
                }
                look_at = self.plan.next_look(until, relative);
            }
            if until == ask_at {
                ask_at += PROGRESS_JOBS;
                let relative_half_width = self.relative_half_width;
                if !go_on(&Progress { jobs: until, jobs_max: self.plan.jobs_max, relative_half_width }) {
                    return Stop::Interrupted;
                }
            }
        }
    }

    /// Runs until `jobs` jobs have finished in all; false when every trace has been served to its end.
    fn finish_jobs(&mut self, jobs: u64) -> bool {
        let traced = self.traces.iter().any(Option::is_some);
        while self.finished < jobs {
            let (event, time) = self.next_event();
            if time == f64::INFINITY || (traced && self.traces_served()) {
                return false;
            }
            self.now = time;
            match event.checked_sub(self.stations.len()) {
                Some(class) => self.arrive(class),
                None => self.complete(event),
            }
        }
        true
    }

    #[inline]
    fn next_event(&self) -> (usize, f64) {
        let mut first = (0, self.next[0]);
        for (index, &time) in self.next.iter().enumerate().skip(1) {
            if time < first.1 {
                first = (index, time);
            }
        }
        first
    }

    /// Whether nothing of any trace is left to come or in the system.
    fn traces_served(&self) -> bool {
        let to_come = self
            .traces
            .iter()
            .zip(&self.taken)
            .any(|(trace, taken)| trace.is_some_and(|trace| *taken < trace.times.len()));
        !to_come && self.stations.iter().all(|station| station.present() == 0)
    }

    fn schedule_arrival(&mut self, class: usize) {
        let slot = self.stations.len() + class;
        self.next[slot] = match (&self.traces[class], &self.system.classes[class].source) {
            (Some(trace), _) => {
                trace.times.get(self.taken[class]).map_or(f64::INFINITY, |time| time - trace.times[0])
            }
            (None, Source::Open { rate }) => self.now + self.streams[class].arrivals.exponential() / rate,
            (None, Source::Closed { .. }) => f64::INFINITY,
        };
    }

    fn arrive(&mut self, class: usize) {
        let job = self.allocate(class);
        let size = self.traces[class].map(|trace| trace.sizes[self.taken[class]]);
        self.taken[class] += 1;
        self.start(job, size);
        self.schedule_arrival(class);
    }

    fn allocate(&mut self, class: usize) -> u32 {
        let job =
            Job { class: class as u32, route: 0, step: 0, size: 0.0, started: self.now, arrived: self.now };
        if let Some(index) = self.free.pop() {
            self.jobs[index as usize] = job;
            return index;
        }
        self.jobs.push(job);
        (self.jobs.len() - 1) as u32
    }

    /// A job begins its route: which one, and for which document, is drawn here and nowhere else.
    fn start(&mut self, index: u32, size: Option<f64>) {
        let job = &mut self.jobs[index as usize];
        let class = &self.system.classes[job.class as usize];
        let streams = &mut self.streams[job.class as usize];
        job.size = match (size, &class.document) {
            (Some(size), _) => size,
            (None, Some(document)) => document.sample(&mut streams.sizes),
            (None, None) => 0.0,
        };
        job.route = choose_route(class, &mut streams.routes);
        job.step = 0;
        job.started = self.now;
        self.visit(index);
    }

    fn visit(&mut self, index: u32) {
        let job = &mut self.jobs[index as usize];
        job.arrived = self.now;
        let class = &self.system.classes[job.class as usize];
        let visit = &class.routes[job.route as usize].visits[job.step as usize];
        let demand = match &visit.demand {
            Demand::Law(law) => law.sample(&mut self.streams[job.class as usize].demands),
            by_size => by_size.of_size(job.size).unwrap_or(0.0),
        };
        self.tallies[visit.station].demand += demand;
        let station = &mut self.stations[visit.station];
        station.arrive(self.now, demand, index);
        self.next[visit.station] = station.next_completion();
    }

    fn complete(&mut self, station: usize) {
        let finished = self.stations[station].complete();
        self.next[station] = self.stations[station].next_completion();
        let Some(index) = finished else { return };
        let Some(tally) = self.tallies.get_mut(station) else {
            self.start(index, None);
            return;
        };
        let job = &mut self.jobs[index as usize];
        tally.visits += 1;
        tally.residence += self.now - job.arrived;
        job.step += 1;
        let route = &self.system.classes[job.class as usize].routes[job.route as usize];
        if (job.step as usize) < route.visits.len() {
            self.visit(index);
        } else {
            self.finish(index);
        }
    }

    fn finish(&mut self, index: u32) {
        let job = self.jobs[index as usize];
        let (class, route) = (job.class as usize, job.route as usize);
        let model = &self.system.classes[class];
        let response = self.now - job.started;
        self.response_sum += response;
        self.finished += 1;
        let observed = response + model.latency;
        self.recorders[0].record(observed, 0.0);
        // With one class or one route the finer record would repeat the coarser.
        if self.system.classes.len() > 1 {
            self.recorders[1 + class].record(observed, 0.0);
        }
        if model.routes.len() > 1 {
            self.recorders[self.first_route[class] + route].record(observed, 0.0);
        }
        match model.source {
            Source::Open { .. } => self.free.push(index),
            Source::Closed { .. } => self.think(index),
        }
    }

    fn think(&mut self, index: u32) {
        let class = self.jobs[index as usize].class as usize;
        let model = &self.system.classes[class];
        let Source::Closed { think_time, .. } = &model.source else { return };
        // The latency is part of the answer: the user starts to think when it is over.
        let pause = think_time.sample(&mut self.streams[class].arrivals) + model.latency;
        let slot = self.system.stations.len() + class;
        self.stations[slot].arrive(self.now, pause, index);
        self.next[slot] = self.stations[slot].next_completion();
    }

    fn result(&self, stop: Stop) -> SystemResult {
        let cut = stop != Stop::TraceEnd;
        let estimate = self.estimate(0, cut);
        let present: f64 = self.stations[..self.tallies.len()].iter().map(Station::present_time).sum();
        // Whoever is still inside has been counted in `present` but not in the sum of responses.
        let accounted = self.response_sum + self.unfinished_time();
        let stations: Vec<(String, StationResult)> =
            (0..self.tallies.len()).map(|k| self.station(k)).collect();
        let busiest = stations.iter().filter_map(|(name, station)| Some((name, station.utilisation?)));
        let bottleneck = busiest.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(name, _)| name.clone());
        SystemResult {
            complete: stop != Stop::Interrupted,
            converged: estimate.is_settled()
                && estimate.relative_half_width() <= self.plan.relative_half_width,
            stop,
            seed: self.plan.seed,
            jobs: self.finished,
            warm_up_jobs: estimate.warm_up_batches as u64 * self.recorders[0].batch_jobs(),
            simulated_seconds: self.now,
            response_time_seconds: response_time(&self.recorders[0], &estimate, 0.0),
            throughput_per_second: self.per_second(self.finished),
            lag_one: estimate.lag_one,
            little_relative_error: if present > 0.0 { (present - accounted) / present } else { 0.0 },
            classes: Named((0..self.system.classes.len()).map(|class| self.class(class, cut)).collect()),
            stations: Named(stations),
            bottleneck,
        }
    }

    fn estimate(&self, recorder: usize, cut: bool) -> Estimate {
        let recorder = &self.recorders[recorder];
        if cut { Estimate::of(recorder, None) } else { Estimate::whole(recorder) }
    }

    fn per_second(&self, count: u64) -> f64 {
        if self.now > 0.0 { count as f64 / self.now } else { 0.0 }
    }

    /// Time so far in the system of the jobs that are still at a station.
    fn unfinished_time(&self) -> f64 {
        let mut idle = vec![false; self.jobs.len()];
        self.free.iter().for_each(|&index| idle[index as usize] = true);
        for thinkers in &self.stations[self.tallies.len()..] {
            thinkers.jobs().for_each(|index| idle[index as usize] = true);
        }
        let active = self.jobs.iter().zip(&idle).filter(|(_, idle)| !**idle);
        active.map(|(job, _)| self.now - job.started).sum()
    }

    fn class(&self, index: usize, cut: bool) -> (String, ClassResult) {
        let model = &self.system.classes[index];
        let own = if self.system.classes.len() > 1 { 1 + index } else { 0 };
        let of = |recorder: usize| {
            let estimate = self.estimate(recorder, cut);
            response_time(&self.recorders[recorder], &estimate, 0.0)
        };
        let route = |(number, route): (usize, &crate::system::Route)| {
            let recorder = if model.routes.len() > 1 { self.first_route[index] + number } else { own };
            let jobs = self.recorders[recorder].jobs();
            (route.name.clone(), RouteResult { jobs, response_time_seconds: of(recorder) })
        };
        let jobs = self.recorders[own].jobs();
        let result = ClassResult {
            jobs,
            throughput_per_second: self.per_second(jobs),
            response_time_seconds: of(own),
            routes: Named(model.routes.iter().enumerate().map(route).collect()),
        };
        (model.name.clone(), result)
    }

    fn station(&self, index: usize) -> (String, StationResult) {
        let (model, station, tally) =
            (&self.system.stations[index], &self.stations[index], &self.tallies[index]);
        let servers = f64::from(model.servers);
        let limited = model.is_limited() && self.now > 0.0;
        let visits = tally.visits.max(1) as f64;
        let result = StationResult {
            utilisation: limited.then(|| station.busy_time() / self.now / servers),
            utilisation_expected: limited.then(|| self.expected_work(index) / servers),
            throughput_per_second: self.per_second(tally.visits),
            queue_mean: if self.now > 0.0 { station.present_time() / self.now } else { 0.0 },
            residence_time_seconds: tally.residence / visits,
            demand_seconds: tally.demand / (tally.visits + station.present() as u64).max(1) as f64,
        };
        (model.name.clone(), result)
    }

    /// Σ throughput × mean demand over the classes: the utilisation law.
    fn expected_work(&self, station: usize) -> f64 {
        let work = |(index, class): (usize, &Class)| {
            let own = if self.system.classes.len() > 1 { 1 + index } else { 0 };
            let demand = class.demands(self.system.stations.len())[station];
            self.per_second(self.recorders[own].jobs()) * demand
        };
        self.system.classes.iter().enumerate().map(work).sum()
    }
}

fn choose_route(class: &Class, random: &mut Random) -> u32 {
    let last = class.routes.len() - 1;
    if last == 0 {
        return 0;
    }
    let mut left = random.uniform();
    for (index, route) in class.routes[..last].iter().enumerate() {
        if left < route.probability {
            return index as u32;
        }
        left -= route.probability;
    }
    last as u32
}
