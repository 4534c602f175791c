//! Compiles a scenario file: parses templates, compiles patterns, and reads all files before the run starts.

use std::collections::BTreeMap;

use regex::bytes::Regex;
use thiserror::Error;

use crate::{
    http::{
        cookie_jar::CookieHost,
        request::{Form, FormError},
        target::Target,
    },
    plan::{
        distribution::{Distribution, Shape},
        duration,
        scenario::{
            Address, Authorization, BODY_BYTES_MAX, Flow, REDIRECTS_MAX, REQUESTS_MAX, Scenario,
            ScenarioRequest, Server,
            answer::{Check, Source, Status, Take},
            feeder::Feeder,
            file::{CheckTable, DefaultsTable, RequestTable, ScenarioFile, TakeTable, Texts},
            har, shares,
            targets::Targets,
            template::{Environment, Place, Template, Variables, is_name},
        },
    },
};

/// The most repetitions of a request in an iteration.
const REPEAT_MAX: u32 = 1000;
const REDIRECTS_ASKED_MAX: u32 = 100;
/// Why Host is the same for all.
const ONE_HOST: &str = "all requests have one Host, on which redirections and cookies depend";

/// What a scenario file refers to.
pub struct ScenarioInputs<'a> {
    pub read_file: &'a dyn Fn(&str) -> Result<Vec<u8>, String>,
    pub environment: Environment<'a>,
    /// The shape of think times without a range.
    pub think_shape: Shape,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ScenarioError {
    #[error("{0}")]
    Form(String),
    #[error("request {name:?}: {what}")]
    Request { name: String, what: String },
    #[error("{file}: {what}")]
    File { file: String, what: String },
    #[error("the scenario has no requests: write [[request]], or [[flow]] with [[flow.request]]")]
    Empty,
    #[error("more than {REQUESTS_MAX} requests")]
    TooMany,
    #[error(
        "${{{0}}} is not defined\nhint: define it in [values], by a column of the users file, or by a `take`"
    )]
    Undefined(String),
}

pub(super) struct Compiler<'a> {
    form: &'a Form<'a>,
    inputs: &'a ScenarioInputs<'a>,
    variables: Variables,
    defaults: &'a DefaultsTable,
    requests: Vec<ScenarioRequest>,
    names: Vec<String>,
}

impl Scenario {
    /// Compiles a TOML or JSON scenario for requests of this form.
    pub fn parse(
        form: &Form<'_>,
        text: &str,
        inputs: &ScenarioInputs<'_>,
    ) -> Result<Scenario, ScenarioError> {
        Scenario::compile(form, &read(text)?, inputs, Vec::new())
    }

    /// Compiles a browser recording (HTTP Archive 1.2) to an iteration without a login.
    pub fn from_har(
        form: &Form<'_>,
        text: &str,
        inputs: &ScenarioInputs<'_>,
    ) -> Result<Scenario, ScenarioError> {
        let (file, warnings) = har::read(text, &form.target.host).map_err(ScenarioError::Form)?;
        Scenario::compile(form, &file, inputs, warnings)
    }

    /// Reads a scenario or a recording and says it in full: what was left to defaults, and its files by the names that
    /// `renamed` gives them; and the doubts about it. It can be used.
    pub fn in_full(
        form: &Form<'_>,
        text: &str,
        inputs: &ScenarioInputs<'_>,
        renamed: &dyn Fn(&str) -> String,
    ) -> Result<(ScenarioFile, Vec<String>), ScenarioError> {
        let (mut file, warnings) = match har::is_har(text) {
            true => har::read(text, &form.target.host).map_err(ScenarioError::Form)?,
            false => (read(text)?, Vec::new()),
        };
        match Scenario::compile(form, &file, inputs, Vec::new()) {
            // The login alone is half a scenario.
            Ok(_) | Err(ScenarioError::Empty) => {}
            Err(error) => return Err(error),
        }
        file.complete(renamed);
        Ok((file, warnings))
    }

    /// A scenario of a single page, whose redirects are followed.
    pub fn of_page(
        form: &Form<'_>,
        redirects: u32,
        inputs: &ScenarioInputs<'_>,
    ) -> Result<Scenario, ScenarioError> {
        let escaped = |text: &str| text.replace("${", "$${");
        // The URL itself is the page; there is nothing below it.
        let root = Target { path: "/".to_owned(), ..form.target.clone() };
        let page = RequestTable {
            name: Some(format!("{} {}", form.method, form.target.path)),
            url: escaped(&form.target.path),
            method: Some(form.method.to_owned()),
            redirects: Some(redirects),
            body: (!form.body.is_empty()).then(String::new),
            ..RequestTable::default()
        };
        let file = ScenarioFile { request: vec![page], ..ScenarioFile::default() };
        let mut scenario =
            Scenario::compile(&Form { target: &root, ..form.clone() }, &file, inputs, Vec::new())?;
        if let Some(body) = &mut scenario.requests[0].body {
            // The table has a text, which these bytes need not be.
            body.template.push_bytes(form.body);
        }
        Ok(scenario)
    }

    fn compile(
        form: &Form<'_>,
        file: &ScenarioFile,
        inputs: &ScenarioInputs<'_>,
        warnings: Vec<String>,
    ) -> Result<Scenario, ScenarioError> {
        let mut compiler = Compiler {
            form,
            inputs,
            variables: Variables::default(),
            defaults: &file.defaults,
            requests: Vec::new(),
            names: Vec::new(),
        };
        let mut constants = Vec::new();
        for (name, value) in &file.values {
            constants.push((compiler.define(name)?, value.text()));
        }
        let feeder =
            file.users.file.as_deref().map(|name| compiler.feeder(name)).transpose()?.unwrap_or_default();
        let feeder_variables =
            feeder.columns.iter().map(|name| compiler.define(name)).collect::<Result<Vec<_>, _>>()?;
        let login = compiler.requests(&file.login)?;
        let mut flows = Vec::new();
        let alone = (!file.request.is_empty()).then_some((1.0, &file.request));
        let all = alone.into_iter().chain(file.flow.iter().map(|flow| (flow.weight, &flow.request)));
        let mut weight_up_to = 0.0;
        for (weight, requests) in all {
            if !(weight.is_finite() && weight > 0.0) {
                return Err(ScenarioError::Form(format!("a flow's weight of {weight} is not above zero")));
            }
            weight_up_to += weight;
            flows.push(Flow { weight_up_to, requests: compiler.requests(requests)? });
        }
        if !file.request.is_empty() && !file.flow.is_empty() {
            return Err(ScenarioError::Form("[[request]] and [[flow]] exclude each other".to_owned()));
        }
        if flows.is_empty() || flows.iter().any(|flow| flow.requests.is_empty()) {
            return Err(ScenarioError::Empty);
        }
        if let Some(name) = compiler.variables.undefined() {
            return Err(ScenarioError::Undefined(name.to_owned()));
        }
        let is_login_alone =
            shares::is_login_alone(&compiler.requests, &login, &flows).map_err(ScenarioError::Form)?;
        let host = compiler.host().map_err(ScenarioError::Form)?;
        let mut values = vec![None; compiler.variables.names.len()];
        constants.into_iter().for_each(|(number, value)| values[number] = Some(value));
        let is_tls = form.target.secured;
        Ok(Scenario {
            requests: compiler.requests,
            names: compiler.names,
            login,
            flows,
            constants: values,
            feeder,
            variables: compiler.variables.names,
            feeder_variables,
            is_user_new: file.users.new,
            has_tabs: file.users.tabs,
            begins_under_way: file.users.under_way,
            is_login_alone,
            users_count: file.users.count.unwrap_or(0),
            server: Server {
                scheme: if is_tls { "https" } else { "http" },
                cookies: CookieHost::new(&host, is_tls),
                host,
            },
            warnings,
            kept: Vec::new(),
        })
    }
}

fn read(text: &str) -> Result<ScenarioFile, ScenarioError> {
    let wrong = |error: String| ScenarioError::Form(error);
    match har::is_json(text) {
        true => serde_json::from_str(text).map_err(|error| wrong(error.to_string())),
        false => toml::from_str(text).map_err(|error| wrong(error.to_string())),
    }
}

impl Compiler<'_> {
    pub(super) fn template(&mut self, text: &str, place: Place) -> Result<Template, String> {
        Template::parse(text, place, &mut self.variables, self.inputs.environment)
    }

    pub(super) fn read(&self, file: &str) -> Result<Vec<u8>, String> {
        let bytes = (self.inputs.read_file)(file).map_err(|why| format!("{file}: {why}"))?;
        match bytes.len() {
            0..=BODY_BYTES_MAX => Ok(bytes),
            _ => Err(format!("{file}: more than {} MiB", BODY_BYTES_MAX >> 20)),
        }
    }

    fn define(&mut self, name: &str) -> Result<usize, ScenarioError> {
        match is_name(name) && !["user", "iteration", "uuid"].contains(&name) {
            true => Ok(self.variables.define(name)),
            false => Err(ScenarioError::Form(format!("{name:?} cannot be the name of a variable"))),
        }
    }

    fn feeder(&self, file: &str) -> Result<Feeder, ScenarioError> {
        let wrong = |what: String| ScenarioError::File { file: file.to_owned(), what };
        let bytes = (self.inputs.read_file)(file).map_err(wrong)?;
        let text = String::from_utf8(bytes).map_err(|_| wrong("it is not UTF-8".to_owned()))?;
        Feeder::parse(&text).map_err(wrong)
    }

    /// The Host field of all requests: that of the file, of the form, or of the URL.
    fn host(&mut self) -> Result<String, String> {
        if let Some((_, host)) = self.defaults.headers.iter().find(|(name, _)| is_host(name)) {
            let whole = self.template(host, Place::Field)?;
            let text = whole.literal().map(|text| String::from_utf8_lossy(text).trim().to_owned());
            return text.ok_or_else(|| {
                format!(
                    "Host: {host:?} has variables\nhint: {ONE_HOST}; load other hosts in runs of their own"
                )
            });
        }
        let given = self.form.fields.iter().filter_map(|field| field.split_once(':'));
        let mut host = given.filter(|(name, _)| is_host(name)).map(|(_, host)| host.trim());
        Ok(host.next_back().unwrap_or(&self.form.target.host).to_owned())
    }

    fn requests(&mut self, tables: &[RequestTable]) -> Result<Vec<u32>, ScenarioError> {
        let mut numbers = Vec::new();
        for table in tables {
            let (method, name) = (table.shown_method(), table.shown_name());
            let request = self
                .request(table, method, &name)
                .map_err(|what| ScenarioError::Request { name: name.clone(), what })?;
            if self.requests.len() >= REQUESTS_MAX {
                return Err(ScenarioError::TooMany);
            }
            self.requests.push(request);
            numbers.push(self.requests.len() as u32 - 1);
        }
        Ok(numbers)
    }

    fn request(&mut self, table: &RequestTable, method: &str, name: &str) -> Result<ScenarioRequest, String> {
        if name.is_empty() || name.contains(|c: char| c.is_control()) {
            return Err("a name is a line of text".to_owned());
        }
        let address = self.address(table)?;
        let body = self.body(table)?;
        if table.headers.keys().any(|name| is_host(name)) {
            return Err(format!(
                "Host is not a field of one request\nhint: {ONE_HOST}: put it under [defaults]"
            ));
        }
        let mut headers = self.defaults.headers.clone();
        headers.retain(|known, _| !table.headers.keys().any(|own| own.eq_ignore_ascii_case(known)));
        headers.extend(table.headers.clone());
        let fields = self.fields(&headers)?;
        let given: Vec<&str> = headers.keys().map(String::as_str).collect();
        let statuses = self.statuses(table)?;
        let expects_redirection = statuses.iter().any(|status| (300..400).any(|code| status.fits(code)));
        let by_default =
            if expects_redirection { 0 } else { self.defaults.redirects.unwrap_or(REDIRECTS_MAX) };
        let redirects_max = table.redirects.unwrap_or(by_default);
        if redirects_max > REDIRECTS_ASKED_MAX {
            return Err(format!("more than {REDIRECTS_ASKED_MAX} redirections"));
        }
        let think = table.think.clone().or_else(|| self.defaults.think.clone());
        let (share, repeat) = (table.share.unwrap_or(1.0), table.repeat.unwrap_or(1));
        if !(0.0..=1.0).contains(&share) || !(1..=REPEAT_MAX).contains(&repeat) {
            return Err(format!("share must be from 0 to 1, repeat from 1 to {REPEAT_MAX}"));
        }
        let form = Form { method, ..self.form.clone() };
        form.check().map_err(|error| error.to_string())?;
        Ok(ScenarioRequest {
            name: self.name(name),
            method: method.to_owned(),
            address,
            suffix: form.suffix_besides(&given).into_bytes(),
            fields,
            authorization: self.authorization(table)?,
            body,
            think: think.map(|text| self.think(&text)).transpose()?,
            share,
            repeat,
            statuses: match statuses.is_empty() {
                false => statuses,
                true if redirects_max == 0 => vec![Status::Class(2), Status::Class(3)],
                true => vec![Status::Class(2)],
            },
            checks: self.checks(&table.check)?,
            takes: table.take.iter().map(|(name, take)| self.take(name, take)).collect::<Result<_, _>>()?,
            redirects_max,
            is_optional: table.optional,
        })
    }

    fn name(&mut self, name: &str) -> u32 {
        let known = self.names.iter().position(|known| known == name);
        known.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        }) as u32
    }

    fn address(&mut self, table: &RequestTable) -> Result<Address, String> {
        match &table.targets {
            Some(_) if !table.url.is_empty() => Err("url and targets exclude each other".to_owned()),
            Some(file) => {
                let text =
                    String::from_utf8(self.read(file)?).map_err(|_| format!("{file}: it is not UTF-8"))?;
                let below = self.form.target.base_path();
                Targets::parse(&text, below).map(Address::Targets).map_err(|error| format!("{file}: {error}"))
            }
            None if table.url.is_empty() => Err("it needs a url, or targets".to_owned()),
            None => self.url(&table.url).map(Address::Url),
        }
    }

    fn url(&mut self, text: &str) -> Result<Template, String> {
        let url = self.template(text, Place::Url)?;
        if url.starts_raw() {
            return Ok(url);
        }
        if !text.starts_with('/') {
            return Err(format!(
                "{text:?} is neither a path that starts with a slash nor a link such as ${{next|raw}}"
            ));
        }
        if text.contains('#') {
            return Err(format!("{text:?}: a request has no fragment (#...)"));
        }
        let mut below = Template::default();
        below.push_bytes(self.form.target.base_path().as_bytes());
        below.append(url);
        Ok(below)
    }

    fn fields(&mut self, headers: &BTreeMap<String, String>) -> Result<Template, String> {
        let mut lines = Template::default();
        for (name, value) in headers {
            let probe = [format!("{name}: ")];
            let form = Form { fields: &probe, ..self.form.clone() };
            form.check().map_err(|error: FormError| error.to_string())?;
            if name.eq_ignore_ascii_case("cookie") {
                return Err("Cookie is set by the user's cookies".to_owned());
            }
            if value.contains(['\r', '\n', '\0']) {
                return Err(format!("{value:?} is not a valid field value"));
            }
            lines.push_bytes(format!("{name}: ").as_bytes());
            lines.append(self.template(value, Place::Field)?);
            lines.push_bytes(b"\r\n");
        }
        Ok(lines)
    }

    fn authorization(&mut self, table: &RequestTable) -> Result<Option<Authorization>, String> {
        let own = (&table.basic, &table.bearer);
        let (basic, bearer) = match own {
            (None, None) => (self.defaults.basic.clone(), self.defaults.bearer.clone()),
            (basic, bearer) => (basic.clone(), bearer.clone()),
        };
        Ok(match (basic, bearer) {
            (None, None) => None,
            (Some(basic), None) => Some(Authorization::Basic(self.template(&basic, Place::Field)?)),
            (None, Some(bearer)) => Some(Authorization::Bearer(self.template(&bearer, Place::Field)?)),
            (Some(_), Some(_)) => return Err("basic and bearer exclude each other".to_owned()),
        })
    }

    fn think(&self, text: &str) -> Result<Distribution, String> {
        let parse = |text: &str| duration::parse(text.trim()).map_err(|error| error.to_string());
        let Some((least, most)) = text.split_once('-') else {
            return Ok(Distribution { mean: parse(text)?, shape: self.inputs.think_shape });
        };
        let (least, most) = (parse(least)?, parse(most)?);
        if least > most {
            return Err(format!("{text:?}: write the shorter time first"));
        }
        let mean = sojourn_measure::Nanos(least.0.midpoint(most.0));
        let least = if mean.0 == 0 { 1.0 } else { least.0 as f64 / mean.0 as f64 };
        Ok(Distribution { mean, shape: Shape::Between { least } })
    }

    fn statuses(&self, table: &RequestTable) -> Result<Vec<Status>, String> {
        let each = table.status.as_ref().map_or(&[][..], |statuses| statuses.each());
        let parse = |text: String| {
            Status::parse(&text).ok_or_else(|| format!("{text:?} is not a status: 200, \"2xx\""))
        };
        each.iter().map(|status| parse(status.text())).collect()
    }

    fn checks(&mut self, table: &CheckTable) -> Result<Vec<Check>, String> {
        let mut checks = Vec::new();
        let texts = |texts: &Texts| texts.each().to_vec();
        for text in texts(&table.contains) {
            checks.push(Check::Contains(self.template(&text, Place::Body)?));
        }
        for text in texts(&table.lacks) {
            checks.push(Check::Lacks(self.template(&text, Place::Body)?));
        }
        for text in texts(&table.matches) {
            checks.push(Check::Matches(pattern(&text)?));
        }
        for (pointer, value) in &table.json {
            checks
                .push(Check::Pointer(checked_pointer(pointer)?, self.template(&value.text(), Place::Body)?));
        }
        for (name, value) in &table.header {
            checks.push(Check::Header(name.clone(), self.template(value, Place::Body)?));
        }
        Ok(checks)
    }

    fn take(&mut self, name: &str, table: &TakeTable) -> Result<Take, String> {
        let variable = self.define(name).map_err(|error| error.to_string())?;
        let compiled = table.regex.as_deref().map(pattern).transpose()?;
        let pointer = table.pointer.as_deref().map(checked_pointer).transpose()?.map(Source::Pointer);
        let others = [
            pointer,
            table.header.clone().map(Source::Header),
            table.cookie.clone().map(Source::Cookie),
            table.input.clone().map(Source::Input),
        ];
        let mut others = others.into_iter().flatten();
        let (source, pattern) = match (others.next(), compiled) {
            (Some(source), pattern) => (source, pattern),
            (None, Some(pattern)) => (Source::Regex(pattern), None),
            (None, None) => return Err(format!("take.{name} needs regex, pointer, header, cookie or input")),
        };
        if others.next().is_some() {
            return Err(format!("take.{name} has more than one of pointer, header, cookie and input"));
        }
        Ok(Take { variable, source, pattern, otherwise: table.default.clone() })
    }
}

fn is_host(name: &str) -> bool {
    name.eq_ignore_ascii_case("host")
}

fn pattern(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| error.to_string())
}

/// RFC 6901, 3.
fn checked_pointer(text: &str) -> Result<String, String> {
    match text.is_empty() || text.starts_with('/') {
        true => Ok(text.to_owned()),
        false => Err(format!("{text:?} is not a pointer: it begins with a slash")),
    }
}
