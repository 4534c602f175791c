//! Who may see the films: a file with a line `user:realm:secret` each, as `htdigest` writes it.
//!
//! A secret is the hash of `user:realm:password`: 32 hexadecimal digits by MD5, 64 by SHA-256. A user may have both.

use std::collections::HashMap;

use thiserror::Error;

use sojourn_media::rtsp::digest::Algorithm;

/// Longer names and realms are refused: they are repeated in every request.
const NAME_BYTES_MAX: usize = 128;

/// Users and the hashes of their passwords, all of one realm.
#[derive(Clone)]
pub struct Users {
    realm: String,
    secrets: HashMap<(String, &'static str), String>,
}

/// Why a file is none of users.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UsersError {
    /// Nobody is in it.
    #[error("nobody is named in it")]
    Nobody,
    /// A line is no `user:realm:secret`.
    #[error(
        "line {0} is not user:realm:secret, the secret a hash of 32 (MD5) or 64 (SHA-256) hexadecimal digits"
    )]
    Line(usize),
    /// A line has another realm than the first.
    #[error("line {0} has another realm than the first line: they must have one")]
    Realm(usize),
    /// A user has two secrets of a kind.
    #[error("line {0} has a user with the same kind of secret as an earlier line")]
    Twice(usize),
}

impl std::fmt::Debug for Users {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} secrets of users of {:?}", self.secrets.len(), self.realm)
    }
}

impl Users {
    /// The users that `text` names. Empty lines and those that begin with `#` say nothing.
    ///
    /// # Errors
    /// If a line is malformed or contradicts another, or nobody is named.
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

    /// What the users have in common: clients show it when they ask for a password.
    pub fn realm(&self) -> &str {
        &self.realm
    }

    /// The secret of `user` for `algorithm`.
    pub fn secret(&self, user: &str, algorithm: Algorithm) -> Option<&str> {
        self.secrets.get(&(user.to_owned(), algorithm.name())).map(String::as_str)
    }

    /// The algorithms for which anybody has a secret, in the order in which they are offered.
    pub fn algorithms(&self) -> impl Iterator<Item = Algorithm> {
        let is_used = |algorithm: &Algorithm| self.secrets.keys().any(|(_, name)| *name == algorithm.name());
        Algorithm::ALL.into_iter().filter(is_used)
    }
}

/// The parts of a line, if they may be in a field of a message.
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
