//! The states of the client's streams, as far as they decide what it may send (RFC 9113, 5.1).

use std::collections::VecDeque;

use super::super::limits::STREAMS_MAX;

/// How many streams are remembered: all that may be open, and the latest closed ones.
const REMEMBERED_MAX: usize = 4 * STREAMS_MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Not started yet.
    Idle,
    Open,
    /// The client has ended it (END_STREAM).
    Ended,
    Reset,
    /// Reset because of an error; further frames on it are ignored.
    Faulty,
    /// Skipped, or closed long ago.
    Forgotten,
}

/// The client's streams in ascending order.
#[derive(Debug, Default)]
pub struct Streams {
    last: u32,
    known: VecDeque<(u32, Progress)>,
}

impl Streams {
    pub fn progress(&self, id: u32) -> Progress {
        match self.place(id) {
            Some(place) => self.known[place].1,
            None if id > self.last || id.is_multiple_of(2) => Progress::Idle,
            None => Progress::Forgotten,
        }
    }

    /// The client starts `id`, which was idle.
    pub fn begin(&mut self, id: u32) {
        self.last = id;
        if self.known.len() == REMEMBERED_MAX {
            self.known.pop_front();
        }
        self.known.push_back((id, Progress::Open));
    }

    pub fn set(&mut self, id: u32, progress: Progress) {
        if let Some(place) = self.place(id) {
            self.known[place].1 = progress;
        }
    }

    fn place(&self, id: u32) -> Option<usize> {
        self.known.binary_search_by_key(&id, |(other, _)| *other).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_idle_to_forgotten() {
        let mut streams = Streams::default();
        assert_eq!(streams.progress(1), Progress::Idle);
        streams.begin(5);
        assert_eq!(
            [1, 5, 7].map(|id| streams.progress(id)),
            [Progress::Forgotten, Progress::Open, Progress::Idle]
        );
        assert_eq!(streams.progress(2), Progress::Idle, "never a client's");
        streams.set(5, Progress::Ended);
        assert_eq!(streams.progress(5), Progress::Ended);
        (0..REMEMBERED_MAX as u32).for_each(|count| streams.begin(7 + 2 * count));
        assert_eq!((streams.progress(5), streams.known.len()), (Progress::Forgotten, REMEMBERED_MAX));
    }
}
