//! The bytes of parsed blocks that travel between machines: a *piece*, some successive blocks that need no others.
//!
//! | what | bytes |
//! |---|---|
//! | `SJB1` | 4 |
//! | each block, behind a 1: length of its text, clients, names, damaged lines, lines | |
//! | where reading failed, behind a 2: the kind of the error, its message | |
//! | the end: 0 | 1 |
//!
//! Integers are varints: seven bits a byte, the lowest first. Texts are their count and each its length and bytes; before
//! clients and names stands whether they begin anew. A line is a byte that says what it is and what follows; times are
//! differences to the previous line.

use std::convert::Infallible;
use std::io::{self, ErrorKind};

use super::packed::{Lines, Stored};
use super::{LENGTHS_BYTES, ParsedBlock, split};
use crate::import::class::Class;
use crate::import::entry::{DURATION_NS_MAX, Malformed, SIZE_BYTES_MAX};
use crate::import::interner::Texts;
use crate::import::judged::{Judged, Logged, METHODS};
use crate::import::names::METHOD_BYTES_MAX;
use crate::import::policy::{Reason, Verdict};
use crate::import::report::MALFORMED_SHOWN_MAX;
use crate::import::time::{NS_PER_SECOND, UNIX_SECONDS_MAX};
use crate::import::told_texts::Told;
use crate::limits::{HOST_BYTES_MAX, LINE_BYTES_MAX, MAP_BYTES_MAX};

const MAGIC: &[u8; 4] = b"SJB1";
const END: u8 = 0;
const BLOCK: u8 = 1;
const FAILURE: u8 = 2;

/// The longest text: a whole line whose backslashes are doubled, behind a mapping's prefix, between method and host.
const TEXT_BYTES_MAX: usize =
    METHOD_BYTES_MAX + 2 * LINE_BYTES_MAX + MAP_BYTES_MAX + HOST_BYTES_MAX + LENGTHS_BYTES;

/// The longest message of a failed read.
const MESSAGE_BYTES_MAX: usize = 4096;

/// Offsets of clocks from UTC are smaller.
const OFFSET_SECONDS_MAX: i64 = 86_400;

/// The first request may have begun so long before 1970.
const BEFORE_1970_NS_MAX: i64 = DURATION_NS_MAX + OFFSET_SECONDS_MAX * NS_PER_SECOND;

// What a line's first byte says.
const IS_ENTRY: u8 = 1 << 7;
const DIRECTIVE: u8 = 0;
const MALFORMED: u8 = 1;
const NOT_SELECTED: u8 = 2;
const HAS_SIZE: u8 = 1;
const HAS_DURATION: u8 = 1 << 1;
const HAS_UPSTREAM: u8 = 1 << 2;
const BEGAN_BEFORE: u8 = 1 << 3;
const OTHER_CLOCK: u8 = 1 << 4;
const ASSUMED_SIZE: u8 = 1 << 5;
const REDIRECTS_FORM: u8 = 1 << 6;

// The byte behind that of an entry: the place of its class, then that of its verdict.
const VERDICT_SHIFT: u8 = 3;
const WHOLE_SECONDS: u8 = 1 << 7;

/// Statuses are less.
const STATUSES: u64 = 1000;

/// The kinds of read errors whose hints differ; any other is the last.
const FAILURES: [ErrorKind; 5] = [
    ErrorKind::OutOfMemory,
    ErrorKind::UnexpectedEof,
    ErrorKind::InvalidInput,
    ErrorKind::InvalidData,
    ErrorKind::Other,
];

const MALFORMED_REASONS: [Malformed; 20] = [
    Malformed::TooLong,
    Malformed::Empty,
    Malformed::NoDate,
    Malformed::BadDate,
    Malformed::MissingField,
    Malformed::NoRequest,
    Malformed::NoStatusAndSize,
    Malformed::Separator,
    Malformed::BadTime,
    Malformed::BadStatus,
    Malformed::BadSize,
    Malformed::BadDuration,
    Malformed::BadPort,
    Malformed::LongHost,
    Malformed::BadTarget,
    Malformed::NotJson,
    Malformed::MissingValue,
    Malformed::BeforeFields,
    Malformed::NotARecord,
    Malformed::BadFields,
];

const VERDICTS: [Verdict; 9] = [
    Verdict::Sized,
    Verdict::ByName,
    Verdict::Failed,
    Verdict::Skip(Reason::WithoutTarget),
    Verdict::Skip(Reason::OtherMethod),
    Verdict::Skip(Reason::WithQuery),
    Verdict::Skip(Reason::Partial),
    Verdict::Skip(Reason::Failed),
    Verdict::Skip(Reason::WithoutSize),
];

/// The classes that a line alone decides; `None` is the last.
const CLASSES: [Option<Class>; 8] = [
    Some(Class::Covered),
    Some(Class::Query),
    Some(Class::Method),
    Some(Class::Failed),
    Some(Class::Redirected),
    Some(Class::Partial),
    Some(Class::WithoutSize),
    None,
];

/// What the previous line of a piece said, from which the next one differs little.
#[derive(Clone, Copy, Default)]
struct Previous {
    unix_ns: i64,
    utc_offset_seconds: i32,
    resolution_ns: i64,
}

/// A piece that is made, from blocks of one parser that began anew before the first.
pub struct Piece {
    bytes: Vec<u8>,
    previous: Previous,
}

impl Default for Piece {
    fn default() -> Self {
        Piece { bytes: MAGIC.to_vec(), previous: Previous::default() }
    }
}

impl Piece {
    pub fn push(&mut self, block: &ParsedBlock) {
        let Piece { bytes, previous } = self;
        bytes.push(BLOCK);
        unsigned(bytes, block.bytes);
        for told in [&block.clients, &block.names] {
            bytes.push(told.anew.into());
            texts(bytes, &told.texts);
        }
        texts(bytes, &block.damaged);
        unsigned(bytes, block.lines.len() as u64);
        let Ok(()) = block.lines.try_for_each(|stored, _| -> Result<(), Infallible> {
            line(bytes, previous, stored);
            Ok(())
        });
    }

    /// The bytes; of a read that failed behind the blocks, with its error.
    pub fn finish(self, failure: Option<&io::Error>) -> Vec<u8> {
        let mut bytes = self.bytes;
        match failure {
            None => bytes.push(END),
            Some(error) => {
                let kind = FAILURES.iter().position(|kind| *kind == error.kind());
                bytes.extend_from_slice(&[FAILURE, kind.unwrap_or(FAILURES.len() - 1) as u8]);
                let message = error.to_string();
                text(&mut bytes, &message.as_bytes()[..message.len().min(MESSAGE_BYTES_MAX)]);
            }
        }
        bytes
    }
}

fn unsigned(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Small numbers of either sign become small ones without.
fn signed(bytes: &mut Vec<u8>, number: i64) {
    unsigned(bytes, ((number << 1) ^ (number >> 63)) as u64);
}

fn text(bytes: &mut Vec<u8>, text: &[u8]) {
    unsigned(bytes, text.len() as u64);
    bytes.extend_from_slice(text);
}

fn texts(bytes: &mut Vec<u8>, texts: &Texts) {
    unsigned(bytes, texts.len() as u64);
    texts.iter().for_each(|each| text(bytes, each));
}

fn place<T: PartialEq>(table: &[T], value: &T) -> u8 {
    table.iter().position(|each| each == value).expect("the table has all values") as u8
}

fn line(bytes: &mut Vec<u8>, previous: &mut Previous, stored: Stored<'_>) {
    match stored {
        Stored::Directive => bytes.push(DIRECTIVE),
        Stored::Malformed(reason) => {
            bytes.extend_from_slice(&[MALFORMED, place(&MALFORMED_REASONS, &reason)])
        }
        Stored::NotSelected(Logged { unix_ns, utc_offset_seconds }) => {
            bytes.push(NOT_SELECTED);
            signed(bytes, unix_ns - previous.unix_ns);
            signed(bytes, utc_offset_seconds.into());
            previous.unix_ns = unix_ns;
        }
        Stored::Entry { judged, client, name } => entry(bytes, previous, judged, [client, name]),
    }
}

fn entry(bytes: &mut Vec<u8>, previous: &mut Previous, judged: &Judged, texts: [u32; 2]) {
    let Judged { logged, unix_ns, resolution_ns, status, method, .. } = *judged;
    let clock = (logged.utc_offset_seconds, resolution_ns);
    let has_other_clock = clock != (previous.utc_offset_seconds, previous.resolution_ns);
    let flags = [
        (HAS_SIZE, judged.size_bytes.is_some()),
        (HAS_DURATION, judged.duration_ns.is_some()),
        (HAS_UPSTREAM, judged.upstream_ns.is_some()),
        (BEGAN_BEFORE, unix_ns < logged.unix_ns),
        (OTHER_CLOCK, has_other_clock),
        (ASSUMED_SIZE, judged.size_is_assumed),
        (REDIRECTS_FORM, judged.redirects_form),
    ];
    bytes.push(flags.iter().filter(|(_, is_set)| *is_set).fold(IS_ENTRY, |all, (flag, _)| all | flag));
    let later_ns = unix_ns - previous.unix_ns;
    let (whole, later) = match later_ns % NS_PER_SECOND {
        0 => (WHOLE_SECONDS, later_ns / NS_PER_SECOND),
        _ => (0, later_ns),
    };
    let verdict = place(&VERDICTS, &judged.verdict) << VERDICT_SHIFT;
    bytes.push(place(&CLASSES, &judged.class) | verdict | whole);
    signed(bytes, later);
    if unix_ns < logged.unix_ns {
        unsigned(bytes, (logged.unix_ns - unix_ns) as u64);
    }
    if has_other_clock {
        signed(bytes, logged.utc_offset_seconds.into());
        unsigned(bytes, resolution_ns as u64);
    }
    unsigned(bytes, u64::from(method) * STATUSES + u64::from(status));
    for number in
        [judged.size_bytes, judged.duration_ns.map(|ns| ns as u64), judged.upstream_ns.map(|ns| ns as u64)]
            .into_iter()
            .flatten()
    {
        unsigned(bytes, number);
    }
    texts.iter().for_each(|number| unsigned(bytes, (*number).into()));
    *previous = Previous { unix_ns, utc_offset_seconds: logged.utc_offset_seconds, resolution_ns };
}

/// Reads the blocks of a piece, whose parser began anew before it.
pub struct Decoder<'p> {
    rest: &'p [u8],
    previous: Previous,
    /// The texts told so far.
    clients: usize,
    names: usize,
}

/// What follows in a piece.
#[derive(Debug)]
pub enum Decoded {
    Block,
    /// Reading the log failed here.
    Failure(io::Error),
    End,
}

impl<'p> Decoder<'p> {
    pub fn new(piece: &'p [u8]) -> io::Result<Self> {
        let rest = piece.strip_prefix(MAGIC).ok_or_else(|| damaged("it does not begin with SJB1"))?;
        Ok(Decoder { rest, previous: Previous::default(), clients: 0, names: 0 })
    }

    /// Reads what follows; a block into `block`.
    pub fn next(&mut self, block: &mut ParsedBlock) -> io::Result<Decoded> {
        match self.byte()? {
            END if self.rest.is_empty() => Ok(Decoded::End),
            END => Err(damaged("bytes follow its end")),
            BLOCK => self.block(block).map(|()| Decoded::Block),
            FAILURE => {
                let kind =
                    *FAILURES.get(usize::from(self.byte()?)).ok_or_else(|| damaged("no such failure"))?;
                let message = String::from_utf8_lossy(self.text(MESSAGE_BYTES_MAX)?).into_owned();
                Ok(Decoded::Failure(io::Error::new(kind, message)))
            }
            _ => Err(damaged("neither a block nor its end")),
        }
    }

    fn block(&mut self, block: &mut ParsedBlock) -> io::Result<()> {
        let ParsedBlock { bytes, lines, clients, names, damaged: shown } = block;
        *bytes = self.unsigned(u64::MAX)?;
        self.clients = self.told(clients, self.clients)?;
        self.names = self.told(names, self.names)?;
        if names.texts.iter().any(|name| split(name).is_none_or(|name| name.method.len() > METHOD_BYTES_MAX))
        {
            return Err(damaged("a name has no such parts"));
        }
        self.texts(shown, MALFORMED_SHOWN_MAX)?;
        lines.clear();
        for _ in 0..self.unsigned(u64::MAX)? {
            self.line(lines)?;
        }
        Ok(())
    }

    /// Reads texts behind `known` earlier ones; the number of all.
    fn told(&mut self, told: &mut Told, known: usize) -> io::Result<usize> {
        told.anew = match self.byte()? {
            0 => false,
            1 => true,
            _ => return Err(damaged("texts that neither go on nor begin anew")),
        };
        self.texts(&mut told.texts, u32::MAX as usize)?;
        Ok(if told.anew { told.texts.len() } else { known + told.texts.len() })
    }

    fn texts(&mut self, texts: &mut Texts, count_max: usize) -> io::Result<()> {
        texts.clear();
        for _ in 0..self.unsigned(count_max as u64)? {
            if texts.bytes() > u32::MAX as usize - TEXT_BYTES_MAX {
                return Err(damaged("longer texts than it can have"));
            }
            texts.push(self.text(TEXT_BYTES_MAX)?);
        }
        Ok(())
    }

    fn line(&mut self, lines: &mut Lines) -> io::Result<()> {
        lines.push(match self.byte()? {
            DIRECTIVE => Stored::Directive,
            MALFORMED => {
                let reason = MALFORMED_REASONS.get(usize::from(self.byte()?));
                Stored::Malformed(*reason.ok_or_else(|| damaged("no such reason"))?)
            }
            NOT_SELECTED => {
                let unix_ns = self.time(1)?;
                Stored::NotSelected(Logged { unix_ns, utc_offset_seconds: self.offset()? })
            }
            flags if flags & IS_ENTRY != 0 => {
                let judged = &self.entry(flags)?;
                let client = self.number(self.clients)?;
                lines.push(Stored::Entry { judged, client, name: self.number(self.names)? });
                return Ok(());
            }
            _ => return Err(damaged("no such line")),
        });
        Ok(())
    }

    fn entry(&mut self, flags: u8) -> io::Result<Judged> {
        let has = |flag| flags & flag != 0;
        let kinds = self.byte()?;
        let class = CLASSES[usize::from(kinds & ((1 << VERDICT_SHIFT) - 1))];
        let verdict = VERDICTS.get(usize::from((kinds & !WHOLE_SECONDS) >> VERDICT_SHIFT));
        let verdict = *verdict.ok_or_else(|| damaged("no such verdict"))?;
        let unix_ns = self.time(if kinds & WHOLE_SECONDS != 0 { NS_PER_SECOND } else { 1 })?;
        let before_ns = if has(BEGAN_BEFORE) { self.duration()? } else { 0 };
        if has(OTHER_CLOCK) {
            self.previous.utc_offset_seconds = self.offset()?;
            self.previous.resolution_ns = self.duration()?;
        }
        let Previous { utc_offset_seconds, resolution_ns, .. } = self.previous;
        if resolution_ns == 0 {
            return Err(damaged("a time without a resolution"));
        }
        let kind = self.unsigned(METHODS.len() as u64 * STATUSES + STATUSES - 1)?;
        Ok(Judged {
            logged: Logged { unix_ns: unix_ns + before_ns, utc_offset_seconds },
            unix_ns,
            resolution_ns,
            method: (kind / STATUSES) as u8,
            status: (kind % STATUSES) as u16,
            size_bytes: has(HAS_SIZE).then(|| self.unsigned(SIZE_BYTES_MAX)).transpose()?,
            duration_ns: has(HAS_DURATION).then(|| self.duration()).transpose()?,
            upstream_ns: has(HAS_UPSTREAM).then(|| self.duration()).transpose()?,
            size_is_assumed: has(ASSUMED_SIZE),
            class,
            verdict,
            redirects_form: has(REDIRECTS_FORM),
        })
    }

    /// The number of one of so many texts.
    fn number(&mut self, count: usize) -> io::Result<u32> {
        let last = count.checked_sub(1).ok_or_else(|| damaged("a line without texts"))?;
        Ok(self.unsigned((last as u64).min(u32::MAX.into()))? as u32)
    }

    /// A time, as a difference in a unit.
    fn time(&mut self, unit_ns: i64) -> io::Result<i64> {
        let later = self.signed()?.checked_mul(unit_ns);
        let unix_ns = later.and_then(|later| self.previous.unix_ns.checked_add(later));
        let unix_ns =
            unix_ns.filter(|ns| (-BEFORE_1970_NS_MAX..=UNIX_SECONDS_MAX * NS_PER_SECOND).contains(ns));
        self.previous.unix_ns = unix_ns.ok_or_else(|| damaged("a time that no log has"))?;
        Ok(self.previous.unix_ns)
    }

    fn offset(&mut self) -> io::Result<i32> {
        let seconds = self.signed()?;
        let is_possible = (-OFFSET_SECONDS_MAX..OFFSET_SECONDS_MAX).contains(&seconds);
        if is_possible { Ok(seconds as i32) } else { Err(damaged("a clock that far from UTC")) }
    }

    fn duration(&mut self) -> io::Result<i64> {
        self.unsigned(DURATION_NS_MAX as u64).map(|ns| ns as i64)
    }

    fn signed(&mut self) -> io::Result<i64> {
        let number = self.unsigned(u64::MAX)?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    fn unsigned(&mut self, most: u64) -> io::Result<u64> {
        let mut number = 0_u64;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            number |= bits << shift;
            if number >> shift != bits || (byte == 0 && shift > 0) {
                break; // beyond 64 bits, or longer than it need be
            }
            if byte < 0x80 {
                return if number <= most { Ok(number) } else { Err(damaged("a number beyond its limit")) };
            }
        }
        Err(damaged("a number that is none"))
    }

    fn text(&mut self, bytes_max: usize) -> io::Result<&'p [u8]> {
        let length = self.unsigned(bytes_max as u64)? as usize;
        let (text, rest) = self.rest.split_at_checked(length).ok_or_else(cut)?;
        self.rest = rest;
        Ok(text)
    }

    fn byte(&mut self) -> io::Result<u8> {
        let (byte, rest) = self.rest.split_first().ok_or_else(cut)?;
        self.rest = rest;
        Ok(*byte)
    }
}

fn cut() -> io::Error {
    damaged("it ends too early")
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("a parsed piece of the log is damaged: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::format::Format;
    use crate::import::interner::Interner;
    use crate::import::judged::{self, EntryTexts, Line};
    use crate::import::parse_ahead::BlockParser;
    use crate::import::parsed_block::{NameNumbers, Parser, Seen};
    use crate::import::text_blocks::{TextBlock, TextReader};
    use crate::import::{Keep, Options, Selection, selection};

    /// The blocks of a log, its text a line a block.
    fn blocks(format: &str, options: Options, log: &str) -> Vec<ParsedBlock> {
        let mut parser = Parser::new(Format::new(format, &[]).unwrap(), options);
        log.split_inclusive('\n')
            .map(|line| {
                let (mut text, mut block) = (TextBlock::default(), ParsedBlock::default());
                let mut reader = TextReader::new(line.as_bytes(), None, None, None);
                assert!(reader.next(&mut text).unwrap());
                parser.parse(&text, &mut block);
                block
            })
            .collect()
    }

    fn piece(blocks: &[ParsedBlock], failure: Option<&io::Error>) -> Vec<u8> {
        let mut piece = Piece::default();
        blocks.iter().for_each(|block| piece.push(block));
        piece.finish(failure)
    }

    fn decoded(piece: &[u8]) -> io::Result<(Vec<ParsedBlock>, Option<io::Error>)> {
        let mut decoder = Decoder::new(piece)?;
        let mut blocks = Vec::new();
        loop {
            let mut block = ParsedBlock::default();
            match decoder.next(&mut block)? {
                Decoded::Block => blocks.push(block),
                Decoded::Failure(failure) => return Ok((blocks, Some(failure))),
                Decoded::End => return Ok((blocks, None)),
            }
        }
    }

    const LOG: &str = concat!(
        "a - - [10/Oct/2000:12:00:00 +0000] \"GET / HTTP/1.0\" 200 5\n",
        "b - - [10/Oct/2000:12:00:01 -0700] \"GET /x?y HTTP/1.0\" 304 -\n",
        "a - - [10/Oct/2000:11:00:01 -0700] \"HEAD http://h:81/ HTTP/1.0\" 200 1099511627776\n",
        "damaged\n",
        "\n",
        "c - - [31/Dec/2115:23:59:60 -1800] \"POST /form HTTP/1.0\" 302 0\n",
        "c - - [01/Jan/1970:00:00:00 +1800] \"-\" 408 -\n",
        "left.out - - [10/Oct/2000:12:00:01 +0000] \"GET / HTTP/1.0\" 200 5\n",
    );

    fn options() -> Options {
        let keep = Keep { failed: true, with_query: true, as_get: true };
        let clients = ["a", "b", "c"].map(|client| selection::Pattern::new(client).unwrap());
        Options {
            keep,
            selection: Selection { clients: clients.into(), ..Selection::default() },
            ..Options::default()
        }
    }

    #[test]
    fn blocks_come_back_as_they_were() {
        let common = blocks("common", options(), LOG);
        let timed = r#"%a [%{msec}t] "%r" %>s %B %D"#;
        let timed = blocks(
            timed,
            Options::default(),
            "a [10] \"GET / HTTP/1.0\" 200 5 1500\nb [1234] \"GET / HTTP/1.0\" 200 5 0\n",
        );
        let w3c =
            blocks("w3c", Options::default(), "#Fields: date time c-ip cs-method cs-uri-stem sc-status\n#\n");
        for blocks in [common, timed, w3c] {
            assert_eq!(decoded(&piece(&blocks, None)).unwrap().0, blocks);
        }
        let failure = io::Error::new(ErrorKind::UnexpectedEof, "cut \u{2013} off");
        let (none, failed) = decoded(&piece(&[], Some(&failure))).unwrap();
        let failed = failed.unwrap();
        assert_eq!(
            (none.len(), failed.kind(), failed.to_string()),
            (0, ErrorKind::UnexpectedEof, failure.to_string())
        );
    }

    fn said(line: &Line<'_, impl EntryTexts>) -> String {
        match line {
            Line::Entry(judged, texts) => format!("{judged:?} {:?} {:?}", texts.client(), texts.name()),
            Line::NotSelected(logged) => format!("{logged:?}"),
            Line::Directive => "directive".into(),
            Line::Malformed(reason, text) => format!("{reason:?} {text:?}"),
        }
    }

    #[test]
    fn replayed_lines_are_those_of_the_log() {
        let blocks = blocks("common", options(), LOG);
        let (mut seen, mut replayed) = (Seen::default(), Vec::new());
        for block in decoded(&piece(&blocks, None)).unwrap().0 {
            seen.hear(&block, &Interner::default(), &Interner::default());
            let visited = seen.replay(&block, |line, client, name| {
                replayed.push(format!("{} {client:?} {:?}", said(&line), name.name));
                if let Line::Entry(..) = line {
                    (*client, *name) = (Some(7), NameNumbers { name: Some(8), path: None });
                }
                Ok(())
            });
            visited.unwrap();
        }
        let mut format = Format::new("common", &[]).unwrap();
        for (line, replayed) in LOG.lines().zip(&replayed) {
            judged::read(&mut format, &options(), line.as_bytes(), |line| {
                let line = said(&line);
                assert!(replayed.starts_with(&format!("{line} ")), "{replayed} is not {line}");
            });
        }
        assert!(replayed[2].ends_with("Some(7) None"), "the client was told before: {}", replayed[2]);
    }

    #[test]
    fn no_damage_panics() {
        let piece = piece(&blocks("common", options(), LOG), None);
        for place in 0..piece.len() {
            assert!(decoded(&piece[..place]).is_err(), "cut after {place} bytes");
            for bit in 0..8 {
                let mut damaged = piece.clone();
                damaged[place] ^= 1 << bit;
                if let Ok((blocks, None)) = decoded(&damaged) {
                    let mut seen = Seen::default();
                    for block in &blocks {
                        seen.hear(block, &Interner::default(), &Interner::default());
                        seen.replay(block, |_, _, _| Ok(())).unwrap();
                    }
                }
            }
        }
    }
}
