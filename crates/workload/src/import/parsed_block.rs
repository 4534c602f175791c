//! What the lines of a block say, in a form that another thread or machine can hand to the collector.
//!
//! A [`Parser`] numbers the distinct clients and names of its lines, and tells each text once (`told_texts`). [`Seen`], on the
//! collector's side, keeps these texts with the numbers that the collector has found for them. `packed` has the lines, and
//! `encoding` the bytes in which a block travels.

mod encoding;
mod packed;

pub use encoding::{Decoded, Decoder, Piece};

use super::format::Format;
use super::interner::{Interner, Texts};
use super::judged::{self, EntryTexts, Line, Name};
use super::lines::{self, Step};
use super::parse_ahead::BlockParser;
use super::policy::Verdict;
use super::report::{MALFORMED_SHOWN_MAX, MALFORMED_TEXT_BYTES_MAX};
use super::text_blocks::TextBlock;
use super::told_texts::{Heard, Teller, Told};
use super::{ImportError, Options};
use packed::{Lines, Stored};

/// So much of a damaged line tells whether it is longer than what is shown of it.
const DAMAGED_BYTES_MAX: usize = MALFORMED_TEXT_BYTES_MAX + 1;

/// The lines of a block in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedBlock {
    /// The length of its text.
    pub bytes: u64,
    lines: Lines,
    clients: Told,
    names: Told,
    /// Starts of its first damaged lines; more are never shown.
    damaged: Texts,
}

/// Parses blocks of one log, one after the other.
pub struct Parser {
    format: Format,
    options: Options,
    clients: Teller,
    names: Teller,
    name: Vec<u8>,
}

impl Parser {
    pub fn new(format: Format, options: Options) -> Self {
        Parser { format, options, clients: Teller::default(), names: Teller::default(), name: Vec::new() }
    }

    /// Forgets all texts, so that what follows can be replayed without what came before.
    pub fn begin_anew(&mut self) {
        self.clients.forget();
        self.names.forget();
    }
}

impl BlockParser for Parser {
    type Block = ParsedBlock;
    type Seen = Seen;

    fn parse(&mut self, text: &TextBlock, block: &mut ParsedBlock) {
        let Parser { format, options, clients, names, name } = self;
        let ParsedBlock { bytes, lines, clients: new_clients, names: new_names, damaged } = block;
        *bytes = text.left_out;
        lines.clear();
        damaged.clear();
        clients.begin(new_clients);
        names.begin(new_names);
        let record_bytes = format.record_bytes();
        let visited = lines::for_each(&mut text.bytes(), record_bytes, |step| {
            let Step::Line { bytes: read, text } = step else { return Ok(()) };
            *bytes += read;
            judged::read(format, options, text, |line| match line {
                Line::Entry(judged, texts) => {
                    let client = clients.number(texts.client(), new_clients);
                    let named = match judged.verdict {
                        Verdict::Skip(_) => without_query(texts.name()),
                        _ => texts.name(),
                    };
                    let name = names.number(joined(name, named), new_names);
                    lines.push(Stored::Entry { judged, client, name });
                }
                Line::NotSelected(logged) => lines.push(Stored::NotSelected(logged)),
                Line::Directive => lines.push(Stored::Directive),
                Line::Malformed(reason, text) => {
                    if damaged.len() < MALFORMED_SHOWN_MAX {
                        damaged.push(&text[..text.len().min(DAMAGED_BYTES_MAX)]);
                    }
                    lines.push(Stored::Malformed(reason));
                }
            });
            Ok(())
        });
        visited.expect("memory can be read");
    }
}

/// A skipped request counts for its path alone, and queries are many.
fn without_query(name: Name<'_>) -> Name<'_> {
    let end = memchr::memchr(b'?', name.target).unwrap_or(name.target.len());
    Name { target: &name.target[..end], ..name }
}

/// What stands behind a joined name: the lengths of method and host, and a line feed, which no target has.
const LENGTHS_BYTES: usize = 4;
const JOINED: u8 = b'\n';

/// Joins method, target and host into one text that can be split again; the target alone where there is no other.
fn joined<'n>(buffer: &'n mut Vec<u8>, Name { method, target, host }: Name<'n>) -> &'n [u8] {
    if method.is_empty() && host.is_empty() && target.last() != Some(&JOINED) {
        return target; // by far the most common
    }
    buffer.clear();
    for text in [method, target, host] {
        buffer.extend_from_slice(text);
    }
    buffer.push(method.len() as u8);
    buffer.extend_from_slice(&(host.len() as u16).to_le_bytes());
    buffer.push(JOINED);
    buffer
}

/// Splits a joined name; `None` if the lengths are wrong.
fn split(name: &[u8]) -> Option<Name<'_>> {
    if name.last() != Some(&JOINED) {
        return Some(Name { method: b"", target: name, host: b"" });
    }
    let (texts, [method_bytes, host @ .., _]) = name.split_last_chunk::<LENGTHS_BYTES>()?;
    let (method, rest) = texts.split_at_checked((*method_bytes).into())?;
    let host_bytes = usize::from(u16::from_le_bytes(*host));
    let (target, host) = rest.split_at_checked(rest.len().checked_sub(host_bytes)?)?;
    Some(Name { method, target, host })
}

/// The numbers that the collector has found for a name, and for its path alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct NameNumbers {
    pub name: Option<u32>,
    pub path: Option<u32>,
}

/// What one parser has told so far.
#[derive(Default)]
pub struct Seen {
    clients: Heard<Option<u32>>,
    names: Heard<NameNumbers>,
}

/// The texts of a line that were told before, by their numbers.
#[derive(Clone, Copy)]
pub struct ToldTexts<'s> {
    clients: &'s Texts,
    names: &'s Texts,
    client: u32,
    name: u32,
}

impl EntryTexts for ToldTexts<'_> {
    fn client(&self) -> &[u8] {
        self.clients.get(self.client)
    }

    fn name(&self) -> Name<'_> {
        split(self.names.get(self.name)).expect("it was joined")
    }
}

impl Seen {
    /// Takes what the parser's next block tells. To look up all of its texts at once, one behind the other, takes far less time
    /// than each where it occurs; of a name this is possible where it is the target alone.
    pub fn hear(&mut self, block: &ParsedBlock, clients: &Interner, names: &Interner) {
        self.clients.add(&block.clients, |client| clients.known(client));
        self.names.add(&block.names, |name| NameNumbers {
            name: if name.last() == Some(&JOINED) { None } else { names.known(name) },
            path: None,
        });
    }

    /// Calls `visit` with each line of the parser's next block, and with the numbers found before for its client and its
    /// name, to which it adds.
    pub fn replay(
        &mut self,
        block: &ParsedBlock,
        mut visit: impl FnMut(
            Line<'_, ToldTexts<'_>>,
            &mut Option<u32>,
            &mut NameNumbers,
        ) -> Result<(), ImportError>,
    ) -> Result<(), ImportError> {
        let Seen { clients, names } = self;
        let mut damaged = block.damaged.iter();
        let (mut no_client, mut no_name) = (None, NameNumbers::default());
        block.lines.try_for_each(|line, soon| {
            if let Some(packed::Texts { client, name }) = soon {
                // What was found for them is far away in memory. Reading it now brings it here until then.
                std::hint::black_box((
                    clients.found[client as usize].is_some(),
                    names.found[name as usize].name.is_some(),
                ));
            }
            let (line, client, name) = match line {
                Stored::Entry { judged, client, name } => {
                    let texts = ToldTexts { clients: &clients.texts, names: &names.texts, client, name };
                    let found = (&mut clients.found[client as usize], &mut names.found[name as usize]);
                    (Line::Entry(judged, texts), found.0, found.1)
                }
                Stored::NotSelected(logged) => (Line::NotSelected(logged), &mut no_client, &mut no_name),
                Stored::Directive => (Line::Directive, &mut no_client, &mut no_name),
                Stored::Malformed(reason) => {
                    let text = damaged.next().unwrap_or_default();
                    (Line::Malformed(reason, text), &mut no_client, &mut no_name)
                }
            };
            visit(line, client, name)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_as_they_were_joined() {
        let (long, feed) = ([b'x'; 300], b"/a\n");
        let mut buffer = Vec::new();
        for [method, target, host] in [
            [&b""[..], &b"/a"[..], &b""[..]],
            [b"POST", b"", b"h"],
            [b"", &long, &long[..259]],
            [b"", feed, b""],
        ] {
            let name = Name { method, target, host };
            assert_eq!(split(joined(&mut buffer, name)), Some(name));
        }
        assert_eq!(split(b"/a\x09\x00\x00\n"), None, "the method is longer than the text");
        assert_eq!(split(b"\n"), None);
    }
}
