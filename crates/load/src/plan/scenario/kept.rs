//! The state of logged-in users in a file, so that the next run need not log them in again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{http::cookie_jar::CookieJar, plan::scenario::Scenario};

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct KeptUser {
    pub(super) number: u64,
    pub(super) iterations: u64,
    /// Values by variable name.
    pub(super) values: BTreeMap<String, String>,
    pub(super) cookies: CookieJar,
}

impl KeptUser {
    /// The user's number, from 0.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn values_of(scenario: &Scenario, values: &[Option<String>]) -> BTreeMap<String, String> {
        let known = scenario.variables.iter().zip(values);
        known.filter_map(|(name, value)| Some((name.clone(), value.clone()?))).collect()
    }
}
