//! Refusals of a forward proxy: status, explanation, counter and Proxy-Status error.

use sojourn_http::request::Request;
use sojourn_http::{Status, head};

use crate::access_log::Outcome;
use crate::connection::{Response, Step};
use crate::counters::Counter;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The client may not use this proxy.
    Client,
    /// The target is not an `http://` or `https://` URI, or its origin is invalid.
    Target,
    /// `https` is not possible, because no trusted authorities are configured.
    Scheme,
    /// A tunnel was requested incorrectly.
    Tunnel,
    Port,
    /// The name resolves only to addresses that are not public.
    Address,
    /// The name does not exist, or its lookup failed.
    Name,
    LookupTime,
    /// Too many lookups are in progress.
    Lookups,
    /// The client has too many tunnels.
    Tunnels,
}

impl Refusal {
    pub fn status(self) -> Status {
        match self {
            Refusal::Client | Refusal::Port | Refusal::Address => Status::Forbidden,
            Refusal::Target => Status::BadRequest,
            Refusal::Scheme | Refusal::Tunnel => Status::NotImplemented,
            Refusal::Name => Status::BadGateway,
            Refusal::LookupTime => Status::GatewayTimeout,
            Refusal::Lookups | Refusal::Tunnels => Status::ServiceUnavailable,
        }
    }

    /// The error type of Proxy-Status (RFC 9209, 2.3).
    pub fn error(self) -> &'static str {
        match self {
            Refusal::Client | Refusal::Port => "http_request_denied",
            Refusal::Target | Refusal::Scheme | Refusal::Tunnel => "http_request_error",
            Refusal::Address => "destination_ip_prohibited",
            Refusal::Name => "dns_error",
            Refusal::LookupTime => "dns_timeout",
            Refusal::Lookups | Refusal::Tunnels => "connection_limit_reached",
        }
    }

    pub fn explanation(self) -> &'static str {
        match self {
            Refusal::Client => "This proxy does not serve your address.",
            Refusal::Target => {
                "This is a forward proxy: send http://HOST/…, https://HOST/… or CONNECT HOST:PORT."
            }
            Refusal::Scheme => "This proxy cannot verify certificates: use a tunnel (CONNECT) for https.",
            Refusal::Tunnel => "Use HTTP/1 to open a tunnel (CONNECT).",
            Refusal::Port => "This proxy does not connect to that port.",
            Refusal::Address => "That name resolves to an address to which this proxy does not connect.",
            Refusal::Name => "That name was not found.",
            Refusal::LookupTime => "The lookup of that name timed out.",
            Refusal::Lookups => "Too many names are being looked up.",
            Refusal::Tunnels => "You have reached the limit of tunnels per client.",
        }
    }

    pub fn counter(self) -> Counter {
        match self {
            Refusal::Client => Counter::ForwardDeniedClient,
            Refusal::Target | Refusal::Scheme | Refusal::Tunnel => Counter::ForwardDeniedTarget,
            Refusal::Port => Counter::ForwardDeniedPort,
            Refusal::Address => Counter::ForwardDeniedAddress,
            Refusal::Name | Refusal::LookupTime => Counter::LookupFailures,
            Refusal::Lookups => Counter::LimitLookups,
            Refusal::Tunnels => Counter::LimitTunnelsPerClient,
        }
    }
}

/// Answers `request` with a page that explains the refusal; `pseudonym` is the proxy's name.
pub fn refuse(
    request: &Request<'_>,
    refusal: Refusal,
    pseudonym: &str,
    response: &mut Response<'_, '_>,
) -> Step {
    let status = refusal.status();
    response.shared.served.count(refusal.counter());
    if status == Status::Forbidden {
        response.note_outcome(Outcome::Denied);
    }
    response.begin(status, request);
    let page = format!("{}<p>{}\n", head::error_page(status), refusal.explanation());
    // Proxy-Status (RFC 9209): the proxy and its error.
    let proxy_status = format!("{pseudonym}; error={}", refusal.error());
    head::field(response.fields(), "Proxy-Status", &proxy_status);
    response.send_rest(request, status, "text/html; charset=utf-8", page.as_bytes())
}
