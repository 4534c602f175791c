//! Results of a sweep: bandwidths, latencies, and the memory that was used.

use serde::Serialize;

use super::arena::HugePages;
use super::kernel::Kernel;
use crate::Reading;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
pub struct GridPoint {
    pub kernel: Kernel,
    /// Bytes that each core walked.
    pub working_set_bytes: usize,
    /// Distance between accesses in words.
    pub stride_words: usize,
    pub cores: usize,
    pub huge_pages: HugePages,
}

/// The distribution of a figure over its repetitions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
pub struct Spread {
    /// The middle value, or the mean of the middle two.
    pub median: f64,
    pub min: f64,
    pub max: f64,
    pub repetitions: usize,
}

/// The bandwidth at one grid point: the sum over the cores; each copied byte counts once.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema), schemars(rename = "MemoryPoint"))]
pub struct Point {
    #[serde(flatten)]
    pub place: GridPoint,
    pub bytes_per_second: Spread,
}

/// The time of a dependent load, averaged over the cores.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema), schemars(rename = "MemoryLatency"))]
pub struct Latency {
    /// Bytes whose cache lines each core visited.
    pub working_set_bytes: usize,
    pub cores: usize,
    pub huge_pages: HugePages,
    pub seconds_per_load: Spread,
}

/// Memory that the kernel granted.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema), schemars(rename = "MemoryBacking"))]
pub struct Backing {
    pub huge_pages: HugePages,
    /// The cores in the order in which they are added.
    pub cores: Vec<usize>,
    pub bytes: usize,
    pub huge_page_bytes: Vec<Reading<u64>>,
}

#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
pub struct Memory {
    pub points: Vec<Point>,
    pub latencies: Vec<Latency>,
    /// The memory that was walked.
    pub backing: Vec<Backing>,
    /// Measurements kept although other tasks used the core for part of them.
    pub disturbed: usize,
    /// False if the sweep was interrupted; it then has the points measured at least once.
    pub complete: bool,
}

impl Spread {
    /// The distribution of unsorted values; `None` without values.
    pub fn of(mut values: Vec<f64>) -> Option<Spread> {
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            f64::midpoint(values[middle - 1], values[middle])
        };
        Some(Spread { median, min, max, repetitions: values.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_of_its_values() {
        let spread = Spread::of(vec![3.0, 1.0, 2.0, 10.0]).unwrap();
        assert_eq!((spread.median, spread.min, spread.max, spread.repetitions), (2.5, 1.0, 10.0, 4));
        assert_eq!(Spread::of(vec![]), None);
    }
}
