//! Tells for each figure of a result whether it has converged, or why not.

use super::Plan;
use super::estimate::Estimates;
use super::result::{Figure, Target};
use crate::named::Named;

/// Judges every figure of the response time after `jobs` jobs.
pub(super) fn figures(plan: &Plan, estimates: &Estimates, jobs: u64) -> Named<Figure> {
    let verdict = |(name, target): (&'static str, Target)| {
        let estimate = estimates.figure(target);
        let wanted = plan.relative_half_width;
        let relative = estimate.half_width.map(|width| width / estimate.value.abs().max(f64::MIN_POSITIVE));
        let reason = match relative {
            Err(unreliable) => Some(unreliable.reason().to_owned()),
            Ok(relative) if relative > wanted => Some(too_wide(relative, wanted, jobs)),
            Ok(_) => None,
        };
        let figure = Figure {
            asked_for: plan.targets.contains(&target),
            converged: reason.is_none(),
            relative_half_width: relative.ok(),
            reason,
        };
        (name.to_owned(), figure)
    };
    Named(Target::ALL.map(verdict).into())
}

pub(super) fn converged(figures: &Named<Figure>) -> bool {
    figures.0.iter().all(|(_, figure)| figure.converged || !figure.asked_for)
}

fn too_wide(relative: f64, wanted: f64, jobs: u64) -> String {
    let needed = jobs as f64 * (relative / wanted).powi(2);
    format!(
        "its half-width is {:.1} %, not {:.1} %; that takes about {} million jobs",
        100.0 * relative,
        100.0 * wanted,
        (needed / 1e6).ceil()
    )
}
