//! The event loop: arrivals, visits, completions and thinking.

use std::collections::VecDeque;

use super::Trace;
use crate::distribution::RandomVariable;
use crate::random::Random;
use crate::simulator::Plan;
use crate::simulator::estimate::Estimate;
use crate::simulator::percentile::look;
use crate::simulator::recorder::Recorder;
use crate::simulator::sequential::{Look, Simulation};
use crate::station::{Kept, Service, Station};
use crate::system::{Class, Demand, Route, Source, System, Visit, WhenFull};

#[derive(Clone, Copy)]
pub(super) struct Job {
    class: u32,
    route: u32,
    step: u32,
    /// Bytes; 0 for a class without documents.
    size: f64,
    pub(super) started: f64,
    /// Time of arrival at its present station.
    arrived: f64,
    /// Times that it came again because its next station was full.
    retries: u32,
}

/// The random streams of a class, one per purpose.
struct Streams {
    arrivals: Random,
    sizes: Random,
    routes: Random,
    demands: Random,
    retries: Random,
}

#[derive(Default, Clone, Copy)]
pub(super) struct Tally {
    pub(super) visits: u64,
    pub(super) residence: f64,
    pub(super) demand: f64,
    /// Times that a job came, again or for the first time.
    pub(super) attempts: u64,
    /// Times that it found the station full.
    pub(super) found_full: u64,
}

pub(super) struct Run<'a> {
    pub(super) system: &'a System,
    pub(super) plan: &'a Plan,
    traces: Vec<Option<Trace<'a>>>,
    /// Arrivals taken from each trace.
    taken: Vec<usize>,
    /// Jobs of all traces that have not finished.
    traced_left: usize,
    streams: Vec<Streams>,
    /// One per station, then one of thinkers per class, then, if there are any, one of those that will try again.
    pub(super) stations: Vec<Station<u32>>,
    /// Jobs that were served and wait for room at a station, with the station that they are still at.
    blocked: Vec<VecDeque<(u32, usize)>>,
    pub(super) tallies: Vec<Tally>,
    /// Next completion of each station, then next arrival of each class.
    next: Vec<f64>,
    pub(super) jobs: Vec<Job>,
    pub(super) free: Vec<u32>,
    /// `recorders[0]` over all; then per class; then per route.
    pub(super) recorders: Vec<Recorder>,
    /// First route recorder of each class.
    pub(super) first_route: Vec<usize>,
    /// A 1 for every job that was lost and a 0 for every job that was not, over all and then per class; empty if
    /// none can be lost.
    pub(super) losses: Vec<Recorder>,
    /// Time in the system of the jobs that were lost.
    pub(super) lost_time: f64,
    pub(super) finished: u64,
    pub(super) response_sum: f64,
    pub(super) now: f64,
}

impl<'a> Run<'a> {
    pub(super) fn new(system: &'a System, plan: &'a Plan, traces: &[Trace<'a>]) -> Self {
        let classes = system.classes.len();
        let thinkers = (0..classes).map(|_| Station::new(Service::infinite()));
        let retrying = system.stations.iter().any(|model| {
            model.capacity.as_ref().is_some_and(|capacity| matches!(capacity.when_full, WhenFull::Retry(_)))
        });
        let stations: Vec<_> = system
            .stations
            .iter()
            .map(|model| Station::new(model.service()))
            .chain(thinkers)
            .chain(retrying.then(|| Station::new(Service::infinite())))
            .collect();
        let mut first_route = Vec::with_capacity(classes);
        let mut recorders = 1 + classes;
        for class in &system.classes {
            first_route.push(recorders);
            recorders += class.routes.len();
        }
        // The streams of retries come last, so that systems without them draw what they always drew.
        let stream = |class: usize, purpose: usize| Random::stream(plan.seed, 4 * class + purpose);
        let streams = (0..classes).map(|class| Streams {
            arrivals: stream(class, 0),
            sizes: stream(class, 1),
            routes: stream(class, 2),
            demands: stream(class, 3),
            retries: stream(classes, class),
        });
        let trace_of = |class: &Class| traces.iter().find(|trace| trace.class == class.name).copied();
        let mut run = Self {
            system,
            plan,
            traces: system.classes.iter().map(trace_of).collect(),
            taken: vec![0; classes],
            traced_left: traces.iter().map(|trace| trace.times.len()).sum(),
            streams: streams.collect(),
            tallies: vec![Tally::default(); system.stations.len()],
            next: vec![f64::INFINITY; stations.len() + classes],
            blocked: vec![VecDeque::new(); system.stations.len()],
            stations,
            jobs: Vec::new(),
            free: Vec::new(),
            recorders: vec![Recorder::default(); recorders],
            first_route,
            losses: if system.turns_away() { vec![Recorder::default(); 1 + classes] } else { Vec::new() },
            lost_time: 0.0,
            finished: 0,
            response_sum: 0.0,
            now: 0.0,
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
        let (started, arrived) = (self.now, self.now);
        let job = Job { class: class as u32, route: 0, step: 0, size: 0.0, started, arrived, retries: 0 };
        if let Some(index) = self.free.pop() {
            self.jobs[index as usize] = job;
            return index;
        }
        self.jobs.push(job);
        (self.jobs.len() - 1) as u32
    }

    /// Starts a job on its route. The route and the document are drawn here and nowhere else.
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

    fn route(&self, index: u32) -> &'a Route {
        let job = &self.jobs[index as usize];
        &self.system.classes[job.class as usize].routes[job.route as usize]
    }

    /// The visit that a job makes now, or comes for.
    fn visit_of(&self, index: u32) -> &'a Visit {
        &self.route(index).visits[self.jobs[index as usize].step as usize]
    }

    fn is_full(&self, station: usize) -> bool {
        let capacity = self.system.stations[station].capacity.as_ref();
        capacity.is_some_and(|capacity| self.stations[station].occupied() >= capacity.jobs as usize)
    }

    /// A job comes to the next station of its route, which may turn it away.
    fn visit(&mut self, index: u32) {
        let station = self.visit_of(index).station;
        if self.system.stations[station].capacity.is_some() {
            self.tallies[station].attempts += 1;
            if self.is_full(station) {
                self.tallies[station].found_full += 1;
                self.turn_away(index, station);
                return;
            }
        }
        self.enter(index);
    }

    /// A job that found a station full comes again later, or is lost.
    fn turn_away(&mut self, index: u32, station: usize) {
        let when_full = self.system.stations[station].capacity.as_ref().map(|capacity| &capacity.when_full);
        let job = &mut self.jobs[index as usize];
        let streams = &mut self.streams[job.class as usize];
        let wait = match when_full {
            Some(WhenFull::Retry(retry)) => retry.wait(job.retries, &mut streams.retries),
            _ => None,
        };
        match wait {
            Some(wait) => {
                job.retries += 1;
                let orbit = self.stations.len() - 1;
                self.stations[orbit].arrive(self.now, wait, index);
                self.next[orbit] = self.stations[orbit].next_completion();
            }
            None => self.lose(index),
        }
    }

    fn lose(&mut self, index: u32) {
        let job = self.jobs[index as usize];
        if let Some(held) = self.visit_of(index).holds {
            self.release(held);
        }
        self.lost_time += self.now - job.started;
        self.record_loss(job.class as usize, 1.0);
        self.leave_system(index);
    }

    /// 1 for a job that was lost, 0 for one that finished.
    fn record_loss(&mut self, class: usize, lost: f64) {
        if let Some(all) = self.losses.first_mut() {
            all.record(lost, 0.0);
            self.losses[1 + class].record(lost, 0.0);
        }
    }

    fn release(&mut self, station: usize) {
        self.stations[station].release(self.now);
        self.next[station] = self.stations[station].next_completion();
        self.let_in(station);
    }

    /// Jobs that were blocked before a station enter while it has room.
    fn let_in(&mut self, station: usize) {
        while !self.is_full(station)
            && let Some((index, from)) = self.blocked[station].pop_front()
        {
            self.stations[from].unblock(self.now);
            self.next[from] = self.stations[from].next_completion();
            self.leave_station(index, from);
            self.enter(index);
            self.let_in(from);
        }
    }

    /// Counts a visit that is over.
    fn leave_station(&mut self, index: u32, station: usize) {
        let (job, tally) = (&mut self.jobs[index as usize], &mut self.tallies[station]);
        tally.visits += 1;
        tally.residence += self.now - job.arrived;
        job.step += 1;
        job.retries = 0;
    }

    fn enter(&mut self, index: u32) {
        let visit = self.visit_of(index);
        let job = &mut self.jobs[index as usize];
        job.arrived = self.now;
        let demand = match &visit.demand {
            Demand::Independent(distribution) => {
                distribution.sample(&mut self.streams[job.class as usize].demands)
            }
            by_size => by_size.of_size(job.size).unwrap_or(0.0),
        };
        self.tallies[visit.station].demand += demand;
        let station = &mut self.stations[visit.station];
        station.arrive(self.now, demand, index);
        self.next[visit.station] = station.next_completion();
    }

    fn complete(&mut self, station: usize) {
        let blocks = |visit: &Visit| {
            let next = &self.system.stations[visit.station];
            next.blocks() && self.is_full(visit.station)
        };
        let (jobs, classes, is_station) = (&self.jobs, &self.system.classes, station < self.tallies.len());
        // What the job at the head keeps is known before it completes: its next visit is.
        let next_visit = |index: u32| {
            let job = &jobs[index as usize];
            let route = &classes[job.class as usize].routes[job.route as usize];
            route.visits.get(job.step as usize + 1).filter(|_| is_station)
        };
        let head = self.stations[station].next_job().and_then(next_visit);
        let kept = match head {
            Some(visit) if visit.holds == Some(station) => Kept::Place,
            Some(visit) if blocks(visit) => Kept::Itself,
            _ => Kept::Nothing,
        };
        let finished = self.stations[station].complete_and_keep(kept);
        self.next[station] = self.stations[station].next_completion();
        let Some(index) = finished else { return };
        if !is_station {
            if station < self.tallies.len() + self.system.classes.len() {
                self.start(index, None);
            } else {
                self.visit(index);
            }
            return;
        }
        if let (Kept::Itself, Some(visit)) = (kept, head) {
            let tally = &mut self.tallies[visit.station];
            tally.attempts += 1;
            tally.found_full += 1;
            self.blocked[visit.station].push_back((index, station));
            return;
        }
        let held = self.visit_of(index).holds;
        self.leave_station(index, station);
        let next = self.route(index).visits.get(self.jobs[index as usize].step as usize);
        if let Some(held) = held.filter(|_| next.is_none_or(|visit| visit.holds != held)) {
            self.release(held);
        }
        if next.is_some() {
            self.visit(index);
        } else {
            self.finish(index);
        }
        self.let_in(station);
    }

    fn finish(&mut self, index: u32) {
        let job = self.jobs[index as usize];
        let (class, route) = (job.class as usize, job.route as usize);
        let model = &self.system.classes[class];
        let response = self.now - job.started;
        self.response_sum += response;
        self.finished += 1;
        self.record_loss(class, 0.0);
        let observed = response + model.latency;
        self.recorders[0].record(observed, 0.0);
        // With one class or one route the finer record would repeat the coarser.
        if self.system.classes.len() > 1 {
            self.recorders[1 + class].record(observed, 0.0);
        }
        if model.routes.len() > 1 {
            self.recorders[self.first_route[class] + route].record(observed, 0.0);
        }
        self.leave_system(index);
    }

    fn leave_system(&mut self, index: u32) {
        let class = self.jobs[index as usize].class as usize;
        self.traced_left -= usize::from(self.traces[class].is_some());
        match self.system.classes[class].source {
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
}

impl Simulation for Run<'_> {
    /// False when every trace has been served to its end.
    fn finish_jobs(&mut self, jobs: u64) -> bool {
        let traced = self.traces.iter().any(Option::is_some);
        while self.finished < jobs {
            let (event, time) = self.next_event();
            if time == f64::INFINITY || (traced && self.traced_left == 0) {
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

    fn look(&self) -> Look {
        look(&self.recorders[0], &Estimate::of(&self.recorders[0], None), 0.0, self.plan.target)
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
