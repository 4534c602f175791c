//! Bytes that random input would hardly produce: messages made of likely parts in any order.

use proptest::prelude::*;
use sojourn_fuzz_checks::{connection, load, viewer};

proptest! {
    #[test]
    fn answers_made_of_their_parts(parts in prop::collection::vec(0..PARTS.len(), 0..12), step in 1..9_u8) {
        let mut bytes = vec![step];
        parts.iter().for_each(|&part| bytes.extend_from_slice(PARTS[part].as_bytes()));
        load::reception(&bytes);
    }
}

proptest! {
    #[test]
    fn replies_made_of_their_parts(parts in prop::collection::vec(0..REPLY_PARTS.len(), 0..24)) {
        let mut number = 0;
        let mut bytes = Vec::new();
        for part in parts {
            // Each head has the number of the request to which it most likely responds.
            number += u32::from(REPLY_PARTS[part].starts_with("RTSP/"));
            bytes.extend(REPLY_PARTS[part].replace("CSEQ", &number.to_string()).into_bytes());
        }
        viewer::client(&bytes);
    }
}

proptest! {
    #[test]
    fn requests_made_of_their_parts(choice in 0..32_u8, parts in prop::collection::vec(0..REQUEST_PARTS.len(), 0..12)) {
        let mut bytes = vec![choice & !4];
        parts.iter().for_each(|&part| bytes.extend_from_slice(REQUEST_PARTS[part].as_bytes()));
        connection::connection(&bytes);
    }
}

proptest! {
    #[test]
    fn connections_made_of_frames(choice in 0..32_u8, frames in prop::collection::vec(frame(), 0..40)) {
        let mut bytes = vec![choice | 4];
        frames.iter().for_each(|frame| bytes.extend_from_slice(frame));
        connection::connection(&bytes);
    }
}

/// A frame of HTTP/2, mostly of one of a few streams and with a payload that fits its type.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let flags = prop_oneof![Just(4), Just(5), Just(0), Just(1), any::<u8>()];
    let stream = prop_oneof![Just(0), Just(1), Just(3), Just(5), Just(7), any::<u32>()];
    let payload = prop_oneof![
        5 => (0..PAYLOADS.len()).prop_map(|part| PAYLOADS[part].to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ];
    (0..11_u8, flags, stream, payload).prop_map(|(kind, flags, stream, payload): (u8, u8, u32, Vec<u8>)| {
        let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        frame
    })
}

/// Field blocks, settings, windows, codes; well-formed or not.
const PAYLOADS: [&[u8]; 16] = [
    b"",
    b"\x82\x84\x86\x41\x01h",
    b"\x83\x84\x86\x41\x01h",
    b"\x82\x84\x86\x41\x01h\x40\x01a\x01b",
    b"\xbe\x82\x84\x86\x41\x01h",
    b"\x82\x84\x86\x41\x01h\x00\x01A\x01b",
    b"\x82\x84\x86\x0f\x0d\x013",
    b"\x3f\xe1\x1f\x82\x84\x86",
    b"\x20\x82",
    b"\x00\x01a\x01b",
    b"\x82\x84",
    b"\0\0\0\x01",
    b"\x7f\xff\xff\xff",
    b"\0\x04\0\0\0\0",
    b"\0\0\0\0\x10\x82\x84\x86",
    b"12345678",
];

/// Parts of what HTTP/1 clients send.
const REQUEST_PARTS: [&str; 16] = [
    "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
    "HEAD /a?b HTTP/1.1\r\nHost: h\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc",
    "OPTIONS * HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n",
    "GET / HTTP/1.0\r\n",
    "Connection: close\r\n",
    "Host: h\r\n",
    "\r\n",
    "abc",
    "3\r\nabc\r\n",
    "0\r\n\r\n",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n",
    "\n",
];

/// Parts of what streaming servers send, well-formed or not.
const REPLY_PARTS: [&str; 16] = [
    "RTSP/1.0 200 OK\r\nCSeq: CSEQ\r\n",
    "RTSP/1.0 200 OK\r\nCSeq: CSEQ\r\n\r\n",
    "RTSP/1.0 200 OK\r\nCSeq: CSEQ\r\nContent-Length: 44\r\n\r\nv=0\nm=video 0 RTP/AVP 96\na=control:trackID=1\n",
    "RTSP/1.0 200 OK\r\nCSeq: CSEQ\r\nSession: 7\r\nTransport: RTP/AVP;unicast;server_port=6-7\r\n\r\n",
    "RTSP/1.0 401 No\r\nCSeq: CSEQ\r\nWWW-Authenticate: Digest realm=\"a\", nonce=b, stale=true\r\n\r\n",
    "RTSP/1.0 453 No\r\nCSeq: CSEQ\r\n\r\n",
    "RTSP/1.0 551 No\r\n\r\n",
    "Session: \u{7f};timeout=0\r\n",
    "Session: 5;timeout=4294967296\r\n",
    "Transport: RTP/AVP/TCP;interleaved=0-1\r\n",
    "Content-Base: rtsp://h/\r\n",
    "Public: GET_PARAMETER\r\n",
    "\r\n",
    "Content-Length: 5\r\n\r\nv=0\r\n",
    "$\u{0}\u{0}\u{2}ab",
    "ANNOUNCE rtsp://h/ RTSP/1.0\r\nCSeq: 1\r\n\r\n",
];

/// Parts of what HTTP/1 servers send, well-formed or not.
const PARTS: [&str; 14] = [
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.1 100 Continue\r\n\r\n",
    "HTTP/1.0 404 No\n",
    "Content-Length: 5\r\n",
    "Content-Length: 0\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Connection: close\r\n",
    "\r\n",
    "hello",
    "5\r\nhello\r\n",
    "0\r\n\r\n",
    "3;a=b\r\nabc\r\n",
    "X: y\r\n",
    "\n",
];
