//! Turns a client's request into the request to an upstream, or decides why it is not forwarded.

use std::net::IpAddr;
use std::sync::Arc;

use sojourn_cgi::Client;
use sojourn_content::HostId;
use sojourn_http::request::{Body, Method, Request};
use sojourn_http::upstream::RequestKind;
use sojourn_http::{Status, head};

use sojourn_http_cache::fields::Section;
use sojourn_http_cache::forward::{self, Hop, Originator, Purpose, Via};
use sojourn_http_cache::key::{normalised_host, rooted};

use super::{Cache, CacheMiss, Changes, FetchRange, Flow, Proxy, Upload};

/// The usual size of the fields added to a head.
const ADDED_BYTES: usize = 256;

/// The client, its transport, and the proxy's virtual host.
#[derive(Clone, Copy, Debug)]
pub struct ClientContext {
    pub peer: IpAddr,
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
pub enum OwnAnswer {
    Status(Status),
    /// The answer to OPTIONS for the proxy itself.
    Options,
}

/// The proxy's own answer to `request`, if it is not forwarded.
pub fn own_answer(request: &Request<'_>, proxy: &Proxy) -> Option<OwnAnswer> {
    let is_forward = proxy.forward.is_some();
    match request.method {
        Method::Connect => return Some(OwnAnswer::Status(Status::NotImplemented)),
        // TRACE would reveal what this proxy adds, and a browser's cookies.
        _ if method(request) == b"TRACE" => return Some(OwnAnswer::Status(Status::NotImplemented)),
        // RFC 9110, 7.6.2: with Max-Forwards 0 the recipient answers itself.
        Method::Options if request.field("max-forwards") == Some(b"0") => return Some(OwnAnswer::Options),
        // RFC 9112, 3.2.4: `*` asks about a gateway itself, but not about a forward proxy.
        Method::Options if request.target == b"*" => {
            return (!is_forward).then_some(OwnAnswer::Options);
        }
        _ if !matches!(request.target, [b'/' | b'?', ..]) => {
            return Some(OwnAnswer::Status(Status::BadRequest));
        }
        _ => {}
    }
    let is_loop = forward::is_loop(Section(request.fields), &proxy.pseudonym);
    is_loop.then_some(OwnAnswer::Status(Status::LoopDetected))
}

/// The flow for `request`. With `miss`, its response may be stored or revalidates a stored one.
pub fn ask(request: &Request<'_>, ask: ClientContext, proxy: &Proxy, miss: Option<CacheMiss>) -> Flow {
    let method = method(request);
    let mut unconditional = None;
    let mut text = match &miss {
        Some(miss) if request.method == Method::Get => {
            let is_part = match &miss.fetch_range {
                FetchRange::Whole => false,
                FetchRange::Part => true,
                FetchRange::Rest(rest) => matches!(rest.otherwise(), FetchRange::Part),
            };
            let plain = head_for(request, ask, proxy, if is_part { Purpose::Part } else { Purpose::Fill });
            let stored = miss.stored();
            let purpose = match &miss.fetch_range {
                FetchRange::Rest(rest) => Some(rest.purpose()),
                _ if stored.is_empty() => None,
                _ => Some(Purpose::Revalidate(&stored)),
            };
            match purpose {
                None => plain,
                Some(purpose) => {
                    unconditional = Some([&plain, b"\r\n".as_slice()].concat());
                    head_for(request, ask, proxy, purpose)
                }
            }
        }
        _ => head_for(request, ask, proxy, Purpose::Pass),
    };
    // CGI applications read as many bytes as CONTENT_LENGTH says.
    let is_gathered = request.body == Body::Chunked && proxy.speaks_cgi(ask.host);
    let upload = if is_gathered {
        Some(Upload { is_gathered, is_asked_for: true, ..Upload::default() })
    } else {
        let upload = append_framing(&mut text, method, request);
        text.extend_from_slice(b"\r\n");
        upload
    };
    let asked = if request.method == Method::Head { RequestKind::Head } else { RequestKind::Other };
    // RFC 9110, 9.2.2; a request with a body is not repeated, because the body is not kept.
    let is_idempotent = matches!(method, b"GET" | b"HEAD" | b"OPTIONS" | b"PUT" | b"DELETE");
    let is_repeatable = is_idempotent && upload.is_none();
    let mut flow = Flow::new(text, asked, is_repeatable, upload);
    (flow.miss, flow.unconditional, flow.host) = (miss, unconditional, ask.host);
    flow.client = Some(Client { address: ask.peer, is_secure: ask.is_secure });
    let origin = proxy.forward.as_ref().and_then(|rules| rules.origin(request, ask.peer).ok());
    flow.origin = origin.map(Arc::new);
    flow.changes =
        (!matches!(request.method, Method::Get | Method::Head | Method::Options)).then(|| Changes {
            method: method.into(),
            scheme: ask.scheme(),
            host: host(request, ask, proxy).into(),
            path: request.target.into(),
            spelling: proxy.spelling(),
        });
    flow
}

fn method<'a>(request: &Request<'a>) -> &'a [u8] {
    request.line.split(|byte| *byte == b' ').next().unwrap_or_default()
}

/// The head of the request to the upstream, up to the framing fields.
fn head_for(request: &Request<'_>, ask: ClientContext, proxy: &Proxy, purpose: Purpose<'_>) -> Vec<u8> {
    let target = match purpose {
        Purpose::Pass => rooted(request.target),
        // Requests with the same key must be sent alike, because they share a response.
        Purpose::Fill | Purpose::Part | Purpose::Rest { .. } | Purpose::Revalidate(_) => {
            proxy.spelling().of(request.target)
        }
    };
    let mut text = Vec::with_capacity(request.head_len + ADDED_BYTES);
    for part in [method(request), b" ", &target, b" HTTP/1.1\r\n"] {
        text.extend_from_slice(part);
    }
    let hop = Hop {
        via: Via { received: request.version, pseudonym: &proxy.pseudonym },
        client: ask.peer,
        scheme: ask.scheme(),
        host: &normalised_host(ask.scheme(), host(request, ask, proxy)),
        // Upstreams of a reverse proxy belong to the site; other origins do not learn the client's address.
        originator: if proxy.forward.is_some() { Originator::Drop } else { Originator::Overwrite },
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
    use super::*;
    use sojourn_http::request::{Parsed, Parser};

    fn of(text: &str) -> Result<Vec<String>, OwnAnswer> {
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
        if let Some(answer) = own_answer(&request, &proxy) {
            return Err(answer);
        }
        let flow = ask(
            &request,
            ClientContext { peer: [192, 0, 2, 1].into(), is_secure: true, host: HostId(0) },
            &proxy,
            None,
        );
        let text = String::from_utf8(flow.request).unwrap();
        let mut lines: Vec<_> = text.split_terminator("\r\n").map(str::to_owned).collect();
        assert_eq!(lines.pop().as_deref(), Some(""));
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
    fn what_goes_no_further() {
        let refused = |text, answer| assert_eq!(of(text), Err(answer), "{text}");
        let status = OwnAnswer::Status;
        refused("TRACE / HTTP/1.1\r\nHost: h\r\n\r\n", status(Status::NotImplemented));
        refused("CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n", status(Status::NotImplemented));
        refused("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", OwnAnswer::Options);
        refused("OPTIONS / HTTP/1.1\r\nHost: h\r\nMax-Forwards: 0\r\n\r\n", OwnAnswer::Options);
        refused("GET / HTTP/1.1\r\nHost: h\r\nVia: 1.1 a, 1.1 Me\r\n\r\n", status(Status::LoopDetected));
        refused("GET x HTTP/1.1\r\nHost: h\r\n\r\n", status(Status::BadRequest));
    }
}
