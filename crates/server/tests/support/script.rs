//! Wire scripts: what a client sends and what it must get, as text.
//!
//! A file holds scripts, each begun by `--- title`. `> x` is sent and `< x` expected, with CRLF; `>| x` and
//! `<| x` are the same without CRLF and with the escapes \r \n \t \0 \xNN; `<# N` expects N bytes of any
//! value; `* ` in place of a value in an expected line matches any; `close` expects the end of the connection.
//! Other lines are remarks.

/// One script.
#[derive(Debug)]
pub struct Script {
    pub title: String,
    pub steps: Vec<Step>,
}

/// One step of a script.
#[derive(Debug, PartialEq)]
pub enum Step {
    Send(Vec<u8>),
    Expect(Pattern),
    Close,
}

/// Expected bytes.
#[derive(Debug, PartialEq)]
pub enum Pattern {
    Exactly(Vec<u8>),
    /// A line that begins so, its value being any.
    LineOf(Vec<u8>),
    Any(usize),
}

impl Pattern {
    /// How many of `bytes` it matches from the start; `None` if there are too few, an error if it does not.
    pub fn take(&self, bytes: &[u8]) -> Result<Option<usize>, String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match self {
            Pattern::Any(count) => Ok((bytes.len() >= *count).then_some(*count)),
            Pattern::Exactly(expected) => {
                let known = bytes.len().min(expected.len());
                if bytes[..known] != expected[..known] {
                    return Err(format!(
                        "expected {:?}, got {:?}",
                        text(expected),
                        text(&bytes[..bytes.len().min(400)])
                    ));
                }
                Ok((known == expected.len()).then_some(known))
            }
            Pattern::LineOf(start) => {
                let known = bytes.len().min(start.len());
                if bytes[..known] != start[..known] {
                    return Err(format!(
                        "expected {:?}, got {:?}",
                        text(start),
                        text(&bytes[..bytes.len().min(400)])
                    ));
                }
                Ok(bytes.windows(2).position(|pair| pair == b"\r\n").map(|end| end + 2))
            }
        }
    }
}

/// Every script of `text`.
pub fn parse(text: &str) -> Vec<Script> {
    let mut scripts: Vec<Script> = Vec::new();
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("--- ") {
            scripts.push(Script { title: title.to_owned(), steps: Vec::new() });
            continue;
        }
        let Some(script) = scripts.last_mut() else { continue };
        if let Some(step) = step(line) {
            match (script.steps.last_mut(), step) {
                (Some(Step::Send(sent)), Step::Send(more)) => sent.extend(more),
                (_, step) => script.steps.push(step),
            }
        }
    }
    scripts
}

fn step(line: &str) -> Option<Step> {
    if line == "close" {
        return Some(Step::Close);
    }
    let (mark, rest) = line.split_at_checked(2).unwrap_or((line, ""));
    let with_end = || [rest.as_bytes(), b"\r\n"].concat();
    match mark {
        "> " | ">" => Some(Step::Send(with_end())),
        ">|" => Some(Step::Send(unescape(rest.trim_start()))),
        "< " | "<" => Some(Step::Expect(match rest.strip_suffix("*") {
            Some(start) => Pattern::LineOf(start.into()),
            None => Pattern::Exactly(with_end()),
        })),
        "<|" => Some(Step::Expect(Pattern::Exactly(unescape(rest.trim_start())))),
        "<#" => Some(Step::Expect(Pattern::Any(rest.trim().parse().expect("a number of bytes")))),
        _ => None,
    }
}

fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match (byte, byte == b'\\') {
            (plain, false) => bytes.push(plain),
            (_, true) => bytes.push(match rest.next().expect("something after a backslash") {
                b'r' => b'\r',
                b'n' => b'\n',
                b't' => b'\t',
                b'0' => 0,
                b'x' => {
                    let digits = [rest.next().unwrap(), rest.next().unwrap()];
                    u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16)
                        .expect("two hexadecimal digits")
                }
                other => other,
            }),
        }
    }
    bytes
}
