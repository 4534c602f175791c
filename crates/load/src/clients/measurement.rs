//! Snapshots of a run: at the limits of each step, ten times a second for the timeline, and per interval.

use sojourn_measure::Nanos;

use crate::{
    plan::schedule::Schedule,
    statistics::{intervals::Intervals, observer::Observer, recorder::Recorder, snapshot::StepSnapshots},
};

pub(crate) struct Measurement {
    pub(crate) observer: Observer,
    pub(crate) intervals: Option<Intervals>,
    pub(crate) steps: Vec<StepSnapshots>,
}

impl Measurement {
    /// When the next snapshot is due, in time since the start of the run.
    pub(crate) fn next_snapshot(&self, schedule: &Schedule) -> Option<Nanos> {
        schedule.steps().iter().zip(&self.steps).find_map(|(step, snapshots)| {
            let (from, end) = (step.measured_from(), step.end());
            match snapshots {
                StepSnapshots { from: None, .. } => Some(from),
                StepSnapshots { middle: None, .. } => Some(Nanos(from.0 / 2 + end.0 / 2)),
                StepSnapshots { end: None, .. } => Some(end),
                _ => None,
            }
        })
    }

    /// Ends the step that was being measured when the run stopped, and the intervals of all steps.
    pub(crate) fn finish(&mut self, recorder: &mut Recorder, origin: Nanos) {
        if let Some(snapshots) =
            self.steps.iter_mut().find(|snapshots| snapshots.from.is_some() && snapshots.end.is_none())
        {
            snapshots.end = Some(self.observer.snapshot(recorder, None));
        }
        if let Some(intervals) = &mut self.intervals {
            for (step, (record, snapshots)) in recorder.steps.iter().zip(&self.steps).enumerate() {
                let end = snapshots.end.as_ref().map_or(Nanos::ZERO, |end| end.time - origin);
                intervals.finish(end, step, record);
            }
        }
    }
}
