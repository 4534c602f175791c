//! Distributions of sizes and times in a system file: a quantity for a constant, else a table
//! with `law = "…"`.

use super::SystemFileError;
use super::reader::{Reader, Value};
use super::unit::{Dimension, positive, quantity};
use crate::distribution::{
    BoundedPareto, Deterministic, Distribution, DistributionError, ERLANG_STAGES_MAX, Empirical, Erlang,
    Exponential, HyperExponential, LogNormal, Mixture, RandomVariable,
};

const DEPTH_MAX: usize = 4;

/// The largest squared coefficient of variation: sigma = 5.2 of a log-normal law, far above anything measured.
const SCV_MAX: f64 = 1e12;

type Parse = fn(&Reader<'_>, Dimension, usize) -> Result<Distribution, SystemFileError>;

/// Every distribution by its name in files.
const DISTRIBUTIONS: &[(&str, Parse)] = &[
    ("deterministic", deterministic),
    ("exponential", exponential),
    ("erlang", erlang),
    ("hyper-exponential", hyper_exponential),
    ("log-normal", log_normal),
    ("pareto", pareto),
    ("empirical", empirical),
    ("mixture", mixture),
];

/// A distribution of document sizes, in bytes.
pub(super) fn size(value: &Value<'_>) -> Result<Distribution, SystemFileError> {
    parse(value, Dimension::Size, 0)
}

pub(super) fn time(value: &Value<'_>) -> Result<Distribution, SystemFileError> {
    parse(value, Dimension::Time, 0)
}

fn parse(value: &Value<'_>, dimension: Dimension, depth: usize) -> Result<Distribution, SystemFileError> {
    if !value.is_table() {
        let constant = quantity(value, dimension)?;
        return Deterministic::new(constant).map(Into::into).map_err(|error| value.error(error.to_string()));
    }
    let table = value.table()?;
    let distribution = parse_table(&table, dimension, depth)?;
    table.finish()?;
    dimension.check(distribution.mean(), "the mean").map_err(|message| value.error(message))?;
    let scv = distribution.scv();
    // Not a number where the moments are too large for one.
    if scv.is_nan() || scv > SCV_MAX {
        let message =
            format!("the squared coefficient of variation must be at most {SCV_MAX:e}, not {scv:.3e}");
        return Err(value.error(message));
    }
    Ok(distribution)
}

/// Parses a table with `law`. The caller calls `finish`, because a part of a mixture also has a `weight`.
fn parse_table(
    table: &Reader<'_>,
    dimension: Dimension,
    depth: usize,
) -> Result<Distribution, SystemFileError> {
    if depth > DEPTH_MAX {
        return Err(table.error(format!("mixtures may nest {DEPTH_MAX} deep")));
    }
    let names: Vec<&str> = DISTRIBUTIONS.iter().map(|row| row.0).collect();
    let parse = DISTRIBUTIONS[table.required("law")?.choice(&names)?].1;
    let distribution = parse(table, dimension, depth)?;
    let scale = table.optional("scale").map_or(Ok(1.0), |value| value.number())?;
    let shift = table.optional("shift").map_or(Ok(0.0), |value| quantity(&value, dimension))?;
    if scale == 1.0 && shift == 0.0 {
        return Ok(distribution);
    }
    built(table, distribution.affine(scale, shift))
}

fn built<T: Into<Distribution>>(
    table: &Reader<'_>,
    distribution: Result<T, DistributionError>,
) -> Result<Distribution, SystemFileError> {
    distribution.map(Into::into).map_err(|error| table.error(error.to_string()))
}

fn mean(table: &Reader<'_>, dimension: Dimension) -> Result<f64, SystemFileError> {
    positive(&table.required("mean")?, dimension)
}

fn deterministic(
    table: &Reader<'_>,
    dimension: Dimension,
    _: usize,
) -> Result<Distribution, SystemFileError> {
    built(table, Deterministic::new(quantity(&table.required("value")?, dimension)?))
}

fn exponential(table: &Reader<'_>, dimension: Dimension, _: usize) -> Result<Distribution, SystemFileError> {
    built(table, Exponential::new(mean(table, dimension)?))
}

fn erlang(table: &Reader<'_>, dimension: Dimension, _: usize) -> Result<Distribution, SystemFileError> {
    built(table, Erlang::new(mean(table, dimension)?, table.required("stages")?.count(1, ERLANG_STAGES_MAX)?))
}

fn hyper_exponential(
    table: &Reader<'_>,
    dimension: Dimension,
    _: usize,
) -> Result<Distribution, SystemFileError> {
    built(table, HyperExponential::balanced(mean(table, dimension)?, table.required("scv")?.number()?))
}

fn log_normal(table: &Reader<'_>, dimension: Dimension, _: usize) -> Result<Distribution, SystemFileError> {
    let Some(mu) = table.optional("mu") else {
        return built(
            table,
            LogNormal::from_mean_scv(mean(table, dimension)?, table.required("scv")?.number()?),
        );
    };
    // μ is the mean of the logarithm of the number of units: ln bytes and ln kilobytes differ.
    let factor = dimension.factor(&table.required("unit")?)?;
    built(table, LogNormal::new(mu.number()? + factor.ln(), table.required("sigma")?.number()?))
}

fn pareto(table: &Reader<'_>, dimension: Dimension, _: usize) -> Result<Distribution, SystemFileError> {
    let shape = table.required("shape")?.number()?;
    let low = quantity(&table.required("min")?, dimension)?;
    let high = quantity(&table.required("max")?, dimension)?;
    built(table, BoundedPareto::new(shape, low, high))
}

fn empirical(table: &Reader<'_>, dimension: Dimension, _: usize) -> Result<Distribution, SystemFileError> {
    let values = table.required("values")?.array()?;
    let values: Vec<f64> = values.iter().map(|value| quantity(value, dimension)).collect::<Result<_, _>>()?;
    let Some(weights) = table.optional("weights") else {
        return built(table, Empirical::new(&values));
    };
    let weights: Vec<f64> = weights.array()?.iter().map(Value::number).collect::<Result<_, _>>()?;
    built(table, Empirical::weighted(&values, &weights))
}

fn mixture(table: &Reader<'_>, dimension: Dimension, depth: usize) -> Result<Distribution, SystemFileError> {
    let mut parts = Vec::new();
    for part in table.required("parts")?.array()? {
        let part = part.table()?;
        let weight = part.required("weight")?.number()?;
        parts.push((weight, parse_table(&part, dimension, depth + 1)?));
        part.finish()?;
    }
    built(table, Mixture::new(parts))
}
