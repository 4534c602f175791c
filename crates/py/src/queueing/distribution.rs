//! Bindings of the distributions of sizes and times.

use pyo3::prelude::*;
use sojourn_queueing::distribution::{
    self, BoundedPareto, Deterministic, DistributionError, Empirical, Erlang, Exponential, HyperExponential,
    LogNormal, Mixture, RandomVariable,
};
use sojourn_queueing::random::Random;

use super::refused;
use crate::array::{Array, Values};

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Distribution>()
}

/// A distribution of a non-negative quantity.
#[pyclass(frozen, module = "sojourn._native")]
pub(super) struct Distribution {
    pub(super) inner: distribution::Distribution,
}

fn wrap<T: Into<distribution::Distribution>>(built: Result<T, DistributionError>) -> PyResult<Distribution> {
    built.map(|built| Distribution { inner: built.into() }).map_err(refused)
}

#[pymethods]
impl Distribution {
    #[staticmethod]
    fn deterministic(value: f64) -> PyResult<Self> {
        wrap(Deterministic::new(value))
    }

    #[staticmethod]
    fn exponential(mean: f64) -> PyResult<Self> {
        wrap(Exponential::new(mean))
    }

    #[staticmethod]
    fn erlang(mean: f64, stages: u32) -> PyResult<Self> {
        wrap(Erlang::new(mean, stages))
    }

    #[staticmethod]
    fn hyper_exponential(probability: f64, means: [f64; 2]) -> PyResult<Self> {
        wrap(HyperExponential::new(probability, means))
    }

    #[staticmethod]
    fn log_normal(mu: f64, sigma: f64) -> PyResult<Self> {
        wrap(LogNormal::new(mu, sigma))
    }

    #[staticmethod]
    fn pareto(shape: f64, low: f64, high: f64) -> PyResult<Self> {
        wrap(BoundedPareto::new(shape, low, high))
    }

    #[staticmethod]
    #[pyo3(signature = (values, weights=None))]
    fn empirical(values: Values<f64>, weights: Option<Values<f64>>) -> PyResult<Self> {
        wrap(match weights {
            Some(weights) => Empirical::weighted(&values.0, &weights.0),
            None => Empirical::new(&values.0),
        })
    }

    /// The weights are normalised.
    #[staticmethod]
    fn mixture(parts: Vec<(f64, PyRef<'_, Self>)>) -> PyResult<Self> {
        wrap(Mixture::new(parts.into_iter().map(|(weight, part)| (weight, part.inner.clone())).collect()))
    }

    /// The distribution of `factor`·X + `offset`.
    fn affine(&self, factor: f64, offset: f64) -> PyResult<Self> {
        wrap(self.inner.clone().affine(factor, offset))
    }

    #[getter]
    fn mean(&self) -> f64 {
        self.inner.mean()
    }

    #[getter]
    fn second_moment(&self) -> f64 {
        self.inner.second_moment()
    }

    /// Squared coefficient of variation.
    #[getter]
    fn scv(&self) -> f64 {
        self.inner.scv()
    }

    fn cdf(&self, x: Values<f64>) -> Array<f64> {
        x.0.iter().map(|x| self.inner.cdf(*x)).collect()
    }

    fn quantile(&self, p: Values<f64>) -> Array<f64> {
        p.0.iter().map(|p| self.inner.quantile(*p)).collect()
    }

    /// `count` values; the same seed gives the same values.
    fn sample(&self, py: Python<'_>, count: usize, seed: u64) -> Array<f64> {
        let draw = || {
            let mut random = Random::new(seed);
            (0..count).map(|_| self.inner.sample(&mut random)).collect()
        };
        Array(py.detach(draw))
    }
}
