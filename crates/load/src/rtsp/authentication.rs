//! Responses to authentication challenges: Digest (RFC 7616, and RFC 2069 for old servers) and Basic.

use base64::{Engine, engine::general_purpose::STANDARD};
use sojourn_media::rtsp::digest::{Algorithm, parameter};

/// A user name and password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub user: String,
    pub password: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Credentials of {:?}", self.user)
    }
}

/// A server's challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Challenge {
    /// Basic authentication: name and password in clear text.
    Basic,
    Digest(DigestChallenge),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DigestChallenge {
    realm: String,
    nonce: String,
    opaque: Option<String>,
    algorithm: Algorithm,
    /// True if requests are counted (`qop=auth`).
    counts: bool,
    is_stale: bool,
    count: u32,
}

impl Challenge {
    /// Parses a WWW-Authenticate field; `None` for unknown schemes.
    pub fn read(field: &str) -> Option<Challenge> {
        let (scheme, rest) = field.trim().split_once(' ').unwrap_or((field.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Challenge::Basic);
        }
        if !scheme.eq_ignore_ascii_case("digest") {
            return None;
        }
        let value = |name: &str| parameter(rest, name);
        let algorithm = Algorithm::named(value("algorithm").as_deref())?;
        Some(Challenge::Digest(DigestChallenge {
            realm: value("realm")?,
            nonce: value("nonce")?,
            opaque: value("opaque"),
            algorithm,
            counts: value("qop").is_some_and(|all| all.split(',').any(|each| each.trim() == "auth")),
            is_stale: value("stale").is_some_and(|stale| stale.eq_ignore_ascii_case("true")),
            count: 0,
        }))
    }

    /// Returns true if only the nonce has expired.
    pub fn is_stale(&self) -> bool {
        matches!(self, Challenge::Digest(digest) if digest.is_stale)
    }

    /// The value of an Authorization field.
    pub fn answer(&mut self, credentials: &Credentials, method: &str, url: &str) -> String {
        let Credentials { user, password } = credentials;
        match self {
            Challenge::Basic => format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))),
            Challenge::Digest(digest) => digest.answer(user, password, method, url),
        }
    }
}

impl DigestChallenge {
    fn answer(&mut self, user: &str, password: &str, method: &str, url: &str) -> String {
        self.count += 1;
        let DigestChallenge { realm, nonce, algorithm, .. } = &*self;
        let secret = algorithm.secret(user, realm, password);
        // The client nonce need not be random: it protects against servers that choose nonces to break passwords.
        let (count, own) = (format!("{:08x}", self.count), "736f6a6f75726e");
        let counted = self.counts.then_some((count.as_str(), own));
        let response = algorithm.response(&secret, nonce, counted, method, url);
        let mut field = format!(
            "Digest username=\"{user}\", realm=\"{realm}\", nonce=\"{nonce}\", uri=\"{url}\", response=\"{response}\""
        );
        if *algorithm == Algorithm::Sha256 {
            field += ", algorithm=SHA-256";
        }
        if self.counts {
            field += &format!(", qop=auth, nc={count}, cnonce=\"{own}\"");
        }
        if let Some(opaque) = &self.opaque {
            field += &format!(", opaque=\"{opaque}\"");
        }
        field
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(challenge: &str, user: &str, password: &str, method: &str, url: &str) -> String {
        let credentials = Credentials { user: user.into(), password: password.into() };
        Challenge::read(challenge).unwrap().answer(&credentials, method, url)
    }

    #[test]
    fn digests_are_those_of_the_standards() {
        // The example of RFC 2617 without request counting, as in RFC 2069.
        let plain = "Digest realm=\"testrealm@host.com\", nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\", opaque=\"x, y\"";
        let found = answer(plain, "Mufasa", "Circle Of Life", "GET", "/dir/index.html");
        assert!(found.contains("response=\"670fd8c2df070c60b045671b8b24ff02\""), "{found}");
        assert!(found.ends_with("opaque=\"x, y\""), "{found}");
    }

    #[test]
    fn answers_that_count_requests_count_them() {
        let mut challenge =
            Challenge::read("Digest qop=\"auth,auth-int\", realm=r, nonce=n, algorithm=SHA-256, stale=TRUE")
                .unwrap();
        let credentials = Credentials { user: "u".into(), password: "p".into() };
        let found: Vec<String> = (0..2).map(|_| challenge.answer(&credentials, "PLAY", "rtsp://a")).collect();
        assert!(found[0].contains("nc=00000001") && found[1].contains("nc=00000002"), "{found:?}");
        assert!(found[0].contains("algorithm=SHA-256") && challenge.is_stale());
    }

    #[test]
    fn basic_and_what_is_not_known() {
        assert_eq!(answer("Basic realm=\"x\"", "u", "p", "PLAY", "rtsp://a"), "Basic dTpw");
        for field in [
            "",
            "Digest",
            "Digest realm=\"x\"",
            "Digest realm=x, nonce=y, algorithm=MD4",
            "Bearer x",
            "Digest \"=",
        ] {
            assert_eq!(Challenge::read(field), None, "{field}");
        }
    }
}
