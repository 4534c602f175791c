//! What must hold for any bytes given to the load generator: as an answer, or as a file that says what to ask for.

use sojourn_load::http::response_reader::{Progress, Response, ResponseReader};
use sojourn_load::{Catalogue, Cause, Connections, Form, Requests, Target, Version, parse_schedule};

/// The first byte says in what pieces the rest arrives: an answer is read alike however it is cut, and ends where it
/// ends.
pub fn reception(bytes: &[u8]) {
    let Some((&step, answer)) = bytes.split_first() else { return };
    let whole = received(answer, answer.len().max(1));
    assert_eq!(received(answer, usize::from(step).max(1)), whole, "in pieces of {step}");
    if let Ok(Some((used, _))) = whole {
        assert!(used <= answer.len());
        assert_eq!(received(&answer[..used], used.max(1)), whole, "what follows does not matter");
    }
}

/// Where the answer ended and what it was; nothing while it has not ended.
fn received(bytes: &[u8], step: usize) -> Result<Option<(usize, Response)>, Cause> {
    let (mut reception, mut at) = (ResponseReader::default(), 0);
    for piece in bytes.chunks(step) {
        let (used, progress) = reception.feed(piece)?;
        at += used;
        match progress {
            Progress::Complete(response) => return Ok(Some((at, response))),
            Progress::More => assert_eq!(used, piece.len()),
        }
    }
    Ok(None)
}

/// Files of sessions and of walks, file lists and schedules are read or refused; what is read makes whole requests.
pub fn plan_file(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let target = Target::resolve("http://127.0.0.1:1/site").expect("a URL");
    let form = Form::get(&target, Version::Http11, Connections::KeepAlive);
    if let Ok((catalogue, Requests::Sessions(sessions))) = Catalogue::sessions(&form, text) {
        for document in sessions.iter().flatten().flat_map(|burst| &burst.requests) {
            whole_request(catalogue.request(*document));
        }
        assert!(sessions.iter().flatten().all(|burst| !burst.requests.is_empty()));
    }
    if let Ok((catalogue, _)) = Catalogue::walk(&form, text) {
        whole_request(catalogue.request(0));
    }
    if let Ok((catalogue, _)) = Catalogue::mix(&form, text) {
        whole_request(catalogue.request(0));
    }
    if let Ok(segments) = parse_schedule(text) {
        assert!(!segments.is_empty() && segments.iter().all(|segment| segment.mean() >= 0.0));
    }
}

/// A request line of three words, and a head that ends.
fn whole_request(request: &[u8]) {
    let line = request.split(|byte| *byte == b'\r').next().expect("a first piece");
    assert_eq!(line.split(|byte| *byte == b' ').count(), 3, "{}", String::from_utf8_lossy(line));
    assert!(line.ends_with(b" HTTP/1.1"));
    assert!(request.windows(4).any(|end| end == b"\r\n\r\n"));
}
