//! Bindings of system files and their analytic solvers.

use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use serde::Serialize;
use sojourn_queueing::distribution::RandomVariable;
use sojourn_queueing::solver;
use sojourn_queueing::system::{
    Class, Demand, Discipline, Route, Source, StationModel, System, Visit, WhenFull,
};
use sojourn_queueing::system_file;

use super::distribution::Distribution;
use super::{dictionary, refused};
use crate::array::{Array, Values};

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(predict_system, module)?)?;
    module.add_function(wrap_pyfunction!(system_with_settings, module)?)?;
    module.add_function(wrap_pyfunction!(system_structure, module)?)?;
    module.add_function(wrap_pyfunction!(system_document, module)?)?;
    module.add_function(wrap_pyfunction!(system_demands, module)?)
}

/// Every analytic solver's answer or refusal for the system of a system file, with its bottleneck; without
/// `percentiles` it takes microseconds rather than milliseconds.
#[pyfunction]
#[pyo3(signature = (system, percentiles=true))]
fn predict_system<'py>(py: Python<'py>, system: &str, percentiles: bool) -> PyResult<Bound<'py, PyAny>> {
    let system = system_file::parse(system).map_err(refused)?;
    let predict = if percentiles { solver::predict } else { solver::predict_means };
    let prediction = py.detach(|| predict(&system));
    dictionary(py, &prediction)
}

/// The text of a system file with `NAME=VALUE` settings. A wrong setting is a ValueError with the problem and the cure.
#[pyfunction]
fn system_with_settings(system: &str, settings: Vec<String>) -> PyResult<String> {
    system_file::with_settings(system, &settings)
        .map_err(|error| PyValueError::new_err((error.message, error.cure)))
}

/// The structure of a system file, with means instead of distributions.
#[pyfunction]
fn system_structure<'py>(py: Python<'py>, system: &str) -> PyResult<Bound<'py, PyAny>> {
    let system = system_file::parse(system).map_err(refused)?;
    dictionary(py, &Structure::of(&system))
}

/// The distribution of a class's document sizes in bytes; None if it has none.
#[pyfunction]
fn system_document(system: &str, class: &str) -> PyResult<Option<Distribution>> {
    let system = system_file::parse(system).map_err(refused)?;
    Ok(find(&system, class)?.document.clone().map(|inner| Distribution { inner }))
}

/// Seconds that each visit of a class asks for documents of these sizes, in the order of its routes: one array
/// per visit. A demand that does not depend on the size is its mean.
#[pyfunction]
fn system_demands(system: &str, class: &str, sizes: Values<f64>) -> PyResult<Vec<Vec<Array<f64>>>> {
    let system = system_file::parse(system).map_err(refused)?;
    let (class, sizes) = (find(&system, class)?, sizes.0);
    let demands = |visit: &Visit| {
        let mean = visit.demand.mean(class.document.as_ref());
        let demand = |size: &f64| visit.demand.of_size(*size).unwrap_or(mean);
        sizes.iter().map(demand).collect()
    };
    Ok(class.routes.iter().map(|route| route.visits.iter().map(demands).collect()).collect())
}

fn find<'s>(system: &'s System, class: &str) -> PyResult<&'s Class> {
    let found = system.classes.iter().find(|each| each.name == class);
    found.ok_or_else(|| PyKeyError::new_err(format!("the system has no class named {class}")))
}

#[derive(Serialize)]
struct Structure {
    name: String,
    stations: Vec<StationStructure>,
    classes: Vec<ClassStructure>,
}

#[derive(Serialize)]
struct StationStructure {
    name: String,
    discipline: &'static str,
    r: Option<u32>,
    servers: u32,
    /// True if its speed depends on the number of jobs in service.
    state_dependent: bool,
    /// The work per second of a saturated station; None for a delay, which never saturates.
    saturation: Option<f64>,
    /// The most jobs present, and what happens to further ones: `refuse`, `block` or `retry`.
    capacity: Option<u32>,
    when_full: Option<&'static str>,
    /// True if jobs that find it full may be lost.
    is_lossy: bool,
    /// Work per second that open classes bring for certain, whatever is lost earlier; None if it cannot be overloaded:
    /// for a delay, and if excess jobs are turned away.
    certain_work: Option<f64>,
}

#[derive(Serialize)]
struct ClassStructure {
    name: String,
    rate_per_second: Option<f64>,
    users: Option<u32>,
    think_time_seconds: Option<f64>,
    latency_seconds: f64,
    document_mean_bytes: Option<f64>,
    routes: Vec<RouteStructure>,
}

#[derive(Serialize)]
struct RouteStructure {
    name: String,
    probability: f64,
    visits: Vec<VisitStructure>,
}

#[derive(Serialize)]
struct VisitStructure {
    station: String,
    demand_mean_seconds: f64,
    demand_second_moment_seconds2: f64,
    by_size: bool,
    holds: Vec<String>,
}

impl Structure {
    fn of(system: &System) -> Self {
        Self {
            name: system.name.clone(),
            stations: system
                .stations
                .iter()
                .zip(system.open_work_certain())
                .map(|(station, work)| StationStructure::of(station, work))
                .collect(),
            classes: system.classes.iter().map(|class| ClassStructure::of(class, system)).collect(),
        }
    }
}

impl StationStructure {
    fn of(station: &StationModel, certain_work: f64) -> Self {
        let (discipline, r) = match station.discipline {
            Discipline::Fifo => ("fifo", None),
            Discipline::Ps => ("ps", None),
            Discipline::Lps { limit } => ("lps", Some(limit)),
            Discipline::Is => ("is", None),
        };
        Self {
            name: station.name.clone(),
            discipline,
            r,
            servers: station.servers,
            state_dependent: station.speed.is_some(),
            saturation: Some(station.service().saturation()).filter(|work| work.is_finite()),
            capacity: station.capacity.as_ref().map(|capacity| capacity.jobs),
            when_full: station.capacity.as_ref().map(|capacity| match capacity.when_full {
                WhenFull::Refuse => "refuse",
                WhenFull::Block => "block",
                WhenFull::Retry(_) => "retry",
            }),
            is_lossy: station.is_lossy(),
            certain_work: (!station.is_delay() && !station.is_lossy()).then_some(certain_work),
        }
    }
}

impl ClassStructure {
    fn of(class: &Class, system: &System) -> Self {
        let (rate_per_second, users, think_time_seconds) = match &class.source {
            Source::Open { rate } => (Some(*rate), None, None),
            Source::Closed { users, think_time } => (None, Some(*users), Some(think_time.mean())),
        };
        let visit = |visit: &Visit| {
            let (mean, second_moment) = visit.demand.moments(class.document.as_ref());
            VisitStructure {
                station: system.stations[visit.station].name.clone(),
                demand_mean_seconds: mean,
                demand_second_moment_seconds2: second_moment,
                by_size: matches!(visit.demand, Demand::BySize(_)),
                holds: visit.holds.iter().map(|&held| system.stations[held].name.clone()).collect(),
            }
        };
        let route = |route: &Route| RouteStructure {
            name: route.name.clone(),
            probability: route.probability,
            visits: route.visits.iter().map(visit).collect(),
        };
        Self {
            name: class.name.clone(),
            rate_per_second,
            users,
            think_time_seconds,
            latency_seconds: class.latency,
            document_mean_bytes: class.document.as_ref().map(RandomVariable::mean),
            routes: class.routes.iter().map(route).collect(),
        }
    }
}
