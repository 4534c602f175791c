//! Reads and parses a log on several threads, ahead of its collector.
//!
//! Each thread cuts the next block off the log, alone, and then parses it beside the others: its text stays with the
//! processor that read it. Of a compressed log, the thread that decompresses does so some blocks ahead, and others take each
//! as soon as it is there: it goes on while they take them, and parses when they have enough. The caller's thread collects
//! the blocks in the log's order, so what it collects does not depend on the number of threads. While none is ready, it
//! parses one itself instead of waiting: on as many processors as threads, each is busy, and threads seldom wake each other.
//! A fixed number of blocks circulates: memory does not grow with the log.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufRead};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::ImportError;
use super::text_blocks::{TextBlock, TextReader};

/// The most threads that parse one log beside the caller's.
pub const PARSERS_MAX: usize = 16;
/// Blocks in circulation for each thread: one at work, others parsed.
const BLOCKS_PER_THREAD: usize = 3;
/// Blocks that are decompressed ahead, the thread's own among them.
const AHEAD: usize = 4;
/// How long the caller waits before it is told that nothing has come, so that it can look for a signal.
const WAIT: Duration = Duration::from_millis(100);

/// Parses blocks of text, one after the other, on a thread of its own.
pub trait BlockParser: Send {
    /// What the lines of a block say.
    type Block: Default + Send;
    /// What the collector keeps of its earlier blocks.
    type Seen: Default;

    /// Replaces what is in `block`.
    fn parse(&mut self, text: &TextBlock, block: &mut Self::Block);
}

/// What the caller is given.
pub enum Parsed<'b, P: BlockParser> {
    /// The next block of the log, and what is kept of those that its parser parsed before.
    Block(&'b P::Block, &'b mut P::Seen),
    /// Nothing has come for a while.
    Nothing,
}

/// A block on its way: its place in the log, and its parser, of which the caller's is 0.
struct Sent<B> {
    number: u64,
    parser: usize,
    block: B,
}

/// The log, of which one thread at a time cuts off a block.
struct Reading<R> {
    reader: TextReader<R>,
    blocks: u64,
    failure: Option<io::Error>,
}

impl<R: BufRead> Reading<R> {
    /// The place of the next block, and its text; `None` at the end.
    fn cut(&mut self, text: &mut TextBlock) -> Option<u64> {
        match self.reader.next(text) {
            Ok(true) => {
                self.blocks += 1;
                Some(self.blocks - 1)
            }
            Ok(false) => None,
            Err(failure) => {
                self.failure = Some(failure);
                None
            }
        }
    }
}

/// Where the threads take their texts.
struct Texts<R> {
    state: Mutex<State<R>>,
    /// Told when a text was cut off, and when its thread cuts no more.
    changed: Condvar,
    /// How many texts the thread that cuts leaves, its own among them, before it stops.
    ahead: usize,
}

struct State<R> {
    /// The log, while no thread cuts.
    reading: Option<Reading<R>>,
    /// Texts that are cut off, in the log's order.
    cut: VecDeque<(u64, TextBlock)>,
    empty: Vec<TextBlock>,
}

/// A thread's turn to cut, which ends even if it panics: others wait for it.
struct Turn<'t, R> {
    texts: &'t Texts<R>,
    reading: Option<Reading<R>>,
}

impl<R> Drop for Turn<'_, R> {
    fn drop(&mut self) {
        locked(&self.texts.state).reading = self.reading.take();
        self.texts.changed.notify_all();
    }
}

impl<R: BufRead> Texts<R> {
    fn new(reader: TextReader<R>) -> Self {
        let ahead = if reader.decompresses() { AHEAD } else { 1 };
        let reading = Some(Reading { reader, blocks: 0, failure: None });
        let state = State { reading, cut: VecDeque::new(), empty: Vec::new() };
        Texts { state: Mutex::new(state), changed: Condvar::new(), ahead }
    }

    /// The place of the next block, and its text; `None` at the end. Places are taken in their order.
    fn take(&self, text: &mut TextBlock) -> Option<u64> {
        let mut state = locked(&self.state);
        let mut turn = loop {
            if let Some((place, cut)) = state.cut.pop_front() {
                state.empty.push(std::mem::replace(text, cut));
                return Some(place);
            }
            match state.reading.take() {
                None => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                reading => break Turn { texts: self, reading },
            }
        };
        drop(state);
        let mut room = std::mem::take(text);
        let mut state = loop {
            let place = turn.reading.as_mut()?.cut(&mut room);
            let mut state = locked(&self.state);
            let Some(place) = place else { break state };
            state.cut.push_back((place, room));
            if state.cut.len() >= self.ahead {
                break state;
            }
            room = state.empty.pop().unwrap_or_default();
            drop(state);
            self.changed.notify_one();
        };
        let (place, cut) = state.cut.pop_front()?;
        *text = cut;
        Some(place)
    }

    /// The error at which reading ended.
    fn into_failure(self) -> Option<io::Error> {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).reading?.failure
    }
}

/// Calls `visit` with every block of the log in its order, parsed by so many threads and the caller's; returns the error at
/// which reading ended.
pub fn for_each<P: BlockParser>(
    reader: TextReader<impl BufRead + Send>,
    threads: usize,
    parser: impl Fn() -> P,
    visit: impl FnMut(Parsed<'_, P>) -> Result<(), ImportError>,
) -> Result<Option<io::Error>, ImportError> {
    let threads = threads.min(PARSERS_MAX);
    let blocks = BLOCKS_PER_THREAD * threads;
    let (give_back, empty) = mpsc::sync_channel(blocks);
    for _ in 0..blocks {
        give_back.send(P::Block::default()).expect("the channel has room for all blocks");
    }
    let (send, parsed) = mpsc::sync_channel(blocks);
    let (empty, texts) = (Mutex::new(empty), Texts::new(reader));
    // Each thread ends when the log does, or when the caller takes no more.
    thread::scope(|scope| {
        for number in 1..=threads {
            let (parser, send, empty, texts) = (parser(), send.clone(), &empty, &texts);
            scope.spawn(move || parse_blocks(number, parser, empty, texts, &send));
        }
        drop(send);
        let collecting = Collecting {
            parser: parser(),
            blocks: (0..BLOCKS_PER_THREAD).map(|_| P::Block::default()).collect(),
            seen: (0..=threads).map(|_| P::Seen::default()).collect(),
            parsed,
            give_back,
            waiting: BTreeMap::new(),
        };
        collecting.in_order(&texts, visit)
    })?;
    Ok(texts.into_failure())
}

fn parse_blocks<P: BlockParser>(
    number: usize,
    mut parser: P,
    empty: &Mutex<Receiver<P::Block>>,
    texts: &Texts<impl BufRead>,
    send: &SyncSender<Sent<P::Block>>,
) {
    let mut text = TextBlock::default();
    loop {
        // Whoever takes a place has a block for it, so the next place never waits for later ones.
        let Ok(mut block) = locked(empty).recv() else { return };
        let Some(place) = texts.take(&mut text) else { return };
        parser.parse(&text, &mut block);
        if send.send(Sent { number: place, parser: number, block }).is_err() {
            return;
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The caller's side.
struct Collecting<P: BlockParser> {
    parser: P,
    /// Empty ones for its own parser.
    blocks: Vec<P::Block>,
    /// Of each parser.
    seen: Vec<P::Seen>,
    parsed: Receiver<Sent<P::Block>>,
    give_back: SyncSender<P::Block>,
    waiting: BTreeMap<u64, Sent<P::Block>>,
}

impl<P: BlockParser> Collecting<P> {
    /// Visits all blocks in the order in which they were cut off.
    fn in_order(
        mut self,
        texts: &Texts<impl BufRead>,
        mut visit: impl FnMut(Parsed<'_, P>) -> Result<(), ImportError>,
    ) -> Result<(), ImportError> {
        let mut text = TextBlock::default();
        let (mut number, mut at_end) = (0, false);
        loop {
            while let Ok(sent) = self.parsed.try_recv() {
                self.waiting.insert(sent.number, sent);
            }
            if let Some(Sent { parser, block, .. }) = self.waiting.remove(&number) {
                visit(Parsed::Block(&block, &mut self.seen[parser]))?;
                number += 1;
                if parser == 0 {
                    self.blocks.push(block);
                } else {
                    // The threads may have ended.
                    let _ = self.give_back.send(block);
                }
                continue;
            }
            if !at_end && let Some(mut block) = self.blocks.pop() {
                if let Some(number) = texts.take(&mut text) {
                    self.parser.parse(&text, &mut block);
                    self.waiting.insert(number, Sent { number, parser: 0, block });
                } else {
                    at_end = true;
                }
                continue;
            }
            match self.parsed.recv_timeout(WAIT) {
                Ok(sent) => drop(self.waiting.insert(sent.number, sent)),
                Err(RecvTimeoutError::Timeout) => visit(Parsed::Nothing)?,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }
}
