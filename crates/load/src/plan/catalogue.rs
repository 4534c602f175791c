//! The documents that can be requested: each request's bytes, prepared once, and the expected response.
//!
//! Requests are stored one after another in a single block of memory, so sending allocates nothing. A body that they have
//! in common is stored once.

use std::collections::HashMap;

use sojourn_workload::web99::{
    self,
    requests::{APPLICATION_PATH, CGI_PATH, FileName, Kind},
};
use thiserror::Error;

use crate::{
    http::{
        cause::Cause,
        request::Form,
        response_reader::{Digest, Response},
    },
    plan::{
        Pick, Requests, file_list,
        file_list::FilelistError,
        markov_chain,
        markov_chain::WalkError,
        scenario::Scenario,
        session_file::{self, Burst, SessionFileError},
        visitor::{self, Visitor, VisitorForm},
    },
};

/// The most bytes of all requests together, without the body that they share.
const REQUEST_BYTES_MAX: usize = u32::MAX as usize;
/// Fractional weights are scaled to integers by this factor.
const WEIGHT_SCALE: f64 = 1e12;

#[derive(Clone, Debug)]
pub struct Catalogue {
    requests: Vec<u8>,
    /// Where each request ends and the next begins.
    ends: Vec<u32>,
    /// True if `REQUEST_BYTES_MAX` was reached: there are requests without bytes.
    is_too_large: bool,
    /// The body that requests share.
    shared_body: Vec<u8>,
    /// True if the shared body follows a document's request.
    is_sharing: Vec<bool>,
    sizes: Vec<Size>,
    expected: Vec<Expected>,
    /// True if the response has no body whatever its head says (RFC 9112, 6.3: HEAD).
    bodiless: Vec<bool>,
    suffix: String,
    /// The digest of each document's first body, if bodies are verified.
    contents: Option<HashMap<u32, Digest>>,
    /// The names under which results are reported, if requests have names.
    names: Vec<String>,
    /// Each document's index in the names.
    name_of: Vec<u32>,
    /// Documents that are asked for as a visitor, from these on, with where the requests say which.
    visitor_forms: Vec<(u32, VisitorForm)>,
    /// The load whose SPECweb99 file set has the documents, if they are of one.
    file_set_load: Option<u32>,
}

/// The requests of a catalogue have too many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "the requests for {documents} documents have more than {REQUEST_BYTES_MAX} bytes together\nhint: request fewer \
     documents, or leave out header fields"
)]
pub struct RequestsTooLarge {
    documents: usize,
}

/// Which responses are good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// A success status and the document's size.
    Success,
    Status(u16),
    Any,
}

/// The expected size of a document's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Known(u64),
    /// Set by the first response.
    Unknown,
    /// May differ between responses.
    Any,
}

impl Catalogue {
    /// The target's own path. The first response determines its size, and later ones must agree.
    pub fn single(form: &Form<'_>) -> Catalogue {
        // Nothing else has the body, so it stands behind its head and need not be put there for each request.
        let mut catalogue = Catalogue::empty(&Form { body: b"", ..form.clone() });
        catalogue.add(form, &form.target.path, Some(form.body), None);
        catalogue
    }

    /// The documents of a WebStone file list below the target's path, and their weights.
    pub fn mix(form: &Form<'_>, list: &str) -> Result<(Catalogue, Pick), FilelistError> {
        let entries = file_list::parse(list)?;
        let mut catalogue = Catalogue::empty(form);
        for entry in &entries {
            catalogue.add(form, &form.below(&entry.path), None, entry.size_bytes);
        }
        Ok((catalogue, Pick::Weighted(entries.iter().map(|entry| entry.weight).collect())))
    }

    /// The SPECweb99 file set for a load of so many connections, and its weights.
    pub fn web99(form: &Form<'_>, load: u32) -> (Catalogue, Pick) {
        let mut catalogue = Catalogue::empty(form);
        let add = |file: web99::File| {
            catalogue.add(form, &form.below(&file.path), None, Some(file.size_bytes));
            (file.share * WEIGHT_SCALE) as u64
        };
        let weights = web99::files(load).map(add).collect();
        catalogue.file_set_load = Some(load);
        (catalogue, Pick::Weighted(weights))
    }

    /// The same with the dynamic requests, each kind by its share.
    pub fn web99_with_dynamic(form: &Form<'_>, load: u32) -> (Catalogue, Pick) {
        let mut catalogue = Catalogue::empty(form);
        let (mut weights, mut names, mut name_of) = (Vec::new(), Vec::new(), Vec::new());
        let paths = [APPLICATION_PATH, CGI_PATH].map(|path| form.below(path));
        // The cookie comes last, so that what it says is at one distance from the end in all.
        let fields = [form.fields, &[visitor::cookie()]].concat();
        for (number, (kind, share)) in (0..).zip(Kind::SHARES) {
            names.push(kind.name().to_owned());
            // An answer's length is in the page that it is.
            let own = match kind {
                Kind::Static => form.clone(),
                Kind::Dynamic | Kind::Cgi => Form { any_size: true, ..form.clone() },
                Kind::CustomAdvertisement => Form { any_size: true, fields: &fields, ..form.clone() },
                Kind::Post => Form { method: "POST", any_size: true, fields: &fields, ..form.clone() },
            };
            catalogue.set_form(&own);
            let first = catalogue.ends.len() as u32;
            for file in web99::files(load) {
                match kind {
                    Kind::Static => catalogue.add(&own, &form.below(&file.path), None, Some(file.size_bytes)),
                    Kind::Dynamic | Kind::CustomAdvertisement => {
                        catalogue.add(&own, &format!("{}?{}", paths[0], file.path), None, None)
                    }
                    Kind::Cgi => catalogue.add(&own, &format!("{}?{}", paths[1], file.path), None, None),
                    Kind::Post => {
                        let name = FileName::parse(&file.path).expect("it is a file of the set");
                        let body = visitor::form_body(name);
                        catalogue.add(&own, &paths[0], Some(body.as_bytes()), None)
                    }
                };
                weights.push((file.share * share * WEIGHT_SCALE) as u64);
                name_of.push(number);
            }
            let visitor_form = match kind {
                Kind::Static | Kind::Dynamic | Kind::Cgi => continue,
                Kind::CustomAdvertisement => VisitorForm::ShownAdvertisement,
                Kind::Post => VisitorForm::Posted,
            };
            catalogue.visitor_forms.push((first, visitor_form));
        }
        catalogue.set_names(names, name_of);
        catalogue.file_set_load = Some(load);
        (catalogue, Pick::Weighted(weights))
    }

    /// How a document is asked for as a visitor, if it is.
    pub(crate) fn visitor_form(&self, document: u32) -> Option<VisitorForm> {
        let forms = self.visitor_forms.iter().rev();
        forms.copied().find_map(|(first, form)| (document >= first).then_some(form))
    }

    /// The bytes of a document's request as a visitor makes it, in `space`.
    pub(crate) fn request_of<'s>(
        &self,
        document: u32,
        form: VisitorForm,
        visitor: &Visitor,
        space: &'s mut Vec<u8>,
    ) -> &'s [u8] {
        space.clear();
        self.append_request(document, space);
        form.write(visitor, space);
        space
    }

    /// The requests of a session file of httperf, below the target's path, and the sessions.
    pub fn sessions(form: &Form<'_>, file: &str) -> Result<(Catalogue, Requests), SessionFileError> {
        let mut catalogue = Catalogue::empty(form);
        let mut known = HashMap::new();
        let mut number = |request: session_file::Request| {
            *known.entry(request).or_insert_with_key(|request| {
                let own = Form { method: &request.method, ..form.clone() };
                catalogue.add(&own, &form.below(&request.uri), Some(&request.contents), request.size_bytes)
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

    /// The pages and objects of a Markov walk, below the target's path, and the walk.
    pub fn walk(form: &Form<'_>, file: &str) -> Result<(Catalogue, Requests), WalkError> {
        let mut catalogue = Catalogue::empty(form);
        let mut known = HashMap::new();
        let walk = markov_chain::parse(file)?.map(|path: String| {
            *known.entry(path).or_insert_with_key(|path| catalogue.add(form, &form.below(path), None, None))
        });
        Ok((catalogue, Requests::Walk(walk)))
    }

    /// The names of a scenario's requests; users make the requests themselves.
    pub fn scenario(form: &Form<'_>, scenario: &Scenario) -> Catalogue {
        let mut catalogue = Catalogue::empty(form);
        catalogue.names = scenario.names().to_vec();
        catalogue.name_of = scenario.name_of_each().collect();
        catalogue
    }

    /// Sets the names under which results are reported, and each document's index among them.
    pub fn set_names(&mut self, names: Vec<String>, name_of: Vec<u32>) {
        assert!(
            name_of.len() == self.ends.len() && name_of.iter().all(|&name| (name as usize) < names.len())
        );
        (self.names, self.name_of) = (names, name_of);
    }

    /// The names under which results are reported.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The load whose SPECweb99 file set has the documents, if they are of one.
    pub fn file_set_load(&self) -> Option<u32> {
        self.file_set_load
    }

    /// A document's index among the names.
    pub(crate) fn name_of(&self, document: u32) -> Option<u32> {
        self.name_of.get(document as usize).copied()
    }

    /// What is wrong with the response to a document's request, if anything.
    pub(crate) fn judge(
        &mut self,
        document: u32,
        response: &Response,
        content: Option<Digest>,
    ) -> Option<Cause> {
        match self.expected(document) {
            Expected::Any => return None,
            Expected::Status(status) => return (response.status != status).then_some(Cause::WrongStatus),
            Expected::Success => {}
        }
        match response.status {
            200..300 if !self.agrees(document, response.body_bytes) => Some(Cause::WrongSize),
            200..300 => {
                let is_other = content.is_some_and(|content| !self.has_content(document, content));
                is_other.then_some(Cause::WrongContent)
            }
            300..400 => Some(Cause::Status3xx),
            400..500 => Some(Cause::Status4xx),
            500..600 => Some(Cause::Status5xx),
            _ => Some(Cause::BadResponse),
        }
    }

    /// Checks that all requests are there.
    pub fn check(&self) -> Result<(), RequestsTooLarge> {
        if self.is_too_large { Err(RequestsTooLarge { documents: self.ends.len() }) } else { Ok(()) }
    }

    /// The bytes of a document's request, but for the shared body.
    pub fn request(&self, document: u32) -> &[u8] {
        let index = document as usize;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.requests[start as usize..self.ends[index] as usize]
    }

    /// Appends a document's whole request.
    pub(crate) fn append_request(&self, document: u32, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self.request(document));
        if self.is_sharing[document as usize] {
            bytes.extend_from_slice(&self.shared_body);
        }
    }

    /// A document's whole request; put together in `space` if its body is the shared one.
    pub(crate) fn whole_request<'s>(&'s self, document: u32, space: &'s mut Vec<u8>) -> &'s [u8] {
        if !self.is_sharing[document as usize] {
            return self.request(document);
        }
        space.clear();
        self.append_request(document, space);
        space
    }

    /// Returns true if the response has no body whatever its head says.
    pub fn is_bodiless(&self, document: u32) -> bool {
        self.bodiless[document as usize]
    }

    pub fn expected(&self, document: u32) -> Expected {
        self.expected[document as usize]
    }

    /// Sets which responses to a document's request are good.
    pub fn expect(&mut self, document: u32, expected: Expected) {
        self.expected[document as usize] = expected;
    }

    /// Sets another host for requests added later.
    pub(crate) fn set_form(&mut self, form: &Form<'_>) {
        self.suffix = form.suffix();
    }

    /// Returns true if a body has the document's size; sets an unknown size.
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

    /// From now on, each body of a document must equal the first one.
    pub fn verify_contents(&mut self) {
        self.contents = Some(HashMap::new());
    }

    /// Returns true if bodies are verified.
    pub(crate) fn verifies(&self) -> bool {
        self.contents.is_some()
    }

    /// Returns true if a body equals the document's first one; sets that if it is unknown.
    fn has_content(&mut self, document: u32, digest: Digest) -> bool {
        let Some(contents) = &mut self.contents else { return true };
        *contents.entry(document).or_insert(digest) == digest
    }

    /// A catalogue whose requests share the form's body.
    pub(crate) fn empty(form: &Form<'_>) -> Catalogue {
        Catalogue {
            requests: Vec::new(),
            ends: Vec::new(),
            is_too_large: false,
            shared_body: form.body.to_vec(),
            is_sharing: Vec::new(),
            sizes: Vec::new(),
            expected: Vec::new(),
            bodiless: Vec::new(),
            suffix: form.suffix(),
            contents: None,
            names: Vec::new(),
            name_of: Vec::new(),
            visitor_forms: Vec::new(),
            file_set_load: None,
        }
    }

    /// Adds a document, whose request has a body of its own or the shared one; returns its number.
    pub(crate) fn add(
        &mut self,
        form: &Form<'_>,
        path: &str,
        own_body: Option<&[u8]>,
        size_bytes: Option<u64>,
    ) -> u32 {
        let Catalogue { requests, shared_body, .. } = self;
        let body_bytes = own_body.map_or(shared_body.len(), <[u8]>::len);
        let start = requests.len();
        requests.extend_from_slice(form.method.as_bytes());
        requests.push(b' ');
        requests.extend_from_slice(path.as_bytes());
        requests.extend_from_slice(self.suffix.as_bytes());
        // RFC 9110, 8.6: methods that usually have a body send a length even for an empty one.
        if body_bytes > 0 || matches!(form.method, "POST" | "PUT" | "PATCH") {
            requests.extend_from_slice(format!("Content-Length: {body_bytes}\r\n").as_bytes());
        }
        requests.extend_from_slice(b"\r\n");
        requests.extend_from_slice(own_body.unwrap_or_default());
        self.end_request(start, REQUEST_BYTES_MAX);
        self.is_sharing.push(own_body.is_none() && body_bytes > 0);
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

    /// Ends the request that begins at `start`; leaves it out if all have more than `bytes_max`.
    fn end_request(&mut self, start: usize, bytes_max: usize) {
        if self.requests.len() > bytes_max {
            self.requests.truncate(start);
            self.is_too_large = true;
        }
        self.ends.push(self.requests.len() as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        http::{request::Version, target::Target},
        plan::Connections,
    };

    fn target() -> Target {
        Target::resolve("http://127.0.0.1:81/base/").unwrap()
    }

    fn text(catalogue: &Catalogue, document: u32) -> String {
        String::from_utf8_lossy(catalogue.whole_request(document, &mut Vec::new())).into_owned()
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
        let expected = "POST /base/ HTTP/1.1\r\nHost: 127.0.0.1:81\r\nAccept: text/html\r\nuser-agent: me\r\n\
                        Content-Length: 3\r\n\r\na=1";
        assert_eq!(text(&Catalogue::single(&form), 0), expected);
    }

    #[test]
    fn a_body_that_requests_share_is_stored_once() {
        let target = target();
        let body = vec![b'x'; 1_000_000];
        let form = Form::get(&target, Version::Http11, Connections::KeepAlive);
        let form = Form { method: "POST", body: &body, ..form };
        let list: String = (0..100).map(|number| format!("/{number} 1\n")).collect();
        let (catalogue, _) = Catalogue::mix(&form, &list).unwrap();
        assert!(catalogue.requests.len() < body.len(), "{}", catalogue.requests.len());
        for number in 0..100 {
            let text = text(&catalogue, number);
            let (head, sent) = text.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with(&format!("POST /base/{number} ")), "{head}");
            assert!(head.ends_with("\r\nContent-Length: 1000000") && sent.as_bytes() == body, "{head}");
        }
    }

    #[test]
    fn requests_above_the_limit_are_left_out_and_refused() {
        let target = target();
        let mut catalogue = Catalogue::single(&Form::get(&target, Version::Http11, Connections::KeepAlive));
        assert_eq!(catalogue.check(), Ok(()));
        let start = catalogue.requests.len();
        catalogue.requests.extend_from_slice(b"GET /a");
        catalogue.end_request(start, start + 6);
        catalogue.requests.extend_from_slice(b"GET /b");
        catalogue.end_request(start + 6, start + 6);
        assert_eq!((catalogue.request(1), catalogue.request(2)), (&b"GET /a"[..], &b""[..]));
        let refused = catalogue.check().unwrap_err().to_string();
        assert!(
            refused.starts_with("the requests for 3 documents have more than 4294967295 bytes"),
            "{refused}"
        );
    }

    #[test]
    fn all_kinds_of_a_dynamic_mix() {
        let target = target();
        let form = Form::get(&target, Version::Http11, Connections::KeepAlive);
        let (catalogue, Pick::Weighted(weights)) = Catalogue::web99_with_dynamic(&form, 1) else {
            unreachable!()
        };
        let files = weights.len() / Kind::SHARES.len();
        let total: u64 = weights.iter().sum();
        for (index, (kind, share)) in Kind::SHARES.into_iter().enumerate() {
            let weight: u64 = weights[index * files..][..files].iter().sum();
            assert!((weight as f64 / total as f64 - share).abs() < 1e-6, "{kind:?}");
            assert_eq!(catalogue.name_of((index * files) as u32), Some(index as u32));
        }
        let visitor = Visitor { user: 10_017, last: 45, client: 17 };
        let asked = |kind: usize| {
            let document = (kind * files + 13) as u32;
            let mut space = Vec::new();
            match catalogue.visitor_form(document) {
                None => text(&catalogue, document),
                Some(form) => {
                    let bytes = catalogue.request_of(document, form, &visitor, &mut space);
                    String::from_utf8(bytes.to_vec()).unwrap()
                }
            }
        };
        let first = |kind: usize| asked(kind).lines().next().unwrap().to_owned();
        assert_eq!(first(0), "GET /base/file_set/dir00000/class1_4 HTTP/1.1");
        assert_eq!(first(1), "GET /base/web99/page?/file_set/dir00000/class1_4 HTTP/1.1");
        assert_eq!(first(2), "GET /base/cgi-bin/web99?/file_set/dir00000/class1_4 HTTP/1.1");
        assert!(asked(3).starts_with(&first(1)));
        assert!(asked(3).ends_with("\r\nCookie: visitor=user=10017&last=045\r\n\r\n"), "{}", asked(3));
        let post = asked(4);
        let (head, body) = post.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("POST /base/web99/page HTTP/1.1\r\n"));
        assert!(head.contains("\r\nCookie: visitor=user=10017&last=045\r\n"));
        assert!(head.ends_with(&format!("\r\nContent-Length: {}", body.len())));
        assert_eq!(body, "urlroot=/file_set&dir=00000&class=1&num=4&client=0000017");
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
