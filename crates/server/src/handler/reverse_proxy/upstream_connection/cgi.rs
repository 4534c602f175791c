//! What scripts say, by CGI or FastCGI: a head in CGI's words, read as one of HTTP.

use sojourn_cgi::http_head;
use sojourn_http::upstream::{self, Head, RequestKind};

/// The head of a script's response, as HTTP has it.
#[derive(Debug, Default)]
pub struct ScriptHead(Vec<u8>);

impl ScriptHead {
    /// Reads the head at the start of `response`; the connection lives on if the protocol `keeps` it.
    ///
    /// # Errors
    /// If it is none, or one that cannot be passed on.
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
