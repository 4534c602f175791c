//! Tests that every handler of `--handler` answers on every architecture.

use crate::engine::over_all;

#[test]
fn echo_answers_with_the_request_on_every_architecture() {
    over_all(&["--handler", "echo"], |server, _| {
        let mut client = server.connect();
        // Two pipelined requests, one with a body that the handler does not read.
        client.send(
            b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbodyGET /b HTTP/1.0\r\nX: y\r\n\r\n",
        );
        let text = String::from_utf8(client.rest()).unwrap();
        let answers: Vec<&str> = text.split("HTTP/1.1 200 OK\r\n").collect();
        assert_eq!(answers.len(), 3, "{text}");
        assert!(
            answers[1].ends_with("\r\n\r\nPOST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n"),
            "{text}"
        );
        assert!(answers[2].ends_with("\r\n\r\nGET /b HTTP/1.0\r\nX: y\r\n\r\n"), "{text}");
    });
}
