//! What the lines of a block say, in a form that another thread or machine can hand to the collector.
//!
//! A [`Parser`] numbers the distinct clients and names of its lines, and tells each text once. [`Seen`], on the collector's
//! side, keeps these texts with the numbers that the collector has found for them, so that it looks up each text once and
//! not once per line. A parser that has seen many texts forgets them and begins anew: memory does not grow with the log.
//! `encoding` has the bytes in which a block travels.

mod encoding;

pub use encoding::{Decoded, Decoder, Piece};

use super::entry::Malformed;
use super::format::Format;
use super::interner::{Interner, Texts};
use super::judged::{self, EntryTexts, Judged, Line, Logged};
use super::lines::{self, Step};
use super::report::{MALFORMED_SHOWN_MAX, MALFORMED_TEXT_BYTES_MAX};
use super::text_blocks::TextBlock;
use super::{ImportError, Options};

/// A parser forgets its texts before a block if they are more, or longer together.
const TEXTS_MAX: usize = 1 << 18;
const TEXTS_BYTES_MAX: usize = 16 << 20;

/// So much of a damaged line tells whether it is longer than what is shown of it.
const DAMAGED_BYTES_MAX: usize = MALFORMED_TEXT_BYTES_MAX + 1;

/// The lines of a block in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedBlock {
    /// The length of its text.
    pub bytes: u64,
    lines: Vec<Stored>,
    clients: Told,
    names: Told,
    /// Starts of its first damaged lines; more are never shown.
    damaged: Texts,
}

/// Texts that a parser has not told before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Told {
    /// Whether all texts of earlier blocks are forgotten.
    anew: bool,
    texts: Texts,
}

/// A line, with its texts as the parser's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stored {
    Entry { judged: Judged, client: u32, name: u32 },
    NotSelected(Logged),
    Directive,
    Malformed(Malformed),
}

/// Parses blocks of one log, one after the other.
pub struct Parser {
    format: Format,
    options: Options,
    clients: Interner,
    names: Interner,
    name: Vec<u8>,
}

impl Parser {
    pub fn new(format: Format, options: Options) -> Self {
        Parser { format, options, clients: Interner::default(), names: Interner::default(), name: Vec::new() }
    }

    /// Forgets all texts, so that what follows can be replayed without what came before.
    pub fn begin_anew(&mut self) {
        self.clients.clear();
        self.names.clear();
    }

    pub fn parse(&mut self, text: &TextBlock, block: &mut ParsedBlock) {
        let Parser { format, options, clients, names, name } = self;
        let ParsedBlock { bytes, lines, clients: new_clients, names: new_names, damaged } = block;
        *bytes = text.left_out;
        lines.clear();
        damaged.clear();
        for (known, told) in [(&mut *clients, &mut *new_clients), (&mut *names, &mut *new_names)] {
            if known.len() > TEXTS_MAX || known.bytes() > TEXTS_BYTES_MAX {
                known.clear();
            }
            told.anew = known.len() == 0;
            told.texts.clear();
        }
        let record_bytes = format.record_bytes();
        let visited = lines::for_each(&mut text.bytes(), record_bytes, |step| {
            let Step::Line { bytes: read, text } = step else { return Ok(()) };
            *bytes += read;
            let stored = judged::read(format, options, text, |line| match line {
                Line::Entry(judged, texts) => {
                    join(name, &texts);
                    let client = number(clients, texts.client, new_clients);
                    Stored::Entry { judged, client, name: number(names, name, new_names) }
                }
                Line::NotSelected(logged) => Stored::NotSelected(logged),
                Line::Directive => Stored::Directive,
                Line::Malformed(reason, text) => {
                    if damaged.len() < MALFORMED_SHOWN_MAX {
                        damaged.push(&text[..text.len().min(DAMAGED_BYTES_MAX)]);
                    }
                    Stored::Malformed(reason)
                }
            });
            lines.push(stored);
            Ok(())
        });
        visited.expect("memory can be read");
    }
}

/// The parser's number of a text, which is told if it is new.
fn number(known: &mut Interner, text: &[u8], told: &mut Told) -> u32 {
    let before = known.len();
    let number = known.number(text).expect("texts are forgotten long before they are too many");
    if known.len() > before {
        told.texts.push(text);
    }
    number
}

/// The lengths of method and host behind a joined name.
const LENGTHS_BYTES: usize = 3;

/// Joins method, target and host into one text that can be split again.
fn join(name: &mut Vec<u8>, texts: &EntryTexts<'_>) {
    name.clear();
    for text in [texts.method, texts.target, texts.host] {
        name.extend_from_slice(text);
    }
    name.push(texts.method.len() as u8);
    name.extend_from_slice(&(texts.host.len() as u16).to_le_bytes());
}

/// Method, target and host of a joined name; `None` if the lengths are wrong.
fn split(name: &[u8]) -> Option<[&[u8]; 3]> {
    let (texts, lengths) = name.split_last_chunk::<LENGTHS_BYTES>()?;
    let (method, rest) = texts.split_at_checked(lengths[0].into())?;
    let host_bytes = usize::from(u16::from_le_bytes([lengths[1], lengths[2]]));
    let (target, host) = rest.split_at_checked(rest.len().checked_sub(host_bytes)?)?;
    Some([method, target, host])
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
    clients: Numbered<Option<u32>>,
    names: Numbered<NameNumbers>,
}

/// Texts by the parser's numbers, with what the collector has found for each.
#[derive(Default)]
struct Numbered<N> {
    texts: Texts,
    found: Vec<N>,
}

impl<N: Clone + Default> Numbered<N> {
    fn add(&mut self, told: &Told) {
        if told.anew {
            self.texts.clear();
            self.found.clear();
        }
        self.texts.append(&told.texts);
        self.found.resize(self.texts.len(), N::default());
    }
}

impl Seen {
    /// Calls `visit` with each line of the parser's next block, and with the numbers found before for its client and its
    /// name, to which it adds.
    pub fn replay(
        &mut self,
        block: &ParsedBlock,
        mut visit: impl FnMut(Line<'_>, &mut Option<u32>, &mut NameNumbers) -> Result<(), ImportError>,
    ) -> Result<(), ImportError> {
        let Seen { clients, names } = self;
        clients.add(&block.clients);
        names.add(&block.names);
        let mut damaged = block.damaged.iter();
        let (mut no_client, mut no_name) = (None, NameNumbers::default());
        block.lines.iter().try_for_each(|line| match *line {
            Stored::Entry { judged, client, name } => {
                let [method, target, host] = split(names.texts.get(name)).expect("it was joined");
                let texts = EntryTexts { client: clients.texts.get(client), method, target, host };
                let found = (&mut clients.found[client as usize], &mut names.found[name as usize]);
                visit(Line::Entry(judged, texts), found.0, found.1)
            }
            Stored::NotSelected(logged) => visit(Line::NotSelected(logged), &mut no_client, &mut no_name),
            Stored::Directive => visit(Line::Directive, &mut no_client, &mut no_name),
            Stored::Malformed(reason) => {
                let text = damaged.next().unwrap_or_default();
                visit(Line::Malformed(reason, text), &mut no_client, &mut no_name)
            }
        })
    }
}
