//! Reads the response head of a script, by CGI or FastCGI, as an HTTP head.

use sojourn_cgi::{ScriptHead, read_head};
use sojourn_http::request::Version;
use sojourn_http::token::all_text;
use sojourn_http::upstream::{Body, Head, RequestKind};

/// The fields of a script's response, converted to HTTP.
#[derive(Debug, Default)]
pub struct ScriptFields(Vec<u8>);

impl ScriptFields {
    /// Parses the head at the start of `response`. The protocol `keeps` the connection alive, and then marks the end of each
    /// body, or does not.
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
        // With a mark a truncated body can be told from a whole one, as with chunks.
        let body = match head.body {
            Body::UntilClose if keeps => Body::Chunked,
            body => body,
        };
        Ok(Some(Head { body, keep_alive: keeps, head_len: length, ..head }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_bodies_end() {
        let body = |head: &str, asked, keeps| {
            let mut fields = ScriptFields::default();
            fields.parse(head.as_bytes(), asked, keeps).unwrap().unwrap().body
        };
        let (plain, sized) = ("Content-Type: text/plain\n\n", "Content-Length: 5\n\n");
        assert_eq!(body(plain, RequestKind::Other, true), Body::Chunked, "FastCGI 1.0, 5.5: END_REQUEST");
        assert_eq!(body(plain, RequestKind::Other, false), Body::UntilClose);
        for keeps in [true, false] {
            assert_eq!(body(sized, RequestKind::Other, keeps), Body::Length(5));
            assert_eq!(body(plain, RequestKind::Head, keeps), Body::None);
        }
    }
}
