//! Responses with every framing, split anywhere.

use proptest::prelude::*;

use super::*;

fn complete(status: u16, body_bytes: u64, keep_alive: bool) -> Progress {
    Progress::Complete(Response { status, body_bytes, keep_alive })
}

/// Feeds the bytes in pieces of these lengths, then the rest; returns the last progress.
fn receive(bytes: &[u8], cuts: &[usize]) -> Result<Progress, Cause> {
    let mut reader = ResponseReader::default();
    let (mut rest, mut progress) = (bytes, Progress::More);
    for &cut in cuts.iter().chain([&bytes.len()]) {
        let (piece, later) = rest.split_at(cut.min(rest.len()));
        if !piece.is_empty() {
            assert_eq!(progress, Progress::More, "complete before the end");
            let (used, next) = reader.feed(piece)?;
            assert!(used == piece.len() || next != Progress::More);
            progress = if used < piece.len() { return Err(Cause::BadResponse) } else { next };
        }
        rest = later;
    }
    Ok(progress)
}

const RESPONSES: [(&str, Progress); 5] = [
    (
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        Progress::Complete(Response { status: 200, body_bytes: 5, keep_alive: true }),
    ),
    (
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        Progress::Complete(Response { status: 200, body_bytes: 3, keep_alive: true }),
    ),
    (
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 No\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        Progress::Complete(Response { status: 404, body_bytes: 0, keep_alive: false }),
    ),
    (
        "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
        Progress::Complete(Response { status: 304, body_bytes: 0, keep_alive: true }),
    ),
    ("HTTP/1.0 200 OK\r\n\r\nuntil the end", Progress::More),
];

proptest! {
    #[test]
    fn the_same_however_it_is_cut(index in 0..RESPONSES.len(), cuts in prop::collection::vec(1..20_usize, 0..40)) {
        let (text, expected) = RESPONSES[index];
        prop_assert_eq!(receive(text.as_bytes(), &cuts), Ok(expected));
    }

    #[test]
    fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300), cuts in prop::collection::vec(1..50_usize, 0..9)) {
        let mut reader = ResponseReader::default();
        let mut rest = &bytes[..];
        for cut in cuts {
            let (piece, later) = rest.split_at(cut.min(rest.len()));
            if !matches!(reader.feed(piece), Ok((_, Progress::More))) {
                break;
            }
            rest = later;
        }
    }
}

#[test]
fn a_body_may_be_thrown_away_unseen() {
    let mut reader = ResponseReader::default();
    let part = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc";
    assert_eq!(reader.feed(part), Ok((part.len(), Progress::More)));
    assert_eq!(reader.discardable(), Some(7));
    assert_eq!(reader.discarded(3), Progress::More);
    assert_eq!(reader.discarded(4), complete(200, 10, true));
}

#[test]
fn bodies_are_told_apart_whatever_their_framing() {
    let digest = |response: &str| {
        let mut reader = ResponseReader::new(true);
        reader.feed(response.as_bytes()).unwrap();
        assert!(reader.discardable().is_none());
        reader.digest().unwrap()
    };
    let sized = digest("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n";
    assert_eq!(digest(chunked), sized);
    assert_eq!(digest("HTTP/1.0 200 OK\r\n\r\nhello"), sized);
    assert_ne!(digest("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhallo"), sized);
    assert_eq!(ResponseReader::default().digest(), None);
}

#[test]
fn bodies_are_kept_up_to_a_limit() {
    let mut reader = ResponseReader::keeping(5);
    let whole = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n";
    reader.reset_keeping(true);
    assert_eq!(reader.feed(whole), Ok((whole.len(), complete(200, 5, true))));
    assert_eq!(reader.take_kept(), b"hello");
    reader.reset_keeping(true);
    assert_eq!(reader.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello!"), Err(Cause::BodyTooLong));
    reader.reset_keeping(false);
    reader.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n").unwrap();
    assert_eq!(reader.discardable(), Some(6));
}

#[test]
fn the_end_of_the_connection_ends_some_bodies() {
    let mut reader = ResponseReader::default();
    reader.feed(b"HTTP/1.0 200 OK\r\n\r\nabc").unwrap();
    assert_eq!(reader.end(), Ok(Response { status: 200, body_bytes: 3, keep_alive: false }));
    reader.reset(false);
    assert_eq!(reader.end(), Err(Cause::ClosedEarly));
    assert!(!reader.has_begun());
    reader.feed(b"HTT").unwrap();
    assert!(reader.has_begun());
    assert_eq!(reader.end(), Err(Cause::ClosedEarly));
}

#[test]
fn several_responses_in_a_row_are_told_apart() {
    let first = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let both = [&first[..], b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"].concat();
    for cut in 0..first.len() {
        let mut reader = ResponseReader::default();
        if cut > 0 {
            assert_eq!(reader.feed(&both[..cut]), Ok((cut, Progress::More)));
        }
        let rest = first.len() - cut;
        assert_eq!(reader.feed(&both[cut..]), Ok((rest, complete(200, 2, true))), "{cut}");
        reader.reset(false);
        let second = &both[first.len()..];
        assert_eq!(reader.feed(second), Ok((second.len(), complete(404, 0, true))));
    }
}

#[test]
fn the_answer_to_head_has_no_body() {
    let mut reader = ResponseReader::default();
    reader.reset(true);
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    assert_eq!(reader.feed(head), Ok((head.len(), complete(200, 0, true))));
}

#[test]
fn garbage_and_more_than_announced() {
    assert_eq!(receive(b"SSH-2.0-x\r\n\r\n", &[]), Err(Cause::BadResponse));
    assert_eq!(receive(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabc", &[]), Err(Cause::BadResponse));
    let endless = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(1 << 20));
    assert_eq!(receive(endless.as_bytes(), &[1000; 900]), Err(Cause::BadResponse));
}
