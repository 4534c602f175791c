//! Dialogues with scripted answers.

use sojourn_media::rtsp::{Message, Parsed, Parser};

use super::*;

const SDP: &str = "v=0\r\na=range:npt=0-100\r\nm=video 0 RTP/AVP 96\r\na=control:v\r\n\
    m=audio 0 RTP/AVP 97\r\na=control:a\r\n";

/// Answers a request with these lines after CSeq, and a body.
fn answer(client: &mut RtspClient, number: u32, status: u16, lines: &str, body: &str) -> Next {
    let length = body.len();
    let text =
        format!("RTSP/1.0 {status} X\r\nCSeq: {number}\r\n{lines}Content-Length: {length}\r\n\r\n{body}");
    let Ok(Parsed::Complete(Message::Response(response), _)) = Parser::default().parse(text.as_bytes())
    else {
        panic!("{text}")
    };
    client.on_reply(&response)
}

fn asked(next: Next) -> Request {
    match next {
        Next::Ask(request) => request,
        other => panic!("{other:?}"),
    }
}

fn field<'r>(request: &'r Request, name: &str) -> Option<&'r str> {
    request.fields.iter().find(|(each, _)| *each == name).map(|(_, value)| value.as_str())
}

/// A client whose next request is the first SETUP.
fn described(start: Option<f64>) -> RtspClient {
    let mut client = RtspClient::new("rtsp://h/film", None, start);
    assert_eq!(client.begin().method, Method::Options);
    let describe = asked(answer(&mut client, 1, 200, "Public: OPTIONS, PLAY\r\n", ""));
    assert_eq!((describe.method, describe.url.as_str()), (Method::Describe, "rtsp://h/film"));
    let next = answer(&mut client, 2, 200, "Content-Base: rtsp://h/film.mp4/\r\n", SDP);
    assert_eq!(next, Next::Open(0));
    client
}

fn playing() -> RtspClient {
    let mut client = described(Some(0.5));
    let setup = client.set_up(0, &Transport::udp((5000, 5001)));
    assert_eq!((setup.method, setup.url.as_str()), (Method::Setup, "rtsp://h/film.mp4/v"));
    assert_eq!(field(&setup, "Transport"), Some("RTP/AVP;unicast;client_port=5000-5001;mode=\"PLAY\""));
    let lines =
        "Session: s1;timeout=30\r\nTransport: RTP/AVP;unicast;server_port=7000-7001;ssrc=0000000A\r\n";
    assert_eq!(answer(&mut client, 3, 200, lines, ""), Next::Open(1));
    let setup = client.set_up(1, &Transport::interleaved((2, 3)));
    assert_eq!(field(&setup, "Session"), Some("s1"));
    let lines = "Session: s1\r\nTransport: RTP/AVP/TCP;interleaved=2-3\r\n";
    let play = asked(answer(&mut client, 4, 200, lines, ""));
    assert_eq!((play.method, field(&play, "Range")), (Method::Play, Some("npt=45-")));
    assert_eq!(answer(&mut client, 5, 200, "", ""), Next::Playing);
    client
}

#[test]
fn a_film_is_played_and_ended() {
    let mut client = playing();
    assert_eq!((client.timeout_seconds(), client.left_seconds()), (30, Some(55.0)));
    let granted = client.granted();
    let transport = |track: usize| granted[track].as_ref().unwrap();
    assert_eq!((transport(0).server_ports, transport(0).source), (Some((7000, 7001)), Some(10)));
    assert_eq!(transport(1).channels, Some((2, 3)));
    let end = client.tear_down().unwrap();
    assert_eq!((end.method, field(&end, "Session")), (Method::Teardown, Some("s1")));
    assert_eq!(client.tear_down(), None);
    assert_eq!(answer(&mut client, 6, 200, "", ""), Next::Over);
}

#[test]
fn signs_of_life_are_what_the_server_knows() {
    let mut client = playing();
    // Public did not name GET_PARAMETER.
    assert_eq!(client.keep_alive().map(|request| request.method), Some(Method::Options));
    assert_eq!(client.keep_alive(), None);
    assert_eq!(answer(&mut client, 5, 200, "", ""), Next::Wait);
    assert!(client.is_waiting());
    assert_eq!(answer(&mut client, 6, 454, "", ""), Next::Refused(454));
}

#[test]
fn refusals_and_nonsense() {
    let mut client = described(None);
    client.set_up(0, &Transport::interleaved((0, 1)));
    assert_eq!(answer(&mut client.clone(), 3, 453, "", ""), Next::Refused(453));
    assert!(matches!(answer(&mut client.clone(), 3, 200, "", ""), Next::Broken(_)));
    assert!(matches!(answer(&mut client.clone(), 3, 200, "Session: x\r\n", ""), Next::Broken(_)));
    assert_eq!(answer(&mut client, 3, 100, "", ""), Next::Wait);
    assert!(client.is_waiting());
    let mut client = RtspClient::new("rtsp://h/film", None, None);
    client.begin();
    assert!(matches!(
        answer(&mut client, 1, 401, "WWW-Authenticate: Basic realm=x\r\n", ""),
        Next::Refused(401)
    ));
}

#[test]
fn a_challenge_is_answered_once() {
    let credentials = Credentials { user: "u".into(), password: "p".into() };
    let mut client = RtspClient::new("rtsp://h/film", Some(credentials), None);
    client.begin();
    let challenge = "WWW-Authenticate: Digest realm=\"r\", nonce=\"n\"\r\n";
    let again = asked(answer(&mut client, 1, 401, challenge, ""));
    assert!(field(&again, "Authorization").unwrap().starts_with("Digest username=\"u\""));
    assert_eq!(again.sequence, 2);
    assert_eq!(answer(&mut client.clone(), 2, 401, challenge, ""), Next::Refused(401));
    let stale = "WWW-Authenticate: Digest realm=\"r\", nonce=\"n\", stale=true\r\n";
    let mut number = 2;
    while let Next::Ask(_) = answer(&mut client, number, 401, stale, "") {
        number += 1;
    }
    assert_eq!(number, 5);
}
