//! Turns a client's request into the request to an upstream, or decides why it is not forwarded.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use sojourn_cache_store::Key;
use sojourn_cgi::{Application, Client, Ends, fastcgi};
use sojourn_content::HostId;
use sojourn_http::request::{Body, Method, Request, Version};
use sojourn_http::upstream::RequestKind;
use sojourn_http::{Status, head};

use sojourn_http_cache::fields::Section;
use sojourn_http_cache::forward::{self, Hop, Originator, Passing, Purpose, Via, is_originator};
use sojourn_http_cache::key::{normalised_host, rooted};
use sojourn_http_cache::upgrade::{append_upgrade, offered};

use super::cache_miss::Generation;
use super::{Cache, CacheMiss, Changes, FetchRange, Flow, Proxy, RequestHead, Upload};

/// The usual size of the fields added to a head.
const ADDED_BYTES: usize = 256;

/// About the size of a request's records, but for what the client has sent.
const RECORDS_BYTES: usize = 768;

/// The client, its transport, and the proxy's virtual host.
#[derive(Clone, Copy, Debug)]
pub struct ClientContext {
    pub peer: IpAddr,
    pub ends: Ends,
    /// True if the client used `https`.
    pub is_secure: bool,
    pub host: HostId,
}

impl ClientContext {
    pub fn scheme(self) -> &'static str {
        if self.is_secure { "https" } else { "http" }
    }
}

/// The host named by `request`, or the virtual host's first upstream.
pub fn host<'a>(request: &Request<'a>, ask: ClientContext, proxy: &'a Proxy) -> &'a [u8] {
    let first = || proxy.upstreams.get(proxy.upstreams_of(ask.host).start);
    request.host.or_else(|| Some(first()?.authority.as_bytes())).unwrap_or_default()
}

/// The proxy's own answer to a request that is not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalResponse {
    Status(Status),
    /// The answer to OPTIONS for the proxy itself.
    Options,
}

/// The proxy's own answer to `request`, if it is not forwarded.
pub fn local_response(request: &Request<'_>, proxy: &Proxy) -> Option<LocalResponse> {
    let is_forward = proxy.forward.is_some();
    match request.method {
        Method::Connect => return Some(LocalResponse::Status(Status::NotImplemented)),
        // TRACE would reveal what this proxy adds, and a browser's cookies.
        _ if request.line.starts_with(b"TRACE ") => {
            return Some(LocalResponse::Status(Status::NotImplemented));
        }
        // RFC 9110, 7.6.2: with Max-Forwards 0 the recipient answers itself.
        Method::Options if request.field("max-forwards") == Some(b"0") => {
            return Some(LocalResponse::Options);
        }
        // RFC 9112, 3.2.4: `*` asks about a gateway itself, but not about a forward proxy.
        Method::Options if request.target == b"*" => {
            return (!is_forward).then_some(LocalResponse::Options);
        }
        _ if !matches!(request.target, [b'/' | b'?', ..]) => {
            return Some(LocalResponse::Status(Status::BadRequest));
        }
        _ => {}
    }
    let is_loop = request.has_via && forward::is_loop(Section(request.fields), &proxy.pseudonym);
    is_loop.then_some(LocalResponse::Status(Status::LoopDetected))
}

/// The protocols to which `request` asks to switch, if that is passed on: without a body, by HTTP/1.1, to servers that speak
/// HTTP themselves.
pub fn upgrade(request: &Request<'_>, host: HostId, proxy: &Proxy) -> Option<Vec<u8>> {
    let may_switch = request.has_connection
        && request.method == Method::Get
        && request.version == Version::Http11
        && request.body == Body::Length(0)
        && proxy.forward.is_none()
        && proxy.speaks_http(host);
    if may_switch { offered(Section(request.fields)) } else { None }
}

/// Makes a new `flow` that of `request`. With `miss`, its response may be stored or revalidates a stored one. A body is
/// forwarded as it arrives unless the proxy `buffers` it.
pub fn build_flow(
    request: &Request<'_>,
    ask: ClientContext,
    proxy: &Proxy,
    miss: Option<Box<CacheMiss>>,
    buffers: bool,
    mut flow: Box<Flow>,
) -> Box<Flow> {
    let method = method(request);
    let upgrade = if miss.is_none() { upgrade(request, ask.host, proxy) } else { None };
    let client =
        Client { address: ask.peer, ends: ask.ends, is_secure: ask.is_secure, version: request.version };
    // CGI applications read as many bytes as CONTENT_LENGTH says.
    let is_gathered = match request.body {
        Body::Length(0) => false,
        Body::Length(_) => buffers,
        Body::Chunked => buffers || proxy.has_applications(ask.host),
    };
    // The cache needs the text.
    let application = proxy.application_of(ask.host).filter(|_| proxy.cache.is_none() && !is_gathered);
    let mut bytes = flow.take_head();
    let is_for_application =
        application.is_some_and(|application| append_records(request, client, application, &mut bytes));
    let (head, unconditional, upload) = if is_for_application {
        let has_body = request.body != Body::Length(0);
        (RequestHead::Records(bytes), None, has_body.then(Upload::default))
    } else {
        let (mut text, unconditional) = text_for(request, ask, proxy, miss.as_deref(), bytes);
        if let Some(protocols) = &upgrade {
            append_upgrade(&mut text, protocols);
        }
        let upload = if is_gathered {
            Some(Upload { is_gathered, is_asked_for: true, ..Upload::default() })
        } else {
            let upload = append_framing(&mut text, method, request);
            text.extend_from_slice(b"\r\n");
            upload
        };
        (RequestHead::Http(text), unconditional, upload)
    };
    let asked = if request.method == Method::Head { RequestKind::Head } else { RequestKind::Other };
    // RFC 9110, 9.2.2; a request with a body is not repeated, because the body is not kept.
    let is_idempotent = matches!(method, b"GET" | b"HEAD" | b"OPTIONS" | b"PUT" | b"DELETE");
    let is_repeatable = is_idempotent && upload.is_none();
    (flow.request, flow.asked, flow.is_repeatable, flow.upload) = (head, asked, is_repeatable, upload);
    (flow.miss, flow.unconditional, flow.host) = (miss, unconditional, ask.host);
    flow.upgrade = upgrade.map(Vec::into_boxed_slice);
    flow.client = Some(client);
    let origin = proxy.forward.as_ref().and_then(|rules| rules.origin(request, ask.peer).ok());
    flow.origin = origin.map(Arc::new);
    flow.changes = (!matches!(request.method, Method::Get | Method::Head | Method::Options)).then(|| {
        let mut changes = Changes {
            method: method.into(),
            scheme: ask.scheme(),
            host: host(request, ask, proxy).into(),
            path: request.target.into(),
            spelling: proxy.spelling(),
            generation: Generation::default(),
        };
        if let Some(cache) = &proxy.cache {
            let text = changes.target().key();
            changes.generation = cache.generation(&Key::new(&text));
        }
        Box::new(changes)
    });
    flow
}

/// Appends the request as records of FastCGI; false if its path leaves the site.
fn append_records(
    request: &Request<'_>,
    client: Client,
    application: &Application,
    records: &mut Vec<u8>,
) -> bool {
    let scheme = if client.is_secure { "https" } else { "http" };
    let host = match request.host.map(|host| normalised_host(scheme, host)) {
        Some(Cow::Owned(host)) => Some(host),
        // As most are written.
        None | Some(Cow::Borrowed(_)) => None,
    };
    let renamed = host.as_deref().map(|host| Request { host: Some(host), ..request.clone() });
    let request = renamed.as_ref().unwrap_or(request);
    let passing = match request.has_connection {
        true => Passing::of(Section(request.fields)),
        false => Passing::default(),
    };
    // An application is no further hop: variables tell it about client and server.
    let is_withheld = |name: &[u8]| !passing.passes(name) || is_originator(name);
    records.reserve(RECORDS_BYTES + 2 * request.head_len);
    fastcgi::head(application, request, client, is_withheld, records)
}

/// The request head without its framing fields, in this memory, and, for a revalidation, the same without its conditions.
fn text_for(
    request: &Request<'_>,
    ask: ClientContext,
    proxy: &Proxy,
    miss: Option<&CacheMiss>,
    memory: Vec<u8>,
) -> (Vec<u8>, Option<Vec<u8>>) {
    let Some(miss) = miss.filter(|_| request.method == Method::Get) else {
        return (head_for(request, ask, proxy, Purpose::Pass, memory), None);
    };
    let is_part = match &miss.fetch_range {
        FetchRange::Whole => false,
        FetchRange::Part => true,
        FetchRange::Rest(rest) => matches!(rest.fallback_range(), FetchRange::Part),
    };
    let plain = head_for(request, ask, proxy, if is_part { Purpose::Part } else { Purpose::Fill }, memory);
    let stored = miss.stored();
    let purpose = match &miss.fetch_range {
        FetchRange::Rest(rest) => rest.purpose(),
        _ if stored.is_empty() => return (plain, None),
        _ => Purpose::Revalidate(&stored),
    };
    let unconditional = [&plain, b"\r\n".as_slice()].concat();
    (head_for(request, ask, proxy, purpose, Vec::new()), Some(unconditional))
}

fn method<'a>(request: &Request<'a>) -> &'a [u8] {
    request.line.split(|byte| *byte == b' ').next().unwrap_or_default()
}

/// The head of the request to the upstream, up to the framing fields.
fn head_for(
    request: &Request<'_>,
    ask: ClientContext,
    proxy: &Proxy,
    purpose: Purpose<'_>,
    mut text: Vec<u8>,
) -> Vec<u8> {
    let target = match purpose {
        Purpose::Pass => rooted(request.target),
        // Requests with the same key must be sent alike, because they share a response.
        Purpose::Fill | Purpose::Part | Purpose::Rest { .. } | Purpose::Revalidate(_) => {
            proxy.spelling().of(request.target)
        }
    };
    text.reserve(request.head_len + ADDED_BYTES);
    for part in [method(request), b" ", &target, b" HTTP/1.1\r\n"] {
        text.extend_from_slice(part);
    }
    let is_for_application = proxy.has_applications(ask.host);
    let via = Via { received: request.version, pseudonym: &proxy.pseudonym };
    let hop = Hop {
        // An application is no further hop: what it is told of the client and the server are variables.
        via: (!is_for_application).then_some(via),
        client: ask.peer,
        scheme: ask.scheme(),
        host: &normalised_host(ask.scheme(), host(request, ask, proxy)),
        // Upstreams of a reverse proxy belong to the site; other origins do not learn the client's address.
        originator: if proxy.forward.is_some() || is_for_application {
            Originator::Drop
        } else {
            Originator::Overwrite
        },
        purpose,
        counts_hops: request.method == Method::Options,
    };
    forward::append_request(&mut text, Section(request.fields), &hop);
    if proxy.cache.as_ref().is_some_and(Cache::is_surrogate) {
        head::field(&mut text, "Surrogate-Capability", &format!("{}=\"Surrogate/1.0\"", proxy.pseudonym));
    }
    text
}

/// Writes the framing fields anew, in exactly one way.
fn append_framing(text: &mut Vec<u8>, method: &[u8], request: &Request<'_>) -> Option<Upload> {
    match request.body {
        // RFC 9110, 8.6: for methods that usually have a body, an empty one is announced.
        Body::Length(0) if matches!(method, b"POST" | b"PUT" | b"PATCH") => {
            head::content_length(text, 0);
            return None;
        }
        Body::Length(0) => return None,
        Body::Length(length) => head::content_length(text, length),
        Body::Chunked => head::field(text, "Transfer-Encoding", "chunked"),
    }
    if request.expects_continue {
        head::field(text, "Expect", "100-continue");
    }
    Some(Upload::default())
}

#[cfg(test)]
mod tests {
    use sojourn_cgi::responder::RequestReader;
    use sojourn_http::request::{Parsed, Parser};

    use super::*;
    use crate::handler::reverse_proxy::{Protocol, Upstream, UpstreamState};

    fn of(text: &str) -> Result<Vec<String>, LocalResponse> {
        head_lines(text, false)
    }

    /// The head's lines before those about a body that the proxy `buffers`.
    fn head_lines(text: &str, buffers: bool) -> Result<Vec<String>, LocalResponse> {
        let proxy = Proxy {
            upstreams: vec![],
            hosts: vec![],
            forward: None,
            pseudonym: "me".to_owned(),
            cache: None,
        };
        let Ok(Parsed::Complete(request)) = Parser::default().parse(text.as_bytes()) else {
            panic!("{text}")
        };
        if let Some(answer) = local_response(&request, &proxy) {
            return Err(answer);
        }
        let flow = build_flow(
            &request,
            ClientContext {
                peer: [192, 0, 2, 1].into(),
                ends: Ends::default(),
                is_secure: true,
                host: HostId(0),
            },
            &proxy,
            None,
            buffers,
            Box::default(),
        );
        let text = String::from_utf8(flow.request.text().to_vec()).unwrap();
        let mut lines: Vec<_> = text.split_terminator("\r\n").map(str::to_owned).collect();
        if !flow.upload.is_some_and(|upload| upload.is_gathered) {
            assert_eq!(lines.pop().as_deref(), Some(""));
        }
        lines[1..].sort_unstable();
        Ok(lines)
    }

    fn check(text: &str, line: &str, others: &[&str]) {
        let added = [
            "Forwarded: for=192.0.2.1;proto=https;host=\"h\"",
            "Host: h",
            "Via: 1.1 me",
            "X-Forwarded-For: 192.0.2.1",
            "X-Forwarded-Host: h",
            "X-Forwarded-Proto: https",
        ];
        let mut expected = [&[line], &added[..], others].concat();
        expected[1..].sort_unstable();
        assert_eq!(of(text).unwrap(), expected, "{text}");
    }

    #[test]
    fn one_request_in_one_framing() {
        check(
            "GET http://h/a?b HTTP/1.1\r\nHost: other\r\nConnection: keep-alive\r\nAccept: */*\r\n\r\n",
            "GET /a?b HTTP/1.1",
            &["Accept: */*"],
        );
        check(
            "PURGE / HTTP/1.1\r\nHost: h\r\nContent-Length: 7\r\nExpect: 100-continue\r\n\r\n",
            "PURGE / HTTP/1.1",
            &["Content-Length: 7", "Expect: 100-continue"],
        );
        check(
            "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n",
            "POST / HTTP/1.1",
            &["Transfer-Encoding: chunked"],
        );
        check("POST / HTTP/1.1\r\nHost: h\r\n\r\n", "POST / HTTP/1.1", &["Content-Length: 0"]);
    }

    #[test]
    fn the_framing_of_a_buffered_body_is_not_known_yet() {
        for framing in
            ["Content-Length: 7", "Content-Length: 7\r\nExpect: 100-continue", "Transfer-Encoding: chunked"]
        {
            let text = format!("POST / HTTP/1.1\r\nHost: h\r\n{framing}\r\n\r\n");
            let lines = head_lines(&text, true).unwrap();
            let is_about_body = |line: &String| {
                ["Content-Length", "Transfer-Encoding", "Expect"].iter().any(|name| line.starts_with(name))
            };
            assert!(lines.len() > 5 && !lines.iter().any(is_about_body), "{lines:?}");
        }
        let lines = head_lines("POST / HTTP/1.1\r\nHost: h\r\n\r\n", true).unwrap();
        assert!(lines.contains(&"Content-Length: 0".to_owned()), "{lines:?}");
    }

    /// What an application is told by records, and what by the text that the cache needs.
    #[test]
    fn an_application_is_told_of_client_and_server_by_variables_alone() {
        let application = Arc::new(Application { root: b"/srv".to_vec(), ..Application::default() });
        let upstream = Upstream {
            name: "app".to_owned(),
            authority: "app".to_owned(),
            host: "127.0.0.1".to_owned(),
            port: 0,
            presence: Arc::new(UpstreamState::new(&[])),
            occupancy: Arc::default(),
            protocol: Protocol::FastCgi(application),
            tls: None,
            weight: 1,
            idle_max: None,
            processes: None,
        };
        let proxy = Proxy {
            upstreams: vec![upstream],
            hosts: std::iter::once(0..1).collect(),
            forward: None,
            pseudonym: "me".to_owned(),
            cache: None,
        };
        let text = "POST http://Example.org:443/a?b HTTP/1.1\r\nHost: other\r\nConnection: X-Own\r\nX-Own: 1\r\n\
            X-Forwarded-For: 1.2.3.4\r\nVia: 1.0 there\r\nX-Y: z\r\nProxy: evil\r\nContent-Length: 2\r\n\r\n";
        let Ok(Parsed::Complete(request)) = Parser::default().parse(text.as_bytes()) else {
            panic!("{text}")
        };
        let context = ClientContext {
            peer: [192, 0, 2, 1].into(),
            ends: Ends::default(),
            is_secure: true,
            host: HostId(0),
        };
        let flow = build_flow(&request, context, &proxy, None, false, Box::default());
        let RequestHead::Records(records) = &flow.request else { panic!("no records") };
        let told =
            RequestReader::new(9).read(&[&records[..], &[1, 5, 0, 1, 0, 0, 0, 0]].concat()).unwrap().unwrap();
        for (name, value) in [
            ("HTTP_HOST", "example.org"),
            ("SERVER_NAME", "example.org"),
            ("SERVER_PORT", "443"),
            ("REMOTE_ADDR", "192.0.2.1"),
            ("HTTPS", "on"),
            ("SCRIPT_FILENAME", "/srv/a"),
            ("CONTENT_LENGTH", "2"),
            ("HTTP_X_Y", "z"),
            ("HTTP_VIA", "1.0 there"),
            ("HTTP_X_OWN", ""),
            ("HTTP_X_FORWARDED_FOR", ""),
            ("HTTP_FORWARDED", ""),
            ("HTTP_PROXY", ""),
        ] {
            assert_eq!(told.variables.value(name), value, "{name}");
        }
        assert!(flow.upload.is_some());
        let text = head_for(&request, context, &proxy, Purpose::Pass, Vec::new());
        let text = String::from_utf8(text).unwrap();
        assert!(
            text.contains("Via: 1.0 there\r\n") && !text.contains("me\r\n") && !text.contains("Forwarded"),
            "{text}"
        );
    }

    #[test]
    fn what_goes_no_further() {
        let refused = |text, answer| assert_eq!(of(text), Err(answer), "{text}");
        let status = LocalResponse::Status;
        refused("TRACE / HTTP/1.1\r\nHost: h\r\n\r\n", status(Status::NotImplemented));
        refused("CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n", status(Status::NotImplemented));
        refused("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", LocalResponse::Options);
        refused("OPTIONS / HTTP/1.1\r\nHost: h\r\nMax-Forwards: 0\r\n\r\n", LocalResponse::Options);
        refused("GET / HTTP/1.1\r\nHost: h\r\nVia: 1.1 a, 1.1 Me\r\n\r\n", status(Status::LoopDetected));
        refused("GET x HTTP/1.1\r\nHost: h\r\n\r\n", status(Status::BadRequest));
    }
}
