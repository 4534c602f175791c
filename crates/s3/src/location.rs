//! Where a bucket's objects are: `s3://BUCKET/PREFIX` and an endpoint become a host and paths.

use std::str::FromStr;

use sojourn_http::path::percent_encode;

use crate::settings::{Addressing, Settings, domain};

/// The longest key of an object, encoded as UTF-8.
const KEY_BYTES_MAX: usize = 1024;

/// A bucket, and what all keys begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    pub bucket: String,
    /// Empty, or with a slash at the end.
    pub prefix: String,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocationError {
    #[error("write a bucket as s3://BUCKET or s3://BUCKET/PREFIX/")]
    Scheme,
    #[error("{0} is not a bucket's name: it has 3 to 63 lower-case letters, digits, dots and hyphens")]
    Bucket(String),
    #[error("a prefix has no line ends and at most {KEY_BYTES_MAX} bytes")]
    Prefix,
}

impl FromStr for Location {
    type Err = LocationError;

    fn from_str(text: &str) -> Result<Location, LocationError> {
        let rest = text.strip_prefix("s3://").ok_or(LocationError::Scheme)?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if !is_bucket(bucket) {
            return Err(LocationError::Bucket(bucket.to_owned()));
        }
        if prefix.len() > KEY_BYTES_MAX || prefix.bytes().any(|byte| byte.is_ascii_control()) {
            return Err(LocationError::Prefix);
        }
        let prefix = prefix.trim_start_matches('/');
        let slash = if prefix.is_empty() || prefix.ends_with('/') { "" } else { "/" };
        Ok(Location { bucket: bucket.to_owned(), prefix: format!("{prefix}{slash}") })
    }
}

impl Location {
    /// The URL of the bucket's prefix at the endpoint that `settings` name: the scheme and authority, and the path with
    /// leading and trailing slash, percent-encoded.
    pub fn url(&self, settings: &Settings, addressing: Addressing) -> (String, String) {
        let own = settings.endpoint.as_deref().map(|url| url.trim_end_matches('/'));
        let is_path = match addressing {
            Addressing::Path => true,
            Addressing::Virtual => false,
            Addressing::Auto => own.is_some() || self.bucket.contains('.'),
        };
        let region = &settings.region;
        let endpoint = own.map_or_else(|| format!("https://s3.{region}.{}", domain(region)), str::to_owned);
        let (scheme, rest) = endpoint.split_once("://").unwrap_or(("https", &endpoint));
        let (authority, base) =
            rest.split_once('/').map_or((rest, ""), |(authority, base)| (authority, base));
        let mut path = String::from("/");
        if !base.is_empty() {
            path.push_str(base);
            path.push('/');
        }
        let authority = if is_path {
            path.push_str(&self.bucket);
            path.push('/');
            authority.to_owned()
        } else {
            format!("{}.{authority}", self.bucket)
        };
        percent_encode(self.prefix.as_bytes(), &mut path);
        (format!("{scheme}://{authority}"), path)
    }
}

/// Returns true if `name` may be a bucket's name (S3 user guide, "General purpose bucket naming rules"; the older rules
/// of other stores that allow more are not worth a request to the wrong host).
pub fn is_bucket(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(&byte);
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    (3..=63).contains(&bytes.len())
        && bytes.iter().all(|byte| is_allowed(*byte))
        && is_end(bytes.first())
        && is_end(bytes.last())
        && !name.contains("..")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(location: &str, endpoint: Option<&str>, region: &str, addressing: Addressing) -> String {
        let location: Location = location.parse().unwrap();
        let settings = Settings {
            endpoint: endpoint.map(str::to_owned),
            region: region.to_owned(),
            ..Settings::default()
        };
        let (origin, path) = location.url(&settings, addressing);
        origin + &path
    }

    #[test]
    fn where_a_bucket_is() {
        use Addressing::{Auto, Path, Virtual};
        for (location, endpoint, region, addressing, expected) in [
            ("s3://site", None, "eu-west-1", Auto, "https://site.s3.eu-west-1.amazonaws.com/"),
            ("s3://site/a b", None, "eu-west-1", Auto, "https://site.s3.eu-west-1.amazonaws.com/a%20b/"),
            ("s3://www.site", None, "us-east-1", Auto, "https://s3.us-east-1.amazonaws.com/www.site/"),
            ("s3://site", None, "cn-north-1", Path, "https://s3.cn-north-1.amazonaws.com.cn/site/"),
            ("s3://site/p/", Some("http://127.0.0.1:9000/"), "x", Auto, "http://127.0.0.1:9000/site/p/"),
            ("s3://site", Some("http://127.0.0.1:9000/s3"), "x", Auto, "http://127.0.0.1:9000/s3/site/"),
            ("s3://site", Some("https://store.example"), "x", Virtual, "https://site.store.example/"),
        ] {
            assert_eq!(url(location, endpoint, region, addressing), expected);
        }
    }

    #[test]
    fn what_is_no_bucket() {
        for bad in
            ["site", "s3://", "s3://ab", "s3://UPPER", "s3://a..b", "s3://-ab", "s3://a_b", "s3://a@b.c"]
        {
            assert!(bad.parse::<Location>().is_err(), "{bad}");
        }
        assert!("s3://abc/\r\n".parse::<Location>().is_err());
    }
}
