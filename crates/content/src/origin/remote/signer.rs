//! Signs requests with credentials that are renewed before they expire.
//!
//! When credentials are due, a thread fetches new ones while the old ones are used as long as they are valid. Signing for
//! an event loop never waits. A thread that may wait does so once they have expired: a process that was forked for a
//! single connection would end before it had new ones.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::ClientConfig;
use sojourn_http::upstream::RequestKind;
use sojourn_http::{HttpDate, head};
use sojourn_s3::credentials::CredentialsError;
use sojourn_s3::{Credentials, Profiles, Source};

use super::client::{Client, ClientError, Timeouts};

/// Credentials are renewed this long before they expire.
const RENEWED_BEFORE: u64 = 5 * 60;

/// The pause after a failed attempt.
const RETRIED_AFTER: u64 = 10;

/// Static credentials of a file are read again this often, because another program may have renewed them.
const FILE_READ_AFTER: u64 = 60;

/// The limit of an answer with credentials.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// A service with credentials is near, or must be; its part-timeout bounds a start without credentials.
const TIMEOUTS: Timeouts =
    Timeouts { connect: Duration::from_secs(2), head: Duration::from_secs(5), part: Duration::from_secs(5) };

/// How long a request waits for credentials.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// How long a session token of the metadata service is valid, in seconds: the longest possible.
const METADATA_TOKEN_SECONDS: &str = "21600";

/// Where the shared files of profiles are.
#[derive(Clone, Debug, Default)]
pub struct SharedFiles {
    pub config: PathBuf,
    pub credentials: PathBuf,
}

impl SharedFiles {
    /// What both files say now; a missing file says nothing.
    pub fn read(&self) -> Profiles {
        let text = |path| std::fs::read_to_string(path).unwrap_or_default();
        Profiles::parse(&text(&self.config), &text(&self.credentials))
    }
}

/// Where credentials come from.
#[derive(Debug)]
pub struct Provider {
    pub source: Source,
    pub files: SharedFiles,
    /// For services that use https.
    pub tls: Option<Arc<ClientConfig>>,
}

/// The credentials of a bucket, and its region.
#[derive(Debug)]
pub struct Signer {
    region: String,
    provider: Arc<Provider>,
    current: Arc<RwLock<Arc<Credentials>>>,
    /// When to fetch new ones, in seconds since 1970.
    due: Arc<AtomicU64>,
    fetching: Arc<Fetching>,
    waits: AtomicBool,
    last_failure: Arc<Mutex<Option<String>>>,
}

/// Whether a thread fetches credentials.
#[derive(Debug, Default)]
struct Fetching {
    is_running: Mutex<bool>,
    ended: Condvar,
}

/// Now, as HTTP dates count: signatures contain the time of day.
pub fn unix_now() -> HttpDate {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    HttpDate::from_seconds(i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

impl Signer {
    /// Fetches credentials and waits for them.
    ///
    /// # Errors
    /// Why there are none.
    pub fn new(region: String, provider: Provider) -> Result<Signer, String> {
        let credentials = provider.fetch()?;
        let due = AtomicU64::new(provider.due(&credentials, unix_now()));
        Ok(Signer {
            region,
            provider: Arc::new(provider),
            current: Arc::new(RwLock::new(Arc::new(credentials))),
            due: Arc::new(due),
            fetching: Arc::default(),
            waits: AtomicBool::new(false),
            last_failure: Arc::default(),
        })
    }

    /// Lets signing wait for new credentials once the present ones have expired, because each process that signs serves a
    /// single connection at a time.
    pub fn let_wait(&self) {
        self.waits.store(true, Ordering::Relaxed);
    }

    /// Waits for new credentials if the present ones have expired, unless the last attempt has just failed.
    pub fn wait_until_valid(&self) {
        let now = unix_now();
        if self.credentials().expires.is_none_or(|expires| expires > now) {
            return;
        }
        if now.seconds() >= self.due.load(Ordering::Relaxed) {
            self.renew();
        }
        let is_running = self.fetching.is_running.lock().unwrap_or_else(PoisonError::into_inner);
        // Its outcome is seen by whoever signs.
        drop(self.fetching.ended.wait_timeout_while(is_running, WAIT_MAX, |is_running| *is_running));
    }

    fn credentials(&self) -> Arc<Credentials> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Appends the field lines that sign a request without a body; see [`sojourn_s3::sign`].
    ///
    /// # Errors
    /// If the credentials have expired and there are no new ones yet.
    pub fn sign(
        &self,
        (method, path): (&str, &str),
        host: &str,
        fields: &[(&str, &str)],
        now: HttpDate,
        head: &mut Vec<u8>,
    ) -> Result<(), String> {
        if now.seconds() >= self.due.load(Ordering::Relaxed) {
            self.renew();
        }
        if self.waits.load(Ordering::Relaxed) {
            self.wait_until_valid();
        }
        let credentials = self.credentials();
        if credentials.expires.is_some_and(|expires| expires <= now) {
            let why = self.last_failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
            return Err(format!(
                "the credentials have expired: {}",
                why.as_deref().unwrap_or("new ones are on their way")
            ));
        }
        sojourn_s3::sign((method, path, ""), host, fields, (now, &self.region), &credentials, head);
        Ok(())
    }

    /// Fetches new credentials if a store's error code says that they are at fault; returns whether it does.
    pub fn renew_if_refused(&self, code: &str) -> bool {
        let are_at_fault = ["ExpiredToken", "InvalidToken", "InvalidAccessKeyId"].contains(&code);
        if are_at_fault {
            self.renew();
        }
        are_at_fault
    }

    /// Fetches new credentials in a thread, unless one does already.
    fn renew(&self) {
        if matches!(self.provider.source, Source::Environment(_)) || self.fetching.begin() {
            return;
        }
        let (provider, current) = (Arc::clone(&self.provider), Arc::clone(&self.current));
        let (due, fetching) = (Arc::clone(&self.due), Arc::clone(&self.fetching));
        let last_failure = Arc::clone(&self.last_failure);
        let fetch = move || {
            let (now, fetched) = (unix_now(), provider.fetch());
            let next = match &fetched {
                Ok(credentials) => provider.due(credentials, now),
                Err(_) => now.seconds() + RETRIED_AFTER,
            };
            due.store(next, Ordering::Relaxed);
            let failure = match fetched {
                Ok(credentials) => {
                    *current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(credentials);
                    None
                }
                Err(why) => Some(why),
            };
            *last_failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
            fetching.end();
        };
        if std::thread::Builder::new().name("credentials".to_owned()).spawn(fetch).is_err() {
            self.fetching.end();
        }
    }
}

impl Fetching {
    /// Begins to fetch; returns whether a thread did already.
    fn begin(&self) -> bool {
        std::mem::replace(&mut self.is_running.lock().unwrap_or_else(PoisonError::into_inner), true)
    }

    fn end(&self) {
        *self.is_running.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.ended.notify_all();
    }
}

impl Provider {
    /// When credentials fetched at `now` must be fetched again.
    fn due(&self, credentials: &Credentials, now: HttpDate) -> u64 {
        match (&self.source, credentials.expires) {
            (Source::Profile(_), None) => now.seconds() + FILE_READ_AFTER,
            (_, None) => u64::MAX,
            (_, Some(expires)) => {
                let left = expires.seconds().saturating_sub(now.seconds());
                // Short-lived ones are renewed in the middle of their life.
                now.seconds() + left.saturating_sub(RENEWED_BEFORE).max(left / 2).max(1)
            }
        }
    }

    fn fetch(&self) -> Result<Credentials, String> {
        self.attempt().map_err(|why| format!("no credentials from {}: {why}", self.source.name()))
    }

    fn attempt(&self) -> Result<Credentials, String> {
        match &self.source {
            Source::Environment(credentials) => Ok(credentials.clone()),
            Source::Profile(name) => self
                .files
                .read()
                .credentials(name)
                .map_err(|error| error.to_string())?
                .ok_or_else(|| "they are no longer there".to_owned()),
            Source::WebIdentity { token_file, role, session, endpoint } => {
                let token =
                    std::fs::read_to_string(token_file).map_err(|error| format!("{token_file}: {error}"))?;
                let encoded = |text: &str| {
                    let mut all = String::new();
                    sojourn_http::path::percent_encode(text.as_bytes(), &mut all);
                    all.replace('/', "%2F")
                };
                let body = format!(
                    "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn={}&RoleSessionName={}&WebIdentityToken={}",
                    encoded(role),
                    encoded(session),
                    encoded(token.trim())
                );
                let form = [("Content-Type", "application/x-www-form-urlencoded")];
                let (status, text) = self.ask(endpoint, "POST", "/", &form, &body)?;
                let credentials = Credentials::of_sts(&text);
                credentials.map_err(|error| of_status(status, &error))
            }
            Source::Container { url, authorization, authorization_file } => {
                let authorization = match authorization_file {
                    Some(file) => {
                        Some(std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?)
                    }
                    None => authorization.clone(),
                };
                let fields: Vec<_> =
                    authorization.iter().map(|value| ("Authorization", value.trim())).collect();
                if fields.iter().any(|(_, value)| !value.bytes().all(|byte| (b' '..0x7f).contains(&byte))) {
                    return Err("the authorization token has characters that no field may have".to_owned());
                }
                let after_scheme = url.find("://").map_or(0, |at| at + 3);
                let slash = url[after_scheme..].find('/').map_or(url.len(), |at| after_scheme + at);
                let path = if slash == url.len() { "/" } else { &url[slash..] };
                let (status, text) = self.ask(&url[..slash], "GET", path, &fields, "")?;
                Credentials::of_json(text.as_bytes()).map_err(|error| of_status(status, &error))
            }
            Source::Instance { endpoint } => {
                const ROLES: &str = "/latest/meta-data/iam/security-credentials/";
                let seconds = [("X-aws-ec2-metadata-token-ttl-seconds", METADATA_TOKEN_SECONDS)];
                let (status, token) = self.ask(endpoint, "PUT", "/latest/api/token", &seconds, "")?;
                let token = token.trim();
                if status != 200 || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                    return Err(format!("it answers {status} to the request for a session token"));
                }
                let token = [("X-aws-ec2-metadata-token", token)];
                let (status, role) = self.ask(endpoint, "GET", ROLES, &token, "")?;
                let role = role.lines().next().unwrap_or_default().trim();
                if status != 200 || role.is_empty() || !role.bytes().all(|byte| byte.is_ascii_graphic()) {
                    return Err(format!("this instance has no role ({status})"));
                }
                let (status, text) = self.ask(endpoint, "GET", &format!("{ROLES}{role}"), &token, "")?;
                Credentials::of_json(text.as_bytes()).map_err(|error| of_status(status, &error))
            }
        }
    }

    fn ask(
        &self,
        server: &str,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        body: &str,
    ) -> Result<(u16, String), String> {
        let client = Client::new(server, self.tls.as_ref(), TIMEOUTS, 0)?;
        let mut request = format!("{method} {path} HTTP/1.1\r\n").into_bytes();
        head::field(&mut request, "Host", client.authority());
        head::field(&mut request, "Accept", "*/*");
        for (name, value) in fields {
            head::field(&mut request, name, value);
        }
        if method != "GET" {
            head::content_length(&mut request, body.len() as u64);
        }
        request.extend_from_slice(b"\r\n");
        request.extend_from_slice(body.as_bytes());
        let answer = || -> Result<(u16, String), ClientError> {
            let exchange = client.send(&request, RequestKind::Other)?;
            Ok((exchange.status, exchange.text_body(ANSWER_BYTES_MAX)?))
        };
        answer().map_err(|error| match error {
            ClientError::Timeout(_) => "it does not answer".to_owned(),
            error => error.to_string(),
        })
    }
}

fn of_status(status: u16, error: &CredentialsError) -> String {
    if status == 200 { error.to_string() } else { format!("it answers {status}: {error}") }
}
