//! Time-varying arrival rates, and the arrival times that follow from them.
//!
//! A schedule is a sequence of segments, in which the rate is constant or changes linearly. Arrivals of a process with
//! rate one on the axis of *expected arrivals* are mapped to time by the inverse of the cumulative rate: Çinlar's
//! method, exact for ramps too (Law, Simulation Modeling and Analysis, 8.6.2).

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use sojourn_measure::Nanos;
use thiserror::Error;

use crate::plan::{
    distribution::exponential,
    duration::{self, DurationError},
};

/// The most segments of a schedule.
pub const SEGMENTS_MAX: usize = 1000;
/// The highest accepted rate; a thread reaches a fraction of it.
pub const RATE_MAX: f64 = 10e6;

/// A constant rate, or one that changes linearly from `from` to `to`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment {
    /// Arrivals per second at its start.
    pub from: f64,
    pub to: f64,
    pub length: Nanos,
}

impl Segment {
    /// The mean rate in arrivals per second.
    pub fn mean(&self) -> f64 {
        f64::midpoint(self.from, self.to)
    }

    fn expected(&self) -> f64 {
        self.mean() * self.length.seconds()
    }

    /// When this many arrivals are expected, in seconds since the segment's start.
    fn time_of(&self, expected: f64) -> f64 {
        // from t + (to - from) t² / 2T = x, solved so that equal rates and a start at zero lose no digits.
        let slope = (self.to - self.from) / self.length.seconds();
        let root = slope.mul_add(2.0 * expected, self.from * self.from).max(0.0).sqrt();
        2.0 * expected / (self.from + root)
    }
}

/// The distribution of interarrival times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivalProcess {
    /// Evenly spaced, starting at a random phase.
    Constant,
    /// Exponential interarrival times, as of independent users.
    Poisson,
    /// Interarrival times uniform between zero and twice the mean.
    Uniform,
}

/// Arrival times in order, since the start of the first segment.
#[derive(Clone, Debug)]
pub struct ArrivalTimes {
    segments: Vec<Segment>,
    process: ArrivalProcess,
    random: Xoshiro256PlusPlus,
    /// The segment of the next arrival.
    current: usize,
    /// When it started, and how many arrivals were expected before it.
    began: Nanos,
    expected_before: f64,
    /// The next arrival on the axis of expected arrivals.
    next: f64,
}

impl ArrivalTimes {
    /// Arrivals during the segments.
    pub fn new(
        segments: Vec<Segment>,
        process: ArrivalProcess,
        mut random: Xoshiro256PlusPlus,
    ) -> ArrivalTimes {
        let next = match process {
            ArrivalProcess::Constant => random.random::<f64>(),
            ArrivalProcess::Poisson => exponential(&mut random),
            // The residual gap at a random moment has the density 1 - x / 2 on (0, 2), so the process is stationary
            // from the start.
            ArrivalProcess::Uniform => 2.0 * (1.0 - random.random::<f64>().sqrt()),
        };
        ArrivalTimes { segments, process, random, current: 0, began: Nanos::ZERO, expected_before: 0.0, next }
    }
}

impl Iterator for ArrivalTimes {
    type Item = Nanos;

    fn next(&mut self) -> Option<Nanos> {
        loop {
            let segment = self.segments.get(self.current)?;
            let within = self.next - self.expected_before;
            if within < segment.expected() {
                let time = self.began + Nanos::from_seconds(segment.time_of(within));
                self.next += match self.process {
                    ArrivalProcess::Constant => 1.0,
                    ArrivalProcess::Poisson => exponential(&mut self.random),
                    ArrivalProcess::Uniform => 2.0 * self.random.random::<f64>(),
                };
                return Some(time);
            }
            self.expected_before += segment.expected();
            self.began = self.began + segment.length;
            self.current += 1;
        }
    }
}

/// Why a text is not a schedule.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ScheduleError {
    #[error("{0:?} is neither `RATE/s for DURATION` nor `ramp to RATE/s in DURATION`")]
    Part(String),
    #[error(transparent)]
    Duration(#[from] DurationError),
    /// A rate outside of the accepted range.
    #[error("a rate must be between 0 and {RATE_MAX} per second, not {0:?}")]
    Rate(String),
    /// A ramp needs a rate before it.
    #[error("a schedule cannot begin with a ramp: write the rate it starts from first, as in `1/s for 1s`")]
    RampFirst,
    /// Too many segments, or no duration.
    #[error("a schedule has 1 to {SEGMENTS_MAX} parts, each longer than 0 s")]
    Length,
}

/// Parses `100/s for 10s, ramp to 1000/s in 30s`: segments one after another; a ramp starts from the rate before it.
pub fn parse(text: &str) -> Result<Vec<Segment>, ScheduleError> {
    let mut segments: Vec<Segment> = Vec::new();
    for part in text.split(',') {
        let words: Vec<&str> = part.split_ascii_whitespace().collect();
        let segment = match words[..] {
            [per_second, "for", length] => {
                let held = rate(per_second)?;
                Segment { from: held, to: held, length: duration::parse(length)? }
            }
            ["ramp", "to", per_second, "in", length] => {
                let from = segments.last().ok_or(ScheduleError::RampFirst)?.to;
                Segment { from, to: rate(per_second)?, length: duration::parse(length)? }
            }
            _ => return Err(ScheduleError::Part(part.trim().to_owned())),
        };
        segments.push(segment);
    }
    let lasting = segments.iter().all(|segment| segment.length > Nanos::ZERO);
    if lasting && segments.len() <= SEGMENTS_MAX { Ok(segments) } else { Err(ScheduleError::Length) }
}

/// Parses a rate: arrivals per second with or without `/s`, or per minute with `/min`.
pub fn rate(text: &str) -> Result<f64, ScheduleError> {
    let refused = || ScheduleError::Rate(text.to_owned());
    let (number, per_second) = match text.strip_suffix("/min") {
        Some(number) => (number, 1.0 / 60.0),
        None => (text.strip_suffix("/s").unwrap_or(text), 1.0),
    };
    let number: f64 = number.parse().map_err(|_| refused())?;
    let rate = number * per_second;
    if (0.0..=RATE_MAX).contains(&rate) { Ok(rate) } else { Err(refused()) }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn times(schedule: &str, process: ArrivalProcess, seed: u64) -> Vec<f64> {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        ArrivalTimes::new(parse(schedule).unwrap(), process, random).map(Nanos::seconds).collect()
    }

    /// The Kolmogorov-Smirnov distance of draws from a distribution, times the square root of their number: above 1.95
    /// once in a thousand seeds.
    fn kolmogorov_smirnov(mut draws: Vec<f64>, cumulative: impl Fn(f64) -> f64) -> f64 {
        draws.sort_by(f64::total_cmp);
        let count = draws.len() as f64;
        let distance = |(index, &draw): (usize, &f64)| {
            let expected = cumulative(draw);
            (expected - index as f64 / count).abs().max((expected - (index + 1) as f64 / count).abs())
        };
        draws.iter().enumerate().map(distance).fold(0.0, f64::max) * count.sqrt()
    }

    fn gaps(times: &[f64]) -> Vec<f64> {
        times.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }

    #[test]
    fn constant_arrivals_are_evenly_spaced() {
        let times = times("2.5/s for 40s", ArrivalProcess::Constant, 1);
        assert_eq!(times.len(), 100);
        assert!(times[0] < 0.4);
        assert!(gaps(&times).iter().all(|gap| (gap - 0.4).abs() < 1e-6));
    }

    #[test]
    fn gaps_follow_their_distribution() {
        for seed in 0..5 {
            let poisson = gaps(&times("1000/s for 20s", ArrivalProcess::Poisson, seed));
            let distance = kolmogorov_smirnov(poisson, |gap| 1.0 - (-1000.0 * gap).exp());
            assert!(distance < 1.95, "Poisson, seed {seed}: {distance}");
            let uniform = gaps(&times("1000/s for 20s", ArrivalProcess::Uniform, seed));
            let distance = kolmogorov_smirnov(uniform, |gap| (gap * 500.0).min(1.0));
            assert!(distance < 1.95, "uniform, seed {seed}: {distance}");
        }
    }

    #[test]
    fn a_ramp_rises_evenly() {
        for seed in 0..5 {
            // Given their number, Poisson arrivals are independent draws with density rate(t).
            let ramp = times("0/s for 1s, ramp to 2000/s in 10s", ArrivalProcess::Poisson, seed);
            assert!((ramp.len() as f64 - 10_000.0).abs() < 4.0 * 100.0, "{}", ramp.len());
            let distance = kolmogorov_smirnov(ramp, |time| ((time - 1.0) / 10.0).powi(2));
            assert!(distance < 1.95, "seed {seed}: {distance}");
        }
        let falling = times("100/s for 1s, ramp to 0/s in 10s", ArrivalProcess::Constant, 3);
        assert_eq!(falling.len(), 600);
        assert!(falling.iter().all(|&time| time <= 11.0));
    }

    #[test]
    fn schedules() {
        let part = |from, to, seconds: u64| Segment { from, to, length: Nanos(seconds * 1_000_000_000) };
        assert_eq!(
            parse("100/s for 10s, ramp to 1000/s in 30s,1.5 for 1m"),
            Ok(vec![part(100.0, 100.0, 10), part(100.0, 1000.0, 30), part(1.5, 1.5, 60)])
        );
        assert_eq!(rate("30/min"), Ok(0.5));
        assert_eq!(parse("ramp to 5/s in 1s"), Err(ScheduleError::RampFirst));
        assert_eq!(parse("5/s for 0s"), Err(ScheduleError::Length));
        for bad in ["", "5/s", "5/s for", "for 5s", "ramp to 5/s"] {
            assert!(matches!(parse(bad), Err(ScheduleError::Part(_))), "{bad}");
        }
        for bad in ["-5/s for 1s", "x/s for 1s", "nan for 1s", "inf/s for 1s", "1e9/s for 1s"] {
            assert!(matches!(parse(bad), Err(ScheduleError::Rate(_))), "{bad}");
        }
        assert!(matches!(parse("5/s for 1"), Err(ScheduleError::Duration(_))));
    }
}
