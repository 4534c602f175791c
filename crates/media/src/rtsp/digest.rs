//! Digest authentication (RFC 7616; without a count of requests as in RFC 2069, which most players speak): what clients
//! and servers reckon alike, and what a client says. Pure: nonces and secrets are handed in.

use md5::{Digest, Md5};
use ring::digest::{SHA256, digest};

/// Longer parts of what the other side says are refused: what is repeated in every request must fit into it.
const PARAMETER_BYTES_MAX: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// SHA-256.
    Sha256,
    /// MD5: all that most players know.
    Md5,
}

impl Algorithm {
    /// All, in the order in which a server offers them: some clients take the first that they know, others the last.
    pub const ALL: [Algorithm; 2] = [Algorithm::Sha256, Algorithm::Md5];

    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Sha256 => "SHA-256",
            Algorithm::Md5 => "MD5",
        }
    }

    /// The algorithm that a parameter names; MD5 if there is none.
    pub fn named(parameter: Option<&str>) -> Option<Algorithm> {
        let Some(name) = parameter else { return Some(Algorithm::Md5) };
        Algorithm::ALL.into_iter().find(|algorithm| algorithm.name().eq_ignore_ascii_case(name))
    }

    /// Hexadecimal digits of its hashes.
    pub fn digits(self) -> usize {
        match self {
            Algorithm::Sha256 => 64,
            Algorithm::Md5 => 32,
        }
    }

    /// The hash of `text` in small hexadecimal digits.
    pub fn hash(self, text: &str) -> String {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        match self {
            Algorithm::Sha256 => hex(digest(&SHA256, text.as_bytes()).as_ref()),
            Algorithm::Md5 => hex(&Md5::digest(text)),
        }
    }

    /// The secret of a user: all that a server has to keep.
    pub fn secret(self, user: &str, realm: &str, password: &str) -> String {
        self.hash(&format!("{user}:{realm}:{password}"))
    }

    /// The proof of knowing `secret`, for a request; `nonce_count` is the request's number and what the client adds, where
    /// requests are nonce_count (`qop=auth`).
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
    /// The server's part of the proof.
    pub nonce: String,
    pub uri: String,
    pub response: String,
    pub algorithm: Algorithm,
    /// The request's number, as it was written, and what the client adds, if it counts.
    pub nonce_count: Option<(String, String)>,
}

impl Credentials {
    /// Reads an Authorization field; `None` if it is no digest that is known here.
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

    /// The request's number, if it counts: eight hexadecimal digits.
    pub fn count(&self) -> Option<u32> {
        u32::from_str_radix(&self.nonce_count.as_ref()?.0, 16).ok()
    }

    /// Returns true if it is proof of knowing `secret`, for a request by `method`. How long that takes does not depend
    /// on how much of the proof is right.
    pub fn verify(&self, secret: &str, method: &str) -> bool {
        let nonce_count = self.nonce_count.as_ref().map(|(count, own)| (count.as_str(), own.as_str()));
        let expected = self.algorithm.response(secret, &self.nonce, nonce_count, method, &self.uri);
        let given = self.response.to_ascii_lowercase();
        let differences =
            expected.bytes().zip(given.bytes()).fold(0, |all, (one, other)| all | (one ^ other));
        std::hint::black_box(differences) == 0 && expected.len() == given.len()
    }
}

/// The value of `name="value"` or `name=value` among parameters parted by commas.
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

    /// The examples of RFC 7616, 3.9.1.
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
