//! An upstream that speaks FastCGI: writes requests as records and reads its records.

use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::ops::Range;
use std::sync::Arc;

use sojourn_cgi::fastcgi::{self, Ending, Part, Reader, end_input, input};
use sojourn_cgi::{Application, Client, Ends};
use sojourn_http::Status;
use sojourn_http::request::{Body, Parsed, Parser, Version};
use sojourn_http::upstream::{Head, RequestKind};

use super::cgi::ScriptFields;
use crate::connection::Buffer;
use crate::handler::reverse_proxy::{RequestHead, Upload};

/// The most bytes that an application may write to standard error per request.
const ERROR_BYTES_MAX: usize = 256 * 1024;

const SHOWN_BYTES_MAX: usize = 8 * 1024;

/// The state of one request in records.
#[derive(Debug)]
pub struct FastCgi {
    application: Arc<Application>,
    reader: Reader,
    /// True if any bytes have arrived for the current request.
    pub has_received: bool,
    /// How the application ended the current request.
    pub ending: Option<Ending>,
    fields: ScriptFields,
    /// Where the response's bytes are in what was received last.
    outputs: Vec<Range<usize>>,
    errors: Vec<u8>,
    error_bytes: usize,
}

impl FastCgi {
    pub fn new(application: Arc<Application>) -> FastCgi {
        FastCgi {
            application,
            reader: Reader::default(),
            has_received: false,
            ending: None,
            fields: ScriptFields::default(),
            outputs: Vec::new(),
            errors: Vec::new(),
            error_bytes: 0,
        }
    }

    /// Appends the request without its body.
    ///
    /// # Errors
    /// The status for the client, if the request cannot be sent to an application.
    pub fn begin(&mut self, head: &RequestHead, client: Client, output: &mut Vec<u8>) -> Result<(), Status> {
        (self.reader, self.ending, self.has_received) = (Reader::default(), None, false);
        self.error_bytes = 0;
        let text = match head {
            RequestHead::Records(records) => {
                output.extend_from_slice(records);
                return Ok(());
            }
            RequestHead::Http(text) => text,
        };
        let Ok(Parsed::Complete(request)) = Parser::default().parse(text) else {
            return Err(Status::FieldsTooLarge);
        };
        // An application reads as many bytes as CONTENT_LENGTH says.
        if request.body == Body::Chunked {
            return Err(Status::LengthRequired);
        }
        let is_inside = fastcgi::head(&self.application, &request, client, |_| false, output);
        if is_inside { Ok(()) } else { Err(Status::BadRequest) }
    }

    /// Reads received bytes and calls `output` with those of the response. False if they are invalid, or the
    /// application has written too much to standard error.
    pub fn read(&mut self, received: &[u8], mut output: impl FnMut(&[u8])) -> bool {
        self.has_received = true;
        let (ending, errors, error_bytes) = (&mut self.ending, &mut self.errors, &mut self.error_bytes);
        let outcome = self.reader.read(received, |part| match part {
            Part::Output(bytes) => output(bytes),
            Part::Error(bytes) => {
                let room = SHOWN_BYTES_MAX.saturating_sub(*error_bytes);
                errors.extend_from_slice(&bytes[..bytes.len().min(room)]);
                *error_bytes += bytes.len();
            }
            Part::End(end) => *ending = Some(end),
        });
        outcome.is_ok() && self.error_bytes <= ERROR_BYTES_MAX
    }

    /// Reads received bytes, of which only those of the response are left in `received`. False as for [`read`](Self::read).
    pub fn unframe(&mut self, received: &mut Buffer) -> bool {
        let mut outputs = std::mem::take(&mut self.outputs);
        outputs.clear();
        let start = received.unread().as_ptr().addr();
        let is_valid = self.read(received.unread(), |part| {
            let offset = part.as_ptr().addr() - start;
            outputs.push(offset..offset + part.len());
        });
        received.keep(&outputs);
        self.outputs = outputs;
        is_valid
    }

    /// Takes what the application has written to standard error.
    pub fn take_errors(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.errors)
    }

    /// Returns true if another request may follow on the connection.
    pub fn can_reuse(&self) -> bool {
        matches!(self.ending, Some(Ending::Complete(_))) && self.reader.is_at_rest()
    }

    /// Sends `request` on a blocking connection while `may_continue`; returns the response's status. Used by health checks.
    pub fn exchange(
        mut self,
        mut stream: impl Read + Write,
        request: &str,
        may_continue: impl Fn() -> bool,
    ) -> Option<u16> {
        let (mut output, mut response, mut chunk) = (Vec::new(), Buffer::default(), [0; 4096]);
        let address = Ipv4Addr::LOCALHOST.into();
        let client = Client { address, ends: Ends::default(), is_secure: false, version: Version::Http11 };
        self.begin(&RequestHead::Http(request.into()), client, &mut output).ok()?;
        end_input(&mut output);
        stream.write_all(&output).ok()?;
        while may_continue() {
            let count = stream.read(&mut chunk).ok().filter(|count| *count > 0)?;
            if !self.read(&chunk[..count], |part| response.space().extend_from_slice(part)) {
                return None;
            }
            if let Some(head) = self.parse(response.unread(), RequestKind::Other).ok()? {
                return Some(head.status);
            }
        }
        None
    }

    /// Parses the head at the start of `response`.
    ///
    /// # Errors
    /// If it is invalid, or cannot be forwarded.
    pub fn parse<'b>(&'b mut self, response: &'b [u8], asked: RequestKind) -> Result<Option<Head<'b>>, ()> {
        // A record marks the end of the body, so the connection survives it.
        self.fields.parse(response, asked, true)
    }
}

/// Appends received bytes of the request's body.
pub fn append_upload(upload: &mut Upload, output: &mut Vec<u8>) {
    input(&std::mem::take(&mut upload.bytes), output);
    if upload.is_complete {
        end_input(output);
    }
}
