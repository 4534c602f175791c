//! Shares of requests: an iteration makes a request only in some cases, so that it may make none at all.
//!
//! A closed-loop client goes on to its next iteration at once after one without a request. So too few with one would
//! keep the generator busy with drawing them.

use crate::plan::scenario::{Flow, ScenarioRequest};

/// On average, one of so many iterations has a request at least.
const ITERATIONS_PER_REQUEST_MAX: f64 = 1000.0;

/// Checks that iterations have requests. Returns true if only the login has any: users have nothing to do after it.
pub(super) fn is_login_alone(
    requests: &[ScenarioRequest],
    login: &[u32],
    flows: &[Flow],
) -> Result<bool, String> {
    let share = |number: &u32| requests[*number as usize].share;
    let any_is_made =
        |numbers: &[u32]| 1.0 - numbers.iter().map(|number| 1.0 - share(number)).product::<f64>();
    let is_empty = |flow: &Flow| flow.requests.iter().all(|number| share(number) == 0.0);
    let is_alone = login.iter().any(|number| share(number) > 0.0) && flows.iter().all(is_empty);
    if !is_alone && flows.iter().any(is_empty) {
        return Err("all requests of a flow have a share of 0\nhint: leave the flow out".to_owned());
    }
    let mut before = 0.0;
    let weighted = flows.iter().map(|flow| {
        let weight = flow.weight_up_to - std::mem::replace(&mut before, flow.weight_up_to);
        weight * any_is_made(&flow.requests)
    });
    let weighted = weighted.sum::<f64>();
    let fraction = if is_alone { any_is_made(login) } else { weighted / before };
    if fraction * ITERATIONS_PER_REQUEST_MAX < 1.0 {
        return Err(format!(
            "fewer than one in {ITERATIONS_PER_REQUEST_MAX} iterations have a request\nhint: give a request a larger share"
        ));
    }
    Ok(is_alone)
}
