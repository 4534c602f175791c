//! Why a request head is refused, and with which status.

use crate::limits::{FIELDS_MAX, HEAD_BYTES_MAX, TARGET_BYTES_MAX};
use crate::status::Status;

/// Why a head is refused. The connection cannot be used afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// A line that ends in LF alone.
    #[error("a line of the request ends without CR")]
    BareLineFeed,
    /// Not `METHOD SP TARGET SP HTTP/1.x`.
    #[error("the request line is malformed")]
    RequestLine,
    /// A major version other than 1.
    #[error("the protocol version is not supported")]
    Version,
    /// Over [`TARGET_BYTES_MAX`].
    #[error("the request target is longer than {TARGET_BYTES_MAX} bytes")]
    TargetTooLong,
    /// Over [`HEAD_BYTES_MAX`].
    #[error("the request head is longer than {HEAD_BYTES_MAX} bytes")]
    HeadTooLong,
    /// Over [`FIELDS_MAX`].
    #[error("the request has more than {FIELDS_MAX} fields")]
    TooManyFields,
    /// A malformed field line: bad name, control character, folding.
    #[error("a field of the request is malformed")]
    Field,
    /// None in HTTP/1.1, two, empty, or not a host.
    #[error("the request has no valid Host")]
    Host,
    /// Not a number, or more than one, or with leading zeros, which some read as octal.
    #[error("the request has a bad Content-Length")]
    ContentLength,
    /// A Transfer-Encoding beside a Content-Length, in HTTP/1.0, more than once, or that does not end in `chunked`.
    #[error("the request's framing is ambiguous")]
    Framing,
    /// A transfer coding below `chunked`.
    #[error("the request's transfer coding is not supported")]
    TransferCoding,
    /// A body that is not in the coding that the head announces.
    #[error("the request's body is malformed")]
    Body,
    /// More than one Content-Type: each application would believe another.
    #[error("the request has more than one Content-Type")]
    ContentType,
    /// An expectation other than `100-continue`.
    #[error("the request's expectation cannot be met")]
    Expectation,
}

impl RequestError {
    /// The status that answers this refusal.
    pub fn status(self) -> Status {
        match self {
            RequestError::BareLineFeed
            | RequestError::RequestLine
            | RequestError::Field
            | RequestError::Host
            | RequestError::ContentLength
            | RequestError::Framing
            | RequestError::Body
            | RequestError::ContentType => Status::BadRequest,
            RequestError::Version => Status::VersionNotSupported,
            RequestError::TargetTooLong => Status::UriTooLong,
            RequestError::HeadTooLong | RequestError::TooManyFields => Status::FieldsTooLarge,
            RequestError::TransferCoding => Status::NotImplemented,
            RequestError::Expectation => Status::ExpectationFailed,
        }
    }
}
