//! Scenarios: users log in, fill in forms, extract values from responses and use them in later requests.
//!
//! `file` defines the file's format, and `compile` turns it into a [`Scenario`]: templates of requests, with
//! extractions and checks. A `user` has the cookies and values to fill in a template. Nothing here knows a socket or a
//! clock.

pub mod answer;
mod body;
mod compile;
mod explanation;
pub mod feeder;
pub mod file;
mod har;
mod html;
mod shares;
mod targets;
pub mod template;
pub mod user;

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use sojourn_measure::Nanos;

use crate::{
    http::cookie_jar::CookieHost,
    plan::{
        distribution::{Distribution, Shape},
        scenario::{
            answer::{Check, Status, Take},
            body::Body,
            feeder::Feeder,
            targets::Targets,
            template::Template,
            user::KeptUser,
        },
    },
};

pub use compile::{ScenarioError, ScenarioInputs};
pub use har::is_har;
pub use template::GENERATED;

/// The most requests of a file, and of one iteration.
pub const REQUESTS_MAX: usize = 10_000;
/// How many redirects per request are followed by default.
pub const REDIRECTS_MAX: u32 = 10;
/// Random think times are hardly ever longer than this multiple of their mean, all of an iteration together.
const THINK_MOST: f64 = 2.0;
/// The largest body in a file, uploads included.
pub const BODY_BYTES_MAX: usize = 256 << 20;
/// Longer bodies that must be inspected are an error.
pub const BODY_KEPT_BYTES_MAX: usize = 8 << 20;

/// The file format as JSON Schemas, by table.
#[cfg(debug_assertions)]
pub fn schemas() -> std::collections::BTreeMap<String, serde_json::Value> {
    let mut settings = schemars::generate::SchemaSettings::draft2020_12();
    settings.definitions_path = "/scenario".into();
    let mut generator = schemars::SchemaGenerator::new(settings);
    generator.subschema_for::<file::ScenarioFile>();
    generator.take_definitions(true).into_iter().collect()
}

/// A compiled scenario: requests are templates, and variables have numbers.
#[derive(Debug)]
pub struct Scenario {
    requests: Vec<ScenarioRequest>,
    /// Names under which results are reported; requests refer to them.
    names: Vec<String>,
    login: Vec<u32>,
    flows: Vec<Flow>,
    /// The initial values of every user, by variable number.
    constants: Vec<Option<String>>,
    feeder: Feeder,
    variables: Vec<String>,
    /// The variables of the feeder's columns.
    feeder_variables: Vec<usize>,
    is_user_new: bool,
    has_tabs: bool,
    begins_under_way: bool,
    /// True if no iteration has a request behind the login.
    is_login_alone: bool,
    /// So many come before any comes again.
    users_count: u64,
    server: Server,
    /// Warnings about the file.
    warnings: Vec<String>,
    /// Users kept by an earlier run.
    kept: Vec<KeptUser>,
}

/// The loaded server, as links and cookies refer to it.
#[derive(Clone, Debug)]
struct Server {
    scheme: &'static str,
    host: String,
    cookies: CookieHost,
}

#[derive(Debug)]
struct Flow {
    /// The cumulative weight.
    weight_up_to: f64,
    requests: Vec<u32>,
}

#[derive(Debug)]
pub(crate) struct ScenarioRequest {
    name: u32,
    method: String,
    address: Address,
    /// The text from the version to the fields that all requests share.
    suffix: Vec<u8>,
    /// Complete field lines.
    fields: Template,
    authorization: Option<Authorization>,
    body: Option<Body>,
    think: Option<Distribution>,
    share: f64,
    repeat: u32,
    statuses: Vec<Status>,
    checks: Vec<Check>,
    takes: Vec<Take>,
    redirects_max: u32,
    is_optional: bool,
}

/// Where a request goes.
#[derive(Debug)]
enum Address {
    Url(Template),
    /// To one of many, drawn each time.
    Targets(Targets),
}

#[derive(Debug)]
enum Authorization {
    Basic(Template),
    Bearer(Template),
}

impl Scenario {
    /// The names of requests in the order of the file.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    pub fn requests(&self) -> usize {
        self.requests.len()
    }

    /// Each request's index among the names.
    pub(crate) fn name_of_each(&self) -> impl Iterator<Item = u32> {
        self.requests.iter().map(|request| request.name)
    }

    /// Warnings about the file.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    pub(crate) fn kept(&self) -> &[KeptUser] {
        &self.kept
    }

    /// Adds users kept by an earlier run.
    pub fn resume_users(&mut self, kept: Vec<KeptUser>) {
        self.kept = kept;
    }

    /// The number of users in the feeder file, if there is one.
    pub fn rows(&self) -> Option<u64> {
        (!self.feeder.rows.is_empty()).then_some(self.feeder.rows.len() as u64)
    }

    pub fn is_user_new(&self) -> bool {
        self.is_user_new
    }

    /// How many users come one after another before any comes again.
    pub(crate) fn users_count(&self) -> u64 {
        self.users_count
    }

    /// Returns true if users who were kept may have more than one iteration under way.
    pub(crate) fn has_tabs(&self) -> bool {
        self.has_tabs && !self.kept.is_empty()
    }

    /// Returns true if iterations are under way at the start of a run.
    pub(crate) fn begins_under_way(&self) -> bool {
        self.begins_under_way
    }

    /// How long users think in the longest iteration; hardly any takes longer.
    pub(crate) fn longest_think(&self) -> Nanos {
        let of_request = |&number: &u32| {
            let request = &self.requests[number as usize];
            let think = request.think.unwrap_or(Distribution::NONE);
            let most = if think.shape == Shape::Constant { 1.0 } else { THINK_MOST };
            most * f64::from(request.repeat) * think.mean.seconds()
        };
        let of_flow = |flow: &Flow| flow.requests.iter().map(of_request).sum::<f64>();
        Nanos::from_seconds(self.flows.iter().map(of_flow).fold(0.0, f64::max))
    }

    /// The mean number of requests per iteration, without the login.
    pub fn mean_requests(&self) -> f64 {
        let mut before = 0.0;
        let of_flow = |flow: &Flow| {
            let weight = flow.weight_up_to - std::mem::replace(&mut before, flow.weight_up_to);
            let each = flow.requests.iter().map(|&number| {
                let request = &self.requests[number as usize];
                f64::from(request.repeat) * request.share
            });
            weight * each.sum::<f64>()
        };
        let weighted: f64 = self.flows.iter().map(of_flow).sum();
        weighted / self.flows.last().map_or(1.0, |flow| flow.weight_up_to)
    }

    /// Draws an iteration: the numbers of its requests, after those of the login if it starts with that.
    pub(crate) fn draw(&self, logs_in: bool, random: &mut Xoshiro256PlusPlus) -> Box<[u32]> {
        let whole = self.flows.last().map_or(0.0, |flow| flow.weight_up_to);
        let chosen = match self.flows.len() {
            1 => 0,
            _ => {
                let drawn = random.random::<f64>() * whole;
                self.flows.partition_point(|flow| flow.weight_up_to <= drawn).min(self.flows.len() - 1)
            }
        };
        let login = if logs_in { self.login.as_slice() } else { &[] };
        let mut drawn = Vec::with_capacity(login.len() + self.flows[chosen].requests.len());
        for &number in login.iter().chain(&self.flows[chosen].requests) {
            let request = &self.requests[number as usize];
            if request.share >= 1.0 || random.random::<f64>() < request.share {
                drawn.extend(std::iter::repeat_n(number, request.repeat as usize));
            }
        }
        drawn.into()
    }

    /// Returns true if users only log in: what would follow has a share of 0.
    pub(crate) fn is_login_alone(&self) -> bool {
        self.is_login_alone
    }

    /// Returns true if users start with a login.
    pub(crate) fn has_login(&self) -> bool {
        !self.login.is_empty()
    }

    pub(crate) fn is_of_login(&self, request: u32) -> bool {
        // The login is compiled first.
        (request as usize) < self.login.len()
    }

    /// A request's own think time, if it has one.
    pub(crate) fn think_after(&self, request: u32) -> Option<Distribution> {
        self.requests[request as usize].think
    }

    /// Returns true if the iteration ends when this request fails.
    pub(crate) fn failure_ends_iteration(&self, request: u32) -> bool {
        !self.requests[request as usize].is_optional
    }
}

impl ScenarioRequest {
    fn needs_body(&self) -> bool {
        self.takes.iter().any(Take::needs_body) || self.checks.iter().any(Check::needs_body)
    }
}

#[cfg(test)]
mod tests;
