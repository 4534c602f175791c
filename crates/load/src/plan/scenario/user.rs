//! A virtual user: its cookies, its values, and its current request with redirects.

use std::{collections::BTreeMap, time::SystemTime};

use base64::{Engine, engine::general_purpose::STANDARD};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

use crate::{
    http::{
        cause::Cause,
        cookie_jar::CookieJar,
        reference::{self, Place},
    },
    plan::scenario::{
        Address, Authorization, Scenario, ScenarioRequest,
        answer::{Answer, Status, is_redirection},
        template::{Context, Template, Unusable},
    },
};

/// What follows a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The request has ended, successfully or with a failure.
    Over(Option<Cause>),
    /// The user's next bytes follow a redirect.
    Follow,
}

pub struct User {
    number: u64,
    iterations: u64,
    pub is_logged_in: bool,
    /// True for what a user does beside something else: its cookies are the user's, and are not kept.
    pub is_tab: bool,
    values: Vec<Option<String>>,
    jar: CookieJar,
    random: Xoshiro256PlusPlus,
    exchange: Exchange,
}

/// The current request.
#[derive(Default)]
struct Exchange {
    /// The last requested path and query.
    url: String,
    method: String,
    redirects: u32,
    body: Vec<u8>,
    /// The complete request.
    bytes: Vec<u8>,
}

impl User {
    /// A user with this number, whose random values have a seed of their own.
    pub fn new(scenario: &Scenario, number: u64, seed: u64) -> User {
        let mut values = scenario.constants.clone();
        for (&variable, value) in scenario.feeder_variables.iter().zip(scenario.feeder.row(number)) {
            values[variable] = Some(value.clone());
        }
        User {
            number,
            iterations: 0,
            is_logged_in: !scenario.has_login(),
            is_tab: false,
            values,
            jar: CookieJar::default(),
            random: Xoshiro256PlusPlus::seed_from_u64(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            exchange: Exchange::default(),
        }
    }

    /// A user kept by an earlier run.
    pub fn again(scenario: &Scenario, kept: &KeptUser, seed: u64) -> User {
        let mut user = User::new(scenario, kept.number, seed);
        for (name, value) in scenario.variables.iter().zip(&mut user.values) {
            if let Some(kept) = kept.values.get(name) {
                *value = Some(kept.clone());
            }
        }
        User { iterations: kept.iterations, is_logged_in: true, jar: kept.cookies.clone(), ..user }
    }

    /// What to keep of the user for the next run.
    pub fn kept(&self, scenario: &Scenario) -> KeptUser {
        KeptUser {
            number: self.number,
            iterations: self.iterations,
            values: KeptUser::values_of(scenario, &self.values),
            cookies: self.jar.clone(),
        }
    }

    pub fn begin_iteration(&mut self) {
        self.iterations += 1;
    }

    /// Prepares the bytes of a request; fails if a value is missing.
    pub fn prepare(&mut self, scenario: &Scenario, request: u32, now: SystemTime) -> Result<(), Cause> {
        let request = &scenario.requests[request as usize];
        let exchange = &mut self.exchange;
        exchange.redirects = 0;
        exchange.method.clone_from(&request.method);
        let mut context = Context {
            values: &self.values,
            user: self.number,
            iteration: self.iterations.saturating_sub(1),
            random: &mut self.random,
        };
        exchange.body.clear();
        let body = request
            .body
            .as_ref()
            .map_or(Ok(()), |body| body.template.render(&mut exchange.body, &mut context));
        body.map_err(unusable)?;
        match &request.address {
            Address::Targets(targets) => {
                exchange.url.clear();
                exchange.url.push_str(targets.draw(context.random));
            }
            Address::Url(template) => {
                let mut url = Vec::new();
                template.render(&mut url, &mut context).map_err(unusable)?;
                exchange.url = String::from_utf8(url).map_err(|_| Cause::ValueUnusable)?;
                if template.starts_raw() {
                    // A link leads somewhere from the root.
                    exchange.url = match scenario.resolve(&exchange.url, "/") {
                        Place::Here(path) => path,
                        Place::Elsewhere => return Err(Cause::RedirectElsewhere),
                    };
                }
            }
        }
        self.write(scenario, request, now)
    }

    /// The bytes of the current request.
    pub fn bytes(&self) -> &[u8] {
        &self.exchange.bytes
    }

    /// Returns true if the response has no body whatever its head says (RFC 9112, 6.3: HEAD).
    pub fn is_bodiless(&self) -> bool {
        self.exchange.method == "HEAD"
    }

    /// Returns true if the response's body is needed.
    pub fn needs_body(&self, scenario: &Scenario, request: u32) -> bool {
        scenario.requests[request as usize].needs_body()
    }

    /// Handles a response: cookies, redirects, extractions and checks.
    pub fn answered(
        &mut self,
        scenario: &Scenario,
        request: u32,
        answer: &Answer<'_>,
        now: SystemTime,
    ) -> Next {
        let request = &scenario.requests[request as usize];
        for field in answer.fields("set-cookie") {
            self.jar.set(field, &scenario.server.cookies, &self.exchange.url, now);
        }
        if is_redirection(answer.status)
            && request.redirects_max > 0
            && let Some(location) = answer.fields("location").next()
        {
            return match self.follow(scenario, request, answer.status, location, now) {
                Ok(()) => Next::Follow,
                Err(cause) => Next::Over(Some(cause)),
            };
        }
        Next::Over(self.check(request, answer).err())
    }

    /// Prepares the request to a redirect's target.
    fn follow(
        &mut self,
        scenario: &Scenario,
        request: &ScenarioRequest,
        status: u16,
        location: &[u8],
        now: SystemTime,
    ) -> Result<(), Cause> {
        let exchange = &mut self.exchange;
        if exchange.redirects >= request.redirects_max {
            return Err(Cause::TooManyRedirects);
        }
        exchange.redirects += 1;
        let Place::Here(url) = scenario.resolve(&String::from_utf8_lossy(location), &exchange.url) else {
            return Err(Cause::RedirectElsewhere);
        };
        exchange.url = url;
        // RFC 9110, 15.4: 307 and 308 keep the method; like browsers, a POST becomes a GET for 301 and 302, too.
        let becomes_get = match status {
            303 => exchange.method != "HEAD",
            301 | 302 => exchange.method == "POST",
            _ => false,
        };
        if becomes_get {
            "GET".clone_into(&mut exchange.method);
            exchange.body.clear();
        }
        self.write(scenario, request, now)
    }

    /// The method and target that were asked for last.
    pub(super) fn last_request(&self) -> String {
        format!("{} {}", self.exchange.method, self.exchange.url)
    }

    pub(super) fn jar(&self) -> &CookieJar {
        &self.jar
    }

    pub(super) fn context(&mut self) -> Context<'_> {
        Context {
            values: &self.values,
            user: self.number,
            iteration: self.iterations.saturating_sub(1),
            random: &mut self.random,
        }
    }

    fn check(&mut self, request: &ScenarioRequest, answer: &Answer<'_>) -> Result<(), Cause> {
        if !request.statuses.iter().any(|status| status.fits(answer.status)) {
            let success = request.statuses == [Status::Class(2)];
            return Err(match answer.status {
                300..400 if success => Cause::Status3xx,
                400..500 => Cause::Status4xx,
                500..600 => Cause::Status5xx,
                _ => Cause::WrongStatus,
            });
        }
        if request.needs_body() && answer.content_coding().is_some() {
            return Err(Cause::BodyEncoded);
        }
        for check in &request.checks {
            if !check.holds(answer, &mut self.context()).map_err(unusable)? {
                return Err(Cause::CheckFailed);
            }
        }
        for take in &request.takes {
            let value = take.value(answer, &self.jar).ok_or(Cause::ValueMissing)?;
            self.values[take.variable] = Some(value);
        }
        Ok(())
    }

    /// Writes the request with fields, cookies and body.
    fn write(
        &mut self,
        scenario: &Scenario,
        request: &ScenarioRequest,
        now: SystemTime,
    ) -> Result<(), Cause> {
        let User { values, jar, random, exchange, .. } = self;
        let iteration = self.iterations.saturating_sub(1);
        let mut context = Context { values, user: self.number, iteration, random };
        let Exchange { url, method, body, bytes, .. } = exchange;
        bytes.clear();
        bytes.extend_from_slice(method.as_bytes());
        bytes.push(b' ');
        bytes.extend_from_slice(url.as_bytes());
        bytes.extend_from_slice(&request.suffix);
        request.fields.render(bytes, &mut context).map_err(unusable)?;
        match &request.authorization {
            None => {}
            Some(Authorization::Basic(pair)) => {
                let pair = filled(pair, &mut context)?;
                bytes.extend_from_slice(
                    format!("Authorization: Basic {}\r\n", STANDARD.encode(pair)).as_bytes(),
                );
            }
            Some(Authorization::Bearer(token)) => {
                bytes.extend_from_slice(b"Authorization: Bearer ");
                bytes.extend_from_slice(&filled(token, &mut context)?);
                bytes.extend_from_slice(b"\r\n");
            }
        }
        jar.write(bytes, &scenario.server.cookies, url, now);
        // RFC 9110, 8.6: methods that usually have a body send a length even for an empty one.
        let is_same_method = *method == request.method;
        if !body.is_empty() || matches!(method.as_str(), "POST" | "PUT" | "PATCH") {
            let media_type = request.body.as_ref().and_then(|body| body.media_type.as_deref());
            if let Some(media_type) = media_type.filter(|_| is_same_method) {
                bytes.extend_from_slice(format!("Content-Type: {media_type}\r\n").as_bytes());
            }
            bytes.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(body);
        Ok(())
    }
}

impl Scenario {
    fn resolve(&self, link: &str, from: &str) -> Place {
        reference::resolve(link, self.server.scheme, &self.server.host, from)
    }
}

fn filled(template: &Template, context: &mut Context<'_>) -> Result<Vec<u8>, Cause> {
    let mut text = Vec::new();
    template.render(&mut text, context).map_err(unusable)?;
    Ok(text)
}

fn unusable(_: Unusable) -> Cause {
    Cause::ValueUnusable
}

/// The state of a logged-in user in a file, so that the next run need not log it in again.
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
