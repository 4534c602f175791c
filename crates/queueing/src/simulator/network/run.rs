//! The event loop: arrivals, visits, completions and thinking.

use std::collections::VecDeque;
use std::hint::select_unpredictable;

use super::Trace;
use super::shape::{Shape, Step};
use crate::distribution::RandomVariable;
use crate::random::Random;
use crate::simulator::encoding::encoded;
use crate::simulator::replications::{Observed, Records, Replica};
use crate::simulator::timeline::Totals;
use crate::station::{Kept, Service, Station};
use crate::system::{Class, Source, System, WhenFull};

/// The system is taken to grow when more open jobs than this, and more than this share of all arrivals, are inside.
const GROWING_MIN: u64 = 1_000;
const GROWING_SHARE: f64 = 0.02;
/// After so many events, a moment, progress is reported even if hardly a job has finished: all others may have been lost.
const EVENTS_PER_STEP: u32 = 1 << 22;

#[derive(Clone, Copy)]
struct Job {
    class: u32,
    route: u32,
    /// Retries so far because the next station was full.
    retries: u32,
    /// Document size in bytes; 0 for a class without documents.
    size: f64,
    started: f64,
    /// Time of arrival at the job's present station.
    arrived: f64,
}

/// A job at a station, or between two.
#[derive(Clone, Copy)]
struct Visitor {
    /// The index in [`Run::jobs`].
    job: u32,
    /// The visit that the job is making or waits to make, in [`Shape::steps`].
    step: u32,
}

impl Visitor {
    /// The job at its next visit.
    #[inline]
    fn next(self) -> Self {
        Self { step: self.step + 1, ..self }
    }
}

/// The random streams of a class, one per purpose.
struct Streams {
    arrivals: Random,
    sizes: Random,
    routes: Random,
    demands: Random,
    retries: Random,
    /// The next document's size, drawn ahead: the processor computes it while events wait for one another.
    next_size: f64,
}

/// The time of an event in seconds, never negative. The bits of such numbers are ordered as the numbers are, and
/// comparing integers takes fewer cycles.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct EventTime(u64);

impl EventTime {
    const NEVER: Self = Self(f64::INFINITY.to_bits());

    #[inline]
    fn at(seconds: f64) -> Self {
        assert!(seconds.is_sign_positive(), "{seconds} s is before the start");
        Self(seconds.to_bits())
    }

    #[inline]
    fn seconds(self) -> f64 {
        f64::from_bits(self.0)
    }
}

pub(super) struct Run<'a> {
    system: &'a System,
    shape: &'a Shape<'a>,
    traces: Vec<Option<Trace<'a>>>,
    /// The first arrival of all traces, at which time starts: times may be stamped in seconds since 1970.
    origin: f64,
    /// Arrivals taken so far from each trace.
    taken: Vec<usize>,
    /// Jobs of all traces that have not finished.
    traced_left: usize,
    streams: Vec<Streams>,
    /// One per station, then one for the thinking users of each closed class that thinks, then one for jobs between
    /// retries if any station retries.
    stations: Vec<Station<Visitor>>,
    /// Served jobs that wait for room at a station, each with the station it still occupies.
    blocked: Vec<VecDeque<(Visitor, usize)>>,
    /// Totals per station; the times are kept in the stations.
    tallies: Vec<Totals>,
    /// [`Replica::totals`] at the end of the last section.
    before: Vec<Totals>,
    /// The users whose thinking takes no time: they start before the next event, from the last.
    awake: Vec<u32>,
    /// Next completion of each of `stations`, then next arrival of each open class.
    next: Vec<EventTime>,
    /// The place in `next` of each class: of its thinking users, or of its arrivals.
    places: Vec<usize>,
    /// The open classes.
    open: Vec<usize>,
    /// The place of the jobs between retries.
    orbit: Option<usize>,
    jobs: Vec<Job>,
    free: Vec<u32>,
    /// The records of the group, taken over while this replication advances.
    records: Records,
    /// Values recorded, by recorder.
    counts: Vec<u64>,
    /// Total time in the system of lost jobs.
    lost_time: f64,
    response_sum: f64,
    now: f64,
}

impl<'a> Run<'a> {
    pub(super) fn new(system: &'a System, shape: &'a Shape<'a>, seed: u64, traces: &[Trace<'a>]) -> Self {
        let classes = system.classes.len();
        let thinking: Vec<usize> = (0..classes).filter(|&class| shape.thinks[class]).collect();
        let open: Vec<usize> = (0..classes)
            .filter(|&class| matches!(system.classes[class].source, Source::Open { .. }))
            .collect();
        let retrying = system.stations.iter().any(|model| {
            model.capacity.as_ref().is_some_and(|capacity| matches!(capacity.when_full, WhenFull::Retry(_)))
        });
        let delay = || Station::new(Service::infinite());
        let mut stations: Vec<_> =
            system.stations.iter().map(|model| Station::new(model.service())).collect();
        stations.extend(thinking.iter().map(|_| delay()));
        let orbit = retrying.then_some(stations.len());
        stations.extend(orbit.map(|_| delay()));
        let mut places = vec![0; classes];
        thinking.iter().enumerate().for_each(|(place, &class)| places[class] = system.stations.len() + place);
        open.iter().enumerate().for_each(|(place, &class)| places[class] = stations.len() + place);
        // The streams of retries come last, so that systems without retries draw the same numbers as before.
        let stream = |class: usize, purpose: usize| Random::stream(seed, 4 * class + purpose);
        let streams = (0..classes).map(|class| {
            let mut sizes = stream(class, 1);
            let document = system.classes[class].document.as_ref();
            Streams {
                arrivals: stream(class, 0),
                next_size: document.map_or(0.0, |document| document.sample(&mut sizes)),
                sizes,
                routes: stream(class, 2),
                demands: stream(class, 3),
                retries: stream(classes, class),
            }
        });
        let trace_of = |class: &Class| traces.iter().find(|trace| trace.class == class.name).copied();
        let mut run = Self {
            system,
            shape,
            traces: system.classes.iter().map(trace_of).collect(),
            origin: traces
                .iter()
                .filter_map(|trace| trace.times.first())
                .copied()
                .fold(f64::INFINITY, f64::min),
            taken: vec![0; classes],
            traced_left: traces.iter().map(|trace| trace.times.len()).sum(),
            streams: streams.collect(),
            tallies: vec![Totals::default(); system.stations.len()],
            before: vec![Totals::default(); system.stations.len() + 1 + classes],
            awake: Vec::new(),
            next: vec![EventTime::NEVER; stations.len() + open.len()],
            places,
            open,
            orbit,
            blocked: vec![VecDeque::new(); system.stations.len()],
            stations,
            jobs: Vec::new(),
            free: Vec::new(),
            records: Records::default(),
            counts: vec![0; shape.recorders],
            lost_time: 0.0,
            response_sum: 0.0,
            now: 0.0,
        };
        // In reverse, so that users of the first class who do not think are the first to start.
        (0..classes).rev().for_each(|class| run.begin(class));
        run
    }

    /// Schedules the first arrival of an open class, or starts all users of a closed one in thinking.
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
    fn next_event(&self) -> (usize, EventTime) {
        let mut first = (0, EventTime::NEVER);
        for (index, &time) in self.next.iter().enumerate() {
            // Which event is first is as good as random, so there is no branch to predict.
            first = select_unpredictable(time < first.1, (index, time), first);
        }
        first
    }

    fn schedule_arrival(&mut self, class: usize) {
        let time = match (&self.traces[class], &self.system.classes[class].source) {
            (Some(trace), _) => {
                trace.times.get(self.taken[class]).map_or(f64::INFINITY, |time| time - self.origin)
            }
            (None, Source::Open { rate }) => self.now + self.streams[class].arrivals.exponential() / rate,
            (None, Source::Closed { .. }) => f64::INFINITY,
        };
        self.next[self.places[class]] = EventTime::at(time);
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
        let job = Job { class: class as u32, route: 0, size: 0.0, started, arrived, retries: 0 };
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
            (None, Some(document)) => {
                std::mem::replace(&mut streams.next_size, document.sample(&mut streams.sizes))
            }
            (None, None) => 0.0,
        };
        job.route = choose_route(class, &mut streams.routes);
        job.started = self.now;
        let step = self.shape.first_step[job.class as usize][job.route as usize];
        self.visit(Visitor { job: index, step });
    }

    #[inline]
    fn step_of(&self, visitor: Visitor) -> &'a Step<'a> {
        &self.shape.steps[visitor.step as usize]
    }

    #[inline]
    fn schedule_completion(&mut self, station: usize) {
        self.next[station] = EventTime::at(self.stations[station].next_completion());
    }

    fn is_full(&self, station: usize) -> bool {
        let capacity = self.system.stations[station].capacity.as_ref();
        capacity.is_some_and(|capacity| self.stations[station].occupied() >= capacity.jobs as usize)
    }

    /// Sends a job to the next station of its route, where it may be refused.
    fn visit(&mut self, visitor: Visitor) {
        let step = self.step_of(visitor);
        if step.is_bounded {
            self.tallies[step.station].attempts += 1.0;
            if self.is_full(step.station) {
                self.tallies[step.station].found_full += 1.0;
                self.retry_or_lose(visitor, step.station);
                return;
            }
        }
        self.enter(visitor);
    }

    /// Schedules the retry of a job that found a station full, or counts it as lost.
    fn retry_or_lose(&mut self, visitor: Visitor, station: usize) {
        let when_full = self.system.stations[station].capacity.as_ref().map(|capacity| &capacity.when_full);
        let job = &mut self.jobs[visitor.job as usize];
        let streams = &mut self.streams[job.class as usize];
        let wait = match when_full {
            Some(WhenFull::Retry(retry)) => retry.wait(job.retries, &mut streams.retries),
            _ => None,
        };
        match wait.zip(self.orbit) {
            Some((wait, orbit)) => {
                job.retries += 1;
                self.stations[orbit].arrive(self.now, wait, visitor);
                self.schedule_completion(orbit);
            }
            None => self.lose(visitor),
        }
    }

    fn lose(&mut self, visitor: Visitor) {
        let job = self.jobs[visitor.job as usize];
        self.step_of(visitor).holds.iter().for_each(|&held| self.release(held));
        self.lost_time += self.now - job.started;
        self.record_loss(job.class as usize, 1.0);
        self.leave_system(visitor.job);
    }

    /// Records 1 for a lost job, 0 for a finished one.
    fn record_loss(&mut self, class: usize, lost: f64) {
        if let Some(first) = self.shape.first_loss {
            self.record(first, lost);
            self.record(first + 1 + class, lost);
        }
    }

    fn release(&mut self, station: usize) {
        self.stations[station].release(self.now);
        self.schedule_completion(station);
        self.admit_blocked(station);
    }

    /// Admits jobs that were blocked before a station while it has room.
    #[inline]
    fn admit_blocked(&mut self, station: usize) {
        if !self.blocked[station].is_empty() {
            self.admit_some(station);
        }
    }

    fn admit_some(&mut self, station: usize) {
        while !self.is_full(station)
            && let Some((visitor, from)) = self.blocked[station].pop_front()
        {
            self.stations[from].unblock(self.now);
            self.schedule_completion(from);
            self.leave_station(visitor, from);
            self.enter(visitor.next());
            self.admit_blocked(from);
        }
    }

    /// Counts a visit that is over.
    #[inline]
    fn leave_station(&mut self, visitor: Visitor, station: usize) {
        let (job, tally) = (&mut self.jobs[visitor.job as usize], &mut self.tallies[station]);
        tally.visits += 1.0;
        tally.residence += self.now - job.arrived;
        job.retries = 0;
    }

    #[inline(always)]
    fn enter(&mut self, visitor: Visitor) {
        let step = self.step_of(visitor);
        let job = &mut self.jobs[visitor.job as usize];
        job.arrived = self.now;
        let demand = step.demand.sample(job.size, &mut self.streams[job.class as usize].demands);
        let drawn = demand * (step.weights[0] + step.weights[1] * demand);
        let tally = &mut self.tallies[step.station];
        tally.begun += 1.0;
        tally.demand += demand;
        tally.excess += drawn - step.expected;
        tally.expected += step.expected;
        self.stations[step.station].arrive_by_priority(self.now, demand, visitor, step.priority);
        self.schedule_completion(step.station);
    }

    /// Ends a visit, a pause for thought or a wait for a retry.
    fn complete(&mut self, station: usize) {
        if station < self.tallies.len() {
            self.complete_visit(station);
            return;
        }
        let finished = self.stations[station].complete();
        self.schedule_completion(station);
        let Some(visitor) = finished else { return };
        if self.orbit == Some(station) {
            self.visit(visitor);
        } else {
            self.start(visitor.job, None);
        }
    }

    fn complete_visit(&mut self, station: usize) {
        let kept = if self.shape.keeps[station] { self.kept(station) } else { Kept::Nothing };
        let finished = self.stations[station].complete_and_keep(kept);
        self.schedule_completion(station);
        let Some(visitor) = finished else { return };
        let step = self.step_of(visitor);
        if kept == Kept::Itself {
            let full = self.step_of(visitor.next()).station;
            let tally = &mut self.tallies[full];
            tally.attempts += 1.0;
            tally.found_full += 1.0;
            self.blocked[full].push_back((visitor, station));
            return;
        }
        self.leave_station(visitor, station);
        step.releases.iter().for_each(|&held| self.release(held));
        if step.is_last {
            self.finish(visitor.job);
        } else {
            self.visit(visitor.next());
        }
        self.admit_blocked(station);
    }

    /// What the job that completes next keeps at this station. Its next visit decides, so it is known before.
    fn kept(&self, station: usize) -> Kept {
        let visitor = self.stations[station].next_job().filter(|visitor| !self.step_of(*visitor).is_last);
        let Some(visitor) = visitor else { return Kept::Nothing };
        let next = self.step_of(visitor.next());
        if next.holds.contains(&station) {
            Kept::Place
        } else if self.system.stations[next.station].blocks() && self.is_full(next.station) {
            Kept::Itself
        } else {
            Kept::Nothing
        }
    }

    fn finish(&mut self, index: u32) {
        let job = self.jobs[index as usize];
        let (class, route) = (job.class as usize, job.route as usize);
        let model = &self.system.classes[class];
        let response = self.now - job.started;
        self.response_sum += response;
        self.record_loss(class, 0.0);
        let observed = response + model.latency;
        // With a single class or a single route the finer record would repeat the coarser.
        if self.system.classes.len() > 1 {
            self.record(1 + class, observed);
        }
        if model.routes.len() > 1 {
            self.record(self.shape.first_route[class] + route, observed);
        }
        if self.record(0, observed) {
            self.end_section();
        }
        self.leave_system(index);
    }

    /// Records a response time; returns true at the end of a section.
    #[inline(always)]
    fn record(&mut self, recorder: usize, value: f64) -> bool {
        self.records.response[recorder].record(&mut self.counts[recorder], value, 0.0)
    }

    #[inline]
    fn leave_system(&mut self, index: u32) {
        let class = self.jobs[index as usize].class as usize;
        self.traced_left -= usize::from(self.traces[class].is_some());
        match self.system.classes[class].source {
            Source::Open { .. } => self.free.push(index),
            Source::Closed { .. } if self.shape.thinks[class] => self.think(index),
            Source::Closed { .. } => self.awake.push(index),
        }
    }

    fn think(&mut self, index: u32) {
        let class = self.jobs[index as usize].class as usize;
        let model = &self.system.classes[class];
        // The latency is part of the response time: the user starts to think after it.
        let thinking = self.shape.thinking[class].sample(0.0, &mut self.streams[class].arrivals);
        let pause = thinking + model.latency;
        if pause > 0.0 {
            let place = self.places[class];
            self.stations[place].arrive(self.now, pause, Visitor { job: index, step: 0 });
            self.schedule_completion(place);
        } else {
            self.awake.push(index);
        }
    }
}

impl Replica for Run<'_> {
    /// Returns false when every trace has been served to its end.
    fn finish_jobs(&mut self, jobs: u64, records: &mut Records) -> bool {
        std::mem::swap(&mut self.records, records);
        let traced = self.traces.iter().any(Option::is_some);
        let (mut more, mut events) = (true, 0_u32);
        while more && self.counts[0] < jobs && events < EVENTS_PER_STEP {
            events += 1;
            while let Some(index) = self.awake.pop() {
                self.start(index, None);
            }
            let (event, time) = self.next_event();
            more = time < EventTime::NEVER && !(traced && self.traced_left == 0);
            if more {
                self.now = time.seconds();
                match event.checked_sub(self.stations.len()) {
                    Some(arrival) => self.arrive(self.open[arrival]),
                    None => self.complete(event),
                }
            }
        }
        std::mem::swap(&mut self.records, records);
        more
    }
}

impl Observed for Run<'_> {
    fn finished(&self) -> u64 {
        self.counts[0]
    }

    /// Of every station, then of all jobs and of each class: visits to the system, and attempts at one.
    fn totals(&self) -> Vec<Totals> {
        let with_times = |(tally, station): (&Totals, &Station<Visitor>)| Totals {
            seconds: self.now,
            busy: station.busy_time(self.now),
            present: station.present_time(self.now),
            ..*tally
        };
        let of_jobs = |place: usize| {
            let finished = self.counts[self.shape.own_recorder(place)];
            let offered = self.shape.first_loss.map_or(finished, |first| self.counts[first + place]);
            Totals {
                seconds: self.now,
                visits: finished as f64,
                attempts: offered as f64,
                ..Totals::default()
            }
        };
        let jobs = (0..=self.system.classes.len()).map(of_jobs);
        self.tallies.iter().zip(&self.stations).map(with_times).chain(jobs).collect()
    }
}

/// What a result takes of a replication beside its records.
pub(super) trait Inside: Observed {
    /// Returns true if open jobs pile up. Blocking and retries make stability impossible to check beforehand.
    fn is_growing(&self) -> bool;
    /// ∫ jobs inside dt: jobs at stations and between retries.
    fn present_time(&self) -> f64;
    /// The time in the system of all jobs, of those that are still inside, too.
    fn accounted_time(&self) -> f64;
    fn now(&self) -> f64;
    /// The number of values recorded by a recorder.
    fn count(&self, recorder: usize) -> u64;
}

/// [`Inside`] of a replication in another process.
pub(super) struct State {
    pub(super) totals: Vec<Totals>,
    pub(super) counts: Vec<u64>,
    is_growing: bool,
    present_time: f64,
    accounted_time: f64,
    now: f64,
}

encoded!(State { totals, counts, is_growing, present_time, accounted_time, now });

impl State {
    pub(super) fn of(run: &Run<'_>) -> Self {
        Self {
            totals: run.totals(),
            counts: run.counts.clone(),
            is_growing: run.is_growing(),
            present_time: run.present_time(),
            accounted_time: run.accounted_time(),
            now: run.now,
        }
    }
}

impl Observed for State {
    fn finished(&self) -> u64 {
        self.counts[0]
    }

    fn totals(&self) -> Vec<Totals> {
        self.totals.clone()
    }
}

impl Inside for State {
    fn is_growing(&self) -> bool {
        self.is_growing
    }

    fn present_time(&self) -> f64 {
        self.present_time
    }

    fn accounted_time(&self) -> f64 {
        self.accounted_time
    }

    fn now(&self) -> f64 {
        self.now
    }

    fn count(&self, recorder: usize) -> u64 {
        self.counts[recorder]
    }
}

impl Inside for Run<'_> {
    fn is_growing(&self) -> bool {
        let users = |class: &Class| match class.source {
            Source::Closed { users, .. } => u64::from(users),
            Source::Open { .. } => 0,
        };
        let users: u64 = self.system.classes.iter().map(users).sum();
        let inside = ((self.jobs.len() - self.free.len()) as u64).saturating_sub(users);
        inside > GROWING_MIN && inside as f64 > GROWING_SHARE * (self.counts[0] + inside) as f64
    }

    fn present_time(&self) -> f64 {
        let orbit = self.orbit.map(|orbit| &self.stations[orbit]);
        let inside = self.stations[..self.tallies.len()].iter().chain(orbit);
        inside.map(|station| station.present_time(self.now)).sum()
    }

    fn accounted_time(&self) -> f64 {
        // Jobs still inside count in the time present but not in the sum of response times.
        self.response_sum + self.lost_time + self.unfinished_time()
    }

    fn now(&self) -> f64 {
        self.now
    }

    fn count(&self, recorder: usize) -> u64 {
        self.counts[recorder]
    }
}

impl Run<'_> {
    #[cold]
    fn end_section(&mut self) {
        let now = self.totals();
        let mut section = now.clone();
        section.iter_mut().zip(&self.before).for_each(|(own, before)| own.subtract(before));
        self.before = now;
        let shift = self.records.response[0].shift();
        self.records.stations.add(self.counts[0], shift, &section);
    }

    /// The time spent so far by jobs still at a station.
    fn unfinished_time(&self) -> f64 {
        let mut idle = vec![false; self.jobs.len()];
        self.free.iter().for_each(|&index| idle[index as usize] = true);
        for thinkers in &self.stations[self.tallies.len()..self.orbit.unwrap_or(self.stations.len())] {
            thinkers.jobs().for_each(|user| idle[user.job as usize] = true);
        }
        self.awake.iter().for_each(|&index| idle[index as usize] = true);
        let active = self.jobs.iter().zip(&idle).filter(|(_, idle)| !**idle);
        active.map(|(job, _)| self.now - job.started).sum()
    }
}

fn choose_route(class: &Class, random: &mut Random) -> u32 {
    let last = class.routes.len() - 1;
    if last == 0 {
        return 0;
    }
    let (mut left, mut chosen) = (random.uniform(), 0);
    // Which route it is cannot be predicted, so the loop does not end there: `left` is negative from then on.
    for route in &class.routes[..last] {
        chosen += u32::from(left >= route.probability);
        left -= route.probability;
    }
    chosen
}
