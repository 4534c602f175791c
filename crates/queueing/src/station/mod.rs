//! One station for every discipline: FIFO queue in front, at most r jobs in service, its speed shared equally.
//!
//! Each of n jobs in service runs at v(n)/n ([`Speed`]). With c servers, v(n) = min(n, c): r = 1 is FIFO, r = ∞ PS, r =
//! c the c-server queue, and c = ∞ an infinite server. The simulator uses virtual time: the work V that each job in
//! service has received grows at v(n)/n, a job admitted at V with demand s finishes when V reaches V + s, and a heap on
//! those finish tags makes every event O(log n) however many jobs share the server.
//!
//! What an arrival or a completion takes is always inlined: with calls, networks took 6 % more time.

mod heap;

use std::collections::VecDeque;

use crate::speed::Speed;
use heap::{TagHeap, Tagged};

/// How a station serves: the limit on jobs in service, and its speed.
#[derive(Debug, Clone, PartialEq)]
pub struct Service {
    /// r: the most jobs in service at once; `usize::MAX` for no limit.
    pub limit: usize,
    /// v(n): the total speed with n jobs in service.
    pub speed: Speed,
}

impl Service {
    /// First in, first out, `servers` at a time.
    pub fn fifo(servers: u32) -> Self {
        Self { limit: servers as usize, speed: Speed::Servers(f64::from(servers)) }
    }

    /// Processor sharing of `servers` processors without a limit.
    pub fn ps(servers: u32) -> Self {
        Self { limit: usize::MAX, speed: Speed::Servers(f64::from(servers)) }
    }

    /// Processor sharing by at most `limit` jobs, the others waiting in order of arrival.
    pub fn lps(limit: usize, servers: u32) -> Self {
        Self { limit, speed: Speed::Servers(f64::from(servers)) }
    }

    /// A delay: jobs neither wait nor share.
    pub fn infinite() -> Self {
        Self { limit: usize::MAX, speed: Speed::Servers(f64::INFINITY) }
    }

    /// The same limit with another speed.
    #[must_use]
    pub fn at_speed(self, speed: Speed) -> Self {
        Self { speed, ..self }
    }

    /// The work per second of a full station; the arrival rate of work must stay below it.
    pub fn saturation(&self) -> f64 {
        self.speed.saturation(self.limit)
    }

    /// The most work per second that the station ever does. Utilisation is a fraction of it.
    pub fn peak(&self) -> f64 {
        self.speed.peak(self.limit)
    }
}

/// What a served job keeps at its station.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    Nothing,
    /// Keeps its place while it is elsewhere, until [`Station::release`].
    Place,
    /// Stays itself, because the next station is full, until [`Station::unblock`].
    Itself,
}

/// v(n)/n comes from a table for up to this many jobs in service, which saves two divisions per event.
const SHARES_IN_TABLE: usize = 256;

/// A station that carries jobs described by `T`.
pub struct Station<T> {
    service: Service,
    /// v(n)/n and n/v(n) for small n.
    shares: Box<[(f64, f64)]>,
    /// Jobs in service, by finish tag.
    in_service: TagHeap<T>,
    /// Jobs waiting with priority, with their demands.
    ahead: VecDeque<(f64, T)>,
    /// The other jobs waiting, with their demands.
    waiting: VecDeque<(f64, T)>,
    /// Places held by served jobs that are now elsewhere. They count towards r but not towards the load.
    held: usize,
    /// Jobs waiting, in service, or blocked after it.
    present: usize,
    virtual_time: f64,
    /// v(n)/n for the n jobs in service now; 0 when there is none.
    share: f64,
    /// When `virtual_time` was last brought up to date.
    updated_at: f64,
    next_completion: f64,
    busy_time: f64,
    present_time: f64,
}

impl<T: Copy> Station<T> {
    /// An empty station at time 0.
    pub fn new(service: Service) -> Self {
        let share = |jobs: usize| (service.speed.share(jobs), 1.0 / service.speed.share(jobs));
        let shares =
            (0..SHARES_IN_TABLE).map(|jobs| if jobs == 0 { (0.0, 0.0) } else { share(jobs) }).collect();
        Self {
            service,
            shares,
            in_service: TagHeap::new(),
            ahead: VecDeque::new(),
            waiting: VecDeque::new(),
            held: 0,
            present: 0,
            virtual_time: 0.0,
            share: 0.0,
            updated_at: 0.0,
            next_completion: f64::INFINITY,
            busy_time: 0.0,
            present_time: 0.0,
        }
    }

    /// When the next job finishes if nothing arrives before; infinite when empty.
    #[inline]
    pub fn next_completion(&self) -> f64 {
        self.next_completion
    }

    /// The job that finishes at [`Station::next_completion`].
    #[inline]
    pub fn next_job(&self) -> Option<T> {
        self.in_service.first().map(|tagged| tagged.job)
    }

    /// Jobs present: waiting, in service, or blocked after it.
    #[inline]
    pub fn present(&self) -> usize {
        self.present
    }

    /// Jobs that count towards the station's capacity: those present, and those elsewhere that hold a place here.
    #[inline]
    pub fn occupied(&self) -> usize {
        self.in_service.len() + self.queued() + self.held
    }

    /// The waiting jobs and those in service, in no particular order.
    pub fn jobs(&self) -> impl Iterator<Item = T> {
        let waiting = self.ahead.iter().chain(&self.waiting).map(|waiting| waiting.1);
        self.in_service.iter().map(|tagged| tagged.job).chain(waiting)
    }

    /// ∫ v(n) dt until `now`, the work done in seconds: with c servers, server-seconds busy.
    pub fn busy_time(&self, now: f64) -> f64 {
        self.busy_time + (now - self.updated_at) * self.share * float(self.in_service.len())
    }

    /// ∫ jobs present dt until `now`, in job-seconds.
    pub fn present_time(&self, now: f64) -> f64 {
        self.present_time + (now - self.updated_at) * float(self.present)
    }

    /// Admits or queues a job that arrives at `now`. `demand` is seconds on an idle server.
    #[inline]
    pub fn arrive(&mut self, now: f64, demand: f64, job: T) {
        self.arrive_by_priority(now, demand, job, false);
    }

    /// As [`Station::arrive`], but a job with priority waits only for those in service and those with priority.
    #[inline(always)]
    pub fn arrive_by_priority(&mut self, now: f64, demand: f64, job: T, has_priority: bool) {
        self.advance(now);
        self.present += 1;
        if self.in_service.len() + self.held < self.service.limit {
            self.admit(demand, job);
        } else if has_priority {
            self.ahead.push_back((demand, job));
        } else {
            self.waiting.push_back((demand, job));
        }
        self.schedule();
    }

    /// Removes the job that finishes at [`Station::next_completion`] and admits the next one from the queue.
    #[inline]
    pub fn complete(&mut self) -> Option<T> {
        self.complete_and_keep(Kept::Nothing)
    }

    /// As [`Station::complete`], but a job may keep its place.
    #[inline(always)]
    pub fn complete_and_keep(&mut self, kept: Kept) -> Option<T> {
        let now = self.next_completion;
        let finished = *self.in_service.first()?;
        self.advance(now);
        // Set from the tag rather than added up, so that no rounding accumulates.
        self.virtual_time = finished.tag;
        self.present -= usize::from(kept != Kept::Itself);
        if kept != Kept::Nothing {
            self.held += 1;
            self.in_service.remove_first();
        } else if let Some((demand, job)) = self.next_waiting() {
            self.in_service.replace_first(Tagged { tag: self.virtual_time + demand, job });
        } else {
            self.in_service.remove_first();
        }
        if self.in_service.len() == 0 {
            // An idle station restarts its clock, so that tags never lose precision in a long run.
            self.virtual_time = 0.0;
        }
        self.schedule();
        Some(finished.job)
    }

    /// Lets a blocked job leave; the next job in the queue takes its place.
    pub fn unblock(&mut self, now: f64) {
        self.advance(now);
        self.present = self.present.saturating_sub(1);
        self.release(now);
    }

    /// Frees a place held since [`Station::complete_and_keep`]; the next job in the queue takes it.
    pub fn release(&mut self, now: f64) {
        self.advance(now);
        self.held = self.held.saturating_sub(1);
        if let Some((demand, job)) = self.next_waiting() {
            self.admit(demand, job);
        }
        self.schedule();
    }

    #[inline]
    fn queued(&self) -> usize {
        self.ahead.len() + self.waiting.len()
    }

    #[inline(always)]
    fn next_waiting(&mut self) -> Option<(f64, T)> {
        self.ahead.pop_front().or_else(|| self.waiting.pop_front())
    }

    #[inline(always)]
    fn advance(&mut self, now: f64) {
        let elapsed = now - self.updated_at;
        self.updated_at = now;
        let received = elapsed * self.share;
        self.virtual_time += received;
        self.busy_time += received * float(self.in_service.len());
        // Jobs may wait with none in service when all places are held.
        self.present_time += elapsed * float(self.present);
    }

    #[inline(always)]
    fn admit(&mut self, demand: f64, job: T) {
        self.in_service.push(Tagged { tag: self.virtual_time + demand, job });
    }

    #[inline(always)]
    fn schedule(&mut self) {
        (self.share, self.next_completion) = match self.in_service.first() {
            Some(first) => {
                let jobs = self.in_service.len();
                let (share, pace) = self.shares.get(jobs).copied().unwrap_or_else(|| {
                    let share = self.service.speed.share(jobs);
                    (share, 1.0 / share)
                });
                let left = (first.tag - self.virtual_time) * pace;
                // A tag that rounding has just passed completes now, not in the past. Not f64::max, whose care for NaN is
                // three instructions more in every event.
                (share, self.updated_at + if left > 0.0 { left } else { 0.0 })
            }
            None => (0.0, f64::INFINITY),
        };
    }
}

/// Converting a signed number takes one instruction, an unsigned one fifteen.
#[inline]
fn float(jobs: usize) -> f64 {
    jobs as i64 as f64
}
