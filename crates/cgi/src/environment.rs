//! The meta-variables of a request (RFC 3875, 4.1), and the further ones that PHP and nginx set.

use std::borrow::Cow;
use std::net::IpAddr;

use memchr::memchr;
use sojourn_http::address::AddressText;
use sojourn_http::head::field_lines;
use sojourn_http::path::SitePath;
use sojourn_http::request::{Body, Request, Version};

/// The value of GATEWAY_INTERFACE (RFC 3875, 4.1.4).
const GATEWAY_INTERFACE: &[u8] = b"CGI/1.1";

/// The value of SERVER_SOFTWARE; no version, as in the Server field.
const SERVER_SOFTWARE: &[u8] = b"Sojourn";

/// The usual length of a field's variable at most, which then needs no memory.
const VARIABLE_BYTES: usize = 64;

/// What comes before a field's name.
const FIELD_PREFIX: &[u8] = b"HTTP_";

/// Most requests have no more fields, which then need no memory.
const FIELDS_USUAL: usize = 16;

/// Where an application's scripts are, and what else its processes are told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Application {
    /// The document root as the application's processes see it, without a trailing slash.
    pub root: Vec<u8>,
    /// The script of a path that ends in a slash.
    pub index: Vec<u8>,
    /// The suffix that ends a script's name, such as `.php`. The rest of the path is `PATH_INFO`.
    pub suffix: Vec<u8>,
    /// A single script that answers every request, if set; the whole path is then its `PATH_INFO`.
    pub script: Option<Vec<u8>>,
    /// Extra variables; they replace computed ones of the same name.
    pub variables: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The client's address and connection, for `REMOTE_ADDR`, `HTTPS` and the like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    pub address: IpAddr,
    pub ends: Ends,
    /// True if the request arrived by `https`.
    pub is_secure: bool,
    /// The version that it speaks.
    pub version: Version,
}

/// What else is known of the connection's two ends, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    pub client_port: Option<u16>,
    /// The address at which the server accepted it.
    pub server: Option<IpAddr>,
}

/// Where the variables of a request go.
pub trait Variables {
    /// Adds a variable whose value is put together from `parts`.
    fn add(&mut self, name: &[u8], parts: &[&[u8]]);
}

impl<F: FnMut(&[u8], &[&[u8]])> Variables for F {
    fn add(&mut self, name: &[u8], parts: &[&[u8]]) {
        self(name, parts);
    }
}

/// Leaves out the variables that an application's own ones replace.
struct Computed<'a, V> {
    variables: &'a mut V,
    own: &'a [(Vec<u8>, Vec<u8>)],
}

impl<V: Variables> Variables for Computed<'_, V> {
    fn add(&mut self, name: &[u8], parts: &[&[u8]]) {
        if !self.own.iter().any(|(other, _)| other == name) {
            self.variables.add(name, parts);
        }
    }
}

/// The script that a path names, and the rest of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Script<'a> {
    /// Its file, put together of these.
    pub file: [&'a [u8]; 2],
    /// `SCRIPT_NAME`: the part of the path that names the script, with its leading slash.
    pub name: &'a [u8],
    /// `PATH_INFO`: empty, or begins with a slash.
    pub path_info: &'a [u8],
}

impl Application {
    /// Adds the variables of `request` for the script that its path names. Withheld fields become no variables.
    ///
    /// Returns `false`, with nothing added, if the path leaves the site.
    pub fn variables_of(
        &self,
        request: &Request<'_>,
        client: Client,
        is_withheld: impl Fn(&[u8]) -> bool,
        variables: &mut impl Variables,
    ) -> bool {
        let Ok(path) = SitePath::decode(request.target) else { return false };
        let path = path.as_bytes();
        let mut name = match request.target.split_at_checked(path.len() + 1) {
            // As most are written.
            Some((start @ [b'/', rest @ ..], _)) if rest == path => Cow::Borrowed(start),
            _ => Cow::Owned([b"/", path].concat()),
        };
        let script = match &self.script {
            Some(file) => Script { file: [file, b""], name: b"", path_info: &name },
            None => {
                if name.ends_with(b"/") {
                    name.to_mut().extend_from_slice(&self.index);
                }
                let (name, path_info) = name.split_at(script_end(&name, &self.suffix).unwrap_or(name.len()));
                Script { file: [&self.root, name], name, path_info }
            }
        };
        self.variables_for(&script, request, client, is_withheld, variables);
        true
    }

    /// Like [`variables_of`](Self::variables_of), for a script that the caller has found.
    ///
    /// Fields whose names have an underscore are left out: `X_Y` and `X-Y` would be one variable, and a proxy in
    /// front may have checked only one of them. `Proxy` is left out as well: libraries take `HTTP_PROXY` for the
    /// proxy of their own requests (httpoxy). `HTTP_HOST` is the host that was asked for, whatever the field says.
    pub fn variables_for(
        &self,
        script: &Script<'_>,
        request: &Request<'_>,
        client: Client,
        is_withheld: impl Fn(&[u8]) -> bool,
        variables: &mut impl Variables,
    ) {
        // Most applications have no variables of their own.
        if self.variables.is_empty() {
            return self.computed(script, request, client, is_withheld, variables);
        }
        let mut computed = Computed { variables, own: &self.variables };
        self.computed(script, request, client, is_withheld, &mut computed);
        self.variables.iter().for_each(|(name, value)| variables.add(name, &[value]));
    }

    fn computed(
        &self,
        script: &Script<'_>,
        request: &Request<'_>,
        client: Client,
        is_withheld: impl Fn(&[u8]) -> bool,
        variables: &mut impl Variables,
    ) {
        let (name, port) = name_and_port(request.host.unwrap_or_default(), client.is_secure);
        let query = memchr(b'?', request.target).map_or(&b""[..], |mark| &request.target[mark + 1..]);
        let method = request.line.split(|byte| *byte == b' ').next().unwrap_or_default();
        variables.add(b"GATEWAY_INTERFACE", &[GATEWAY_INTERFACE]);
        variables.add(b"SERVER_SOFTWARE", &[SERVER_SOFTWARE]);
        variables.add(b"SERVER_PROTOCOL", &[protocol(client.version)]);
        variables.add(b"SERVER_NAME", &[name]);
        variables.add(b"SERVER_PORT", &[port]);
        variables.add(b"REQUEST_METHOD", &[method]);
        let slash: &[u8] = if request.target.first() == Some(&b'?') { b"/" } else { b"" };
        variables.add(b"REQUEST_URI", &[slash, request.target]);
        variables.add(b"REQUEST_SCHEME", &[if client.is_secure { b"https" } else { b"http" }]);
        if client.is_secure {
            variables.add(b"HTTPS", &[b"on"]);
        }
        variables.add(b"QUERY_STRING", &[query]);
        variables.add(b"REMOTE_ADDR", &[AddressText::of(client.address).as_bytes()]);
        if let Some(port) = client.ends.client_port {
            variables.add(b"REMOTE_PORT", &[AddressText::of_port(port).as_bytes()]);
        }
        if let Some(server) = client.ends.server {
            variables.add(b"SERVER_ADDR", &[AddressText::of(server).as_bytes()]);
        }
        variables.add(b"DOCUMENT_ROOT", &[&self.root]);
        variables.add(b"DOCUMENT_URI", &[script.name, script.path_info]);
        variables.add(b"SCRIPT_NAME", &[script.name]);
        variables.add(b"SCRIPT_FILENAME", &script.file);
        variables.add(b"PATH_INFO", &[script.path_info]);
        if !script.path_info.is_empty() {
            variables.add(b"PATH_TRANSLATED", &[&self.root, script.path_info]);
        }
        // PHP's CGI program refuses to run without this variable (`cgi.force_redirect`).
        variables.add(b"REDIRECT_STATUS", &[b"200"]);
        if let Some(host) = request.host {
            variables.add(b"HTTP_HOST", &[host]);
        }
        fields(request, is_withheld, variables);
    }
}

/// The protocol as its client speaks it.
fn protocol(version: Version) -> &'static [u8] {
    match version {
        Version::Http10 => b"HTTP/1.0",
        Version::Http11 => b"HTTP/1.1",
        Version::Http2 => b"HTTP/2.0",
    }
}

/// The length of the script's name in `path`: up to the first segment that ends in `suffix`.
fn script_end(path: &[u8], suffix: &[u8]) -> Option<usize> {
    if suffix.is_empty() {
        return None;
    }
    let mut end = 0;
    path.split_inclusive(|byte| *byte == b'/').find_map(|segment| {
        end += segment.len();
        let name = segment.strip_suffix(b"/").unwrap_or(segment);
        name.ends_with(suffix).then(|| end - (segment.len() - name.len()))
    })
}

/// The host's name and port; without a port, the scheme's default.
fn name_and_port(host: &[u8], is_secure: bool) -> (&[u8], &[u8]) {
    let default: &[u8] = if is_secure { b"443" } else { b"80" };
    match host.iter().rposition(|byte| *byte == b':') {
        // Colons within brackets belong to an IPv6 address.
        Some(colon) if !host[colon..].contains(&b']') => {
            let port = &host[colon + 1..];
            (&host[..colon], if port.is_empty() { default } else { port })
        }
        _ => (host, default),
    }
}

/// The request's fields as `HTTP_` variables, and those that describe its body; fields with equal names are joined by
/// commas.
fn fields(request: &Request<'_>, is_withheld: impl Fn(&[u8]) -> bool, variables: &mut impl Variables) {
    let (mut content_type, mut content_length) = (&b""[..], &b""[..]);
    let mut lines = Lines::default();
    // A bit for each name, and those that have come again: few lines have to be compared with others.
    let (mut marks, mut marks_again) = (0_u64, 0_u64);
    for (name, value) in field_lines(request.fields) {
        match own_name(name) {
            Some(OwnName::ContentType) => content_type = value,
            Some(OwnName::ContentLength) => content_length = value,
            Some(OwnName::Withheld) => {}
            None if is_withheld(name) => {}
            None => {
                marks_again |= marks & mark(name);
                marks |= mark(name);
                lines.push((name, value));
            }
        }
    }
    // RFC 9110, 8.6: where a body could be expected, its absence is said.
    if content_length.is_empty() && request.body == Body::Length(0) && expects_body(request) {
        content_length = b"0";
    }
    variables.add(b"CONTENT_TYPE", &[content_type]);
    variables.add(b"CONTENT_LENGTH", &[content_length]);
    let (mut short, mut long) = ([0; VARIABLE_BYTES], Vec::new());
    let lines = lines.as_slice();
    for (index, (name, value)) in lines.iter().enumerate() {
        let length = FIELD_PREFIX.len() + name.len();
        let variable = match short.get_mut(..length) {
            Some(variable) => variable,
            None => {
                long.resize(length, 0);
                &mut long[..length]
            }
        };
        let (prefix, rest) = variable.split_at_mut(FIELD_PREFIX.len());
        prefix.copy_from_slice(FIELD_PREFIX);
        rest.iter_mut().zip(*name).for_each(|(to, byte)| *to = VARIABLE_BYTE[usize::from(*byte)]);
        if marks_again & mark(name) == 0 {
            variables.add(variable, &[value]);
            continue;
        }
        let is_same = |other: &[u8]| other.eq_ignore_ascii_case(name);
        if lines[..index].iter().any(|(other, _)| is_same(other)) {
            // Already joined to an earlier field of the same name.
            continue;
        }
        // RFC 9110, 5.3; the pieces of a cookie header are joined by RFC 6265's separator.
        let separator: &[u8] = if is_same(b"cookie") { b"; " } else { b", " };
        let mut list = vec![*value];
        for (_, value) in lines[index + 1..].iter().filter(|(other, _)| is_same(other)) {
            list.extend([separator, value]);
        }
        variables.add(variable, &list);
    }
}

/// Names and values of fields.
#[derive(Default)]
struct Lines<'b> {
    first: [(&'b [u8], &'b [u8]); FIELDS_USUAL],
    count: usize,
    /// All of them, if they are more.
    all: Vec<(&'b [u8], &'b [u8])>,
}

impl<'b> Lines<'b> {
    fn push(&mut self, line: (&'b [u8], &'b [u8])) {
        match self.first.get_mut(self.count) {
            Some(place) => *place = line,
            None => {
                if self.all.is_empty() {
                    self.all.extend_from_slice(&self.first);
                }
                self.all.push(line);
            }
        }
        self.count += 1;
    }

    fn as_slice(&self) -> &[(&'b [u8], &'b [u8])] {
        if self.all.is_empty() { &self.first[..self.count] } else { &self.all }
    }
}

fn expects_body(request: &Request<'_>) -> bool {
    [&b"POST "[..], b"PUT ", b"PATCH "].iter().any(|method| request.line.starts_with(method))
}

/// The bit of a name.
fn mark(name: &[u8]) -> u64 {
    let letter = |byte: Option<&u8>| usize::from(byte.copied().unwrap_or(0) | 0x20);
    1 << ((name.len() * 5 + letter(name.first()) * 3 + letter(name.last())) % 64)
}

/// A field that becomes no `HTTP_` variable.
enum OwnName {
    ContentType,
    ContentLength,
    /// It concerns the connection, is `Host`, or is dangerous.
    Withheld,
}

fn own_name(name: &[u8]) -> Option<OwnName> {
    let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
    match name.len() {
        12 if is(b"content-type") => Some(OwnName::ContentType),
        14 if is(b"content-length") => Some(OwnName::ContentLength),
        2 if is(b"te") => Some(OwnName::Withheld),
        4 if is(b"host") => Some(OwnName::Withheld),
        5 if is(b"proxy") => Some(OwnName::Withheld),
        6 if is(b"expect") => Some(OwnName::Withheld),
        7 if is(b"upgrade") => Some(OwnName::Withheld),
        10 if is(b"connection") || is(b"keep-alive") => Some(OwnName::Withheld),
        17 if is(b"transfer-encoding") => Some(OwnName::Withheld),
        _ => name.contains(&b'_').then_some(OwnName::Withheld),
    }
}

/// How a byte of a field's name is written in its variable's.
const VARIABLE_BYTE: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = if byte == b'-' as usize { b'_' } else { (byte as u8).to_ascii_uppercase() };
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use sojourn_http::request::{Parsed, Parser};

    use super::*;

    fn php() -> Application {
        Application {
            root: b"/srv/www".to_vec(),
            index: b"index.php".to_vec(),
            suffix: b".php".to_vec(),
            ..Application::default()
        }
    }

    fn variables(application: &Application, head: &str, is_secure: bool) -> Option<BTreeMap<String, String>> {
        let Ok(Parsed::Complete(request)) = Parser::default().parse(head.as_bytes()) else {
            panic!("{head}")
        };
        let ends = Ends { client_port: Some(40_001), server: Some([198, 51, 100, 7].into()) };
        let client = Client { address: [192, 0, 2, 1].into(), ends, is_secure, version: request.version };
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let mut found = BTreeMap::new();
        let is_withheld = |name: &[u8]| name == b"x-withheld";
        let is_inside =
            application.variables_of(&request, client, is_withheld, &mut |name: &[u8], value: &[&[u8]]| {
                assert_eq!(found.insert(text(name), text(&value.concat())), None, "each name once");
            });
        is_inside.then_some(found)
    }

    #[test]
    fn scripts_and_paths() {
        let check = |application: &Application, target: &str, file: &str, name: &str, info: &str| {
            let head = format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n");
            let found = variables(application, &head, false).unwrap();
            let got = (&*found["SCRIPT_FILENAME"], &*found["SCRIPT_NAME"], &*found["PATH_INFO"]);
            assert_eq!(got, (file, name, info), "{target}");
        };
        check(&php(), "/", "/srv/www/index.php", "/index.php", "");
        check(&php(), "/a/?x=/b.php/c", "/srv/www/a/index.php", "/a/index.php", "");
        check(&php(), "/a.php/b/c?d", "/srv/www/a.php", "/a.php", "/b/c");
        check(&php(), "/a.php/b.php", "/srv/www/a.php", "/a.php", "/b.php");
        check(&php(), "/a.phpx/%62.php", "/srv/www/a.phpx/b.php", "/a.phpx/b.php", "");
        check(&php(), "/x/../a.php", "/srv/www/a.php", "/a.php", "");
        check(&php(), "/photo.jpg", "/srv/www/photo.jpg", "/photo.jpg", "");
        let front = Application { script: Some(b"/app/main".to_vec()), ..php() };
        check(&front, "/a.php/b", "/app/main", "", "/a.php/b");
        assert_eq!(variables(&php(), "GET /../a.php HTTP/1.1\r\nHost: h\r\n\r\n", false), None);
    }

    #[test]
    fn what_the_application_is_told() {
        let head = "POST /a.php/b?c=d%20e HTTP/1.1\r\nHost: [::1]:8443\r\nContent-Length: 3\r\n\
            Content-Type: text/plain\r\nCookie: a=1\r\ncookie: b=2\r\nX-Y: 1\r\nX_Y: 2\r\nProxy: evil\r\nx-withheld: a\r\n\
            Authorization: Basic eA==\r\nExpect: 100-continue\r\nX-Y: 3\r\n\r\n";
        let application = Application { variables: vec![(b"SERVER_NAME".to_vec(), b"me".to_vec())], ..php() };
        let found = variables(&application, head, true).unwrap();
        for (name, value) in [
            ("REQUEST_METHOD", "POST"),
            ("REQUEST_URI", "/a.php/b?c=d%20e"),
            ("QUERY_STRING", "c=d%20e"),
            ("PATH_TRANSLATED", "/srv/www/b"),
            ("SERVER_NAME", "me"),
            ("SERVER_PROTOCOL", "HTTP/1.1"),
            ("SERVER_PORT", "8443"),
            ("HTTPS", "on"),
            ("REMOTE_ADDR", "192.0.2.1"),
            ("REMOTE_PORT", "40001"),
            ("SERVER_ADDR", "198.51.100.7"),
            ("CONTENT_LENGTH", "3"),
            ("CONTENT_TYPE", "text/plain"),
            ("HTTP_COOKIE", "a=1; b=2"),
            ("HTTP_X_Y", "1, 3"),
            ("HTTP_AUTHORIZATION", "Basic eA=="),
            ("HTTP_HOST", "[::1]:8443"),
        ] {
            assert_eq!(found[name], value, "{name}");
        }
        assert!(!found.contains_key("HTTP_PROXY") && !found.contains_key("HTTP_EXPECT"));
        assert!(!found.contains_key("HTTP_CONTENT_TYPE") && !found.contains_key("HTTP_X_WITHHELD"));
    }

    #[test]
    fn many_fields_and_a_long_one() {
        let long = "x".repeat(VARIABLE_BYTES);
        let many: String = (0..2 * FIELDS_USUAL).map(|index| format!("X-{index}: {index}\r\n")).collect();
        let head = format!("GET / HTTP/1.1\r\nHost: h\r\n{many}{long}: a\r\nX-0: b\r\n{long}: c\r\n\r\n");
        let found = variables(&php(), &head, false).unwrap();
        for (name, value) in
            [("X_0", "0, b"), ("X_15", "15"), ("X_16", "16"), ("X_31", "31"), (&*long.to_uppercase(), "a, c")]
        {
            assert_eq!(found[&format!("HTTP_{name}")], value, "{name}");
        }
    }

    #[test]
    fn hosts_and_ports() {
        let plain = |host: &'static str| name_and_port(host.as_bytes(), false);
        assert_eq!(plain("h"), (&b"h"[..], &b"80"[..]));
        assert_eq!(plain("h:8080"), (&b"h"[..], &b"8080"[..]));
        assert_eq!(plain("[::1]"), (&b"[::1]"[..], &b"80"[..]));
        assert_eq!(name_and_port(b"h:", true), (&b"h"[..], &b"443"[..]));
    }
}
