//! Pressure stall information: how long tasks of the whole machine waited for CPU, memory or disk.

use super::Source;
use crate::{Reading, proc_file};

pub const NAMES: &[&str] = &[
    "cpu_pressure_some_seconds",
    "memory_pressure_some_seconds",
    "memory_pressure_full_seconds",
    "io_pressure_some_seconds",
    "io_pressure_full_seconds",
];

/// The file and line of each counter.
const PLACES: [(&str, &str); 5] = [
    ("/proc/pressure/cpu", "some"),
    ("/proc/pressure/memory", "some"),
    ("/proc/pressure/memory", "full"),
    ("/proc/pressure/io", "some"),
    ("/proc/pressure/io", "full"),
];

/// Proof that the files can be read.
pub struct Pressure(());

impl Pressure {
    /// Reads one of the files: a kernel may have them without counting (psi=0).
    pub fn open() -> Reading<Pressure> {
        proc_file::read(PLACES[0].0).map(|_| Pressure(())).into()
    }
}

impl Source for Pressure {
    fn names(&self) -> &'static [&'static str] {
        NAMES
    }

    fn read(&mut self) -> Vec<Reading<f64>> {
        let read = |(path, line)| {
            let text = proc_file::read(path).map_err(|error| error.to_string())?;
            total_seconds(&text, line).ok_or_else(|| format!("{path} has no total of {line}"))
        };
        PLACES.map(read).map(Reading::from).into()
    }
}

/// Parses `some avg10=0.00 avg60=0.00 avg300=0.00 total=12345`, in microseconds.
fn total_seconds(text: &str, line: &str) -> Option<f64> {
    let line = text.lines().find(|candidate| candidate.split(' ').next() == Some(line))?;
    let total = line.split(' ').find_map(|field| field.strip_prefix("total="))?;
    total.parse::<u64>().ok().map(|microseconds| microseconds as f64 * 1e-6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_line_that_is_asked_for() {
        let text = "some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\nfull avg10=0.00 total=1\n";
        assert_eq!(total_seconds(text, "some"), Some(2.5));
        assert_eq!(total_seconds(text, "none"), None);
    }
}
