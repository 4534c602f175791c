//! The status codes that we send, with their reason phrases: one table (RFC 2326, 7.1.1).

macro_rules! statuses {
    ($($name:ident $code:literal $reason:literal)*) => {
        /// A status code that we send.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u16)]
        pub enum Status {
            $(#[doc = $reason] $name = $code,)*
        }

        impl Status {
            /// The reason phrase.
            pub fn reason(self) -> &'static str {
                match self { $(Status::$name => $reason,)* }
            }
        }
    };
}

statuses! {
    Ok 200 "OK"
    BadRequest 400 "Bad Request"
    Unauthorized 401 "Unauthorized"
    Forbidden 403 "Forbidden"
    NotFound 404 "Not Found"
    MethodNotAllowed 405 "Method Not Allowed"
    NotAcceptable 406 "Not Acceptable"
    RequestEntityTooLarge 413 "Request Entity Too Large"
    RequestUriTooLarge 414 "Request-URI Too Large"
    UnsupportedMediaType 415 "Unsupported Media Type"
    ParameterNotUnderstood 451 "Parameter Not Understood"
    NotEnoughBandwidth 453 "Not Enough Bandwidth"
    SessionNotFound 454 "Session Not Found"
    MethodNotValidInThisState 455 "Method Not Valid in This State"
    InvalidRange 457 "Invalid Range"
    AggregateNotAllowed 459 "Aggregate Operation Not Allowed"
    OnlyAggregateAllowed 460 "Only Aggregate Operation Allowed"
    UnsupportedTransport 461 "Unsupported Transport"
    InternalServerError 500 "Internal Server Error"
    NotImplemented 501 "Not Implemented"
    ServiceUnavailable 503 "Service Unavailable"
    VersionNotSupported 505 "RTSP Version Not Supported"
    OptionNotSupported 551 "Option Not Supported"
}

impl Status {
    /// The three-digit code.
    pub fn code(self) -> u16 {
        self as u16
    }
}
