//! What must hold whatever a streaming server replies to a viewer.

use sojourn_load::rtsp::authentication::Credentials;
use sojourn_load::rtsp::client::{Next, Request, RtspClient};
use sojourn_media::rtsp::{Message, Parsed, Parser, Transport};

/// The client follows replies to their end, and every request that it sends is complete.
pub fn client(bytes: &[u8]) {
    let credentials = Credentials { user: "anna".into(), password: "secret".into() };
    let mut client = RtspClient::new("rtsp://127.0.0.1/film", Some(credentials), Some(0.5));
    whole(&client.begin());
    let (mut at, mut parser) = (0, Parser::default());
    while let Ok(Parsed::Complete(message, length)) = parser.parse(&bytes[at..]) {
        at += length;
        let Message::Response(response) = message else { continue };
        match client.on_reply(&response) {
            Next::Ask(request) => whole(&request),
            Next::Open(track) => whole(&client.set_up(track, &Transport::udp((5000, 5001)))),
            Next::Playing => whole(&client.keep_alive().expect("nothing is waited for")),
            Next::Wait => {}
            Next::Over | Next::Refused(_) | Next::Broken(_) => break,
        }
    }
    assert!(client.left_seconds().is_none_or(|left| left >= 0.0));
    if let Some(request) = client.tear_down() {
        whole(&request);
    }
}

/// The written request reads back as this one request, whatever the server put into it.
fn whole(request: &Request) {
    let mut bytes = Vec::new();
    request.write(&mut bytes);
    match Parser::default().parse(&bytes) {
        Ok(Parsed::Complete(Message::Request(read), length)) => {
            assert_eq!(
                (read.method, read.target, length),
                (request.method, request.url.as_str(), bytes.len())
            );
        }
        other => panic!("{other:?} of {}", String::from_utf8_lossy(&bytes)),
    }
}
