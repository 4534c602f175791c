//! Why a request failed: the table of causes that every result counts by.

use rustix::io::Errno;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    ConnectRefused,
    /// The connection was not established in time.
    ConnectTimeout,
    /// Connecting failed in another way: no route, for one.
    ConnectFailed,
    /// The handshake of TLS was not done in time.
    HandshakeTimeout,
    /// The server does not speak TLS, or not as we do.
    TlsFailed,
    /// The server's certificate is no longer, or not yet, valid.
    CertificateExpired,
    /// The server's certificate is for another name.
    CertificateName,
    /// No trusted authority has signed the server's certificate.
    CertificateUntrusted,
    /// The server's certificate is not good for another reason.
    CertificateInvalid,
    /// The server broke the connection off.
    Reset,
    /// The server closed the connection in the middle of an answer.
    ClosedEarly,
    /// The request could not be sent in time.
    SendTimeout,
    /// No byte of the response arrived in time.
    ResponseTimeout,
    /// The answer began but was not complete in time.
    TransferTimeout,
    /// The bytes are not an HTTP response.
    BadResponse,
    /// The body has another size than the document.
    WrongSize,
    /// The body is not the one that the document had before.
    WrongContent,
    /// Another status than the one that was expected, where that is not success.
    WrongStatus,
    /// An unexpected redirection or "not modified".
    Status3xx,
    /// The server says that the request is wrong.
    Status4xx,
    /// The server says that it failed.
    Status5xx,
    /// More redirections than are followed.
    TooManyRedirects,
    /// A redirection or a link leads to another server, which nobody named to be loaded.
    RedirectElsewhere,
    /// The content of the answer is not what the scenario says it should be.
    CheckFailed,
    /// The answer does not have a value that the scenario takes from it.
    ValueMissing,
    /// The request was not sent: a value that it needs is missing, or cannot stand where it should.
    ValueUnusable,
    /// The body is longer than what is kept of one to look at.
    BodyTooLong,
    /// The generator has no descriptor left: the run says nothing about the server.
    Descriptors,
    /// The generator has no local address and port left: the run says nothing about the server.
    Addresses,
}

impl Cause {
    /// Every cause, in the order of its number.
    pub const ALL: [Cause; 29] = [
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
        Cause::Descriptors,
        Cause::Addresses,
    ];

    /// Returns true if a time-out ended the request: its latency is known only to be longer.
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
            Cause::Descriptors => "descriptors",
            Cause::Addresses => "addresses",
        }
    }
}

/// The cause that a failed system call on a connection amounts to.
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
