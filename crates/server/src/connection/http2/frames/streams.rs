//! How far the client is with its streams, as far as what it may send on them depends on it (RFC 9113, 5.1).

use std::collections::VecDeque;

use super::super::limits::STREAMS_MAX;

/// So many streams are remembered: those that may be open, and the latest that are not.
const REMEMBERED_MAX: usize = 4 * STREAMS_MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The client has not begun it yet.
    Idle,
    Open,
    /// The client has said that nothing follows.
    Ended,
    Reset,
    /// It was faulty and is reset: what still comes of it is ignored.
    Faulty,
    /// It was skipped, or ended long ago.
    Forgotten,
}

/// The client's streams, by ascending identifier.
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

    /// The client begins `id`, which was idle.
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
