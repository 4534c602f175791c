//! The form of a scenario file: what its keys are called and what they hold. `compile` makes a scenario of it.
//!
//! The comments are the documentation: `docs/scenarios.md` is made of them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

/// A scenario: who the users are, what each does once, and what it does again and again.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScenarioFile {
    #[serde(default)]
    pub users: UsersTable,
    /// Values that all requests can use, as `${name}`.
    #[serde(default)]
    pub values: BTreeMap<String, Scalar>,
    /// What holds for every request that does not say otherwise.
    #[serde(default)]
    pub defaults: DefaultsTable,
    /// Made once by each user, before its first iteration. If one fails, the iteration ends, and the next begins with them.
    #[serde(default)]
    pub login: Vec<RequestTable>,
    /// An iteration: these requests, one after another. In place of `[[flow]]`.
    #[serde(default)]
    pub request: Vec<RequestTable>,
    /// Alternatives: each iteration is one of them, at random by their weights.
    #[serde(default)]
    pub flow: Vec<FlowTable>,
}

/// `[users]`: the feeder file, and whether every iteration is a new user.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UsersTable {
    /// The feeder file, beside the scenario: comma-separated values whose first line names the variables. User 0 has the
    /// first row, and so on; behind the last row the first follows again.
    pub file: Option<String>,
    /// True if every iteration is a new user, with the next row, no cookies, and a login of its own. Otherwise a user
    /// goes on to its next iteration, and arrivals take the user that has been free the longest.
    #[serde(default)]
    pub new: bool,
}

/// What holds for every request that does not say otherwise.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DefaultsTable {
    /// Fields of every request.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The think time after each request.
    pub think: Option<String>,
    /// How many redirections are followed.
    pub redirects: Option<u32>,
    /// Basic authentication, as `name:password`.
    pub basic: Option<String>,
    /// Bearer authentication: the token.
    pub bearer: Option<String>,
}

/// `[[flow]]`: requests in order; each iteration is one of the flows, chosen by weight.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowTable {
    /// How often it is chosen, in proportion to the sum of all weights.
    #[serde(default = "one")]
    pub weight: f64,
    /// Its requests, one after another.
    pub request: Vec<RequestTable>,
}

/// A request: what is sent, what has to come back, and what is taken from that.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestTable {
    /// What its results are shown by; requests of the same name are counted together. By default the method and the path.
    pub name: Option<String>,
    /// The path and query, below the path of the loaded URL. With a value first, as `${next|raw}`, a link as an answer had
    /// it: it must lead to the loaded server.
    pub url: String,
    /// The method; by default POST for a request with a body, otherwise GET.
    pub method: Option<String>,
    /// Header fields of this request.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Basic authentication, as `name:password`.
    pub basic: Option<String>,
    /// Bearer authentication: the token.
    pub bearer: Option<String>,
    /// The body: a form's fields.
    pub form: Option<BTreeMap<String, Scalar>>,
    /// The body: JSON. A text that is only `"${name|raw}"` becomes the value without quotation marks.
    #[schemars(with = "Option<serde_json::Value>")]
    pub json: Option<toml::Value>,
    /// The body: a text.
    pub body: Option<String>,
    /// The body: the bytes of a file beside the scenario.
    pub body_file: Option<String>,
    /// The body: parts, with which files are uploaded.
    pub multipart: Option<Vec<PartTable>>,
    /// The think time after it: `2s` on average, exponentially spread (`--think-law`), or evenly from `1s-3s`.
    pub think: Option<String>,
    /// In what share of the iterations it is made, from 0 to 1.
    pub share: Option<f64>,
    /// How often it is made, one after another.
    pub repeat: Option<u32>,
    /// The statuses that are expected: `200`, `"2xx"` or a list of them. By default 2xx, and without `redirects` also 3xx.
    pub status: Option<Statuses>,
    /// What the content has to be like.
    #[serde(default)]
    pub check: CheckTable,
    /// Values taken from the answer, by the variable that they become.
    #[serde(default)]
    pub take: BTreeMap<String, TakeTable>,
    /// How many redirections are followed: by default 10.
    pub redirects: Option<u32>,
    /// True if the iteration goes on when this request has failed.
    #[serde(default)]
    pub optional: bool,
}

/// What the content of an answer has to be like.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckTable {
    /// The body contains this text, or all of these.
    #[serde(default)]
    pub contains: Texts,
    /// The body does not contain this text, or any of these.
    #[serde(default)]
    pub lacks: Texts,
    /// The body matches this regular expression, or all of these.
    #[serde(default)]
    pub matches: Texts,
    /// Values of JSON, by their pointers: `"/status" = "paid"`.
    #[serde(default)]
    pub json: BTreeMap<String, Scalar>,
    /// Fields of the head, by their names.
    #[serde(default)]
    pub header: BTreeMap<String, String>,
}

/// Where a value is taken from: one of these.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TakeTable {
    /// What the first group of this regular expression matches in the body; with another source, in what that has.
    pub regex: Option<String>,
    /// The value at this pointer of JSON (RFC 6901).
    pub pointer: Option<String>,
    /// A field of the head.
    pub header: Option<String>,
    /// A cookie of the user.
    pub cookie: Option<String>,
    /// The value of the HTML form's field of this name, as a token against forged requests.
    pub input: Option<String>,
    /// The value where there is none; without it, the request fails.
    pub default: Option<String>,
}

/// A part of a body.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PartTable {
    /// The name of the form's field.
    pub name: String,
    pub value: Option<String>,
    /// The file to upload, beside the scenario.
    pub file: Option<String>,
    /// What the file is called in the request; by default its name.
    pub filename: Option<String>,
    /// The media type; of a file by default `application/octet-stream`.
    #[serde(rename = "type")]
    pub media_type: Option<String>,
}

/// A text, a number or true and false, as a text.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Scalar {
    Text(String),
    Whole(i64),
    Number(f64),
    Bool(bool),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Texts {
    One(String),
    Several(Vec<String>),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Statuses {
    One(Scalar),
    Several(Vec<Scalar>),
}

fn one() -> f64 {
    1.0
}

impl Default for Texts {
    fn default() -> Self {
        Texts::Several(Vec::new())
    }
}

impl Texts {
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
