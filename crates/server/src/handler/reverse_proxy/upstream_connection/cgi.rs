//! Reads the response head of a script, by CGI or FastCGI, as an HTTP head.

use sojourn_cgi::http_head;
use sojourn_http::upstream::{self, Head, RequestKind};

/// A script's response head, converted to HTTP.
#[derive(Debug, Default)]
pub struct ScriptHead(Vec<u8>);

impl ScriptHead {
    /// Parses the head at the start of `response`. The protocol `keeps` the connection alive or not.
    ///
    /// # Errors
    /// If it is invalid, or cannot be forwarded.
    pub fn parse(
        &mut self,
        response: &[u8],
        asked: RequestKind,
        keeps: bool,
    ) -> Result<Option<Head<'_>>, ()> {
        self.0.clear();
        let Some(head_len) = http_head(response, &mut self.0).map_err(drop)? else { return Ok(None) };
        let head = upstream::Parser::default().parse(&self.0, asked).map_err(drop)?.ok_or(())?;
        Ok(Some(Head { keep_alive: keeps, head_len, ..head }))
    }
}
