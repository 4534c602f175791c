//! Replications in other processes: groups that advance there, and the simulation that reads their states.
//!
//! A group runs from its start through the same looks as in one process, so the result is the same, bit for bit, wherever
//! and how often its groups run.

use super::report::Report;
use super::run::{Run, State};
use super::shape::Shape;
use super::{JobsMin, Plan, Progress, SimulationError, SystemResult, refuse_unstable, run_until_stop};
use crate::simulator::replications::{Advance, Advanced, Group, Observed, Replications, groups_of};
use crate::system::System;

/// The states of all groups in order, as [`ReplicationGroup::advance`] returns each.
pub type States = Vec<Vec<u8>>;

/// The number of groups of so many replications.
pub fn group_count(replications: u32) -> usize {
    groups_of(replications)
}

/// Some of the replications of a plan, which share their records.
pub struct ReplicationGroup<'a> {
    group: Group<Run<'a>>,
    looks: usize,
}

impl ReplicationGroup<'_> {
    /// Starts group `index` of a plan, and calls `serve` with it.
    ///
    /// # Errors
    /// [`SimulationError`] when a station is unstable or the plan is impossible.
    pub fn serve<T>(
        system: &System,
        plan: &Plan,
        index: usize,
        serve: impl FnOnce(&mut ReplicationGroup<'_>) -> T,
    ) -> Result<T, SimulationError> {
        plan.validate()?;
        refuse_unstable(system)?;
        if index >= groups_of(plan.replications) {
            return Err(SimulationError::State(index));
        }
        let shape = Shape::of(system);
        let group = Group::new(plan, index, shape.recorders, |seed| Run::new(system, &shape, seed, &[]));
        Ok(serve(&mut ReplicationGroup { group, looks: 0 }))
    }

    /// Advances through the looks, each a number of jobs, that it has not seen; returns its state, or `None` if
    /// `should_continue` returned false.
    pub fn advance(&mut self, looks: &[u64], should_continue: &mut dyn FnMut() -> bool) -> Option<Vec<u8>> {
        for &jobs in looks.get(self.looks..).unwrap_or_default() {
            if !self.group.advance(jobs, &mut |_| should_continue()) {
                return None;
            }
            self.looks += 1;
        }
        Some(self.group.observed(State::of))
    }
}

/// As [`super::simulate_system`], with the replications elsewhere. `advance` is given the looks so far, each a number of
/// jobs, and returns the states of all groups, or `None` to end the run.
///
/// # Errors
/// [`SimulationError`] when a station is unstable, the plan is impossible, or a state is not one of this simulation.
pub fn simulate_in_groups(
    system: &System,
    plan: &Plan,
    advance: &mut dyn FnMut(&[u64]) -> Option<States>,
    should_continue: &mut dyn FnMut(&Progress) -> bool,
) -> Result<SystemResult, SimulationError> {
    plan.validate()?;
    refuse_unstable(system)?;
    let (shape, jobs_min) = (Shape::of(system), JobsMin::of(system));
    let report = Report { system, plan, shape: &shape, cut: true, jobs_min };
    let totals = system.stations.len() + 1 + system.classes.len();
    let mut groups = GroupsElsewhere {
        advance,
        groups: groups_of(plan.replications),
        recorders: shape.recorders,
        totals,
        looks: Vec::new(),
        replications: Replications::of(Vec::new()),
        invalid: None,
    };
    let estimates = |groups: &GroupsElsewhere<'_>| report.estimates(&groups.replications).1;
    let stop = run_until_stop(&mut groups, plan, jobs_min.all(), false, &estimates, should_continue);
    match groups.invalid {
        Some(group) => Err(SimulationError::State(group)),
        None => Ok(report.result(&groups.replications, stop)),
    }
}

struct GroupsElsewhere<'e> {
    advance: &'e mut dyn FnMut(&[u64]) -> Option<States>,
    groups: usize,
    /// The number of recorders of a group, and of totals of a replication.
    recorders: usize,
    totals: usize,
    looks: Vec<u64>,
    /// The groups at the last look.
    replications: Replications<State>,
    /// The group whose state cannot be read.
    invalid: Option<usize>,
}

impl GroupsElsewhere<'_> {
    fn read(&self, bytes: &[u8]) -> Option<Group<State>> {
        let group = Group::<State>::read(bytes)?;
        let fits = |state: &State| state.counts.len() == self.recorders && state.totals.len() == self.totals;
        group.is_of(self.recorders, self.totals, fits).then_some(group)
    }
}

impl Advance for GroupsElsewhere<'_> {
    fn advance(&mut self, jobs: u64, report: &mut dyn FnMut(u64) -> bool) -> Advanced {
        self.looks.push(jobs);
        let Some(states) = (self.advance)(&self.looks) else { return Advanced::Interrupted };
        let mut groups = Vec::with_capacity(states.len());
        for (index, bytes) in states.iter().enumerate() {
            match self.read(bytes) {
                Some(group) => groups.push(group),
                None => self.invalid = self.invalid.or(Some(index)),
            }
        }
        if groups.len() != self.groups {
            self.invalid = self.invalid.or(Some(states.len()));
            return Advanced::Interrupted;
        }
        self.replications = Replications::of(groups);
        let finished = self.replications.runs().map(Observed::finished).sum();
        if report(finished) { self.replications.advanced() } else { Advanced::Interrupted }
    }
}
