//! The other side of FastCGI: an application reads requests and answers them. Ours are for measurement and examples.
//!
//! One request at a time has a connection, as [`crate::fastcgi`] asks.

use std::collections::HashMap;

use crate::fastcgi::{
    ABORT_REQUEST, BEGIN_REQUEST, CONTENT_BYTES_MAX, END_REQUEST, HEADER_BYTES, KEEP_CONNECTION, PARAMS,
    RESPONDER, STDIN, STDOUT, VERSION,
};

/// The most that the variables of a request may have.
pub const VARIABLES_BYTES_MAX: usize = 256 * 1024;

/// A request as an application is told of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    pub id: u16,
    /// True if the connection stays after the answer.
    pub keeps_connection: bool,
    pub variables: Variables,
    pub body: Vec<u8>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variables(HashMap<String, String>);

impl Variables {
    /// Those of a process for each request: its environment.
    pub fn of_environment(pairs: impl Iterator<Item = (String, String)>) -> Variables {
        Variables(pairs.collect())
    }

    /// The value of a variable; empty if there is none, which is the same by RFC 3875, 4.1.
    pub fn value(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }
}

/// Why a connection cannot be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    #[error("the server does not speak version 1 of FastCGI")]
    Version,
    #[error("the server multiplexes requests, or asks for a role other than responder")]
    Request,
    #[error("the variables of a request are malformed, or have more than {VARIABLES_BYTES_MAX} bytes")]
    Variables,
    #[error("the body of a request is too long")]
    Body,
}

/// Takes a connection's records apart, wherever they are cut.
#[derive(Debug)]
pub struct RequestReader {
    received: Vec<u8>,
    request: Option<Request>,
    /// The variables as far as they have come.
    pairs: Vec<u8>,
    body_bytes_max: usize,
}

impl RequestReader {
    pub fn new(body_bytes_max: usize) -> RequestReader {
        RequestReader { received: Vec::new(), request: None, pairs: Vec::new(), body_bytes_max }
    }

    /// Takes bytes in; returns the request that they complete.
    ///
    /// # Errors
    /// If they are none that can be answered.
    pub fn read(&mut self, bytes: &[u8]) -> Result<Option<Request>, RequestError> {
        self.received.extend_from_slice(bytes);
        let mut start = 0;
        let outcome = loop {
            let Some((record, rest)) = Record::split(&self.received[start..]) else { break Ok(None) };
            let length = self.received.len() - start - rest;
            match take(&mut self.request, &mut self.pairs, self.body_bytes_max, &record) {
                Ok(false) => {}
                Ok(true) => {
                    start += length;
                    break Ok(self.request.take());
                }
                Err(error) => break Err(error),
            }
            start += length;
        };
        self.received.drain(..start);
        outcome
    }
}

struct Record<'b> {
    version: u8,
    kind: u8,
    id: u16,
    content: &'b [u8],
}

impl Record<'_> {
    /// The first record, and how many bytes follow it.
    fn split(bytes: &[u8]) -> Option<(Record<'_>, usize)> {
        let [version, kind, id_high, id_low, high, low, padding, _, rest @ ..] = bytes else { return None };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let after = rest.len().checked_sub(length + usize::from(*padding))?;
        let id = u16::from_be_bytes([*id_high, *id_low]);
        Some((Record { version: *version, kind: *kind, id, content: &rest[..length] }, after))
    }
}

/// Takes a record in. Returns true if it ends the request.
fn take(
    request: &mut Option<Request>,
    pairs: &mut Vec<u8>,
    body_bytes_max: usize,
    record: &Record<'_>,
) -> Result<bool, RequestError> {
    if record.version != VERSION {
        return Err(RequestError::Version);
    }
    match (record.kind, record.content, request.as_mut()) {
        (BEGIN_REQUEST, [high, low, flags, ..], None) if [*high, *low] == RESPONDER.to_be_bytes() => {
            let keeps_connection = flags & KEEP_CONNECTION != 0;
            *request = Some(Request { id: record.id, keeps_connection, ..Request::default() });
            pairs.clear();
        }
        // Records about the connection itself: what they ask is not needed.
        (_, _, _) if record.id == 0 => {}
        (_, _, Some(request)) if record.id != request.id => return Err(RequestError::Request),
        (PARAMS, [], Some(request)) => {
            request.variables = Variables(variables(pairs).ok_or(RequestError::Variables)?);
        }
        (PARAMS, content, Some(_)) => {
            if pairs.len() + content.len() > VARIABLES_BYTES_MAX {
                return Err(RequestError::Variables);
            }
            pairs.extend_from_slice(content);
        }
        (STDIN, [], Some(_)) => return Ok(true),
        (STDIN, content, Some(request)) => {
            if request.body.len() + content.len() > body_bytes_max {
                return Err(RequestError::Body);
            }
            request.body.extend_from_slice(content);
        }
        (ABORT_REQUEST, ..) => *request = None,
        _ => return Err(RequestError::Request),
    }
    Ok(false)
}

/// Takes pairs of names and values apart; `None` if they are malformed.
fn variables(mut pairs: &[u8]) -> Option<HashMap<String, String>> {
    let mut found = HashMap::new();
    while !pairs.is_empty() {
        let name = length(&mut pairs)?;
        let value = length(&mut pairs)?;
        let (name, rest) = pairs.split_at_checked(name)?;
        let (value, rest) = rest.split_at_checked(value)?;
        pairs = rest;
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        found.insert(text(name), text(value));
    }
    Some(found)
}

fn length(pairs: &mut &[u8]) -> Option<usize> {
    let (length, rest) = match *pairs {
        [short @ 0..=127, rest @ ..] => (usize::from(*short), rest),
        [a, b, c, d, rest @ ..] => (u32::from_be_bytes([a & 0x7f, *b, *c, *d]) as usize, rest),
        _ => return None,
    };
    *pairs = rest;
    Some(length)
}

/// Appends an answer: what a script would write to its standard output, and the end.
pub fn answer(id: u16, parts: &[&[u8]], records: &mut Vec<u8>) {
    for part in parts {
        part.chunks(CONTENT_BYTES_MAX).for_each(|content| record(STDOUT, id, content, records));
    }
    record(END_REQUEST, id, &[0; 8], records);
}

fn record(kind: u8, id: u16, content: &[u8], records: &mut Vec<u8>) {
    let length = u16::try_from(content.len()).expect("a record holds no more").to_be_bytes();
    let id = id.to_be_bytes();
    records.reserve(HEADER_BYTES + content.len());
    records.extend_from_slice(&[VERSION, kind, id[0], id[1], length[0], length[1], 0, 0]);
    records.extend_from_slice(content);
}

#[cfg(test)]
mod tests {
    use sojourn_http::request::{Parsed, Parser};

    use super::*;
    use crate::fastcgi::{self, Ending, Part};
    use crate::{Application, Client, Ends};

    /// What [`fastcgi`] writes is read as it was meant, in pieces of any size.
    #[test]
    #[cfg_attr(miri, ignore = "it takes minutes")]
    fn both_sides_agree() {
        let head = b"POST /a?b HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nX-Long: xxxxxxxxxxxxxxxxxxxxxxxxx\r\n\r\n";
        let Ok(Parsed::Complete(request)) = Parser::default().parse(head) else { unreachable!() };
        let client = Client {
            address: [127, 0, 0, 1].into(),
            ends: Ends::default(),
            is_secure: false,
            version: request.version,
        };
        let application =
            Application { root: vec![b'r'; 70_000], script: Some(b"/s".to_vec()), ..Application::default() };
        let mut records = Vec::new();
        assert!(fastcgi::head(&application, &request, client, |_| false, &mut records));
        fastcgi::input(b"abc", &mut records);
        fastcgi::end_input(&mut records);
        for size in [1, 7, 1000, records.len()] {
            let mut reader = RequestReader::new(3);
            let mut found: Vec<Request> = [records.chunks(size), records.chunks(size)]
                .into_iter()
                .flatten()
                .filter_map(|piece| reader.read(piece).unwrap())
                .collect();
            assert_eq!(found.len(), 2, "{size}");
            let Request { id, keeps_connection, variables, body } = found.pop().unwrap();
            assert_eq!((id, keeps_connection, &body[..]), (1, true, &b"abc"[..]));
            assert_eq!((variables.value("QUERY_STRING"), variables.value("PATH_INFO")), ("b", "/a"));
            assert_eq!((variables.value("DOCUMENT_ROOT").len(), variables.value("NONE")), (70_000, ""));
        }
        let mut reader = RequestReader::new(2);
        assert_eq!(reader.read(&records), Err(RequestError::Body));
    }

    #[test]
    fn an_answer_is_one_for_a_server() {
        let (mut records, mut output, mut end) = (Vec::new(), Vec::new(), None);
        answer(1, &[b"A: b\n\n", &[7; 70_000]], &mut records);
        fastcgi::Reader::default()
            .read(&records, |part| match part {
                Part::Output(bytes) => output.extend_from_slice(bytes),
                Part::Error(_) => unreachable!(),
                Part::End(ending) => end = Some(ending),
            })
            .unwrap();
        assert_eq!((output.len(), end), (70_006, Some(Ending::Complete(0))));
    }

    #[test]
    fn what_is_refused() {
        let read = |bytes: &[u8]| RequestReader::new(9).read(bytes);
        let begin = |role: u8| [1, 1, 0, 1, 0, 8, 0, 0, 0, role, 1, 0, 0, 0, 0, 0];
        assert_eq!(read(&begin(1)), Ok(None));
        assert_eq!(read(&begin(2)), Err(RequestError::Request));
        assert_eq!(read(&[2, 1, 0, 1, 0, 0, 0, 0]), Err(RequestError::Version));
        assert_eq!(read(&[begin(1), begin(1)].concat()), Err(RequestError::Request));
        assert_eq!(
            read(&[&begin(1)[..], &[1, PARAMS, 0, 2, 0, 0, 0, 0]].concat()),
            Err(RequestError::Request)
        );
        let short = [&begin(1)[..], &[1, PARAMS, 0, 1, 0, 2, 0, 0, 9, 9], &[1, PARAMS, 0, 1, 0, 0, 0, 0]];
        assert_eq!(read(&short.concat()), Err(RequestError::Variables));
    }
}
