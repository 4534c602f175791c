//! Bindings of the cache simulator: requests as arrays, misses per policy and size.

use std::collections::HashMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use sojourn_cache_store::replacement;
use sojourn_cache_store::simulation::{BELADY, Cache, Misses, Request, belady, simulate};
use sojourn_cache_store::{ADMISSIONS, AdmissionKind, admission_by_name};

use crate::array::{Array, Values};
use crate::workload::Trace;

/// Registers this file's names in the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<CacheTrace>()?;
    module.add_function(wrap_pyfunction!(cache_policies, module)?)?;
    module.add_function(wrap_pyfunction!(cache_admissions, module)?)
}

/// Requests for cache simulations.
#[pyclass(frozen, module = "sojourn._native")]
struct CacheTrace {
    requests: Vec<Request>,
    object_count: usize,
}

#[pymethods]
impl CacheTrace {
    /// Requests as object numbers (any integers) and sizes in bytes.
    #[new]
    fn new(objects: Values<u64>, sizes: Values<u64>) -> PyResult<Self> {
        let (objects, sizes) = (objects.0, sizes.0);
        if objects.len() != sizes.len() {
            return Err(PyValueError::new_err("there is not one size for each object"));
        }
        let mut numbers = HashMap::new();
        let mut requests = Vec::with_capacity(objects.len());
        for (object, size_bytes) in objects.into_iter().zip(sizes) {
            let next = u32::try_from(numbers.len()).map_err(|_| PyValueError::new_err("too many objects"))?;
            let object = *numbers.entry(object).or_insert(next);
            requests.push(Request { object, size_bytes });
        }
        Ok(CacheTrace { requests, object_count: numbers.len() })
    }

    /// Requests whose objects are already numbered, as `objects` gives them.
    #[staticmethod]
    fn numbered(objects: Values<u32>, sizes: Values<u64>, object_count: usize) -> PyResult<Self> {
        let (objects, sizes) = (objects.0, sizes.0);
        if objects.len() != sizes.len() {
            return Err(PyValueError::new_err("there is not one size for each object"));
        }
        let requests = objects
            .into_iter()
            .zip(sizes)
            .map(|(object, size_bytes)| Request { object, size_bytes })
            .collect();
        Ok(CacheTrace { requests, object_count })
    }

    /// The successful requests of a trace in order of time.
    #[staticmethod]
    fn of_trace(py: Python<'_>, trace: &Trace) -> Self {
        py.detach(|| {
            let trace = trace.inner.without_failed();
            let mut timed: Vec<(u64, u32)> = Vec::with_capacity(trace.requests.len());
            for session in &trace.sessions {
                let requests = trace.requests_of(session).iter();
                timed
                    .extend(requests.map(|request| (session.start_ns + request.offset_ns, request.document)));
            }
            timed.sort_by_key(|(time_ns, _)| *time_ns);
            let size = |document: u32| trace.documents[document as usize].size_bytes;
            let request = |&(_, object): &(u64, u32)| Request { object, size_bytes: size(object) };
            let requests: Vec<Request> = timed.iter().map(request).collect();
            let object_count = trace.requests_per_document().iter().filter(|count| **count > 0).count();
            CacheTrace { requests, object_count }
        })
    }

    /// The number of requests.
    fn __len__(&self) -> usize {
        self.requests.len()
    }

    /// The number of distinct objects.
    #[getter]
    fn object_count(&self) -> usize {
        self.object_count
    }

    /// The number of each request's object.
    fn objects(&self) -> Array<u32> {
        self.requests.iter().map(|request| request.object).collect()
    }

    /// The size of each request.
    fn sizes(&self) -> Array<u64> {
        self.requests.iter().map(|request| request.size_bytes).collect()
    }

    /// The total bytes of all objects, each with its first size: a cache of that size misses each once.
    #[getter]
    fn working_set_bytes(&self) -> u64 {
        let mut seen = std::collections::HashSet::new();
        let first = self.requests.iter().filter(|request| seen.insert(request.object));
        first.map(|request| request.size_bytes).sum()
    }

    /// Missed requests and missed bytes of a policy in a cache of so many bytes.
    #[pyo3(signature = (policy, budget_bytes, admission="all", object_bytes_max=None))]
    fn misses(
        &self,
        py: Python<'_>,
        policy: &str,
        budget_bytes: u64,
        admission: &str,
        object_bytes_max: Option<u64>,
    ) -> PyResult<(u64, u64)> {
        let admission = admission_by_name(admission)
            .ok_or_else(|| PyValueError::new_err(format!("there is no admission {admission:?}")))?;
        let cache = Cache { budget_bytes, object_bytes_max: object_bytes_max.unwrap_or(u64::MAX), admission };
        let Misses { requests, bytes } = match (policy, replacement::by_name(policy)) {
            (BELADY, _) => py.detach(|| belady(&self.requests, &cache)),
            (_, Some(kind)) => py.detach(|| simulate(&self.requests, kind, &cache)),
            _ => return Err(PyValueError::new_err(format!("there is no policy {policy:?}"))),
        };
        Ok((requests, bytes))
    }
}

/// Name and summary of every policy; the last one knows the future.
#[pyfunction]
fn cache_policies() -> Vec<(&'static str, &'static str)> {
    let policies = replacement::ALL.iter().map(|kind| (kind.name, kind.summary));
    policies.chain([(BELADY, "knows the future; for comparison alone")]).collect()
}

/// Name and summary of every admission policy.
#[pyfunction]
fn cache_admissions() -> Vec<(&'static str, &'static str)> {
    ADMISSIONS.iter().map(|AdmissionKind { name, summary, .. }| (*name, *summary)).collect()
}
