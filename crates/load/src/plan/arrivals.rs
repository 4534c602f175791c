//! Rates of arrivals that change with time, and the times of arrivals they lead to.
//!
//! A schedule is a row of segments, each holding a rate or moving evenly from one to another. Arrivals of
//! any process are those of rate one on the axis of *expected arrivals*, carried over to time by the
//! inverse of the cumulated rate: Çinlar's method, exact for ramps too (Law, Simulation Modeling and
//! Analysis, 8.6.2).

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
/// The highest rate that is accepted: a thread makes a fraction of it.
pub const RATE_MAX: f64 = 10e6;

/// A rate that holds, or moves evenly from `from` to `to`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment {
    /// Arrivals per second at its beginning.
    pub from: f64,
    pub to: f64,
    pub length: Nanos,
}

impl Segment {
    /// Arrivals per second on average.
    pub fn mean(&self) -> f64 {
        f64::midpoint(self.from, self.to)
    }

    fn expected(&self) -> f64 {
        self.mean() * self.length.seconds()
    }

    /// When so many arrivals are expected, in seconds since the segment's beginning.
    fn time_of(&self, expected: f64) -> f64 {
        // from t + (to - from) t² / 2T = x, solved so that equal rates and a start at zero lose no digits.
        let slope = (self.to - self.from) / self.length.seconds();
        let root = slope.mul_add(2.0 * expected, self.from * self.from).max(0.0).sqrt();
        2.0 * expected / (self.from + root)
    }
}

/// How arrivals spread around their rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivalProcess {
    /// Evenly spaced, from a random phase on.
    Constant,
    /// Exponential gaps, as of independent users.
    Poisson,
    /// Gaps uniform between zero and twice the mean.
    Uniform,
}

/// Times of arrivals, in order, since the first segment's beginning.
#[derive(Clone, Debug)]
pub struct ArrivalTimes {
    segments: Vec<Segment>,
    process: ArrivalProcess,
    random: Xoshiro256PlusPlus,
    /// The segment that the next arrival falls into or after.
    current: usize,
    /// When it began, and how many arrivals were expected before it.
    began: Nanos,
    expected_before: f64,
    /// The next arrival on the axis of expected arrivals.
    next: f64,
}

impl ArrivalTimes {
    /// Arrivals that follow the segments and end with them.
    pub fn new(
        segments: Vec<Segment>,
        process: ArrivalProcess,
        mut random: Xoshiro256PlusPlus,
    ) -> ArrivalTimes {
        let next = match process {
            ArrivalProcess::Constant => random.random::<f64>(),
            ArrivalProcess::Poisson => exponential(&mut random),
            // The residual gap at a random moment has the density 1 - x / 2 on (0, 2): the process is stationary from
            // its first moment.
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
    /// A rate outside of what is accepted.
    #[error("a rate lies between 0 and {RATE_MAX} per second, not at {0:?}")]
    Rate(String),
    /// A ramp with nothing before it.
    #[error("a schedule cannot begin with a ramp: write the rate it starts from first, as in `1/s for 1s`")]
    RampFirst,
    /// More parts than accepted, or none that last.
    #[error("a schedule has 1 to {SEGMENTS_MAX} parts that last longer than nothing")]
    Length,
}

/// Parses `100/s for 10s, ramp to 1000/s in 30s`: parts one after another; a ramp starts from the rate
/// before it.
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

    /// Kolmogorov and Smirnov's distance of draws from a distribution, times the root of their number:
    /// above 1.95 once in a thousand seeds.
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
            // Given their number, Poisson arrivals are independent draws of density rate(t).
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
