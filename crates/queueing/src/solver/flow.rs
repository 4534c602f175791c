//! A system reduced to what the analytic solvers need: demands and visits per class and station.

use super::{Answer, ClassAnswer, ClassLoss, PredictedTime, StationAnswer};
use crate::distribution::{Distribution, RandomVariable};
use crate::exact_lps::PhaseType;
use crate::named::Named;
use crate::simulator::refuse_unstable;
use crate::system::{Class, Demand, Source, StationModel, System};

/// A system reduced to means and second moments.
pub(super) struct Flow<'s> {
    pub(super) system: &'s System,
    pub(super) classes: Vec<ClassFlow>,
}

/// One class; every vector has an entry per station.
pub(super) struct ClassFlow {
    pub(super) source: Population,
    pub(super) latency: f64,
    /// Mean visits per job.
    pub(super) visits: Vec<f64>,
    /// Mean demand per job, all visits together, in seconds.
    pub(super) demands: Vec<f64>,
    /// Σ over visits of `E[S²]`, in s².
    pub(super) second_moments: Vec<f64>,
}

/// The source of a class's jobs.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Population {
    Open { rate: f64 },
    Closed { users: u32, think_time: f64 },
}

impl<'s> Flow<'s> {
    pub(super) fn new(system: &'s System) -> Self {
        Self { system, classes: system.classes.iter().map(|class| ClassFlow::new(class, system)).collect() }
    }

    pub(super) fn stations(&self) -> usize {
        self.system.stations.len()
    }

    pub(super) fn is_delay(&self, station: usize) -> bool {
        self.system.stations[station].is_delay()
    }

    pub(super) fn servers(&self, station: usize) -> f64 {
        f64::from(self.system.stations[station].servers)
    }

    pub(super) fn open(&self) -> impl Iterator<Item = (usize, f64)> {
        self.classes.iter().enumerate().filter_map(|(index, class)| match class.source {
            Population::Open { rate } => Some((index, rate)),
            Population::Closed { .. } => None,
        })
    }

    /// Each closed class with its users and the mean seconds that a user is away from all stations between two requests.
    pub(super) fn closed(&self) -> impl Iterator<Item = (usize, u32, f64)> {
        self.classes.iter().enumerate().filter_map(|(index, class)| match class.source {
            // The latency is part of the response but of no station, so the cycle sees it as a delay.
            Population::Closed { users, think_time } => Some((index, users, think_time + class.latency)),
            Population::Open { .. } => None,
        })
    }

    /// Rates of the open classes and numbers of users of the closed ones, as a mix for when throughputs are not known
    /// yet.
    pub(super) fn nominal_mix(&self) -> Vec<f64> {
        let weight = |class: &ClassFlow| match class.source {
            Population::Open { rate } => rate,
            Population::Closed { users, .. } => f64::from(users),
        };
        self.classes.iter().map(weight).collect()
    }

    /// The arrival rate and the moments of the demand per visit at a station, for these throughputs by class.
    pub(super) fn arrivals(&self, station: usize, throughputs: &[f64]) -> (f64, f64, f64) {
        let sum = |of: &dyn Fn(&ClassFlow) -> f64| -> f64 {
            self.classes.iter().zip(throughputs).map(|(class, rate)| rate * of(class)).sum()
        };
        let rate = sum(&|class| class.visits[station]);
        if rate == 0.0 {
            return (0.0, 0.0, 0.0);
        }
        (
            rate,
            sum(&|class| class.demands[station]) / rate,
            sum(&|class| class.second_moments[station]) / rate,
        )
    }

    /// Work done at each station as a fraction of the most that it can do; mean jobs at a delay.
    pub(super) fn utilisations(&self, throughputs: &[f64]) -> Vec<f64> {
        let work = |station: usize| -> f64 {
            self.classes.iter().zip(throughputs).map(|(class, rate)| rate * class.demands[station]).sum()
        };
        (0..self.stations()).map(|station| work(station) / self.peak(station)).collect()
    }

    /// c servers, or the peak of v(n); 1 at a delay.
    pub(super) fn peak(&self, station: usize) -> f64 {
        if self.is_delay(station) { 1.0 } else { self.system.stations[station].service().peak() }
    }

    /// c servers, or v(r): the work per second of a station in which jobs pile up.
    pub(super) fn saturation(&self, station: usize) -> f64 {
        self.system.stations[station].service().saturation()
    }

    /// Returns true if jobs hold places of the station while they are served elsewhere.
    pub(super) fn is_held(&self, station: usize) -> bool {
        self.system.classes.iter().flat_map(Class::visits).any(|(_, visit)| visit.holds.contains(&station))
    }

    /// Work per second that the open classes bring to each station.
    pub(super) fn open_work(&self) -> Vec<f64> {
        self.system.open_work()
    }

    /// Utilisations by the open classes alone.
    pub(super) fn open_utilisations(&self) -> Vec<f64> {
        let work = self.open_work().into_iter().enumerate();
        work.map(|(station, work)| work / self.peak(station)).collect()
    }

    /// Refuses a system whose open classes alone overload a station.
    pub(super) fn stable(&self) -> Result<(), String> {
        refuse_unstable(self.system).map_err(|error| error.to_string())
    }

    /// Refuses speeds v(n), for solvers that need equal servers.
    pub(super) fn without_speeds(&self) -> Result<(), String> {
        match self.system.stations.iter().find(|station| station.speed.is_some()) {
            Some(station) => Err(format!("{} has a speed v(n): see load-dependent-mva", station.place())),
            None => Ok(()),
        }
    }

    /// Refuses stations that can be full, for solvers without losses. A capacity of at least the number of users,
    /// without open classes, is never reached.
    pub(super) fn never_full(&self) -> Result<(), String> {
        let can_fill = |(station, model): &(usize, &StationModel)| {
            let visits = |class: &usize| self.classes[*class].visits[*station] > 0.0;
            let users: u64 =
                self.closed().filter(|(class, ..)| visits(class)).map(|(_, users, _)| u64::from(users)).sum();
            let open = self.open().any(|(class, _)| visits(&class));
            model.capacity.as_ref().is_some_and(|capacity| open || u64::from(capacity.jobs) < users)
        };
        match self.system.stations.iter().enumerate().find(can_fill) {
            Some((_, model)) => Err(format!("{} has a capacity; simulate", model.place())),
            None => Ok(()),
        }
    }

    /// Builds an answer from throughputs by class, residence times `residences[class][station]` per job, and the
    /// approximations they rest on.
    pub(super) fn answer(
        &self,
        throughputs: &[f64],
        residences: &[Vec<f64>],
        approximations: &[String],
    ) -> Answer {
        let utilisations = self.utilisations(throughputs);
        let class = |(index, model): (usize, &Class)| {
            let mean = residences[index].iter().sum::<f64>() + self.classes[index].latency;
            let throughput_per_second = throughputs[index];
            let loss = ClassLoss { offered_per_second: throughput_per_second, probability: 0.0 };
            let response_time_seconds = PredictedTime::of_mean(mean);
            (model.name.clone(), ClassAnswer { throughput_per_second, loss, response_time_seconds })
        };
        let station = |index: usize| {
            let queue_mean: f64 =
                throughputs.iter().zip(residences).map(|(rate, residence)| rate * residence[index]).sum();
            let (rate, _, _) = self.arrivals(index, throughputs);
            let utilisation = (!self.is_delay(index)).then_some(utilisations[index]);
            let residence_time_seconds = if rate > 0.0 { queue_mean / rate } else { 0.0 };
            let model = &self.system.stations[index];
            // Solvers for refusing stations fill this in themselves; here the capacity is never reached.
            let full_probability = model.capacity.as_ref().map(|_| 0.0);
            let answer = StationAnswer { utilisation, queue_mean, residence_time_seconds, full_probability };
            (model.name.clone(), answer)
        };
        Answer {
            means: words(approximations),
            percentiles: "not asked for".to_owned(),
            percentiles_relative_error: None,
            classes: Named(self.system.classes.iter().enumerate().map(class).collect()),
            stations: Named((0..self.stations()).map(station).collect()),
        }
    }
}

impl ClassFlow {
    fn new(class: &Class, system: &System) -> Self {
        let stations = system.stations.len();
        let (mut visits, mut demands, mut second_moments) =
            (vec![0.0; stations], vec![0.0; stations], vec![0.0; stations]);
        for (probability, visit) in class.visits() {
            let (mean, second) = visit.demand.moments(class.document.as_ref());
            visits[visit.station] += probability;
            demands[visit.station] += probability * mean;
            second_moments[visit.station] += probability * second;
        }
        let source = match &class.source {
            Source::Open { rate } => Population::Open { rate: *rate },
            Source::Closed { users, think_time } => {
                Population::Closed { users: *users, think_time: think_time.mean() }
            }
        };
        Self { source, latency: class.latency, visits, demands, second_moments }
    }
}

/// The phase-type demand common to all visits to a station.
pub(super) fn phase_type(flow: &Flow<'_>, station: usize) -> Result<PhaseType, String> {
    let name = flow.system.stations[station].place();
    let distribution =
        common_distribution(flow, station)?.ok_or_else(|| format!("no class visits {name}"))?;
    PhaseType::of(distribution)
        .ok_or_else(|| format!("the demand at {name} is not exponential, Erlang or hyper-exponential"))
}

/// The common demand distribution of all visits to a station; `None` without visits.
fn common_distribution<'s>(flow: &Flow<'s>, station: usize) -> Result<Option<&'s Distribution>, String> {
    let name = flow.system.stations[station].place();
    let mut found = None;
    for (_, visit) in flow.system.classes.iter().flat_map(|class| class.visits()) {
        if visit.station != station {
            continue;
        }
        let Demand::Independent(distribution) = &visit.demand else {
            return Err(format!("the demand at {name} depends on the document size"));
        };
        if found.is_some_and(|other| other != distribution) {
            return Err(format!("visits to {name} have different demands"));
        }
        found = Some(distribution);
    }
    Ok(found)
}

/// C² of the demand of all visits to a station.
pub(super) fn scv(flow: &Flow<'_>, station: usize) -> f64 {
    let (_, mean, second) = flow.arrivals(station, &flow.nominal_mix());
    if mean > 0.0 { second / (mean * mean) - 1.0 } else { 0.0 }
}

pub(super) fn is_memoryless(flow: &Flow<'_>, station: usize) -> bool {
    phase_type(flow, station).is_ok_and(|demand| demand.phases() == 1)
}

/// A solver's approximations in words.
pub(super) fn words(approximations: &[String]) -> String {
    match approximations {
        [] => "exact".to_owned(),
        some => format!("approximation ({})", some.join("; ")),
    }
}
