//! Shows how the parser reads given bytes, so that other programs can compare it with other parsers.
//!
//! A line of standard input is the bytes in hexadecimal. A line of standard output is one of `partial`, `refused
//! REASON`, and `request METHOD TARGET MINOR KEEP_ALIVE CONTENT REST` (the target, the body's content and what follows
//! the request in hexadecimal, `-` for nothing). The bytes are read whole and byte by byte, which must agree.

use std::fmt::Write as _;
use std::io::{BufRead, Write};

use sojourn_http::request::{BodyReader, Parsed, Parser, RequestError, Version};

fn main() -> std::io::Result<()> {
    let mut output = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let bytes = from_hex(line?.trim());
        let outcome = outcome(&bytes, bytes.len().max(1));
        assert_eq!(outcome, self::outcome(&bytes, 1), "whole and byte by byte: {bytes:?}");
        writeln!(output, "{outcome}")?;
        output.flush()?;
    }
    Ok(())
}

/// The parser's verdict on the first request of `bytes`, received in pieces of `step` bytes.
fn outcome(bytes: &[u8], step: usize) -> String {
    let mut parser = Parser::default();
    for end in (step..=bytes.len()).step_by(step) {
        match parser.parse(&bytes[..end]) {
            Ok(Parsed::Partial) => {}
            Err(error) => return format!("refused {error:?}"),
            Ok(Parsed::Complete(request)) => {
                let version = if request.version == Version::Http10 { 0 } else { 1 };
                let method = request.line.split(|byte| *byte == b' ').next().unwrap_or_default();
                let line = format!(
                    "request {} {} {version} {}",
                    String::from_utf8_lossy(method),
                    to_hex(request.target),
                    u8::from(request.keep_alive)
                );
                let mut reader = BodyReader::new(request.body);
                return match read(&mut reader, &bytes[request.head_len..], step) {
                    Err(error) => format!("refused {error:?}"),
                    Ok((content, rest)) if reader.is_done() => {
                        format!("{line} {} {}", to_hex(&content), to_hex(rest))
                    }
                    Ok(_) => "partial".to_owned(),
                };
            }
        }
    }
    "partial".to_owned()
}

fn read<'b>(
    reader: &mut BodyReader,
    bytes: &'b [u8],
    step: usize,
) -> Result<(Vec<u8>, &'b [u8]), RequestError> {
    let (mut content, mut taken) = (Vec::new(), 0);
    for piece in bytes.chunks(step) {
        taken += reader.read(piece, |data| content.extend_from_slice(data))?;
    }
    Ok((content, &bytes[taken..]))
}

fn from_hex(text: &str) -> Vec<u8> {
    let digit = |index: usize| u8::from_str_radix(&text[index..index + 2], 16).expect("hexadecimal digits");
    (0..text.len()).step_by(2).map(digit).collect()
}

fn to_hex(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "-".to_owned();
    }
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string can be written");
        text
    })
}
