//! Bytes that random input would hardly come upon: messages made of likely parts in any order.

use proptest::prelude::*;
use sojourn_fuzz_checks::{load, viewer};

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
            // Each head has the number of the request that it most likely answers.
            number += u32::from(REPLY_PARTS[part].starts_with("RTSP/"));
            bytes.extend(REPLY_PARTS[part].replace("CSEQ", &number.to_string()).into_bytes());
        }
        viewer::dialogue(&bytes);
    }
}

/// What streaming servers say, well or not.
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

/// What random bytes would hardly come upon.
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
