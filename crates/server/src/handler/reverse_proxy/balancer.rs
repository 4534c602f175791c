//! Load balancing: chooses the upstream for the next request by weight, among those that are up.
//!
//! Smooth weighted round-robin: each choice adds every upstream's weight to its credit; the one with the most credit is
//! chosen and pays the sum of the weights. So 5:1:1 gives a a b a c a a, not five in a row.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::{Upstream, UpstreamState};
use crate::limits::UpstreamLimits;

/// A loop's view of its upstreams.
#[derive(Debug)]
pub struct Balancer(Vec<State>);

#[derive(Debug)]
struct State {
    presence: Arc<UpstreamState>,
    weight: i64,
    credit: i64,
    failures: u32,
    /// Marked as down until then.
    down_until: Duration,
    /// The index of the address in use.
    address: usize,
}

impl Balancer {
    pub fn new(upstreams: &[Upstream]) -> Balancer {
        let state = |upstream: &Upstream| State {
            presence: Arc::clone(&upstream.presence),
            weight: i64::from(upstream.weight.max(1)),
            credit: 0,
            failures: 0,
            down_until: Duration::ZERO,
            address: 0,
        };
        Balancer(upstreams.iter().map(state).collect())
    }

    /// The next upstream at `now` among those that are asked and have room; one that is down only if all that are asked
    /// are. While those that are up have no room, there is none.
    pub fn choose(
        &mut self,
        now: Duration,
        asked: Range<usize>,
        has_room: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let is_any_up = self.is_any_up(now, asked.clone());
        let (mut total, mut chosen) = (0, None);
        for index in asked {
            if !has_room(index) || is_any_up && !self.0[index].is_up(now) {
                continue;
            }
            self.0[index].credit += self.0[index].weight;
            total += self.0[index].weight;
            if chosen.is_none_or(|chosen: usize| self.0[index].credit > self.0[chosen].credit) {
                chosen = Some(index);
            }
        }
        self.0[chosen?].credit -= total;
        chosen
    }

    /// Those of the asked upstreams that requests may go to at `now`, whether they have room or not.
    pub fn in_use(&self, now: Duration, asked: Range<usize>) -> impl Iterator<Item = usize> {
        let is_any_up = self.is_any_up(now, asked.clone());
        asked.filter(move |index| !is_any_up || self.0[*index].is_up(now))
    }

    fn is_any_up(&self, now: Duration, mut asked: Range<usize>) -> bool {
        asked.any(|index| self.0[index].is_up(now))
    }

    /// The index of the address of `upstream` to use, out of `count`.
    pub fn address(&self, upstream: usize, count: usize) -> usize {
        self.0[upstream].address % count.max(1)
    }

    pub fn record_success(&mut self, upstream: usize) {
        self.0[upstream].failures = 0;
        self.0[upstream].down_until = Duration::ZERO;
    }

    pub fn record_failure(&mut self, upstream: usize, now: Duration, limits: &UpstreamLimits) {
        let state = &mut self.0[upstream];
        state.failures = state.failures.saturating_add(1);
        state.address = state.address.wrapping_add(1);
        if state.failures >= limits.failures_max {
            state.down_until = now.saturating_add(limits.down);
        }
    }

    /// The number of upstreams that are down at `now`.
    pub fn down(&self, now: Duration) -> u64 {
        self.0.iter().filter(|state| !state.is_up(now)).count() as u64
    }
}

impl State {
    /// True if neither this loop nor the health checks have marked it down.
    fn is_up(&self, now: Duration) -> bool {
        self.down_until <= now && !self.presence.is_failing()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::reverse_proxy::Protocol;

    fn health(weights: &[u32]) -> Balancer {
        let upstream = |weight: &u32| Upstream {
            name: String::new(),
            authority: String::new(),
            protocol: Protocol::Http,
            host: String::new(),
            port: 80,
            presence: Arc::new(UpstreamState::new(&[])),
            occupancy: Arc::default(),
            tls: None,
            weight: *weight,
            idle_max: None,
            processes: None,
        };
        Balancer::new(&weights.iter().map(upstream).collect::<Vec<_>>())
    }

    #[test]
    fn turns_are_dealt_by_weight_and_smoothly() {
        let mut health = health(&[5, 1, 1]);
        let turns: Vec<_> = (0..14).filter_map(|_| health.choose(Duration::ZERO, 0..3, |_| true)).collect();
        assert_eq!(turns[..7], turns[7..]);
        assert_eq!([0, 1, 2].map(|index| turns.iter().filter(|turn| **turn == index).count()), [10, 2, 2]);
        assert!(turns.windows(5).all(|five| five != [0; 5]), "{turns:?}");
    }

    #[test]
    fn who_fails_is_out_of_use_for_a_while() {
        let (mut health, limits) = (health(&[1, 1]), UpstreamLimits::default());
        let now = Duration::from_secs(100);
        for _ in 0..limits.failures_max {
            health.record_failure(0, now, &limits);
        }
        assert_eq!(health.down(now), 1);
        assert!((0..10).all(|_| health.choose(now, 0..2, |_| true) == Some(1)));
        assert_eq!(health.in_use(now, 0..2).collect::<Vec<_>>(), [1]);
        assert_eq!(health.choose(now, 0..1, |_| true), Some(0), "if nobody else is asked, it is tried");
        assert_eq!(health.in_use(now, 0..1).collect::<Vec<_>>(), [0]);
        assert_eq!(health.choose(now, 0..2, |index| index == 0), None, "who is up will have room again");
        assert_eq!(health.choose(now, 0..2, |_| false), None);
        let later = now + limits.down;
        assert!((0..10).any(|_| health.choose(later, 0..2, |_| true) == Some(0)));
        health.record_failure(0, later, &limits);
        assert_eq!(health.down(later), 1, "the trial has failed");
        health.record_success(0);
        assert_eq!(health.down(later), 0);
        health.0[0].presence.set_failing(true);
        assert_eq!(health.down(later), 1, "whatever it answers here, it fails checks");
        assert!((0..10).all(|_| health.choose(later, 0..2, |_| true) == Some(1)));
    }
}
