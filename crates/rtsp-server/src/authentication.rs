//! Digest authentication of requests.
//!
//! Each connection has its own nonce, so a captured response is worthless on another connection; request counting (nc)
//! protects from replay on the same one. An unknown user and a wrong password take the same time and get the same
//! answer.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use rustix::rand::{GetRandomFlags, getrandom};
use sojourn_media::rtsp::digest::{Algorithm, Credentials};
use sojourn_media::rtsp::{Method, Refusal, Request, Status, Target};
use sojourn_server::network;
use thiserror::Error;

/// An unused nonce expires after this time; a player sends something at least every half session timeout.
const NONCE_LIFETIME: Duration = Duration::from_secs(300);

/// Failed attempts from one address (IPv6: one /64 network) within a period, before further ones are ignored.
const FAILURES_MAX: u32 = 10;
const FAILURES_PERIOD: Duration = Duration::from_secs(60);

/// The most addresses whose failures are remembered; beyond that, all are forgotten.
const ADDRESSES_MAX: usize = 16 * 1024;

const NONCE_DIGITS: usize = 32;

/// The users, and recent failures by address.
#[derive(Debug)]
pub struct Authenticator {
    users: Users,
    /// Compared with the credentials of unknown users, so that these take as long.
    decoy: String,
    failures: HashMap<(bool, u64), Failures>,
}

#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    since: Duration,
}

/// A connection's nonce and authenticated user.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    pub user: Option<String>,
    nonce: Option<Nonce>,
}

#[derive(Clone, Debug)]
struct Nonce {
    text: String,
    /// When it was created or last used.
    used: Duration,
    /// The last request counter; `None` if the nonce was never used.
    count: Option<u32>,
}

/// Why a request is not authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denial {
    /// Without credentials, or with an expired nonce.
    Asked(Refusal),
    /// The user name or password is wrong.
    Failed(Refusal),
    /// Too many failures: the credentials were not checked.
    Limited(Refusal),
}

impl Denial {
    /// The answer to the client.
    pub fn into_refusal(self) -> Refusal {
        match self {
            Denial::Asked(refusal) | Denial::Failed(refusal) | Denial::Limited(refusal) => refusal,
        }
    }
}

impl Authenticator {
    /// Authenticates `users`.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub fn new(users: Users) -> Result<Authenticator, Status> {
        Ok(Authenticator { users, decoy: random_text()?, failures: HashMap::new() })
    }

    /// Returns true if the method needs no authentication: OPTIONS before a session.
    fn is_free(request: &Request<'_>) -> bool {
        request.method == Method::Options && request.fields.value("Session").is_none()
    }

    /// Authenticates `request` of a client at `peer`; its connection's `identity` then has the user.
    ///
    /// # Errors
    /// If it has no valid credentials.
    pub fn check(
        &mut self,
        request: &Request<'_>,
        peer: IpAddr,
        identity: &mut Identity,
        now: Duration,
    ) -> Result<(), Denial> {
        if Authenticator::is_free(request) {
            return Ok(());
        }
        let Some(field) = request.fields.value("Authorization") else {
            return Err(Denial::Asked(self.challenge(identity, false, now)));
        };
        if let Some(left) = self.time_left(peer, identity, now) {
            let fields = vec![("Retry-After", left.as_secs().max(1).to_string())];
            return Err(Denial::Limited(Refusal { status: Status::ServiceUnavailable, fields }));
        }
        let claim = Credentials::parse(field).filter(|claim| self.verify(claim, request));
        let Some(claim) = claim else {
            self.note_failure(peer, now);
            return Err(Denial::Failed(self.challenge(identity, false, now)));
        };
        if !identity.uses(&claim, now) {
            return Err(Denial::Asked(self.challenge(identity, true, now)));
        }
        identity.user = Some(claim.user);
        Ok(())
    }

    /// Returns true if the credentials prove a known user for this film. Unknown users take as long to check.
    fn verify(&self, claim: &Credentials, request: &Request<'_>) -> bool {
        let known = self.users.secret(&claim.user, claim.algorithm);
        let proves = claim.verify(known.unwrap_or(&self.decoy), request.method.name());
        let path = |target| Target::parse(target).map(|target| target.path);
        // For a track, some players use the film's URL in the credentials.
        let is_same = path(&claim.uri).is_ok_and(|asked| path(request.target) == Ok(asked));
        proves && known.is_some() && claim.realm == self.users.realm() && is_same
    }

    /// A 401 with a challenge.
    fn challenge(&self, identity: &mut Identity, is_stale: bool, now: Duration) -> Refusal {
        let nonce = match identity.offer(now) {
            Ok(nonce) => nonce,
            Err(status) => return status.into(),
        };
        let stale = if is_stale { ", stale=true" } else { "" };
        let field = |algorithm: Algorithm| {
            let (realm, name) = (self.users.realm(), algorithm.name());
            let value =
                format!("Digest realm=\"{realm}\", nonce=\"{nonce}\", algorithm={name}, qop=\"auth\"{stale}");
            ("WWW-Authenticate", value)
        };
        Refusal { status: Status::Unauthorized, fields: self.users.algorithms().map(field).collect() }
    }

    /// How long credentials from `peer` stay unchecked after too many failures; authenticated users are exempt.
    fn time_left(&self, peer: IpAddr, identity: &Identity, now: Duration) -> Option<Duration> {
        let failures = self.failures.get(&network(peer)).filter(|_| identity.user.is_none())?;
        let left = (failures.since + FAILURES_PERIOD).checked_sub(now)?;
        (failures.count >= FAILURES_MAX && !left.is_zero()).then_some(left)
    }

    fn note_failure(&mut self, peer: IpAddr, now: Duration) {
        let is_over = |failures: &Failures| now.saturating_sub(failures.since) >= FAILURES_PERIOD;
        if self.failures.len() >= ADDRESSES_MAX {
            self.failures.retain(|_, failures| !is_over(failures));
        }
        if self.failures.len() >= ADDRESSES_MAX {
            self.failures.clear();
        }
        let none = Failures { count: 0, since: now };
        let failures = self.failures.entry(network(peer)).or_insert(none);
        if is_over(failures) {
            *failures = none;
        }
        failures.count += 1;
    }
}

impl Identity {
    /// The nonce for a challenge; an unused one is offered again.
    fn offer(&mut self, now: Duration) -> Result<&str, Status> {
        let is_good = |nonce: &Nonce| nonce.count.is_none() && nonce.is_fresh(now);
        let nonce = match self.nonce.take().filter(is_good) {
            Some(nonce) => nonce,
            None => Nonce { text: random_text()?, used: now, count: None },
        };
        Ok(&self.nonce.insert(nonce).text)
    }

    /// Returns true if the valid credentials use this connection's nonce and were not used before.
    fn uses(&mut self, claim: &Credentials, now: Duration) -> bool {
        let Some(nonce) = self.nonce.as_mut().filter(|it| it.text == claim.nonce && it.is_fresh(now)) else {
            return false;
        };
        let count = match (claim.nonce_count.is_some(), claim.count()) {
            (true, Some(count)) if nonce.count.is_none_or(|before| count > before) => count,
            (true, _) => return false,
            (false, _) => nonce.count.unwrap_or(0),
        };
        (nonce.count, nonce.used) = (Some(count), now);
        true
    }
}

impl Nonce {
    fn is_fresh(&self, now: Duration) -> bool {
        now.saturating_sub(self.used) < NONCE_LIFETIME
    }
}

fn random_text() -> Result<String, Status> {
    let mut text = String::with_capacity(NONCE_DIGITS);
    while text.len() < NONCE_DIGITS {
        text += &format!("{:016x}", random()?);
    }
    Ok(text)
}

/// Longer names and realms are refused, because every request repeats them.
const NAME_BYTES_MAX: usize = 128;

/// Users and their password hashes, all of one realm.
#[derive(Clone)]
pub struct Users {
    realm: String,
    secrets: HashMap<(String, &'static str), String>,
}

/// Why a users file is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UsersError {
    #[error("it contains no users")]
    Nobody,
    /// A line is not `user:realm:secret`.
    #[error("line {0} is not user:realm:hash, with a hash of 32 (MD5) or 64 (SHA-256) hexadecimal digits")]
    Line(usize),
    /// A line has a different realm than the first.
    #[error("line {0} has a different realm than line 1: all users must share one realm")]
    Realm(usize),
    /// A user has two hashes of a kind.
    #[error("line {0} repeats a user of an earlier line with the same kind of hash")]
    Twice(usize),
}

impl std::fmt::Debug for Users {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} secrets of users of {:?}", self.secrets.len(), self.realm)
    }
}

impl Users {
    /// Parses the users file. Empty lines and those that begin with `#` are ignored.
    ///
    /// # Errors
    /// If a line is malformed or contradicts another, or there are no users.
    pub fn parse(text: &str) -> Result<Users, UsersError> {
        let mut users: Option<Users> = None;
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (user, realm, secret) = parts(line).ok_or(UsersError::Line(number))?;
            let algorithm = Algorithm::ALL.into_iter().find(|algorithm| algorithm.digits() == secret.len());
            let algorithm = algorithm.ok_or(UsersError::Line(number))?;
            let users =
                users.get_or_insert_with(|| Users { realm: realm.to_owned(), secrets: HashMap::new() });
            if users.realm != realm {
                return Err(UsersError::Realm(number));
            }
            let key = (user.to_owned(), algorithm.name());
            if users.secrets.insert(key, secret.to_ascii_lowercase()).is_some() {
                return Err(UsersError::Twice(number));
            }
        }
        users.ok_or(UsersError::Nobody)
    }

    /// The realm, which clients show when they ask for a password.
    pub fn realm(&self) -> &str {
        &self.realm
    }

    /// The password hash of `user` for `algorithm`.
    pub fn secret(&self, user: &str, algorithm: Algorithm) -> Option<&str> {
        self.secrets.get(&(user.to_owned(), algorithm.name())).map(String::as_str)
    }

    /// The algorithms for which any user has a hash, in the order in which they are offered.
    pub fn algorithms(&self) -> impl Iterator<Item = Algorithm> {
        let is_used = |algorithm: &Algorithm| self.secrets.keys().any(|(_, name)| *name == algorithm.name());
        Algorithm::ALL.into_iter().filter(is_used)
    }
}

/// The parts of a line, if they are valid in a message field.
fn parts(line: &str) -> Option<(&str, &str, &str)> {
    let (user, rest) = line.split_once(':')?;
    let (realm, secret) = rest.rsplit_once(':')?;
    let is_text = |text: &str| {
        let is_plain = |letter: char| !letter.is_control() && letter != '"' && letter != '\\';
        !text.is_empty() && text.len() <= NAME_BYTES_MAX && text.trim() == text && text.chars().all(is_plain)
    };
    let is_hash = secret.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_text(user) && is_text(realm) && is_hash).then_some((user, realm, secret))
}

pub fn random() -> Result<u64, Status> {
    let mut bytes = [0; 8];
    getrandom(&mut bytes, GetRandomFlags::empty()).map_err(|_| Status::InternalServerError)?;
    Ok(u64::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_both_kinds() {
        let md5 = Algorithm::Md5.secret("ann", "films: all", "x");
        let sha256 = Algorithm::Sha256.secret("ann", "films: all", "x");
        let text = format!("# who\n\nann:films: all:{}\nann:films: all:{sha256}\n", md5.to_uppercase());
        let users = Users::parse(&text).unwrap();
        assert_eq!(users.realm(), "films: all");
        assert_eq!(users.secret("ann", Algorithm::Md5), Some(md5.as_str()));
        assert_eq!(users.secret("ann", Algorithm::Sha256), Some(sha256.as_str()));
        assert_eq!(users.secret("bob", Algorithm::Md5), None);
        assert_eq!(users.algorithms().collect::<Vec<_>>(), Algorithm::ALL);
        assert!(!format!("{users:?}").contains(&md5));
        let one = Users::parse(&format!("ann:f:{md5}")).unwrap();
        assert_eq!(one.algorithms().collect::<Vec<_>>(), [Algorithm::Md5]);
    }

    #[test]
    fn what_is_no_file_of_users() {
        let hash = "0".repeat(32);
        for (text, error) in [
            ("# nobody\n".to_owned(), UsersError::Nobody),
            ("ann:films:secret".to_owned(), UsersError::Line(1)),
            ("\nann:films".to_owned(), UsersError::Line(2)),
            (format!(":films:{hash}"), UsersError::Line(1)),
            (format!("a\"b:films:{hash}"), UsersError::Line(1)),
            (format!("{}:films:{hash}", "a".repeat(200)), UsersError::Line(1)),
            (format!("a:films:{hash}\nb:others:{hash}"), UsersError::Realm(2)),
            (format!("a:films:{hash}\na:films:{hash}"), UsersError::Twice(2)),
        ] {
            assert_eq!(Users::parse(&text).unwrap_err(), error, "{text}");
        }
    }
}
