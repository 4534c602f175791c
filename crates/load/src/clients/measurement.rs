//! Snapshots of a run: at the bounds of each step, ten times a second for the timeline, and per interval.

use sojourn_measure::Nanos;

use crate::{
    plan::schedule::Schedule,
    statistics::{intervals::Intervals, observer::Observer, recorder::Recorder, snapshot::StepMarks},
};

pub(crate) struct Measurement {
    pub(crate) observer: Observer,
    pub(crate) intervals: Option<Intervals>,
    /// The snapshots of each step.
    pub(crate) steps: Vec<StepMarks>,
}

impl Measurement {
    /// When the next snapshot is due, as time since the beginning of the run.
    pub(crate) fn next_mark(&self, schedule: &Schedule) -> Option<Nanos> {
        schedule.steps().iter().zip(&self.steps).find_map(|(step, marks)| {
            let (from, end) = (step.measured_from(), step.end());
            match marks {
                StepMarks { from: None, .. } => Some(from),
                StepMarks { middle: None, .. } => Some(Nanos(from.0 / 2 + end.0 / 2)),
                StepMarks { end: None, .. } => Some(end),
                _ => None,
            }
        })
    }

    /// Ends the step that was being measured when the run stopped, and the intervals of all steps.
    pub(crate) fn finish(&mut self, recorder: &mut Recorder, origin: Nanos) {
        if let Some(marks) = self.steps.iter_mut().find(|marks| marks.from.is_some() && marks.end.is_none()) {
            marks.end = Some(self.observer.mark(recorder, None));
        }
        if let Some(intervals) = &mut self.intervals {
            for (step, (record, marks)) in recorder.steps.iter().zip(&self.steps).enumerate() {
                let end = marks.end.as_ref().map_or(Nanos::ZERO, |end| end.time - origin);
                intervals.finish(end, step, record);
            }
        }
    }
}
