//! Reads and parses a log ahead of its collector, on other threads.
//!
//! One thread reads and decompresses, cuts the bytes into lines or records, and fills blocks with them. Other threads
//! parse the blocks. The caller's thread gets every entry in the log's order, so what it collects does not depend on the
//! number of threads. A fixed number of blocks circulates: memory does not grow with the log.
//!
//! The threads that parse also number the distinct clients and names of a block. So the caller looks each of them up once a
//! block, in tables that may be larger than a processor's cache.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::io::BufRead;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::ImportError;
use super::entry::{Entry, Malformed};
use super::format::Format;
use super::lines::{self, Step};

/// The most threads that parse one log.
pub const PARSERS_MAX: usize = 16;
/// The text of a block; a block ends with the line that reaches it.
const BLOCK_BYTES: usize = 256 << 10;
/// Blocks in circulation for each thread: one at work, one waiting to be parsed, one parsed.
const BLOCKS_PER_THREAD: usize = 3;
/// How long the caller waits before it is told that nothing has come, so that it can look for a signal.
const WAIT: Duration = Duration::from_millis(100);

/// What the caller is given.
#[expect(clippy::large_enum_variant, reason = "there is one at a time, on the stack")]
pub enum Parsed<'b> {
    Line {
        /// The length as read, including the line feed.
        bytes: u64,
        text: &'b [u8],
        entry: Result<Option<Entry<'b>>, Malformed>,
        numbers: &'b mut Numbers,
    },
    /// A signal interrupted a read, or nothing has come for a while.
    Interrupted,
}

/// The numbers that the caller found for texts of an entry, for later entries with the same texts; none for a text that it
/// has not looked up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Numbers {
    pub client: Option<u32>,
    /// Of target and host together, with a path alone beside it.
    pub name: Option<u32>,
    pub path: Option<u32>,
}

/// Calls `visit` with every line of `reader` in its order, parsed by `parsers` other threads.
pub fn for_each(
    mut reader: impl BufRead + Send,
    format: &Format,
    parsers: usize,
    mut visit: impl FnMut(Parsed<'_>) -> Result<(), ImportError>,
) -> Result<(), ImportError> {
    let blocks = BLOCKS_PER_THREAD * (parsers + 1);
    let (give_back, empty) = mpsc::sync_channel(blocks);
    for _ in 0..blocks {
        give_back.send(Block::default()).expect("the channel has room for all blocks");
    }
    let (fill, filled) = mpsc::sync_channel(blocks);
    let (parse, parsed) = mpsc::sync_channel(blocks);
    let filled = Mutex::new(filled);
    // Each thread ends when the one before it or the one behind it does, whatever the reason.
    thread::scope(|scope| {
        let ending = scope.spawn(move || read(&mut reader, format, &empty, fill));
        for _ in 0..parsers {
            let (parse, filled) = (parse.clone(), &filled);
            let format = format.clone();
            scope.spawn(move || parse_blocks(format, filled, &parse));
        }
        drop(parse);
        let visited = in_order(&parsed, &give_back, &mut visit);
        drop((parsed, give_back));
        let read = ending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        visited.and(read)
    })
}

/// Fills blocks until the end of the log; an error comes after the lines before it.
fn read(
    reader: &mut impl BufRead,
    format: &Format,
    empty: &Receiver<Block>,
    fill: SyncSender<(u64, Block)>,
) -> Result<(), ImportError> {
    let mut number = 0;
    let mut block: Option<Block> = None;
    let mut send = |block: Block| {
        number += 1;
        fill.send((number - 1, block)).map_err(|_| ImportError::Stopped)
    };
    let read = lines::for_each(reader, format.record_bytes(), |step| {
        // A signal is looked for by the caller, who waits.
        let Step::Line { bytes, text } = step else { return Ok(()) };
        let filling = match &mut block {
            Some(filling) => filling,
            none => none.insert(empty.recv().map_err(|_| ImportError::Stopped)?),
        };
        filling.push(bytes, text);
        if filling.text.len() < BLOCK_BYTES { Ok(()) } else { send(block.take().expect("it was filled")) }
    });
    match block {
        Some(last) => send(last).and(read),
        None => read,
    }
}

fn parse_blocks(
    mut format: Format,
    filled: &Mutex<Receiver<(u64, Block)>>,
    parse: &SyncSender<(u64, Block)>,
) {
    loop {
        let next = filled.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((number, mut block)) = next else { return };
        block.parse(&mut format);
        if parse.send((number, block)).is_err() {
            return;
        }
    }
}

/// Visits the lines of all blocks in the order in which they were filled.
fn in_order(
    parsed: &Receiver<(u64, Block)>,
    give_back: &SyncSender<Block>,
    visit: &mut impl FnMut(Parsed<'_>) -> Result<(), ImportError>,
) -> Result<(), ImportError> {
    let mut waiting = BTreeMap::new();
    let mut number = 0;
    loop {
        match parsed.recv_timeout(WAIT) {
            Ok((place, block)) => drop(waiting.insert(place, block)),
            Err(RecvTimeoutError::Timeout) => visit(Parsed::Interrupted)?,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        while let Some(mut block) = waiting.remove(&number) {
            block.visit(visit)?;
            block.clear();
            number += 1;
            // The reader may have ended.
            let _ = give_back.send(block);
        }
    }
}

/// Lines, and what they say once they are parsed.
#[derive(Default)]
struct Block {
    text: Vec<u8>,
    lines: Vec<Line>,
    parsed: Vec<Result<Option<Fields>, Malformed>>,
    /// Texts that are not in the lines as they are.
    decoded: Vec<u8>,
    clients: Distinct,
    names: Distinct,
}

/// The distinct texts of a block, and the numbers that the caller has found for each.
#[derive(Default)]
struct Distinct {
    table: HashTable<u32>,
    texts: Vec<[Span; 2]>,
    numbers: Vec<Numbers>,
    hasher: DefaultHashBuilder,
}

struct Line {
    /// The length as read.
    bytes: u64,
    end: usize,
}

/// An entry whose texts lie in a block.
struct Fields {
    client: Span,
    host: Span,
    method: Span,
    target: Span,
    unix_ns: i64,
    logged_unix_ns: i64,
    resolution_ns: i64,
    utc_offset_seconds: i32,
    duration_ns: Option<i64>,
    upstream_ns: Option<i64>,
    status: u16,
    size_bytes: Option<u64>,
    /// The places of client and name among the block's distinct ones; a name has one if the method is GET or HEAD, which do not
    /// change it.
    client_place: usize,
    name_place: Option<usize>,
}

/// A text in a block's lines, or among its decoded texts.
#[derive(Clone, Copy)]
struct Span {
    begin: usize,
    end: usize,
    is_decoded: bool,
}

impl Block {
    fn push(&mut self, bytes: u64, text: &[u8]) {
        self.text.extend_from_slice(text);
        self.lines.push(Line { bytes, end: self.text.len() });
    }

    fn clear(&mut self) {
        self.text.clear();
        self.lines.clear();
        self.parsed.clear();
        self.decoded.clear();
        self.clients.clear();
        self.names.clear();
    }

    fn parse(&mut self, format: &mut Format) {
        let Block { text, lines, parsed, decoded, clients, names } = self;
        let mut start = 0;
        for line in lines.iter() {
            let entry = format.read(&text[start..line.end]);
            let fields = entry.map(|entry| {
                entry.map(|entry| {
                    let mut fields = Fields::of(&entry, text, decoded);
                    fields.client_place = clients.place([fields.client, Span::EMPTY], text, decoded);
                    if matches!(&*entry.method, b"GET" | b"HEAD") {
                        fields.name_place = Some(names.place([fields.target, fields.host], text, decoded));
                    }
                    fields
                })
            });
            parsed.push(fields);
            start = line.end;
        }
    }

    fn visit(
        &mut self,
        visit: &mut impl FnMut(Parsed<'_>) -> Result<(), ImportError>,
    ) -> Result<(), ImportError> {
        let Block { text, lines, parsed, decoded, clients, names } = self;
        let mut start = 0;
        for (line, parsed) in lines.iter().zip(&*parsed) {
            let mut numbers = Numbers::default();
            let entry = match parsed {
                Ok(fields) => {
                    if let Some(fields) = fields {
                        numbers.client = clients.numbers[fields.client_place].client;
                        let Numbers { name, path, .. } =
                            fields.name_place.map_or(numbers, |place| names.numbers[place]);
                        (numbers.name, numbers.path) = (name, path);
                    }
                    Ok(fields.as_ref().map(|fields| fields.entry(text, decoded)))
                }
                Err(malformed) => Err(*malformed),
            };
            let text = &text[start..line.end];
            visit(Parsed::Line { bytes: line.bytes, text, entry, numbers: &mut numbers })?;
            if let Ok(Some(fields)) = parsed {
                clients.numbers[fields.client_place] = numbers;
                if let Some(place) = fields.name_place {
                    names.numbers[place] = numbers;
                }
            }
            start = line.end;
        }
        Ok(())
    }
}

impl Distinct {
    fn clear(&mut self) {
        self.table.clear();
        self.texts.clear();
        self.numbers.clear();
    }

    /// The place of two texts together.
    fn place(&mut self, texts: [Span; 2], text: &[u8], decoded: &[u8]) -> usize {
        let of = |texts: &[Span; 2]| texts.map(|span| span.of_block(text, decoded));
        let Distinct { table, texts: all, numbers, hasher } = self;
        let key = of(&texts);
        let hash = hasher.hash_one(key);
        if let Some(&place) = table.find(hash, |&place| of(&all[place as usize]) == key) {
            return place as usize;
        }
        let place = all.len();
        all.push(texts);
        numbers.push(Numbers::default());
        table.insert_unique(hash, place as u32, |&other| hasher.hash_one(of(&all[other as usize])));
        place
    }
}

impl Fields {
    fn of(entry: &Entry<'_>, text: &[u8], decoded: &mut Vec<u8>) -> Self {
        let mut span = |part: &[u8]| Span::of(part, text, decoded);
        Fields {
            client: span(&entry.client),
            host: span(&entry.host),
            method: span(&entry.method),
            target: span(&entry.target),
            unix_ns: entry.unix_ns,
            logged_unix_ns: entry.logged_unix_ns,
            resolution_ns: entry.resolution_ns,
            utc_offset_seconds: entry.utc_offset_seconds,
            duration_ns: entry.duration_ns,
            upstream_ns: entry.upstream_ns,
            status: entry.status,
            size_bytes: entry.size_bytes,
            client_place: 0,
            name_place: None,
        }
    }

    fn entry<'b>(&self, text: &'b [u8], decoded: &'b [u8]) -> Entry<'b> {
        let of = |span: Span| Cow::Borrowed(span.of_block(text, decoded));
        Entry {
            client: of(self.client),
            unix_ns: self.unix_ns,
            logged_unix_ns: self.logged_unix_ns,
            resolution_ns: self.resolution_ns,
            utc_offset_seconds: self.utc_offset_seconds,
            duration_ns: self.duration_ns,
            upstream_ns: self.upstream_ns,
            host: of(self.host),
            method: of(self.method),
            target: of(self.target),
            status: self.status,
            size_bytes: self.size_bytes,
        }
    }
}

impl Span {
    const EMPTY: Span = Span { begin: 0, end: 0, is_decoded: false };

    fn of_block<'b>(self, text: &'b [u8], decoded: &'b [u8]) -> &'b [u8] {
        let texts = if self.is_decoded { decoded } else { text };
        &texts[self.begin..self.end]
    }

    fn of(part: &[u8], text: &[u8], decoded: &mut Vec<u8>) -> Self {
        // A part of the text lies at its addresses; one that was decoded or is a constant does not.
        let start = (part.as_ptr() as usize).checked_sub(text.as_ptr() as usize);
        if let Some(start) = start.filter(|start| start + part.len() <= text.len()) {
            return Span { begin: start, end: start + part.len(), is_decoded: false };
        }
        let start = decoded.len();
        decoded.extend_from_slice(part);
        Span { begin: start, end: decoded.len(), is_decoded: true }
    }
}
