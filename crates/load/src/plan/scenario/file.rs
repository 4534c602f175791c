//! The form of a scenario file: what its keys are called and what they hold. `compile` makes a scenario of it.
//!
//! The comments are the documentation: `docs/scenarios.md` is made of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A scenario: who the users are, what each does once, and what it does again and again.
#[derive(Debug, Default, Deserialize, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ScenarioFile {
    #[serde(default)]
    pub users: UsersTable,
    /// Values that all requests can use, as `${name}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, Scalar>,
    /// Defaults of all requests.
    #[serde(default)]
    pub defaults: DefaultsTable,
    /// Made once by each user, before its first iteration. If one fails, the iteration ends, and the next begins with them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub login: Vec<RequestTable>,
    /// An iteration: these requests, one after another. In place of `[[flow]]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub request: Vec<RequestTable>,
    /// Alternatives: each iteration is one of them, at random by their weights.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flow: Vec<FlowTable>,
}

/// `[users]`: the feeder file, and whether every iteration is a new user.
#[derive(Debug, Default, Deserialize, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct UsersTable {
    /// The feeder file, beside the scenario: comma-separated values whose first line names the variables. User 0 has the
    /// first row, and so on; behind the last row the first follows again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// True if every iteration is a new user, with the next row, no cookies, and a login of its own. Otherwise a user
    /// goes on to its next iteration, and arrivals take the user that has been free the longest.
    #[serde(default, skip_serializing_if = "is_false")]
    pub new: bool,
    /// So many users come one after another before any of them comes again. What is more than they can do brings others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// True if users who go on (`--users-file`) do more than one thing at once: an arrival that finds all of them busy opens
    /// another tab of one of them, with the cookies and values that the file has, and without a login.
    #[serde(default, skip_serializing_if = "is_false")]
    pub tabs: bool,
    /// True if a run whose iterations arrive at a rate begins with those that would be under way had they arrived
    /// before, too: it is in steady state from its start on. Their requests until then are left out, so requests must
    /// not need what those before them take.
    #[serde(default, skip_serializing_if = "is_false")]
    pub under_way: bool,
}

/// Defaults of all requests.
#[derive(Debug, Default, Deserialize, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DefaultsTable {
    /// Fields of every request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The think time after each request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think: Option<String>,
    /// How many redirections are followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirects: Option<u32>,
    /// Basic authentication, as `name:password`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basic: Option<String>,
    /// Bearer authentication: the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bearer: Option<String>,
}

/// `[[flow]]`: requests in order; each iteration is one of the flows, chosen by weight.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FlowTable {
    /// How often it is chosen, in proportion to the sum of all weights.
    #[serde(default = "one")]
    pub weight: f64,
    /// Its requests, one after another.
    pub request: Vec<RequestTable>,
}

/// A request: what is sent, what has to come back, and what is taken from that.
#[derive(Debug, Default, Deserialize, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RequestTable {
    /// The name of its results; requests with the same name are counted together. By default the method and the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Needed, or `targets`: the path and query, below the path of the loaded URL. With a value first, as `${next|raw}`, a link
    /// as an answer had it: it must lead to the loaded server.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub url: String,
    /// In place of `url`, a file beside the scenario with a path and query and its weight on each line, as `/items/7?x=1 20`:
    /// each time one of them is drawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub targets: Option<String>,
    /// The method; by default POST for a request with a body, otherwise GET.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Header fields of this request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Basic authentication, as `name:password`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basic: Option<String>,
    /// Bearer authentication: the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bearer: Option<String>,
    /// The body: a form's fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub form: Option<BTreeMap<String, Scalar>>,
    /// The body: JSON. A text that is only `"${name|raw}"` becomes the value without quotation marks.
    #[cfg_attr(debug_assertions, schemars(with = "Option<serde_json::Value>"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json: Option<toml::Value>,
    /// The body: a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The body: the bytes of a file beside the scenario.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_file: Option<String>,
    /// The body: parts, with which files are uploaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multipart: Option<Vec<PartTable>>,
    /// The think time after it: `2s` on average, exponentially spread (`--think-law`), or evenly from `1s-3s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think: Option<String>,
    /// In what share of the iterations it is made, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// How often it is made, one after another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeat: Option<u32>,
    /// The statuses that are expected: `200`, `"2xx"` or a list of them. By default 2xx, and without `redirects` also 3xx.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Statuses>,
    /// Checks of the content.
    #[serde(default)]
    pub check: CheckTable,
    /// Values taken from the answer, by the variable that they become.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub take: BTreeMap<String, TakeTable>,
    /// How many redirections are followed: by default 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirects: Option<u32>,
    /// True if the iteration goes on when this request has failed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub optional: bool,
}

/// Checks of a response's content.
#[derive(Debug, Default, Deserialize, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CheckTable {
    /// The body contains this text, or all of these.
    #[serde(default, skip_serializing_if = "Texts::are_none")]
    pub contains: Texts,
    /// The body does not contain this text, or any of these.
    #[serde(default, skip_serializing_if = "Texts::are_none")]
    pub lacks: Texts,
    /// The body matches this regular expression, or all of these.
    #[serde(default, skip_serializing_if = "Texts::are_none")]
    pub matches: Texts,
    /// Values of JSON, by their pointers: `"/status" = "paid"`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub json: BTreeMap<String, Scalar>,
    /// Fields of the head, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub header: BTreeMap<String, String>,
}

/// Where a value is taken from: one of these.
#[derive(Debug, Default, Deserialize, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TakeTable {
    /// What the first group of this regular expression matches in the body; with another source, in what that has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regex: Option<String>,
    /// The value at this pointer of JSON (RFC 6901).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// A field of the head.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// A cookie of the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cookie: Option<String>,
    /// The value of the HTML form's field of this name, as a token against forged requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// The value where there is none; without it, the request fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
}

/// A part of a body.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PartTable {
    /// The name of the form's field.
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The file to upload, beside the scenario.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The file name in the request; by default the file's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// The media type; of a file by default `application/octet-stream`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
}

/// A text, a number or true and false, as a text.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Scalar {
    Text(String),
    Whole(i64),
    Number(f64),
    Bool(bool),
}

#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Texts {
    One(String),
    Several(Vec<String>),
}

#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Statuses {
    One(Scalar),
    Several(Vec<Scalar>),
}

fn one() -> f64 {
    1.0
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde wants it so
fn is_false(truth: &bool) -> bool {
    !truth
}

impl ScenarioFile {
    /// All tables of requests, those of the login first.
    pub fn requests_mut(&mut self) -> impl Iterator<Item = &mut RequestTable> {
        let flows = self.flow.iter_mut().flat_map(|flow| &mut flow.request);
        self.login.iter_mut().chain(&mut self.request).chain(flows)
    }

    /// Says what is left to defaults, and names the files that it refers to otherwise.
    pub fn complete(&mut self, renamed: &dyn Fn(&str) -> String) {
        let rename = |file: &mut Option<String>| *file = file.take().map(|file| renamed(&file));
        rename(&mut self.users.file);
        for request in self.requests_mut() {
            request.name = Some(request.shown_name());
            request.method = Some(request.shown_method().to_owned());
            rename(&mut request.targets);
            rename(&mut request.body_file);
            request.multipart.iter_mut().flatten().for_each(|part| rename(&mut part.file));
        }
    }
}

impl RequestTable {
    /// The method: with a body POST, unless it says.
    pub fn shown_method(&self) -> &str {
        let has_body = self.form.is_some()
            || self.json.is_some()
            || self.body.is_some()
            || self.body_file.is_some()
            || self.multipart.is_some();
        self.method.as_deref().unwrap_or(if has_body { "POST" } else { "GET" })
    }

    /// The name: the method and the path, unless it says.
    pub fn shown_name(&self) -> String {
        let place = self.targets.as_deref().unwrap_or(&self.url);
        let path = place.split('?').next().unwrap_or_default();
        self.name.clone().unwrap_or_else(|| format!("{} {path}", self.shown_method()))
    }
}

impl Default for Texts {
    fn default() -> Self {
        Texts::Several(Vec::new())
    }
}

impl Texts {
    fn are_none(&self) -> bool {
        self.each().is_empty()
    }

    pub fn each(&self) -> &[String] {
        match self {
            Texts::One(text) => std::slice::from_ref(text),
            Texts::Several(texts) => texts,
        }
    }
}

impl Statuses {
    pub fn each(&self) -> &[Scalar] {
        match self {
            Statuses::One(status) => std::slice::from_ref(status),
            Statuses::Several(statuses) => statuses,
        }
    }
}

impl Scalar {
    pub fn text(&self) -> String {
        match self {
            Scalar::Text(text) => text.clone(),
            Scalar::Whole(number) => number.to_string(),
            Scalar::Number(number) => number.to_string(),
            Scalar::Bool(truth) => truth.to_string(),
        }
    }
}
