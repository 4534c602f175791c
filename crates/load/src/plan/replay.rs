//! The requests of a trace: their paths and hosts, and which responses are good.
//!
//! On a site built for the trace, a document's path is made of its number and size, so no name from a log reaches a
//! file system. A real site is requested by the logged paths.

use std::collections::HashMap;

use sojourn_workload::trace::{Document, site_path};

use crate::{
    http::request::Form,
    plan::catalogue::{Catalogue, Expected},
};

#[derive(Clone, Debug, Default)]
pub struct Replayed {
    pub paths: Paths,
    /// What to do with requests that failed in the log.
    pub failed: Failed,
    pub host: Host,
    /// True if responses of a real site must have the logged size; a built site's always must.
    pub check_sizes: bool,
    /// Methods beside GET with which a real site may be asked, where the log has them.
    pub methods: Vec<String>,
    /// The body of requests whose method has one; a log has none.
    pub body: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Paths {
    /// Paths of a built site: `/III/IIIIII-BYTES`.
    #[default]
    Site,
    Original,
}

/// How requests are treated that were refused, redirected, aborted or answered partially in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Failed {
    #[default]
    Skip,
    /// They are sent, and any complete response is good.
    Send,
    /// They are sent, and must get the logged status.
    Expect,
}

/// The source of the Host field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Host {
    #[default]
    Url,
    /// The logged host, if there is one.
    Log,
    Named(String),
}

/// nginx's status for a client that disconnected; the server's own response is unknown.
const CLIENT_CLOSED: u16 = 499;
/// A partial response; logs do not have the range, so the whole document is requested.
const PARTIAL: u16 = 206;

impl Catalogue {
    /// The documents of a trace below the target's path, in order.
    pub fn trace(form: &Form<'_>, documents: &[Document], replayed: &Replayed) -> Catalogue {
        let mut catalogue = Catalogue::empty(&Form { body: &replayed.body, ..form.clone() });
        let mut forms: HashMap<&str, Vec<String>> = HashMap::new();
        let mut host_before = None;
        for (index, document) in documents.iter().enumerate() {
            let host = replayed.host_of(document);
            let fields = forms.entry(host).or_insert_with(|| with_host(form, host));
            let (method, name) = replayed.method_of(document);
            let own_body = (method == "GET").then_some(&[][..]);
            let form = Form { method, fields, any_size: true, ..form.clone() };
            if host_before != Some(host) {
                catalogue.set_form(&form);
                host_before = Some(host);
            }
            let path = match replayed.paths {
                Paths::Site => site_path(index as u32, document.size_bytes),
                Paths::Original => sendable(name),
            };
            let number = catalogue.add(&form, &form.below(&path), own_body, replayed.size_of(document));
            catalogue.expect(number, replayed.expected_of(document));
        }
        catalogue
    }
}

impl Replayed {
    /// The method that a document is asked for with, and its name without it. Methods that are not allowed become GET.
    fn method_of<'a>(&'a self, document: &'a Document) -> (&'a str, &'a str) {
        let Some((method, name)) = logged_method(&document.name) else { return ("GET", &document.name) };
        match self.methods.iter().find(|allowed| *allowed == method) {
            Some(allowed) if self.paths == Paths::Original => (allowed, name),
            _ => ("GET", name),
        }
    }

    fn host_of<'a>(&'a self, document: &'a Document) -> &'a str {
        match &self.host {
            Host::Url => "",
            Host::Log => &document.host,
            Host::Named(host) => host,
        }
    }

    fn size_of(&self, document: &Document) -> Option<u64> {
        let is_known = self.paths == Paths::Site || self.check_sizes;
        (is_known && !document.is_failed()).then_some(document.size_bytes)
    }

    fn expected_of(&self, document: &Document) -> Expected {
        match (document.is_failed(), self.failed, document.status) {
            (false, ..) | (true, Failed::Expect, PARTIAL) => Expected::Success,
            (true, Failed::Send | Failed::Skip, _) | (true, Failed::Expect, CLIENT_CLOSED) => Expected::Any,
            (true, Failed::Expect, status) => Expected::Status(status),
        }
    }
}

/// The method that stands before a name, as an import of other methods than GET and HEAD has them.
fn logged_method(name: &str) -> Option<(&str, &str)> {
    let (method, path) = name.split_once(' ')?;
    let is_method = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase());
    is_method.then_some((method, path))
}

/// A form's fields with another Host, unless it is the form's own or the form sets one.
fn with_host(form: &Form<'_>, host: &str) -> Vec<String> {
    let mut fields = form.fields.to_vec();
    let is_sendable = !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic());
    if is_sendable && !form.sets("host") {
        fields.push(format!("Host: {host}"));
    }
    fields
}

/// A logged path as valid in a request line: percent-encoded where necessary (RFC 3986, 2.1), with a leading slash.
fn sendable(name: &str) -> String {
    let mut path = String::with_capacity(name.len() + 1);
    if !name.starts_with('/') {
        path.push('/');
    }
    for byte in name.bytes() {
        // A `#` in a logged path was sent by mistake, and would end the path here.
        if byte.is_ascii_graphic() && byte != b'#' {
            path.push(char::from(byte));
        } else {
            path += &format!("%{byte:02X}");
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        http::{request::Version, target::Target},
        plan::Connections,
    };

    fn requests(documents: Vec<Document>, replayed: &Replayed) -> (Catalogue, Vec<String>) {
        let target = Target::resolve("http://127.0.0.1:81/base/").unwrap();
        let form = Form::get(&target, Version::Http11, Connections::Close);
        let count = documents.len() as u32;
        let catalogue = Catalogue::trace(&form, &documents, replayed);
        let text =
            |number| String::from_utf8_lossy(catalogue.whole_request(number, &mut Vec::new())).into_owned();
        let texts = (0..count).map(text).collect();
        (catalogue, texts)
    }

    fn failed(name: &str, status: u16) -> Document {
        Document { status, ..Document::got(name, 0) }
    }

    #[test]
    fn a_built_site_is_asked_for_numbers_and_sizes() {
        let documents = vec![Document::got("/x", 5), Document::got("/x", 7)];
        let (mut catalogue, texts) = requests(documents, &Replayed::default());
        let expected = "GET /base/000/000001-7 HTTP/1.1\r\nHost: 127.0.0.1:81\r\nUser-Agent: sojourn/0.1.0\r\n\
                        Connection: close\r\n\r\n";
        assert_eq!(texts[1], expected);
        assert!(texts[0].starts_with("GET /base/000/000000-5 "));
        assert!(catalogue.agrees(0, 5) && !catalogue.agrees(0, 6));
    }

    #[test]
    fn a_real_site_is_asked_for_what_the_log_has() {
        let on = |host: &str, document: Document| Document { host: host.into(), ..document };
        let documents = vec![
            on("a.test", Document::got("/\"x\" é?q=1#y", 5)),
            on("b.test:81", Document::got("index.html", 5)),
            Document::got("/z", 5),
            on("bad host", Document::got("/z", 5)),
        ];
        let replayed = Replayed { paths: Paths::Original, host: Host::Log, ..Replayed::default() };
        let (mut catalogue, texts) = requests(documents.clone(), &replayed);
        assert!(texts[0].starts_with("GET /base/\"x\"%20%C3%A9?q=1%23y HTTP/1.1\r\n"), "{}", texts[0]);
        assert!(texts[0].contains("\r\nHost: a.test\r\n") && !texts[0].contains("127.0.0.1"));
        assert!(texts[1].starts_with("GET /base/index.html ") && texts[1].contains("Host: b.test:81\r\n"));
        assert!(texts[2].contains("Host: 127.0.0.1:81\r\n") && texts[3].contains("Host: 127.0.0.1:81\r\n"));
        assert!(catalogue.agrees(0, 5) && catalogue.agrees(0, 6));
        let checked = Replayed { check_sizes: true, host: Host::Named("c".into()), ..replayed };
        let (mut catalogue, texts) = requests(documents, &checked);
        assert!(!catalogue.agrees(0, 6) && texts.iter().all(|text| text.contains("Host: c\r\n")));
    }

    #[test]
    fn a_host_field_of_the_form_is_the_only_one() {
        let target = Target::resolve("http://127.0.0.1:81/").unwrap();
        let fields = ["host: mine".to_owned()];
        let form = Form { fields: &fields, ..Form::get(&target, Version::Http11, Connections::Close) };
        let document = Document { host: "a.test".into(), ..Document::got("/x", 5) };
        let replayed = Replayed { paths: Paths::Original, host: Host::Log, ..Replayed::default() };
        let catalogue = Catalogue::trace(&form, &[document], &replayed);
        let text = String::from_utf8_lossy(catalogue.request(0)).to_lowercase();
        assert_eq!(text.matches("\r\nhost: ").count(), 1, "{text}");
        assert!(text.contains("\r\nhost: mine\r\n"), "{text}");
    }

    #[test]
    fn methods_that_are_allowed_are_used() {
        let documents =
            || vec![Document::got("POST /cart", 5), Document::got("PUT /x", 5), Document::got("/a b", 5)];
        let replayed = |methods: &[&str], paths| Replayed {
            paths,
            methods: methods.iter().map(|&method| method.to_owned()).collect(),
            body: b"a=1".to_vec(),
            ..Replayed::default()
        };
        let (_, texts) = requests(documents(), &replayed(&["POST"], Paths::Original));
        assert!(texts[0].starts_with("POST /base/cart HTTP/1.1\r\n"), "{}", texts[0]);
        assert!(texts[0].ends_with("Content-Length: 3\r\n\r\na=1"), "{}", texts[0]);
        assert!(texts[1].starts_with("GET /base/x ") && texts[1].ends_with("\r\n\r\n"), "{}", texts[1]);
        assert!(texts[2].starts_with("GET /base/a%20b "), "{}", texts[2]);
        let (_, texts) = requests(documents(), &replayed(&["POST"], Paths::Site));
        assert!(texts[0].starts_with("GET /base/000/000000-5 "), "{}", texts[0]);
    }

    #[test]
    fn what_failed_may_fail_again() {
        let documents =
            || vec![Document::got("/a", 5), failed("/b", 404), failed("/c", 206), failed("/d", 499)];
        let expected = |policy| {
            let (catalogue, _) = requests(documents(), &Replayed { failed: policy, ..Replayed::default() });
            (0..4).map(|number| catalogue.expected(number)).collect::<Vec<_>>()
        };
        let good = Expected::Success;
        assert_eq!(expected(Failed::Send), [good, Expected::Any, Expected::Any, Expected::Any]);
        assert_eq!(expected(Failed::Expect), [good, Expected::Status(404), good, Expected::Any]);
    }
}
