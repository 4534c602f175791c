//! Writes sorted runs to temporary storage, on the caller's thread or on one of its own.

use std::io;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};

use super::{Batch, Record, Scratch};

/// Runs are written in pieces of this size.
const WRITE_BYTES: usize = 1 << 20;

/// Sorted runs in temporary storage, one after the other.
pub struct Runs {
    pub scratch: Box<dyn Scratch>,
    /// The start of each run, and the end of the last one.
    pub bounds: Vec<u64>,
}

impl Runs {
    /// Sorts a batch, writes it as a run and empties it.
    fn write<R: Record>(&mut self, batch: &mut Batch<R>) -> io::Result<()> {
        batch.sort();
        let mut bytes = Vec::with_capacity(WRITE_BYTES);
        for record in &batch.records {
            record.encode(&mut bytes);
            bytes.extend_from_slice(&batch.tails[record.tail()]);
            if bytes.len() >= WRITE_BYTES {
                self.scratch.write_all(&bytes)?;
                bytes.clear();
            }
        }
        self.scratch.write_all(&bytes)?;
        self.bounds.push(self.scratch.stream_position()?);
        batch.clear();
        Ok(())
    }
}

/// Takes full batches, and gives empty ones for them.
pub enum Spiller<R: Record> {
    Here(Runs),
    /// The thread ends with an error, or when it gets no more.
    Thread {
        full: SyncSender<Batch<R>>,
        empty: Receiver<Batch<R>>,
        ending: Option<JoinHandle<io::Result<Runs>>>,
    },
}

impl<R: Record> Spiller<R> {
    pub fn new(scratch: Box<dyn Scratch>, on_a_thread: bool) -> Self {
        let mut runs = Runs { scratch, bounds: vec![0] };
        if !on_a_thread {
            return Spiller::Here(runs);
        }
        // One batch is filled while another one is written.
        let (full, filled) = mpsc::sync_channel::<Batch<R>>(0);
        let (emptied, empty) = mpsc::sync_channel(2);
        emptied.send(Batch::default()).expect("its receiver is here");
        let ending = thread::spawn(move || {
            for mut batch in filled {
                runs.write(&mut batch)?;
                // The caller may have ended.
                let _ = emptied.send(batch);
            }
            Ok(runs)
        });
        Spiller::Thread { full, empty, ending: Some(ending) }
    }

    pub fn spill(&mut self, mut batch: Batch<R>) -> io::Result<Batch<R>> {
        match self {
            Spiller::Here(runs) => runs.write(&mut batch).map(|()| batch),
            Spiller::Thread { full, empty, ending } => {
                match full.send(batch).ok().and_then(|()| empty.recv().ok()) {
                    Some(batch) => Ok(batch),
                    None => Err(ended(ending).err().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into())),
                }
            }
        }
    }

    pub fn finish(self) -> io::Result<Runs> {
        match self {
            Spiller::Here(runs) => Ok(runs),
            Spiller::Thread { full, mut ending, .. } => {
                drop(full);
                ended(&mut ending)
            }
        }
    }
}

/// How the thread ended; its failure was told before if it is asked again.
fn ended(ending: &mut Option<JoinHandle<io::Result<Runs>>>) -> io::Result<Runs> {
    let ending = ending.take().ok_or(io::ErrorKind::BrokenPipe)?;
    ending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
