//! Digest authentication (RFC 7616, and RFC 2069 without a nonce count, which most players speak): the computation that
//! client and server share, and parsing of credentials. Nonces and secrets are arguments.

use md5::{Digest, Md5};
use ring::digest::{SHA256, digest};

/// The longest accepted parameter from the other side; every request repeats them.
const PARAMETER_BYTES_MAX: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Sha256,
    /// MD5, the only algorithm of most players.
    Md5,
}

impl Algorithm {
    /// All algorithms in the order in which a server offers them: some clients take the first that they know, others
    /// the last.
    pub const ALL: [Algorithm; 2] = [Algorithm::Sha256, Algorithm::Md5];

    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Sha256 => "SHA-256",
            Algorithm::Md5 => "MD5",
        }
    }

    /// The algorithm that the `algorithm` parameter names; MD5 without one.
    pub fn named(parameter: Option<&str>) -> Option<Algorithm> {
        let Some(name) = parameter else { return Some(Algorithm::Md5) };
        Algorithm::ALL.into_iter().find(|algorithm| algorithm.name().eq_ignore_ascii_case(name))
    }

    /// The length of its hashes in hexadecimal digits.
    pub fn digits(self) -> usize {
        match self {
            Algorithm::Sha256 => 64,
            Algorithm::Md5 => 32,
        }
    }

    /// The hash of `text` in lower-case hexadecimal digits.
    pub fn hash(self, text: &str) -> String {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        match self {
            Algorithm::Sha256 => hex(digest(&SHA256, text.as_bytes()).as_ref()),
            Algorithm::Md5 => hex(&Md5::digest(text)),
        }
    }

    /// The hash of user, realm and password (HA1), all that a server needs to store.
    pub fn secret(self, user: &str, realm: &str, password: &str) -> String {
        self.hash(&format!("{user}:{realm}:{password}"))
    }

    /// The response that proves knowledge of `secret`. `nonce_count` is the request counter and the client nonce, which
    /// are part of it with `qop=auth`.
    pub fn response(
        self,
        secret: &str,
        nonce: &str,
        nonce_count: Option<(&str, &str)>,
        method: &str,
        uri: &str,
    ) -> String {
        let request = self.hash(&format!("{method}:{uri}"));
        match nonce_count {
            Some((count, own)) => self.hash(&format!("{secret}:{nonce}:{count}:{own}:auth:{request}")),
            None => self.hash(&format!("{secret}:{nonce}:{request}")),
        }
    }
}

/// The credentials in an Authorization field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    pub user: String,
    pub realm: String,
    /// The server's nonce.
    pub nonce: String,
    pub uri: String,
    pub response: String,
    pub algorithm: Algorithm,
    /// The request counter as received, and the client nonce, if the client uses `qop=auth`.
    pub nonce_count: Option<(String, String)>,
}

impl Credentials {
    /// Parses an Authorization field; `None` if it is not Digest, or its algorithm is unknown.
    pub fn parse(field: &str) -> Option<Credentials> {
        let (scheme, rest) = field.trim().split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("digest") {
            return None;
        }
        let value = |name: &str| parameter(rest, name);
        let nonce_count = match value("qop") {
            None => None,
            Some(qop) if qop.eq_ignore_ascii_case("auth") => Some((value("nc")?, value("cnonce")?)),
            Some(_) => return None,
        };
        Some(Credentials {
            user: value("username")?,
            realm: value("realm")?,
            nonce: value("nonce")?,
            uri: value("uri")?,
            response: value("response")?,
            algorithm: Algorithm::named(value("algorithm").as_deref())?,
            nonce_count,
        })
    }

    /// The request's number, if it counts: eight hexadecimal digits, from one on (RFC 7616, 3.4).
    pub fn count(&self) -> Option<u32> {
        let digits = &self.nonce_count.as_ref()?.0;
        let is_number = digits.len() == 8 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        u32::from_str_radix(digits, 16).ok().filter(|count| is_number && *count > 0)
    }

    /// Returns true if the response proves knowledge of `secret` for a request by `method`. Takes constant time,
    /// however much of the response is right.
    pub fn verify(&self, secret: &str, method: &str) -> bool {
        let nonce_count = self.nonce_count.as_ref().map(|(count, own)| (count.as_str(), own.as_str()));
        let expected = self.algorithm.response(secret, &self.nonce, nonce_count, method, &self.uri);
        let given = self.response.to_ascii_lowercase();
        let differences =
            expected.bytes().zip(given.bytes()).fold(0, |all, (one, other)| all | (one ^ other));
        std::hint::black_box(differences) == 0 && expected.len() == given.len()
    }
}

/// The value of `name="value"` or `name=value` in a comma-separated list of parameters.
pub fn parameter(text: &str, name: &str) -> Option<String> {
    let mut rest = text;
    while !rest.is_empty() {
        let (key, after) = rest.split_once('=')?;
        let (value, following) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => after.split_at(after.find(',').unwrap_or(after.len())),
        };
        if key.trim_matches([' ', ',', '\t']).eq_ignore_ascii_case(name) {
            let is_ours =
                value.len() <= PARAMETER_BYTES_MAX && value.chars().all(|letter| !letter.is_control());
            return is_ours.then(|| value.trim().to_owned());
        }
        rest = following.trim_start_matches([',', ' ', '\t']);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7616, 3.9.1.
    const EXAMPLE: &str = "Digest username=\"Mufasa\", realm=\"http-auth@example.org\", uri=\"/dir/index.html\", \
        algorithm=NAME, nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", nc=00000001, \
        cnonce=\"f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ\", qop=auth, response=\"PROOF\", \
        opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\"";

    #[test]
    fn claims_are_those_of_the_standard() {
        for (algorithm, proof) in [
            (Algorithm::Md5, "8ca523f5e9506fed4657c9700eebdbec"),
            (Algorithm::Sha256, "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
        ] {
            let field = EXAMPLE.replace("NAME", algorithm.name()).replace("PROOF", proof);
            let claim = Credentials::parse(&field).unwrap();
            assert_eq!((claim.algorithm, claim.count(), claim.user.as_str()), (algorithm, Some(1), "Mufasa"));
            let secret = algorithm.secret("Mufasa", "http-auth@example.org", "Circle of Life");
            assert_eq!(secret.len(), algorithm.digits());
            assert!(claim.verify(&secret, "GET") && !claim.verify(&secret, "PUT"));
            let shorter = Credentials { response: proof[..8].to_owned(), ..claim.clone() };
            let other = Credentials { uri: "/dir".to_owned(), ..claim };
            assert!(!shorter.verify(&secret, "GET") && !other.verify(&secret, "GET"));
        }
    }

    #[test]
    fn a_claim_that_does_not_count() {
        let field = "Digest username=\"Mufasa\", realm=\"testrealm@host.com\", \
            nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\", uri=\"/dir/index.html\", \
            response=\"670FD8C2DF070C60B045671B8B24FF02\"";
        let claim = Credentials::parse(field).unwrap();
        assert_eq!((claim.algorithm, claim.count()), (Algorithm::Md5, None));
        let secret = Algorithm::Md5.secret("Mufasa", "testrealm@host.com", "Circle Of Life");
        assert!(claim.verify(&secret, "GET"));
    }

    #[test]
    fn requests_are_counted_from_one_in_eight_digits() {
        let whole = EXAMPLE.replace("NAME", "MD5");
        for (text, count) in [
            ("00000001", Some(1)),
            ("0000000A", Some(10)),
            ("00000000", None),
            ("1", None),
            ("+0000001", None),
        ] {
            let claim = Credentials::parse(&whole.replace("00000001", text)).unwrap();
            assert_eq!(claim.count(), count, "{text}");
        }
    }

    #[test]
    fn what_is_no_claim() {
        let whole = EXAMPLE.replace("NAME", "MD5");
        assert!(Credentials::parse(&whole).is_some());
        for (from, to) in [
            ("Digest ", "Basic "),
            ("algorithm=MD5", "algorithm=MD4"),
            ("qop=auth", "qop=auth-int"),
            ("nc=", "n="),
            ("username", "user"),
            ("Mufasa", "Muf\u{1}asa"),
        ] {
            assert_eq!(Credentials::parse(&whole.replace(from, to)), None, "{from} {to}");
        }
        for field in ["", "Digest", "Digest ", "Digest \"=", "Digest ==="] {
            assert_eq!(Credentials::parse(field), None, "{field}");
        }
        assert_eq!(parameter(&format!("a=\"{}\"", "x".repeat(513)), "a"), None);
    }
}
