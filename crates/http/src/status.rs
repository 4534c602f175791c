//! The status codes that the server sends, with their reason phrases, in one table.

macro_rules! statuses {
    ($($name:ident $code:literal $reason:literal)*) => {
        /// A status code that the server sends.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u16)]
        pub enum Status {
            $(#[doc = $reason] $name = $code,)*
        }

        impl Status {
            /// Every status code, for tests and tables.
            pub const ALL: &[Status] = &[$(Status::$name),*];

            pub fn reason(self) -> &'static str {
                match self { $(Status::$name => $reason,)* }
            }

            /// The status line, CRLF included.
            pub fn line(self) -> &'static str {
                match self { $(Status::$name => concat!("HTTP/1.1 ", $code, " ", $reason, "\r\n"),)* }
            }
        }
    };
}

statuses! {
    Ok 200 "OK"
    NoContent 204 "No Content"
    PartialContent 206 "Partial Content"
    MovedPermanently 301 "Moved Permanently"
    Found 302 "Found"
    NotModified 304 "Not Modified"
    TemporaryRedirect 307 "Temporary Redirect"
    PermanentRedirect 308 "Permanent Redirect"
    BadRequest 400 "Bad Request"
    Forbidden 403 "Forbidden"
    NotFound 404 "Not Found"
    MethodNotAllowed 405 "Method Not Allowed"
    NotAcceptable 406 "Not Acceptable"
    RequestTimeout 408 "Request Timeout"
    LengthRequired 411 "Length Required"
    PreconditionFailed 412 "Precondition Failed"
    ContentTooLarge 413 "Content Too Large"
    UriTooLong 414 "URI Too Long"
    RangeNotSatisfiable 416 "Range Not Satisfiable"
    ExpectationFailed 417 "Expectation Failed"
    MisdirectedRequest 421 "Misdirected Request"
    FieldsTooLarge 431 "Request Header Fields Too Large"
    InternalServerError 500 "Internal Server Error"
    NotImplemented 501 "Not Implemented"
    BadGateway 502 "Bad Gateway"
    ServiceUnavailable 503 "Service Unavailable"
    GatewayTimeout 504 "Gateway Timeout"
    VersionNotSupported 505 "HTTP Version Not Supported"
    LoopDetected 508 "Loop Detected"
}

impl Status {
    pub fn code(self) -> u16 {
        self as u16
    }
}
