//! The echo handler: answers every request with its own head, which shows what proxies have changed. The smallest
//! handler.

use std::io;
use std::sync::Arc;

use sojourn_http::Status;
use sojourn_http::request::Request;

use super::{Content, Kind, Setup};
use crate::connection::{Handler, Response, Step};

pub const KIND: Kind =
    Kind { name: "echo", summary: "every request's own head", content: Some(|| Arc::new(Echo)) };

/// Content and handler in one, because it has no state.
#[derive(Debug)]
pub struct Echo;

impl Content for Echo {
    fn kind(&self) -> Kind {
        KIND
    }

    fn start(&self, _setup: &Setup<'_>) -> io::Result<Box<dyn Handler>> {
        Ok(Box::new(Echo))
    }
}

impl Handler for Echo {
    fn begin(&mut self, request: &Request<'_>, response: &mut Response<'_, '_>) -> Step {
        let head = [request.line, b"\r\n", request.fields].concat();
        response.send(request, Status::Ok, "message/http", &head)
    }
}

#[cfg(test)]
mod tests {
    use crate::connection::bench::Bench;
    use crate::connection::{Event, Http1, Want};

    use super::*;

    #[test]
    fn a_handler_in_one_file_answers_over_http1() {
        let root = tempfile::tempdir().unwrap();
        let mut bench = Bench::new(root.path());
        bench.handler = Box::new(Echo);
        let mut connection = Http1::new([127, 0, 0, 1].into(), false);
        let Want::Receive(mut buffer) = connection.start() else { panic!("it receives first") };
        buffer
            .space()
            .extend_from_slice(b"GET /a HTTP/1.1\r\nHost: h\r\nX: y\r\n\r\nGET /b HTTP/1.0\r\n\r\n");
        let Want::Send(output) = connection.handle(Event::Received(buffer), &mut bench.context()) else {
            panic!("it answers")
        };
        let text = String::from_utf8(output.bytes).unwrap();
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        assert!(text.contains("GET /a HTTP/1.1\r\nHost: h\r\nX: y\r\n"), "{text}");
        assert!(
            text.contains("Connection: close\r\n") && text.contains("\r\n\r\nGET /b HTTP/1.0\r\n"),
            "{text}"
        );
        assert!(output.closes);
    }
}
