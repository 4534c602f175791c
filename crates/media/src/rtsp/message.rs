//! RTSP messages; their slices point into the parsed bytes.

/// The longest head in bytes, from its first byte to the empty line.
pub const HEAD_BYTES_MAX: usize = 8 * 1024;

/// The longest target of a request.
pub const TARGET_BYTES_MAX: usize = 4 * 1024;

/// The most fields in a head.
pub const FIELDS_MAX: usize = 64;

pub const BODY_BYTES_MAX: usize = 64 * 1024;

/// The most line ends skipped before a message; some clients send them to keep the connection.
pub const LINE_ENDS_MAX: usize = 8;

/// A message in either direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'b> {
    Request(Request<'b>),
    Response(Response<'b>),
    Interleaved(Interleaved<'b>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    Rtsp10,
    /// Any other version: answered with 505.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'b> {
    pub method: Method,
    /// A URL, or `*`.
    pub target: &'b str,
    pub version: Version,
    pub fields: Fields<'b>,
    pub body: &'b [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response<'b> {
    pub version: Version,
    pub status: u16,
    pub reason: &'b str,
    pub fields: Fields<'b>,
    pub body: &'b [u8],
}

/// An RTP or RTCP packet inside the connection (RFC 2326, 10.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interleaved<'b> {
    /// The channel agreed on in SETUP.
    pub channel: u8,
    pub payload: &'b [u8],
}

/// The number in CSeq, if there is exactly one.
fn sequence(fields: Fields<'_>) -> Option<u32> {
    let mut numbers = fields.all("CSeq");
    let number = numbers.next().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    number.parse().ok().filter(|_| numbers.next().is_none())
}

impl Request<'_> {
    /// The number in CSeq, which the response repeats; `None` if it is missing, invalid or repeated.
    pub fn sequence(&self) -> Option<u32> {
        sequence(self.fields)
    }
}

impl Response<'_> {
    /// The number in CSeq: which request this answers.
    pub fn sequence(&self) -> Option<u32> {
        sequence(self.fields)
    }

    /// The session ID, and its timeout in seconds if given.
    pub fn session(&self) -> Option<(&str, Option<u32>)> {
        let mut parts = self.fields.value("Session")?.split(';').map(str::trim);
        let name = parts.next().filter(|name| !name.is_empty())?;
        let timeout = parts.find_map(|part| part.strip_prefix("timeout=")?.trim().parse().ok());
        Some((name, timeout))
    }
}

/// Field lines, each with its line end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields<'b>(pub(super) &'b str);

impl<'b> Fields<'b> {
    /// Names and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&'b str, &'b str)> + use<'b> {
        self.0.lines().filter_map(|line| line.split_once(':')).map(|(name, value)| (name, value.trim()))
    }

    /// The value of the first field called `name`, in any case.
    pub fn value(&self, name: &str) -> Option<&'b str> {
        self.all(name).next()
    }

    /// The values of all fields called `name`, in any case.
    pub fn all<'n>(&self, name: &'n str) -> impl Iterator<Item = &'b str> + use<'b, 'n> {
        self.iter().filter(move |(there, _)| there.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

macro_rules! methods {
    ($($name:ident $text:literal)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Method {
            $(#[doc = $text] $name,)*
            /// A method that RFC 2326 does not define.
            Unknown,
        }

        impl Method {
            /// The method called `name`; case matters.
            pub fn of(name: &str) -> Method {
                match name { $($text => Method::$name,)* _ => Method::Unknown }
            }

            pub fn name(self) -> &'static str {
                match self { $(Method::$name => $text,)* Method::Unknown => "UNKNOWN" }
            }
        }
    };
}

methods! {
    Options "OPTIONS"
    Describe "DESCRIBE"
    Setup "SETUP"
    Play "PLAY"
    Pause "PAUSE"
    Teardown "TEARDOWN"
    GetParameter "GET_PARAMETER"
    SetParameter "SET_PARAMETER"
    Announce "ANNOUNCE"
    Record "RECORD"
    Redirect "REDIRECT"
}

impl Method {
    /// The methods that this server supports, for Public and Allow.
    pub const PUBLIC: &str = "OPTIONS, DESCRIBE, SETUP, PLAY, PAUSE, TEARDOWN, GET_PARAMETER, SET_PARAMETER";
}

macro_rules! statuses {
    ($($name:ident $code:literal $reason:literal)*) => {
        /// A status code that the server sends.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u16)]
        pub enum Status {
            $(#[doc = $reason] $name = $code,)*
        }

        impl Status {
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
    pub fn code(self) -> u16 {
        self as u16
    }
}
