//! FastCGI 1.0, from the web server's side: writes requests as records and reads an application's records.
//!
//! It sends BEGIN_REQUEST, PARAMS and STDIN, and receives STDOUT, STDERR and END_REQUEST. A connection carries one
//! request at a time. There is no multiplexing: hardly any application offers it (PHP does not), a slow response would
//! block those behind it, and connections within a machine cost little.

use sojourn_http::request::Request;

use crate::environment::{Application, Client, Variables};

pub(crate) const VERSION: u8 = 1;

const REQUEST_ID: u16 = 1;

pub const HEADER_BYTES: usize = 8;

/// The longest content of one record; its length field has 16 bits.
pub const CONTENT_BYTES_MAX: usize = u16::MAX as usize;

pub(crate) const BEGIN_REQUEST: u8 = 1;
pub(crate) const ABORT_REQUEST: u8 = 2;
pub(crate) const END_REQUEST: u8 = 3;
pub(crate) const PARAMS: u8 = 4;
pub(crate) const STDIN: u8 = 5;
pub(crate) const STDOUT: u8 = 6;
const STDERR: u8 = 7;

/// The responder role: the application answers requests.
pub(crate) const RESPONDER: u16 = 1;

/// Asks the application to keep the connection open after its response.
pub(crate) const KEEP_CONNECTION: u8 = 1;

const END_BYTES: usize = 8;

/// Appends a request without its body: the records BEGIN_REQUEST and PARAMS.
///
/// Returns `false`, with nothing appended, if the path leaves the site.
pub fn head(
    application: &Application,
    request: &Request<'_>,
    client: Client,
    is_withheld: impl Fn(&[u8]) -> bool,
    output: &mut Vec<u8>,
) -> bool {
    let start = output.len();
    begin(output);
    let mut parameters = Parameters::begin(output);
    let is_inside = application.variables_of(request, client, is_withheld, &mut parameters);
    parameters.end();
    if !is_inside {
        output.truncate(start);
    }
    is_inside
}

/// Begins a request in the responder role and asks the application to keep the connection.
fn begin(output: &mut Vec<u8>) {
    header(BEGIN_REQUEST, END_BYTES, output);
    output.extend_from_slice(&RESPONDER.to_be_bytes());
    output.extend_from_slice(&[KEEP_CONNECTION, 0, 0, 0, 0, 0]);
}

/// Writes the variables of a request as PARAMS records.
#[derive(Debug)]
struct Parameters<'o> {
    output: &'o mut Vec<u8>,
    /// The position of the first record in `output`.
    start: usize,
}

impl<'o> Parameters<'o> {
    /// Begins a PARAMS record. One usually holds all variables.
    fn begin(output: &'o mut Vec<u8>) -> Parameters<'o> {
        let start = output.len();
        header(PARAMS, 0, output);
        Parameters { output, start }
    }

    /// Ends the variables: splits a record that became too long, and appends the empty record that ends PARAMS.
    fn end(self) {
        let Parameters { output, start } = self;
        let pairs = start + HEADER_BYTES;
        match u16::try_from(output.len() - pairs) {
            Ok(length) => output[start + 4..start + 6].copy_from_slice(&length.to_be_bytes()),
            Err(_) => {
                let long = output.split_off(pairs);
                output.truncate(start);
                stream(PARAMS, &long, output);
            }
        }
        header(PARAMS, 0, output);
    }
}

impl Variables for Parameters<'_> {
    // The names are constant where this is inlined: that is most of the work.
    #[inline(always)]
    fn add(&mut self, name: &[u8], parts: &[&[u8]]) {
        let length = parts.iter().map(|part| part.len()).sum();
        match (u8::try_from(name.len()), u8::try_from(length)) {
            // Nearly all.
            (Ok(name_byte @ 0..=SHORT_MAX), Ok(byte @ 0..=SHORT_MAX)) => {
                self.output.extend_from_slice(&[name_byte, byte]);
            }
            _ => append_lengths(name.len(), length, self.output),
        }
        self.output.extend_from_slice(name);
        parts.iter().for_each(|part| self.output.extend_from_slice(part));
    }
}

/// Appends a part of the request's body.
pub fn input(part: &[u8], output: &mut Vec<u8>) {
    stream(STDIN, part, output);
}

/// Appends the end of the request's body.
pub fn end_input(output: &mut Vec<u8>) {
    header(STDIN, 0, output);
}

fn stream(kind: u8, bytes: &[u8], output: &mut Vec<u8>) {
    for content in bytes.chunks(CONTENT_BYTES_MAX) {
        header(kind, content.len(), output);
        output.extend_from_slice(content);
    }
}

fn header(kind: u8, length: usize, output: &mut Vec<u8>) {
    let length = u16::try_from(length).expect("a record holds no more");
    let [id_high, id_low] = REQUEST_ID.to_be_bytes();
    let [length_high, length_low] = length.to_be_bytes();
    output.extend_from_slice(&[VERSION, kind, id_high, id_low, length_high, length_low, 0, 0]);
}

/// The longest length that takes one byte; longer ones take four, with the highest bit set.
const SHORT_MAX: u8 = 127;

#[cold]
fn append_lengths(name: usize, value: usize, output: &mut Vec<u8>) {
    append_length(name, output);
    append_length(value, output);
}

fn append_length(length: usize, output: &mut Vec<u8>) {
    match u8::try_from(length) {
        Ok(short @ 0..=SHORT_MAX) => output.push(short),
        _ => output.extend_from_slice(&(length as u32 | 0x8000_0000).to_be_bytes()),
    }
}

/// Content of one record from the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'b> {
    Output(&'b [u8]),
    Error(&'b [u8]),
    End(Ending),
}

/// How an application ended a request (the protocol status of END_REQUEST).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The request was answered; the application's exit status.
    Complete(u32),
    /// The application is busy, or handles one request at a time; another one may answer.
    Overloaded,
    /// The application does not have the responder role.
    UnknownRole,
}

/// Why bytes are not valid records of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    #[error("the application does not speak version 1 of FastCGI")]
    Version,
    #[error("a record has the ID of an unknown request")]
    RequestId,
    #[error("a record has a type that only servers send")]
    Type,
    #[error("the application's end of a request is malformed")]
    End,
    #[error("the application sent data after the end of its response")]
    AfterEnd,
}

/// Reads an application's records incrementally, wherever the reads cut them.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    header: [u8; HEADER_BYTES],
    header_bytes: usize,
    /// Bytes of the current record's content still to come, then of its padding.
    content: usize,
    padding: usize,
    /// The content of END_REQUEST received so far.
    end: [u8; END_BYTES],
    end_bytes: usize,
    has_ended: bool,
}

impl Reader {
    /// Reads `bytes` and calls `part` with their contents.
    ///
    /// # Errors
    /// If the bytes are not records of a response. The connection cannot be used afterwards.
    pub fn read<'b>(
        &mut self,
        mut bytes: &'b [u8],
        mut part: impl FnMut(Part<'b>),
    ) -> Result<(), RecordError> {
        while !bytes.is_empty() {
            if self.header_bytes < HEADER_BYTES {
                let count = bytes.len().min(HEADER_BYTES - self.header_bytes);
                self.header[self.header_bytes..][..count].copy_from_slice(&bytes[..count]);
                self.header_bytes += count;
                bytes = &bytes[count..];
                if self.header_bytes == HEADER_BYTES {
                    self.begin_record()?;
                }
            } else if self.content > 0 {
                let (content, rest) = bytes.split_at(bytes.len().min(self.content));
                self.content -= content.len();
                bytes = rest;
                match self.header[1] {
                    // A management record may have any content, whatever its type.
                    _ if self.is_management() => {}
                    STDOUT => part(Part::Output(content)),
                    STDERR => part(Part::Error(content)),
                    END_REQUEST => {
                        self.end[self.end_bytes..][..content.len()].copy_from_slice(content);
                        self.end_bytes += content.len();
                        if self.end_bytes == END_BYTES {
                            self.has_ended = true;
                            part(Part::End(ending(self.end)?));
                        }
                    }
                    _ => {}
                }
            } else {
                let count = bytes.len().min(self.padding);
                self.padding -= count;
                bytes = &bytes[count..];
            }
            if self.content == 0 && self.padding == 0 && self.header_bytes == HEADER_BYTES {
                self.header_bytes = 0;
            }
        }
        Ok(())
    }

    /// Returns true between two requests: END_REQUEST has arrived and no further record has begun.
    pub fn is_at_rest(&self) -> bool {
        self.has_ended && self.header_bytes == 0
    }

    /// Returns true if the current record concerns the application as a whole.
    fn is_management(&self) -> bool {
        self.header[2..4] == [0, 0]
    }

    fn begin_record(&mut self) -> Result<(), RecordError> {
        let [version, kind, id_high, id_low, length_high, length_low, padding, _] = self.header;
        if version != VERSION {
            return Err(RecordError::Version);
        }
        if self.has_ended {
            return Err(RecordError::AfterEnd);
        }
        (self.content, self.padding) =
            (u16::from_be_bytes([length_high, length_low]).into(), usize::from(padding));
        match (kind, u16::from_be_bytes([id_high, id_low])) {
            // Ignored.
            (_, 0) => Ok(()),
            (STDOUT | STDERR, REQUEST_ID) => Ok(()),
            (END_REQUEST, REQUEST_ID) if self.content == END_BYTES => Ok(()),
            (END_REQUEST, REQUEST_ID) => Err(RecordError::End),
            (_, REQUEST_ID) => Err(RecordError::Type),
            _ => Err(RecordError::RequestId),
        }
    }
}

fn ending(content: [u8; END_BYTES]) -> Result<Ending, RecordError> {
    let [a, b, c, d, protocol_status, ..] = content;
    match protocol_status {
        0 => Ok(Ending::Complete(u32::from_be_bytes([a, b, c, d]))),
        1 | 2 => Ok(Ending::Overloaded),
        3 => Ok(Ending::UnknownRole),
        _ => Err(RecordError::End),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(kind: u8, id: u16, content: &[u8], padding: u8) -> Vec<u8> {
        let [high, low] = (content.len() as u16).to_be_bytes();
        let [id_high, id_low] = id.to_be_bytes();
        let mut bytes = vec![1, kind, id_high, id_low, high, low, padding, 0];
        bytes.extend_from_slice(content);
        bytes.resize(bytes.len() + usize::from(padding), 0);
        bytes
    }

    /// Standard output, standard error, the ending, and whether the next request may follow.
    type Said = (Vec<u8>, Vec<u8>, Option<Ending>, bool);

    /// Reads `bytes` in pieces of `size`.
    fn read(bytes: &[u8], size: usize) -> Result<Said, RecordError> {
        let (mut reader, mut output, mut errors, mut end) = (Reader::default(), vec![], vec![], None);
        for piece in bytes.chunks(size.max(1)) {
            reader.read(piece, |part| match part {
                Part::Output(bytes) => output.extend_from_slice(bytes),
                Part::Error(bytes) => errors.extend_from_slice(bytes),
                Part::End(ending) => end = Some(ending),
            })?;
        }
        Ok((output, errors, end, reader.is_at_rest()))
    }

    #[test]
    fn a_request_as_the_specification_has_it() {
        let mut output = Vec::new();
        begin(&mut output);
        let mut parameters = Parameters::begin(&mut output);
        parameters.add(b"A", &[b"b", b"c"]);
        parameters.add(b"L", &[&[b'x'; 200]]);
        parameters.end();
        input(b"hi", &mut output);
        end_input(&mut output);
        let mut expected = record(BEGIN_REQUEST, 1, &[0, 1, 1, 0, 0, 0, 0, 0], 0);
        let pairs = [&[1, 2][..], b"Abc", &[1, 0x80, 0, 0, 200], b"L", &[b'x'; 200]].concat();
        expected.extend(record(PARAMS, 1, &pairs, 0));
        expected.extend(record(PARAMS, 1, b"", 0));
        expected.extend(record(STDIN, 1, b"hi", 0));
        expected.extend(record(STDIN, 1, b"", 0));
        assert_eq!(output, expected);
    }

    #[test]
    fn what_is_longer_than_a_record_becomes_several() {
        let mut output = Vec::new();
        input(&vec![7; CONTENT_BYTES_MAX + 1], &mut output);
        assert_eq!(output.len(), CONTENT_BYTES_MAX + 1 + 2 * HEADER_BYTES);
        assert_eq!(output[HEADER_BYTES + CONTENT_BYTES_MAX..][..6], [1, STDIN, 0, 1, 0, 1]);
        output.clear();
        let mut parameters = Parameters::begin(&mut output);
        parameters.add(b"", &[&[7; CONTENT_BYTES_MAX]]);
        parameters.end();
        assert_eq!(output.len(), CONTENT_BYTES_MAX + 5 + 3 * HEADER_BYTES);
        assert_eq!(output[..6], [1, PARAMS, 0, 1, 255, 255]);
        assert_eq!(output[HEADER_BYTES + CONTENT_BYTES_MAX..][..6], [1, PARAMS, 0, 1, 0, 5]);
    }

    proptest! {
        /// Output and ending come out the same however the records are cut and padded.
        #[test]
        fn answers_are_read_wherever_they_are_cut(
            parts in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..40), 0u8..9), 0..8),
            size in 1usize..64,
        ) {
            let (mut bytes, mut output, mut errors) = (record(10, 0, b"x", 3), vec![], vec![]);
            for (is_error, content, padding) in parts {
                bytes.extend(record(if is_error { STDERR } else { STDOUT }, 1, &content, padding));
                if is_error { &mut errors } else { &mut output }.extend_from_slice(&content);
            }
            bytes.extend(record(END_REQUEST, 1, &[0, 0, 0, 9, 0, 0, 0, 0], 0));
            prop_assert_eq!(read(&bytes, size), Ok((output, errors, Some(Ending::Complete(9)), true)));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), size in 1usize..50) {
            prop_assert_eq!(read(&bytes, size), read(&bytes, 1));
        }
    }

    #[test]
    fn management_records_are_ignored_whatever_they_hold() {
        let end = record(END_REQUEST, 1, &[0; 8], 0);
        for kind in [STDOUT, STDERR, END_REQUEST, 10] {
            let bytes = [record(kind, 0, &[b'x'; 300], 1), record(STDOUT, 1, b"y", 0), end.clone()].concat();
            let expected = (b"y".to_vec(), Vec::new(), Some(Ending::Complete(0)), true);
            for size in [1, 7, bytes.len()] {
                assert_eq!(read(&bytes, size), Ok(expected.clone()), "{kind}");
            }
        }
    }

    #[test]
    fn what_is_refused() {
        let end = |status| record(END_REQUEST, 1, &[0, 0, 0, 0, status, 0, 0, 0], 0);
        assert_eq!(read(&end(2), 3).unwrap().2, Some(Ending::Overloaded));
        assert_eq!(read(&end(3), 3).unwrap().2, Some(Ending::UnknownRole));
        assert_eq!(read(&end(4), 8), Err(RecordError::End));
        assert_eq!(read(&record(END_REQUEST, 1, b"short", 0), 8), Err(RecordError::End));
        assert_eq!(read(&[2, STDOUT, 0, 1, 0, 0, 0, 0], 8), Err(RecordError::Version));
        assert_eq!(read(&record(STDOUT, 2, b"", 0), 8), Err(RecordError::RequestId));
        assert_eq!(read(&record(STDIN, 1, b"", 0), 8), Err(RecordError::Type));
        assert_eq!(read(&[end(0), record(STDOUT, 1, b"x", 0)].concat(), 8), Err(RecordError::AfterEnd));
    }
}
