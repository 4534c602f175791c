//! Bindings of the simulator. Progress is reported by callback; Ctrl-C ends a run with the results so far.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use sojourn_queueing::distribution::Empirical;
use sojourn_queueing::simulator::{
    self, JOBS_MAX_DEFAULT, JOBS_MIN_DEFAULT, Plan, PoissonStation, Progress, Target, Trace,
};
use sojourn_queueing::station::Service;
use sojourn_queueing::system_file;

use super::distribution::Distribution;
use super::{dictionary, refused};
use crate::array::{Array, Values};

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(simulate_station, module)?)?;
    module.add_function(wrap_pyfunction!(simulate_poisson, module)?)?;
    module.add_function(wrap_pyfunction!(simulate_system, module)?)?;
    module.add_function(wrap_pyfunction!(simulate_system_in_groups, module)?)?;
    module.add_function(wrap_pyfunction!(replication_groups, module)?)?;
    module.add_class::<ReplicationGroup>()
}

/// Response time in seconds of every job of a trace at one station; `r=None` is processor sharing.
#[pyfunction]
#[pyo3(signature = (arrival_times, demands, r=None, servers=1))]
fn simulate_station(
    py: Python<'_>,
    arrival_times: Values<f64>,
    demands: Values<f64>,
    r: Option<u32>,
    servers: u32,
) -> PyResult<Array<f64>> {
    let responses =
        py.detach(|| simulator::simulate_station(&arrival_times.0, &demands.0, service(r, servers)));
    Ok(Array(responses.map_err(refused)?))
}

/// Demands as a distribution, or values to draw from.
#[derive(FromPyObject)]
enum Demands<'py> {
    Distribution(PyRef<'py, Distribution>),
    Values(Values<f64>),
}

/// Simulates one station under Poisson arrivals whose demands are drawn from a distribution or from the given values.
#[pyfunction]
#[pyo3(signature = (
    arrival_rate, demands, r=None, half_width=0.02, jobs_max=JOBS_MAX_DEFAULT, seed=1, *,
    weights=None, servers=1, delta=0.0, jobs_min=JOBS_MIN_DEFAULT, targets=vec!["mean".to_owned()], replications=1, progress=None
))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python function")]
fn simulate_poisson<'py>(
    py: Python<'py>,
    arrival_rate: f64,
    demands: Demands<'py>,
    r: Option<u32>,
    half_width: f64,
    jobs_max: u64,
    seed: u64,
    weights: Option<Values<f64>>,
    servers: u32,
    delta: f64,
    jobs_min: u64,
    targets: Vec<String>,
    replications: u32,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let demand = match (demands, weights) {
        (Demands::Distribution(demand), None) => demand.inner.clone(),
        (Demands::Distribution(_), Some(_)) => {
            return Err(PyValueError::new_err("weights belong to values, not to a distribution"));
        }
        (Demands::Values(demands), Some(weights)) => {
            Empirical::weighted(&demands.0, &weights.0).map_err(refused)?.into()
        }
        (Demands::Values(demands), None) => Empirical::new(&demands.0).map_err(refused)?.into(),
    };
    let model = PoissonStation { arrival_rate, demand, service: service(r, servers), delta };
    let targets = targets_of(&targets)?;
    let plan = Plan { relative_half_width: half_width, targets, jobs_min, jobs_max, seed, replications };
    let mut watch = Watch { progress, failure: None };
    let result =
        py.detach(|| simulator::simulate_poisson(&model, &plan, &mut |now| watch.should_continue(now)));
    watch.check()?;
    dictionary(py, &result.map_err(refused)?)
}

/// Arrival times and document sizes of each traced class.
type Traces = BTreeMap<String, (Values<f64>, Values<f64>)>;

/// Simulates the system of a system file; `traces` maps an open class to its arrival times in seconds and
/// document sizes in bytes.
#[pyfunction]
#[pyo3(signature = (
    system, half_width=0.02, jobs_max=JOBS_MAX_DEFAULT, seed=1, *,
    jobs_min=JOBS_MIN_DEFAULT, targets=vec!["mean".to_owned()], replications=1, traces=None, progress=None
))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python function")]
fn simulate_system<'py>(
    py: Python<'py>,
    system: &str,
    half_width: f64,
    jobs_max: u64,
    seed: u64,
    jobs_min: u64,
    targets: Vec<String>,
    replications: u32,
    traces: Option<Traces>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let system = system_file::parse(system).map_err(refused)?;
    let columns: Vec<(String, Vec<f64>, Vec<f64>)> =
        traces.into_iter().flatten().map(|(class, (times, sizes))| (class, times.0, sizes.0)).collect();
    let targets = targets_of(&targets)?;
    let plan = Plan { relative_half_width: half_width, targets, jobs_min, jobs_max, seed, replications };
    let mut watch = Watch { progress, failure: None };
    let result = py.detach(|| {
        let traces: Vec<Trace<'_>> =
            columns.iter().map(|(class, times, sizes)| Trace { class, times, sizes }).collect();
        simulator::simulate_system(&system, &plan, &traces, &mut |now| watch.should_continue(now))
    });
    watch.check()?;
    dictionary(py, &result.map_err(refused)?)
}

/// The number of groups of so many replications.
#[pyfunction]
fn replication_groups(replications: u32) -> usize {
    simulator::group_count(replications)
}

/// As `simulate_system`, with the replications elsewhere. `advance` is called with the looks so far, each a number of jobs,
/// and returns the state of each `ReplicationGroup` in order; a KeyboardInterrupt ends the simulation with its figures.
#[pyfunction]
#[pyo3(signature = (
    system, advance, half_width=0.02, jobs_max=JOBS_MAX_DEFAULT, seed=1, *,
    jobs_min=JOBS_MIN_DEFAULT, targets=vec!["mean".to_owned()], replications=1, progress=None
))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python function")]
fn simulate_system_in_groups<'py>(
    py: Python<'py>,
    system: &str,
    advance: &Bound<'py, PyAny>,
    half_width: f64,
    jobs_max: u64,
    seed: u64,
    jobs_min: u64,
    targets: Vec<String>,
    replications: u32,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let system = system_file::parse(system).map_err(refused)?;
    let targets = targets_of(&targets)?;
    let plan = Plan { relative_half_width: half_width, targets, jobs_min, jobs_max, seed, replications };
    let mut watch = Watch { progress, failure: None };
    let mut failure = None;
    let result = simulator::simulate_in_groups(
        &system,
        &plan,
        &mut |looks| {
            let states =
                advance.call1((looks.to_vec(),)).and_then(|states| states.extract::<Vec<PyBackedBytes>>());
            let states = states.map_err(|error| failure = Some(error)).ok()?;
            Some(states.iter().map(|state| state.to_vec()).collect())
        },
        &mut |now| watch.should_continue(now),
    );
    watch.failure = watch.failure.or(failure);
    watch.check()?;
    dictionary(py, &result.map_err(refused)?)
}

/// Some of the replications of a simulation, on a thread of their own: advanced by `advance`, ended with the object.
#[pyclass(frozen, module = "sojourn._native")]
struct ReplicationGroup {
    looks: Mutex<Sender<Vec<u64>>>,
    states: Mutex<Receiver<Option<Vec<u8>>>>,
    is_cancelled: Arc<AtomicBool>,
}

#[pymethods]
impl ReplicationGroup {
    /// Raises ValueError if a station is unstable or a parameter is out of its domain.
    #[new]
    #[pyo3(signature = (system, index, half_width, jobs_max, seed, *, jobs_min, targets, replications))]
    #[allow(clippy::too_many_arguments, reason = "they are keywords on the other side")]
    fn new(
        system: &str,
        index: usize,
        half_width: f64,
        jobs_max: u64,
        seed: u64,
        jobs_min: u64,
        targets: Vec<String>,
        replications: u32,
    ) -> PyResult<Self> {
        let system = system_file::parse(system).map_err(refused)?;
        let targets = targets_of(&targets)?;
        let plan = Plan { relative_half_width: half_width, targets, jobs_min, jobs_max, seed, replications };
        simulator::ReplicationGroup::serve(&system, &plan, index, |_| ()).map_err(refused)?;
        let (looks, asked) = mpsc::channel::<Vec<u64>>();
        let (answer, states) = mpsc::channel();
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let cancelled = Arc::clone(&is_cancelled);
        thread::spawn(move || {
            let served = simulator::ReplicationGroup::serve(&system, &plan, index, |group| {
                for looks in asked {
                    let state = group.advance(&looks, &mut || !cancelled.load(Ordering::Relaxed));
                    if answer.send(state).is_err() {
                        return;
                    }
                }
            });
            served.expect("it was started before");
        });
        Ok(ReplicationGroup { looks: Mutex::new(looks), states: Mutex::new(states), is_cancelled })
    }

    /// Advances through the looks that it has not seen, which must continue those that it has; returns its state.
    fn advance<'py>(&self, py: Python<'py>, looks: Vec<u64>) -> PyResult<Bound<'py, PyBytes>> {
        let state = py.detach(|| {
            self.looks.lock().unwrap_or_else(PoisonError::into_inner).send(looks).ok()?;
            self.states.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()?
        });
        let state = state.ok_or_else(|| PyValueError::new_err("the replications were cancelled"))?;
        Ok(PyBytes::new(py, &state))
    }
}

impl Drop for ReplicationGroup {
    fn drop(&mut self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }
}

/// Called during a simulation: reports progress and notices Ctrl-C.
struct Watch {
    progress: Option<Py<PyAny>>,
    failure: Option<PyErr>,
}

impl Watch {
    fn should_continue(&mut self, progress: &Progress) -> bool {
        let outcome = Python::attach(|py| {
            if let Some(callback) = &self.progress {
                let Progress { jobs, jobs_max, estimate_seconds, relative_half_width } = *progress;
                callback.call1(py, (jobs, jobs_max, estimate_seconds, relative_half_width))?;
            }
            py.check_signals()
        });
        let going = outcome.is_ok();
        self.failure = outcome.err();
        going
    }

    /// Ctrl-C ends a simulation without an exception: its result says that it is incomplete.
    fn check(self) -> PyResult<()> {
        match self.failure {
            Some(error) if !Python::attach(|py| error.is_instance_of::<PyKeyboardInterrupt>(py)) => {
                Err(error)
            }
            _ => Ok(()),
        }
    }
}

/// The figures whose half-widths end a run.
fn targets_of(names: &[String]) -> PyResult<Vec<Target>> {
    let target = |name: &String| {
        Target::of(name).ok_or_else(|| {
            let known: Vec<&str> = Target::ALL.iter().map(|(known, _)| *known).collect();
            PyValueError::new_err(format!("the target must be one of {}, not {name}", known.join(", ")))
        })
    };
    names.iter().map(target).collect()
}

fn service(r: Option<u32>, servers: u32) -> Service {
    r.map_or_else(|| Service::ps(servers), |limit| Service::lps(limit as usize, servers))
}
