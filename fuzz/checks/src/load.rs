//! What must hold for any bytes given to the load generator, as a response or as a file of requests.

use std::time::{Duration, SystemTime};

use sojourn_load::http::response_reader::{Progress, Response, ResponseReader};
use sojourn_load::{
    Answer, Catalogue, Cause, Connections, Form, Next, Requests, Scenario, ScenarioInputs, Shape, Target,
    User, Version, is_har, parse_schedule,
};

/// A response reads the same, and ends at the same place, however it is cut. The first byte selects the pieces in which
/// the rest arrives.
pub fn reception(bytes: &[u8]) {
    let Some((&step, answer)) = bytes.split_first() else { return };
    let whole = received(answer, answer.len().max(1));
    assert_eq!(received(answer, usize::from(step).max(1)), whole, "in pieces of {step}");
    if let Ok(Some((used, _))) = whole {
        assert!(used <= answer.len());
        assert_eq!(received(&answer[..used], used.max(1)), whole, "what follows does not matter");
    }
}

/// The end of the response and its result; `None` while it has not ended.
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

/// The bytes up to the first NUL are a scenario or a recording; those after it are the response to each of its
/// requests, or a users' file. Whatever users take from the response, and wherever it leads, each sends one whole
/// request.
pub fn scenario(bytes: &[u8]) {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let (Ok(text), answer) = (std::str::from_utf8(&bytes[..end]), &bytes[(end + 1).min(bytes.len())..])
    else {
        return;
    };
    let target = Target::resolve("http://127.0.0.1:1/site").expect("a URL");
    let form = Form::get(&target, Version::Http11, Connections::KeepAlive);
    let inputs = ScenarioInputs {
        read_file: &|_| Ok(answer.to_vec()),
        environment: &|name| Some(name.to_owned()),
        think_shape: Shape::Exponential,
    };
    let read = if is_har(text) { Scenario::from_har } else { Scenario::parse };
    let Ok(scenario) = read(&form, text, &inputs) else { return };
    assert!(!scenario.names().is_empty() && scenario.mean_requests() >= 0.0);
    let mut user = User::new(&scenario, 1, 1);
    let split = answer.windows(4).position(|end| end == b"\r\n\r\n").map_or(answer.len(), |at| at + 4);
    let (head, body) = answer.split_at(split);
    let status = head.first().map_or(200, |byte| 200 + u16::from(*byte));
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    for request in 0..(scenario.requests() as u32).min(16) {
        if user.prepare(&scenario, request, now).is_err() {
            continue;
        }
        whole_request(user.bytes());
        for status in [302, status] {
            if user.answered(&scenario, request, &Answer { status, head, body }, now) == Next::Follow {
                whole_request(user.bytes());
            }
        }
    }
}

/// A request line of three words, and a head that ends.
fn whole_request(request: &[u8]) {
    let line = request.split(|byte| *byte == b'\r').next().expect("a first piece");
    assert_eq!(line.split(|byte| *byte == b' ').count(), 3, "{}", String::from_utf8_lossy(line));
    assert!(line.ends_with(b" HTTP/1.1"));
    assert!(request.windows(4).any(|end| end == b"\r\n\r\n"));
}
