//! The time at a processor-sharing station of jobs whose demand does not depend on a document: its survival function,
//! tabulated once for all classes that bring the same demand.

use super::station::{Given, StationTime};
use super::transform::nodes;
use crate::distribution::{Distribution, RandomVariable};
use crate::solver::flow::Flow;
use crate::system::{Class, Demand, Visit};

/// The number of points of a table, equally spaced in the logarithm of the time.
const POINTS: usize = 512;
/// A table ends where this share of jobs is left, and begins at this fraction of the smallest demand or mean.
const TAIL: f64 = 1e-8;
const BEGINNING: f64 = 1e-3;

/// The tables of all visits to processor-sharing stations.
pub(super) struct Tables<'s>(Vec<(usize, &'s Distribution, Table)>);

impl<'s> Tables<'s> {
    pub(super) fn of(flow: &Flow<'s>, times: &[StationTime]) -> Self {
        let mut tables = Self(Vec::new());
        for (probability, visit) in flow.system.classes.iter().flat_map(Class::visits) {
            let (Demand::Independent(demand), time) = (&visit.demand, &times[visit.station]) else {
                continue;
            };
            if probability > 0.0 && time.shares() && tables.find(visit).is_none() {
                tables.0.push((visit.station, demand, Table::of(time, demand)));
            }
        }
        tables
    }

    /// The table of a visit, and its place among all.
    pub(super) fn find(&self, visit: &Visit) -> Option<(usize, &Table)> {
        let Demand::Independent(demand) = &visit.demand else { return None };
        let same = |(_, (station, other, _)): &(usize, &(usize, &Distribution, Table))| {
            *station == visit.station && *other == demand
        };
        self.0.iter().enumerate().find(same).map(|(place, (.., table))| (place, table))
    }
}

/// ln P(R > t) at equally spaced ln t.
pub(super) struct Table {
    first: f64,
    step: f64,
    logarithms: Vec<f64>,
}

impl Table {
    /// Tabulates the time at `station`, which must be a processor-sharing one.
    fn of(station: &StationTime, demand: &Distribution) -> Self {
        let given: Vec<(f64, Given)> =
            nodes(demand).into_iter().map(|(weight, demand)| (weight, station.given(demand))).collect();
        let survival =
            |time: f64| -> f64 { given.iter().map(|(weight, given)| weight * given.survival(time)).sum() };
        let mut last = demand.mean();
        while survival(last) > TAIL {
            last *= 2.0;
        }
        let first = (BEGINNING * demand.mean()).ln();
        let step = (last.ln() - first) / (POINTS - 1) as f64;
        let logarithm =
            |point: usize| survival((first + point as f64 * step).exp()).max(f64::MIN_POSITIVE).ln();
        Self { first, step, logarithms: (0..POINTS).map(logarithm).collect() }
    }

    /// P(R > t).
    pub(super) fn survival(&self, time: f64) -> f64 {
        let place = ((time.max(f64::MIN_POSITIVE).ln() - self.first) / self.step).max(0.0);
        let point = place as usize;
        let Some([low, high]) = self.logarithms.get(point..point + 2) else { return 0.0 };
        (low + (place - point as f64) * (high - low)).exp().min(1.0)
    }
}
