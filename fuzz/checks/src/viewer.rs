//! What must hold whatever a streaming server replies to a viewer.

use sojourn_load::rtsp::authentication::Credentials;
use sojourn_load::rtsp::dialogue::{Dialogue, Next, Request};
use sojourn_media::rtsp::{Message, Parsed, Parser, Transport};

/// The dialogue follows replies to their end, and every request that it sends is complete.
pub fn dialogue(bytes: &[u8]) {
    let credentials = Credentials { user: "anna".into(), password: "secret".into() };
    let mut dialogue = Dialogue::new("rtsp://127.0.0.1/film", Some(credentials), Some(0.5));
    whole(&dialogue.begin());
    let (mut at, mut parser) = (0, Parser::default());
    while let Ok(Parsed::Complete(message, length)) = parser.parse(&bytes[at..]) {
        at += length;
        let Message::Response(response) = message else { continue };
        match dialogue.on_reply(&response) {
            Next::Ask(request) => whole(&request),
            Next::Open(track) => whole(&dialogue.set_up(track, &Transport::udp((5000, 5001)))),
            Next::Playing => whole(&dialogue.keep_alive().expect("nothing is waited for")),
            Next::Wait => {}
            Next::Over | Next::Refused(_) | Next::Broken(_) => break,
        }
    }
    assert!(dialogue.left_seconds().is_none_or(|left| left >= 0.0));
    if let Some(request) = dialogue.tear_down() {
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
