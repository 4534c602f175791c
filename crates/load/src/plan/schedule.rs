//! The steps of a run: when each starts, which part is measured, and its offered load.

use sojourn_measure::Nanos;

use crate::plan::arrivals::Segment;

/// One step: a settle part, which is not measured, then a measured part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// When the settle part starts, since the run's start.
    pub start: Nanos,
    pub settle: Nanos,
    pub measured: Nanos,
    /// The offered rate, if there is one; for a ramp the mean.
    pub offered_requests_per_second: Option<f64>,
    /// True if the rate changes while it is measured.
    pub ramp: bool,
}

impl Step {
    /// When the measured part starts.
    pub fn measured_from(&self) -> Nanos {
        self.start + self.settle
    }

    pub fn end(&self) -> Nanos {
        self.measured_from() + self.measured
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    steps: Vec<Step>,
}

impl Schedule {
    /// A single step, for a closed loop or a replay.
    pub fn single(settle: Nanos, measured: Nanos, offered_requests_per_second: Option<f64>) -> Schedule {
        let step = Step { start: Nanos::ZERO, settle, measured, offered_requests_per_second, ramp: false };
        Schedule { steps: vec![step] }
    }

    /// One step per segment of a rate schedule; the first rate also holds for `settle` before it.
    pub fn segments(segments: &[Segment], settle: Nanos) -> Schedule {
        let mut start = Nanos::ZERO;
        let step = |(index, segment): (usize, &Segment)| {
            let settle = if index == 0 { settle } else { Nanos::ZERO };
            let offered_requests_per_second = Some(segment.mean());
            let ramp = segment.from != segment.to;
            let step = Step { start, settle, measured: segment.length, offered_requests_per_second, ramp };
            start = step.end();
            step
        };
        Schedule { steps: segments.iter().enumerate().map(step).collect() }
    }

    /// Scales offered rates from arrivals to `requests` per arrival.
    pub fn scale_offered(&mut self, requests: f64) {
        for step in &mut self.steps {
            step.offered_requests_per_second = step.offered_requests_per_second.map(|rate| rate * requests);
        }
    }

    /// One step of equal length per offered rate; `settle` is part of `length`.
    pub fn staircase(rates: &[f64], length: Nanos, settle: Nanos) -> Schedule {
        let step = |(index, &rate)| Step {
            start: Nanos(length.0 * index as u64),
            settle,
            measured: length - settle,
            offered_requests_per_second: Some(rate),
            ramp: false,
        };
        Schedule { steps: rates.iter().enumerate().map(step).collect() }
    }

    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// When the last step ends.
    pub fn end(&self) -> Nanos {
        self.steps.last().map_or(Nanos::ZERO, Step::end)
    }

    /// The step whose measured part contains a time since the run's start.
    pub fn measured_step_at(&self, time: Nanos) -> Option<usize> {
        let index = self.steps.partition_point(|step| step.start <= time).checked_sub(1)?;
        let step = &self.steps[index];
        (step.measured_from() <= time && time < step.end()).then_some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_belongs_to_the_measured_part_it_falls_into() {
        let schedule = Schedule::staircase(&[10.0, 20.0], Nanos(100), Nanos(25));
        let check = |time, expected| assert_eq!(schedule.measured_step_at(Nanos(time)), expected, "{time}");
        check(0, None);
        check(24, None);
        check(25, Some(0));
        check(99, Some(0));
        check(100, None);
        check(125, Some(1));
        check(199, Some(1));
        check(200, None);
        assert_eq!(schedule.end(), Nanos(200));
    }
}
