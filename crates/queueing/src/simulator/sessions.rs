//! One station driven by sessions: chains of jobs, each entering when it is due and its predecessor has finished.
//!
//! This is how a client with one connection behaves. So bursts of a log do not arrive as batches, as they would if
//! only their times were replayed, and an overloaded station receives fewer requests.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::mem;

use super::SimulationError;
use super::processor_speed::{Interruption, Interruptions, Pace, Quota, SpeedChange, Speeds};
use super::trace::validate_service;
use crate::station::{Service, Station};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChainedJob {
    /// The earliest time of entry, provided its predecessor has finished.
    pub due: f64,
    pub demand: f64,
}

/// The times of one finished job, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answered {
    /// The time it left the station.
    pub at: f64,
    pub response_time: f64,
    pub demand: f64,
}

/// What surrounds the station. The default adds nothing to it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Surroundings {
    /// The way to the client and back, in seconds: a job enters no earlier than this after its predecessor left.
    pub latency: f64,
    /// A job that finds the station empty needs so many seconds more of it (an M/G/1 station with exceptional first
    /// service, after Welch).
    pub wakeup: f64,
    /// The client sends jobs and takes answers one after the other. It needs this share of the demand of each answer,
    /// begins while the station sends it, and the response time ends when it has all.
    pub client: f64,
    /// The client needs so many seconds to send a job, which enters the station then.
    pub sending: f64,
    /// The station stands still for the rest of each period whose quota it has used up.
    pub quota: Option<Quota>,
    /// The station stands still meanwhile.
    pub station_interruptions: Vec<Interruption>,
    /// The client neither takes answers nor sends jobs meanwhile.
    pub client_interruptions: Vec<Interruption>,
    /// A job that enters the station afterwards is served at this speed.
    pub station_speeds: Vec<SpeedChange>,
    /// An answer that is complete afterwards is taken at this speed.
    pub client_speeds: Vec<SpeedChange>,
}

/// Runs every chain to its end and returns its jobs in the order they left.
///
/// `chains` must come in order of their first job's due time, and no chain may be empty. Response times count from when
/// a job is due and its predecessor has left: what an interrupted client sends late has waited.
///
/// # Errors
/// [`SimulationError`] when a chain is empty, out of order, holds a value that is not finite or a negative
/// demand, or when the service has no place for a job, the quota no time, a speed is not above 0, or interruptions or
/// speeds are not in order.
pub fn simulate_sessions<C>(
    chains: impl IntoIterator<Item = C>,
    service: Service,
    surroundings: Surroundings,
) -> Result<Vec<Answered>, SimulationError>
where
    C: AsRef<[ChainedJob]>,
{
    validate_service(&service)?;
    let Surroundings {
        latency,
        wakeup,
        client,
        sending,
        quota,
        station_interruptions,
        client_interruptions,
        station_speeds,
        client_speeds,
    } = surroundings;
    quota.as_ref().map_or(Ok(()), Quota::validate)?;
    let times = [("latency", latency), ("wake-up", wakeup), ("client's share", client), ("sending", sending)];
    for (name, value) in times {
        if !(value.is_finite() && value >= 0.0) {
            let requirement = "at least 0 and finite";
            return Err(SimulationError::Parameter { name, requirement, value });
        }
    }
    let mut run = Run {
        station: Station::new(service),
        pace: Pace::new(quota, Interruptions::new(station_interruptions)?),
        speeds: Speeds::new(station_speeds)?,
        latency,
        wakeup,
        client: Client {
            share: client,
            sending,
            free: f64::NEG_INFINITY,
            sent_until: f64::NEG_INFINITY,
            sent_seconds: 0.0,
            while_taking: Interruptions::new(client_interruptions.clone())?,
            while_sending: Interruptions::new(client_interruptions)?,
            speeds: Speeds::new(client_speeds)?,
        },
        now: 0.0,
        live: Vec::new(),
        due: BinaryHeap::new(),
        answered: vec![],
    };
    let mut latest = f64::NEG_INFINITY;
    for (index, chain) in chains.into_iter().enumerate() {
        let first = checked(chain.as_ref(), index)?;
        if first < latest {
            return Err(SimulationError::TraceOrder { index });
        }
        latest = first;
        run.until(first);
        run.live.push(Live { chain, next: 0, since: first });
        run.send(first, index as u32);
    }
    run.until(f64::INFINITY);
    Ok(run.answered)
}

struct Run<C> {
    station: Station<u32>,
    pace: Pace,
    speeds: Speeds,
    latency: f64,
    wakeup: f64,
    client: Client,
    /// The time of the previous event.
    now: f64,
    live: Vec<Live<C>>,
    /// Chains whose next job is due or has been sent later, ordered by that time.
    due: BinaryHeap<Reverse<Due>>,
    answered: Vec<Answered>,
}

struct Client {
    /// Seconds to take an answer per second of its demand.
    share: f64,
    /// Seconds to send a job.
    sending: f64,
    /// The time at which it has taken all answers so far, and sent what was due before.
    free: f64,
    /// The time at which it has sent all jobs that were due while it had no answer to take.
    sent_until: f64,
    /// Its work on these jobs since the last answer. An answer that the station was sending meanwhile has waited for it.
    sent_seconds: f64,
    while_taking: Interruptions,
    while_sending: Interruptions,
    speeds: Speeds,
}

impl Client {
    /// The time at which it has sent a job that is due at `now`.
    fn sent_at(&mut self, now: f64) -> f64 {
        let seconds = self.speeds.seconds_for(now, self.sending);
        if seconds > 0.0 && self.free > now {
            self.free = self.while_taking.done_at(self.free, seconds);
            return self.free;
        }
        self.sent_until = self.while_sending.done_at(self.sent_until.max(now), seconds);
        self.sent_seconds += seconds;
        self.sent_until
    }

    /// The time at which it has an answer with this demand, which the station has sent at `now`.
    fn taken_at(&mut self, now: f64, demand: f64) -> f64 {
        let from = self.free.max(now - demand);
        let sent_seconds = mem::take(&mut self.sent_seconds);
        let waited = sent_seconds.min((self.sent_until - from).max(0.0));
        let seconds = self.speeds.seconds_for(now, self.share * demand);
        let done = self.while_taking.done_at(from, waited + seconds);
        self.free = self.while_taking.over_at(done.max(now));
        self.free
    }
}

struct Live<C> {
    chain: C,
    /// The index of the job that is at the station or due next.
    next: usize,
    /// The time from which that job's response time counts.
    since: f64,
}

impl<C: AsRef<[ChainedJob]>> Run<C> {
    /// Handles all events before `end`.
    fn until(&mut self, end: f64) {
        loop {
            let completion = self.pace.real(self.station.next_completion());
            let due = self.due.peek().map_or(f64::INFINITY, |Reverse(due)| due.time);
            let change = self.next_change();
            if completion.min(due).min(change) >= end {
                return;
            }
            if change < completion && change <= due {
                self.now = change;
                self.pace.change(change, self.work(change));
            } else if completion <= due {
                self.complete(completion);
            } else if let Some(Reverse(due)) = self.due.pop() {
                if due.sent {
                    self.enter(due.time, due.chain);
                } else {
                    self.send(due.time, due.chain);
                }
            }
        }
    }

    /// The time at which a busy station stops or resumes.
    fn next_change(&self) -> f64 {
        if self.station.present() == 0 {
            return f64::INFINITY;
        }
        self.pace.next_change(self.now, self.work(self.now))
    }

    fn work(&self, now: f64) -> f64 {
        self.station.busy_time(self.pace.own(now))
    }

    fn send(&mut self, due: f64, chain: u32) {
        let sent = self.client.sent_at(due);
        if sent > due {
            self.due.push(Reverse(Due { time: sent, chain, sent: true }));
        } else {
            self.enter(due, chain);
        }
    }

    fn enter(&mut self, now: f64, chain: u32) {
        self.now = now;
        let found_empty = self.station.present() == 0;
        if found_empty {
            self.pace.wake(now, self.work(now));
        }
        let live = &self.live[chain as usize];
        let demand = live.chain.as_ref()[live.next].demand + if found_empty { self.wakeup } else { 0.0 };
        let seconds = self.speeds.seconds_for(now, demand);
        self.station.arrive(self.pace.own(now), seconds, chain);
    }

    fn complete(&mut self, now: f64) {
        let Some(chain) = self.station.complete() else { return };
        self.now = now;
        let live = &mut self.live[chain as usize];
        let demand = live.chain.as_ref()[live.next].demand;
        let taken = self.client.taken_at(now, demand);
        self.answered.push(Answered { at: taken, response_time: taken - live.since, demand });
        live.next += 1;
        if let Some(job) = live.chain.as_ref().get(live.next) {
            live.since = job.due.max(taken + self.latency);
            self.due.push(Reverse(Due { time: live.since, chain, sent: false }));
        }
    }
}

#[derive(PartialEq)]
struct Due {
    time: f64,
    chain: u32,
    /// The client has sent it.
    sent: bool,
}

impl Eq for Due {}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.time.total_cmp(&other.time).then(self.chain.cmp(&other.chain))
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Checks a chain and returns the due time of its first job.
fn checked(chain: &[ChainedJob], index: usize) -> Result<f64, SimulationError> {
    let refuse = |what, value| Err(SimulationError::TraceValue { what, index, value });
    if let Some(job) = chain.iter().find(|job| !job.due.is_finite()) {
        return refuse("due times", job.due);
    }
    if let Some(job) = chain.iter().find(|job| !(job.demand.is_finite() && job.demand >= 0.0)) {
        return refuse("demands", job.demand);
    }
    match chain.first() {
        Some(first) => Ok(first.due),
        None => refuse("jobs of a session", 0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(due: f64, demand: f64) -> ChainedJob {
        ChainedJob { due, demand }
    }

    fn check(chains: &[Vec<ChainedJob>], service: Service, latency: f64, expected: &[(f64, f64)]) {
        check_with(chains, service, latency, None, expected);
    }

    fn check_with(
        chains: &[Vec<ChainedJob>],
        service: Service,
        latency: f64,
        quota: Option<Quota>,
        expected: &[(f64, f64)],
    ) {
        let surroundings = Surroundings { latency, quota, ..Surroundings::default() };
        let answered = simulate_sessions(chains, service, surroundings).unwrap();
        let found: Vec<_> = answered.iter().map(|job| (job.at, job.response_time)).collect();
        assert_eq!(found, expected);
    }

    fn limited(quota: Option<Quota>) -> Surroundings {
        Surroundings { quota, ..Surroundings::default() }
    }

    fn waking(wakeup: f64) -> Surroundings {
        Surroundings { wakeup, ..Surroundings::default() }
    }

    fn taking(client: f64) -> Surroundings {
        Surroundings { client, ..Surroundings::default() }
    }

    fn spans<const N: usize>(spans: [(f64, f64); N]) -> Vec<Interruption> {
        spans.map(|(begin, end)| Interruption { begin, end }).to_vec()
    }

    #[test]
    fn a_burst_enters_one_after_the_other() {
        let burst = vec![job(1.0, 2.0), job(1.0, 2.0), job(10.0, 1.0)];
        check(&[burst], Service::ps(1), 0.5, &[(3.0, 2.0), (5.5, 2.0), (11.0, 1.0)]);
    }

    #[test]
    fn sessions_share_the_station() {
        let chains = [vec![job(0.0, 2.0)], vec![job(1.0, 0.5), job(1.0, 1.0)]];
        // From 1 on both share: 0.5 is done at 2, with 0.5 of the first left; then 1.0 and 0.5 share.
        check(&chains, Service::ps(1), 0.0, &[(2.0, 1.0), (3.0, 3.0), (3.5, 1.5)]);
        check(&chains, Service::fifo(1), 0.0, &[(2.0, 2.0), (2.5, 1.5), (3.5, 1.0)]);
    }

    #[test]
    fn a_quota_that_is_used_up_stops_the_station_until_the_period_ends() {
        let half = Some(Quota { seconds: 2.0, period_seconds: 4.0 });
        // It works from 0 to 2, and from 4 to 6 again: on the first job until 5, then on the second.
        let chains = [vec![job(0.0, 3.0)], vec![job(4.5, 1.0)]];
        check_with(&chains, Service::fifo(1), 0.0, half, &[(5.0, 5.0), (6.0, 1.5)]);
        // A job served in the period in which it arrives feels nothing of the limit.
        check_with(&[vec![job(1.0, 1.5)]], Service::ps(1), 0.0, half, &[(2.5, 1.5)]);
        // A job that arrives while the station stands still waits for the next period.
        let chains = [vec![job(0.0, 2.0)], vec![job(3.0, 1.0)]];
        check_with(&chains, Service::ps(1), 0.0, half, &[(2.0, 2.0), (5.0, 2.0)]);
        // An idle station's unused quota is lost.
        check_with(&[vec![job(9.0, 4.0)]], Service::ps(1), 0.0, half, &[(14.0, 5.0)]);
    }

    #[test]
    fn an_overloaded_station_with_a_quota_serves_its_share() {
        let chains = (0..1000).map(|k| [job(f64::from(k) * 0.01, 0.1)]);
        let quota = Some(Quota { seconds: 0.0125, period_seconds: 0.05 });
        let answered = simulate_sessions(chains, Service::ps(1), limited(quota)).unwrap();
        let last = answered.iter().map(|job| job.at).fold(0.0, f64::max);
        assert!((last - 400.0).abs() < 0.1, "{last}");
    }

    #[test]
    fn a_job_that_finds_the_station_empty_needs_more_of_it() {
        // The second job arrives while the first is served, the third at an empty station.
        let chains = [vec![job(0.0, 1.0)], vec![job(1.0, 1.0)], vec![job(9.0, 1.0)]];
        let answered = simulate_sessions(chains, Service::fifo(1), waking(0.5)).unwrap();
        let times: Vec<_> = answered.iter().map(|job| job.response_time).collect();
        assert_eq!(times, [1.5, 1.5, 1.5]);
    }

    #[test]
    fn the_client_takes_one_answer_after_the_other() {
        // It needs twice the demand of each and begins with the first at 0, when the station does: it has that at 2, the
        // second at 4; its session goes on then, and the third, served from 4 to 4.5, is there at 5.
        let chains = [vec![job(0.0, 1.0)], vec![job(0.5, 1.0), job(1.0, 0.5)]];
        let answered = simulate_sessions(chains.clone(), Service::fifo(1), taking(2.0)).unwrap();
        let found: Vec<_> = answered.iter().map(|job| (job.at, job.response_time)).collect();
        assert_eq!(found, [(2.0, 2.0), (4.0, 3.5), (5.0, 1.0)]);
        // A faster one has each answer when the station has sent it.
        let answered = simulate_sessions(chains, Service::fifo(1), taking(0.5)).unwrap();
        assert_eq!(answered[1].at, 2.0);
    }

    #[test]
    fn an_interrupted_station_stands_still() {
        // The first is served from 0 to 1 and from 3 to 5; the second comes in an interruption of the idle station.
        let chains = [vec![job(0.0, 3.0)], vec![job(8.0, 1.0)], vec![job(20.0, 1.0)]];
        let station_interruptions = spans([(1.0, 2.0), (1.5, 3.0), (6.0, 6.5), (7.0, 9.0), (21.0, 22.0)]);
        let surroundings = Surroundings { station_interruptions, ..Surroundings::default() };
        let answered = simulate_sessions(chains, Service::fifo(1), surroundings).unwrap();
        let found: Vec<_> = answered.iter().map(|job| (job.at, job.response_time)).collect();
        assert_eq!(found, [(5.0, 5.0), (10.0, 2.0), (21.0, 1.0)]);
    }

    #[test]
    fn a_slower_processor_takes_longer_for_what_begins_afterwards() {
        let changes =
            |changes: [(f64, f64); 2]| changes.map(|(begin, speed)| SpeedChange { begin, speed }).to_vec();
        let chains = [vec![job(0.5, 1.0)], vec![job(1.0, 1.0)], vec![job(8.0, 1.0)]];
        let times = |surroundings| {
            let answered = simulate_sessions(chains.clone(), Service::fifo(1), surroundings).unwrap();
            answered.iter().map(|job| (job.at, job.response_time, job.demand)).collect::<Vec<_>>()
        };
        let station_speeds = changes([(1.0, 0.5), (6.0, 2.0)]);
        let slower = Surroundings { station_speeds, ..Surroundings::default() };
        assert_eq!(times(slower), [(1.5, 1.0, 1.0), (3.5, 2.5, 1.0), (8.5, 0.5, 1.0)]);
        // The client begins to take each while the station sends it.
        let client_speeds = changes([(1.0, 0.25), (6.0, 1.0)]);
        let late = Surroundings { client: 1.0, client_speeds, ..Surroundings::default() };
        assert_eq!(times(late), [(4.5, 4.0, 1.0), (8.5, 7.5, 1.0), (9.5, 1.5, 1.0)]);
    }

    #[test]
    fn the_client_takes_and_sends_one_after_the_other() {
        let chains = [vec![job(0.0, 1.0)], vec![job(0.25, 1.0)], vec![job(2.0, 1.0)]];
        let surroundings = Surroundings { client: 0.5, sending: 0.5, ..Surroundings::default() };
        let answered = simulate_sessions(chains, Service::fifo(1), surroundings).unwrap();
        let found: Vec<_> = answered.iter().map(|job| (job.at, job.response_time)).collect();
        // Sent at 0.5 and 1. The first is served until 1.5, during which the second was sent: taken at 1.5. The second is
        // taken while it is served, until 2.5. The third is due meanwhile, sent at 2.5, and served until 3.5.
        assert_eq!(found, [(1.5, 1.5), (2.5, 2.25), (3.5, 1.5)]);
        // What is due while an answer is taken is sent afterwards.
        let surroundings = Surroundings { client: 2.0, sending: 0.5, ..Surroundings::default() };
        let chains = [vec![job(0.0, 1.0)], vec![job(2.0, 1.0)]];
        let answered = simulate_sessions(chains, Service::fifo(1), surroundings).unwrap();
        let found: Vec<_> = answered.iter().map(|job| (job.at, job.response_time)).collect();
        assert_eq!(found, [(2.5, 2.5), (5.0, 3.0)]);
    }

    #[test]
    fn interruptions_use_up_no_quota() {
        // It works from 0 to 1 and from 2 to 3, has used its quota of 2, and goes on at 4.
        let surroundings = Surroundings {
            quota: Some(Quota { seconds: 2.0, period_seconds: 4.0 }),
            station_interruptions: spans([(1.0, 2.0)]),
            ..Surroundings::default()
        };
        let answered = simulate_sessions([vec![job(0.0, 3.0)]], Service::fifo(1), surroundings).unwrap();
        assert_eq!(answered[0].at, 5.0);
    }

    #[test]
    fn an_interrupted_client_neither_sends_nor_takes() {
        // The second is due at 1 and sent at 3, with the third. Their answers come at 4 and 5, when the client is
        // interrupted again: it has the one at 6, and the other half a second later.
        let chains = [vec![job(0.0, 0.5)], vec![job(1.0, 1.0)], vec![job(2.0, 1.0)]];
        let client_interruptions = spans([(0.75, 3.0), (3.5, 6.0)]);
        let surroundings = Surroundings { client: 0.5, client_interruptions, ..Surroundings::default() };
        let answered = simulate_sessions(chains, Service::fifo(1), surroundings).unwrap();
        let found: Vec<_> = answered.iter().map(|job| (job.at, job.response_time)).collect();
        assert_eq!(found, [(0.5, 0.5), (6.0, 5.0), (6.5, 4.5)]);
    }

    #[test]
    fn interruptions_agree_with_work_of_a_higher_class() {
        // M/G/1 with preemptive-resume priorities: interruptions come nu times a second for H seconds, so that the mean
        // is E[S] / (1 - nu H) + (rate E[S^2] + nu H^2) / (2 (1 - nu H) (1 - nu H - rho)).
        let mut state = 11_u64;
        let mut exponential = |mean: f64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            -(((state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64).ln() * mean
        };
        let (rate, nu, length) = (0.5, 0.02, 8.0);
        let mut now = 0.0;
        let chains: Vec<_> = (0..400_000)
            .map(|_| {
                now += exponential(1.0 / rate);
                [job(now, 1.0)]
            })
            .collect();
        let (mut at, mut free, mut station_interruptions) = (0.0, 0.0_f64, vec![]);
        while at < now {
            at += exponential(1.0 / nu);
            let begin = free.max(at);
            free = begin + length;
            station_interruptions.push(Interruption { begin, end: free });
        }
        let surroundings = Surroundings { station_interruptions, ..Surroundings::default() };
        let answered = simulate_sessions(chains, Service::fifo(1), surroundings).unwrap();
        let mean = answered.iter().map(|job| job.response_time).sum::<f64>() / answered.len() as f64;
        let left = 1.0 - nu * length;
        let expected = 1.0 / left + (rate + nu * length * length) / (2.0 * left * (left - rate));
        assert!((mean / expected - 1.0).abs() < 0.04, "{mean} is not {expected}");
    }

    #[test]
    fn wake_ups_agree_with_exceptional_first_service() {
        // Poisson arrivals, demand 1, wake-up 1, rate 0.5: E[R] = E[B] + W, by Welch's formula for the waiting time
        // W = rate E[B^2] / (2 (1 - rho)) + rate (E[B0^2] - E[B^2]) / (2 (1 - rho + rate E[B0])); and the response time
        // of those that find it empty, with probability (1 - rho) / (1 - rho + rate E[B0]), is longer by the wake-up.
        let mut state = 7_u64;
        let mut now = 0.0;
        let chains: Vec<_> = (0..400_000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                now -= (((state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64).ln() / 0.5;
                [job(now, 1.0)]
            })
            .collect();
        let answered = simulate_sessions(chains, Service::fifo(1), waking(1.0)).unwrap();
        let mean = answered.iter().map(|job| job.response_time).sum::<f64>() / answered.len() as f64;
        let (rate, rho, first) = (0.5, 0.5, 2.0);
        let empty = (1.0 - rho) / (1.0 - rho + rate * first);
        let waiting =
            rate / (2.0 * (1.0 - rho)) + rate * (first * first - 1.0) / (2.0 * (1.0 - rho + rate * first));
        let expected = 1.0 + waiting + empty * (first - 1.0);
        assert!((mean / expected - 1.0).abs() < 0.02, "{mean} is not {expected}");
    }

    #[test]
    fn single_jobs_agree_with_the_trace_driven_station() {
        let times: Vec<f64> = (0..500).map(|k| f64::from(k) * 0.7).collect();
        let demands: Vec<f64> = (0..500).map(|k| f64::from(k * 37 % 11) * 0.1).collect();
        let chains = times.iter().zip(&demands).map(|(&due, &demand)| [job(due, demand)]);
        let mut found: Vec<f64> = simulate_sessions(chains, Service::lps(3, 1), Surroundings::default())
            .unwrap()
            .iter()
            .map(|job| job.response_time)
            .collect();
        let mut expected = super::super::simulate_station(&times, &demands, Service::lps(3, 1)).unwrap();
        found.sort_by(f64::total_cmp);
        expected.sort_by(f64::total_cmp);
        for (one, other) in found.iter().zip(&expected) {
            assert!((one - other).abs() < 1e-9, "{one} is not {other}");
        }
    }

    #[test]
    fn bad_chains_are_refused() {
        let refused = |chains: &[Vec<ChainedJob>]| {
            simulate_sessions(chains, Service::ps(1), Surroundings::default()).is_err()
        };
        assert!(refused(&[vec![]]));
        assert!(refused(&[vec![job(0.0, -1.0)]]));
        assert!(refused(&[vec![job(f64::NAN, 1.0)]]));
        assert!(refused(&[vec![job(1.0, 1.0)], vec![job(0.0, 1.0)]]));
        let none = Some(Quota { seconds: 0.0, period_seconds: 1.0 });
        let backwards = vec![Interruption { begin: 2.0, end: 3.0 }, Interruption { begin: 1.0, end: 4.0 }];
        let still = vec![SpeedChange { begin: 0.0, speed: 0.0 }];
        for surroundings in [
            limited(none),
            waking(-1.0),
            taking(f64::NAN),
            Surroundings { station_interruptions: backwards.clone(), ..Surroundings::default() },
            Surroundings { client_interruptions: backwards, ..Surroundings::default() },
            Surroundings { station_speeds: still, ..Surroundings::default() },
        ] {
            assert!(simulate_sessions([vec![job(0.0, 1.0)]], Service::ps(1), surroundings).is_err());
        }
    }
}
