//! What can be asked for: the bytes of each document's request, prepared once, and the size to expect.
//!
//! Requests lie one after another in a single block of memory, so that sending allocates nothing.

use std::collections::HashMap;

use sojourn_workload::web99;
use thiserror::Error;

use crate::{
    Connections, Pick, Requests, Target,
    filelist::{self, FilelistError},
    reception::Digest,
    session_file::{self, Burst, SessionFileError},
    walk::{self, WalkError},
};

/// The most bytes that all requests together may take.
const REQUEST_BYTES_MAX: usize = u32::MAX as usize;
/// Shares of requests are made whole numbers by this factor.
const WEIGHT_SCALE: f64 = 1e12;

/// The version of HTTP to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0, which closes unless asked to keep the connection.
    Http10,
    /// HTTP/1.1.
    Http11,
}

/// How requests look, whatever they ask for.
#[derive(Clone, Debug)]
pub struct Form<'a> {
    /// The server, and the path below which documents lie.
    pub target: &'a Target,
    /// The version of HTTP.
    pub version: Version,
    /// Whether requests say that the connection closes.
    pub connections: Connections,
    /// The method, where the documents do not say.
    pub method: &'a str,
    /// More fields, as `Name: value`. A Host or User-Agent among them takes the place of ours.
    pub fields: &'a [String],
    /// What is sent as the body, where the documents do not say.
    pub body: &'a [u8],
    /// Whether a document of unknown size may have another in each answer.
    pub any_size: bool,
}

/// Why requests cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FormError {
    /// Not a method.
    #[error("{0:?} is not a method: a word of letters, as in GET")]
    Method(String),
    /// Not a field.
    #[error("{0:?} is not a header field of the form `Name: value`")]
    Field(String),
    /// A field that decides where a message ends: a wrong one would upset everything that follows.
    #[error("{0:?} is set by the generator; for the connection see --connection and --http")]
    Framing(String),
}

impl<'a> Form<'a> {
    /// GET without anything special.
    pub fn get(target: &'a Target, version: Version, connections: Connections) -> Form<'a> {
        Form { target, version, connections, method: "GET", fields: &[], body: b"", any_size: false }
    }

    /// Whether requests of this form can be framed.
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

    /// What stands between the path and the fields about the body.
    fn suffix(&self) -> String {
        let (protocol, connection) = match (self.version, self.connections) {
            (Version::Http10, Connections::Close) => ("1.0", ""),
            (Version::Http10, _) => ("1.0", "Connection: keep-alive\r\n"),
            (Version::Http11, Connections::Close) => ("1.1", "Connection: close\r\n"),
            (Version::Http11, _) => ("1.1", ""),
        };
        let names = |field: &String, name| {
            field.split(':').next().is_some_and(|own| name == own.to_ascii_lowercase())
        };
        let given = |name| self.fields.iter().any(|field| names(field, name));
        let mut suffix = format!(" HTTP/{protocol}\r\n");
        if !given("host") {
            suffix += &format!("Host: {}\r\n", self.target.host);
        }
        if !given("user-agent") {
            suffix += concat!("User-Agent: sojourn/", env!("CARGO_PKG_VERSION"), "\r\n");
        }
        suffix += connection;
        self.fields.iter().for_each(|field| suffix += &format!("{field}\r\n"));
        suffix
    }
}

/// RFC 9110, 5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Documents with their requests.
#[derive(Clone, Debug)]
pub struct Catalogue {
    requests: Vec<u8>,
    /// Where each request ends; it begins where the one before it ends.
    ends: Vec<u32>,
    sizes: Vec<Size>,
    expected: Vec<Expected>,
    /// Whether an answer has no body whatever its head says (RFC 9112, 6.3: HEAD).
    bodiless: Vec<bool>,
    suffix: String,
    /// The digest of each document's first body, where all are verified.
    contents: Option<HashMap<u32, Digest>>,
}

/// What answer to a request is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// One with a status of success, and of the document's size.
    Success,
    /// One with this status.
    Status(u16),
    /// Any that is complete.
    Any,
}

/// The size of a document's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Known(u64),
    /// The first answer tells it.
    Unknown,
    /// Each answer may have another.
    Any,
}

impl Catalogue {
    /// The target's own path, of unknown size: the first answer tells it, and later ones must agree.
    pub fn single(form: &Form<'_>) -> Catalogue {
        let mut catalogue = Catalogue::empty(form);
        catalogue.add(form, &form.target.path, None);
        catalogue
    }

    /// The documents of a WebStone file list below the target's path, and how to pick them.
    pub fn mix(form: &Form<'_>, list: &str) -> Result<(Catalogue, Pick), FilelistError> {
        let entries = filelist::parse(list)?;
        let mut catalogue = Catalogue::empty(form);
        for entry in &entries {
            catalogue.add(form, &below(form, &entry.path), entry.size_bytes);
        }
        Ok((catalogue, Pick::Weighted(entries.iter().map(|entry| entry.weight).collect())))
    }

    /// The file set for a load of so many connections, and how to pick from it.
    pub fn web99(form: &Form<'_>, load: u32) -> (Catalogue, Pick) {
        let mut catalogue = Catalogue::empty(form);
        let add = |file: web99::File| {
            catalogue.add(form, &below(form, &file.path), Some(file.size_bytes));
            (file.share * WEIGHT_SCALE) as u64
        };
        let weights = web99::files(load).map(add).collect();
        (catalogue, Pick::Weighted(weights))
    }

    /// The requests of a session file of httperf, below the target's path, and the sessions.
    pub fn sessions(form: &Form<'_>, file: &str) -> Result<(Catalogue, Requests), SessionFileError> {
        let mut catalogue = Catalogue::empty(form);
        let mut known = HashMap::new();
        let mut number = |request: session_file::Request| {
            *known.entry(request).or_insert_with_key(|request| {
                let own = Form { method: &request.method, body: &request.contents, ..form.clone() };
                catalogue.add(&own, &below(form, &request.uri), request.size_bytes)
            })
        };
        let mut burst = |burst: Burst<session_file::Request>| Burst {
            requests: burst.requests.into_iter().map(&mut number).collect(),
            think: burst.think,
        };
        let sessions = session_file::parse(file)?;
        let sessions =
            sessions.into_iter().map(|session| session.into_iter().map(&mut burst).collect()).collect();
        Ok((catalogue, Requests::Sessions(sessions)))
    }

    /// The pages and objects of a walk, below the target's path, and the walk.
    pub fn walk(form: &Form<'_>, file: &str) -> Result<(Catalogue, Requests), WalkError> {
        let mut catalogue = Catalogue::empty(form);
        let mut known = HashMap::new();
        let walk = walk::parse(file)?.map(|path: String| {
            *known.entry(path).or_insert_with_key(|path| catalogue.add(form, &below(form, path), None))
        });
        Ok((catalogue, Requests::Walk(walk)))
    }

    /// The request of a document.
    pub fn request(&self, document: u32) -> &[u8] {
        let index = document as usize;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.requests[start as usize..self.ends[index] as usize]
    }

    /// Whether the answer to a document's request has no body whatever its head says.
    pub fn is_bodiless(&self, document: u32) -> bool {
        self.bodiless[document as usize]
    }

    /// What answer to a document's request is good.
    pub fn expected(&self, document: u32) -> Expected {
        self.expected[document as usize]
    }

    /// Changes what answer to a document's request is good.
    pub fn expect(&mut self, document: u32, expected: Expected) {
        self.expected[document as usize] = expected;
    }

    /// Requests that follow are sent to another host than the form's.
    pub(crate) fn set_form(&mut self, form: &Form<'_>) {
        self.suffix = form.suffix();
    }

    /// Whether a body of this size is the document's; the first one asked about an unknown size is believed.
    pub fn agrees(&mut self, document: u32, size_bytes: u64) -> bool {
        let size = &mut self.sizes[document as usize];
        match *size {
            Size::Known(known) => known == size_bytes,
            Size::Any => true,
            Size::Unknown => {
                *size = Size::Known(size_bytes);
                true
            }
        }
    }

    /// From now on each body of a document has to be the one that came first.
    pub fn verify_contents(&mut self) {
        self.contents = Some(HashMap::new());
    }

    /// Whether bodies are to be told from each other.
    pub(crate) fn verifies(&self) -> bool {
        self.contents.is_some()
    }

    /// Whether a body is the document's; the first one asked about is believed.
    pub(crate) fn has_content(&mut self, document: u32, digest: Digest) -> bool {
        let Some(contents) = &mut self.contents else { return true };
        *contents.entry(document).or_insert(digest) == digest
    }

    pub(crate) fn empty(form: &Form<'_>) -> Catalogue {
        Catalogue {
            requests: Vec::new(),
            ends: Vec::new(),
            sizes: Vec::new(),
            expected: Vec::new(),
            bodiless: Vec::new(),
            suffix: form.suffix(),
            contents: None,
        }
    }

    /// Adds a document; answers its number.
    pub(crate) fn add(&mut self, form: &Form<'_>, path: &str, size_bytes: Option<u64>) -> u32 {
        let requests = &mut self.requests;
        requests.extend_from_slice(form.method.as_bytes());
        requests.push(b' ');
        requests.extend_from_slice(path.as_bytes());
        requests.extend_from_slice(self.suffix.as_bytes());
        // RFC 9110, 8.6: a length where the method expects a body, even an empty one.
        if !form.body.is_empty() || matches!(form.method, "POST" | "PUT" | "PATCH") {
            requests.extend_from_slice(format!("Content-Length: {}\r\n", form.body.len()).as_bytes());
        }
        requests.extend_from_slice(b"\r\n");
        requests.extend_from_slice(form.body);
        assert!(requests.len() <= REQUEST_BYTES_MAX, "a trace of that many documents is refused earlier");
        self.ends.push(requests.len() as u32);
        let is_head = form.method == "HEAD";
        self.sizes.push(match size_bytes {
            Some(_) if is_head => Size::Known(0),
            Some(bytes) => Size::Known(bytes),
            None if form.any_size => Size::Any,
            None => Size::Unknown,
        });
        self.expected.push(Expected::Success);
        self.bodiless.push(is_head);
        self.ends.len() as u32 - 1
    }
}

pub(crate) fn below(form: &Form<'_>, path: &str) -> String {
    format!("{}{path}", form.target.base_path())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> Target {
        Target::resolve("http://127.0.0.1:81/base/").unwrap()
    }

    fn text(catalogue: &Catalogue, document: u32) -> String {
        String::from_utf8_lossy(catalogue.request(document)).into_owned()
    }

    #[test]
    fn an_unknown_size_is_learned_once() {
        let target = target();
        let form = Form::get(&target, Version::Http10, Connections::KeepAlive);
        let mut catalogue = Catalogue::single(&form);
        assert!(catalogue.request(0).starts_with(b"GET /base/ HTTP/1.0\r\n"));
        assert!(catalogue.agrees(0, 42));
        assert!(catalogue.agrees(0, 42));
        assert!(!catalogue.agrees(0, 43));
        let mut any = Catalogue::single(&Form { any_size: true, ..form });
        assert!(any.agrees(0, 42) && any.agrees(0, 43));
    }

    #[test]
    fn methods_fields_and_bodies() {
        let target = target();
        let fields = ["Accept: text/html".to_owned(), "user-agent: me".to_owned()];
        let form = Form::get(&target, Version::Http11, Connections::KeepAlive);
        let form = Form { method: "POST", fields: &fields, body: b"a=1", ..form };
        assert_eq!(form.check(), Ok(()));
        let expected = "POST /base/ HTTP/1.1\r\nHost: 127.0.0.1:81\r\nAccept: text/html\r\nuser-agent: me\r\n\
                        Content-Length: 3\r\n\r\na=1";
        assert_eq!(text(&Catalogue::single(&form), 0), expected);
        let refused = |fields: &[String]| Form { fields, ..form.clone() }.check();
        for bad in ["x", ": y", "a b: c", "a: b\r\nc: d"] {
            assert_eq!(refused(&[bad.to_owned()]), Err(FormError::Field(bad.into())));
        }
        assert!(matches!(refused(&["Content-Length: 5".to_owned()]), Err(FormError::Framing(_))));
        assert!(matches!(Form { method: "GE T", ..form.clone() }.check(), Err(FormError::Method(_))));
    }

    #[test]
    fn sessions_share_their_documents() {
        let target = target();
        let form = Form::get(&target, Version::Http11, Connections::KeepAlive);
        let file = "/a think=1\n /b\n/a\n\n/p method=POST contents='x y'\n/b method=HEAD\n";
        let (catalogue, requests) = Catalogue::sessions(&form, file).unwrap();
        let Requests::Sessions(sessions) = requests else { unreachable!() };
        let numbers = |session: usize| -> Vec<&[u32]> {
            sessions[session].iter().map(|burst| burst.requests.as_slice()).collect()
        };
        assert_eq!((numbers(0), numbers(1)), (vec![&[0, 1][..], &[0]], vec![&[2][..], &[3]]));
        assert!(text(&catalogue, 2).ends_with("Content-Length: 3\r\n\r\nx y"));
        assert!(catalogue.is_bodiless(3) && !catalogue.is_bodiless(1));
    }
}
