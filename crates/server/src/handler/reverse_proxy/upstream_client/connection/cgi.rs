//! Reads the response head of a script, by CGI or FastCGI, as an HTTP head.

use sojourn_cgi::{ScriptHead, read_head};
use sojourn_http::request::Version;
use sojourn_http::token::all_text;
use sojourn_http::upstream::{Head, RequestKind};

/// The fields of a script's response, converted to HTTP.
#[derive(Debug, Default)]
pub struct ScriptFields(Vec<u8>);

impl ScriptFields {
    /// Parses the head at the start of `response`. The protocol `keeps` the connection alive or not.
    ///
    /// # Errors
    /// If it is invalid, or cannot be forwarded.
    pub fn parse<'b>(
        &'b mut self,
        response: &'b [u8],
        asked: RequestKind,
        keeps: bool,
    ) -> Result<Option<Head<'b>>, ()> {
        self.0.clear();
        let head = read_head(response, &mut self.0).map_err(drop)?;
        let Some(ScriptHead { status, reason, length }) = head else { return Ok(None) };
        if !all_text(reason) {
            return Err(());
        }
        let head = Head::of_fields(status, Version::Http11, reason, &self.0, asked).map_err(drop)?;
        Ok(Some(Head { keep_alive: keeps, head_len: length, ..head }))
    }
}
