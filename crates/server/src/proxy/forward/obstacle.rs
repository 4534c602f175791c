//! Why a forward proxy does not reach what it is asked for, as clients, counters and Proxy-Status are told.

use sojourn_http::Status;

use crate::counters::Counter;

/// What stands between a client and an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The client may not use this proxy.
    Client,
    /// The target is no `http://` or `https://` URI, or the origin in it is none.
    Target,
    /// Nobody can say here whose certificates are good.
    Scheme,
    /// A tunnel is not spoken of in this way.
    Tunnel,
    /// Nothing is asked for at this port.
    Port,
    /// The name leads to addresses that are not for everybody, and to no other.
    Address,
    /// There is no such name, or nobody could say.
    Name,
    /// Nobody has said in time where the name leads.
    LookupTime,
    /// Too many names are looked up already.
    Lookups,
    /// The client has too many tunnels already.
    Tunnels,
}

impl Obstacle {
    /// The answer.
    pub fn status(self) -> Status {
        match self {
            Obstacle::Client | Obstacle::Port | Obstacle::Address => Status::Forbidden,
            Obstacle::Target => Status::BadRequest,
            Obstacle::Scheme | Obstacle::Tunnel => Status::NotImplemented,
            Obstacle::Name => Status::BadGateway,
            Obstacle::LookupTime => Status::GatewayTimeout,
            Obstacle::Lookups | Obstacle::Tunnels => Status::ServiceUnavailable,
        }
    }

    /// The error of Proxy-Status (RFC 9209, 2.3).
    pub fn error(self) -> &'static str {
        match self {
            Obstacle::Client | Obstacle::Port => "http_request_denied",
            Obstacle::Target | Obstacle::Scheme | Obstacle::Tunnel => "http_request_error",
            Obstacle::Address => "destination_ip_prohibited",
            Obstacle::Name => "dns_error",
            Obstacle::LookupTime => "dns_timeout",
            Obstacle::Lookups | Obstacle::Tunnels => "connection_limit_reached",
        }
    }

    /// For people.
    pub fn explanation(self) -> &'static str {
        match self {
            Obstacle::Client => "This proxy does not serve your address.",
            Obstacle::Target => {
                "This is a forward proxy: it takes http://HOST/…, https://HOST/… and CONNECT HOST:PORT."
            }
            Obstacle::Scheme => {
                "This proxy trusts no certificates: for https it is asked for a tunnel (CONNECT)."
            }
            Obstacle::Tunnel => "A tunnel (CONNECT) is asked for by HTTP/1 on a connection without TLS.",
            Obstacle::Port => "This proxy does not connect to that port.",
            Obstacle::Address => "That name leads to an address to which this proxy does not connect.",
            Obstacle::Name => "That name was not found.",
            Obstacle::LookupTime => "That name was not found in time.",
            Obstacle::Lookups => "Too many names are being looked up.",
            Obstacle::Tunnels => "You have as many tunnels as one client may have.",
        }
    }

    /// What counts it.
    pub fn counter(self) -> Counter {
        match self {
            Obstacle::Client => Counter::ForwardDeniedClient,
            Obstacle::Target | Obstacle::Scheme | Obstacle::Tunnel => Counter::ForwardDeniedTarget,
            Obstacle::Port => Counter::ForwardDeniedPort,
            Obstacle::Address => Counter::ForwardDeniedAddress,
            Obstacle::Name | Obstacle::LookupTime => Counter::LookupFailures,
            Obstacle::Lookups => Counter::LimitLookups,
            Obstacle::Tunnels => Counter::LimitTunnelsPerClient,
        }
    }
}
