//! Browser recordings (HTTP Archive 1.2) as scenarios: the requests to the loaded host in order, the pauses between
//! them as think times, and their bodies.
//!
//! Cookies and tokens belong to the recorded session. Cookies are dropped, because users get their own; you must
//! replace a token in a body by an extracted value.

use std::{collections::BTreeMap, mem};

use serde::Deserialize;

use crate::{
    http::reference::{self, Place},
    plan::scenario::{
        answer::is_redirection,
        file::{RequestTable, Scalar, ScenarioFile, Statuses},
    },
};

/// A shorter pause belongs to loading a page, not to a person.
const PAUSE_SECONDS_MIN: f64 = 0.5;
/// Longer pauses are cut.
const PAUSE_SECONDS_MAX: f64 = 600.0;
/// Fields that belong to the connection, the cookies or the browser's cache.
const FIELDS_LEFT_OUT: [&str; 12] = [
    "host",
    "cookie",
    "connection",
    "content-length",
    "transfer-encoding",
    "accept-encoding",
    "if-none-match",
    "if-modified-since",
    "keep-alive",
    "te",
    "upgrade",
    "proxy-connection",
];

#[derive(Deserialize)]
struct Archive {
    log: Log,
}

#[derive(Deserialize)]
struct Log {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    started_date_time: String,
    #[serde(default)]
    time: f64,
    request: Request,
    response: Response,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    method: String,
    url: String,
    #[serde(default)]
    headers: Vec<Field>,
    post_data: Option<PostData>,
}

#[derive(Deserialize)]
struct Response {
    #[serde(default)]
    status: i64,
    /// What the Location field says.
    #[serde(default, rename = "redirectURL")]
    redirect_url: Option<String>,
}

#[derive(Deserialize)]
struct Field {
    name: String,
    value: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PostData {
    #[serde(default)]
    mime_type: String,
    text: Option<String>,
    #[serde(default)]
    params: Vec<Param>,
}

#[derive(Deserialize)]
struct Param {
    name: String,
    value: Option<String>,
}

/// Returns true if a file is a HAR recording rather than a scenario.
pub fn is_har(text: &str) -> bool {
    #[derive(Deserialize)]
    struct Outermost {
        log: Option<serde::de::IgnoredAny>,
    }
    // What is no JSON is a broken recording: people write their scenarios as TOML.
    is_json(text) && serde_json::from_str::<Outermost>(text).map_or(true, |outermost| outermost.log.is_some())
}

pub fn is_json(text: &str) -> bool {
    text.trim_start_matches('\u{feff}').trim_start().starts_with('{')
}

/// The scenario of the requests to `host`, and sentences about what was left out.
pub fn read(text: &str, host: &str) -> Result<(ScenarioFile, Vec<String>), String> {
    let archive: Archive = serde_json::from_str(text.trim_start_matches('\u{feff}'))
        .map_err(|error| format!("not a HAR file: {error}"))?;
    let mut entries: Vec<(f64, Entry)> = Vec::new();
    for entry in archive.log.entries {
        let began = seconds(&entry.started_date_time)
            .ok_or_else(|| format!("{:?} is not a time", entry.started_date_time))?;
        entries.push((began, entry));
    }
    entries.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let mut warnings = Vec::new();
    let is_of_host = entries.iter().any(|(_, entry)| path_on(&entry.request.url, host).is_some());
    // A recording of the live site is made at a copy of it, which has another name.
    let recorded = entries.first().filter(|_| !is_of_host).and_then(|(_, first)| host_of(&first.request.url));
    let host = match &recorded {
        Some(recorded) => {
            warnings.push(format!("the recording is of {recorded}; its requests will go to {host}"));
            recorded.as_str()
        }
        None => host,
    };
    let (mut request, mut others, mut redirects) = (Vec::<RequestTable>::new(), 0, Redirects::default());
    let mut answered_before: Option<f64> = None;
    for (began, entry) in entries {
        let Some(path) = path_on(&entry.request.url, host) else {
            others += 1;
            continue;
        };
        // The recording includes the targets of redirects, which users follow by themselves.
        let follows = redirects.lead_to(&entry.request.url, host);
        redirects.add(&entry, host);
        if !follows {
            let pause = answered_before.map_or(0.0, |before| began - before);
            if let Some(before) = request.last_mut().filter(|_| pause >= PAUSE_SECONDS_MIN) {
                before.think = Some(format!("{:.3}s", pause.min(PAUSE_SECONDS_MAX)));
            }
            request.push(table(path, entry.request, entry.response.status));
        }
        answered_before = Some(answered_before.unwrap_or(0.0).max(began + entry.time.max(0.0) / 1e3));
    }
    if request.is_empty() {
        return Err(format!("the recording has no request to {host}"));
    }
    // Without a pause of its own, a request follows immediately.
    for request in &mut request {
        request.think.get_or_insert_with(|| "0s".to_owned());
    }
    let left_out =
        format!("{others} requests of the recording are to other hosts than {host} and are left out");
    warnings.extend((others > 0).then_some(left_out));
    Ok((ScenarioFile { request, ..ScenarioFile::default() }, warnings))
}

/// The targets of redirects whose requests are still to come.
#[derive(Default)]
struct Redirects {
    /// Paths and queries on the recorded host.
    targets: Vec<String>,
    /// True after a redirect without a target: it is taken to lead to the host's next request.
    to_next: bool,
}

impl Redirects {
    /// Notes where the answer to a request of the host leads, if it is a redirect.
    fn add(&mut self, entry: &Entry, host: &str) {
        if !u16::try_from(entry.response.status).is_ok_and(is_redirection) {
            return;
        }
        match entry.response.redirect_url.as_deref().filter(|link| !link.is_empty()) {
            Some(link) => self.targets.extend(target_on(link, &entry.request.url, host)),
            None => self.to_next = true,
        }
    }

    /// Returns true if a request of the host comes from a redirect, which is then over.
    fn lead_to(&mut self, url: &str, host: &str) -> bool {
        let own = target_on(url, url, host);
        match self.targets.iter().position(|target| own.as_ref() == Some(target)) {
            Some(at) => {
                self.targets.remove(at);
                true
            }
            None => mem::take(&mut self.to_next),
        }
    }
}

fn table(path: String, request: Request, status: i64) -> RequestTable {
    let escaped = |text: String| text.replace("${", "$${");
    let is_kept = |field: &Field| {
        !field.name.starts_with(':')
            && !FIELDS_LEFT_OUT.iter().any(|name| field.name.eq_ignore_ascii_case(name))
    };
    let mut headers: BTreeMap<String, String> = BTreeMap::new();
    for field in request.headers.into_iter().filter(is_kept) {
        headers.insert(field.name.to_ascii_lowercase(), escaped(field.value));
    }
    let (mut form, mut body) = (None, None);
    if let Some(sent) = request.post_data {
        let is_form =
            sent.mime_type.starts_with("application/x-www-form-urlencoded") && !sent.params.is_empty();
        match sent.text.filter(|text| !text.is_empty()) {
            None if is_form => {
                headers.remove("content-type");
                let value = |param: Param| {
                    (escaped(param.name), Scalar::Text(escaped(param.value.unwrap_or_default())))
                };
                form = Some(sent.params.into_iter().map(value).collect());
            }
            None => {}
            Some(text) => {
                if !sent.mime_type.is_empty() {
                    headers.entry("content-type".to_owned()).or_insert_with(|| escaped(sent.mime_type));
                }
                body = Some(escaped(text));
            }
        }
    }
    // A recorded success must succeed again; a 304 came from the browser's cache.
    let status = match status {
        400..=599 => Some(Statuses::One(Scalar::Whole(status))),
        _ => None,
    };
    RequestTable {
        name: Some(format!("{} {}", request.method, path.split('?').next().unwrap_or_default())),
        url: escaped(path),
        method: Some(request.method),
        headers,
        form,
        body,
        status,
        ..RequestTable::default()
    }
}

fn host_of(url: &str) -> Option<String> {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"))?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    (end > 0).then(|| rest[..end].to_owned())
}

/// The path and query of a URL of this host.
fn path_on(url: &str, host: &str) -> Option<String> {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"))?;
    let rest = rest.split('#').next().unwrap_or_default();
    let (own, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let name = |host: &str| match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name.to_ascii_lowercase(),
        _ => host.to_ascii_lowercase(),
    };
    if name(own) != name(host) {
        return None;
    }
    Some(if path.starts_with('/') { path.to_owned() } else { format!("/{path}") })
}

/// The path and query to which a link leads from a URL of this host, as requests have them; `None` for another host.
fn target_on(link: &str, from: &str, host: &str) -> Option<String> {
    let resolved = |base: &str| {
        let (scheme, _) = base.split_once("://")?;
        match reference::resolve(link, scheme, &host_of(base)?, &path_on(base, host)?) {
            Place::Here(path) => Some(path),
            Place::Elsewhere => None,
        }
    };
    // The host's other ports, and https, count as the host.
    resolved(from).or_else(|| resolved(link))
}

/// Parses `2026-11-21T10:00:00.123+01:00` to seconds since 1970.
fn seconds(text: &str) -> Option<f64> {
    let date = text.parse::<toml::value::Datetime>().ok()?;
    let (day, time) = (date.date?, date.time?);
    let offset_minutes = match date.offset? {
        toml::value::Offset::Z => 0,
        toml::value::Offset::Custom { minutes } => minutes,
    };
    let days = crate::http::cookie_date::days_since_1970(
        u32::from(day.year),
        u32::from(day.month),
        u32::from(day.day),
    );
    let seconds =
        u32::from(time.hour) * 3600 + u32::from(time.minute) * 60 + u32::from(time.second.unwrap_or(0));
    let fraction = f64::from(time.nanosecond.unwrap_or(0)) / 1e9;
    Some(days as f64 * 86_400.0 + f64::from(seconds) + fraction - 60.0 * f64::from(offset_minutes))
}
