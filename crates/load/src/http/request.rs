//! What all requests of a run have in common: method, HTTP version, fields.

use thiserror::Error;

use crate::http::target::Target;

/// What a request says about keeping its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// More requests may follow.
    KeepAlive,
    /// The server closes it after the response.
    Close,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0, which closes unless keep-alive is requested.
    Http10,
    Http11,
    /// HTTP/2, whose requests are made of the text that HTTP/1.1 has.
    Http2,
}

/// What requests have in common, whatever their path.
#[derive(Clone, Debug)]
pub struct Form<'a> {
    /// The server, and the path below which documents are.
    pub target: &'a Target,
    pub version: Version,
    /// Whether requests announce that the connection closes.
    pub persistence: Persistence,
    /// The method, if the documents do not have their own.
    pub method: &'a str,
    /// Extra fields as `Name: value`. A Host or User-Agent replaces the default.
    pub fields: &'a [String],
    /// The body, unless the document has one.
    pub body: &'a [u8],
    /// True if the size of a document may differ between responses.
    pub any_size: bool,
}

/// Why requests cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FormError {
    #[error("{0:?} is not a method: a word of letters, as in GET")]
    Method(String),
    #[error("{0:?} is not a header field of the form `Name: value`")]
    Field(String),
    /// A framing field: a wrong one would corrupt everything that follows.
    #[error("{0:?} is set by the generator; for the connection see --connection and --http")]
    Framing(String),
}

impl<'a> Form<'a> {
    pub fn get(target: &'a Target, version: Version, persistence: impl Into<Persistence>) -> Form<'a> {
        Form {
            target,
            version,
            persistence: persistence.into(),
            method: "GET",
            fields: &[],
            body: b"",
            any_size: false,
        }
    }

    /// Checks that requests of this form can be framed.
    pub fn check(&self) -> Result<(), FormError> {
        if self.method.is_empty() || !self.method.bytes().all(is_token) {
            return Err(FormError::Method(self.method.to_owned()));
        }
        for field in self.fields {
            let Some((name, value)) = field.split_once(':') else {
                return Err(FormError::Field(field.clone()));
            };
            let printable = |byte: u8| byte == b'\t' || (byte >= b' ' && byte != 0x7f);
            if name.is_empty() || !name.bytes().all(is_token) || !value.bytes().all(printable) {
                return Err(FormError::Field(field.clone()));
            }
            let framing = ["content-length", "transfer-encoding", "connection"];
            if framing.iter().any(|known| name.eq_ignore_ascii_case(known)) {
                return Err(FormError::Framing(name.to_owned()));
            }
        }
        Ok(())
    }

    /// The path of a document, from the root.
    pub(crate) fn below(&self, path: &str) -> String {
        format!("{}{path}", self.target.base_path())
    }

    /// The text from the version to the fields about the body.
    pub(crate) fn suffix(&self) -> String {
        self.suffix_besides(&[])
    }

    /// The same without fields of these names, which a request sets itself.
    pub(crate) fn suffix_besides(&self, own: &[&str]) -> String {
        let (protocol, connection) = match (self.version, self.persistence) {
            (Version::Http10, Persistence::Close) => ("1.0", ""),
            (Version::Http10, _) => ("1.0", "Connection: keep-alive\r\n"),
            (Version::Http2, _) => ("1.1", ""),
            (Version::Http11, Persistence::Close) => ("1.1", "Connection: close\r\n"),
            (Version::Http11, _) => ("1.1", ""),
        };
        let is_own = |name: &str| own.iter().any(|own| own.eq_ignore_ascii_case(name));
        let given = |name| is_own(name) || self.sets(name);
        let mut suffix = format!(" HTTP/{protocol}\r\n");
        if !given("host") {
            suffix += &format!("Host: {}\r\n", self.target.host);
        }
        if !given("user-agent") {
            suffix += concat!("User-Agent: sojourn/", env!("CARGO_PKG_VERSION"), "\r\n");
        }
        suffix += connection;
        let fields = self.fields.iter().filter(|field| !own.iter().any(|own| has_name(field, own)));
        fields.for_each(|field| suffix += &format!("{field}\r\n"));
        suffix
    }

    /// Returns true if one of the extra fields has this name.
    pub(crate) fn sets(&self, name: &str) -> bool {
        self.fields.iter().any(|field| has_name(field, name))
    }
}

fn has_name(field: &str, name: &str) -> bool {
    field.split(':').next().is_some_and(|given| name.eq_ignore_ascii_case(given))
}

/// RFC 9110, 5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_framed_is_refused() {
        let target = Target::resolve("http://127.0.0.1:81/base/").unwrap();
        let form = Form::get(&target, Version::Http11, Persistence::KeepAlive);
        let check = |fields: &[&str]| {
            let fields: Vec<String> = fields.iter().map(|&field| field.to_owned()).collect();
            Form { fields: &fields, ..form.clone() }.check()
        };
        assert_eq!(check(&["Accept: text/html", "user-agent: me"]), Ok(()));
        for bad in ["x", ": y", "a b: c", "a: b\r\nc: d"] {
            assert_eq!(check(&[bad]), Err(FormError::Field(bad.into())));
        }
        assert!(matches!(check(&["Content-Length: 5"]), Err(FormError::Framing(_))));
        assert!(matches!(Form { method: "GE T", ..form.clone() }.check(), Err(FormError::Method(_))));
    }
}
