//! Reads the sessions of a trace file in a separate thread ahead of the clients, so that no request waits for the disk.
//!
//! The number of requests read and not yet sent is bounded: `BATCHES_AHEAD` batches of `BATCH_REQUESTS` requests with
//! 16 bytes each, and the rest of the longest session.

use std::{
    fs::File,
    io::{BufReader, Seek, SeekFrom},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread::{self, JoinHandle},
    vec::IntoIter,
};

use anyhow::Context;
use sojourn_load::LoggedVisit;
use sojourn_workload::{
    arrivals::{Arrival, Staircase},
    trace::Request,
    trace_file::{Head, Index, IndexedTrace, Place, TraceFileError, TraceReader},
};

use crate::part::Part;

/// A batch is passed on when it has this many requests. Making one takes about 80 µs of the generator's core, during
/// which it stalls. Larger batches would cost the same in fewer, longer stalls, which show in response times.
const BATCH_REQUESTS: usize = 256;
/// The most batches waiting for the clients.
const BATCHES_AHEAD: usize = 1024;
/// The size of one read.
const BUFFER_BYTES: usize = 1 << 20;

/// The visits ordered by connection time.
pub struct ReadAhead {
    batch: IntoIter<LoggedVisit>,
    batches: Receiver<Vec<LoggedVisit>>,
}

pub struct Reading(JoinHandle<Result<(), TraceFileError>>);

/// A part of the sessions from `place` on as logged, with start times divided by `scale`.
pub fn as_logged(
    (mut file, head, place): (File, Head, Place),
    scale: f64,
    part: Part,
) -> anyhow::Result<(ReadAhead, Reading)> {
    start(move |out| {
        file.seek(SeekFrom::Start(place.at_bytes))?;
        let mut trace = TraceReader::resume(BufReader::with_capacity(BUFFER_BYTES, file), head, place);
        let mut requests = Vec::new();
        for session in 0.. {
            let Some(start_ns) = trace.session(&mut requests)? else { break };
            if part.has(session) && !out.send(Arrival::as_logged(session, start_ns, scale), &requests) {
                break;
            }
        }
        Ok(())
    })
}

/// Sessions drawn at random from all, as `staircase` says; `index` is of a scan of the file.
pub fn at_random(
    (file, head, _): (File, Head, Place),
    index: Index,
    staircase: &Staircase,
) -> anyhow::Result<(ReadAhead, Reading)> {
    let mut arrivals = staircase.arrivals_of(IndexedTrace::new(file, head, index))?;
    start(move |out| {
        while let Some(arrival) = arrivals.next().transpose()? {
            let requests = arrivals.templates().requests_of(arrival.session)?;
            if !out.send(arrival, &requests[arrival.first_request as usize..]) {
                break;
            }
        }
        Ok(())
    })
}

/// Starts reading; returns when the first batch is available.
fn start(
    read: impl FnOnce(&mut Sender) -> Result<(), TraceFileError> + Send + 'static,
) -> anyhow::Result<(ReadAhead, Reading)> {
    let (sender, batches) = sync_channel(BATCHES_AHEAD);
    let read = move || {
        let mut sender = Sender { batches: sender, batch: Vec::new(), requests: 0 };
        let ended = read(&mut sender);
        sender.hand_over();
        ended
    };
    let thread = thread::Builder::new().name("read-ahead".into()).spawn(read);
    let thread = thread.context("cannot start the thread that reads the trace")?;
    let first = batches.recv().unwrap_or_default();
    Ok((ReadAhead { batch: first.into_iter(), batches }, Reading(thread)))
}

impl Iterator for ReadAhead {
    type Item = LoggedVisit;

    fn next(&mut self) -> Option<LoggedVisit> {
        loop {
            match self.batch.next() {
                None => self.batch = self.batches.recv().ok()?.into_iter(),
                some => return some,
            }
        }
    }
}

impl Reading {
    /// Fails unless everything requested was read; the clients must have ended.
    pub fn end(self) -> anyhow::Result<()> {
        let ended = self.0.join().map_err(|_| anyhow::anyhow!("the thread that reads the trace panicked"))?;
        Ok(ended?)
    }
}

struct Sender {
    batches: SyncSender<Vec<LoggedVisit>>,
    batch: Vec<LoggedVisit>,
    /// How many the batch holds.
    requests: usize,
}

impl Sender {
    /// Sends a visit; returns false once no client receives any more.
    fn send(&mut self, arrival: Arrival, requests: &[Request]) -> bool {
        let Arrival { connect_ns, start_ns, .. } = arrival;
        self.requests += requests.len();
        self.batch.push(LoggedVisit { connect_ns, start_ns, requests: requests.into() });
        self.requests < BATCH_REQUESTS || self.hand_over()
    }

    fn hand_over(&mut self) -> bool {
        self.requests = 0;
        self.batches.send(std::mem::take(&mut self.batch)).is_ok()
    }
}
