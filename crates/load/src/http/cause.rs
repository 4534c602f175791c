//! Causes of failed requests: the table by which every result counts them.

use rustix::io::Errno;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    ConnectRefused,
    /// The connection was not established in time.
    ConnectTimeout,
    /// Connecting failed in another way, such as no route.
    ConnectFailed,
    /// The TLS handshake was not finished in time.
    HandshakeTimeout,
    /// The server does not speak TLS, or no compatible version.
    TlsFailed,
    /// The server's certificate is not valid at this time.
    CertificateExpired,
    /// The server's certificate is for another name.
    CertificateName,
    /// No trusted authority has signed the server's certificate.
    CertificateUntrusted,
    /// The server's certificate is invalid for another reason.
    CertificateInvalid,
    /// The server reset the connection.
    Reset,
    /// The server closed the connection within a response.
    ClosedEarly,
    /// The request could not be sent in time.
    SendTimeout,
    /// No byte of the response arrived in time.
    ResponseTimeout,
    /// The response began but was not complete in time.
    TransferTimeout,
    /// The bytes are not an HTTP response.
    BadResponse,
    /// The body's size differs from the document's.
    WrongSize,
    /// The body differs from the document's earlier one.
    WrongContent,
    /// An unexpected status, for requests that expect a particular one.
    WrongStatus,
    /// An unexpected redirect or "not modified".
    Status3xx,
    /// A client error.
    Status4xx,
    /// A server error.
    Status5xx,
    /// More redirects than are followed.
    TooManyRedirects,
    /// A redirect or link leads to a server that is not the target.
    RedirectElsewhere,
    /// The response failed a check of the scenario.
    CheckFailed,
    /// The response lacks a value that the scenario extracts.
    ValueMissing,
    /// The request was not sent: a value that it needs is missing or invalid in its place.
    ValueUnusable,
    /// The body is longer than the scenario's limit for bodies that it reads.
    BodyTooLong,
    /// The body is compressed, so that the scenario cannot read it.
    BodyEncoded,
    /// The generator has no descriptors left: the run says nothing about the server.
    Descriptors,
    /// The generator has no local address and port left: the run says nothing about the server.
    Addresses,
    /// The server does not speak HTTP/2, or does not offer it by TLS.
    Http2NotSpoken,
}

impl Cause {
    /// Every cause, in the order of its number.
    pub const ALL: [Cause; 31] = [
        Cause::ConnectRefused,
        Cause::ConnectTimeout,
        Cause::ConnectFailed,
        Cause::HandshakeTimeout,
        Cause::TlsFailed,
        Cause::CertificateExpired,
        Cause::CertificateName,
        Cause::CertificateUntrusted,
        Cause::CertificateInvalid,
        Cause::Reset,
        Cause::ClosedEarly,
        Cause::SendTimeout,
        Cause::ResponseTimeout,
        Cause::TransferTimeout,
        Cause::BadResponse,
        Cause::WrongSize,
        Cause::WrongContent,
        Cause::WrongStatus,
        Cause::Status3xx,
        Cause::Status4xx,
        Cause::Status5xx,
        Cause::TooManyRedirects,
        Cause::RedirectElsewhere,
        Cause::CheckFailed,
        Cause::ValueMissing,
        Cause::ValueUnusable,
        Cause::BodyTooLong,
        Cause::BodyEncoded,
        Cause::Descriptors,
        Cause::Addresses,
        Cause::Http2NotSpoken,
    ];

    /// Returns true if a timeout ended the request: only a lower bound of its latency is known.
    pub fn is_timeout(self) -> bool {
        matches!(
            self,
            Cause::ConnectTimeout
                | Cause::HandshakeTimeout
                | Cause::SendTimeout
                | Cause::ResponseTimeout
                | Cause::TransferTimeout
        )
    }

    pub fn name(self) -> &'static str {
        match self {
            Cause::ConnectRefused => "connect_refused",
            Cause::ConnectTimeout => "connect_timeout",
            Cause::ConnectFailed => "connect_failed",
            Cause::HandshakeTimeout => "handshake_timeout",
            Cause::TlsFailed => "tls_failed",
            Cause::CertificateExpired => "certificate_expired",
            Cause::CertificateName => "certificate_name",
            Cause::CertificateUntrusted => "certificate_untrusted",
            Cause::CertificateInvalid => "certificate_invalid",
            Cause::Reset => "reset",
            Cause::ClosedEarly => "closed_early",
            Cause::SendTimeout => "send_timeout",
            Cause::ResponseTimeout => "response_timeout",
            Cause::TransferTimeout => "transfer_timeout",
            Cause::BadResponse => "bad_response",
            Cause::WrongSize => "wrong_size",
            Cause::WrongContent => "wrong_content",
            Cause::WrongStatus => "wrong_status",
            Cause::Status3xx => "status_3xx",
            Cause::Status4xx => "status_4xx",
            Cause::Status5xx => "status_5xx",
            Cause::TooManyRedirects => "too_many_redirects",
            Cause::RedirectElsewhere => "redirect_elsewhere",
            Cause::CheckFailed => "check_failed",
            Cause::ValueMissing => "value_missing",
            Cause::ValueUnusable => "value_unusable",
            Cause::BodyTooLong => "body_too_long",
            Cause::BodyEncoded => "body_encoded",
            Cause::Descriptors => "descriptors",
            Cause::Addresses => "addresses",
            Cause::Http2NotSpoken => "http2_not_spoken",
        }
    }
}

/// The cause that a failed system call means.
pub fn cause(error: Errno) -> Cause {
    match error {
        Errno::CONNREFUSED => Cause::ConnectRefused,
        Errno::TIMEDOUT => Cause::ConnectTimeout,
        Errno::CONNRESET | Errno::PIPE | Errno::CONNABORTED => Cause::Reset,
        Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM => Cause::Descriptors,
        Errno::ADDRNOTAVAIL => Cause::Addresses,
        _ => Cause::ConnectFailed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        for (number, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(cause as usize, number);
        }
    }
}
