//! Reads and parses a log ahead of its collector, on other threads.
//!
//! Each thread cuts the next block off the log, alone, and then parses it beside the others: its text stays with the
//! processor that read it. The caller's thread gets the blocks in the log's order, so what it collects does not depend on
//! the number of threads. A fixed number of blocks circulates: memory does not grow with the log.

use std::collections::BTreeMap;
use std::io::{self, BufRead};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::ImportError;
use super::parsed_block::{ParsedBlock, Parser, Seen};
use super::text_blocks::{TextBlock, TextReader};

/// The most threads that parse one log.
pub const PARSERS_MAX: usize = 16;
/// Blocks in circulation for each thread: one at work, others parsed.
const BLOCKS_PER_THREAD: usize = 3;
/// How long the caller waits before it is told that nothing has come, so that it can look for a signal.
const WAIT: Duration = Duration::from_millis(100);

/// What the caller is given.
pub enum Parsed<'b> {
    /// The next block of the log, and what its parser has told before.
    Block(&'b ParsedBlock, &'b mut Seen),
    /// Nothing has come for a while.
    Nothing,
}

/// A block on its way: its place in the log, and that of its parser.
struct Sent {
    number: u64,
    parser: usize,
    block: ParsedBlock,
}

/// The log, of which one thread at a time cuts off a block.
struct Reading<R> {
    reader: TextReader<R>,
    blocks: u64,
    failure: Option<io::Error>,
}

/// Calls `visit` with every block of the log in its order, parsed by other threads; returns the error at which reading
/// ended.
pub fn for_each(
    reader: TextReader<impl BufRead + Send>,
    parsers: Vec<Parser>,
    mut visit: impl FnMut(Parsed<'_>) -> Result<(), ImportError>,
) -> Result<Option<io::Error>, ImportError> {
    let mut seen: Vec<Seen> = parsers.iter().map(|_| Seen::default()).collect();
    let blocks = BLOCKS_PER_THREAD * parsers.len();
    let (give_back, empty) = mpsc::sync_channel(blocks);
    for _ in 0..blocks {
        give_back.send(ParsedBlock::default()).expect("the channel has room for all blocks");
    }
    let (send, parsed) = mpsc::sync_channel(blocks);
    let (empty, reading) = (Mutex::new(empty), Mutex::new(Reading { reader, blocks: 0, failure: None }));
    // Each thread ends when the log does, or when the caller takes no more.
    thread::scope(|scope| {
        for (number, parser) in parsers.into_iter().enumerate() {
            let (send, empty, reading) = (send.clone(), &empty, &reading);
            scope.spawn(move || parse_blocks(number, parser, empty, reading, &send));
        }
        drop(send);
        let visited = in_order(&parsed, &give_back, &mut seen, &mut visit);
        drop((parsed, give_back));
        visited
    })?;
    Ok(reading.into_inner().unwrap_or_else(PoisonError::into_inner).failure)
}

fn parse_blocks(
    number: usize,
    mut parser: Parser,
    empty: &Mutex<Receiver<ParsedBlock>>,
    reading: &Mutex<Reading<impl BufRead>>,
    send: &SyncSender<Sent>,
) {
    let mut text = TextBlock::default();
    loop {
        // Whoever takes a number has a block for it, so the next number never waits for later ones.
        let Ok(mut block) = locked(empty).recv() else { return };
        let place = {
            let mut reading = locked(reading);
            match reading.reader.next(&mut text) {
                Ok(true) => {}
                Ok(false) => return,
                Err(failure) => {
                    reading.failure = Some(failure);
                    return;
                }
            }
            reading.blocks += 1;
            reading.blocks - 1
        };
        parser.parse(&text, &mut block);
        if send.send(Sent { number: place, parser: number, block }).is_err() {
            return;
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Visits all blocks in the order in which they were cut off.
fn in_order(
    parsed: &Receiver<Sent>,
    give_back: &SyncSender<ParsedBlock>,
    seen: &mut [Seen],
    visit: &mut impl FnMut(Parsed<'_>) -> Result<(), ImportError>,
) -> Result<(), ImportError> {
    let mut waiting = BTreeMap::new();
    let mut number = 0;
    loop {
        match parsed.recv_timeout(WAIT) {
            Ok(sent) => drop(waiting.insert(sent.number, sent)),
            Err(RecvTimeoutError::Timeout) => visit(Parsed::Nothing)?,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        while let Some(Sent { parser, block, .. }) = waiting.remove(&number) {
            visit(Parsed::Block(&block, &mut seen[parser]))?;
            number += 1;
            // The threads may have ended.
            let _ = give_back.send(block);
        }
    }
}
