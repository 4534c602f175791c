//! A compiled format: alternating literal text and fields, matched in one pass without backtracking.
//!
//! A field ends where the next literal starts. Within quotes an escaped quote ends nothing; in a log of columns any run
//! of blanks is one separator. Text after the last relevant field is ignored, so that extended formats can be read,
//! too.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

use super::entry::Malformed;
use super::fields::{Draft, Field};

/// The most parts of a format.
pub const PARTS_MAX: usize = 256;

/// Literals and fields in the order of the line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    steps: Vec<Step>,
}

/// A field and the text around it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    before: Before,
    field: Field,
    end: End,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Before {
    Text(Box<[u8]>),
    Blanks,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    Width(usize),
    At(Box<[u8]>),
    /// As above, but not where an odd number of backslashes precedes the quote.
    Unescaped(Box<[u8]>),
    /// Ends at the next blank or the end of the line; a field that starts with a quote ends at the closing quote.
    Blank,
    /// Ends at the next blank that is not between values, or at the end of the line.
    List,
    Line,
}

/// A part of a format, as the compilers produce it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Literal text.
    Literal(Vec<u8>),
    Field(Field),
    /// Values of several servers, as nginx writes them: `0.010, 0.200 : 0.005`.
    List(Field),
    Fixed(Field, usize),
}

impl Template {
    /// Builds a template from parts in order, merging adjacent literals. `None` if nothing separates two adjacent
    /// fields.
    pub fn new(parts: &[Part]) -> Option<Self> {
        let mut steps = Vec::new();
        let mut before = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            let (field, end) = match part {
                Part::Literal(text) => {
                    before.extend_from_slice(text);
                    continue;
                }
                Part::Fixed(field, width) => (*field, End::Width(*width)),
                Part::Field(field) => (*field, end_of(*field, &before, &parts[index + 1..])?),
                Part::List(field) => {
                    let end = end_of(*field, &before, &parts[index + 1..])?;
                    let is_bare = matches!(&end, End::At(text) if text[..] == *b" ") || end == End::Blank;
                    (*field, if is_bare { End::List } else { end })
                }
            };
            steps.push(Step { before: Before::Text(std::mem::take(&mut before).into()), field, end });
        }
        Some(Template { steps }.trimmed())
    }

    pub fn columns(fields: impl IntoIterator<Item = Field>) -> Self {
        let step = |(index, field)| {
            let before = if index == 0 { Before::Text(Box::default()) } else { Before::Blanks };
            Step { before, field, end: End::Blank }
        };
        Template { steps: fields.into_iter().enumerate().map(step).collect() }.trimmed()
    }

    /// Drops everything after the last relevant field.
    fn trimmed(mut self) -> Self {
        let needed = self.steps.iter().rposition(|step| step.field != Field::Ignored);
        self.steps.truncate(needed.map_or(0, |last| last + 1));
        self
    }

    /// The relevant fields in order.
    pub fn fields(&self) -> impl Iterator<Item = Field> {
        self.steps.iter().map(|step| step.field)
    }

    /// Parses a line into a draft.
    pub fn fill<'a>(&self, draft: &mut Draft<'a>, line: &'a [u8]) -> Result<(), Malformed> {
        let mut rest = line;
        for step in &self.steps {
            rest = match &step.before {
                Before::Text(text) => after(text, rest).ok_or(Malformed::Separator)?,
                Before::Blanks => after_blanks(rest)?,
            };
            let text;
            (text, rest) = step.end.split(rest).ok_or(Malformed::Separator)?;
            if step.field != Field::Ignored {
                draft.set(step.field, Cow::Borrowed(text))?;
            }
        }
        Ok(())
    }
}

/// Determines how a field between `before` and `rest` ends.
fn end_of(field: Field, before: &[u8], rest: &[Part]) -> Option<End> {
    let mut text = Vec::new();
    for part in rest {
        match part {
            Part::Literal(more) => text.extend_from_slice(more),
            _ => break,
        }
    }
    if text.is_empty() {
        let last = if field == Field::Request { End::Line } else { End::Blank };
        return rest.is_empty().then_some(last);
    }
    let quoted = before.last() == Some(&b'"') && text.first() == Some(&b'"');
    Some(if quoted { End::Unescaped(text.into()) } else { End::At(text.into()) })
}

impl End {
    /// Splits the field from the text after it.
    fn split<'a>(&self, rest: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        let length = match self {
            End::Width(width) => *width,
            End::At(text) => positions(rest, text).next()?,
            End::Unescaped(text) => positions(rest, text).find(|&at| !is_escaped(&rest[..at]))?,
            End::Blank => match rest.strip_prefix(b"\"") {
                // W3C, "Extended Log File Format": a string is quoted, and a quote within it is doubled.
                Some(string) => return split_string(string),
                None => memchr2(b' ', b'\t', rest).unwrap_or(rest.len()),
            },
            End::List => {
                let mut blanks = memchr::memchr2_iter(b' ', b'\t', rest);
                blanks.find(|&at| !is_between_values(rest, at)).unwrap_or(rest.len())
            }
            End::Line => rest.len(),
        };
        rest.split_at_checked(length)
    }
}

/// The rest after `text`, which is a byte or two: comparing them here is cheaper than a call.
fn after<'a>(text: &[u8], rest: &'a [u8]) -> Option<&'a [u8]> {
    let (head, rest) = rest.split_at_checked(text.len())?;
    head.iter().eq(text).then_some(rest)
}

/// Positions of `text` in `rest`, in order.
fn positions(rest: &[u8], text: &[u8]) -> impl Iterator<Item = usize> {
    memchr::memchr_iter(text[0], rest).filter(move |&at| after(text, &rest[at..]).is_some())
}

fn is_escaped(before: &[u8]) -> bool {
    before.iter().rev().take_while(|&&byte| byte == b'\\').count() % 2 == 1
}

/// Returns true if the blank at `at` is one within `, ` or ` : `.
fn is_between_values(list: &[u8], at: usize) -> bool {
    let before = &list[..at];
    before.ends_with(b",") || before.ends_with(b" :") || list[at..].starts_with(b" : ")
}

fn split_string(string: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut from = 0;
    loop {
        let quote = from + memchr(b'"', &string[from..])?;
        match string.get(quote + 1) {
            Some(b'"') => from = quote + 2,
            _ => return Some((&string[..quote], &string[quote + 1..])),
        }
    }
}

fn after_blanks(rest: &[u8]) -> Result<&[u8], Malformed> {
    let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    if blanks > 0 && blanks < rest.len() { Ok(&rest[blanks..]) } else { Err(Malformed::Separator) }
}
