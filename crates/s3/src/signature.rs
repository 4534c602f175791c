//! AWS Signature Version 4 in the Authorization field.
//!
//! The steps and their names are those of the guide "Signature Version 4 signing process": a canonical request, the
//! string to sign, a key derived for day, region and service, and the signature. Checked with the vectors that AWS
//! publishes.

use std::fmt::Write;

use ring::{digest, hmac};
use sojourn_http::HttpDate;
use sojourn_http::path::percent_encode;

use crate::Credentials;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// SHA-256 of no bytes, in hexadecimal: the payload hash of a request without a body.
pub const EMPTY_BODY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// What a signature is valid for, beside its day.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    pub region: &'a str,
    /// `s3`, or `sts`.
    pub service: &'a str,
}

/// The parts of a request that are signed.
#[derive(Clone, Copy, Debug)]
pub struct Signed<'a> {
    pub method: &'a str,
    /// The path as it is sent: percent-encoded once, never normalised.
    pub path: &'a str,
    /// The query as it is sent, without its question mark.
    pub query: &'a str,
    /// Names in lower case, and values.
    pub fields: &'a [(&'a str, &'a str)],
    /// SHA-256 of the body in hexadecimal, or `UNSIGNED-PAYLOAD`.
    pub payload_hash: &'a str,
}

/// The time of a request as X-Amz-Date has it, such as `20150830T123600Z`.
pub fn amz_date(now: HttpDate) -> String {
    now.iso8601().replace(['-', ':'], "")
}

/// The value of Authorization for `request` at `date` (see [`amz_date`]).
///
/// # Panics
/// If `date` is shorter than a day.
pub fn authorization(
    request: &Signed<'_>,
    date: &str,
    scope: Scope<'_>,
    credentials: &Credentials,
) -> String {
    let day = &date[..8];
    let mut fields: Vec<(&str, String)> =
        request.fields.iter().map(|(name, value)| (*name, canonical_value(value))).collect();
    fields.sort();
    let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let mut canonical = format!("{}\n{}\n{}\n", request.method, request.path, canonical_query(request.query));
    for (name, value) in &fields {
        let _ = writeln!(canonical, "{name}:{value}");
    }
    let _ = write!(canonical, "\n{names}\n{}", request.payload_hash);
    let scope_text = format!("{day}/{}/{}/aws4_request", scope.region, scope.service);
    let hash = hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
    let to_sign = format!("{ALGORITHM}\n{date}\n{scope_text}\n{hash}");
    let mut key = mac(format!("AWS4{}", credentials.secret).as_bytes(), day);
    for part in [scope.region, scope.service, "aws4_request"] {
        key = mac(key.as_ref(), part);
    }
    let signature = hex(mac(key.as_ref(), &to_sign).as_ref());
    let id = &credentials.id;
    format!("{ALGORITHM} Credential={id}/{scope_text}, SignedHeaders={names}, Signature={signature}")
}

/// Appends the field lines that sign a request without a body: the host must be sent as given here, and the fields of
/// `others` unchanged.
pub fn sign(
    (method, path, query): (&str, &str, &str),
    host: &str,
    others: &[(&str, &str)],
    (now, region): (HttpDate, &str),
    credentials: &Credentials,
    head: &mut Vec<u8>,
) {
    let date = amz_date(now);
    let mut fields = vec![("host", host), ("x-amz-content-sha256", EMPTY_BODY), ("x-amz-date", &date)];
    fields.extend(credentials.token.as_deref().map(|token| ("x-amz-security-token", token)));
    let own = fields.len();
    fields.extend_from_slice(others);
    let request = Signed { method, path, query, fields: &fields, payload_hash: EMPTY_BODY };
    let authorization = authorization(&request, &date, Scope { region, service: "s3" }, credentials);
    for (name, value) in fields[1..own].iter().copied().chain([("authorization", &*authorization)]) {
        sojourn_http::head::field(head, name, value);
    }
}

fn mac(key: &[u8], text: &str) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Without space around it, and with single spaces inside.
fn canonical_value(value: &str) -> String {
    value.split([' ', '\t']).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Sorted by name and value, each encoded, and each with its equals sign.
fn canonical_query(query: &str) -> String {
    let mut pairs: Vec<(String, String)> = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (encoded(name), encoded(value))
        })
        .collect();
    pairs.sort();
    pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
}

/// Encodes what is not encoded yet: a query is signed as it is read, not as it was spelled.
fn encoded(text: &str) -> String {
    let decoded = sojourn_http::path::percent_decode(text.as_bytes());
    let bytes = decoded.unwrap_or_else(|_| text.as_bytes().to_vec());
    let mut all = String::with_capacity(text.len());
    percent_encode(&bytes, &mut all);
    all.replace('/', "%2F")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(id: &str, secret: &str, token: Option<&str>) -> Credentials {
        let token = token.map(str::to_owned);
        Credentials { id: id.to_owned(), secret: secret.to_owned(), token, expires: None }
    }

    /// Signed request of AWS's suite "aws-signing-test-suite/v4": GET without a body.
    fn check(
        target: (&str, &str),
        others: &[(&str, &str)],
        token: Option<&str>,
        (names, signature): (&str, &str),
    ) {
        let credentials = credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", token);
        let date = "20150830T123600Z";
        let mut fields = vec![("host", "example.amazonaws.com"), ("x-amz-date", date)];
        fields.extend(token.map(|token| ("x-amz-security-token", token)));
        fields.extend_from_slice(others);
        let (path, query) = target;
        let request = Signed { method: "GET", path, query, fields: &fields, payload_hash: EMPTY_BODY };
        let scope = Scope { region: "us-east-1", service: "service" };
        let expected = format!(
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
             SignedHeaders={names}, Signature={signature}"
        );
        assert_eq!(authorization(&request, date, scope, &credentials), expected, "{target:?}");
    }

    #[test]
    fn the_suite_of_aws() {
        const PLAIN: &str = "host;x-amz-date";
        let unreserved = "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        for (path, query, signature) in [
            ("/", "", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
            ("/%E1%88%B4", "", "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"),
            ("//example//", "", "87cca117541a147f6df867677d98a7d80dff226d2bfca9e4ffa899665623c7e5"),
            (
                "/",
                "Param2=value2&Param1=value1",
                "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
            ),
            (
                "/",
                &format!("{unreserved}={unreserved}"),
                "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197",
            ),
        ] {
            check((path, query), &[], None, (PLAIN, signature));
        }
        check(
            ("/", ""),
            &[("my-header1", " value1"), ("my-header2", " \"a   b   c\"")],
            None,
            (
                "host;my-header1;my-header2;x-amz-date",
                "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
            ),
        );
        check(
            ("/", ""),
            &[],
            Some("6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267"),
            (
                "host;x-amz-date;x-amz-security-token",
                "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8",
            ),
        );
    }

    /// The examples of "Authenticating Requests: Using the Authorization Header" in S3's API reference.
    #[test]
    fn the_examples_of_s3() {
        let credentials =
            credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", None);
        let now = HttpDate::from_seconds(1_369_353_600);
        assert_eq!(amz_date(now), "20130524T000000Z");
        for (path, query, others, signature) in [
            (
                "/test.txt",
                "",
                &[("range", "bytes=0-9")][..],
                "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
            ),
            ("/", "lifecycle", &[], "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
            (
                "/",
                "max-keys=2&prefix=J",
                &[],
                "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
            ),
        ] {
            let mut head = Vec::new();
            let target = ("GET", path, query);
            let host = "examplebucket.s3.amazonaws.com";
            sign(target, host, others, (now, "us-east-1"), &credentials, &mut head);
            let head = String::from_utf8(head).unwrap();
            let end = format!("Signature={signature}\r\n");
            assert!(head.ends_with(&end), "{path}?{query}: {head}");
            assert!(head.starts_with(&format!("x-amz-content-sha256: {EMPTY_BODY}\r\n")));
        }
    }
}
