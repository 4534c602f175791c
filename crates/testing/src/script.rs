//! Wire scripts: what a client sends and what it must receive, as text.
//!
//! A file holds scripts, each begun by `--- title`. `> x` is sent and `< x` expected, with CRLF; `>| x` and
//! `<| x` are the same without CRLF and with the escapes \r \n \t \0 \xNN; `>* N x` sends that N times; `<# N` expects
//! N bytes of any value; `* ` in place of a value in an expected line matches any; `close` expects the end of the
//! connection. `=== name` begins steps that several scripts of the file have in common; `= name` stands for them.
//! `! name x` is a script of its own: x, with escapes, is sent, and the steps `name` follow. Other lines are remarks.

use std::collections::HashMap;

/// Scripts whose answers do not depend on how their input is cut.
const SCRIPTS: &[&str] = &[
    include_str!("../wire/requests.wire"),
    include_str!("../wire/conditions.wire"),
    include_str!("../wire/refusals.wire"),
    include_str!("../wire/framing.wire"),
];

/// Scripts in which the client waits for an answer before it continues.
const DIALOGUES: &str = include_str!("../wire/expectations.wire");

/// Every script that may be cut anywhere.
pub fn scripts() -> Vec<Script> {
    SCRIPTS.iter().flat_map(|text| parse(text)).collect()
}

/// Every script that must be played step by step.
pub fn dialogues() -> Vec<Script> {
    parse(DIALOGUES)
}

/// Scripts for the sites of `rich_fixture`.
const CONTENT: &str = include_str!("../wire/content.wire");

/// Every script about content, which may be cut anywhere, too.
pub fn content() -> Vec<Script> {
    parse(CONTENT)
}

/// A dialogue on one connection.
#[derive(Debug)]
pub struct Script {
    pub title: String,
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    Send(Vec<u8>),
    Expect(Pattern),
    Close,
}

/// The expected bytes, or a line with a variable part.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    Exactly(Vec<u8>),
    /// A line with this start and any value.
    LineOf(Vec<u8>),
    Any(usize),
}

impl Pattern {
    /// How many of `bytes` match from the start; `None` if there are too few, an error if they do not match.
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
fn parse(text: &str) -> Vec<Script> {
    let mut scripts: Vec<Script> = Vec::new();
    let mut common: HashMap<&str, Vec<Step>> = HashMap::new();
    let mut defining = None;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("=== ") {
            defining = Some(name);
        } else if let Some(title) = line.strip_prefix("--- ") {
            defining = None;
            scripts.push(Script { title: title.to_owned(), steps: Vec::new() });
        } else if let Some((name, sent)) = line.strip_prefix("! ").and_then(|rest| rest.split_once(' ')) {
            defining = None;
            let steps = [Step::Send(unescape(sent))].into_iter().chain(common[name].iter().cloned());
            scripts.push(Script { title: line.to_owned(), steps: steps.collect() });
        } else if let Some(name) = defining {
            common.entry(name).or_default().extend(step(line));
        } else if let (Some(name), Some(script)) = (line.strip_prefix("= "), scripts.last_mut()) {
            script.steps.extend_from_slice(&common[name]);
        } else if let (Some(step), Some(script)) = (step(line), scripts.last_mut()) {
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
        ">*" => {
            let (count, text) = rest.trim_start().split_once(' ').expect("a count and a text");
            Some(Step::Send(unescape(text).repeat(count.parse().expect("a number"))))
        }
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
